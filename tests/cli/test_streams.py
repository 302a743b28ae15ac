"""How wide a terminal is taken to be, and log lines on it."""

from __future__ import annotations

import fcntl
import logging
import os
import pty
import struct
import termios

import pytest

from zeus_runtime.cli.process import Process
from zeus_runtime.cli.start import prepared
from zeus_runtime.cli.streams import columns_of


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
