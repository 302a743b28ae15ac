"""``zeus tools``: the tools an agent has, and how each mode shows them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from zeus_runtime.cli.options import MODES, config_argument, env_option, read_config, set_option
from zeus_runtime.cli.streams import answer, as_json, complain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeus_runtime.agent.plan import Plan, PlannedTool
    from zeus_runtime.cli.process import Process
    from zeus_runtime.tools import Connection


@click.group("tools")
def command() -> None:
    """List the tools an agent has, mode by mode."""


@command.command("list")
@config_argument
@env_option
@set_option
@click.option("--connect", is_flag=True, help="Start the MCP servers and list their tools too.")
@click.option("--json", "as_object", is_flag=True, help="JSON for programs, schemas included.")
@click.pass_obj
def list_tools(
    process: Process,
    config: str | None,
    env: str | None,
    sets: tuple[str, ...],
    connect: bool,
    as_object: bool,
) -> None:
    """List a config's tools.

    For each: its category and access class, what each mode does with it (callable, placeholder: named but refused,
    hidden), the tokens that its name, description and schema take in every request, and the plugin it comes from.
    Tools of servers are known only when the servers run: --connect starts them, and says of each whether it is
    connected or why not.
    """
    from zeus_runtime.agent.plan import make_plan
    from zeus_runtime.cli.table import table

    plan = make_plan(read_config(process, config, env=env, sets=sets))
    for off in plan.off:
        complain(f"off: {off.component} ({off.plugin}): {off.reason}")
    connections = [each for planned in plan.opens for each in planned.create(plan.build).status()]
    tools: Sequence[PlannedTool] = plan.tools
    if connect and plan.opens:
        import asyncio

        from zeus_runtime.cli.start import prepared

        with prepared(process):
            tools, connections = asyncio.run(_connected(process, plan))
    if as_object:
        answer(as_json([_object(plan, each) for each in tools]))
    elif not tools and not connections:
        complain("the config has no tools; `zeus plugins` shows the components that can stand under tools:")
    else:
        rows = [
            (
                each.tool.name,
                each.tool.category,
                each.tool.access,
                *_showings(each).values(),
                _tokens(plan, each),
                each.component,
                str(each.plugin),
            )
            for each in tools
        ]
        header = (
            "TOOL",
            "CATEGORY",
            "ACCESS",
            *(mode.upper() for mode in MODES),
            "TOKENS",
            "COMPONENT",
            "PLUGIN",
        )
        if rows:
            answer(table(rows, header))
    if connections and not as_object:
        complain(_told(process, connections, connect=connect))


async def _connected(process: Process, plan: Plan) -> tuple[Sequence[PlannedTool], list[Connection]]:
    """All tools in the order the model sees them, with the toolsets' where they are there, and how those are."""
    from zeus_runtime.agent.opening import OpenToolsets
    from zeus_runtime.agent.outfitting import equipment_of
    from zeus_runtime.agent.plan import PlannedTool
    from zeus_runtime.tools import showing

    known = {each.tool.name: each for each in plan.tools}
    opens = {each.name: each for each in plan.opens}
    toolsets = OpenToolsets(plan)
    try:
        opened = await toolsets.opened()
        equipment = equipment_of(plan, opened)
        equipment.add([each.tool for each in plan.tools if each.kind == "middleware"])
        owner = {tool.name: opens[name] for name, toolset in opened.items() for tool in toolset.tools()}
        tools = [
            known.get(tool.name)
            or PlannedTool(tool, showing(tool, plan.mode), owner[tool.name].name, owner[tool.name].plugin)
            for tool in equipment.tools
            if tool.name in known or tool.name in owner
        ]
        for problem in equipment.refused:
            complain(process.redact(f"note: {problem}"), "yellow")
        return tools, [each for toolset in opened.values() for each in toolset.status()]
    finally:
        await toolsets.aclose()


def _told(process: Process, connections: Sequence[Connection], *, connect: bool) -> str:
    from zeus_runtime.cli.table import table

    rows = [
        (
            each.name,
            each.category,
            each.state if connect or each.state == "disabled" else "not started",
            each.why,
        )
        for each in connections
    ]
    hint = "" if connect else "\n--connect starts them and lists their tools"
    return process.redact(table(rows, ("SERVER", "CATEGORY", "STATE", "WHY")) + hint)


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
        "plugin": {"name": plugin.name, "distribution": plugin.distribution, "version": plugin.version},
    }
