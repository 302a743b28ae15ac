"""Where ``zeus`` begins and ends: the one error handler, exit codes, and what happens to a broken pipe."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import click

    from zeus_runtime.cli.process import Process

EXIT_CODES: Final = {
    0: "ok",
    1: "the run failed, or its answer is empty or filtered",
    2: "the command line does not fit",
    3: "the config is invalid",
    4: "a credential, dependency or plugin is missing, or a part of the config is not trusted",
    6: "a limit was reached: steps, seconds, money or repeated calls",
    7: "an approval is needed and nobody is there to ask: `zeus resume` decides",
    130: "interrupted",
    141: "the reader of the output went away",
}
"""What a command's exit code means; 5 is kept for assertions."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code (``EXIT_CODES``).

    Args:
        argv: the words after ``zeus``; None for the process's own.
    """
    # A command lives for a moment: collecting cycles while modules load is a tenth of its time.
    collecting = gc.isenabled()
    gc.disable()
    from zeus_runtime.cli.process import Process

    process = Process()
    try:
        return _guarded(sys.argv[1:] if argv is None else list(argv), process)
    finally:
        if argv is None:
            # The process ends here: what is left need not be searched for cycles once more.
            gc.freeze()
        if collecting:
            gc.enable()


def _guarded(words: Sequence[str], process: Process) -> int:
    import click

    from zeus_runtime.cli.group import zeus
    from zeus_runtime.errors import ZeusError

    _prepare_streams()
    try:
        code = zeus.main(words, prog_name="zeus", standalone_mode=False, obj=process)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except ZeusError as error:
        return _failed(error, process)
    except click.ClickException as error:
        return _misused(error)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        return _broken_pipe()
    except OSError as error:
        return _failed_system(error, process)
    except Exception:  # noqa: BLE001 - the edge: it is printed, redacted
        return _bug(process)


def _failed(error: Exception, process: Process) -> int:
    from zeus_runtime.cli.streams import complain
    from zeus_runtime.config.diagnostics import ConfigError

    text = process.redact(str(error))
    complain(text if isinstance(error, ConfigError) else f"error: {text}")
    return int(getattr(error, "exit_code", 1))


def _misused(error: click.ClickException) -> int:
    """A wrong command line, which may hold anything."""
    from click.exceptions import NoArgsIsHelpError

    from zeus_runtime.cli.streams import complain

    if isinstance(error, NoArgsIsHelpError):
        complain(error.format_message())
        return error.exit_code
    # Click's own `show` drops escape sequences.
    if (context := getattr(error, "ctx", None)) is not None:
        complain(f"{context.get_usage()}\nTry '{context.command_path} --help' for help.\n")
    complain(f"Error: {error.format_message()}")
    return error.exit_code


def _prepare_streams() -> None:
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        # Closed by whoever started the process: there is nothing to read and nobody to write to.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        # An answer may hold what the terminal's encoding cannot: it is shown escaped, not refused.
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(errors="backslashreplace")


def _broken_pipe() -> int:
    from zeus_runtime.cli.group import READER_GONE

    _drop_output()
    return READER_GONE


def _failed_system(error: OSError, process: Process) -> int:
    """The disk is full, a file may not be read: the user's to repair, and no bug."""
    from zeus_runtime.cli.streams import complain

    _drop_output()
    complain(f"error: {process.redact(str(error))}")
    return 1


def _drop_output() -> None:
    """What is still buffered cannot be written, and must not fail once more when Python exits."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _bug(process: Process) -> int:
    from traceback import format_exc

    from zeus_runtime.cli.streams import complain

    complain(process.redact(format_exc()))
    complain("error: this is a bug in Zeus or in a plugin; the traceback above says where")
    return 1
