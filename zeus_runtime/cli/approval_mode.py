"""``zeus approvals mode``: how often a user wants to be asked, and how often they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from zeus_runtime.cli.log import with_log
from zeus_runtime.cli.options import ConfigArgs, json_option, read_owner
from zeus_runtime.cli.output import TextTable, tell
from zeus_runtime.cli.sessions.options import config_option
from zeus_runtime.cli.streams import complain
from zeus_runtime.tools.approval import STRICTNESS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeus_runtime.cli.process import Process
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.tools.approval import AskModes


@click.command("mode")
@click.argument("chosen", required=False, metavar="[MODE]", type=click.Choice([*STRICTNESS, "config"]))
@click.option("--user", metavar="NAME", help="Whose choice; the config's memory.user by default, else local.")
@config_option
@json_option
@click.pass_obj
def mode(
    process: Process,
    chosen: str | None,
    user: str | None,
    which: ConfigArgs,
    as_object: bool,
) -> None:
    """Show or choose how often the user is asked where no rule of the YAML's `approve` fits.

    \b
    run_everything  never
    allowlist       but for the tools on the user's allowlist
    ask             every time
    config          as the config says: the user's choice is given up

    The choice is the user's own and is kept in the database. The config says what may be chosen (`user_modes` of
    `approve`; by default whatever asks no less than its own mode), and holds where the choice is not allowed.
    """
    from zeus_runtime.errors import UsageError
    from zeus_runtime.store.allowlist import store_mode, stored_mode

    checked, _ = read_owner(process, which)
    whose = user or checked.config.user
    known = _modes(checked)
    if not known:
        raise UsageError(
            f"{checked.config.name} asks nobody: it lists no middleware that leaves it to the user",
            remedy="List `approve` under middlewares.",
        )
    picked = next((each for each in STRICTNESS if each == chosen), None)
    if picked is not None and not any(picked in each.choices for each in known.values()):
        may = ", ".join(next(iter(known.values())).choices)
        raise UsageError(
            f"{checked.config.name} does not let its user choose {picked!r}",
            remedy=f"It allows: {may}. `user_modes` of `approve` in its YAML says what may be chosen.",
        )

    async def work(log: ThreadLog) -> str | None:
        if chosen is not None:
            await store_mode(log, whose, picked)
        return await stored_mode(log, whose)

    stored = with_log(process, checked, work, makes=picked is not None)
    if not as_object:
        complain(f"{whose} chose {stored}" if stored else f"{whose} chose nothing: the config's mode holds")
    tell(
        process,
        {"user": whose, "chosen": stored, "agents": [*_objects(known, stored)]},
        lambda: _table(known, stored),
        as_object=as_object,
    )


def _modes(checked: Checked) -> dict[str, AskModes]:
    """What the agent and its sub-agents ask, by name: ``main/researcher``."""
    from zeus_runtime.plan.checks.asking_order import ask_modes
    from zeus_runtime.plan.plan import make_plan

    def found(plan: Plan, name: str) -> Iterator[tuple[str, AskModes]]:
        modes = ask_modes(plan.middlewares)
        if modes is not None:
            yield name, modes
        for each in plan.agents.values():
            yield from found(each.plan, f"{name}/{each.name}")

    return dict(found(make_plan(checked), checked.config.name))


def _objects(known: dict[str, AskModes], stored: str | None) -> Iterator[dict[str, Any]]:
    for name, each in known.items():
        yield {
            "agent": name,
            "configured": each.configured,
            "in_force": each.in_force(stored),
            "choices": each.choices,
        }


def _table(known: dict[str, AskModes], stored: str | None) -> TextTable:
    rows = [
        (name, each.in_force(stored), each.configured, ", ".join(each.choices))
        for name, each in known.items()
    ]
    return TextTable(rows, ("AGENT", "IN FORCE", "CONFIG", "MAY BE CHOSEN"))
