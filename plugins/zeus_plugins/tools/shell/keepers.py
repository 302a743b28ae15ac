"""Commands without bubblewrap: one process, started at the first, forks a keeper for each (``keeper.py``)."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from zeus_plugins.tools.shell.keeper import LENGTH_BYTES
from zeus_runtime.plugin.tool import finished, in_thread

_KEEPER: Final = str(Path(__file__).with_name("keeper.py"))
_SECONDS: Final = 10.0
"""How long a command waits until the process takes it; one that was stopped (SIGSTOP) takes longer."""
_PLACE: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY


class KeptCommand:
    """A command that a keeper runs.

    Args:
        control: the keeper ends its processes when this socket closes, and writes its exit code into it.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control

    async def refusal(self) -> str | None:
        """Return None: nothing hides files from the command."""
        return None

    async def wait(self) -> int:
        """Return the exit code once all its processes are gone; -9 if its keeper was killed."""
        loop, code = asyncio.get_running_loop(), b""
        with self._control, suppress(ConnectionResetError):
            while more := await loop.sock_recv(self._control, 16):
                code += more
        return int(code) if code else -signal.SIGKILL

    def kill(self) -> None:
        """Have the keeper end all its processes."""
        with suppress(OSError):  # it has ended
            # This direction only: the keeper sees an end, and `wait` can still read the exit code.
            self._control.shutdown(socket.SHUT_WR)


class Keepers:
    """The process whose forks keep an agent's commands.

    Args:
        environ: its variables, which the commands get.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._requests: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the process was started."""
        return self._process is not None

    def start(self, words: Sequence[str], folder: Path, output: int) -> KeptCommand:
        """Start a command.

        Args:
            words: the command.
            folder: its working directory.
            output: the write end of a pipe for its output.

        Raises:
            OSError: it could not be started.
        """
        data = b"\0".join(each.encode() for each in words)  # as rules read them
        with ExitStack() as stack, ExitStack() as on_error:
            place = os.open(folder, _PLACE)
            stack.callback(os.close, place)
            ours, theirs = socket.socketpair()
            stack.enter_context(theirs)
            on_error.enter_context(ours)
            self._send([theirs.fileno(), output, place])
            ours.settimeout(_SECONDS)
            ours.sendall(len(data).to_bytes(LENGTH_BYTES, "big") + data)
            ours.setblocking(False)
            on_error.pop_all()
            return KeptCommand(ours)

    def _send(self, descriptors: Sequence[int]) -> None:
        if self._requests is not None:
            # A command may have killed the process, since nothing contains it.
            with suppress(BrokenPipeError, ConnectionResetError):
                socket.send_fds(self._requests, [b"."], descriptors)
                return
            self._end()
        self._requests = self._opened()
        socket.send_fds(self._requests, [b"."], descriptors)

    def _opened(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs, ExitStack() as on_error:
            on_error.enter_context(ours)
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", _KEEPER],
                env=dict(self._environ),
                cwd="/",
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Ctrl-C at the terminal must not reach it: keepers end their commands when Zeus closes their sockets.
                start_new_session=True,
            )
            ours.settimeout(_SECONDS)
            on_error.pop_all()
            return ours

    def _end(self) -> None:
        requests, self._requests = self._requests, None
        process, self._process = self._process, None
        if requests is not None:
            requests.close()
        if process is not None:
            # It does not end by its closed socket if a command has stopped it (SIGSTOP), and it has nothing to tidy.
            process.kill()
            process.wait()  # else it would stay as a zombie

    async def aclose(self) -> None:
        """End the process; each command that still runs has its own keeper."""
        await finished(in_thread(self._end))
