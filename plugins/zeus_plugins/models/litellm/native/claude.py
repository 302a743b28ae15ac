"""Decides which requests for Claude models can be sent to Anthropic without litellm. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from zeus_plugins.models.litellm.native.choice import Served
    from zeus_plugins.models.litellm.options import Options
    from zeus_runtime.plugin.model import ModelProfile, ModelRequest

VARIABLES: Final = (
    "LITELLM_ANTHROPIC_DISABLE_URL_SUFFIX",
    "LITELLM_ENABLE_ANTHROPIC_PROMPT_CACHING",
    "LITELLM_MODIFY_PARAMS",
    "DEFAULT_MAX_TOKENS",
)
"""Variables with which litellm changes requests to Anthropic."""

_TOKENS: Final = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_FEDERATION_RULE_ID")
"""Variables with which litellm signs in if there is no key."""

_OAUTH: Final = "sk-ant-oat"
"""The beginning of a key that is sent in another header."""

_OWN_HEADERS: Final = frozenset(
    {"accept", "anthropic-beta", "anthropic-version", "authorization", "content-type", "x-api-key"}
)
"""Headers that litellm sets, or joins with its own."""

_CLASSIC: Final = re.compile(r"claude-(?:haiku|opus|sonnet)-4-[56](?:-\d{8})?")
"""Models that take sampling settings, forced calls, and thinking with a budget."""

_BUDGET_ONLY: Final = re.compile(r"claude-(?:haiku|opus|sonnet)-4-5(?:-\d{8})?")
"""Models for which litellm replaces adaptive thinking by a budget."""

_EFFORTS: Final = ("low", "medium", "high")
"""The efforts that every model with adaptive thinking takes; for others litellm asks its table."""

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_PICTURE: Final = re.compile(r"https://|data:image/[\w.+-]+;base64,")
_REPLACED: Final = frozenset({"components", "definitions"})
"""Keys of a tool's parameters that litellm replaces by what they refer to."""

_FORM: Final = frozenset(
    {
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "anyOf",
        "title",
        "description",
    }
)
"""Keys of a form's schema that litellm sends as they are; it inlines references, and describes constraints."""

_OTHERS_FIELDS: Final = ("compaction_blocks", "tool_results", "web_search_results")
"""Fields of an answer from which litellm makes blocks of Anthropic's own tools."""


def why_not(
    served: Served, options: Options, profile: ModelProfile, environ: Mapping[str, str]
) -> str | None:
    """Return why litellm would send other requests; None if it would not."""
    if f"litellm: {served.name}" not in profile.sources.values() or profile.mode != "chat":
        return f"litellm decides how requests for {served.name} look"
    if served.most_tokens is None:
        return f"litellm decides how long an answer of {served.name} may be"
    header = next((each for each in options.headers if each.lower() in _OWN_HEADERS), None)
    if header is not None:
        return f"litellm decides about the header {header!r}"
    key = environ.get("ANTHROPIC_API_KEY", "") if options.api_key is None else options.api_key.reveal()
    if key.strip().startswith(_OAUTH):
        return "litellm signs in with OAuth tokens"
    token = next((each for each in _TOKENS if environ.get(each)), None)
    return f"litellm reads {token}" if token and not key.strip() else None


def unsent(settings: Mapping[str, Any], served: Served) -> str | None:
    """Return a setting that only litellm can send to the model; None if there is none."""
    if "reasoning_effort" in settings and "response_format" in settings:
        # Newer models take both in one field, which litellm puts together.
        return "reasoning_effort"
    return next((key for key, value in settings.items() if not _is_plain(key, value, served.name)), None)


def beyond(request: ModelRequest) -> str | None:
    """Return what in a request's messages only litellm can send; None if there is nothing."""
    conversation = False
    for message in request.messages:
        if message.type != "system":
            conversation = True
        elif conversation:
            return "a system message inside the conversation"
        other = _other_part(message)
        if other is not None:
            return other
    return None if conversation else "a request without a message"


def unsendable_tool(tools: Sequence[Any]) -> str | None:
    """Return the name of a tool whose name or parameters litellm would change; None if there is none."""
    return next(
        (
            tool.name
            for tool in tools
            if not _NAME.fullmatch(tool.name) or not _REPLACED.isdisjoint(tool.parameters)
        ),
        None,
    )


def _other_part(message: BaseMessage) -> str | None:
    fields = message.additional_kwargs.get("provider_specific_fields")
    if isinstance(fields, Mapping) and any(fields.get(each) for each in _OTHERS_FIELDS):
        return "a result of a tool that Anthropic runs"
    if isinstance(message.content, str):
        return None
    pictured = message.type in ("human", "tool")
    return next((_kind(part) for part in message.content if not _is_known(part, pictured=pictured)), None)


def _is_known(part: Any, *, pictured: bool) -> bool:
    if not isinstance(part, Mapping):
        return False
    if part.get("type") == "text":
        return isinstance(part.get("text"), str)
    shown = part.get("image_url")
    return (
        pictured
        and part.get("type") == "image_url"
        and isinstance(shown, Mapping)
        and not shown.get("format")
        and bool(_PICTURE.match(str(shown.get("url"))))
    )


def _kind(part: Any) -> str:
    return (
        f"a part of the type {part.get('type')!r}" if isinstance(part, Mapping) else "a part without a type"
    )


def _is_plain(key: str, value: Any, name: str) -> bool:
    """Whether a setting is one that is sent as Anthropic's page on messages says, for every model that gets it."""
    is_classic = bool(_CLASSIC.fullmatch(name))
    match key:
        case "max_tokens" | "max_completion_tokens":
            return isinstance(value, int) and not isinstance(value, bool)
        case "temperature" | "top_p":
            return is_classic
        case "parallel_tool_calls":
            return isinstance(value, bool)
        case "stop":
            return isinstance(value, str) or (_are_texts(value) and bool(value))
        case "user":
            # litellm leaves out addresses and numbers of persons.
            return isinstance(value, str) and "@" not in value and any(map(str.isalpha, value))
        case "tool_choice":
            return value in ("auto", "none") or (is_classic and (value == "required" or _is_named(value)))
        case "thinking":
            return _is_plain_thinking(value, name)
        case "reasoning_effort":
            return value in _EFFORTS and not _BUDGET_ONLY.fullmatch(name)
        case "response_format":
            return _is_plain_form(value)
    return False


def _is_plain_form(value: Any) -> bool:
    """Whether the form of an answer is a schema that litellm sends as it is."""
    form = value.get("json_schema") if isinstance(value, Mapping) else None
    schema = form.get("schema") if isinstance(form, Mapping) else None
    return isinstance(schema, Mapping) and value.get("type") == "json_schema" and _is_unchanged(schema)


def _is_unchanged(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return True
    if not schema.keys() <= _FORM or (
        schema.get("type") == "object" and schema.get("additionalProperties") is not False
    ):
        return False
    # litellm drops a type that does not fit its enum, which it looks for in texts only here.
    if "enum" in schema and not (schema.get("type") == "string" and _are_texts(schema["enum"])):
        return False
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), schema.get("items")]
    return all(map(_is_unchanged, inner))


def _is_plain_thinking(value: Any, name: str) -> bool:
    if not isinstance(value, Mapping):
        return False
    if value == {"type": "adaptive"}:
        return not _BUDGET_ONLY.fullmatch(name)
    return (
        value.keys() == {"type", "budget_tokens"}
        and value["type"] == "enabled"
        and isinstance(value["budget_tokens"], int)
        and bool(_CLASSIC.fullmatch(name))
    )


def _is_named(choice: Any) -> bool:
    function = choice.get("function") if isinstance(choice, Mapping) else None
    return isinstance(function, Mapping) and isinstance(function.get("name"), str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
