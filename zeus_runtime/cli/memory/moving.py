"""``zeus memory export|import|reindex``: memories to a file and back, and their indexes made anew."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from zeus_runtime.cli.memory.opening import read_remembering, with_memory
from zeus_runtime.cli.memory.options import config_option, session_option
from zeus_runtime.cli.options import ConfigArgs, format_option
from zeus_runtime.cli.output import as_json, tell
from zeus_runtime.cli.streams import answer, complain, is_terminal

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeus_runtime.cli.process import Process
    from zeus_runtime.memory.outcomes import Imported, Lost
    from zeus_runtime.memory.service import MemoryService


@click.command("export")
@click.argument("file", required=False, type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--all", "every", is_flag=True, help="Also what is archived or superseded.")
@session_option
@config_option
@click.pass_obj
def export_memories(
    process: Process,
    file: str | None,
    every: bool,
    session: str | None,
    which: ConfigArgs,
) -> None:
    """Write memories and profiles as JSON lines to FILE, or to standard output.

    Each memory has its history and its links.
    """
    from zeus_runtime.cli.whole_file import write_private

    checked = read_remembering(process, which)

    async def work(memory: MemoryService) -> list[str]:
        status = None if every else "active"
        found = memory.export_memories(status=status)  # type: ignore[arg-type]
        # A memory may hold what became known as a secret after it was stored.
        return [as_json(each, indent=None, mask=process.secrets.masked) async for each in found]

    lines = with_memory(process, checked, work, session=session, looks=True) or []
    # The oldest first, so that an import replays them as they came.
    text = "".join(line + "\n" for line in reversed(lines))
    if file is None or file == "-":
        answer(text, end="")
        return
    write_private(process.directory / file, text, file)
    profiles = sum(line.startswith('{"profile"') for line in lines)
    complain(f"wrote {len(lines) - profiles} memories and {profiles} profiles to {file}")


@click.command("import")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "--instructions", is_flag=True, help="Also the instructions of the profile, which the model follows."
)
@session_option
@config_option
@format_option
@click.pass_context
def import_memories(
    ctx: click.Context,
    file: str,
    instructions: bool,
    session: str | None,
    which: ConfigArgs,
    as_object: bool,
) -> None:
    """Save the memories and profiles of FILE (`-`: standard input), JSON lines as `export` writes them.

    Memories pass the gate like everything else and become the config's user's own, with their histories and links.
    Fields of a profile that are written by hand here stay. Every line is checked before the first is saved. Memories
    that are already stored count as duplicates, so you can repeat an import that was stopped.

    Exit codes: 0 all of FILE is here now, 1 a part was left out (standard error says which and why), 2 FILE
    is no export.
    """
    process: Process = ctx.obj
    checked = read_remembering(process, which)
    name = "standard input" if file == "-" else file
    entries = _entries(_text(process, file), name)

    async def work(memory: MemoryService) -> Imported:
        with progress_bar(len(entries), "importing") as advance:
            return await memory.import_memories(
                [entry for _, entry in entries], progress=advance, instructions=instructions
            )

    done = with_memory(process, checked, work, session=session, saves=True)
    assert done is not None
    tell(
        process,
        {
            "outcomes": done.outcomes,
            "rejections": done.rejections,
            "left_out": done.left_out,
            "past": done.past,
            "lost": dict(done.lost),
            "notes": list(done.notes),
            "whole": done.is_whole,
        },
        lambda: ", ".join(f"{outcome} {count}" for outcome, count in done.outcomes.items()),
        as_object=as_object,
    )
    if not as_object:
        _tell_what_is_missing(done, entries, name)
    ctx.exit(0 if done.is_whole else 1)


def _tell_what_is_missing(
    done: Imported, entries: Sequence[tuple[int, Mapping[str, Any]]], name: str
) -> None:
    if done.past:
        complain(f"archived or superseded, as before: {done.past}")
    if done.left_out:
        complain(f"left out, since their successors were not imported: {done.left_out}")
    for part, count in done.lost.items():
        complain(f"left out: {_LOST[part].format(count)}")
    for note in done.notes:
        complain(f"left out: {note}")
    for code, count in done.rejections.items():
        complain(f"rejected: {code} {count}", "yellow")
    for number, refused in done.refused[:_SHOWN]:
        complain(f"{name}:{entries[number - 1][0]}: {refused.code}: {refused.message}")
    if len(done.refused) > _SHOWN:
        complain(f"... and {len(done.refused) - _SHOWN} more")


@click.command("reindex")
@session_option
@config_option
@click.pass_obj
def reindex(process: Process, session: str | None, which: ConfigArgs) -> None:
    """Make the lexical index anew, and the vectors that are not of the present embedding model.

    It may be stopped at any time, and continues where it stopped when it is run again.
    """
    checked = read_remembering(process, which)

    async def work(memory: MemoryService) -> int:
        with progress_bar(None, "embedding") as advance:
            return await memory.embeddings.reindex(progress=advance)

    done = with_memory(process, checked, work, session=session, looks=True) or 0
    answer(f"embedded {done}")


def _text(process: Process, file: str) -> str:
    from zeus_runtime.errors import UsageError

    try:
        return sys.stdin.read() if file == "-" else (process.directory / file).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(
            f"{file} is not UTF-8 text", remedy="Import what `zeus memory export` wrote."
        ) from None


def _entries(text: str, name: str) -> list[tuple[int, Mapping[str, Any]]]:
    """Each memory of a file with its line's number; all are memories, or it is said which is not."""
    from zeus_runtime.errors import UsageError
    from zeus_runtime.memory.drafts import ENTRY_FORM
    from zeus_runtime.memory.transfer import checked_entry

    entries: list[tuple[int, Mapping[str, Any]]] = []
    # Only a line feed ends a line of JSON; `splitlines` would tear texts that hold U+2028.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            column = getattr(error, "colno", 1)
            what = "nested too deep" if isinstance(error, RecursionError) else error
            raise UsageError(
                f"{name}:{number}:{column}: this is not a JSON object: {what}", remedy=ENTRY_FORM
            ) from None
        if not isinstance(entry, dict):
            raise UsageError(
                f"{name}:{number}:1: this is not a memory: it is not an object", remedy=ENTRY_FORM
            )
        checked_entry(entry, f"{name}:{number}:1")
        entries.append((number, entry))
    return entries


_LOST: Final[Mapping[Lost, str]] = {
    "histories": "the histories of {} memories: this memory backend keeps none from elsewhere",
    "links": "{} links between memories: this memory backend keeps none",
    "profile lines": "{} lines of profiles that were drawn from memories: these memories are not here or in a backend "
    "from which no line is drawn, or the line reads like a secret or an instruction",
}
_SHOWN: Final = 20
"""Rejected entries that are named with their lines."""


@contextmanager
def progress_bar(length: int | None, label: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error where a person looks at it: called with (done, in all)."""
    if not is_terminal(sys.stderr):
        yield lambda done, total: None
        return
    with click.progressbar(length=length or 1, label=label, file=sys.stderr) as bar:

        def advance(done: int, total: int) -> None:
            bar.length = max(total, 1)
            # click's bar takes steps, and `done` is a sum.
            bar.update(done - bar.pos)

        yield advance


__all__ = ["export_memories", "import_memories", "progress_bar", "reindex"]
