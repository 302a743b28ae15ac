"""``zeus memory quarantine``: memories that read like instructions, for a person to look at: list, release, delete."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from zeus_runtime.cli.asking import agree
from zeus_runtime.cli.memory.opening import read_remembering, with_memory
from zeus_runtime.cli.memory.options import config_option, session_option
from zeus_runtime.cli.options import ConfigArgs, format_option
from zeus_runtime.cli.output import folded_lines, tell
from zeus_runtime.cli.streams import complain, is_terminal, terminal_columns
from zeus_runtime.escaping import exact_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from zeus_runtime.cli.process import Process
    from zeus_runtime.memory.items import MemoryItem
    from zeus_runtime.memory.service import MemoryService


@click.group("quarantine")
def quarantine() -> None:
    """List, release or delete the memories that no model is shown, since they read like instructions."""


@quarantine.command("list")
@session_option
@config_option
@format_option
@click.pass_obj
def list_quarantined(process: Process, session: str | None, which: ConfigArgs, as_object: bool) -> None:
    """List the quarantined memories with their sources, last changed first."""
    from zeus_runtime.cli.memory.tables import quarantine_table
    from zeus_runtime.memory.shown import item_json

    async def work(memory: MemoryService) -> list[MemoryItem]:
        return await memory.quarantined_memories()

    checked = read_remembering(process, which)
    found = with_memory(process, checked, work, session=session, looks=True) or []
    tell(
        process,
        {"memories": [item_json(each, {}) for each in found]},
        lambda: quarantine_table(found, datetime.now(UTC)),
        as_object=as_object,
        nothing="no memory is quarantined",
    )


@quarantine.command("release")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@session_option
@config_option
@click.pass_obj
def release(
    process: Process, ids: tuple[str, ...], yes: bool, session: str | None, which: ConfigArgs
) -> None:
    """Show memories to models from now on, after you have read them.

    The other checks of the gate are made again: secrets are refused, and so is a text that another memory has. A
    released memory replaces no other. Its source stays: the text of a document is untrusted.
    """

    async def work(memory: MemoryService, found: Sequence[MemoryItem]) -> None:
        for each in found:
            await memory.release_memory(each.id, version=each.version)
            complain(f"released {each.id}")

    _with_quarantined(process, ids, yes, session, which, "Release", work)


@quarantine.command("delete")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@session_option
@config_option
@click.pass_obj
def delete(process: Process, ids: tuple[str, ...], yes: bool, session: str | None, which: ConfigArgs) -> None:
    """Delete quarantined memories for good; `zeus memory delete` deletes any memory."""

    async def work(memory: MemoryService, found: Sequence[MemoryItem]) -> None:
        for each in found:
            await memory.delete_memory(each.id)
            complain(f"deleted {each.id}")

    _with_quarantined(process, ids, yes, session, which, "Delete", work)


def _with_quarantined(
    process: Process,
    ids: tuple[str, ...],
    yes: bool,
    session: str | None,
    which: ConfigArgs,
    verb: str,
    work: Callable[[MemoryService, Sequence[MemoryItem]], Awaitable[None]],
) -> None:
    """Do ``work`` with memories that are all quarantined, once the user agreed; else with none."""
    from zeus_runtime.errors import UsageError

    checked = read_remembering(process, which)
    wanted = tuple(dict.fromkeys(ids))

    async def all_quarantined(memory: MemoryService) -> list[MemoryItem]:
        return [await memory.quarantined(each) for each in wanted]

    found = with_memory(process, checked, all_quarantined, session=session, looks=True)
    if found is None:
        from zeus_runtime.memory.outcomes import unknown

        raise unknown(wanted[0])
    if not yes:
        if not is_terminal(sys.stdin):
            raise UsageError(f"{verb.lower()}: not a terminal, so nobody can be asked", remedy="Say --yes.")
        for line in folded_lines(_lines(found, process.secrets.text), terminal_columns(sys.stderr)):
            complain(line, laid_out=True)
        agree(f"{verb} {', '.join(wanted)}?")
    with_memory(process, checked, lambda memory: work(memory, found), session=session)


def _lines(items: Sequence[MemoryItem], mask: Callable[[str], str]) -> Iterator[str]:
    """Each memory as a person decides about it: all of its text that a model may be shown, each part in one line."""
    for item in items:
        yield f"{item.id} ({item.source}{f' {exact_line(mask(item.source_id))}' if item.source_id else ''})"
        yield from (
            f"  {name}: {exact_line(mask(text))}"
            for name, text in (("subject", item.subject), ("content", item.content))
            if text
        )
