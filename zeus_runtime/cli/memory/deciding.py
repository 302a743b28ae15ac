"""Memories that a person reads and then releases or deletes: the texts are shown first, and no other text is meant."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from zeus_runtime.cli.asking import agree
from zeus_runtime.cli.memory.opening import read_remembering, with_memory
from zeus_runtime.cli.output import folded_lines
from zeus_runtime.cli.streams import complain, terminal_columns
from zeus_runtime.escaping import exact_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from zeus_runtime.cli.options import ConfigArgs
    from zeus_runtime.cli.process import Process
    from zeus_runtime.memory.items import MemoryItem
    from zeus_runtime.memory.service import MemoryService


class Decided(NamedTuple):
    """A memory that is decided about.

    Args:
        item: as it was read; None if the caller may delete it, and not read all that goes.
        older: what goes with it.
    """

    id: str
    item: MemoryItem | None
    older: tuple[MemoryItem, ...] = ()


def decide(
    process: Process,
    ids: Sequence[str],
    yes: bool,
    session: str | None,
    which: ConfigArgs,
    verb: str,
    read: Callable[[MemoryService, str], Awaitable[Decided]],
    work: Callable[[MemoryService, Decided], Awaitable[None]],
) -> None:
    """Do ``work`` with each memory once the user has seen all and agreed; if one cannot be read so, with none."""
    from zeus_runtime.memory.outcomes import unknown

    checked = read_remembering(process, which)
    wanted = tuple(dict.fromkeys(ids))

    async def read_all(memory: MemoryService) -> list[Decided]:
        return [await read(memory, each) for each in wanted]

    async def work_on_all(memory: MemoryService) -> None:
        for each in found or ():
            await work(memory, each)

    found = with_memory(process, checked, read_all, session=session, looks=True)
    if found is None:
        raise unknown(wanted[0])
    if not yes:
        lines = (line for each in found for line in _lines(each, process.secrets.text))
        unasked = f"{verb.lower()}: not a terminal, so nobody can be asked"
        agree_to(lines, f"{verb} {', '.join(wanted)}?", unasked=unasked)
    with_memory(process, checked, work_on_all, session=session)


def agree_to(lines: Iterable[str], question: str, *, unasked: str) -> None:
    """Show the lines and ask; unless the user agrees, the command ends."""
    for line in folded_lines(lines, terminal_columns(sys.stderr)):
        complain(line, laid_out=True)
    agree(question, unasked=unasked)


async def going(memory: MemoryService, memory_id: str) -> Decided:
    """All that a deletion removes."""
    from zeus_runtime.memory.outcomes import UnreadableMemoryError

    try:
        item, *older = await memory.deleted_with(memory_id)
    except UnreadableMemoryError:
        return Decided(memory_id, None)
    return Decided(memory_id, item, tuple(older))


async def delete_read(memory: MemoryService, each: Decided) -> None:
    """Delete a memory as it was read."""
    if each.item is None:
        await memory.delete_memory(each.id)
    else:
        along = [older.id for older in each.older]
        await memory.delete_memory(each.id, version=each.item.version, along=along)
    complain(f"deleted {each.id}")


def _lines(each: Decided, mask: Callable[[str], str]) -> Iterator[str]:
    """A memory as a person decides about it: all of its text that a model may be shown, each part in one line."""
    if each.item is None:
        yield f"{each.id}: you may not read all of it"
        return
    for item in (each.item, *each.older):
        yield from memory_lines("" if item is each.item else "goes with it: ", item, mask)


def memory_lines(head: str, item: MemoryItem, mask: Callable[[str], str]) -> Iterator[str]:
    """A memory's id and source behind ``head``, and its texts."""
    source = f"{item.source}{f' {exact_line(mask(item.source_id))}' if item.source_id else ''}"
    yield f"{head}{item.id} ({source})"
    yield from text_lines(item.subject, item.content, mask)


def text_lines(subject: str | None, content: str, mask: Callable[[str], str]) -> Iterator[str]:
    """A memory's texts, each in one line."""
    for name, text in (("subject", subject), ("content", content)):
        if text:
            yield f"  {name}: {exact_line(mask(text))}"
