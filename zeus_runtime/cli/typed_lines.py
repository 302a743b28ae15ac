"""Lines that a person types at a question: whole, shown exactly as they are taken, typed after the question came.

A terminal that makes the lines itself ("canonical mode") keeps 4,095 bytes of a line and drops the rest silently. So
the lines are made here. A paste of several lines is one text, if the terminal says where a paste begins and ends.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Self

from zeus_runtime.cli.streams import columns_of, complain, is_terminal
from zeus_runtime.columns import columns
from zeus_runtime.escaping import exact_line, terminal_text

MOST_CHARACTERS: Final = 1_000_000
"""Of a line: keys that are held down for ever must not take all the memory."""
MOST_PLAIN_BYTES: Final = 4_094
"""Of a line that the terminal made and that is surely whole."""

# With the pause of 50 ms at most 10 s: keys that are held down for ever must not keep the question away.
_MOST_PIECES: Final = 200
_NEXT_PIECE_MILLISECONDS: Final = 50
_LOOK_MILLISECONDS: Final = 500
_READ_BYTES: Final = 65_536
_PASTE_BEGIN, _PASTE_END = "\x1b[200~", "\x1b[201~"
_PASTES_ON, _PASTES_OFF = "\x1b[?2004h", "\x1b[?2004l"
_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")
_ENDS: Final = re.compile("\r\n?")
_LAST_WORD: Final = re.compile(r"\S*\s*\Z")
_NOT_TEXT: Final = re.compile("[\ud800-\udfff]")


class _NoModeError(Exception):
    """The mode of the terminal cannot be changed, or there is no terminal."""


def typed_line(
    prompt: str, *, hidden: bool = False, one_line: bool = False, forget: bool = True
) -> str | None:
    """A line from the terminal without its end; None at the end of input.

    A line that may not be whole is refused with a note, and asked for again.

    Args:
        prompt: stands before the line.
        hidden: show nothing of the line.
        one_line: refuse a paste of several lines.
        forget: whether keys that were pressed before the prompt came do not count.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    try:
        with _Typing(prompt, hidden=hidden, one_line=one_line, forget=forget) as typing:
            while not typing.is_done:
                typing.wait()
                typing.read()
            return typing.line
    except _NoModeError:
        return _plain_line(prompt, hidden=hidden)


async def typed_line_async(prompt: str) -> str | None:
    """``typed_line``, which can be cancelled."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        with _Typing(prompt) as typing:
            loop.add_reader(typing.number, ready.set)
            try:
                while not typing.is_done:
                    await ready.wait()
                    ready.clear()
                    typing.read()
            finally:
                loop.remove_reader(typing.number)
            return typing.line
    except _NoModeError:
        return await asyncio.to_thread(_plain_line, prompt)


def leave_terminal() -> None:
    """Give the terminal its own mode back, before the process ends without unwinding."""
    for each in _typing:
        each.leave()


def _plain_line(prompt: str, *, hidden: bool = False) -> str | None:
    """A line where nothing makes lines but the terminal, or what is piped in."""
    while True:
        _prompt(prompt)
        if hidden:
            from getpass import getpass

            try:
                line = getpass("")
            except EOFError:
                return None
        elif not (line := sys.stdin.readline()):
            return None
        line = line.rstrip("\r\n")
        if len(line.encode("utf-8", "surrogatepass")) <= MOST_PLAIN_BYTES or not is_terminal(sys.stdin):
            return line
        complain(
            f"this terminal may have cut the line, which has more than {MOST_PLAIN_BYTES:,} bytes: "
            "give a shorter one",
            "yellow",
        )


def _prompt(text: str) -> None:
    sys.stderr.write(terminal_text(text))
    sys.stderr.flush()


def _write_all(number: int, data: bytes) -> None:
    # A terminal that is closed is noticed where it is read. Not through a stream, which a signal's handler may not use.
    with suppress(OSError):
        while data:
            data = data[os.write(number, data) :]


class Keys:
    """A line as keys make it.

    Args:
        encoding: of the terminal.
        special: the terminal's keys by what they do: ``erase``, ``word``, ``kill`` and ``end``.
    """

    def __init__(self, encoding: str, special: Mapping[str, str]) -> None:
        self._decode = codecs.getincrementaldecoder(encoding)("surrogateescape").decode
        self._special = special
        self._chars: list[str] = []
        self._pastes = False
        self.waiting = ""
        """Characters that were read and are not in the line: an unfinished paste or mark, or those behind its end."""
        self.has_ended = False
        self.is_end_of_input = False
        self.is_too_long = False

    @property
    def text(self) -> str:
        """The line so far."""
        return "".join(self._chars)

    def take(self, data: bytes) -> None:
        """Take what the terminal sent; nothing behind the end of the line counts."""
        self.waiting += self._decode(data)
        while self.waiting and not self.has_ended and self._step():
            pass
        if len(self._chars) + len(self.waiting) > MOST_CHARACTERS and not self.has_ended:
            self.is_too_long = True
            self._chars.clear()
            # Enough for a mark of which only a part has come.
            self.waiting = self.waiting[-len(_PASTE_END) :]

    def _step(self) -> bool:
        """Take one piece of what waits; false if more must come first."""
        if self._pastes:
            pasted, mark, rest = self.waiting.partition(_PASTE_END)
            if mark:
                self._chars += _ENDS.sub("\n", pasted)
                self._pastes, self.waiting = False, rest
            return bool(mark)
        if self.waiting.startswith(_PASTE_BEGIN):
            self._pastes, self.waiting = True, self.waiting[len(_PASTE_BEGIN) :]
        elif _PASTE_BEGIN.startswith(self.waiting):
            return False
        elif control := _CONTROL.match(self.waiting):
            self.waiting = self.waiting[1:]
            self._press(control[0])
        else:
            following = _CONTROL.search(self.waiting)
            end = following.start() if following else len(self.waiting)
            self._chars += self.waiting[:end]
            self.waiting = self.waiting[end:]
        return True

    def _press(self, key: str) -> None:
        does = self._special.get
        if key in "\r\n":
            self.has_ended = True
            if key == "\r":
                self.waiting = self.waiting.removeprefix("\n")
        elif key == does("end"):
            if not self._chars:
                self.has_ended = self.is_end_of_input = True
        elif key in ("\b", "\x7f", does("erase")):
            del self._chars[-1:]
        elif key == does("kill"):
            self._chars.clear()
        elif key == does("word"):
            kept = _LAST_WORD.search(self.text)
            del self._chars[kept.start() if kept else 0 :]
        else:
            # Also a key that other programs know, such as an arrow: it is shown as it is taken, and can be erased.
            self._chars.append(key)


class _Typing:
    """A question at the terminal and the line that is its answer; a context manager, so that the terminal is left.

    Args:
        prompt, hidden, one_line, forget: as of ``typed_line``.

    Raises:
        _NoModeError: the mode of the terminal cannot be changed.
    """

    def __init__(
        self, prompt: str, *, hidden: bool = False, one_line: bool = False, forget: bool = True
    ) -> None:
        try:
            self.number = sys.stdin.fileno()
        except (OSError, ValueError):
            raise _NoModeError from None
        self.line: str | None = None
        self.is_done = False
        self._prompt, self._hidden, self._one_line, self._forgets = prompt, hidden, one_line, forget
        self._mode = _Mode(self.number, self._went_on)
        self._shown = ""
        self._is_busy, self._is_stale = True, False
        self._keys = self._new_keys()

    def __enter__(self) -> Self:
        _typing.append(self._mode)
        try:
            self._mode.enter()
            if self._forgets:
                self._forget()
            self._ask()
        except BaseException:
            self.__exit__(True)
            raise
        return self

    def __exit__(self, failed: object, *_exc: object) -> None:
        if failed:
            self._mode.flush()
        _typing.remove(self._mode)
        self._mode.leave()

    def wait(self) -> None:
        """Wait for keys, but not for ever: a signal just before the wait is handled only behind it."""
        self._comes(_LOOK_MILLISECONDS)

    def read(self) -> None:
        """Take the keys that came; ``is_done`` says whether they ended the line."""
        if not self._comes(0):
            return
        self._is_busy = True
        self._take()
        self._is_busy = False
        if self._is_stale and not self.is_done:
            self._ask_again()

    def _take(self) -> None:
        try:
            data = os.read(self.number, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            # Linux's way to say that the terminal is closed.
            data = b""
        if not data:
            self.is_done = True
            return
        if self._is_stale:
            return
        keys = self._keys
        keys.take(data)
        if keys.has_ended or not self._comes(0):
            self._show()
        if not keys.has_ended:
            return
        self._write("\n")
        if keys.is_end_of_input:
            self.is_done = True
        elif problem := self._problem():
            self._forget()
            complain(problem, "yellow")
            self._keys = self._new_keys()
            self._ask()
        else:
            self.is_done = True
            self.line = keys.text.strip("\n") if self._one_line else keys.text

    def _problem(self) -> str:
        """Why the line may not be what the person gave."""
        keys = self._keys
        if keys.is_too_long:
            return f"a line of more than {MOST_CHARACTERS:,} characters is too long: give a shorter one"
        if keys.waiting or self._comes(_NEXT_PIECE_MILLISECONDS):
            return "several lines came at once, and one was asked for: give it again, as one line"
        if self._one_line and "\n" in keys.text.strip("\n"):
            return "this text has several lines, and one was asked for: give it again, as one line"
        if _NOT_TEXT.search(keys.text):
            return f"the line has bytes that are no {sys.stdin.encoding}: give it again"
        return ""

    def _show(self) -> None:
        """Make the screen show the line exactly as it is taken."""
        if self._hidden:
            return
        shown, before = exact_line(self._keys.text), self._shown
        self._shown = shown
        if shown.startswith(before):
            self._write(shown[len(before) :])
        elif before.startswith(shown) and self._in_one_row(before, shown):
            self._write("\b \b" * (len(before) - len(shown)))
        else:
            self._renew()

    def _in_one_row(self, longer: str, shorter: str) -> bool:
        """Whether the cursor can go back from the end of one text to the end of the other."""
        width, start = columns_of(sys.stderr), columns(self._prompt.rpartition("\n")[2])
        return longer.isascii() and (start + len(longer)) // width == (start + len(shorter)) // width

    def _ask(self) -> None:
        self._is_stale = False
        sys.stdout.flush()
        _prompt(self._prompt)
        self._shown, self._is_busy = "", False
        if self._is_stale:
            self._ask_again()

    def _went_on(self) -> None:
        """The process was stopped, and others may have written to the terminal since."""
        self._is_stale = True
        if not self._is_busy:
            self._ask_again()

    def _ask_again(self) -> None:
        """Keys that were pressed before the question is here again were for others, such as the shell."""
        self._forget()
        self._renew()

    def _renew(self) -> None:
        """Show the question and the line once more, in a new row."""
        self._is_stale = False
        self._write(f"\n{terminal_text(self._prompt)}{self._shown}")

    def _write(self, text: str) -> None:
        stream = sys.stderr if is_terminal(sys.stderr) else sys.stdin
        _write_all(stream.fileno(), text.encode(stream.encoding, "backslashreplace"))

    def _new_keys(self) -> Keys:
        return Keys(sys.stdin.encoding, self._mode.special)

    def _comes(self, milliseconds: int) -> bool:
        """Whether keys come in this time."""
        import select

        waiting = select.poll()
        waiting.register(self.number, select.POLLIN)
        return bool(waiting.poll(milliseconds))

    def _forget(self) -> None:
        """A key that was pressed for something else must not answer. The terminal passes on a long paste in pieces."""
        for _ in range(_MOST_PIECES):
            # Flushed until nothing comes for a moment: one flush would leave the rest of a paste, which is on its way.
            self._mode.flush()
            if not self._comes(_NEXT_PIECE_MILLISECONDS):
                return


class _Mode:
    """The mode of a terminal in which each key arrives as it is and is not shown; signals of keys stay.

    Args:
        number: of the terminal's descriptor.
        went_on: is called after the process was stopped and the mode is set again.

    Raises:
        _NoModeError: the mode cannot be changed.
    """

    def __init__(self, number: int, went_on: Callable[[], None]) -> None:
        try:
            import termios
        except ImportError:
            raise _NoModeError from None
        self._number, self._went_on = number, went_on
        self._termios = termios
        self._handled: dict[int, Any] = {}
        self._is_in = False
        try:
            self._before = termios.tcgetattr(number)
        except termios.error:
            raise _NoModeError from None
        keys = self._before[6]
        self.special = {
            name: key.decode("latin-1")
            for name, key in (
                ("erase", keys[termios.VERASE]),
                ("kill", keys[termios.VKILL]),
                ("word", keys[termios.VWERASE]),
                ("end", keys[termios.VEOF]),
            )
            # A key that is turned off is a NUL in Linux and 0xff elsewhere.
            if isinstance(key, bytes) and key not in (b"\0", b"\xff")
        }

    def enter(self) -> None:
        """Begin; also once more, because a shell may have set another mode meanwhile."""
        termios = self._termios
        mode = [*self._before[:6], list(self._before[6])]
        mode[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.ISTRIP | termios.IXON)
        mode[3] &= ~(termios.ICANON | termios.ECHO | termios.ECHONL | termios.IEXTEN)
        mode[3] |= termios.NOFLSH
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        try:
            termios.tcsetattr(self._number, termios.TCSADRAIN, mode)
        except termios.error:
            raise _NoModeError from None
        self._is_in = True
        self._say(_PASTES_ON)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGCONT):
            # Only the main thread may, and only such a signal would end or stop the process at once.
            with suppress(ValueError):
                if signal.getsignal(number) is signal.SIG_DFL:
                    signal.signal(number, self._came)
                    self._handled[number] = signal.SIG_DFL

    def leave(self) -> None:
        """Give the terminal its own mode back."""
        if not self._is_in:
            return
        self._is_in = False
        for number, former in self._handled.items():
            signal.signal(number, former)
        self._handled.clear()
        self._say(_PASTES_OFF)
        with suppress(self._termios.error):
            # At once: to wait until all was shown could last for ever.
            self._termios.tcsetattr(self._number, self._termios.TCSANOW, self._before)

    def flush(self) -> None:
        """Forget what was typed and not yet read."""
        with suppress(self._termios.error):
            self._termios.tcflush(self._number, self._termios.TCIFLUSH)

    def _say(self, sequence: str) -> None:
        if os.environ.get("TERM", "dumb") != "dumb":
            _write_all(self._number, sequence.encode())

    def _came(self, number: int, _frame: object) -> None:
        if number != signal.SIGCONT:
            self.leave()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        # It was stopped and goes on.
        with suppress(_NoModeError):
            self.enter()
            self._went_on()


_typing: Final[list[_Mode]] = []
"""The one that is typed in, which a process that is killed must leave."""
