"""Parses untrusted files in a worker process, because parsing may never end, or unpack to more than the memory.

A thread cannot be killed, and a parser's memory cannot be reclaimed; a process allows both. It gets bytes and returns
JSON.
"""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zeus_runtime.cutting import cut_text
from zeus_runtime.errors import ZeusError
from zeus_runtime.process_path import divided_python_path

if TYPE_CHECKING:
    import asyncio

    from zeus_runtime.tools.tool import JSON

ENVIRONMENT: Final = ("PYTHONPATH", "PYTHONHOME", "SYSTEMROOT", "TEMP", "TMPDIR", "PATH")
"""The environment variables that the worker process inherits: none with secrets."""
PIPE_BYTES: Final = 1_048_576
"""An order or its answer whole, so that neither side waits for the other's turn to read; Linux alone can be asked."""
_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")
_SIZES: Final = struct.Struct("!QQ")
_SIZE: Final = struct.Struct("!Q")
_MAX_BYTES: Final = 2_000_000_000
"""Of address space."""
_CLOSED: Final = "it was not read: what read it has been closed"


def processors() -> int:
    """Return how many processors this process may use, at most the CPU quota of its container (cgroup v2)."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota, period = _QUOTA.read_text().split()
        if quota != "max":
            return max(1, min(count, int(quota) // int(period)))
    return count


class ApartError(ZeusError):
    """The work failed: it took too long, needed too much memory, or raised an error."""

    code = "apart"


class Apart:
    """A process that applies functions to bytes: started at the first call, and restarted after a call that killed it.

    It handles one call at a time. The caller closes it (``with Apart() as apart``), which also ends a call in another
    thread. So a coroutine that calls it in a thread opens it around the ``await``: no thread then waits after a
    cancellation. The process ends by itself when the process that started it is gone.

    Attributes:
        closed: whether it accepts no further calls.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._one_at_a_time = threading.Lock()
        self.closed = False

    def __enter__(self) -> Apart:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process, also in the middle of work; it accepts no further calls."""
        self.closed = True
        self._end()

    def _end(self) -> None:
        # `close` may come here from another thread during a call, whose own `_end` then finds no process.
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            # Leaving the block closes the pipes: bytes still buffered for the dead process raise BrokenPipeError.
            with suppress(BrokenPipeError), process:
                process.wait()

    def __call__(self, function: str, data: bytes, *, seconds: float, **named: JSON) -> JSON:
        """Return the result of ``function(data, **named)``; blocks.

        Args:
            function: ``module:name`` of a function whose result is JSON.
            seconds: the time limit.

        Raises:
            ApartError: there was no result; the message has the reason.
        """
        with self._one_at_a_time:
            if self.closed:
                raise ApartError(_CLOSED)
            outcome = self._outcome(json.dumps([function, seconds, named]).encode(), data, seconds)
        if "failed" in outcome:
            raise ApartError(outcome["failed"])
        return outcome["value"]

    def _outcome(self, order: bytes, data: bytes, seconds: float) -> Mapping[str, Any]:
        process = self._process = self._process or _started()
        if self.closed:  # while it was started
            self._end()
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        clock = threading.Timer(seconds, end)
        clock.daemon = True
        clock.start()
        answer = None
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(BrokenPipeError, ValueError):  # the process has died, or was closed
                process.stdin.write(_SIZES.pack(len(order), len(data)) + order)
                process.stdin.write(data)
                process.stdin.flush()
                answer = _read(process.stdout)
        finally:
            clock.cancel()
            # After this the timer cannot kill the process any more, so a late kill never hits the next call.
            clock.join()
            if answer is None or late.is_set():
                self._end()
        if answer is not None:
            outcome: Mapping[str, Any] = json.loads(answer)
            return outcome
        if self.closed:
            return {"failed": _CLOSED}
        return {
            "failed": f"it takes longer than {seconds:g} seconds"
            if late.is_set()
            else "its reader died of it"
        }


def _started() -> subprocess.Popen[bytes]:
    # It does not share the working directory, where a model may write modules, nor this process's secrets. It also does
    # not get the terminal's Ctrl-C, because the file would then seem to have killed it.
    named = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    command, environment = _start_of(__name__, named)
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            process_group=0 if os.name == "posix" else None,
        )
    except OSError as error:
        raise ApartError(
            f"it was not read: no process to read it can be started ({error.strerror})"
        ) from error


def _read(stream: Any) -> bytes | None:
    head = stream.read(_SIZE.size)
    if len(head) < _SIZE.size:
        return None
    (size,) = _SIZE.unpack(head)
    body: bytes = stream.read(size)
    return body if len(body) == size else None


class _Order(NamedTuple):
    function: str
    seconds: float
    named: Mapping[str, Any]
    data: bytes


def _orders(stream: Any) -> Any:
    while len(head := stream.read(_SIZES.size)) == _SIZES.size:
        sizes = _SIZES.unpack(head)
        order, data = (stream.read(size) for size in sizes)
        if len(data) < sizes[1]:
            return
        function, seconds, named = json.loads(order)
        yield _Order(function, seconds, named, data)


def _done(order: _Order) -> bytes:
    from importlib import import_module

    module, _, name = order.function.partition(":")
    try:
        value = getattr(import_module(module), name)(order.data, **order.named)
        return json.dumps({"value": value}).encode()
    except MemoryError:
        return json.dumps({"failed": f"it takes more memory than {_MAX_BYTES // 1_000_000:,} MB"}).encode()
    except (Exception, RecursionError) as error:  # noqa: BLE001 - every failure of a parser is reported to the user
        return json.dumps({"failed": f"{type(error).__name__}: {cut_text(str(error), 200)}"}).encode()


def _limit(seconds: float) -> None:
    """Set limits that end this process even if its starter is gone and a parser in C blocks all threads."""
    try:
        import resource
    except ImportError:  # Windows
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    # The kernel counts all calls of this process together. 5 seconds more, so that the starter's timer comes first.
    most = int(used.ru_utime + used.ru_stime + seconds) + 5
    for limit, value in ((resource.RLIMIT_AS, _MAX_BYTES), (resource.RLIMIT_CPU, most)):
        _, hard = resource.getrlimit(limit)
        with suppress(ValueError, OSError):
            resource.setrlimit(limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


_START: Final = """\
import os, runpy, sys
sys.path += sys.argv[1].split(os.pathsep)
del sys.argv[:2]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def _start_of(module: str, environment: Mapping[str, str]) -> tuple[list[str], Mapping[str, str]]:
    """The command and the variables for a process of ``python -m module ID``.

    The project's folders on ``PYTHONPATH`` come last there: a model may have made a ``json.py`` in one meanwhile. They
    stay, since one may have a plugin.
    """
    python, of_process = [sys.executable, "-P"], str(os.getpid())
    first, last = divided_python_path(environment.get("PYTHONPATH", ""))
    if not last:
        return [*python, "-m", module, of_process], environment
    return [*python, "-c", _START, last, module, of_process], {**environment, "PYTHONPATH": first}


async def started(module: str, environment: Mapping[str, str] | None = None) -> asyncio.subprocess.Process:
    """A new process of ``python -m module ID`` with pipes, ID being this process's, for ``end_with``.

    Its module path lacks the working directory, where a model may write modules. It has a session of its own, since the
    terminal's Ctrl-C is for this process; uvloop knows no process groups.

    Args:
        environment: its variables; None: those of this process.
    """
    import asyncio

    command, environment = _start_of(module, os.environ if environment is None else environment)
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
        limit=PIPE_BYTES,
    )


def end_with(user: int) -> None:
    """End this process, whatever it is doing, within a second of the process that started it (POSIX)."""
    if os.name == "posix":
        threading.Thread(target=_watch, args=(user,), daemon=True).start()


def _watch(user: int) -> None:
    while os.getppid() == user:
        time.sleep(1)
    os._exit(1)


def _serve(user: int) -> None:
    end_with(user)
    orders = sys.stdin.buffer
    answers = io.FileIO(os.dup(1), "wb")
    # Output of libraries must not mix with the answers.
    os.dup2(2, 1)
    for order in _orders(orders):
        _limit(order.seconds)
        answer = _done(order)
        whole = memoryview(_SIZE.pack(len(answer)) + answer)
        while whole:
            whole = whole[answers.write(whole) or 0 :]


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
