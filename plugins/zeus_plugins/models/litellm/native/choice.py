"""Decides whether a model's requests can be sent without litellm, which must not change them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zeus_plugins.models.litellm.addressing import address_fault, split_address
from zeus_plugins.models.litellm.native import claude
from zeus_plugins.models.litellm.native.servers import ANTHROPIC, AZURE, MISTRAL, OPENAI, SERVERS, ModelServer

if TYPE_CHECKING:
    from zeus_plugins.models.litellm.options import Options
    from zeus_runtime.plugin.model import ModelProfile, ModelRequest

SENT_UNCHANGED: Final = frozenset(
    {
        "max_completion_tokens",
        "parallel_tool_calls",
        "prompt_cache_key",
        "response_format",
        "safety_identifier",
        "seed",
        "service_tier",
        "store",
    }
)
"""Settings that every chat model takes and that litellm passes on."""

_OLDER_ONLY: Final = frozenset(
    {"frequency_penalty", "logit_bias", "presence_penalty", "stop", "temperature", "tool_choice", "top_p"}
)
"""Settings that litellm passes on for other models, but checks for reasoning models."""

_PLAIN_EFFORTS: Final = ("low", "medium", "high")
"""The values of ``reasoning_effort`` that every reasoning model takes; for others litellm asks its table."""

_EVERYWHERE: Final = frozenset({"max_tokens", "temperature", "top_p"})
"""Settings that litellm passes on to every server."""

API_VERSION: Final = "api_version"
"""A setting of Azure that is part of the address."""

_OF_LITELLM: Final = ("SSL_VERIFY", "SSL_CERTIFICATE", "SSL_SECURITY_LEVEL", "LITELLM_PROXY_API_BASE")
"""Variables that only litellm reads, for connections."""

_REASONING: Final = re.compile(r"gpt-[56]")
_O_SERIES: Final = re.compile(r"o\d")
_VERSION: Final = re.compile(r"gpt-(\d+)(?:\.(\d+))?(?=[.-]|$)")
_RESPONSES_FROM: Final = (5, 4)
"""The GPT version from which OpenAI takes tools only at ``/responses``, where litellm sends them."""
_OTHER_WAYS: Final = ("audio", "search", "realtime", "image", "codex", "deep-research")
"""Parts of the names of models whose requests litellm changes."""
_REFUSED_BY_MISTRAL: Final = frozenset({"$id", "$schema"})
_COMBINED: Final = frozenset({"allOf", "anyOf", "const", "enum", "not", "oneOf"})
"""Keys that OpenAI refuses at the top of a tool's parameters."""


class Served(NamedTuple):
    """A model at a server.

    Args:
        name: the model's name as the server knows it.
        most_tokens: the most tokens of an answer, where a request has to name them.
    """

    server: ModelServer
    name: str
    most_tokens: int | None = None


class Wire(NamedTuple):
    """How a model's requests are sent.

    Args:
        served: the model and its server, to send over HTTP; None to send by litellm.
        why: the reason.
    """

    served: Served | None
    why: str


def wire_of(options: Options, profile: ModelProfile, environ: Mapping[str, str]) -> Wire:
    """Return the wire for a model, whatever its option ``wire`` is."""
    served = served_of(options, profile)
    if served is None:
        return Wire(None, "the provider is not known to speak plain chat completions or Anthropic's messages")
    rules = _RULES[served.server.protocol]
    why = _not_an_address(base_of(served.server, options, environ))
    why = why or rules.why_not(served, options, profile, environ)
    if why is None:
        setting = rules.unsent({**options.extra, **_set(options)}, served)
        why = None if setting is None else f"litellm decides whether {served.name} takes {setting!r}"
    if why is None:
        why = next((f"litellm reads {each}" for each in _read(served.server) if environ.get(each)), None)
    return Wire(served, rules.name) if why is None else Wire(None, why)


def served_of(options: Options, profile: ModelProfile) -> Served | None:
    """Return the model's server; None for one that is not known to speak one of the protocols."""
    provider, slash, name = options.model.partition("/")
    if slash:
        server = SERVERS.get(provider)
    else:
        # litellm takes exactly the names in its table for a provider's.
        is_listed = profile.sources.get("provider") == f"litellm: {options.model}"
        listed = {each.provider: each for each in (OPENAI, ANTHROPIC)}
        server, name = listed.get(profile.provider) if is_listed else None, options.model
    if server is None or not name:
        return None
    source = profile.sources.get("max_output_tokens", "")
    is_litellms = source == f"litellm: {name}" or source.startswith("profiles.models")
    return Served(server, name, profile.max_output_tokens if is_litellms else None)


def base_of(server: ModelServer, options: Options, environ: Mapping[str, str]) -> str:
    """Return the address of the requests, without the path of the call; empty if none is known."""
    named = named_base(server, environ)
    return options.api_base or (named and environ[named]) or server.base or ""


def named_base(server: ModelServer, environ: Mapping[str, str]) -> str | None:
    """Return the variable that names the server's address; None if none does."""
    return next((each for each in server.bases if environ.get(each)), None)


def only_by_litellm(request: ModelRequest, served: Served) -> str | None:
    """Return what in a request only litellm can send to the server; None if there is nothing."""
    rules = _RULES[served.server.protocol]
    setting = rules.unsent(request.settings, served)
    return rules.beyond(request, served) if setting is None else f"the setting {setting!r}"


def unsendable_tool(served: Served, tools: Sequence[Any], base: str) -> str | None:
    """Return the name of a tool that litellm would change; None if there is none.

    Args:
        tools: objects with ``name`` and ``parameters``.
        base: the address.
    """
    return _RULES[served.server.protocol].unsendable_tool(served, tools, base)


def is_official(base: str) -> bool:
    """Whether OpenAI itself gets the requests."""
    parts = split_address(base)
    host = parts and parts.hostname
    # With the dot, because `notopenai.com` is somebody else's.
    return host is None or host == "openai.com" or host.endswith(".openai.com")


def is_reasoning(name: str) -> bool:
    """Whether a model is of a family that takes ``max_completion_tokens`` and no sampling settings."""
    return bool(_REASONING.search(name)) and "gpt-5-chat" not in name.rpartition("/")[2]


def _set(options: Options) -> dict[str, Any]:
    sampling = {"temperature": options.temperature, "top_p": options.top_p}
    return {key: value for key, value in sampling.items() if value is not None}


def _read(server: ModelServer) -> tuple[str, ...]:
    own = claude.VARIABLES if server is ANTHROPIC else server.only_litellm_reads
    return (*_OF_LITELLM, *own, *(() if server.bases else server.variables_of_base))


def _not_an_address(base: str) -> str | None:
    parts = split_address(base)
    if parts and not (address_fault(base) or parts.query or parts.fragment or parts.username):
        return None
    return "the address is not a plain URL" if base else "no api_base names the server"


def _not_plain(
    served: Served, options: Options, profile: ModelProfile, environ: Mapping[str, str]
) -> str | None:
    """Return why litellm would send something else than a plain chat completion; None if it would not."""
    server, name = served.server, served.name
    last = name.rpartition("/")[2]
    if profile.mode not in (None, "chat") or name.startswith("responses/"):
        return f"{name} is called at another path than chat completions"
    if not base_of(server, options, environ).endswith(server.path):
        return f"litellm adds {server.path} to the address"
    if not server.like_openai:
        is_plain = name.startswith(server.names) and not (server is MISTRAL and "magistral" in name)
        return None if is_plain else f"litellm changes requests for {name}"
    if server is AZURE and (why := _not_a_deployment(name, options, environ)):
        return why
    if _O_SERIES.match(last) or any(each in last for each in _OTHER_WAYS):
        return f"litellm changes requests for {name}"
    version = _VERSION.match(last)
    is_new = version and (int(version[1]), int(version[2] or 0)) >= _RESPONSES_FROM
    if is_new and (server is AZURE or is_official(base_of(server, options, environ))):
        return f"OpenAI takes the tools of {name} only at /responses"
    return None


def api_version(options: Options, environ: Mapping[str, str]) -> str:
    """The version of Azure's API; empty if none is set."""
    return str(options.extra.get(API_VERSION) or environ.get("AZURE_API_VERSION") or "")


def _not_a_deployment(name: str, options: Options, environ: Mapping[str, str]) -> str | None:
    """Why litellm builds the address of a deployment; None if it is the usual one."""
    address = split_address(base_of(AZURE, options, environ))
    if not re.fullmatch(r"[\w.-]+", name, re.ASCII) or address is None or address.path.strip("/"):
        return "litellm builds the address"
    if not re.match(r"\d{4}-", version := api_version(options, environ)):
        return (
            f"litellm knows the paths of the API version {version!r}" if version else "no API version is set"
        )
    return None


def _unsent_in_chat(settings: Mapping[str, Any], served: Served) -> str | None:
    known = _EVERYWHERE
    if served.server.like_openai:
        known = SENT_UNCHANGED | {"max_tokens"} | (frozenset() if is_reasoning(served.name) else _OLDER_ONLY)
    if served.server is AZURE:
        known = known | {API_VERSION}
    if (
        served.server is OPENAI
        and is_reasoning(served.name)
        and settings.get("reasoning_effort") in _PLAIN_EFFORTS
    ):
        known = known | {"reasoning_effort"}
    return next((each for each in settings if each not in known), None)


def _beyond_chat(request: ModelRequest, served: Served) -> str | None:
    if request.cache_points is not None and served.server.marks_by_model:
        return "the marks for caching"
    if not served.server.sees_pictures and any(
        isinstance(part, Mapping) and part.get("type") == "image_url"
        for message in request.messages
        if isinstance(message.content, list)
        for part in message.content
    ):
        return "a picture"
    return None


def _changed_tool(served: Served, tools: Sequence[Any], base: str) -> str | None:
    if served.server is MISTRAL:
        return next((tool.name for tool in tools if _has_key(tool.parameters, _REFUSED_BY_MISTRAL)), None)
    if not served.server.like_openai:
        return None
    refused = _COMBINED if served.server is AZURE or is_official(base) else frozenset[str]()
    return next(
        (
            tool.name
            for tool in tools
            if refused & tool.parameters.keys() or not all(map(_compiles, _patterns(tool.parameters)))
        ),
        None,
    )


def _has_key(schema: Any, keys: frozenset[str]) -> bool:
    if isinstance(schema, Mapping):
        return bool(keys & schema.keys()) or any(_has_key(each, keys) for each in schema.values())
    return isinstance(schema, list) and any(_has_key(each, keys) for each in schema)


def _patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if isinstance(pattern := schema.get("pattern"), str):
            yield pattern
        if isinstance(named := schema.get("patternProperties"), Mapping):
            yield from named
        for inner in schema.values():
            yield from _patterns(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _patterns(inner)


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


class _Rules(NamedTuple):
    """What decides, for one protocol, whether a model's requests are sent without litellm.

    Args:
        name: the protocol's.
        why_not: why no request is.
        unsent: a setting that litellm has to send.
        beyond: something else in a request that litellm has to send.
        unsendable_tool: the name of a tool that litellm has to send.
    """

    name: str
    why_not: Callable[[Served, Options, ModelProfile, Mapping[str, str]], str | None]
    unsent: Callable[[Mapping[str, Any], Served], str | None]
    beyond: Callable[[ModelRequest, Served], str | None]
    unsendable_tool: Callable[[Served, Sequence[Any], str], str | None]


_RULES: Final[Mapping[str, _Rules]] = {
    "chat": _Rules("chat completions", _not_plain, _unsent_in_chat, _beyond_chat, _changed_tool),
    "messages": _Rules(
        "Anthropic's messages",
        claude.why_not,
        claude.unsent,
        lambda request, _: claude.beyond(request),
        lambda _, tools, __: claude.unsendable_tool(tools),
    ),
}
