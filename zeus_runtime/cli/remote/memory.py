"""``zeus --remote URL memory``: what an agent of a service remembers of the token's user."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from zeus_runtime.cli.memory.deciding import agree_to, text_lines
from zeus_runtime.cli.memory.options import scope_option, type_option
from zeus_runtime.cli.options import AT_MOST, json_option
from zeus_runtime.cli.output import TextTable, local_time, tell
from zeus_runtime.cli.remote.service import client_of
from zeus_runtime.cli.streams import answer, complain
from zeus_runtime.columns import shortened
from zeus_runtime.memory.items import MEMORY_TYPES, SCOPES, STATUSES, VISIBILITIES

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.client.results import ServiceMemory

agent_option = click.option("--agent", metavar="NAME", help="Whose memory; of the only agent by default.")


@click.group("memory")
def command() -> None:
    """List, search, show, add or delete memories of the service."""


@command.command("list")
@type_option
@scope_option
@click.option(
    "--status", type=click.Choice([*STATUSES, "all"]), default="active", show_default=True, help="Only these."
)
@click.option("--limit", metavar="N", type=AT_MOST, default=50, show_default=True, help="At most N.")
@agent_option
@json_option
@click.pass_obj
def list_memories(
    process: Process,
    memory_type: str | None,
    scope: str | None,
    status: str,
    limit: int,
    agent: str | None,
    as_object: bool,
) -> None:
    """List memories, last changed first."""
    with client_of(process) as client:
        found = client.memories(
            agent=agent, scope=scope, memory_type=memory_type, status=status, limit=min(limit, 1000)
        )
    _tell(process, found, as_object=as_object, nothing="no memory")


@command.command("search")
@click.argument("query")
@click.option(
    "-k", "top_k", metavar="N", type=click.IntRange(1, 100), default=5, show_default=True, help="At most N."
)
@type_option
@scope_option
@click.option("--past", is_flag=True, help="Instead what was true before: superseded, archived, expired.")
@agent_option
@json_option
@click.pass_obj
def search(
    process: Process,
    query: str,
    top_k: int,
    memory_type: str | None,
    scope: str | None,
    past: bool,
    agent: str | None,
    as_object: bool,
) -> None:
    """Find the memories that fit QUERY best, as the agent would, with their scores."""
    with client_of(process) as client:
        found = client.search_memories(
            query, agent=agent, scope=scope, memory_type=memory_type, k=top_k, past=past
        )
    _tell(process, found, as_object=as_object, nothing="nothing that fits is remembered")


@command.command("show")
@click.argument("memory_id", metavar="ID")
@agent_option
@json_option
@click.pass_obj
def show(process: Process, memory_id: str, agent: str | None, as_object: bool) -> None:
    """Show one memory."""
    with client_of(process) as client:
        found = client.memory(memory_id, agent=agent)
    shown = {name: value for name, value in found.data.items() if value not in (None, "", [])}
    tell(
        process,
        dict(found.data),
        lambda: TextTable([(name.replace("_", " "), str(value)) for name, value in shown.items()]),
        as_object=as_object,
    )


@command.command("add")
@click.argument("content")
@click.option(
    "--type",
    "memory_type",
    type=click.Choice(MEMORY_TYPES),
    default="fact",
    show_default=True,
    help="What kind of statement it is.",
)
@click.option(
    "--scope", type=click.Choice(SCOPES), default="user", show_default=True, help="Whom it concerns."
)
@click.option(
    "--visibility",
    type=click.Choice(VISIBILITIES),
    default="members",
    show_default=True,
    help="Who of the project may read it.",
)
@click.option("--session", metavar="ID", help="Of this session, with --scope session.")
@click.option("--subject", metavar="TEXT", help="What it is about.")
@click.option(
    "--replaces", metavar="ID", multiple=True, help="A memory that is no longer true; may be repeated."
)
@agent_option
@click.pass_obj
def add(
    process: Process,
    content: str,
    memory_type: str,
    scope: str,
    visibility: str,
    session: str | None,
    subject: str | None,
    replaces: tuple[str, ...],
    agent: str | None,
) -> None:
    """Keep CONTENT (`-`: standard input) and print its id; the service's gate decides, as for its agents."""
    text = sys.stdin.read() if content == "-" else content
    with client_of(process) as client:
        saved = client.add_memory(
            text,
            agent=agent,
            session=session,
            memory_type=memory_type,
            scope=scope,
            visibility=visibility,
            subject=subject,
            replaces=replaces or None,
        )
    if saved.replaced:
        complain(f"saved in place of {', '.join(saved.replaced)}")
    if saved.outcome == "duplicate" or saved.memory.trust == "quarantined":
        complain(saved.message)
    answer(saved.memory.id)


@command.command("delete")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@agent_option
@click.pass_obj
def delete(process: Process, ids: tuple[str, ...], yes: bool, agent: str | None) -> None:
    """Delete memories for good, with what they had replaced and the texts of their histories."""
    wanted = tuple(dict.fromkeys(ids))
    with client_of(process) as client:
        found = [client.memory(each, agent=agent) for each in wanted]
        if not yes:
            mask = process.secrets.text
            lines = (
                line for each in found for line in (each.id, *text_lines(each.subject, each.content, mask))
            )
            question = f"Delete {', '.join(wanted)}, with what they replaced?"
            agree_to(lines, question, unasked="nothing is deleted unasked")
        for each in found:
            client.delete_memory(each, agent=agent)
    complain(f"deleted {', '.join(wanted)}")


@command.command("history")
@click.argument("memory_id", metavar="ID")
@agent_option
@json_option
@click.pass_obj
def history(process: Process, memory_id: str, agent: str | None, as_object: bool) -> None:
    """Show what happened to a memory, in order."""
    with client_of(process) as client:
        found = client.memory_history(memory_id, agent=agent)
    rows = [
        (str(each["version"]), each["action"], _at(each["at"]), each["by"], shortened(each["content"], 80))
        for each in found
    ]
    tell(
        process,
        {"memory": memory_id, "changes": found},
        lambda: TextTable(rows, ("VERSION", "ACTION", "WHEN", "BY", "CONTENT")),
        as_object=as_object,
    )


def _tell(process: Process, found: Sequence[ServiceMemory], *, as_object: bool, nothing: str) -> None:
    rows = [
        (
            each.id,
            each.memory_type,
            each.scope,
            each.status,
            _at(each.updated_at),
            "" if each.final_score is None else f"{each.final_score:.3f}",
            shortened(each.content, 80),
        )
        for each in found
    ]
    tell(
        process,
        {"memories": [dict(each.data) for each in found]},
        lambda: TextTable(rows, ("ID", "TYPE", "SCOPE", "STATUS", "CHANGED", "SCORE", "CONTENT")),
        as_object=as_object,
        nothing=nothing,
    )


def _at(time: str) -> str:
    try:
        return local_time(datetime.fromisoformat(time))
    except (ValueError, OverflowError):
        return time  # the service's own text: it may be of another version
