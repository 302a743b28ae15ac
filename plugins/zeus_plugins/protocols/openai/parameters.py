"""The parameters of a request: those that the service follows, those that change nothing, and all others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from zeus_plugins.protocols.openai.conversation import APPROVAL_TOOL
from zeus_plugins.protocols.openai.errors import BadRequestError
from zeus_runtime.plugin.protocol import ClientTool

_NEUTRAL: Final = frozenset(
    {
        "user",
        "metadata",
        "store",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "stream_options",
        "include",
        "parallel_tool_calls",
        "truncation",
    }
)
"""Parameters that say nothing about the answer's content. The agent's config decides about all others."""

_ALLOWED: Final[Mapping[str, Callable[[Any], bool]]] = {
    "n": lambda value: value == 1,
    "tool_choice": lambda value: value in ("auto", "none"),
    "response_format": lambda value: value == {"type": "text"},
    "text": lambda value: isinstance(value, Mapping) and value.get("format") in (None, {"type": "text"}),
    "reasoning": lambda value: value == {},
    "modalities": lambda value: value == ["text"],
    "logprobs": lambda value: value is False,
    "frequency_penalty": lambda value: value == 0,
    "presence_penalty": lambda value: value == 0,
}
"""Parameters with values that change nothing."""

SERVER_LABEL: Final = "zeus"
"""The label of the agent's own tools, as a hosted MCP server whose calls the client approves."""


def check(body: Mapping[str, Any], followed: frozenset[str], ignored: Sequence[str]) -> None:
    """Refuse parameters that would have no effect.

    Args:
        followed: those that the caller follows.
        ignored: those that the service's user lets pass.

    Raises:
        BadRequestError: there is one.
    """
    for name, value in body.items():
        if value is None or name in followed or name in _NEUTRAL or name in ignored:
            continue
        if name in _ALLOWED and _ALLOWED[name](value):
            continue
        raise BadRequestError(
            f"Unsupported parameter: {name!r} has no effect here, because the agent's config decides. Leave it out, or"
            f" start the service with --protocol '{{openai: {{ignore: [{name}]}}}}'",
            param=name,
            reason="unsupported_parameter",
        )


def model_of(body: Mapping[str, Any]) -> str:
    """The agent that the request names.

    Raises:
        BadRequestError: it names none.
    """
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise BadRequestError("model must be the name of an agent; GET /v1/models lists them", param="model")
    return model


def flag(body: Mapping[str, Any], name: str) -> bool:
    """A parameter that is true or false; false without it.

    Raises:
        BadRequestError: it is neither.
    """
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise BadRequestError(f"{name} must be true or false", param=name)
    return bool(value)


def tools_of(body: Mapping[str, Any]) -> tuple[Sequence[ClientTool], bool]:
    """The client's tools, and whether it has the one for approvals.

    Raises:
        BadRequestError: one is not a function.
    """
    given = body.get("tools") or []
    if not isinstance(given, list):
        raise BadRequestError("tools must be a list", param="tools")
    tools: list[ClientTool] = []
    has_approval = False
    for place, each in enumerate(given):
        where = f"tools[{place}]"
        if not isinstance(each, Mapping):
            raise BadRequestError("an object is expected here", param=where)
        # A client that answers approval requests lists this server; the agent has its tools anyway.
        if each.get("type") == "mcp" and each.get("server_label") == SERVER_LABEL:
            continue
        if each.get("type") != "function":
            raise BadRequestError(
                f"tools of the type {each.get('type')!r} are not supported; the agent has its own",
                param=f"{where}.type",
            )
        # Chat completions have it inside the member `function`, responses have its members beside the type.
        function = each["function"] if isinstance(each.get("function"), Mapping) else each
        name, parameters = function.get("name"), function.get("parameters")
        if not isinstance(name, str) or not (parameters is None or isinstance(parameters, Mapping)):
            raise BadRequestError("a function has a name, and parameters that are a schema", param=where)
        if name == APPROVAL_TOOL:
            has_approval = True
        elif body.get("tool_choice") != "none":
            tools.append(ClientTool(name, str(function.get("description") or ""), parameters))
    return tools, has_approval
