"""``zeus`` on a pseudo-terminal: what a person sees, and keys to press."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.cli.conftest import command
from tests.support.forked import Forked

_ESCAPE = re.compile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07]*\x07|[=>])")


class PseudoTerminal:
    """A process whose three streams are one terminal of 100 columns.

    Args:
        words: after ``zeus``.
        folder: the working directory.
        environ: further environment variables.
    """

    def __init__(self, words: Sequence[str], folder: Path, environ: Mapping[str, str] | None = None) -> None:
        self._terminal, side = pty.openpty()
        given = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30", **(environ or {})}
        self._process = Forked(
            command(*words),
            cwd=folder,
            stdin=side,
            stdout=side,
            stderr=side,
            env=given,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(side)
        self.raw = ""
        self._seen = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)

    @property
    def screen(self) -> str:
        """All that was written so far, without escape sequences."""
        return _ESCAPE.sub("", self.raw).replace("\r\n", "\n")

    def until(self, text: str, seconds: float = 60) -> str:
        """Read until ``text`` comes after what the last call waited for; give what came up to it."""
        deadline = time.monotonic() + seconds
        while text not in (new := self.screen[self._seen :]):
            assert self._read(deadline - time.monotonic()), f"no {text!r} came: {new!r}"
        end = self.screen.index(text, self._seen) + len(text)
        came, self._seen = self.screen[self._seen : end], end
        return came

    def interrupt_until(self, text: str) -> None:
        """Press Ctrl-C at a prompt, once, and read until ``text`` comes."""
        self.press("\x03")
        while text not in self.screen[self._seen :]:
            self._awake()
            self._read(0.1)
        self.until(text)

    def interrupt_to_the_end(self) -> int:
        """Press Ctrl-C at a prompt, once, and read to the end; the exit code."""
        self.press("\x03")
        while self._process.poll() is None:
            self._awake()
            while self._read(0.1):
                pass
        return self.end()

    def _awake(self) -> None:
        """What changes nothing and lets Python's readline look for signals.

        It sees one that arrives just before it waits only with the next.
        """
        self._process.send_signal(signal.SIGWINCH)

    def press(self, keys: str) -> None:
        """Type."""
        self.press_bytes(keys.encode())

    def press_bytes(self, keys: bytes) -> None:
        """Type what may be no text."""
        os.write(self._terminal, keys)

    def paste(self, text: str, *, marked: bool = True) -> None:
        """Paste as a terminal does, which reads what is shown meanwhile.

        Args:
            text: may be longer than what the terminal takes at once.
            marked: whether the terminal says where the paste begins and ends.
        """
        data = (f"\x1b[200~{text}\x1b[201~" if marked else text).encode()
        os.set_blocking(self._terminal, False)
        while data:
            readable, writable, _ = select.select([self._terminal], [self._terminal], [], 60)
            assert readable or writable, "the program reads no more keys"
            if readable:
                self._read(0)
            if writable:
                data = data[os.write(self._terminal, data) :]
        os.set_blocking(self._terminal, True)

    def makes_lines(self) -> bool:
        """Whether the terminal is in its own mode, in which it makes lines and shows keys."""
        mode: int = termios.tcgetattr(self._terminal)[3]
        return bool(mode & termios.ICANON and mode & termios.ECHO)

    def send(self, number: int) -> None:
        """Send a signal to the program."""
        self._process.send_signal(number)

    def end(self) -> int:
        """Read to the end; the exit code."""
        while self._read(60):
            pass
        return self._process.wait(timeout=60)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._terminal], [], [], max(0, seconds))
        try:
            data = os.read(self._terminal, 65536) if ready else b""
        except OSError:
            # Linux's way to say that the other side is closed.
            data = b""
        self.raw += data.decode(errors="replace")
        return bool(data)


def _take_terminal() -> None:
    import fcntl

    # Tests that run in the background, or under `nohup`, have them ignored.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
