"""Refuses redirects in the requests of a litellm call, because the next address would get the key and the prompt.

litellm and the openai library make their HTTP clients in many places, with redirects, and neither has a setting for
it. So the methods that send in httpx, aiohttp and requests are wrapped. Only the calls inside of ``unredirected``
change: other users of these libraries in this process follow redirects as before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

from zeus_plugins.models.litellm.failures import redirected

if TYPE_CHECKING:
    from zeus_runtime.plugin.model import ModelError

T = TypeVar("T")

_WRAPPED: Final = "_zeus_refuses_redirects"

_refused: ContextVar[list[ModelError] | None] = ContextVar("_refused", default=None)
"""The redirects of the running litellm call; None outside of one. litellm copies the context into its threads."""


async def unredirected(awaitable: Awaitable[T]) -> T:
    """Await a call of litellm's, whose requests follow no redirect.

    Raises:
        ModelError: (bad_request) the provider answered with a redirect; whatever litellm made of it.
    """
    refused: list[ModelError] = []
    token = _refused.set(refused)
    try:
        result = await awaitable
    except Exception as error:
        if refused:
            raise refused[0] from error
        raise
    finally:
        _refused.reset(token)
    if refused:
        raise refused[0]
    return result


def wrap_senders() -> None:
    """Make ``unredirected`` work. Call it after the import of litellm, which imports the three libraries."""
    import aiohttp
    import httpx
    import requests

    for owner, method, keyword, wrap in (
        (httpx.AsyncClient, "send", "follow_redirects", _awaited),
        (httpx.Client, "send", "follow_redirects", _called),
        # It is private, but aiohttp's public hooks are for one session each, and litellm makes the sessions.
        (aiohttp.ClientSession, "_request", "allow_redirects", _awaited),
        (requests.Session, "send", "allow_redirects", _called),
    ):
        send = getattr(owner, method)
        if not hasattr(send, _WRAPPED):
            wrapped = wrap(send, keyword)
            setattr(wrapped, _WRAPPED, True)
            setattr(owner, method, wrapped)


def _awaited(send: Callable[..., Awaitable[Any]], keyword: str) -> Callable[..., Awaitable[Any]]:
    @wraps(send)
    async def sent(*args: Any, **given: Any) -> Any:
        refused = _refused.get()
        if refused is None:
            return await send(*args, **given)
        return _noted(refused, await send(*args, **_strict(refused, given, keyword)))

    return sent


def _called(send: Callable[..., Any], keyword: str) -> Callable[..., Any]:
    @wraps(send)
    def sent(*args: Any, **given: Any) -> Any:
        refused = _refused.get()
        if refused is None:
            return send(*args, **given)
        return _noted(refused, send(*args, **_strict(refused, given, keyword)))

    return sent


def _strict(refused: list[ModelError], given: dict[str, Any], keyword: str) -> dict[str, Any]:
    # After a redirect nothing more is sent: neither a retry, nor by code that follows redirects by itself.
    if refused:
        raise refused[0]
    return {**given, keyword: False}


def _noted(refused: list[ModelError], response: Any) -> Any:
    """Note a redirect. It is not raised here, because the openai library would wait and try again."""
    # aiohttp calls it `status`.
    status: int = response.status_code if hasattr(response, "status_code") else response.status
    if 300 <= status < 400:
        refused.append(redirected(response.headers.get("location")))
    return response
