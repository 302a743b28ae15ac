"""``zeus approvals``: what waits for a decision, and what a user is never asked about."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from zeus_runtime.cli.approval_mode import mode
from zeus_runtime.cli.log import with_log
from zeus_runtime.cli.options import ConfigArgs, Decorator, read_owner
from zeus_runtime.cli.sessions.options import config_option, json_option
from zeus_runtime.cli.streams import answer, as_json, complain

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.store.thread_log import ThreadLog

user_option: Decorator = click.option(
    "--user", metavar="NAME", help="Whose allowlist; the config's memory.user by default, else local."
)


@click.group("approvals")
def command() -> None:
    """List what waits for a decision, how often to ask, and your allowlist."""


@command.command("pending")
@click.argument("session", required=False)
@config_option
@json_option
@click.pass_obj
def list_pending(
    process: Process,
    session: str | None,
    which: ConfigArgs,
    as_object: bool,
) -> None:
    """List the calls that wait for a decision, the oldest first; `zeus resume SESSION --decide` decides."""
    from zeus_runtime.cli.table import table
    from zeus_runtime.cli.wording import call_line
    from zeus_runtime.store.approvals import open_approvals

    checked, _ = read_owner(process, which)
    found = with_log(process, checked, lambda log: open_approvals(log, session)) or []
    redact = checked.document.redactor
    if as_object:
        answer(as_json(redact.json([each.as_json() for each in found])))
        return
    if not found:
        complain("nothing waits for a decision")
        return
    rows = [
        (
            each.id,
            each.session,
            _time(each.created_ms),
            "" if each.expires_ms is None else _time(each.expires_ms),
            redact(call_line(each.tool, each.arguments, 80)),
        )
        for each in found
    ]
    answer(table(rows, ("ID", "SESSION", "ASKED", "UNTIL", "CALL")))


@command.command("list")
@user_option
@config_option
@json_option
@click.pass_obj
def list_allowed(
    process: Process,
    user: str | None,
    which: ConfigArgs,
    as_object: bool,
) -> None:
    """List the tools that the user is never asked about."""
    from zeus_runtime.cli.table import table
    from zeus_runtime.store.approvals import allowlist

    checked, _ = read_owner(process, which)
    whose = user or checked.config.user
    found = with_log(process, checked, lambda log: allowlist(log, whose)) or []
    if as_object:
        answer(as_json([{"user": whose, "tool": tool, "since_ms": since} for tool, since in found]))
    elif found:
        rows = [(tool, _time(since)) for tool, since in found]
        answer(table(rows, ("TOOL", "SINCE")))
    else:
        complain(f"the allowlist of {whose} is empty")


@command.command("allow")
@click.argument("tools", nargs=-1, required=True, metavar="TOOL...")
@user_option
@config_option
@click.pass_obj
def allow_tools(
    process: Process,
    tools: tuple[str, ...],
    user: str | None,
    which: ConfigArgs,
) -> None:
    """Never ask the user about these tools again, where the YAML's `approve` has mode allowlist and no rule fits."""
    from zeus_runtime.agent.plan import make_plan
    from zeus_runtime.errors import UsageError
    from zeus_runtime.plugins.suggestion import did_you_mean
    from zeus_runtime.store.approvals import allow

    checked, own = read_owner(process, which)
    known = [each.tool.name for each in make_plan(checked).tools] if own else []
    for tool in tools if own else ():
        if tool not in known:
            raise UsageError(
                f"{checked.config.name} has no tool {tool!r}{did_you_mean(tool, known)}",
                remedy="`zeus tools list` shows those it has.",
            )
    whose = user or checked.config.user

    async def work(log: ThreadLog) -> None:
        for tool in tools:
            done = await allow(log, whose, tool)
            complain(f"{tool} is {'now' if done else 'already'} on the allowlist of {whose}")

    with_log(process, checked, work, makes=True)


@command.command("revoke")
@click.argument("tools", nargs=-1, required=True, metavar="TOOL...")
@user_option
@config_option
@click.pass_obj
def revoke_tools(
    process: Process,
    tools: tuple[str, ...],
    user: str | None,
    which: ConfigArgs,
) -> None:
    """Take tools off the user's allowlist."""
    from zeus_runtime.errors import UsageError
    from zeus_runtime.store.approvals import revoke

    checked, _ = read_owner(process, which)
    whose = user or checked.config.user

    async def work(log: ThreadLog) -> list[str]:
        return [tool for tool in tools if not await revoke(log, whose, tool)]

    absent = with_log(process, checked, work)
    missing = tools if absent is None else absent
    for tool in tools:
        if tool not in missing:
            complain(f"{tool} is off the allowlist of {whose}")
    if missing:
        raise UsageError(f"{', '.join(missing)} was not on the allowlist of {whose}")


command.add_command(mode)


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
