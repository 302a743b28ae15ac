"""The URLs that may be fetched, judged before any network access. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv6Address
from typing import NamedTuple
from urllib.parse import quote, urldefrag, urljoin, urlsplit, urlunsplit

from zeus_runtime.plugin import ZeusError

_PORTS = {"http": 80, "https": 443}


class WebError(ZeusError):
    """A page cannot or must not be fetched; written to be read by the model."""

    code = "web"


class Target(NamedTuple):
    """A URL that may be fetched, in the form that the server gets."""

    url: str
    host: str
    port: int


def target(url: str, *, allow: Sequence[str] | None, deny: Sequence[str]) -> Target:
    """The target of ``url``, if it may be fetched.

    Raises:
        WebError: ``url`` is not a web address, or its host is not allowed.
    """
    try:
        parts = urlsplit(urldefrag(url.strip()).url)
        port = _PORTS.get(parts.scheme, 0) if parts.port is None else parts.port
        # `example.com.` is the same host, and a rule for `example.com` must hold for it.
        host = (parts.hostname or "").rstrip(".")
        ascii_host = host if ":" in host else _on_the_wire(host)
        path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
        query = quote(parts.query, safe="/%:@!$&'()*+,;=~-._?")
    except ValueError:
        raise WebError(
            "this is not a web address", remedy="Give the full address, such as https://example.com/page."
        ) from None
    if parts.scheme not in _PORTS:
        raise WebError(
            f"only http and https are fetched, not {parts.scheme or 'an address without https://'}",
            remedy="Give the full address, such as https://example.com/page.",
        )
    if not ascii_host:
        raise WebError(
            "the address has no host", remedy="Give the full address, such as https://example.com/page."
        )
    if parts.username is not None or parts.password is not None:
        raise WebError("an address with a user name or password is not fetched", remedy="Leave them out.")
    if any(matches(ascii_host, pattern) for pattern in deny):
        raise WebError(f"fetching from {ascii_host} is forbidden (deny_hosts)")
    if allow is not None and not any(matches(ascii_host, pattern) for pattern in allow):
        raise WebError(f"fetching from {ascii_host} is not allowed (allow_hosts)")
    shown = f"[{ascii_host}]" if ":" in ascii_host else ascii_host
    place = shown if port == _PORTS[parts.scheme] else f"{shown}:{port}"
    return Target(urlunsplit((parts.scheme, place, path, query, "")), ascii_host, port)


def matches(host: str, pattern: str) -> bool:
    """Whether a host is the one that a pattern names, or is below it if the pattern begins with ``*.``."""
    host, pattern = host.lower().rstrip("."), _ascii(pattern)
    if pattern == "*":
        return True
    if pattern.startswith("*."):
        return host.endswith(pattern[1:])
    return host == pattern


def pattern_problem(pattern: str) -> str | None:
    """The reason why ``pattern`` can match no host at all; None if it can."""
    if not pattern.strip("*."):
        return None if pattern == "*" else "this is not a host"
    if "/" in pattern or "@" in pattern:
        return "this is an address, not a host"
    name = pattern.removeprefix("*.")
    if "*" in name:
        return "a * is allowed only at the beginning, for all hosts below a name"
    if ":" in name:
        return None if _is_ipv6(name) else "write a host without its port"
    try:
        _ascii(pattern)
    except UnicodeError:
        return "this is not a host"
    return "this is not a host" if any(letter.isspace() for letter in name) else None


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def _ascii(pattern: str) -> str:
    """A pattern in the form that hosts are compared with: lower case, non-ASCII letters in the encoding of DNS."""
    star, _, name = pattern.lower().rstrip(".").rpartition("*.")
    if ":" not in name:
        name = _on_the_wire(name).lower()
    return f"*.{name}" if star or pattern.startswith("*.") else name


def _on_the_wire(host: str) -> str:
    """A host's name in ASCII, as browsers encode it. Python's codec turns faß.de into fass.de, a different host.

    Raises:
        UnicodeError: ``host`` is not a valid name.
    """
    if not host.isascii():
        from idna import IDNAError, encode

        with suppress(IDNAError):  # such as emoji, which only the older rules allow
            return encode(host, uts46=True).decode("ascii")
    return host.encode("idna").decode("ascii")


def redirected(base: str, location: str) -> str:
    """The URL that a redirect from ``base`` leads to.

    Raises:
        WebError: ``location`` is not an address.
    """
    try:
        return urljoin(base, location)
    except ValueError:
        raise WebError(f"{base} redirects to an invalid web address") from None
