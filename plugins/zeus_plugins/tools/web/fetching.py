"""Fetching of one page: each redirect is checked, and time, bytes and decompressed size are limited."""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

import httpcore

from zeus_plugins.tools.web.addresses import parse_allowed
from zeus_plugins.tools.web.connecting import CheckedNetwork, Resolve, system_addresses
from zeus_plugins.tools.web.urls import WebError, redirected, target

if TYPE_CHECKING:
    from zeus_plugins.tools.web.options import Options

_REDIRECTS: Final = (301, 302, 303, 307, 308)
_ACCEPT: Final = (
    "text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.9, application/pdf;q=0.8, */*;q=0.1"
)
_WINDOW: Final = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


@dataclass(frozen=True)
class Fetched:
    """A fetched page.

    Args:
        url: the page's address after all redirects.
        status: the HTTP status.
        content_type: the server's header, parameters included.
        data: the decompressed body, or its beginning.
        whole: whether ``data`` is the whole body.
    """

    url: str
    status: int
    content_type: str
    data: bytes
    whole: bool


async def _follows(_: str) -> None:
    """No objection."""


async def fetch(
    url: str,
    options: Options,
    *,
    resolve: Resolve = system_addresses,
    objection: Callable[[str], Awaitable[str | None]] = _follows,
) -> Fetched:
    """The page at ``url``.

    Args:
        objection: why the address of a redirect may not be asked; None if it may.

    Raises:
        WebError: the page must not or cannot be fetched, with the reason.
    """
    network = CheckedNetwork([parse_allowed(each) for each in options.allow_private], resolve)
    headers = [
        ("User-Agent", options.user_agent),
        ("Accept", _ACCEPT),
        ("Accept-Encoding", "gzip, deflate"),
    ]
    place = url
    try:
        async with (
            asyncio.timeout(options.timeout_seconds),
            httpcore.AsyncConnectionPool(ssl_context=_trusted(), network_backend=network) as pool,
        ):
            for _ in range(options.max_redirects + 1):
                # For each redirect anew: an allowed host may lead to a forbidden one.
                at = target(place, allow=options.allow_hosts, deny=options.deny_hosts)
                async with pool.stream("GET", at.url, headers=headers) as response:
                    given = {
                        name.decode("latin-1").lower(): _header(value) for name, value in response.headers
                    }
                    if response.status in _REDIRECTS and given.get("location"):
                        place = target(
                            redirected(at.url, given["location"]),
                            allow=options.allow_hosts,
                            deny=options.deny_hosts,
                        ).url
                        if why := await objection(place):
                            raise WebError(
                                f"{at.url} redirects to {place}, which was not fetched: {why}",
                                remedy="If that address is needed and allowed, call web_fetch with it.",
                            )
                        continue
                    data, whole = await _body(response.aiter_stream(), given, options.max_bytes)
                    return Fetched(at.url, response.status, given.get("content-type", ""), data, whole)
    except TimeoutError:
        raise WebError(f"{place} did not answer within {options.timeout_seconds:g} seconds") from None
    except (
        httpcore.NetworkError,
        httpcore.TimeoutException,
        httpcore.ProtocolError,
        ssl.SSLError,
        OSError,
    ) as error:
        raise WebError(f"{place} cannot be fetched: {str(error) or type(error).__name__}") from None
    raise WebError(f"{url} redirects too often: more than {options.max_redirects} redirects")


async def _body(
    stream: AsyncIterator[bytes], headers: Mapping[str, str], max_bytes: int
) -> tuple[bytes, bool]:
    """At most ``max_bytes`` of the decompressed body, and whether that is all of it."""
    encoding = headers.get("content-encoding", "identity").strip().lower() or "identity"
    if encoding != "identity" and encoding not in _WINDOW:
        raise WebError(f"the server sent the content encoding {encoding}, which Zeus did not offer")
    unpack = None if encoding == "identity" else _Unpack(encoding)
    data = bytearray()
    async for piece in stream:
        room = max_bytes - len(data)
        # One byte more than there is room for tells that the body continues; a small piece may unpack to gigabytes.
        more = piece if unpack is None else unpack(piece, room + 1)
        data += more[:room]
        if len(more) > room:
            return bytes(data), False
    if unpack is not None and not unpack.is_whole:
        raise WebError("the server's answer is incomplete: it ends too early")
    return bytes(data), True


_MEMBER: Final = b"\x1f"
"""The first byte of a gzip file."""


class _Unpack:
    """Decompresses a body piece by piece.

    Args:
        encoding: one of ``_WINDOW``.
    """

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._member = zlib.decompressobj(_WINDOW[encoding])
        self._begun = False

    @property
    def is_whole(self) -> bool:
        """Whether the compressed data ended correctly."""
        return self._member.eof or not self._begun

    def __call__(self, piece: bytes, most: int) -> bytes:
        """At most ``most`` decompressed bytes of ``piece``.

        Raises:
            WebError: ``piece`` does not have the encoding.
        """
        given = bytearray()
        while piece and len(given) < most:
            if self._member.eof:
                if "gzip" not in self._encoding or not piece.startswith(_MEMBER):
                    break  # padding or other data after the end, which browsers ignore too
                # Several gzip files in a row are one (RFC 1952, 2.2).
                self._member = zlib.decompressobj(_WINDOW[self._encoding])
            try:
                given += self._member.decompress(piece, most - len(given))
            except zlib.error:
                if self._begun or self._encoding != "deflate":
                    raise WebError("the server's answer cannot be decompressed") from None
                # Some servers send raw deflate data, without the zlib header.
                self._member = zlib.decompressobj(-zlib.MAX_WBITS)
                given += self._decompressed(piece, most)
            self._begun = True
            piece = self._member.unused_data
        return bytes(given)

    def _decompressed(self, piece: bytes, most: int) -> bytes:
        try:
            return self._member.decompress(piece, most)
        except zlib.error:
            raise WebError("the server's answer cannot be decompressed") from None


def _header(value: bytes) -> str:
    """A header's text. It may be UTF-8: some servers put non-ASCII letters into addresses."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


@cache
def _trusted() -> ssl.SSLContext:
    """A TLS context with the certificates that the system trusts."""
    return ssl.create_default_context()
