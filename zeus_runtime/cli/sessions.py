"""``zeus sessions``: the stored conversations of a database."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from zeus_runtime.cli.completion import complete_config, complete_session
from zeus_runtime.cli.log import with_log
from zeus_runtime.cli.options import env_option, read_owner, set_option
from zeus_runtime.cli.streams import answer, as_json, complain, is_terminal, printable

if TYPE_CHECKING:
    from zeus_runtime.agent.checked import Checked
    from zeus_runtime.cli.process import Process
    from zeus_runtime.store.thread_log import SessionInfo, ThreadLog


config_option = click.option(
    "--config",
    metavar="CONFIG",
    shell_complete=complete_config,
    help="Whose database: a file or preset; zeus.yaml by default, and without one the default preset.",
)
json_option = click.option("--json", "as_object", is_flag=True, help="JSON for programs.")


@click.group("sessions")
def command() -> None:
    """List, show or delete sessions."""


@command.command("list")
@config_option
@env_option
@set_option
@click.option("--all", "every", is_flag=True, help="Of all agents that use the database, not only this one.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=1), default=30, show_default=True, help="At most N."
)
@json_option
@click.pass_obj
def list_sessions(
    process: Process,
    config: str | None,
    env: str | None,
    sets: tuple[str, ...],
    every: bool,
    limit: int,
    as_object: bool,
) -> None:
    """List the agent's sessions, last used first."""
    checked, own = read_owner(process, config, env=env, sets=sets)
    agent = None if every or not own else checked.config.name
    found = with_log(process, checked, lambda log: log.sessions(agent=agent, limit=limit)) or ()
    if as_object:
        answer(as_json([asdict(session) for session in found]))
    elif found:
        answer(session_table(found))
    else:
        complain("no session yet")


@command.command("show")
@click.argument("session", required=False, shell_complete=complete_session)
@config_option
@env_option
@set_option
@json_option
@click.pass_obj
def show_session(
    process: Process,
    session: str | None,
    config: str | None,
    env: str | None,
    sets: tuple[str, ...],
    as_object: bool,
) -> None:
    """Print a session's conversation, whole, as it was before any context policy; the last used one by default."""
    import json

    from zeus_runtime.errors import UsageError

    checked, own = read_owner(process, config, env=env, sets=sets)
    agent = checked.config.name if own else None

    async def payloads(log: ThreadLog) -> tuple[str, list[dict[str, Any]]] | None:
        latest = await log.sessions(agent=agent, limit=1) if session is None else ()
        name = session or (latest[0].session if latest else None)
        if name is None:
            return None
        return name, [json.loads(entry.payload) for entry in await log.read(await log.find(name))]

    found = with_log(process, checked, payloads)
    if found is None:
        which = f"no session {session!r}" if session else "no session yet"
        raise UsageError(f"there is {which}", remedy="`zeus run` begins one.")
    name, stored = found
    redact = checked.document.redactor
    if as_object:
        answer(as_json({"session": name, "messages": redact.json(stored)}))
        return
    from zeus_runtime.cli.transcript import transcript
    from zeus_runtime.models.messages import from_payload

    text = redact(transcript([from_payload(payload) for payload in stored]))
    answer(printable(text) if is_terminal(sys.stdout) else text)


@command.command("delete")
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...", shell_complete=complete_session)
@config_option
@env_option
@set_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def delete_sessions(
    process: Process,
    sessions: tuple[str, ...],
    config: str | None,
    env: str | None,
    sets: tuple[str, ...],
    yes: bool,
) -> None:
    """Delete sessions with all their messages and checkpoints."""
    import asyncio

    from zeus_runtime.cli.start import prepared
    from zeus_runtime.errors import UsageError

    checked, _ = read_owner(process, config, env=env, sets=sets)
    if not yes:
        if not is_terminal(sys.stdin):
            raise UsageError("nothing is deleted unasked", remedy="Say --yes.")
        click.confirm(f"Delete {', '.join(sessions)}?", abort=True, err=True)
    with prepared(process):
        asyncio.run(_delete(checked, sessions))
    complain(f"deleted {', '.join(sessions)}")


def session_table(sessions: Sequence[SessionInfo]) -> str:
    """Sessions as rows: id, last use in local time, messages, agent, first words."""
    from datetime import UTC, datetime

    from zeus_runtime.cli.table import shortened, table

    rows = [
        (
            each.session,
            datetime.fromtimestamp(each.updated_ms / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M"),
            str(each.messages),
            each.agent,
            shortened(printable(each.title), 60),
        )
        for each in sessions
    ]
    return table(rows, ("SESSION", "LAST USED", "MESSAGES", "AGENT", "BEGINS"))


async def _delete(checked: Checked, sessions: Sequence[str]) -> None:
    from zeus_runtime.agent.agent import Agent
    from zeus_runtime.agent.plan import make_plan

    async with Agent(checked, make_plan(checked)) as agent:
        for session in sessions:
            await agent.history(session)
        for session in sessions:
            await agent.delete_session(session)
