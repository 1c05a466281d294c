"""The address in OLLAMA_HOST, read as Ollama's own client reads it."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import quote

_PORTS = {"http": "80", "https": "443"}
_HOST = re.compile(r"[\w.%:-]*")
_NUMBER = re.compile(r"[+-]?[0-9]+")


def base_url(value: str) -> str:
    """The URL of a server, without a slash at its end, from a value of OLLAMA_HOST.

    Scheme, host, port and path may each be missing: `http`, `127.0.0.1`, 11434 (80 and 443 where a scheme is given)
    and nothing. A port that is none gives way to the default one; an address to listen on stands for the loopback.
    Raises ValueError for a scheme that is not spoken here and for what cannot be a host.
    """
    text = value.strip().strip("\"'").strip()
    scheme, marked, rest = text.partition("://")
    if not marked:
        scheme, rest = ("https", "ollama.com:443") if text == "ollama.com" else ("http", text)
    port = _PORTS.get(scheme, "11434") if marked else "11434"
    if scheme.lower() not in _PORTS:
        raise ValueError(f"OLLAMA_HOST has the scheme {scheme!r}; only http and https can be used")
    address, _, path = rest.partition("/")
    host, given = _split(address)
    if not _HOST.fullmatch(host):
        raise ValueError(f"OLLAMA_HOST names no host: {value!r}")
    if given is not None and _NUMBER.fullmatch(given) and 0 <= int(given) <= 65535:
        port = str(int(given))
    tail = quote(path.strip("/"), safe="/%:@!$&'()*+,;=~-._")
    return f"{scheme.lower()}://{_connectable(host)}:{port}" + (f"/{tail}" if tail else "")


def is_local(url: str) -> bool:
    """Whether a base URL names this very machine by a loopback address."""
    host = url.partition("://")[2].partition("/")[0].rpartition(":")[0]
    address = _address(host.strip("[]"))
    return host == "localhost" or (address is not None and address.is_loopback)


def _split(address: str) -> tuple[str, str | None]:
    # Host and port, as Go's net.SplitHostPort; where it fails, all of it is the host.
    if address.startswith("["):
        host, closed, rest = address[1:].partition("]")
        if closed and rest.startswith(":") and ":" not in rest[1:]:
            return host, rest[1:]
    elif address.count(":") == 1:
        host, _, port = address.partition(":")
        return host, port
    bare = address.strip("[]")
    return (bare if _address(bare) is not None else address) or "127.0.0.1", None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _connectable(host: str) -> str:
    address = _address(host)
    if not host or (address is not None and address.is_unspecified):
        host = "::1" if address is not None and address.version == 6 else "127.0.0.1"
    return f"[{host}]" if ":" in host else host
