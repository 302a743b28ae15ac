"""Which addresses a page may be fetched from: public ones, and those that the YAML allows. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final, NamedTuple

_TRANSLATED: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("::ffff:0:0:0/96"))
_PUBLIC_IPV6: Final = IPv6Network("2000::/3")
"""All that is given out for machines (RFC 4291, IANA's registry); what ``ipaddress`` says of the rest differs between
versions of Python."""
_NOT_PUBLIC: Final = (
    IPv4Network("192.0.0.0/24"),
    IPv4Network("168.63.129.16/32"),
    IPv6Network("3fff::/20"),
)
"""What ``ipaddress`` does not know everywhere: addresses for protocols (one cloud's metadata among them), another
cloud's own service, which is in a public range, and examples."""
_COMPATIBLE: Final = IPv6Network("::/96")
_WITH_PORT: Final = re.compile(r"\[?(?P<host>[0-9A-Fa-f.:]+?)\]?:(?P<port>\d{1,5})")


class Allowed(NamedTuple):
    """Addresses that may be connected to though they are not public; no port means any."""

    network: IPv4Network | IPv6Network
    port: int | None = None


def parse_allowed(text: str) -> Allowed:
    """``10.1.0.0/16``, ``192.168.1.5`` or ``127.0.0.1:8080``.

    Raises:
        ValueError: it is none of these.
    """
    bracketed = text.startswith("[") or text.count(":") == 1
    found = _WITH_PORT.fullmatch(text) if bracketed else None
    if found is None:
        return Allowed(ip_network(text, strict=False))
    return Allowed(ip_network(found["host"]), int(found["port"]))


def refusal(address: str, port: int, allowed: Sequence[Allowed]) -> str | None:
    """Why ``address`` is not connected to; None when it may be.

    An address that carries another (IPv4 in IPv6, however it is wrapped) is as public as the one it carries.
    """
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return f"{address} is no address"
    for each in _carried(ip):
        if any(
            each in one.network and one.port in (None, port)
            for one in allowed
            if one.network.version == each.version
        ):
            continue
        kind = _kind(each)
        if kind is not None:
            return f"{address} is {kind}"
    return None


def _carried(ip: IPv4Address | IPv6Address) -> Iterator[IPv4Address | IPv6Address]:
    """What decides: the IPv4 addresses that an IPv6 one stands for, else the address itself."""
    if isinstance(ip, IPv4Address):
        yield ip
        return
    inner: list[IPv4Address] = [each for each in (ip.ipv4_mapped, ip.sixtofour) if each is not None]
    if ip.teredo is not None:
        inner += ip.teredo
    if any(ip in network for network in _TRANSLATED) or (ip in _COMPATIBLE and int(ip) > 0xFFFF):
        inner.append(IPv4Address(int(ip) & 0xFFFFFFFF))
    if inner:
        yield from inner
    else:
        yield ip


def _kind(ip: IPv4Address | IPv6Address) -> str | None:
    if ip.is_loopback:
        return "this machine itself"
    if ip.is_link_local:
        return "a link-local address, where clouds keep their metadata"
    if ip.is_multicast:
        return "a multicast address"
    if ip.is_unspecified:
        return "no address of a machine"
    if any(ip in network for network in _NOT_PUBLIC if network.version == ip.version):
        return "not a public address"
    if isinstance(ip, IPv6Address) and ip not in _PUBLIC_IPV6:
        return "not a public address"
    return None if ip.is_global else "not a public address"
