"""Calls a model over HTTP, as ``by_litellm`` does through litellm."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zeus_plugins.models.litellm.addressing import sent_headers
from zeus_plugins.models.litellm.credentials import key_of
from zeus_plugins.models.litellm.failures import classified
from zeus_plugins.models.litellm.native import chat, messages
from zeus_plugins.models.litellm.native.choice import Served, api_version, base_of
from zeus_plugins.models.litellm.native.sending import Reading, streamed, whole
from zeus_plugins.models.litellm.native.servers import AZURE, OPENAI

if TYPE_CHECKING:
    from zeus_plugins.models.litellm.options import Options
    from zeus_plugins.models.litellm.timeouts import Timeouts

_ACCOUNT: Final = (("OPENAI_ORGANIZATION", "openai-organization"), ("OPENAI_PROJECT", "openai-project"))


async def chunks(
    served: Served,
    options: Options,
    environ: Mapping[str, str],
    found: Mapping[str, Any],
    request: Mapping[str, Any],
    timeouts: Timeouts,
) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the answer's chunks as plain data: delta, finish_reason, model, usage. All failures are ModelErrors.

    Args:
        served: the model and its server.
        environ: the process environment, with ``.env``.
        found: the credentials and the address.
        request: messages, tools and settings.
    """
    spoken = _SPOKEN[served.server.protocol]
    base = found.get("api_base") or base_of(served.server, options, environ)
    url = spoken.url(served, base, api_version(options, environ))
    body = spoken.body(served, request, base)
    headers = {
        **spoken.headers(served, (found.get("api_key") or key_of(served.server, environ)).strip(), environ),
        **({"anthropic-beta": messages.FORM_BETA} if "output_format" in body else {}),
        "content-type": "application/json",
        "accept": "application/json",
        "user-agent": "zeus-runtime",
        # Last and in small letters, so that a header of the user's replaces ours.
        **{key.lower(): value for key, value in sent_headers(options.headers).items()},
    }
    try:
        if not options.stream:
            yield await whole(url, headers, body, timeouts)
            return
        async with aclosing(streamed(url, headers, body, timeouts, spoken.reading())) as pieces:
            async for piece in pieces:
                yield piece
    # httpx, the readers and a damaged answer raise many kinds, and the retry decides by the class of a `ModelError`.
    except Exception as error:
        raise classified(error) from error


def _key_headers(served: Served, key: str, environ: Mapping[str, str]) -> dict[str, str]:
    if served.server is AZURE:
        return {"api-key": key}
    account = _ACCOUNT if served.server is OPENAI else ()
    # A project's `.env` chooses no account for a key of the user's, as litellm takes none from it either.
    is_users = key in map(str.strip, os.environ.values())
    known = os.environ if is_users else environ
    named = {header: known[variable] for variable, header in account if known.get(variable)}
    return {"authorization": f"Bearer {key}", **sent_headers(named)}


class _Protocol(NamedTuple):
    """How one protocol is spoken.

    Args:
        url: from the model, the address and the API's version to the address of the call.
        headers: those with the key.
        body: of a request, in which an address may matter.
        reading: reads a streamed answer.
    """

    url: Callable[[Served, str, str], str]
    headers: Callable[[Served, str, Mapping[str, str]], dict[str, str]]
    body: Callable[[Served, Mapping[str, Any], str], dict[str, Any]]
    reading: Callable[[], Reading]


_SPOKEN: Final[Mapping[str, _Protocol]] = {
    "chat": _Protocol(chat.url_of, _key_headers, chat.body_of, chat.ChatReading),
    "messages": _Protocol(
        lambda _, base, __: messages.url_of(base),
        lambda _, key, __: {"x-api-key": key, "anthropic-version": messages.VERSION},
        lambda served, request, _: messages.body_of(served, request),
        messages.MessagesReading,
    ),
}
