"""``zeus sessions list``, ``show`` and ``export``: stored conversations for people and programs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from zeus_runtime.cli.event_lines import call_line
from zeus_runtime.cli.log import with_log
from zeus_runtime.cli.options import AT_MOST, ConfigArgs, json_option, read_owner
from zeus_runtime.cli.output import TextTable, as_json, local_time, tell
from zeus_runtime.cli.sessions.options import config_option, file_option, form_option, session_argument
from zeus_runtime.cli.streams import answer, complain
from zeus_runtime.columns import shortened_title
from zeus_runtime.escaping import exact_line, utf8_text

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.sessions.stored import Message, StoredSession
    from zeus_runtime.store.listing import SessionInfo
    from zeus_runtime.store.thread_log import ThreadLog

T = TypeVar("T")


@click.command("list")
@config_option
@click.option("--all", "every", is_flag=True, help="Of all agents that use the database, not only this one.")
@click.option("--archived", is_flag=True, help="Those that are archived.")
@click.option("--limit", metavar="N", type=AT_MOST, default=30, show_default=True, help="At most N.")
@json_option
@click.pass_obj
def list_sessions(
    process: Process,
    which: ConfigArgs,
    every: bool,
    archived: bool,
    limit: int,
    as_object: bool,
) -> None:
    """List the agent's sessions, last used first."""
    from zeus_runtime.sessions.stored import family

    checked, own = read_owner(process, which)
    agent = None if every or not own else checked.config.name

    async def work(log: ThreadLog) -> tuple[list[SessionInfo], int]:
        own = await log.sessions(agent=agent, limit=limit, archived=archived)
        others = 0 if agent is None else await log.count_of_others(agent, archived=archived)
        return [each for top in own for each in await family(log, top)], others

    found, others = with_log(process, checked, work, shows=True) or ((), 0)
    tell(
        process,
        found,
        lambda: session_table(found),
        as_object=as_object,
        nothing="no archived session" if archived else "no session yet",
    )
    if others and not as_object:
        complain(f"({others:,} of other agents in this database: --all lists them)", "dim")


@click.command("show")
@session_argument
@click.option("--all", "whole", is_flag=True, help="What a rollback set aside too.")
@config_option
@json_option
@click.pass_obj
def show_session(
    process: Process,
    session: str | None,
    whole: bool,
    which: ConfigArgs,
    as_object: bool,
) -> None:
    """Print a session's conversation, whole, as it was before any context policy; the last used one by default."""
    from zeus_runtime.cli.memory.session_calls import calls_json, calls_text, extraction_calls
    from zeus_runtime.cli.sessions.conversation import conversation

    stored = stored_session(process, session, which)
    shown = [each for each in stored.messages if whole or not each.set_aside]
    calls = extraction_calls(process, read_owner(process, which)[0], stored.info.session)
    value = {**_object(stored, shown), **calls_json(calls)}
    tell(process, value, lambda: conversation(shown, stored), as_object=as_object)
    if not as_object:
        _tell_about(stored, len(stored.messages) - len(shown), process.secrets, which)
        if calls:
            complain(f"({calls_text(calls)})")


def _object(stored: StoredSession, shown: Sequence[Message]) -> dict[str, Any]:
    from zeus_runtime.sessions.stored import decisions_as_json

    messages = [
        {"seq": each.seq, **({"set_aside": True} if each.set_aside else {}), **each.payload} for each in shown
    ]
    return {
        "session": stored.info.session,
        "state": stored.info.state,
        "messages": messages,
        "parent": stored.info.parent or None,
        "children": stored.children,
        "approvals": decisions_as_json(stored.approvals),
    }


def _tell_about(stored: StoredSession, hidden: int, redact: Redactor, which: ConfigArgs) -> None:
    """Report facts beside the conversation: family, open questions, the command to continue."""
    if hidden:
        complain(f"({hidden} message(s) set aside by a rollback: --all shows them)")
    if stored.info.parent:
        complain(f"(it works for {stored.info.parent})")
    for child in stored.children:
        about = f"{child.session}, {child.state or 'not begun'}: {exact_line(child.title)}"
        complain(redact(f"(sub-agent {exact_line(child.agent)}: {about})"))
    for waiting in stored.approvals:
        if waiting.is_open:
            line = redact(call_line(waiting.tool, waiting.arguments, 200))
            complain(f"(waits for approval, {waiting.id}: {line})")
    if stored.info.state in _UNFINISHED:
        complain(
            f"(its last turn {_UNFINISHED[stored.info.state]}:"
            f" `{which.command('run', '--session', stored.info.session, '--continue', is_argument=True)}`"
            " continues it)"
        )


@click.command("export")
@session_argument
@form_option
@file_option
@config_option
@click.pass_obj
def export_session(
    process: Process,
    session: str | None,
    form: str,
    output: Path | None,
    which: ConfigArgs,
) -> None:
    """Write a session out, with what rollbacks set aside and its sub-agents' sessions; the last used one by default.

    Known secrets are masked.
    """
    from zeus_runtime.cli.whole_file import write_private
    from zeus_runtime.sessions.stored import as_document, as_markdown

    stored, masked = stored_session(process, session, which, whole=True), process.secrets.json
    # Markdown is for reading, so it shows what JSON keeps as it is.
    text = (
        as_json(as_document(stored), mask=masked)
        if form == "json"
        else utf8_text(masked(as_markdown(stored)))
    )
    if output is None:
        answer(text)
        return
    write_private(output, text.rstrip("\n") + "\n", str(output))
    complain(f"wrote {stored.info.session} to {output}")


_UNFINISHED = {
    "open": "did not end",
    "error": "failed",
    "interrupted": "was interrupted",
    "approval": "waits for approval",
    "rolled-back": "was taken back",
}


def stored_session(
    process: Process,
    session: str | None,
    which: ConfigArgs,
    *,
    whole: bool = False,
) -> StoredSession:
    """A stored session; the last used one if ``session`` is None.

    Args:
        whole: its sub-agents' sessions too.

    Raises:
        UsageError: there is none.
    """
    from zeus_runtime.sessions.stored import read

    return from_session(process, session, which, lambda log, name: read(log, name, whole=whole))


def from_session(
    process: Process,
    session: str | None,
    which: ConfigArgs,
    read: Callable[[ThreadLog, str], Awaitable[T]],
) -> T:
    """What ``read`` makes of the session, by default the last used one.

    Raises:
        UsageError: there is no such session.
    """
    from zeus_runtime.errors import UsageError

    checked, own = read_owner(process, which)
    agent = checked.config.name if own else None

    async def work(log: ThreadLog) -> T | None:
        latest = await log.sessions(agent=agent, limit=1) if session is None else ()
        name = session or (latest[0].session if latest else None)
        return None if name is None else await read(log, name)

    found = with_log(process, checked, work, shows=True)
    if found is None:
        missing = f"no session {session!r}" if session else "no session yet"
        raise UsageError(f"there is {missing}", remedy="`zeus run` begins one.")
    return found


def session_table(sessions: Sequence[SessionInfo]) -> TextTable:
    """Sessions as rows: id, last use in local time, messages, how the last turn went, agent, first words.

    Those of sub-agents are indented below the session that they work for.
    """
    depths: dict[str, int] = {}
    for each in sessions:
        depths[each.session] = depths.get(each.parent, -1) + 1
    rows = [
        (
            f"{'  ' * (depths[each.session] - 1)}└ {each.session}" if depths[each.session] else each.session,
            local_time(each.updated_ms),
            str(each.messages),
            each.state,
            each.agent,
            shortened_title(each.title, 60),
        )
        for each in sessions
    ]
    return TextTable(rows, ("SESSION", "LAST USED", "MESSAGES", "STATE", "AGENT", "BEGINS"))
