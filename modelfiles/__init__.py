"""Sample Modelfiles, one a family's layout, in words of this project; `templatefix demo` shows one of them."""
