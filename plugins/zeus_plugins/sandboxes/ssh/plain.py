"""Runs one program on a folder without isolation, with limits that need no privilege; kills all its processes."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Final

from zeus_plugins.sandboxes.bubblewrap.watch import INTERVAL_SECONDS, processes, take_more
from zeus_runtime.plugin.sandbox import Outcome, Program, SandboxLimit, SandboxLimits

_CHUNK: Final = 2**16
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_TEMPORARY: Final = "/tmp/"
_NAMELESS: Final = (b"/dev/zero (deleted)", b"/memfd:", b"/SYSV")
_NOT_FOUND: Final = 127
_NOT_RUN: Final = 126


async def run(
    folder: Path,
    program: Program,
    limits: SandboxLimits,
    on_output: Callable[[bytes], None],
) -> Outcome:
    """Run a program in ``folder``; when this returns or is cancelled, all processes that it started are dead.

    The program's files are in a temporary folder (``TMPDIR``); arguments that name them under ``/tmp`` are changed to
    it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    scratch = Path(tempfile.mkdtemp(prefix="zeus-"))
    try:
        for name, data in program.files.items():
            (scratch / name).write_bytes(data)
        return await _run(libc, folder, scratch, program, limits, on_output)
    finally:
        end_all()
        shutil.rmtree(scratch, ignore_errors=True)


async def _run(
    libc: ctypes.CDLL,
    folder: Path,
    scratch: Path,
    program: Program,
    limits: SandboxLimits,
    on_output: Callable[[bytes], None],
) -> Outcome:
    def limited() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        for which, most in ((resource.RLIMIT_FSIZE, limits.file_bytes), (resource.RLIMIT_CORE, 1)):
            hard = resource.getrlimit(which)[1]
            least = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(which, (least, least))

    started = monotonic()
    try:
        process = subprocess.Popen(  # noqa: ASYNC220 - it must fork from this thread, because it dies with the thread that forked it
            [_placed(each, program, scratch) for each in program.arguments],
            cwd=folder,
            env=_environ(folder, scratch, program),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=limited,
        )
    except OSError as error:
        text = f"{program.arguments[0]}: {error.strerror}\n".encode()
        return Outcome(_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_RUN, None, text, 0.0)
    assert process.stdout is not None
    watched = _Watched(process.stdout.fileno(), limits, on_output)
    try:
        killed_by = await watched.until(lambda: process.poll() is not None)
        seconds = monotonic() - started
        _end(process)
        watched.drain()
    finally:
        _end(process)
        watched.close()
        process.stdout.close()
    code = process.wait()
    if code == -signal.SIGXFSZ and killed_by is None:
        killed_by = "file_size"
    return Outcome(code if code >= 0 else 128 - code, killed_by, bytes(watched.kept), seconds)


class _Watched:
    """Reads a program's output, and checks its limits."""

    def __init__(self, output: int, limits: SandboxLimits, on_output: Callable[[bytes], None]) -> None:
        self.kept = bytearray()
        self._output = output
        self._limits = limits
        self._on_output = on_output
        self._over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        os.set_blocking(output, False)
        self._loop.add_reader(output, self._collect)

    async def until(self, ended: Callable[[], bool]) -> SandboxLimit | None:
        """Wait until the program ends or exceeds a limit; return that limit."""
        last = self._loop.time() + self._limits.seconds
        while not ended():
            if self._loop.time() >= last:
                return "seconds"
            if self._over.is_set():
                return "output"
            below = [*_children(os.getpid())]
            if await take_more(below, self._limits.memory_bytes - sum(map(_shared, below))):
                return "memory"
            with suppress(TimeoutError):
                async with asyncio.timeout(min(INTERVAL_SECONDS, max(last - self._loop.time(), 0.001))):
                    await self._over.wait()
        return "output" if self._over.is_set() else None

    def drain(self) -> None:
        """Read the rest of the pipe."""
        before = -1
        while before < len(self.kept) < self._limits.output_bytes:
            before = len(self.kept)
            self._collect()

    def close(self) -> None:
        self._loop.remove_reader(self._output)

    def _collect(self) -> None:
        try:
            data = os.read(self._output, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(self._output)
            return
        piece = data[: self._limits.output_bytes - len(self.kept)]
        self.kept += piece
        if piece:
            self._on_output(piece)
        if len(piece) < len(data):
            self._loop.remove_reader(self._output)
            self._over.set()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the program and all processes that it started; its exit code is read before the others are reaped."""
    process.kill()
    process.wait()
    end_all()


def end_all() -> None:
    """Kill all descendants of this process; they are stopped first, so that none starts another one meanwhile."""
    while pids := set(_below(os.getpid())):
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids | set(_below(os.getpid())):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        for pid in pids:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _below(first: int) -> Iterator[int]:
    for child in _children(first):
        yield child
        yield from _below(child)


def _children(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                yield from map(int, (thread / "children").read_bytes().split())


def _shared(first: int) -> int:
    """Return the bytes of memory without a file or an owner that ``first`` and its descendants have mapped."""
    ends: dict[bytes, int] = {}
    for threads in processes(first):
        with suppress(OSError, ValueError):
            for line in Path(threads[0], "maps").read_bytes().splitlines():
                if any(each in line for each in _NAMELESS):
                    span, _, offset, _, inode, *_ = line.split(maxsplit=5)
                    start, end = (int(each, 16) for each in span.split(b"-"))
                    ends[inode] = max(ends.get(inode, 0), int(offset, 16) + end - start)
    return sum(ends.values())


def _placed(argument: str, program: Program, scratch: Path) -> str:
    name = argument.removeprefix(_TEMPORARY)
    return str(scratch / name) if name != argument and name in program.files else argument


def _environ(folder: Path, scratch: Path, program: Program) -> dict[str, str]:
    return {
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PATH": _PATH,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(scratch),
        **program.environ,
    }
