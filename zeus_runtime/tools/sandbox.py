"""Sandboxes: where code that a model wrote runs, and what every backend promises of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from zeus_runtime.errors import RunError, UnavailableError

Language: TypeAlias = Literal["python", "shell"]
SandboxLimit: TypeAlias = Literal["seconds", "memory", "processes", "file_size", "disk", "files", "output"]
Boundary: TypeAlias = Literal["namespaces", "container", "machine"]

WORKING_FOLDER = "/workspace"
"""Where a program starts, and what of its files is kept from one program to the next."""


class SandboxError(RunError):
    """A sandbox could not do what was asked; the program was not run, or its files were not kept."""

    code = "sandbox"


class SandboxUnavailableError(UnavailableError):
    """This backend cannot contain anything here (exit 4); nothing runs outside of it instead."""

    code = "sandbox_unavailable"


@dataclass(frozen=True)
class SandboxLimits:
    """What one program may take; reaching a limit that can be seen ends it.

    Args:
        seconds: wall time.
        memory_bytes: memory of all its processes together, files in ``/tmp`` and the working folder not counted.
        processes: processes and threads at the same time.
        file_bytes: one file.
        disk_bytes: the working folder, and ``/tmp`` as much again.
        files: files and folders in the working folder, and in ``/tmp`` as many again.
        output_bytes: what it writes to its standard output and error together.
    """

    seconds: float = 60.0
    memory_bytes: int = 512 * 2**20
    processes: int = 64
    file_bytes: int = 64 * 2**20
    disk_bytes: int = 256 * 2**20
    files: int = 20_000
    output_bytes: int = 2 * 2**20


@dataclass(frozen=True)
class Program:
    """What to run: a command, and files that are there for this run only.

    Args:
        arguments: the command and its arguments; no shell unless it names one.
        files: file name to content, put under ``/tmp`` before it starts.
        environ: variables besides the few that every program gets; nothing comes from the host.
    """

    arguments: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)


def refuse_unrunnable(program: Program) -> None:
    """Refuse what no system can run.

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
        exit_code: its own; 128 and the signal's number when a signal ended it.
        killed_by: the limit that ended it.
        output: its standard output and error as they came, cut at ``output_bytes``.
        seconds: wall time from the program's start to its end.
        lost: files it left that could not be kept, each with the reason.
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
        path: as programs see it, absolute.
        kind: what it is.
        size_bytes: of a file.
    """

    path: str
    kind: Literal["file", "directory", "link"]
    size_bytes: int | None = None


@dataclass(frozen=True)
class SandboxCapabilities:
    """What a backend does and enforces.

    Args:
        boundary: what stands between a program and the host: Linux namespaces of one kernel, a container, a machine.
        network: whether programs reach a network.
        languages: what ``execute_code`` can run.
        limits: the limits it enforces; one that is not here is not kept.
        isolated: whether programs see files of their own only, ``/workspace`` and ``/tmp``. If not, they start in a
            folder of their own, ``TMPDIR`` names another one that goes with them, and they see what its user sees.
        weaknesses: what this machine does not let it limit as well as it could, one sentence each (`zeus doctor`).
    """

    boundary: Boundary
    network: bool
    languages: tuple[Language, ...]
    limits: frozenset[SandboxLimit]
    isolated: bool = True
    weaknesses: tuple[str, ...] = ()


class Sandbox(Protocol):
    """One session's sandbox. Programs run one after the other; the working folder's files stay between them."""

    async def exec(
        self,
        program: Program,
        limits: SandboxLimits,
        on_output: Callable[[bytes], None] | None = None,
    ) -> Outcome:
        """Run a program to its end; nothing of it lives on when this returns or is cancelled.

        Args:
            program: what to run, in the working folder.
            limits: what it may take.
            on_output: is given the output piece by piece, as it comes.

        Raises:
            SandboxError: it could not be run.
        """
        ...

    async def read(self, path: str, *, max_bytes: int) -> bytes:
        """A file of the working folder; links out of it lead nowhere.

        Raises:
            SandboxError: there is no such file, or it is larger than ``max_bytes``.
        """
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Make ``data`` the content of a file of the working folder, creating folders as needed.

        Raises:
            SandboxError: the path leads elsewhere, or the place is no file.
        """
        ...

    async def list(self, path: str = WORKING_FOLDER, *, max_files: int = 1_000) -> Sequence[SandboxFile]:
        """What is below a folder, sorted by path, at most ``max_files``; links are not followed.

        Raises:
            SandboxError: there is no such folder.
        """
        ...

    async def close(self) -> None:
        """Give up what is held open; the files stay."""
        ...


class SandboxBackend(Protocol):
    """What a component of kind ``sandbox`` creates."""

    @property
    def capabilities(self) -> SandboxCapabilities: ...

    def check(self) -> None:
        """Whether programs can be contained here. Quick: it is asked when a plan is made.

        Raises:
            SandboxUnavailableError: they cannot, with the reason and what to do.
        """
        ...

    async def create(self, session: str) -> Sandbox:
        """The session's sandbox, with the files it had before.

        Raises:
            SandboxError: it cannot be had.
        """
        ...

    async def remove(self, session: str) -> None:
        """Remove a session's sandbox with all its files; a missing one is not an error."""
        ...

    async def aclose(self) -> None:
        """Close every sandbox that is open."""
        ...
