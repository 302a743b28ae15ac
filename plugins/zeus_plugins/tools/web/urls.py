"""The URLs that may be fetched, judged before any network access. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv6Address
from socket import inet_aton, inet_ntoa
from typing import Final, NamedTuple
from urllib.parse import quote, urldefrag, urljoin, urlsplit, urlunsplit

from zeus_runtime.plugin import ZeusError

_PORTS = {"http": 80, "https": 443}
_NAME: Final = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")
_IPV4: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
"""A name that is an IPv4 address or nothing, since its last part is a number (URL standard, "ends in a number")."""
_FULL: Final = "Give the full address, such as https://example.com/page."
_PLAIN: Final = (
    "A name has letters, digits, - and _ between dots; an IP address is like 192.0.2.1 or [2001:db8::1]."
)


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
        path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
        query = quote(parts.query, safe="/%:@!$&'()*+,;=~-._?")
    except ValueError:
        raise WebError("this is not a web address", remedy=_FULL) from None
    if parts.scheme not in _PORTS:
        raise WebError(
            f"only http and https are fetched, not {parts.scheme or 'an address without https://'}",
            remedy=_FULL,
        )
    if not parts.hostname:
        raise WebError("the address has no host", remedy=_FULL)
    if parts.username is not None or parts.password is not None:
        raise WebError("an address with a user name or password is not fetched", remedy="Leave them out.")
    written = f"[{parts.hostname}]" if "[" in parts.netloc else parts.hostname
    try:
        host = host_name(written)
    except ValueError:
        raise WebError(f"{written!r} is not the name of a host", remedy=_PLAIN) from None
    if any(matches(host, pattern) for pattern in deny):
        raise WebError(f"fetching from {host} is forbidden (deny_hosts)")
    if allow is not None and not any(matches(host, pattern) for pattern in allow):
        raise WebError(f"fetching from {host} is not allowed (allow_hosts)")
    shown = f"[{host}]" if ":" in host else host
    place = shown if port == _PORTS[parts.scheme] else f"{shown}:{port}"
    return Target(urlunsplit((parts.scheme, place, path, query, "")), host, port)


def host_name(written: str) -> str:
    """The one spelling of a host: its name in the ASCII of DNS, or its IP address as libraries write it.

    Rules compare this spelling, and the connection is made to it. Without it they would mean different hosts: a
    resolver reads ``ev\\il`` as ``evil``, and a number or ``::ffff:…`` as an IPv4 address.

    Raises:
        ValueError: ``written`` is neither. Nothing is decoded or guessed.
    """
    if ":" in written or written.startswith("["):
        address = IPv6Address(written.removeprefix("[").removesuffix("]"))
        if address.scope_id is not None:
            raise ValueError(f"{written!r} is not the name of a host")
        return str(address.ipv4_mapped or address)
    # `example.com.` is the same host.
    name = _on_the_wire(written).lower().removesuffix(".")
    if not _NAME.fullmatch(name):
        raise ValueError(f"{written!r} is not the name of a host")
    if not _IPV4.fullmatch(name):
        return name
    try:
        return inet_ntoa(inet_aton(name))
    except OSError:
        raise ValueError(f"{written!r} is not the name of a host") from None


def matches(host: str, pattern: str) -> bool:
    """Whether a host is the one that a pattern names, or is below it if the pattern begins with ``*.``."""
    if pattern == "*":
        return True
    host, name = host_name(host), host_name(pattern.removeprefix("*."))
    return host.endswith(f".{name}") if pattern.startswith("*.") else host == name


def pattern_problem(pattern: str) -> str | None:
    """The reason why ``pattern`` can match no host at all; None if it can."""
    if pattern == "*":
        return None
    if "/" in pattern or "@" in pattern:
        return "this is an address, not a host"
    written = pattern.removeprefix("*.")
    if "*" in written:
        return "a * is allowed only at the beginning, for all hosts below a name"
    try:
        name = host_name(written)
    except ValueError:
        return "write a host without its port" if ":" in written else "this is not a host"
    is_ip = ":" in name or _IPV4.fullmatch(name)
    return "no host is below an IP address" if is_ip and written != pattern else None


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
