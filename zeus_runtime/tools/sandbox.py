"""Sandboxes, in which code from a model runs, and the promises of every backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from zeus_runtime.errors import RunError, UnavailableError

if TYPE_CHECKING:
    from zeus_runtime.tools.program_view import ProgramMount

Language: TypeAlias = Literal["python", "shell"]
SandboxLimit: TypeAlias = Literal["seconds", "memory", "processes", "file_size", "disk", "files", "output"]
Boundary: TypeAlias = Literal["namespaces", "container", "machine"]

WORKING_FOLDER = "/workspace"
"""The folder in which a program starts; its files are kept for the next program."""


class SandboxError(RunError):
    """A sandbox failed: the program was not run, or its files were not kept."""

    code = "sandbox"


class SandboxUnavailableError(UnavailableError):
    """This backend cannot isolate programs here (exit 4); they are not run without isolation instead."""

    code = "sandbox_unavailable"


@dataclass(frozen=True)
class SandboxLimits:
    """The limits of one program; it is killed if it reaches a limit that can be measured.

    Args:
        seconds: wall time.
        memory_bytes: memory of all its processes together, without files in ``/tmp`` and the working folder.
        processes: processes and threads at the same time.
        file_bytes: size of one file.
        disk_bytes: size of the working folder; ``/tmp`` may take the same again.
        files: files and folders in the working folder; ``/tmp`` may have the same number again.
        output_bytes: its standard output and error together.
    """

    seconds: float = 60.0
    memory_bytes: int = 512 * 2**20
    processes: int = 64
    file_bytes: int = 64 * 2**20
    disk_bytes: int = 256 * 2**20
    files: int = 20_000
    output_bytes: int = 2 * 2**20


@dataclass(frozen=True)
class SharedWorkspace:
    """The workspace, as one program may use it.

    Args:
        folder: the real path of its root, where the program starts.
        look: returns its folders and files with the program's rights, a folder before what is in it. It blocks. If
            files are replaced before the program runs, it is called again.
    """

    folder: Path
    look: Callable[[], Sequence[ProgramMount]]


@dataclass(frozen=True)
class Program:
    """A command to run, with files for this run only.

    Args:
        arguments: the command and its arguments; without a shell, unless the command is one.
        files: file name to content, written to ``/tmp`` before the start.
        environ: variables besides the few that every program gets; none are inherited from the host.
        workspace: it also uses this workspace, at its real path, and starts there; only with a backend whose
            capabilities have ``workspace``.
    """

    arguments: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    workspace: SharedWorkspace | None = None


def refuse_unrunnable(program: Program) -> None:
    """Refuse programs that no system can run.

    Raises:
        SandboxError: a NUL character, a variable's name with ``=``, a file that is not a plain name.
    """
    texts = (*program.arguments, *program.environ, *program.environ.values())
    if any("\0" in each for each in texts):
        raise SandboxError("a command, its arguments and its variables cannot hold a NUL character")
    if any("=" in name for name in program.environ):
        raise SandboxError("the name of a variable cannot hold a =")
    if any("/" in name or name in ("", ".", "..") for name in program.files):
        raise SandboxError("a program's own files have plain names, without folders")


@dataclass(frozen=True)
class Outcome:
    """How a program ended.

    Args:
        exit_code: its exit code; 128 plus the signal's number if a signal killed it.
        killed_by: the limit that ended it; None if none did.
        output: its standard output and error in order, cut at ``output_bytes``.
        seconds: wall time from the program's start to its end.
        lost: files that could not be kept, each with the reason.
    """

    exit_code: int
    killed_by: SandboxLimit | None
    output: bytes
    seconds: float
    lost: tuple[str, ...] = ()


@dataclass(frozen=True)
class SandboxFile:
    """A file, folder or link in the working folder.

    Args:
        path: the absolute path for programs.
        kind: file, directory or link.
        size_bytes: the size of a file.
    """

    path: str
    kind: Literal["file", "directory", "link"]
    size_bytes: int | None = None


@dataclass(frozen=True)
class SandboxCapabilities:
    """What a backend does and enforces.

    Args:
        boundary: the boundary between a program and the host: Linux namespaces of one kernel, a container, a machine.
        network: whether programs have a network.
        languages: the languages that ``execute_code`` can run.
        limits: the limits that it enforces; all others are not enforced.
        isolated: whether programs see only their files in ``/workspace`` and ``/tmp``. If not, they start in a separate
            folder, ``TMPDIR`` is another one that is removed after them, and they see everything that its user sees.
        weaknesses: limits that this machine cannot enforce fully, one sentence each (`zeus doctor`).
        workspace: checks that programs can use a workspace with these real folders; raises ``OptionsError`` or
            ``SandboxUnavailableError``. None: this backend's programs cannot.
        machine: the other machine that programs run on, such as ``ann@build.example``; empty for this one. A person
            who approves a call sees it, and the approval holds for it alone. After ``check`` it stays the same, and
            programs run there.
    """

    boundary: Boundary
    network: bool
    languages: tuple[Language, ...]
    limits: frozenset[SandboxLimit]
    isolated: bool = True
    weaknesses: tuple[str, ...] = ()
    workspace: Callable[[Sequence[Path]], None] | None = None
    machine: str = field(kw_only=True)


class Sandbox(Protocol):
    """One session's sandbox. Programs run one after the other; files in the working folder are kept between them."""

    async def exec(
        self,
        program: Program,
        limits: SandboxLimits,
        on_output: Callable[[bytes], None] | None = None,
    ) -> Outcome:
        """Run a program to its end; when this returns or is cancelled, all its processes are dead.

        Args:
            program: the program to run in the working folder.
            limits: its limits.
            on_output: called with each piece of output as it arrives.

        Raises:
            SandboxError: the program could not be run.
        """
        ...

    async def read(self, path: str, *, max_bytes: int) -> bytes:
        """Return a file's content from the working folder; links that lead out of it are not followed.

        Raises:
            SandboxError: there is no such file, or it is larger than ``max_bytes``.
        """
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Write ``data`` to a file of the working folder, creating folders as needed.

        Raises:
            SandboxError: the path leads out of the folder, or is not a file.
        """
        ...

    async def list(self, path: str = WORKING_FOLDER, *, max_files: int = 1_000) -> Sequence[SandboxFile]:
        """Return the files below a folder, sorted by path, at most ``max_files``; links are not followed.

        Raises:
            SandboxError: there is no such folder.
        """
        ...

    async def close(self) -> None:
        """Release open resources; the files stay."""
        ...


class SandboxBackend(Protocol):
    """The interface of a component of kind ``sandbox``."""

    @property
    def capabilities(self) -> SandboxCapabilities: ...

    def check(self) -> None:
        """Check that programs can be isolated here. It must be quick, because it runs when a plan is built.

        Raises:
            SandboxUnavailableError: they cannot; the error has the reason and the remedy.
        """
        ...

    async def create(self, session: str) -> Sandbox:
        """Open the session's sandbox, with the files it had before.

        Raises:
            SandboxError: it cannot be opened.
        """
        ...

    async def remove(self, session: str) -> None:
        """Remove a session's sandbox with all its files; a missing one is not an error."""
        ...

    async def aclose(self) -> None:
        """Close every sandbox that is open."""
        ...
