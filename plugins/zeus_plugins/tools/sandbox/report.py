"""The text that the model gets when a program has ended, and the list of the sandbox's files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from zeus_runtime.plugin import Redactor, cut_place, printable
from zeus_runtime.plugin.sandbox import Outcome, SandboxFile, SandboxLimit, SandboxLimits

_MEGABYTE: Final = 2**20


def report(
    outcome: Outcome, limits: SandboxLimits, *, max_characters: int, secrets: Redactor | None = None
) -> str:
    """The output, without its middle if it is too long, and how the program ended.

    Args:
        secrets: masked before the middle is left out. Output that the backend cut also loses its last word, which
            may be the beginning of a secret.
    """
    text = outcome.output.decode("utf-8", "surrogateescape")
    if secrets is not None:
        is_cut = len(outcome.output) >= limits.output_bytes
        text = secrets.settled(text)[0] if is_cut else secrets.text(text)
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    text = cut(text, max_characters)
    return "\n".join([*([text.rstrip("\n")] if text.strip() else []), *_ending(outcome, limits)])


def cut(text: str, max_characters: int) -> str:
    """Masked text; if it is too long, its beginning and end with a note between them that says how much is left out."""
    if len(text) <= max_characters:
        return text
    head = max_characters * 2 // 3
    first, last = cut_place(text, head), cut_place(text, len(text) - max_characters + head)
    return f"{text[:first]}\n[... {last - first:,} characters left out ...]\n{text[last:]}"


def listed(files: Sequence[SandboxFile], *, most: int) -> Iterator[str]:
    """A line for each of the first ``most`` files, and a last line if there are more."""
    if not files:
        yield "The sandbox is ready and has no files."
        return
    yield "In the sandbox:"
    yield from (f"  {line(each)}" for each in files[:most])
    if len(files) > most:
        yield "  ... and more"


def line(file: SandboxFile) -> str:
    """The line that shows one file."""
    name = printable(file.path)
    if file.kind == "directory":
        return f"{name}/"
    return name if file.size_bytes is None else f"{name} ({file.size_bytes:,} bytes)"


def _ending(outcome: Outcome, limits: SandboxLimits) -> Iterator[str]:
    if outcome.killed_by is not None:
        yield f"[ended: {_reasons(limits)[outcome.killed_by]}]"
    elif outcome.exit_code or not outcome.output.strip():
        yield f"[exit code {outcome.exit_code}]"
    for each in outcome.lost:
        yield f"[not kept: {printable(each)}]"


def _reasons(limits: SandboxLimits) -> Mapping[SandboxLimit, str]:
    return {
        "seconds": f"it took longer than {limits.seconds:g} seconds",
        "memory": f"it took more than {limits.memory_bytes // _MEGABYTE} MB of memory",
        "processes": f"it started more than {limits.processes} processes",
        "file_size": f"it wrote a file larger than {limits.file_bytes // _MEGABYTE} MB",
        "disk": f"its files took more than {limits.disk_bytes // _MEGABYTE} MB",
        "files": f"it created more than {limits.files:,} files",
        "output": f"it printed more than {limits.output_bytes // 1024:,} KB",
    }
