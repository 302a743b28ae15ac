"""``zeus memory``: look at memories, add and delete them."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from zeus_runtime.cli.memory.batches import consolidate, undo
from zeus_runtime.cli.memory.deciding import decide, delete_read, going
from zeus_runtime.cli.memory.documents import extract
from zeus_runtime.cli.memory.embeddings import embeddings
from zeus_runtime.cli.memory.members import members
from zeus_runtime.cli.memory.moving import export_memories, import_memories, reindex
from zeus_runtime.cli.memory.opening import read_remembering, with_memory
from zeus_runtime.cli.memory.options import (
    config_option,
    scope_option,
    session_option,
    type_option,
)
from zeus_runtime.cli.memory.profile import profile
from zeus_runtime.cli.memory.quarantine import quarantine
from zeus_runtime.cli.options import AT_MOST, ConfigArgs, format_option
from zeus_runtime.cli.output import tell
from zeus_runtime.cli.streams import answer, complain
from zeus_runtime.memory.items import MEMORY_TYPES, SCOPES, STATUSES, VISIBILITIES

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.memory.items import HiddenMemory, MemoryItem, MemoryType, Scope, Status, Visibility
    from zeus_runtime.memory.retrieval.ranking import Ranked
    from zeus_runtime.memory.service import MemoryService, SearchMode


DAY = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"])


@click.group("memory")
def command() -> None:
    """List, search, add, delete, move or index memories; profiles and members."""


@command.command("list")
@type_option
@scope_option
@click.option(
    "--status",
    type=click.Choice([*STATUSES, "all"]),
    default="active",
    show_default=True,
    help="Only these.",
)
@click.option("--limit", metavar="N", type=AT_MOST, default=50, show_default=True, help="At most N.")
@session_option
@config_option
@format_option
@click.pass_obj
def list_memories(
    process: Process,
    memory_type: MemoryType | None,
    scope: Scope | None,
    status: str,
    limit: int,
    session: str | None,
    which: ConfigArgs,
    as_object: bool,
) -> None:
    """List memories, last changed first.

    NEAR names memories that were near one when it was saved and were kept beside it. TRUE are the days between which
    it is true. Both columns are left out if they are empty.

    A project's owner and admins see after them which memories of other members are kept for their author alone: that
    they are there, not what they say. `zeus memory delete` removes those too.
    """
    from zeus_runtime.cli.memory.tables import items_table
    from zeus_runtime.memory.shown import Linked, item_json

    wanted: Status | None = None if status == "all" else status  # type: ignore[assignment]

    async def work(memory: MemoryService) -> tuple[list[MemoryItem], list[HiddenMemory], Linked]:
        found = await memory.list_memories(scope=scope, memory_type=memory_type, status=wanted, limit=limit)
        # Of what kind they are is not told, so they are of none that was asked for.
        left = limit - len(found) if memory_type is None else 0
        hidden = await memory.hidden_memories(scope=scope, status=wanted, limit=left) if left else []
        return found, hidden, await memory.linked_memories({each.id for each in found})

    checked = read_remembering(process, which)
    nothing: tuple[list[MemoryItem], list[HiddenMemory], Linked] = ([], [], {})
    found, hidden, linked = with_memory(process, checked, work, session=session, looks=True) or nothing
    listed = {"memories": [item_json(each, linked) for each in found], "hidden": hidden}
    tell(
        process,
        listed,
        lambda: items_table(found, hidden, linked, datetime.now(UTC)),
        as_object=as_object,
        nothing="no memory",
    )


@command.command("show")
@click.argument("memory_id", metavar="ID")
@session_option
@config_option
@format_option
@click.pass_obj
def show(
    process: Process,
    memory_id: str,
    session: str | None,
    which: ConfigArgs,
    as_object: bool,
) -> None:
    """Show one memory: its content, when it is true, its source, and the memories near it."""
    from zeus_runtime.cli.memory.tables import item_table
    from zeus_runtime.memory.outcomes import unknown
    from zeus_runtime.memory.shown import Linked, item_json

    async def work(memory: MemoryService) -> tuple[MemoryItem, Linked]:
        return await memory.get(memory_id), await memory.linked_memories([memory_id])

    checked = read_remembering(process, which)
    found = with_memory(process, checked, work, session=session, looks=True)
    if found is None:
        raise unknown(memory_id)
    tell(
        process,
        item_json(*found),
        lambda: item_table(*found, datetime.now(UTC)),
        as_object=as_object,
    )


@command.command("search")
@click.argument("query")
@click.option("-k", "top_k", metavar="N", type=AT_MOST, default=5, show_default=True, help="At most N.")
@type_option
@scope_option
@click.option(
    "--mode",
    type=click.Choice(["fused", "vector"]),
    default="fused",
    show_default=True,
    help="Words and vectors together, or the bare cosine.",
)
@click.option("--past", is_flag=True, help="Instead what was true before: superseded, archived, expired.")
@session_option
@config_option
@format_option
@click.pass_obj
def search(
    process: Process,
    query: str,
    top_k: int,
    memory_type: MemoryType | None,
    scope: Scope | None,
    mode: SearchMode,
    past: bool,
    session: str | None,
    which: ConfigArgs,
    as_object: bool,
) -> None:
    """Find the memories that fit QUERY best, as the agent would, with their scores.

    SCORE is similarity × 0.5 + confidence × 0.3 + scope × 0.2 (session 1.0, project 0.8, user 0.6).
    """
    from zeus_runtime.cli.memory.tables import found_table
    from zeus_runtime.errors import UsageError
    from zeus_runtime.memory.shown import found_json

    if not query.strip():
        raise UsageError("there are no words to look for")
    if past and mode == "vector":
        raise UsageError("--past and --mode vector exclude each other: what is over has no vectors")
    checked = read_remembering(process, which)

    async def work(memory: MemoryService) -> list[Ranked]:
        if past:
            return await memory.search_past(query, k=top_k, memory_type=memory_type, scope=scope)
        return await memory.search_memories(query, k=top_k, memory_type=memory_type, scope=scope, mode=mode)

    found = with_memory(process, checked, work, session=session, looks=True) or []
    tell(
        process,
        {"memories": [found_json(each) for each in found]},
        lambda: found_table(found),
        as_object=as_object,
        nothing="nothing that fits is remembered",
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
    "--scope",
    type=click.Choice(SCOPES),
    default="user",
    show_default=True,
    help="Whom it concerns.",
)
@click.option(
    "--visibility",
    type=click.Choice(VISIBILITIES),
    default="members",
    show_default=True,
    help="Who of the project may read it.",
)
@click.option("--subject", metavar="TEXT", help="What it is about.")
@click.option(
    "--replaces",
    metavar="ID",
    multiple=True,
    help="A memory that is no longer true; may be repeated. Then no rule decides what it replaces.",
)
@click.option(
    "--valid-from", metavar="DATE", type=DAY, help="From when it is true; a day begins at midnight UTC."
)
@click.option("--valid-until", metavar="DATE", type=DAY, help="From when it is no longer true.")
@session_option
@config_option
@click.pass_obj
def add(
    process: Process,
    content: str,
    memory_type: str,
    scope: str,
    visibility: Visibility,
    subject: str | None,
    replaces: tuple[str, ...],
    valid_from: datetime | None,
    valid_until: datetime | None,
    session: str | None,
    which: ConfigArgs,
) -> None:
    """Keep CONTENT (`-`: standard input) and print its id.

    It passes the same gate as memories that the agent saves: duplicates are reported and secrets are refused. What it
    replaces is named with --replaces; without that option, rules decide whether it gives an older memory a new value.
    """
    from zeus_runtime.errors import UsageError
    from zeus_runtime.memory.drafts import ends_before_it_begins

    since, until = (None if each is None else each.replace(tzinfo=UTC) for each in (valid_from, valid_until))
    if ends_before_it_begins(since, until):
        raise UsageError("--valid-until is not after --valid-from")
    checked = read_remembering(process, which)
    text = sys.stdin.read() if content == "-" else content
    saved = with_memory(
        process,
        checked,
        lambda memory: memory.add_explicit_memory(
            text,
            memory_type=memory_type,
            scope=scope,
            visibility=visibility,
            subject=subject,
            valid_from=since,
            valid_until=until,
            replaces=replaces or None,
        ),
        session=session,
        saves=True,
    )
    assert saved is not None
    if saved.item is None:
        raise UsageError(f"not saved ({saved.code}): {saved.message}", remedy=_REMEDIES.get(saved.code or ""))
    if saved.all_replaced:
        complain(f"saved in place of {', '.join(each.id for each in saved.all_replaced)}")
    if saved.near and saved.outcome != "duplicate":
        complain(f"near it: {', '.join(each.id for each in saved.near)}; `zeus memory show ID` shows one")
    if saved.outcome == "duplicate" or saved.item.trust == "quarantined":
        complain(saved.message)
    answer(saved.item.id)


_REMEDIES = {
    "no_scope": "Name a session with --session, or a project under memory.project.",
    "unknown_memory": "`zeus memory list` shows the ids.",
}


@command.command("delete")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@session_option
@config_option
@click.pass_obj
def delete(
    process: Process,
    ids: tuple[str, ...],
    yes: bool,
    session: str | None,
    which: ConfigArgs,
) -> None:
    """Delete memories for good, with what they had replaced, their history's texts and the profile lines from them."""
    decide(process, ids, yes, session, which, "Delete", going, delete_read)


@command.command("stats")
@session_option
@config_option
@format_option
@click.pass_obj
def stats(
    process: Process,
    session: str | None,
    which: ConfigArgs,
    as_object: bool,
) -> None:
    """Count memories by status, scope, kind, source and embedding model."""
    from zeus_runtime.cli.memory.tables import stats_table
    from zeus_runtime.memory.outcomes import MemoryStats

    checked = read_remembering(process, which)
    found = with_memory(process, checked, lambda memory: memory.stats(), session=session, looks=True)
    counted = found or MemoryStats(0, {}, 0)
    value = {
        "active": counted.active,
        "waiting": counted.waiting,
        "by": {k: dict(v) for k, v in counted.by.items()},
    }
    tell(process, value, lambda: stats_table(counted), as_object=as_object)


@command.command("history")
@click.argument("memory_id", metavar="ID")
@session_option
@config_option
@format_option
@click.pass_obj
def history(
    process: Process,
    memory_id: str,
    session: str | None,
    which: ConfigArgs,
    as_object: bool,
) -> None:
    """Show what happened to a memory, in order."""
    from zeus_runtime.cli.memory.tables import history_table
    from zeus_runtime.errors import UsageError

    checked = read_remembering(process, which)
    found = with_memory(
        process, checked, lambda memory: memory.memory_history(memory_id), session=session, looks=True
    )
    if found is None:
        raise UsageError(
            "there is no memory yet", remedy=f"There is no database {checked.config.storage.url}."
        )
    changes = [each._asdict() for each in found]
    tell(
        process,
        {"memory": memory_id, "changes": changes},
        lambda: history_table(found),
        as_object=as_object,
    )


command.add_command(export_memories)
command.add_command(import_memories)
command.add_command(reindex)
command.add_command(embeddings)
command.add_command(profile)
command.add_command(members)
command.add_command(quarantine)
command.add_command(undo)
command.add_command(consolidate)
command.add_command(extract)
