"""What a person types at a question arrives as it was typed, or is refused: nothing is cut unsaid."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import termios
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import Project
from tests.cli.pseudo_terminal import PseudoTerminal
from tests.cli.test_seen import call, over_http
from tests.support.provider import Provider, Reply
from zeus_runtime.cli import typed_lines
from zeus_runtime.cli.prompt_input import PromptInput
from zeus_runtime.cli.typed_lines import MOST_CHARACTERS, MOST_PLAIN_BYTES, Keys, typed_line

LONG = "".join(f"{number:05d} " for number in range(1000)) + "é"
WRITES = "tools: [filesystem]\nmiddlewares: [approve]\n"
NAME = ["init", "--model", "gpt-4o", "--preset", "default"]
SPECIAL = {"erase": "\x7f", "word": "\x17", "kill": "\x15", "end": "\x04"}


def named(project: Project) -> str:
    written = (project.folder / "zeus.yaml").read_text()
    (line,) = [each for each in written.splitlines() if each.startswith("name: ")]
    return line.removeprefix("name: ").strip("'\"")


@pytest.mark.parametrize("marked", [True, False])
def test_a_long_answer_arrives_whole(project: Project, marked: bool) -> None:
    writes = [call("write_file", path=f"{name}.txt", content="hi") for name in "ab"]
    with Provider(*writes, Reply("done")) as provider:
        over_http(project, provider, WRITES)
        with PseudoTerminal(["run", "zeus.yaml", "go"], project.folder) as terminal:
            terminal.until("approve write_file? ")
            terminal.until("] ")
            terminal.paste(
                "c " + json.dumps({"path": "a.txt", "content": LONG}, ensure_ascii=False), marked=marked
            )
            terminal.press("\r")
            terminal.until("approve write_file? ")
            terminal.until("] ")
            terminal.paste(f"y and {LONG}", marked=marked)
            terminal.press("\r")
            assert terminal.end() == 0
            assert terminal.makes_lines()
        assert LONG.strip() in json.dumps(provider.requests[-1].body, ensure_ascii=False)
    assert (project.folder / "a.txt").read_text() == LONG


def test_a_paste_of_several_lines_is_one_text_and_waits_for_enter(project: Project) -> None:
    with Provider(call("write_file", path="a.txt", content="hi"), Reply("done")) as provider:
        over_http(project, provider, WRITES)
        with PseudoTerminal(["run", "zeus.yaml", "go"], project.folder) as terminal:
            terminal.until("approve write_file? ")
            terminal.until("] ")
            terminal.paste("y keep all\rbut\ttests \\n\r\n")
            terminal.until(r"y keep all\nbut\ttests \\n\n")
            assert "approved" not in terminal.screen
            terminal.press("\r")
            assert terminal.end() == 0
        assert r"keep all\nbut\ttests \\n" in json.dumps(provider.requests[-1].body)


def test_several_lines_at_once_are_refused_and_asked_for_again(project: Project) -> None:
    """A terminal that does not mark a paste sends the lines as if they were typed."""
    with PseudoTerminal(NAME, project.folder) as terminal:
        terminal.until("]: ")
        terminal.paste("one\rtwo\rthree\r", marked=False)
        terminal.until("several lines came at once")
        terminal.until("]: ")
        terminal.paste("one\rtwo")
        terminal.press("\r")
        terminal.until("this text has several lines")
        terminal.until("]: ")
        terminal.paste("four\r")
        terminal.press("\r")
        assert terminal.end() == 0
    assert named(project) == "four"


def test_bytes_that_are_no_text_are_refused(project: Project) -> None:
    with PseudoTerminal(NAME, project.folder, {"PYTHONUTF8": "1"}) as terminal:
        terminal.until("]: ")
        terminal.press_bytes(b"caf\xe9\r")
        terminal.until("bytes that are no utf-8")
        terminal.until("]: ")
        terminal.press("café\r")
        assert terminal.end() == 0
    assert named(project) == "café"


def test_what_is_erased_is_gone_from_the_screen_and_the_answer(project: Project) -> None:
    with PseudoTerminal(NAME, project.folder) as terminal:
        terminal.until("]: ")
        terminal.press("é" + "x" * 120)
        terminal.until("x" * 120)
        terminal.press("\x7f")
        # The row began anew, because a cursor cannot go back over what may be wide.
        assert terminal.until("é" + "x" * 119).count("Name of the agent") == 1
        terminal.press("\x15abc dx")
        terminal.until("abc dx")
        terminal.press("\x7f")
        terminal.until("\b \b")
        terminal.press("e\x17f\r")
        assert terminal.end() == 0
    assert named(project) == "abc f"


def test_keys_from_before_the_question_do_not_answer_it(project: Project) -> None:
    with Provider(call("write_file", path="a.txt", content="hi"), Reply("done")) as provider:
        over_http(project, provider, WRITES)
        with PseudoTerminal(["run", "zeus.yaml", "go"], project.folder) as terminal:
            terminal.press("y\ry\ry")
            terminal.until("approve write_file? ")
            terminal.until("] ")
            terminal.press("\r")
            terminal.until("decide later")
            terminal.until("] ")
            terminal.press("n\r")
            assert terminal.end() == 0
    assert not (project.folder / "a.txt").exists()


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, -signal.SIGHUP)],
)
def test_a_terminal_gets_its_mode_back_from_a_question_that_a_signal_ends(
    project: Project, number: int, code: int
) -> None:
    with PseudoTerminal(NAME, project.folder) as terminal:
        terminal.until("]: ")
        assert not terminal.makes_lines()
        terminal.send(number)
        assert terminal.end() == code
        assert terminal.makes_lines()
        assert terminal.raw.rindex("\x1b[?2004l") > terminal.raw.rindex("\x1b[?2004h")


def test_a_stopped_question_leaves_the_terminal_and_is_shown_again(project: Project) -> None:
    with PseudoTerminal(NAME, project.folder) as terminal:
        terminal.until("]: ")
        terminal.press("fo")
        terminal.until("fo")
        # Nobody could wake the session's leader, so the kernel does not stop it: as if it had been woken at once.
        terminal.send(signal.SIGTSTP)
        terminal.until("]: fo")
        terminal.send(signal.SIGCONT)
        terminal.until("]: fo")
        terminal.press("ur\r")
        assert terminal.end() == 0
        assert terminal.raw.count("\x1b[?2004l") == 2
    assert named(project) == "four"


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_the_end_of_input_and_a_dumb_terminal(project: Project, term: str) -> None:
    with PseudoTerminal(NAME, project.folder, {"TERM": term}) as terminal:
        terminal.until("]: ")
        terminal.press("a\x04\x7f\x04")
        assert terminal.end() == 130
        assert terminal.makes_lines()
        assert ("\x1b" in terminal.raw) == (term == "xterm")


def test_a_secret_is_not_shown_and_arrives_whole(tmp_path: Path) -> None:
    secret = "s" * 5000
    with PseudoTerminal(["--remote", "http://127.0.0.1:9", "sessions", "list"], tmp_path) as terminal:
        terminal.until("Token of the service: ")
        terminal.paste("a\nb")
        terminal.press("\r")
        terminal.until("several lines")
        terminal.until("Token of the service: ")
        terminal.paste(secret)
        terminal.press("\r")
        assert terminal.end() != 0
        assert "sss" not in terminal.screen


class Cut(io.StringIO):
    """A terminal whose mode cannot be changed."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("end", ["\n", ""])
def test_a_line_that_a_terminal_may_have_cut_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], end: str
) -> None:
    fits = "é" * (MOST_PLAIN_BYTES // 2)
    monkeypatch.setattr(sys, "stdin", Cut(f"{fits}é{end}\n{fits}\n" if end else f"{fits}é"))
    if end:
        assert typed_line("? ") == ""
        assert typed_line("? ") == fits
    else:
        assert typed_line("? ") is None
    assert "may have cut the line" in capsys.readouterr().err


def test_what_is_piped_in_has_no_such_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{LONG}\n"))
    assert typed_line("? ") == LONG
    assert typed_line("? ") is None


def test_a_prompt_of_a_chat_without_readline_is_read_like_an_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Cut(f"{LONG}\nshort\n"))
    with PromptInput({}, lambda _line: False) as lines:
        assert lines.read("> ") == "short"
    assert "may have cut the line" in capsys.readouterr().err


def test_a_terminal_whose_mode_cannot_be_changed_makes_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_given: object) -> None:
        raise termios.error(5, "refused")

    monkeypatch.setattr(termios, "tcsetattr", refuse)
    terminal, side = os.openpty()
    with os.fdopen(side, closefd=False) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        monkeypatch.setattr(typed_lines, "_prompt", lambda _text: os.write(terminal, b"fits\n"))
        assert typed_line("? ") == "fits"
    os.close(side)
    os.close(terminal)


def keys() -> Keys:
    return Keys("utf-8", SPECIAL)


PIECES = st.lists(
    st.one_of(
        st.text(st.characters(codec="utf-8", exclude_characters="\x1b"), max_size=20).map(
            lambda text: ("typed", text)
        ),
        st.text(st.characters(codec="utf-8", exclude_characters="\x1b"), max_size=20).map(
            lambda text: ("pasted", text)
        ),
    ),
    max_size=5,
)


@given(PIECES, st.lists(st.integers(0, 300), max_size=5))
def test_a_line_is_the_same_however_its_bytes_are_divided(
    pieces: list[tuple[str, str]], cuts: list[int]
) -> None:
    data = b"".join(
        (text if kind == "typed" else f"\x1b[200~{text}\x1b[201~").encode() for kind, text in pieces
    )
    whole, divided = keys(), keys()
    whole.take(data)
    places = sorted({0, *(min(cut, len(data)) for cut in cuts), len(data)})
    for start, end in pairwise(places):
        divided.take(data[start:end])
    assert (divided.text, divided.has_ended, divided.is_end_of_input) == (
        whole.text,
        whole.has_ended,
        whole.is_end_of_input,
    )


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x1b"), min_size=1))
def test_a_paste_is_taken_exactly_but_for_the_kind_of_its_line_ends(text: str) -> None:
    line = keys()
    line.take(f"\x1b[200~{text}\x1b[201~".encode())
    assert line.text == text.replace("\r\n", "\n").replace("\r", "\n")
    assert not line.has_ended
    line.take(b"\r\n")
    assert (line.has_ended, line.is_end_of_input, line.waiting) == (True, False, "")


def test_a_key_that_edits_nothing_is_part_of_the_line() -> None:
    line = keys()
    line.take(b"a\x1b[D\x01\x1b")
    assert line.text == "a\x1b[D\x01"
    line.take(b"b\x04\r")
    assert (line.text, line.has_ended, line.is_end_of_input) == ("a\x1b[D\x01\x1bb", True, False)


@pytest.mark.parametrize("begin", ["", "\x1b[200~"])
def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch, begin: str) -> None:
    monkeypatch.setattr(typed_lines, "MOST_CHARACTERS", 100)
    line = keys()
    line.take(begin.encode())
    for _ in range(30):
        line.take(b"x" * 20)
        assert len(line.text) + len(line.waiting) <= 100
    line.take(b"\x1b[201~\r" if begin else b"\r")
    assert (line.has_ended, line.is_too_long) == (True, True)
    assert MOST_CHARACTERS > 100


class Side:
    """A terminal of the test's own process.

    Args:
        encoding: of the terminal.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, encoding: str = "utf-8") -> None:
        self.number, self.side = os.openpty()
        self._stream = os.fdopen(self.side, encoding=encoding, closefd=False)
        monkeypatch.setattr(sys, "stdin", self._stream)
        # What a question shows goes to the terminal, as standard error is none.
        monkeypatch.setattr(sys, "stderr", io.StringIO())

    def keys(self, *changes: tuple[int, bytes]) -> None:
        """Change keys of the terminal."""
        mode = termios.tcgetattr(self.side)
        for place, key in changes:
            mode[6][place] = key
        termios.tcsetattr(self.side, termios.TCSANOW, mode)

    def press(self, data: bytes) -> None:
        # Not made into lines, as once the question is there.
        mode = termios.tcgetattr(self.side)
        mode[0] &= ~(termios.ICRNL | termios.IXON)
        mode[3] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN | termios.ISIG)
        before = termios.tcgetattr(self.side)
        termios.tcsetattr(self.side, termios.TCSANOW, mode)
        os.write(self.number, data)
        termios.tcsetattr(self.side, termios.TCSANOW, before)

    def shown(self) -> bytes:
        os.set_blocking(self.number, False)
        try:
            return os.read(self.number, 10_000)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        os.close(self.side)
        os.close(self.number)


@pytest.fixture
def side(monkeypatch: pytest.MonkeyPatch) -> Iterator[Side]:
    monkeypatch.setattr(typed_lines, "_NEXT_PIECE_MILLISECONDS", 1)
    found = Side(monkeypatch)
    yield found
    found.close()


def test_line_ends_around_one_pasted_line_are_not_part_of_it(side: Side) -> None:
    """A copied token often ends with one."""
    side.press(b"\x1b[200~\ntoken \n\x1b[201~\r")
    assert typed_line("? ", one_line=True, forget=False) == "token "
    side.press(b"\x1b[200~a\n\x1b[201~\r")
    assert typed_line("? ", forget=False) == "a\n"


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        (b"abx\b\r", "ab"),
        (b"abx\x7f\r", "ab"),
        (b"abx\x05\r", "ab"),
        (b"a b  \x06c\r", "a c"),
        (b"ab\x0bc\r", "c"),
        (b"\x00ab\r", "\x00ab"),
        (b"ab\x15\r", "ab\x15"),
    ],
)
def test_the_terminal_s_own_keys_edit_the_line(side: Side, typed: bytes, line: str) -> None:
    """A key that is turned off, a NUL, is none."""
    side.keys(
        (termios.VERASE, b"\x05"), (termios.VWERASE, b"\x06"), (termios.VKILL, b"\x0b"), (termios.VEOF, b"\0")
    )
    side.press(typed)
    assert typed_line("? ", forget=False) == line


def test_what_is_refused_is_forgotten_with_all_that_came_with_it(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def complain(text: str, *_: object) -> None:
        told.append(text)

    monkeypatch.setattr(typed_lines, "complain", complain)
    asked = typed_lines._prompt

    def prompt(text: str) -> None:
        asked(text)
        if told:
            os.write(side.number, b"next\r")

    monkeypatch.setattr(typed_lines, "_prompt", prompt)
    side.press(b"x" * 10 + b"\rrest\rmore")
    assert typed_line("? ", forget=False) == "next"
    assert len(told) == 1
    assert told[0].startswith("several lines came at once")


def test_a_line_that_is_too_long_is_refused_with_its_limit(
    side: Side, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(typed_lines, "MOST_CHARACTERS", 100)
    with typed_lines._Typing("? ", forget=False) as typing:
        for pressed in (b"x" * 101, b"\r", b"y\r"):
            os.write(side.number, pressed)
            typing.read()
    assert typing.line == "y"
    assert "a line of more than 100 characters is too long" in capsys.readouterr().err


def test_a_question_ends_with_its_terminal(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    side.press(b"x")
    monkeypatch.setattr(os, "read", closed)
    assert typed_line("? ", forget=False) is None


def test_handlers_of_signals_are_those_from_before(side: Side) -> None:
    former = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGQUIT, signal.SIGCONT)}
    own = signal.signal(signal.SIGTERM, lambda *_: None)
    kept = signal.getsignal(signal.SIGTERM)
    try:
        side.press(b"x\r")
        assert typed_line("? ", forget=False) == "x"
        assert signal.getsignal(signal.SIGTERM) is kept
    finally:
        signal.signal(signal.SIGTERM, own)
    assert {number: signal.getsignal(number) for number in former} == former


@pytest.mark.parametrize("moment", ["prompt", "wait", "read"])
def test_keys_from_before_the_question_is_shown_again_do_not_count(
    side: Side, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """`fg` and `y` typed at once: the shell reads the first line, and the second came before the question."""
    owner, name = {
        "prompt": (typed_lines, "_prompt"),
        "wait": (typed_lines._Typing, "wait"),
        "read": (os, "read"),
    }[moment]
    was, renewed = getattr(owner, name), typed_lines._Typing._renew
    woken = False

    def wakes(*given: Any) -> Any:
        nonlocal woken
        if not woken:
            woken = True
            os.write(side.number, b"y\r")
            signal.raise_signal(signal.SIGCONT)
        return was(*given)

    def renew(typing: typed_lines._Typing) -> None:
        renewed(typing)
        os.write(side.number, b"n\r")

    monkeypatch.setattr(owner, name, wakes)
    monkeypatch.setattr(typed_lines._Typing, "_renew", renew)
    monkeypatch.setattr(typed_lines, "complain", lambda told, _style: pytest.fail(told))
    if moment == "read":
        side.press(b"x")
    assert typed_line("? ", forget=False) == "n"


def test_a_key_is_taken_although_a_terminal_has_a_meaning_for_it(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-S would stop the screen, Ctrl-V take the next key as it is; the question shows both."""
    asked = typed_lines._prompt

    def prompt(text: str) -> None:
        asked(text)
        os.write(side.number, b"a\x13\x16\x0fb\r")

    monkeypatch.setattr(typed_lines, "_prompt", prompt)
    assert typed_line("? ") == "a\x13\x16\x0fb"
    assert rb"a\x13\x16\x0fb" in side.shown()


def test_a_process_that_ends_at_once_leaves_the_terminal(side: Side) -> None:
    before = termios.tcgetattr(side.side)
    with typed_lines._Typing("? "):
        assert termios.tcgetattr(side.side) != before
        typed_lines.leave_terminal()
        assert termios.tcgetattr(side.side) == before
