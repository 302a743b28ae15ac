"""Which files a case may copy into its workspace, and where recordings may be written.

``ReadEvaluation.parts`` asks for files elsewhere. Here the protection of files holds as for the agent's tools.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.disk_paths import real_path
from zeus_runtime.escaping import printable
from zeus_runtime.testing.cases.format import CaseFile
from zeus_runtime.testing.cases.reading import JUDGED
from zeus_runtime.tools.paths import WorkspaceError

if TYPE_CHECKING:
    from zeus_runtime.config.messages.diagnostics import Diagnostic
    from zeus_runtime.testing.cases.format import Case
    from zeus_runtime.testing.cases.reading import ReadEvaluation
    from zeus_runtime.testing.cases.running import EvaluatedAgent, PlannedRun
    from zeus_runtime.tools import WorkspaceFiles

_ASKS: Final = "its rule asks a person before each tool call that reads it"


def copied(files: WorkspaceFiles, file: Path, *, max_bytes: int) -> bytes:
    """The content of a file that a case names.

    Args:
        files: the agent's workspace in the project, whose rules hold.

    Raises:
        WorkspaceError: the agent's tools may not read it.
    """
    why = refusal(files, file)
    if why is not None:
        raise WorkspaceError(f"{printable(str(file))} is not copied: {why}")
    return files.read_host(file, max_bytes=max_bytes)


def refused_copies(read: ReadEvaluation, agents: Sequence[EvaluatedAgent]) -> Iterator[Diagnostic]:
    """A problem for each file of a case that the tools of an agent may not read."""
    for number, case in enumerate(read.evaluation.cases):
        for place, file, hint in _named(case):
            why = next(filter(None, (refusal(agent.files, Path(file)) for agent in agents)), None)
            if why is not None:
                yield read.document.diagnostic(
                    ("cases", number, *place),
                    "unreadable-file",
                    f"this file is not copied: {why}",
                    hint=hint,
                )


def _named(case: Case) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Each file that a case names: its place in the case, its path, and what to do if it is refused."""
    for name, content in case.files.items():
        if isinstance(content, CaseFile):
            hint = "write the content here, or copy a file that the agent's tools may read"
            yield ("files", name, "file"), content.file, hint
    for index, each in enumerate(case.attachments):
        hint = "attach a file that the agent's tools may read"
        if isinstance(each, str):
            yield ("attachments", index), each, hint
        else:
            yield ("attachments", index, "file"), each.file, hint


def refused_recordings(read: ReadEvaluation, runs: Sequence[PlannedRun]) -> Iterator[Diagnostic]:
    """The problem with the folder of the recordings, if one of them could not be written there."""
    for run in runs:
        for kind in ("", JUDGED):
            why = _unwritable(read, run.agent.files, read.recording(run.cassette, kind))
            if why is not None:
                yield read.document.diagnostic(
                    ("cassette",),
                    "wrong-value",
                    f"recordings cannot be kept in {printable(str(read.cassette))}: {why}",
                    hint="name another folder, or remove the link",
                )
                return


def refusal(files: WorkspaceFiles, file: Path) -> str | None:
    """Why tools may not read a file; None if they may."""
    return files.refusal_of(file) or (_ASKS if files.needs_question(file) else None)


def _unwritable(read: ReadEvaluation, files: WorkspaceFiles, file: Path) -> str | None:
    real = Path(real_path(file))
    if real.parent != Path(real_path(read.cassette)):
        return f"{file.name} is a link to another folder"
    ruling = None if files.gate is None else files.gate.writing_elsewhere(_below(read, real), str(real))
    return None if ruling is None else ruling.why


def _below(read: ReadEvaluation, real: Path) -> tuple[str, ...]:
    """A path below the evaluation file's folder or the working directory; the whole path if it is elsewhere."""
    for folder in (read.path.parent, read.document.directory):
        base = real_path(folder)
        if real.is_relative_to(base):
            return real.relative_to(base).parts
    return real.parts[1:]
