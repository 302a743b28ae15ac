"""Commands that run: their output so far, their end, and that none of their processes is left."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from zeus_plugins.sandboxes.bubblewrap.mounts import REPLACED
from zeus_runtime.plugin import RunError
from zeus_runtime.plugin.files import OPEN_BYTES, open_bytes
from zeus_runtime.plugin.tool import all_tried, finished, in_thread

if TYPE_CHECKING:
    from zeus_plugins.tools.shell.keepers import Keepers
    from zeus_runtime.plugin import Redactor

_CHUNK: Final = 2**16
SPARE_BYTES: Final = 2 * OPEN_BYTES
"""Kept before the end of long output: what may be shown with it, and before that the half of a secret that was torn."""
_LEFT_BYTES: Final = 2**15
"""Of the output of a command that ended long ago: more than a result shows, unless `max_result_chars` is raised."""
_MOST_ENDED: Final = 1_000
"""Ended commands that are kept; one without output takes some kilobytes."""
_TOO_MANY: Final = (OSError, RuntimeError)
"""Raised where the process may open no more files, or start no more threads."""
_WAITING: Final = ("/bin/sh", "-c", 'echo >&0 && read -r go && exec "$@" </dev/null', "sh")
"""Waits for the gate, then becomes the command. If the gate closes, as when Zeus is killed, the command never runs."""


class ShellError(RunError):
    """A command could not be started, or there is no such command."""

    code = "shell"


@dataclass(frozen=True)
class Start:
    """How to start a command in bubblewrap, which itself gets no variables.

    Args:
        program: bubblewrap.
        words: the command.
        bubblewrap: bubblewrap's arguments, which are passed in a file.
        filter_program: the filter of system calls.
        sees: whether a process, given its id, sees the files that the command may see. It is asked before the command
            runs; None: the command runs at once.
    """

    program: str
    words: tuple[str, ...]
    bubblewrap: tuple[str, ...] = field(repr=False)
    filter_program: bytes = b""
    sees: Callable[[int], bool] | None = None


class Starter(Protocol):
    """The process that runs a command: bubblewrap, or a keeper."""

    async def refusal(self) -> str | None:
        """Return why the command may not run, because of the files that it would see; None if it runs.

        Raises:
            ShellError: it could not be started; ``kill`` it.
        """

    async def wait(self) -> int:
        """Return the exit code once all processes of the command are gone."""

    def kill(self) -> None:
        """End all processes of the command."""


class _Bubblewrap:
    """A command in bubblewrap.

    Args:
        process: bubblewrap.
        status: its report of its first process.
        gate: the command waits for a line of it; None if it does not wait.
    """

    def __init__(self, process: subprocess.Popen[bytes], status: int, gate: StartGate | None) -> None:
        self._process = process
        self._status = status
        begun = finished(in_thread(_await_begin, status=status, gate=gate))
        self._begin = asyncio.create_task(begun, name="shell command's begin")

    async def refusal(self) -> str | None:
        try:
            # `wait` needs the same task, also after the caller of this was cancelled.
            refusal, _ = await asyncio.shield(self._begin)
        except _TOO_MANY as error:
            raise _not_started(error) from None
        return refusal

    async def wait(self) -> int:
        try:
            _, first = await self._begin
        except _TOO_MANY:  # told by `refusal`, whose caller ends the command
            first = None
        # Its own thread: the loop's are few, and a server's command waits for hours.
        ended = in_thread(_await_end, process=self._process, status=self._status, first=first)
        return await finished(ended)

    def kill(self) -> None:
        if self._process.returncode is None:
            # A child that bubblewrap started only now is not yet set to die with it, but still in its process group.
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


class CommandOutput:
    """The output of a command since it was last taken: all of it up to a limit, then its beginning and its end.

    Args:
        most: the limit in bytes. Before the end, some more are kept, to see whether it starts within a secret.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    @property
    def held(self) -> int:
        """How many bytes were not taken yet."""
        return len(self._head) + len(self._tail)

    def add(self, data: bytes) -> None:
        """Add bytes at the end."""
        # Once something was lost, what follows belongs behind the gap.
        room = 0 if self._dropped else max(0, self._most // 2 - len(self._head))
        self._head += data[:room]
        self._tail += data[room:]
        self._keep_limit()

    def shrink(self, most: int) -> None:
        """Keep ``most`` bytes from now on, if that is less than before: the beginning and the end, as always."""
        if most >= self._most:
            return
        self._most = most
        rest = self._head[most // 2 :]
        del self._head[most // 2 :]
        # If something is lost already, the rest of the beginning joins it: it lies before that gap.
        if self._dropped:
            self._dropped += len(rest)
        else:
            self._tail[:0] = rest
        self._keep_limit()

    def _keep_limit(self) -> None:
        if (excess := len(self._tail) - max(0, self._most - len(self._head)) - SPARE_BYTES) > 0:
            del self._tail[:excess]
            self._dropped += excess

    def take(self) -> TakenOutput:
        """Return what was not taken yet, and forget it."""
        taken = TakenOutput(self._head, self._dropped, self._tail, self._most)
        self._head, self._tail, self._dropped = bytearray(), bytearray(), 0
        return taken

    def put_back(self, end: bytes) -> None:
        """Put the end of what was taken last before what came meanwhile."""
        self._head[:0] = end


@dataclass(frozen=True)
class TakenOutput:
    """Output of a command that was taken.

    Args:
        head: its beginning.
        dropped: the number of bytes lost after it.
        tail: the rest.
        most: the limit in bytes. More was kept only to see whether a secret starts there.
    """

    head: bytearray
    dropped: int
    tail: bytearray
    most: int

    def __len__(self) -> int:
        return len(self.head) + len(self.tail)

    def parted(self, secrets: Redactor, *, has_ended: bool) -> tuple[bytes, int, bytes, bytes]:
        """Return the beginning, the number of bytes lost after it, the rest, and an end that stays for the next call.

        A secret is in it, or lost, as a whole. The last word stays if no white space follows it yet: it may be the
        beginning of a secret.

        Args:
            has_ended: nothing more will be printed.
        """
        head, tail, dropped = bytes(self.head), bytes(self.tail), self.dropped
        whole, lost, place = head + tail, 0, len(head) + len(tail) - max(0, self.most - len(head))
        if place > len(head):
            first = len(head) - open_bytes(head, secrets)
            # A secret that ends behind this place is kept from its beginning; one that ends before it is lost.
            before = whole[len(head) if dropped else 0 : place]
            last = max(first, place - open_bytes(before, secrets))
            lost = dropped + last - first
            head, tail = whole[:first], whole[last:]
        else:
            head, tail = b"", whole
        kept = 0 if has_ended else open_bytes(tail, secrets, by_lines=True)
        end = len(tail) - kept
        return head, lost, tail[:end], tail[end:]


class RunningCommand:
    """A command that was started.

    Args:
        starter: the process that runs it.
        pipe: the read end of its output.
        output: collects the output.

    Attributes:
        taking: held while output is taken and its end put back, so that the next call finds that end first.
    """

    def __init__(self, starter: Starter, pipe: int, output: CommandOutput) -> None:
        self.output = output
        self.exit_code: int | None = None
        self.news = asyncio.Event()
        self.taking = asyncio.Lock()
        self._starter = starter
        self._pipe = pipe
        self._end = asyncio.create_task(self._ended(), name="shell command")

    async def refusal(self) -> str | None:
        """Return why the command may not run, because of the files that it would see; None if it runs.

        Raises:
            ShellError: it could not be started; ``stop`` it.
        """
        return await self._starter.refusal()

    async def wait(self) -> int:
        """Return the exit code once all its processes are gone."""
        return await asyncio.shield(self._end)

    def when_ended(self, call: Callable[[], object]) -> None:
        """Call ``call`` in the event loop once all its processes are gone."""
        self._end.add_done_callback(lambda _: call())

    async def stop(self) -> None:
        """End all its processes; return when they are gone."""
        # Also of a command that has ended: `kill` of either starter does nothing then.
        self._starter.kill()
        await finished(self._end)

    async def _ended(self) -> int:
        loop = asyncio.get_running_loop()
        os.set_blocking(self._pipe, False)
        loop.add_reader(self._pipe, self._read)
        code = -signal.SIGKILL
        try:
            code = await self._starter.wait()
            # The processes are gone, but their last output is still in the pipe.
            while self._read():
                pass
        except BaseException:
            self._starter.kill()  # its end could not be noticed any more
            raise
        finally:
            # Also after an error: else `read_output` would wait for more, and the command would count as running.
            self.exit_code = 128 - code if code < 0 else code
            self.news.set()
            loop.remove_reader(self._pipe)
            os.close(self._pipe)
        return self.exit_code

    def _read(self) -> bool:
        try:
            data = os.read(self._pipe, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            asyncio.get_running_loop().remove_reader(self._pipe)
            return False
        self.output.add(data)
        self.news.set()
        return True


def started(start: Start, most_bytes: int) -> RunningCommand:
    """Start a command; call it in the loop's thread, because bubblewrap dies with the thread that started it.

    Raises:
        ShellError: it could not be started.
    """
    with ExitStack() as stack, ExitStack() as on_error:
        read, write = _pipe(stack, on_error)
        status, status_end = _pipe(stack, on_error)
        seccomp = _memory(stack, start.filter_program)
        given = (*start.bubblewrap, "--seccomp", str(seccomp), "--json-status-fd", str(status_end))
        listed = _memory(stack, b"".join(os.fsencode(each) + b"\0" for each in given))
        command, given_input, gate = start.words, subprocess.DEVNULL, None
        if start.sees is not None:
            ours, theirs = socket.socketpair()
            stack.callback(theirs.close)
            gate = on_error.enter_context(StartGate(ours, start.sees))
            command, given_input = (*_WAITING, *start.words), theirs.fileno()
        try:
            process = subprocess.Popen(
                [start.program, "--args", str(listed), "--", *(each.encode() for each in command)],
                env={},
                cwd="/",
                stdin=given_input,
                stdout=write,
                stderr=write,
                pass_fds=[seccomp, status_end, listed],
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise _not_started(error) from None
        on_error.pop_all()
        return RunningCommand(_Bubblewrap(process, status, gate), read, CommandOutput(most_bytes))


def started_uncontained(
    keepers: Keepers, words: Sequence[str], folder: Path, most_bytes: int
) -> RunningCommand:
    """Start a command without bubblewrap.

    Args:
        folder: the real path of the working directory.

    Raises:
        ShellError: it could not be started.
    """
    with ExitStack() as stack, ExitStack() as on_error:
        read, write = _pipe(stack, on_error)
        try:
            kept = keepers.start(words, folder, write)
        except (OSError, ValueError) as error:
            raise _not_started(error) from None
        on_error.pop_all()
        return RunningCommand(kept, read, CommandOutput(most_bytes))


def _pipe(stack: ExitStack, on_error: ExitStack) -> tuple[int, int]:
    """A pipe whose write end goes to another process, and whose read end stays."""
    read, write = os.pipe()
    stack.callback(os.close, write)
    on_error.callback(os.close, read)
    return read, write


def _not_started(error: Exception) -> ShellError:
    return ShellError(f"the command cannot be started: {error}")


class StartGate:
    """Lets a command run once the files that it sees are those that it may see.

    Args:
        ours: a socket; at its other end, the command's first process writes a line, and waits for one.
        sees: whether a process, given its id, sees the right files.
    """

    def __init__(self, ours: socket.socket, sees: Callable[[int], bool]) -> None:
        self._socket = ours
        self._sees = sees

    def __enter__(self) -> StartGate:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def refusal(self, process: int) -> str | None:
        """Return why the command may not run; else let it run and return None. Blocks until all is mounted."""
        if not self._socket.recv(1):  # bubblewrap failed, or was ended; the output tells
            return None
        try:
            if not self._sees(process):
                return REPLACED
        except OSError as error:
            return f"this system does not show which files the command sees: {error.strerror}"
        with suppress(BrokenPipeError):  # it was ended
            self._socket.send(b"\n")
        return None


def _await_begin(status: int, gate: StartGate | None) -> tuple[str | None, int | None]:
    """Return why a command may not run, and a pidfd of the first process in the namespaces; blocks.

    There is no pidfd if bubblewrap failed before it, or the process is gone.

    Raises:
        OSError: there are too many open files; a command that waits for the gate does not run then.
    """
    report = b""
    while b"}" not in report and (more := os.read(status, _CHUNK)):
        report += more
    # Closed in any case: the shell in front of the command then reads an end, and does not run it.
    with gate or nullcontext():
        try:
            process = int(json.loads(report[: report.index(b"}") + 1])["child-pid"])
            first = os.pidfd_open(process)
        except (ValueError, KeyError, ProcessLookupError):
            return None, None
        try:
            return None if gate is None else gate.refusal(process), first
        except BaseException:
            os.close(first)
            raise


def _await_end(process: subprocess.Popen[bytes], status: int, first: int | None) -> int:
    """Return the exit code once all processes are gone; blocks.

    The kernel ends all processes in the namespaces before the first one is gone, and bubblewrap may end earlier.
    """
    # Read to its end: a closed pipe kills bubblewrap, maybe before its child is set to die with it.
    with os.fdopen(status, "rb", 0) as reports:
        try:
            while reports.read(_CHUNK):
                pass
            if first is not None:
                poll = select.poll()
                poll.register(first, select.POLLIN)
                poll.poll()
        finally:
            if first is not None:
                os.close(first)
    return process.wait()


def _memory(stack: ExitStack, data: bytes) -> int:
    descriptor = os.memfd_create("zeus")
    stack.callback(os.close, descriptor)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


class Background:
    """The background commands of an agent's sessions, each with an id.

    Those that have ended are kept too, so that their exit code and output can be read; their memory is bounded.

    Args:
        most_bytes: how much unread output of ended commands is kept. Of more, those that ended first keep only the
            beginning and the end of theirs (``_LEFT_BYTES``); if that is still too much, they are forgotten.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._commands: dict[tuple[str, str], RunningCommand] = {}
        # In the order in which they ended.
        self._ended: dict[tuple[str, str], RunningCommand] = {}
        self._numbers = itertools.count(1)

    @property
    def is_empty(self) -> bool:
        """Whether no command was kept since the last ``aclose``."""
        return not self._commands

    def add(self, session: str, running: RunningCommand) -> str:
        """Keep a command and return its id."""
        name = f"cmd_{next(self._numbers)}"
        self._commands[session, name] = running
        running.when_ended(partial(self._note_end, (session, name), running))
        return name

    def _note_end(self, key: tuple[str, str], ended: RunningCommand) -> None:
        if self._commands.get(key) is not ended:  # closed meanwhile
            return
        self._ended[key] = ended
        *before, _ = self._ended.items()  # the last one stays whole
        excess = sum(each.output.held for each in self._ended.values()) - self._most_bytes
        for _, each in before:
            if excess > 0:
                held = each.output.held
                each.output.shrink(_LEFT_BYTES)
                excess -= held - each.output.held
        for first, each in before:
            if excess > 0 or len(self._ended) > _MOST_ENDED:
                excess -= each.output.held
                del self._ended[first], self._commands[first]

    def running(self, session: str) -> int:
        """Return how many commands of the session have not ended."""
        return sum(of == session and each.exit_code is None for (of, _), each in self._commands.items())

    def find(self, session: str, name: str) -> RunningCommand:
        """Return a command of the session.

        Raises:
            ShellError: there is none.
        """
        found = self._commands.get((session, name))
        if found is None:
            known = [each for of, each in self._commands if of == session]
            kept = f"Of those that have ended, the last {_MOST_ENDED:,} are kept at most."
            raise ShellError(
                f"there is no background command {name!r}",
                remedy=f"There are: {', '.join(known)}. {kept}"
                if known
                else f"Background commands end with the process of the agent. {kept} Start it again if it is needed.",
            )
        return found

    async def aclose(self) -> None:
        """End all commands."""
        # Exchanged before the await: a command that starts meanwhile is kept, and closed, anew.
        commands, self._commands, self._ended = self._commands, {}, {}
        await all_tried(*(each.stop for each in commands.values()), at_once=True)
