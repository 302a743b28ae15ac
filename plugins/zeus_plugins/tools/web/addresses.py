"""The addresses that pages may be fetched from: public ones, and those that the YAML allows. Pure."""

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
"""All IPv6 addresses that are assigned to machines (RFC 4291, IANA's registry). For other addresses, the answers of
``ipaddress`` differ between versions of Python."""
_NOT_PUBLIC: Final = (
    IPv4Network("192.0.0.0/24"),
    IPv4Network("168.63.129.16/32"),
    IPv6Network("3fff::/20"),
)
"""Networks that ``ipaddress`` calls public in some or all versions of Python: addresses for protocols (among them one
cloud's metadata), another cloud's internal service, which is in a public range, and addresses for documentation."""
_COMPATIBLE: Final = IPv6Network("::/96")
_WITH_PORT: Final = re.compile(r"\[?(?P<host>[0-9A-Fa-f.:]+?)\]?:(?P<port>\d{1,5})")


class Allowed(NamedTuple):
    """Addresses that Zeus may connect to although they are not public; ``port`` None means any port."""

    network: IPv4Network | IPv6Network
    port: int | None = None


def parse_allowed(text: str) -> Allowed:
    """Parse an allowed address: ``10.1.0.0/16``, ``192.168.1.5`` or ``127.0.0.1:8080``.

    Raises:
        ValueError: ``text`` has none of these forms.
    """
    # An IPv6 address without brackets has no port: `::1:80` is an address.
    bracketed = text.startswith("[") or text.count(":") == 1
    found = _WITH_PORT.fullmatch(text) if bracketed else None
    if found is None:
        return Allowed(ip_network(text, strict=False))
    return Allowed(ip_network(found["host"]), int(found["port"]))


def refusal(address: str, port: int, allowed: Sequence[Allowed]) -> str | None:
    """The reason why Zeus must not connect to ``address``; None if it may.

    If an IPv6 address contains an IPv4 address, in whatever form, the rules apply to the IPv4 address.
    """
    try:
        # A link-local address may end in its interface: `fe80::1%eth0`.
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return f"{address} is not an IP address"
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
    """The addresses to judge: the IPv4 addresses contained in an IPv6 address, else the address itself."""
    if isinstance(ip, IPv4Address):
        yield ip
        return
    inner: list[IPv4Address] = [each for each in (ip.ipv4_mapped, ip.sixtofour) if each is not None]
    if ip.teredo is not None:
        inner += ip.teredo
    # `::` and `::1` are IPv6 addresses; only greater ones can be IPv4 addresses in their old form.
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
        return "the unspecified address"
    if any(ip in network for network in _NOT_PUBLIC if network.version == ip.version):
        return "not a public address"
    if isinstance(ip, IPv6Address) and ip not in _PUBLIC_IPV6:
        return "not a public address"
    return None if ip.is_global else "not a public address"
