"""``zeus tools``: the tools an agent has, and how each mode shows them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from zeus_runtime.cli.options import MODES, config_argument, env_option, read_config, set_option
from zeus_runtime.cli.streams import answer, as_json, complain

if TYPE_CHECKING:
    from zeus_runtime.agent.plan import PlannedTool
    from zeus_runtime.cli.process import Process


@click.group("tools")
def command() -> None:
    """List the tools an agent has, mode by mode."""


@command.command("list")
@config_argument
@env_option
@set_option
@click.option("--json", "as_object", is_flag=True, help="JSON for programs, schemas included.")
@click.pass_obj
def list_tools(
    process: Process, config: str | None, env: str | None, sets: tuple[str, ...], as_object: bool
) -> None:
    """List a config's tools.

    For each: its category and access class, what each mode does with it (callable, placeholder: named but refused,
    hidden), the characters its name, description and schema take in every request, and the plugin it comes from.
    """
    from zeus_runtime.agent.plan import make_plan
    from zeus_runtime.cli.table import table

    plan = make_plan(read_config(process, config, env=env, sets=sets))
    for off in plan.off:
        complain(f"off: {off.component} ({off.plugin}): {off.reason}")
    if as_object:
        answer(as_json([_object(each) for each in plan.tools]))
    elif not plan.tools:
        complain("the config has no tools; `zeus plugins` shows the components that can stand under tools:")
    else:
        rows = [
            (
                each.tool.name,
                each.tool.category,
                each.tool.access,
                *_showings(each).values(),
                f"{_size(each):,}",
                each.component,
                str(each.plugin),
            )
            for each in plan.tools
        ]
        header = (
            "TOOL",
            "CATEGORY",
            "ACCESS",
            *(mode.upper() for mode in MODES),
            "SIZE",
            "COMPONENT",
            "PLUGIN",
        )
        answer(table(rows, header))


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


def _object(planned: PlannedTool) -> dict[str, Any]:
    tool, plugin = planned.tool, planned.plugin
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "category": tool.category,
        "access": tool.access,
        "showing": _showings(planned),
        "size_characters": _size(planned),
        "component": planned.component,
        "plugin": {"name": plugin.name, "distribution": plugin.distribution, "version": plugin.version},
    }
