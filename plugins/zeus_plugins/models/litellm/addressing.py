"""The address and the headers of requests: which of them HTTP takes. Pure, and no message shows a value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit

if TYPE_CHECKING:
    from zeus_plugins.models.litellm.options import Options
    from zeus_runtime.plugin import Misfit

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A header's name (RFC 9110, section 5.6.2)."""
_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
"""A header's value (RFC 9110, section 5.5), of ASCII alone: httpx encodes it so."""


def split_address(base: str) -> SplitResult | None:
    """Return the parts of an address; None if it is not one, such as ``http://[::1``."""
    try:
        parts = urlsplit(base)
        # Read here, because a wrong port raises where it is read.
        _ = parts.port
    except ValueError:
        return None
    return parts


def address_fault(base: str) -> str | None:
    """Return why no request can be sent to an address; None if one can."""
    parts = split_address(base)
    if parts is None:
        return "it is not a URL"
    if parts.scheme not in ("http", "https"):
        return "it does not begin with http:// or https://"
    return None if parts.hostname else "it names no host"


def header_fault(name: str, value: str) -> str | None:
    """Return why a header cannot be sent; None if it can. White space around the value is not part of it."""
    if not _TOKEN.fullmatch(name):
        return "no header can have this name"
    if not _VALUE.fullmatch(value.strip()):
        return "its value has a line break, a control character or one outside ASCII"
    return None


def misfits_of(options: Options) -> Iterator[Misfit]:
    """Report an address, a key and headers that no request can have."""
    from zeus_runtime.plugin import Misfit

    if options.api_base and (why := address_fault(options.api_base)):
        yield Misfit(("api_base",), f"no request can be sent to this address: {why}", _ADDRESS)
    key = "" if options.api_key is None else options.api_key.reveal()
    if header_fault("authorization", key):
        yield Misfit(
            ("api_key",), "the key has a line break, a control character or one outside ASCII", _PLAIN
        )
    for name, value in options.headers.items():
        if why := header_fault(name, value):
            yield Misfit(("headers", name), f"the header cannot be sent: {why}", _PLAIN)


def sent_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers without white space around their values: a secret in a mounted file often ends with a newline."""
    return {name: value.strip() for name, value in headers.items()}


_ADDRESS: Final = "write the server's address, such as http://localhost:8000/v1"
_PLAIN: Final = "write plain ASCII in one line"
