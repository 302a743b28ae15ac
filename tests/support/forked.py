"""Python programs as processes that are forks: a server of this test process has imported once what they need.

A new interpreter spends two thirds of a short ``zeus run`` on imports, and a fork as much as the run itself on taking
the modules apart at its end, so it ends without that. Tests of imports, and of objects that live as long as a module,
need a real one. So do ``PYTHONUTF8`` and ``LANG``, which an interpreter reads when it starts: where they change,
``Forked`` starts one.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

_NUMBER = struct.Struct("i")
_PRELOADED = ("langgraph.graph", "sqlalchemy", "rich.console", "rich.table", "httpx", "pytest")
_PACKAGES = [
    *"agent cli config context delegation memory middleware models plan".split(),
    *"prompt registry run sessions skills store tools trust".split(),
]


class Forked(subprocess.Popen[Any]):
    """``Popen`` of ``[sys.executable, "-m", MODULE, …]``.

    A ``preexec_fn`` is not called. It says that the standard input becomes the terminal of the process.
    """

    _status: int | None = None

    # Of Popen's own methods these three know where a process comes from. The last but one is ``start_new_session``.
    def _execute_child(self, args: Sequence[str], executable: Any, preexec_fn: Any, *more: Any) -> None:
        cwd, env = more[2:4]
        streams = more[7:13]
        environ = dict(os.environ if env is None else env)
        is_module = list(args[:2]) == [sys.executable, "-m"]
        if not is_module or _starting(environ) != _starting(os.environ) or sys.platform != "linux":
            popen: Any = super()
            popen._execute_child(args, executable, preexec_fn, *more)
            return
        asked = {
            "words": [os.fspath(each) for each in args[2:]],
            "folder": os.fspath(cwd or Path.cwd()),
            "environ": environ,
            "session": bool(more[-2]),
            "terminal": preexec_fn is not None,
        }
        self._status, told = os.pipe()
        given = os.memfd_create("asked")
        try:
            os.write(given, json.dumps(asked).encode("utf-8", "surrogateescape"))
            theirs = [
                side if side != -1 else number
                for number, side in enumerate((streams[0], streams[3], streams[5]))
            ]
            socket.send_fds(_server(), [b"."], [*theirs, told, given])
        finally:
            os.close(told)
            os.close(given)
            for side, other in ((0, 1), (3, 2), (5, 4)):
                if streams[side] != -1 and streams[other] != -1:
                    os.close(streams[side])
        self.pid = _NUMBER.unpack(os.read(self._status, _NUMBER.size))[0]
        self._child_created = True

    def _internal_poll(self, *args: Any, **kwargs: Any) -> int | None:
        popen: Any = super()
        if self._status is None:
            polled: int | None = popen._internal_poll(*args, **kwargs)
            return polled
        pid, status = self._try_wait(os.WNOHANG)
        if pid:
            popen._handle_exitstatus(status)
        return self.returncode

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._status is None:
            popen: Any = super()
            waited: tuple[int, int] = popen._try_wait(wait_flags)
            return waited
        ended = select.poll()
        ended.register(self._status, select.POLLIN)
        if not ended.poll(0 if wait_flags & os.WNOHANG else None):
            return 0, 0
        told = os.read(self._status, _NUMBER.size)
        os.close(self._status)
        self._status = None
        return self.pid, _NUMBER.unpack(told)[0]


def run(
    args: Sequence[str | Path],
    *,
    input: str | bytes | None = None,  # noqa: A002
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **given: Any,
) -> subprocess.CompletedProcess[Any]:
    """``subprocess.run``, forked."""
    if input is not None:
        given["stdin"] = subprocess.PIPE
    if capture_output:
        given.update(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with Forked(args, **given) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def _starting(environ: Mapping[str, str]) -> dict[str, str]:
    """What an interpreter reads when it starts."""
    return {key: text for key, text in environ.items() if key.startswith(("PYTHON", "LC_", "LANG"))}


@cache
def _server() -> socket.socket:
    ours, theirs = socket.socketpair()
    with theirs:
        words = [sys.executable, str(Path(__file__).resolve()), str(theirs.fileno())]
        # Another session: a Ctrl-C at the tests is not for it.
        process = subprocess.Popen(words, pass_fds=[theirs.fileno()], start_new_session=True)
    atexit.register(_stop, ours, process)
    return ours


def _stop(ours: socket.socket, process: subprocess.Popen[bytes]) -> None:
    ours.close()
    process.wait()


def _serve(asking: socket.socket) -> Mapping[str, Any]:
    """Fork for each request; give it in the fork."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        told, fds, *_ = socket.recv_fds(asking, 1, 5)
        if not told:
            os._exit(0)
        if not os.fork():
            asking.close()
            return _forked(fds)
        for fd in fds:
            os.close(fd)


def _forked(fds: Sequence[int]) -> Mapping[str, Any]:
    *streams, told, given = fds
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child:
        _tell_end(child, told, [*streams, given])
    asked: Mapping[str, Any] = json.loads(
        os.pread(given, os.fstat(given).st_size, 0).decode("utf-8", "surrogateescape")
    )
    if asked["session"]:
        os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, max(fds) + 1)
    if asked["terminal"]:
        import fcntl
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored where the tests run under `nohup`
    return asked


def _tell_end(child: int, told: int, others: Sequence[int]) -> NoReturn:
    """Keep nothing of the child open; tell its number, and its status at the end."""
    for fd in (0, 1, 2, *others):
        os.close(fd)
    os.write(told, _NUMBER.pack(child))
    _, status = os.waitpid(child, 0)
    os.write(told, _NUMBER.pack(status))
    os._exit(0)


def _become(asked: Mapping[str, Any]) -> None:
    """What the new interpreter would have: its working directory, environment and standard streams."""
    import io

    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environ"])
    time.tzset()
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        was = getattr(sys, name)
        raw = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
        text = io.TextIOWrapper(
            io.BufferedReader(raw) if number == 0 else io.BufferedWriter(raw),
            encoding=was.encoding,
            errors=was.errors,
            line_buffering=number == 2 or raw.isatty(),
            write_through=was.write_through,
        )
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)


def _leave(code: object) -> None:
    """End with an exit code after threads and all other functions of ``atexit``, as an interpreter does."""
    with suppress(OSError, ValueError):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


def _preload() -> None:
    from importlib import import_module
    from pkgutil import walk_packages

    del sys.path[0]
    for name in _PRELOADED:
        import_module(name)
    for package in _PACKAGES:
        found = import_module(f"zeus_runtime.{package}")
        for module in walk_packages(found.__path__, f"{found.__name__}."):
            import_module(module.name)
    sys.path.insert(0, "")


if __name__ == "__main__":
    ended: list[object] = []
    # The first that is registered is the last that is called.
    atexit.register(lambda: _leave(ended.pop()) if ended else None)
    _preload()
    asked = _serve(socket.socket(fileno=int(sys.argv[1])))
    _become(asked)
    module, *sys.argv[1:] = asked["words"]
    sys.path[0] = str(Path.cwd())
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        ended.append(end.code)
        raise
