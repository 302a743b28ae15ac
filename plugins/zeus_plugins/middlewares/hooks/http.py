"""Asks a hook at an address."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx

from zeus_plugins.middlewares.hooks.answers import MOST_BYTES, HookFailedError
from zeus_runtime.plugin import cut_text, spare

_READ_BYTES = 64_000
"""Of the body of an error."""
_DETAIL = 1_000
"""Characters of it that are shown."""


def client() -> httpx.AsyncClient:
    """Return a client for the hooks of one run; it follows no redirect, since only the config's address is allowed."""
    return httpx.AsyncClient(timeout=None, follow_redirects=False)


async def answer_at(
    client: httpx.AsyncClient, url: str, headers: Mapping[str, str], given: bytes, *, seconds: float
) -> bytes:
    """Send JSON to an address and return its answer.

    Args:
        given: the JSON.
        seconds: the time limit of the whole.

    Raises:
        HookFailedError: it could not be reached, did not answer in time, answered with an error, or too much.
    """
    sent = {"Content-Type": "application/json", "Accept": "application/json", **headers}
    content = bytearray()
    try:
        # httpx limits each read alone; a hook that sends a byte now and then would never end without this limit of
        # the whole.
        async with (
            asyncio.timeout(seconds),
            client.stream("POST", url, content=given, headers=sent) as response,
        ):
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > MOST_BYTES:
                    raise HookFailedError(f"answered with more than {MOST_BYTES >> 20} MB")
    except TimeoutError:
        raise HookFailedError(f"did not answer within {seconds:g} seconds") from None
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        raise HookFailedError(f"could not be asked ({type(error).__name__}: {error})") from None
    # Outside the stream: the body was read above, up to its limit.
    if not response.is_success:
        # Between words: a part of a secret is not masked.
        detail = cut_text(content[: _READ_BYTES + spare()].decode("utf-8", "replace"), _DETAIL)
        raise HookFailedError(f"answered with status {response.status_code}", detail)
    return bytes(content)
