"""``zeus memory quarantine``: memories that read like instructions, for a person to look at: list, release, delete."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from zeus_runtime.cli.memory.deciding import Decided, decide, delete_read, going
from zeus_runtime.cli.memory.opening import read_remembering, with_memory
from zeus_runtime.cli.memory.options import config_option, session_option
from zeus_runtime.cli.options import ConfigArgs, format_option
from zeus_runtime.cli.output import tell
from zeus_runtime.cli.streams import complain

if TYPE_CHECKING:
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

    async def read(memory: MemoryService, memory_id: str) -> Decided:
        return Decided(memory_id, await memory.quarantined(memory_id))

    async def work(memory: MemoryService, each: Decided) -> None:
        assert each.item is not None, "who may release it may read it"
        await memory.release_memory(each.id, version=each.item.version)
        complain(f"released {each.id}")

    decide(process, ids, yes, session, which, "Release", read, work)


@quarantine.command("delete")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@session_option
@config_option
@click.pass_obj
def delete(process: Process, ids: tuple[str, ...], yes: bool, session: str | None, which: ConfigArgs) -> None:
    """Delete quarantined memories for good; `zeus memory delete` deletes any memory."""

    async def read(memory: MemoryService, memory_id: str) -> Decided:
        await memory.quarantined(memory_id)
        return await going(memory, memory_id)

    decide(process, ids, yes, session, which, "Delete", read, delete_read)
