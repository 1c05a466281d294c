"""Colours of a terminal, or none."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Style:
    """Wraps words in colours where they are wanted."""

    coloured: bool = False

    def bold(self, text: str) -> str:
        """What matters most."""
        return self._wrapped("1", text)

    def bad(self, text: str) -> str:
        """What is wrong, or goes away."""
        return self._wrapped("31", text)

    def good(self, text: str) -> str:
        """What is right, or is added."""
        return self._wrapped("32", text)

    def warn(self, text: str) -> str:
        """What deserves a look."""
        return self._wrapped("33", text)

    def faint(self, text: str) -> str:
        """What is there for orientation."""
        return self._wrapped("2", text)

    def _wrapped(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.coloured and text else text


PLAIN = Style()
