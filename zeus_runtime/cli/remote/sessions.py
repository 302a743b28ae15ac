"""``zeus --remote URL sessions``: the sessions of a service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from zeus_runtime.cli.asking import agree
from zeus_runtime.cli.options import AT_MOST, json_option
from zeus_runtime.cli.output import TextTable, local_time, tell
from zeus_runtime.cli.remote.service import client_of
from zeus_runtime.cli.streams import complain
from zeus_runtime.columns import shortened

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.client.results import ServiceSession


@click.group("sessions")
def command() -> None:
    """List, show or delete sessions of the service."""


@command.command("list")
@click.option("--agent", metavar="NAME", help="Of this agent only.")
@click.option("--limit", metavar="N", type=AT_MOST, default=30, show_default=True, help="At most N.")
@json_option
@click.pass_obj
def list_sessions(process: Process, agent: str | None, limit: int, as_object: bool) -> None:
    """List the sessions, last used first."""
    with client_of(process) as client:
        found = client.sessions(agent)[:limit]
    tell(
        process,
        [dict(each.data) for each in found],
        lambda: TextTable(
            session_rows(found), ("SESSION", "LAST USED", "MESSAGES", "STATE", "AGENT", "BEGINS")
        ),
        as_object=as_object,
        nothing="no session yet",
    )


@command.command("show")
@click.argument("session")
@json_option
@click.pass_obj
def show_session(process: Process, session: str, as_object: bool) -> None:
    """Print a session's conversation, whole, as it was before any context policy."""
    from zeus_runtime.cli.transcript import transcript
    from zeus_runtime.models.messages import from_payload

    with client_of(process) as client:
        info, messages = client.session(session), client.messages(session)
    value = {**info.data, "messages": [dict(each) for each in messages]}
    notes = [f" · {number}" for number in range(1, len(messages) + 1)]
    tell(
        process,
        value,
        lambda: transcript([from_payload(dict(each)) for each in messages], notes),
        as_object=as_object,
    )


@command.command("delete")
@click.argument("session")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def delete_session(process: Process, session: str, yes: bool) -> None:
    """Delete a session with all its messages."""
    with client_of(process) as client:
        info = client.session(session)
        if not yes:
            agree(f"Delete {info.session} with {info.messages} messages?")
        client.delete_session(session)
    complain(f"deleted {session}")


def session_rows(sessions: Sequence[ServiceSession]) -> list[tuple[str, ...]]:
    """Sessions as rows of a table."""
    return [
        (
            each.session,
            local_time(each.updated_ms),
            str(each.messages),
            each.state,
            each.agent,
            shortened(each.title, 60),
        )
        for each in sessions
    ]
