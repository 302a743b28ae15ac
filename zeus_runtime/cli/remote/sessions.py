"""``zeus --remote URL sessions``: the sessions of a service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from zeus_runtime.cli.asking import agree
from zeus_runtime.cli.options import AT_MOST, json_option
from zeus_runtime.cli.output import TextTable, complain_table, local_time, tell
from zeus_runtime.cli.remote.service import client_of
from zeus_runtime.cli.sessions.options import file_option, form_option, middlewares_option
from zeus_runtime.cli.streams import answer, complain
from zeus_runtime.columns import shortened, shortened_title
from zeus_runtime.escaping import terminal_line

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from zeus_runtime.cli.process import Process
    from zeus_runtime.client.clients import AsyncServiceClient
    from zeus_runtime.client.results import ServiceSession


@click.group("sessions")
def command() -> None:
    """List, search, show, roll back, fork, archive, export or delete sessions of the service."""


@command.command("list")
@click.option("--agent", metavar="NAME", help="Of this agent only.")
@click.option("--archived", is_flag=True, help="Those that are archived.")
@click.option("--limit", metavar="N", type=AT_MOST, default=30, show_default=True, help="At most N.")
@json_option
@click.pass_obj
def list_sessions(process: Process, agent: str | None, archived: bool, limit: int, as_object: bool) -> None:
    """List the sessions, last used first."""
    with client_of(process) as client:
        found = client.sessions(agent, archived=archived, limit=min(limit, 1000))
    tell(
        process,
        [dict(each.data) for each in found],
        lambda: _table(found),
        as_object=as_object,
        nothing="no archived session" if archived else "no session yet",
    )


@command.command("search")
@click.argument("query")
@click.option("--agent", metavar="NAME", help="Of this agent only.")
@click.option(
    "-k", "most", metavar="N", type=click.IntRange(1, 100), default=20, show_default=True, help="At most N."
)
@json_option
@click.pass_obj
def search_sessions(process: Process, query: str, agent: str | None, most: int, as_object: bool) -> None:
    """Find the messages that contain QUERY, in any case of its letters, the newest first."""
    with client_of(process) as client:
        found = client.search_sessions(query, agent=agent, k=most)
    rows = [
        (each.session, str(each.number), each.role, local_time(each.created_ms), shortened(each.excerpt, 80))
        for each in found
    ]
    tell(
        process,
        [dict(each.data) for each in found],
        lambda: TextTable(rows, ("SESSION", "MESSAGE", "BY", "WHEN", "TEXT")),
        as_object=as_object,
        nothing="no message contains that",
    )


@command.command("rollback")
@click.argument("session")
@click.option("--to", required=True, metavar="N", type=click.IntRange(min=1), help="A message of yours.")
@click.option("--before", is_flag=True, help="Set the message itself aside too, to reword it.")
@click.pass_obj
def roll_back_session(process: Process, session: str, to: int, before: bool) -> None:
    """Go back to an earlier message; later messages are set aside, not deleted."""
    with client_of(process) as client:
        aside = client.roll_back(session, to, before=before)
    complain(
        f"{session} is back {'before' if before else 'at'} message {to}; {aside} message(s) were set aside"
    )


@command.command("fork")
@click.argument("session")
@click.option("--step", required=True, metavar="N", type=click.IntRange(min=1), help="The step to ask again.")
@middlewares_option
@click.pass_obj
def fork_session(process: Process, session: str, step: int, middlewares: str | None) -> None:
    """Begin a new session as SESSION was when step N was asked, and print its id; SESSION does not change.

    With --middlewares, which need a key with the scope `admin`, it has its own policies, and keeps them.
    """
    with client_of(process) as client:
        answer(client.fork_session(session, step, middlewares=middlewares).session)


@command.command("archive")
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...")
@click.pass_obj
def archive_sessions(process: Process, sessions: tuple[str, ...]) -> None:
    """Pack sessions away: out of the lists, and back with `restore`."""
    _each(process, sessions, lambda client, name: client.archive_session(name), "archived")


@command.command("restore")
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...")
@click.pass_obj
def restore_sessions(process: Process, sessions: tuple[str, ...]) -> None:
    """Bring archived sessions back as they were."""
    _each(process, sessions, lambda client, name: client.restore_session(name), "restored")


def _each(
    process: Process,
    sessions: Sequence[str],
    do: Callable[[AsyncServiceClient, str], Awaitable[object]],
    done: str,
) -> None:
    """Do something with each session, also after one with which it fails."""
    import asyncio
    from functools import partial

    from zeus_runtime.cli.remote.service import async_client_of
    from zeus_runtime.tools.run_to_completion import all_tried

    async def work() -> None:
        async with async_client_of(process) as client:

            async def one(name: str) -> None:
                await do(client, name)
                complain(f"{done} {name}")

            await all_tried(*(partial(one, name) for name in dict.fromkeys(sessions)), stops=True)

    asyncio.run(work())


@command.command("export")
@click.argument("session")
@form_option
@file_option
@click.pass_obj
def export_session(
    process: Process, session: str, form: Literal["json", "markdown"], output: Path | None
) -> None:
    """Write a session out, with what rollbacks set aside and its sub-agents' sessions."""
    from zeus_runtime.cli.whole_file import write_private

    with client_of(process) as client:
        text = client.export_session(session, form=form).decode("utf-8", "replace")
    if output is None:
        answer(text)
        return
    write_private(output, text.rstrip("\n") + "\n", str(output))
    complain(f"wrote {session} to {output}")


@command.command("show")
@click.argument("session")
@json_option
@click.pass_obj
def show_session(process: Process, session: str, as_object: bool) -> None:
    """Print a session's conversation, whole, as it was before any context policy."""
    from zeus_runtime.cli.transcript import transcript

    with client_of(process) as client:
        info, messages = client.session(session), client.messages(session)
    value = {**info.data, "messages": [dict(each) for each in messages]}
    decisions = [[terminal_line(str(one["text"])) for one in each.get("decisions", ())] for each in messages]
    notes = [
        "".join(f" · {part}" for part in (str(number), *decided))
        for number, decided in enumerate(decisions, start=1)
    ]
    tell(
        process,
        value,
        lambda: transcript(_as_messages(messages), notes),
        as_object=as_object,
    )


def _as_messages(told: Sequence[Mapping[str, Any]]) -> list[BaseMessage]:
    from zeus_runtime.client.errors import ServiceError
    from zeus_runtime.models.messages import from_payload

    try:
        return [from_payload(dict(each)) for each in told]
    except (LookupError, TypeError, ValueError):
        raise ServiceError(
            "the session has a message of a kind that this version does not know",
            code="invalid_answer",
            remedy="`--json` prints it. To read it, use the version of Zeus that the service has.",
        ) from None


@command.command("delete")
@click.argument("session")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def delete_session(process: Process, session: str, yes: bool) -> None:
    """Delete a session with all its messages."""
    with client_of(process) as client:
        info = client.session(session)
        if not yes:
            complain_table(_table([info]), mask=process.redact)
            agree(f"Delete this with all messages, {_ALONG}?", unasked="nothing is deleted unasked")
        client.delete_session(session if yes else info)
    complain(f"deleted {session}")


_ALONG: Final = "its sub-agents' sessions, and the files and memories that it has alone"


def _table(sessions: Sequence[ServiceSession]) -> TextTable:
    return TextTable(session_rows(sessions), ("SESSION", "LAST USED", "MESSAGES", "STATE", "AGENT", "BEGINS"))


def session_rows(sessions: Sequence[ServiceSession]) -> list[tuple[str, ...]]:
    """Sessions as rows of a table."""
    return [
        (
            each.session,
            local_time(each.updated_ms),
            str(each.messages),
            each.state,
            each.agent,
            shortened_title(each.title, 60),
        )
        for each in sessions
    ]
