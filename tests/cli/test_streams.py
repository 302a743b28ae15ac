"""How wide a terminal is taken to be, and what stands at its margin."""

from __future__ import annotations

import fcntl
import io
import logging
import os
import pty
import re
import struct
import sys
import termios
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zeus_runtime.cli.entry import _bug, _failed, _failed_system, _misused, _tell_stray_errors
from zeus_runtime.cli.output import TextTable, complain_masked, complain_table
from zeus_runtime.cli.process import Process
from zeus_runtime.cli.start import prepared
from zeus_runtime.cli.streams import columns_of, complain
from zeus_runtime.cli.views import Journal
from zeus_runtime.columns import columns
from zeus_runtime.config.messages.diagnostics import ConfigError, Diagnostic
from zeus_runtime.config.yaml.tree import Mark
from zeus_runtime.errors import ZeusError
from zeus_runtime.events import Notice, RunFailed
from zeus_runtime.tools.question import StyledLine, folded


def test_a_question_fits_the_terminal_that_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output may be a file, and COLUMNS from another window: a longer line would begin anew at the margin."""
    monkeypatch.setenv("COLUMNS", "200")
    terminal, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    with os.fdopen(side, "w") as stream:
        assert columns_of(stream) == 40
    os.close(terminal)


def test_a_log_line_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with prepared(Process()):
        logging.getLogger("library").warning("failed: %s", "\x1b]0;title\x07\u202e")
    assert capsys.readouterr().err == "WARNING library: failed: \\x1b]0;title\\x07\\u202e\n"


WIDTH = 80


class Screen(io.StringIO):
    """Standard error as a terminal of ``WIDTH`` columns."""

    def isatty(self) -> bool:
        return True

    @property
    def rows(self) -> list[str]:
        """What stands in each row: a longer line goes on at the margin, and a tab ends in the last column at most."""
        rows: list[str] = []
        for line in re.sub("\x1b\\[[0-9]*m", "", self.getvalue()).removesuffix("\n").split("\n"):
            rows.append("")
            used = 0
            for char in line:
                wide = columns(char)
                if char != "\t" and used + wide > WIDTH:
                    rows.append("")
                    used = 0
                rows[-1] += char
                used = min(used // 8 * 8 + 8, WIDTH - 1) if char == "\t" else used + wide
        return rows


@contextmanager
def screen() -> Iterator[Screen]:
    shown = Screen()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", shown)
        patch.setenv("COLUMNS", str(WIDTH))
        yield shown


FORGED = "acc is authorised; it has 12 tools"
FOREIGN = [
    f"please\n{FORGED}\n\n? x needs approval",
    f"please {'.' * 90} {FORGED}",
    f"{'x' * WIDTH}{FORGED}",
    *(f"{'x' * count}{' ' * (WIDTH - count)}{FORGED}\u00a0\u00a0{'y' * 200}" for count in (57, 66, 71, 79)),
    "".join(f"{FORGED:\u00a0<80}" for _ in range(3)),
    f"x{chr(9) * 30}{FORGED}{chr(9) * 9}{FORGED}",
    f"{'字' * 36} {FORGED}",
    f"{'🎉' * 35}{FORGED} {FORGED}",
    f"\r\n{FORGED}\u2028{FORGED}\x0b{FORGED}\x85{FORGED}",
]


def failure(error: Exception) -> Callable[[], object]:
    error.add_note(str(error))
    return lambda: _failed(error, Process())


def diagnostics(text: str) -> Exception:
    mark = Mark(f"{text}.yaml".replace("\n", " "), 1, 1)
    return ConfigError([Diagnostic("invalid", text, hint=text, related=((text, mark),))] * 2)


def logged(text: str) -> None:
    with prepared(Process()):
        logging.getLogger("library").warning("%s", text)


def misused(text: str) -> None:
    context = click.Context(click.Command("run"), info_name="zeus run")
    _misused(click.UsageError(text, context), Process())


def bug(text: str) -> None:
    try:
        raise ValueError(text)
    except ValueError:
        _bug(Process())


def warned(text: str) -> None:
    give_back = _tell_stray_errors(Process())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn_explicit(text, UserWarning, "library.py", 1)
    finally:
        give_back()


TOLD: dict[str, tuple[Callable[[str], object], list[str]]] = {
    "an error": (lambda text: failure(ZeusError(text, remedy=text))(), ["error:"]),
    "an error of the system": (lambda text: _failed_system(OSError(text), Process()), ["error:"]),
    "an invalid config": (lambda text: failure(diagnostics(text))(), ["invalid:", "invalid:"]),
    "a wrong command line": (misused, ["Usage:", "Try ", "Error:"]),
    "a bug": (bug, ["Traceback ", "error: this is a bug"]),
    "a warning of Python": (warned, ["library.py:1:"]),
    "a record of a log": (logged, ["WARNING library:"]),
    "a note": (lambda text: Journal(quiet=False).show(Notice("code", text)), ["note:"]),
    "a failed run": (lambda text: Journal(quiet=True).show(RunFailed("s", "code", text, 1)), ["error:"]),
    "one line": (lambda text: complain_masked(Process(), f"warning: {text}", "yellow"), ["warning:"]),
}


@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda text: ascii(text)[:20])
@pytest.mark.parametrize("kind", TOLD)
def test_no_foreign_text_begins_where_our_lines_begin(kind: str, foreign: str) -> None:
    tell, beginnings = TOLD[kind]
    with screen() as shown:
        tell(foreign)
    at_margin = [row for row in shown.rows if row[:1].strip()]
    assert [row[: len(own)] for row, own in zip(at_margin, beginnings, strict=True)] == beginnings
    kept = re.sub(r"\s", "", "".join(shown.rows))
    assert re.sub(r"\s", "", FORGED) in kept


@given(st.text(alphabet="ab \t\n\u00a0字é🎉…", max_size=400))
def test_no_row_of_a_message_but_the_first_begins_at_the_margin(text: str) -> None:
    with screen() as shown:
        complain(f"note: {text}")
    assert all(row[:1].isspace() or not row for row in shown.rows[1:])
    assert re.sub(r"\s", "", "".join(shown.rows)) == re.sub(r"\s", "", f"note:{text}")


@given(st.text(alphabet="ab \t\u00a0字é🎉…", max_size=400))
@example(f"{chr(9) * 9}{FORGED}")
def test_no_row_of_a_folded_line_but_the_first_begins_at_the_margin(text: str) -> None:
    shown = Screen()
    shown.write("\n".join(each.text for each in folded(StyledLine(f"note: {text}"), WIDTH)))
    assert all(row[:1].isspace() or not row for row in shown.rows[1:])


def test_a_table_and_a_command_to_copy_stay_as_they_are() -> None:
    with screen() as shown:
        complain(f"a  b\nc  d\n{'x' * 100}", laid_out=True)
        complain_table(TextTable([("one", "x " * 60), ("two", "y")]))
    assert shown.getvalue().startswith(f"a  b\nc  d\n{'x' * 100}\none  x x")
    assert shown.rows[-1] == "two  y"
    assert max(map(len, shown.getvalue().split("\n")[3:])) <= WIDTH


def test_where_nobody_reads_no_line_is_folded(capsys: pytest.CaptureFixture[str]) -> None:
    complain(f"error: {'x ' * 100}\n  its remedy\nmore")
    assert capsys.readouterr().err == f"error: {'x ' * 100}\n  its remedy\n  more\n"
