"""A server's capabilities: the tools that the config allows, the selected prompts, and whether it has resources."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from zeus_plugins.tools.mcp.failures import explained
from zeus_plugins.tools.mcp.schemas import schema_problem
from zeus_runtime.plugin import cut_text, first_line

if TYPE_CHECKING:
    from mcp import Client

    from zeus_plugins.tools.mcp.servers import PlannedServer
    from zeus_plugins.tools.mcp.tool_filter import ToolFilter
    from zeus_runtime.plugin.tool import Access

_MAX_PAGES: Final = 100
_MAX_RESOURCES: Final = 200
_MAX_TEXT: Final = 20_000
"""Most characters of a description or a prompt template. The longest ones of public servers have about 8,000."""


@dataclass(frozen=True)
class Offered:
    """One tool of a server.

    Args:
        name: the server's own name for the tool.
        description: the text for the model.
        parameters: JSON Schema of the arguments.
        access: ``read`` if the config or the server's annotations say so, else ``write``.
        repeatable: whether a second call with the same arguments has no further effect.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    access: Access
    repeatable: bool = False


@dataclass(frozen=True)
class Offer:
    """A server's tools, prompts and resources.

    Args:
        tools: the tools that the config allows.
        prompts: name to text of the selected prompt templates.
        resources: whether the server has resources.
        problems: for the user: broken tools, cut texts, and tools or prompts in the config that the server lacks.
    """

    tools: tuple[Offered, ...] = ()
    prompts: Mapping[str, str] = field(default_factory=dict)
    resources: bool = False
    problems: tuple[str, ...] = ()


async def read_offer(client: Client, server: PlannedServer, tool_filter: ToolFilter) -> Offer:
    """Ask a server for its tools, prompts and resources.

    Args:
        tool_filter: the filter that the connection's messages pass through.
    """
    has = client.server_capabilities
    # Only of the list that is read now: a tool that was broken before may be mended.
    tool_filter.refused.clear()
    listed = (
        [] if has.tools is None else await _pages(lambda cursor: client.list_tools(cursor=cursor), "tools")
    )
    spec = server.spec

    def is_chosen(name: str) -> bool:
        return (spec.allowed is None or name in spec.allowed) and name not in spec.denied

    chosen = [tool for tool in listed if is_chosen(tool.name)]
    broken = {name: why for name, why in tool_filter.refused.items() if is_chosen(name)}
    for tool in chosen:
        if why := schema_problem(tool.input_schema):
            broken[tool.name] = why
    cut: list[str] = []
    offered = tuple(
        Offered(
            tool.name,
            _cut(
                tool.description or tool.title or (tool.annotations and tool.annotations.title) or tool.name,
                f"the description of its tool {tool.name!r}",
                cut,
            ),
            # Servers leave both out for tools without arguments, and some providers refuse such a schema.
            {"properties": {}, **tool.input_schema, "type": "object"},
            spec.access.get(tool.name) or _access(tool),
            _is_repeatable(tool),
        )
        for tool in chosen
        if tool.name not in broken
    )
    names = {tool.name for tool in listed} | tool_filter.refused.keys()
    prompts, problems = await _prompts(client, server)
    problems += cut
    problems += [f"its tool {name!r} is not offered: {why}" for name, why in broken.items()]
    mentioned: list[tuple[str, Iterable[str]]] = [
        ("allow", spec.allowed or ()),
        ("deny", sorted(spec.denied)),
        ("access", spec.access),
    ]
    problems += [
        f"{key} names {name!r}, but this server has no such tool (its tools: {', '.join(sorted(names)) or 'none'})"
        for key, given in mentioned
        for name in given
        if name not in names
    ]
    return Offer(offered, prompts, has.resources is not None, tuple(problems))


async def list_resources(client: Client) -> str:
    """A server's resources and resource templates, one on each line."""
    resources = await _pages(lambda cursor: client.list_resources(cursor=cursor), "resources")
    templates = await _pages(
        lambda cursor: client.list_resource_templates(cursor=cursor), "resource_templates"
    )
    lines = [_line(str(each.uri), each) for each in resources[:_MAX_RESOURCES]]
    lines += [_line(each.uri_template, each) for each in templates[:_MAX_RESOURCES]]
    left = max(0, len(resources) - _MAX_RESOURCES) + max(0, len(templates) - _MAX_RESOURCES)
    if left:
        lines.append(f"({left} more are not listed)")
    return "\n".join(lines) or "(no resources)"


def _line(uri: str, each: Any) -> str:
    about = first_line(each.description or each.title or each.name)
    return f"- {uri}: {about}" + (f" ({each.mime_type})" if each.mime_type else "")


async def _pages(fetch: Callable[[str | None], Awaitable[Any]], attribute: str) -> Sequence[Any]:
    found: list[Any] = []
    cursor: str | None = None
    # A server may give cursors for ever.
    for _ in range(_MAX_PAGES):
        page = await fetch(cursor)
        found += getattr(page, attribute)
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


def _access(tool: Any) -> Access:
    annotations = tool.annotations
    return "read" if annotations is not None and annotations.read_only_hint else "write"


def _is_repeatable(tool: Any) -> bool:
    annotations = tool.annotations
    return annotations is not None and bool(annotations.read_only_hint or annotations.idempotent_hint)


async def _prompts(client: Client, server: PlannedServer) -> tuple[dict[str, str], list[str]]:
    from mcp.shared.exceptions import MCPError
    from pydantic import ValidationError

    texts: dict[str, str] = {}
    problems: list[str] = []
    for name, arguments in server.spec.prompts.items():
        if client.server_capabilities.prompts is None:
            problems.append(f"prompts names {name!r}; this server has no prompts")
            continue
        try:
            answer = await client.get_prompt(name, dict(arguments))
        except (MCPError, ValidationError) as error:
            problems.append(f"prompts: cannot get {name!r}: {explained(error).message}")
            continue
        text = "\n\n".join(
            (f"{message.role}: " if len(answer.messages) > 1 else "") + _text(message.content)
            for message in answer.messages
        )
        texts[name] = _cut(text, f"its prompt {name!r}", problems)
    return texts, problems


def _cut(text: str, what: str, problems: list[str]) -> str:
    """A text cut to ``_MAX_TEXT`` characters: it is in every request, and a server may send one of any length."""
    if len(text) <= _MAX_TEXT:
        return text
    problems.append(f"{what} has {len(text):,} characters; the first {_MAX_TEXT:,} are shown")
    return cut_text(text, _MAX_TEXT)


def _text(content: Any) -> str:
    if content.type == "text":
        return str(content.text).strip()
    text = getattr(getattr(content, "resource", None), "text", None)
    return str(text).strip() if text is not None else f"[{content.type}]"
