"""Runs one program in namespaces, from the start of its first process to the death of its last."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import select
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import IO, TYPE_CHECKING, Final

from zeus_plugins.sandboxes.bubblewrap.cgroups import (
    UNLIMITED,
    UNLIMITED_REMEDY,
    Group,
    PidsGroup,
    delegated_group,
    older_group,
)
from zeus_plugins.sandboxes.bubblewrap.command import (
    FOLDERS,
    READY,
    SandboxRoot,
    arguments_of,
    most_of_each,
    waiting,
)
from zeus_plugins.sandboxes.bubblewrap.host import counts_own
from zeus_plugins.sandboxes.bubblewrap.identity import Identity
from zeus_plugins.sandboxes.bubblewrap.mounts import FOLDERS_INSTEAD, REPLACED, sees_judged, too_many
from zeus_plugins.sandboxes.bubblewrap.watch import INTERVAL_SECONDS, exceeded
from zeus_runtime.plugin import cut_text, last_words
from zeus_runtime.plugin.sandbox import WORKING_FOLDER, Program, SandboxError, SandboxLimit, SandboxLimits
from zeus_runtime.plugin.tool import finished

if TYPE_CHECKING:
    from zeus_runtime.plugin.files import ProgramMount

_CHUNK: Final = 2**16
_START_SECONDS: Final = 20.0
_REASON_BYTES: Final = 2_000
_DEATH_MILLISECONDS: Final = 10_000


@dataclass(frozen=True)
class Ended:
    """How a program ended: like ``Outcome``, without the files."""

    exit_code: int
    killed_by: SandboxLimit | None
    output: bytes
    seconds: float


class NotMadeError(SandboxError):
    """No sandbox was made, so the program did not start."""


class Standing:
    """A sandbox that is ready: its file systems are open, and its program is not yet started.

    Args:
        process: bubblewrap.
        first: the host's pid of the first process in the sandbox.
        handle: a pidfd of that process.
        folders: the open file systems that the program will write to, in the order of ``FOLDERS``.
        gate: a line on this socket starts the program.
        output: the program's output.
        status: bubblewrap's report of how the program ended.
        group: the sandbox's control group; None if none can be created.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        *,
        first: int,
        handle: int,
        folders: Sequence[int],
        gate: socket.socket,
        output: int,
        status: int,
        group: Group | None = None,
    ) -> None:
        self._group = group
        self.folders = folders
        self._process = process
        self._first = first
        self._handle = handle
        self._gate = gate
        self._output = output
        self._status = status

    async def run(self, limits: SandboxLimits, on_output: Callable[[bytes], None] | None) -> Ended:
        """Start the program and return when all its processes are dead.

        Raises:
            SandboxError: the program could not be started.
        """
        loop = asyncio.get_running_loop()
        watch = _Watch(self._output, limits, on_output, self.kill)
        started = monotonic()
        self._gate.sendall(b"\n")
        os.set_blocking(self._output, False)
        loop.add_reader(self._output, watch.collect)
        loop.add_reader(self._handle, watch.end)
        clock = loop.call_later(limits.seconds, watch.stop, "seconds")
        try:
            while not watch.ended.done():
                # `wait_for` would cancel the future when the time is over; `wait` leaves it alone.
                await asyncio.wait([watch.ended], timeout=INTERVAL_SECONDS)
                if not watch.ended.done() and (limit := await exceeded(self._first, self.folders, limits)):
                    watch.stop(limit)
            seconds = monotonic() - started
            watch.collect_rest()
        finally:
            clock.cancel()
            loop.remove_reader(self._handle)
            loop.remove_reader(self._output)
        code, killed_by = self._exit_code(), watch.killed_by
        # The exit code alone cannot tell the kernel's kill for memory from any other SIGKILL.
        if killed_by is None and self._group is not None and self._group.ran_out_of_memory:
            killed_by = "memory"
        if code is None and killed_by is None:
            text = last_words(bytes(watch.kept), _REASON_BYTES)
            raise SandboxError(f"bubblewrap ended before the program did: {text or 'it gives no reason'}")
        if code == 128 + signal.SIGXFSZ and killed_by is None:
            killed_by = "file_size"
        kept = bytes(watch.kept)
        return Ended(code if code is not None else 128 + signal.SIGKILL, killed_by, kept, seconds)

    def kill(self) -> None:
        """Kill all processes of the sandbox: they die with the first one."""
        _die(self._handle)

    def _exit_code(self) -> int | None:
        """The program's exit code as bubblewrap reports it; None if bubblewrap was killed before its report."""
        self._process.wait()
        with suppress(BlockingIOError):
            # bubblewrap has ended: its report is in the pipe already, or never comes.
            os.set_blocking(self._status, False)
            for line in os.read(self._status, _CHUNK).decode(errors="replace").splitlines():
                with suppress(ValueError):
                    code = json.loads(line).get("exit-code")
                    if isinstance(code, int):
                        return code
        return None


class _Watch:
    """Collects a running program's output, and kills the program if it exceeds a limit.

    Args:
        output: the non-blocking descriptor of the program's output.
        limits: the program's limits.
        on_output: called with each piece of output.
        kill: kills the program.
    """

    def __init__(
        self,
        output: int,
        limits: SandboxLimits,
        on_output: Callable[[bytes], None] | None,
        kill: Callable[[], None],
    ) -> None:
        self.kept = bytearray()
        self.killed_by: SandboxLimit | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._output = output
        self._most = limits.output_bytes
        self._on_output = on_output
        self._kill = kill

    def stop(self, limit: SandboxLimit) -> None:
        """Kill the program because of a limit, unless it has already ended."""
        if self.killed_by is None and not self.ended.done():
            self.killed_by = limit
            self._kill()

    def collect(self) -> None:
        """Read the output so far; kill the program if it is too long."""
        try:
            data = os.read(self._output, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            # At its end the pipe stays readable: the loop would call this without a pause.
            asyncio.get_running_loop().remove_reader(self._output)
            return
        piece = data[: self._most - len(self.kept)]
        self.kept.extend(piece)
        if piece and self._on_output is not None:
            self._on_output(piece)
        if len(piece) < len(data):
            self.stop("output")

    def collect_rest(self) -> None:
        """Read the rest of the output after the program's end."""
        last = -1
        while last < len(self.kept) < self._most:
            last = len(self.kept)
            self.collect()

    def end(self) -> None:
        """Note that the first process has ended, and with it all others."""
        if not self.ended.done():
            self.ended.set_result(None)


@asynccontextmanager
async def standing(
    bwrap: str,
    root: SandboxRoot,
    identity: Identity,
    limits: SandboxLimits,
    program: Program,
    *,
    filter_program: bytes,
    mounts: Sequence[ProgramMount] = (),
) -> AsyncIterator[Standing]:
    """Create a sandbox for one program; it is removed with all its processes when the block ends.

    It is started in the calling thread, because it dies with the thread that started it.

    Args:
        mounts: the program's workspace, as it was judged.

    Raises:
        NotMadeError: bubblewrap could not create it, and the message is bubblewrap's; or it has other files of the
            workspace than those that were judged.
        SandboxError: it could not be limited, or its workspace has too many mounts.
    """
    start = WORKING_FOLDER if program.workspace is None else str(program.workspace.folder)
    with ExitStack() as stack:
        # First on the stack, so removed last: the kernel removes only an empty group, and by then the first process is
        # killed and bubblewrap is reaped.
        group = _group(stack, bwrap, limits, identity)
        output, output_end = _pipe(stack)
        status, status_end = _pipe(stack)
        gate, gate_end = (stack.enter_context(each) for each in socket.socketpair())
        filter_fd = _memory(stack, filter_program)
        given = arguments_of(
            root,
            identity,
            limits,
            program.environ,
            filter_fd=filter_fd,
            status_fd=status_end.fileno(),
            mounts=mounts,
            start=start,
        )
        if mounts and (reason := too_many(mounts, given)) is not None:
            raise SandboxError(reason, remedy=FOLDERS_INSTEAD)
        arguments_fd = _memory(stack, b"".join(os.fsencode(each) + b"\0" for each in given))
        process = _started(
            [bwrap, "--args", str(arguments_fd), "--", *waiting(identity, limits, program.arguments)],
            gate_end.fileno(),
            output_end,
            (status_end.fileno(), filter_fd, arguments_fd),
        )
        stack.callback(_reap, process)
        # With copies of them here, reading the other ends would never find an end.
        for each in (gate_end, output_end, status_end):
            each.close()
        first = await _first_process(gate, output, status)
        if group is not None:
            # They exist already and do not inherit the group. The program still waits for the gate, so none is missed.
            _put_into(group, (process.pid, first, *_children(first)))
        _limit(first, limits)
        # A pidfd stands for this process only: a kill through it cannot hit a later process with the same number.
        handle = os.pidfd_open(first)
        stack.callback(os.close, handle)
        stack.callback(_die, handle)
        if mounts:
            await _require_judged(mounts, first)
        folders: list[int] = []
        for folder in FOLDERS:
            folders.append(
                os.open(f"/proc/{first}/root{folder}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            )
            stack.callback(os.close, folders[-1])
        yield Standing(
            process,
            first=first,
            handle=handle,
            folders=folders,
            gate=gate,
            output=output.fileno(),
            status=status.fileno(),
            group=group,
        )


async def _require_judged(mounts: Sequence[ProgramMount], first: int) -> None:
    try:
        is_judged = await finished(asyncio.to_thread(sees_judged, mounts, first))
    except OSError as error:
        raise SandboxError(
            f"this system does not show which files the program sees: {error.strerror}"
        ) from None
    if not is_judged:
        raise NotMadeError(f"the program was not run, because {REPLACED}")


def _group(stack: ExitStack, bwrap: str, limits: SandboxLimits, identity: Identity) -> Group | None:
    """Create a control group that is removed after the sandbox; None if impossible, so that only checks limit it.

    Raises:
        SandboxError: it cannot be made, or the processes of root are not limited without one.
    """
    parent, kind = delegated_group(), Group
    if parent is None and identity.is_root:
        parent, kind = older_group(), PidsGroup
        if parent is None and not counts_own(bwrap):
            raise SandboxError(UNLIMITED, remedy=UNLIMITED_REMEDY)
    if parent is None:
        return None
    try:
        group = kind(parent, limits)
    except OSError as error:
        raise SandboxError(f"the sandbox's control group cannot be made in {parent}: {error}") from None
    stack.callback(group.close)
    return group


def _put_into(group: Group, pids: Sequence[int]) -> None:
    try:
        group.add(pids)
    except OSError as error:
        raise SandboxError(
            f"the sandbox cannot be put into its control group {group.folder}: {error}"
        ) from None


def _children(first: int) -> Sequence[int]:
    return [int(each) for each in Path(f"/proc/{first}/task/{first}/children").read_bytes().split()]


def _started(
    command: list[str], gate: int, output: IO[bytes], also: Sequence[int]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            env={},
            cwd="/",
            stdin=gate,
            stdout=output,
            stderr=output,
            pass_fds=also,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise SandboxError(f"bubblewrap cannot be started: {error}") from None


async def _first_process(gate: socket.socket, output: IO[bytes], status: IO[bytes]) -> int:
    gate.setblocking(False)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_START_SECONDS):
            ready = await loop.sock_recv(gate, 1)
    except (TimeoutError, ConnectionError):
        ready = b""
    if ready != READY:
        os.set_blocking(output.fileno(), False)
        said = cut_text((output.read() or b"").decode(errors="replace").strip(), _REASON_BYTES)
        raise NotMadeError(f"bubblewrap cannot make a sandbox: {said or 'it gives no reason'}")
    gate.setblocking(True)
    written = os.read(status.fileno(), _CHUNK).decode()
    return int(json.loads(written[: written.index("}") + 1])["child-pid"])


def _limit(first: int, limits: SandboxLimits) -> None:
    """Set the limits that the waiting shell cannot set itself; the program inherits them.

    Crashes must not start the host's core_pattern command, which runs as the host's root: only a limit of exactly 1
    byte prevents that (fs/coredump.c). The first process, which is bubblewrap's, gets the program's limits too. If both
    run as one user, as for an ordinary user, the program can write into bubblewrap's memory.

    Raises:
        SandboxError: a limit could not be set.
    """
    try:
        for which, most in most_of_each(limits).items():
            resource.prlimit(first, which, (most, most))
        for pid in (first, *_children(first)):
            resource.prlimit(pid, resource.RLIMIT_CORE, (1, 1))
    except (OSError, ValueError) as error:
        raise SandboxError(f"the sandbox's processes cannot be limited: {error}") from None


def _die(handle: int) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    poll.poll(_DEATH_MILLISECONDS)


def _reap(process: subprocess.Popen[bytes]) -> None:
    # A child that bubblewrap started only now is not yet set to die with it, but is still in its process group.
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _pipe(stack: ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    read, write = os.pipe()
    return stack.enter_context(os.fdopen(read, "rb", 0)), stack.enter_context(os.fdopen(write, "wb", 0))


def _memory(stack: ExitStack, data: bytes) -> int:
    """Return a descriptor from which ``data`` can be read."""
    descriptor = os.memfd_create("zeus")
    stack.callback(os.close, descriptor)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
