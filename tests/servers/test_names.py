"""Addresses and model names; the values expected are those of Ollama's own client and name parser."""

from __future__ import annotations

import pytest

from templatefix.servers.host import base_url, is_local
from templatefix.servers.names import ModelName


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("1.2.3.4", "http://1.2.3.4:11434"),
        (":1234", "http://127.0.0.1:1234"),
        ("1.2.3.4:5678", "http://1.2.3.4:5678"),
        ("example.com", "http://example.com:11434"),
        ("http://example.com", "http://example.com:80"),
        ("https://example.com", "https://example.com:443"),
        ("https://example.com:8443", "https://example.com:8443"),
        ("http://example.com:80/x", "http://example.com:80/x"),
        ("https://example.com/a/b/", "https://example.com:443/a/b"),
        ("example.com/path", "http://example.com:11434/path"),
        ("example.com/a b", "http://example.com:11434/a%20b"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:99", "http://127.0.0.1:99"),
        ("[::]:5", "http://[::1]:5"),
        ("::1", "http://[::1]:11434"),
        ("[::1]", "http://[::1]:11434"),
        ("[::1]:1", "http://[::1]:1"),
        ("http://[2001:db8::1]:9/z", "http://[2001:db8::1]:9/z"),
        ("example.com:99999", "http://example.com:11434"),
        ("example.com:abc", "http://example.com:11434"),
        ("example.com:", "http://example.com:11434"),
        ("'1.2.3.4:5'", "http://1.2.3.4:5"),
        (' "host" ', "http://host:11434"),
        ("ollama.com", "https://ollama.com:443"),
        ("http://", "http://127.0.0.1:80"),
    ],
)
def test_every_form_of_an_address(value: str, url: str) -> None:
    assert base_url(value) == url


@pytest.mark.parametrize("value", ["ftp://x", "user@host", "a host"])
def test_what_is_no_address_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="OLLAMA_HOST"):
        base_url(value)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:1", True),
        ("http://localhost:1/x", True),
        ("http://[::1]:1", True),
        ("http://10.0.0.1:1", False),
        ("https://example.com:443", False),
    ],
)
def test_this_machine_is_known_by_a_loopback_address(url: str, expected: bool) -> None:
    assert is_local(url) is expected


@pytest.mark.parametrize(
    ("text", "shortest"),
    [
        ("llama3.1", "llama3.1:latest"),
        ("llama3.1:8b", "llama3.1:8b"),
        ("library/llama3.1:8b", "llama3.1:8b"),
        ("me/Model:Tag", "me/Model:Tag"),
        ("registry.ollama.ai/library/m:1", "m:1"),
        ("127.0.0.1:5055/me/m:8b", "127.0.0.1:5055/me/m:8b"),
        ("example.com/library/m", "example.com/library/m:latest"),
    ],
)
def test_names_are_filled_in(text: str, shortest: str) -> None:
    assert ModelName.parse(text).shortest == shortest


@pytest.mark.parametrize(
    "text", ["", "Bad Name!", "m:", ":8b", "/m", "a.b/m", "-m", "http://example.com", "m:" + "x" * 81]
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a model name"):
        ModelName.parse(text)


def test_the_variants_name_fits() -> None:
    assert ModelName.parse("llama3.1:8b").variant == "llama3.1:8b-prefix-stable"
    assert ModelName.parse("me/m").variant == "me/m:latest-prefix-stable"
    long = ModelName.parse("m:" + "x" * 80)
    assert len(ModelName.parse(long.variant).tag) == 80
    assert long.variant.endswith("-prefix-stable")
