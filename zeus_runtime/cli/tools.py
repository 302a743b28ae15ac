"""``zeus tools``: the tools an agent has, and how each mode shows them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click

from zeus_runtime.cli.options import MODES, ConfigArgs, config_argument, read_config
from zeus_runtime.cli.output import TextTable, complain_table, tell
from zeus_runtime.cli.streams import complain
from zeus_runtime.columns import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zeus_runtime.cli.process import Process
    from zeus_runtime.plan.inventory import OutsideTools, Stock
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.tools import PlannedTool
    from zeus_runtime.registry import Plugin
    from zeus_runtime.tools import Connection, Toolset


@click.group("tools")
def command() -> None:
    """List the tools an agent has, mode by mode."""


@command.command("list")
@config_argument
@click.option("--connect", is_flag=True, help="Start the MCP servers and list their tools too.")
@click.option("--json", "as_object", is_flag=True, help="JSON for programs, schemas included.")
@click.pass_obj
def list_tools(
    process: Process,
    which: ConfigArgs,
    connect: bool,
    as_object: bool,
) -> None:
    """List a config's tools, then every category of tools with each component that gives it or could.

    For each tool: its category and access class, its state in each mode, its tokens, and the plugin it comes from. The
    state is callable, placeholder (named but refused) or hidden. The tokens are those that its name, description and
    schema take in every request.
    For each category and component: whether it is on in the config's mode, or what it needs. Tools of servers are
    known only when the servers run: --connect starts them, and says of each whether it is connected or why not.
    """
    from zeus_runtime.cli.trusting import read_trusted
    from zeus_runtime.plan.inventory import inventory
    from zeus_runtime.plan.plan import make_plan

    checked = read_trusted(process, which) if connect else read_config(process, which)
    plan = make_plan(checked)
    for off in plan.off:
        complain(f"off: {off.component} ({off.plugin}): {off.reason}")
    tools: Sequence[PlannedTool] = plan.tools
    if connect and plan.opens:
        import asyncio

        from zeus_runtime.cli.start import prepared

        with prepared(process):
            tools, opened = asyncio.run(_connected(process, plan))
    else:
        opened = _opened({each.name: each.create(plan.context) for each in plan.opens})
    stocks = inventory(plan, checked.registry, tools, opened)
    connections = [each for status in opened.connections.values() for each in status]
    given: list[str | TextTable] = (
        [TextTable([_row(plan, each) for each in tools], _HEADER), ""] if tools else []
    )
    tell(
        process,
        {
            "tools": [_object(plan, each) for each in tools],
            "categories": [_stock_object(plan, each) for each in stocks],
            "servers": connections,
        },
        lambda: [*given, TextTable([_stock_row(plan, each) for each in stocks], _STOCK_HEADER)],
        as_object=as_object,
    )
    if connections and not as_object:
        complain_table(_servers(connections, connect=connect), mask=process.redact)
        if not connect:
            complain("--connect starts them and lists their tools")


_HEADER: Final = (
    "TOOL",
    "CATEGORY",
    "ACCESS",
    *(mode.upper() for mode in MODES),
    "TOKENS",
    "COMPONENT",
    "PLUGIN",
)
_STOCK_HEADER: Final = ("CATEGORY", "COMPONENT", "ON", "TOOLS", "TOKENS", "PLUGIN", "WHY")


def _row(plan: Plan, each: PlannedTool) -> tuple[str, ...]:
    return (
        each.tool.name,
        each.tool.category,
        each.tool.access,
        *_showings(each).values(),
        _tokens(plan, each),
        each.component,
        str(each.plugin),
    )


def _stock_row(plan: Plan, stock: Stock) -> tuple[str, ...]:
    said = {True: "on", False: "off", None: "?"}[stock.enabled]
    tokens = f"{_sent(plan, stock):,}" if stock.tools else ""
    plugin = "" if stock.plugin is None else stock.plugin.name
    return (
        stock.category or "?",
        stock.component,
        said,
        _counted(stock),
        tokens,
        plugin,
        one_line(stock.why),
    )


def _counted(stock: Stock) -> str:
    """``4 read, 2 write``."""
    return ", ".join(f"{count} {access}" for access, count in _access(stock).items() if count)


def _access(stock: Stock) -> dict[str, int]:
    return {access: sum(each.tool.access == access for each in stock.tools) for access in ("read", "write")}


def _sent(plan: Plan, stock: Stock) -> int:
    """Tokens of what a request tells of its tools in the config's mode; those loaded on demand are not among them."""
    from zeus_runtime.models.interface import ToolSchema
    from zeus_runtime.tools import visible

    shown = visible([each.tool for each in stock.tools if not each.tool.deferred], plan.mode)
    parts = [
        plan.tool_counts.part(ToolSchema(each.name, each.description, each.parameters))[0] for each in shown
    ]
    return sum(part.tokens for part in parts)


def _stock_object(plan: Plan, stock: Stock) -> dict[str, Any]:
    plugin = stock.plugin
    return {
        "category": stock.category or None,
        "component": stock.component or None,
        "kind": stock.kind,
        "enabled": stock.enabled,
        "why": stock.why,
        "tools": [each.tool.name for each in stock.tools],
        "access": _access(stock),
        "tokens": _sent(plan, stock) if stock.tools else None,
        "plugin": None if plugin is None else _plugin_object(plugin),
    }


def _plugin_object(plugin: Plugin) -> dict[str, Any]:
    return {"name": plugin.name, "distribution": plugin.distribution, "version": plugin.version}


async def _connected(process: Process, plan: Plan) -> tuple[Sequence[PlannedTool], OutsideTools]:
    """All tools in the order the model sees them, with the toolsets' where they are there, and how those are."""
    import asyncio

    from zeus_runtime.plan.tools import PlannedTool
    from zeus_runtime.run.assembly import toolbox_of
    from zeus_runtime.run.connections import OpenToolsets
    from zeus_runtime.tools import showing
    from zeus_runtime.tools.deferred import LOADER

    known = {each.tool.name: each for each in plan.tools}
    opens = {each.name: each for each in plan.opens}
    toolsets = OpenToolsets(plan)
    try:
        opened = await toolsets.opened()
        await asyncio.gather(*(toolset.settled() for toolset in opened.values()))
        toolbox = toolbox_of(plan, opened)
        toolbox.add([each.tool for each in plan.tools if each.kind == "middleware"])
        owner = {tool.name: opens[name] for name, toolset in opened.items() for tool in toolset.tools()}
        deferring = [owner[tool.name] for tool in toolbox.tools if tool.deferred and tool.name in owner]
        if deferring:
            owner[LOADER] = deferring[0]
        tools = [
            known.get(tool.name)
            or PlannedTool(tool, showing(tool, plan.mode), owner[tool.name].name, owner[tool.name].plugin)
            for tool in toolbox.tools
            if tool.name in known or tool.name in owner
        ]
        for problem in toolbox.refused:
            complain(process.redact(f"note: {problem}"), "yellow")
        for problem in toolbox.lacks:
            complain(process.redact(f"problem: {problem}"), "yellow")
        return tools, _opened(opened, started=True)
    finally:
        await toolsets.aclose()


def _opened(toolsets: Mapping[str, Toolset], *, started: bool = False) -> OutsideTools:
    from zeus_runtime.plan.inventory import OutsideTools

    return OutsideTools(
        {name: toolset.status() for name, toolset in toolsets.items()},
        {name: toolset.accounts() for name, toolset in toolsets.items()},
        started=started,
    )


def _servers(connections: Sequence[Connection], *, connect: bool) -> TextTable:
    rows = [
        (
            each.name,
            each.category,
            each.state if connect or each.state == "disabled" else "not started",
            one_line(each.why),
        )
        for each in connections
    ]
    return TextTable(rows, ("SERVER", "CATEGORY", "STATE", "WHY"))


def _showings(planned: PlannedTool) -> dict[str, str]:
    from typing import get_args

    from zeus_runtime.config.model import Mode
    from zeus_runtime.tools import showing

    modes: tuple[Mode, ...] = get_args(Mode)
    return {mode: showing(planned.tool, mode) for mode in modes}


def _size(planned: PlannedTool) -> int:
    tool = planned.tool
    schema = json.dumps(tool.parameters, ensure_ascii=False, separators=(",", ":"))
    return len(tool.name) + len(tool.description) + len(schema)


def _tokens(plan: Plan, planned: PlannedTool) -> str:
    return f"{_count(plan, planned):,}" + (" (on demand)" if planned.tool.deferred else "")


def _count(plan: Plan, planned: PlannedTool) -> int:
    from zeus_runtime.models.interface import ToolSchema

    tool = planned.tool
    part, _ = plan.tool_counts.part(ToolSchema(tool.name, tool.description, tool.parameters))
    return part.tokens


def _object(plan: Plan, planned: PlannedTool) -> dict[str, Any]:
    tool, plugin = planned.tool, planned.plugin
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "category": tool.category,
        "access": tool.access,
        "showing": _showings(planned),
        "size_characters": _size(planned),
        "tokens": _count(plan, planned),
        "deferred": tool.deferred,
        "component": planned.component,
        "plugin": _plugin_object(plugin),
    }
