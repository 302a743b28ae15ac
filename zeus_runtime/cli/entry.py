"""Where ``zeus`` begins and ends: the one error handler, exit codes, and what happens to a broken pipe."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    import threading
    from types import TracebackType

    import click

    from zeus_runtime.cli.process import Process

EXIT_CODES: Final = {
    0: "ok",
    1: "the run failed, or its answer is empty or filtered",
    2: "the command line does not fit",
    3: "the config is invalid",
    4: "a credential, dependency or plugin is missing, or a part of the config is not trusted",
    5: "the answer does not fit the schema of `output`, or a case of `zeus eval` did not pass",
    6: "a limit was reached: steps, seconds, money or repeated calls",
    7: "an approval is needed and nobody is there to ask: `zeus resume` decides",
    130: "interrupted",
    141: "the reader of the output went away",
}
"""What a command's exit code means."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code (``EXIT_CODES``).

    Args:
        argv: the words after ``zeus``; None for the process's own.
    """
    # A command lives for a moment: collecting cycles while modules load is a tenth of its time.
    collecting = gc.isenabled()
    gc.disable()
    from zeus_runtime.cli.process import Process
    from zeus_runtime.cli.streams import mask_errors_by
    from zeus_runtime.process_path import narrow_process

    process = Process()
    widen = narrow_process()
    give_back = _tell_stray_errors(process)
    try:
        with mask_errors_by(lambda text: process.secrets.text(text)):
            # In a context of its own: the words that name its config end with it.
            return copy_context().run(_guarded, sys.argv[1:] if argv is None else list(argv), process)
    finally:
        if argv is None:
            # The process ends here: what is left need not be searched for cycles once more.
            gc.freeze()
        else:
            give_back()
            widen()
        if collecting:
            gc.enable()


def _tell_stray_errors(process: Process) -> Callable[[], None]:
    """Print what threads, finalizers and the end of the process raise, and Python's warnings, as other errors are
    printed: without secrets, and with escapes for what cannot be seen.

    Returns:
        what puts Python's own hooks back.
    """
    import threading
    import warnings

    former = sys.excepthook, threading.excepthook, sys.unraisablehook, warnings.showwarning

    def give_back() -> None:
        sys.excepthook, threading.excepthook, sys.unraisablehook, warnings.showwarning = former

    def tell(what: str, error: BaseException | None) -> None:
        if sys.is_finalizing():
            # Nothing can be imported any more, so nothing can be masked.
            name = "a warning" if error is None else type(error).__name__
            sys.stderr.write(f"{name} at the end of the process\n")
            return
        from traceback import format_exception

        from zeus_runtime.cli.streams import complain

        trace = "" if error is None else "".join(format_exception(error))
        complain(process.redact(f"{what}{trace}".rstrip()))

    def uncaught(_kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
        tell("", error)

    def in_thread(stray: threading.ExceptHookArgs) -> None:
        if stray.exc_type is not SystemExit:
            name = stray.thread.name if stray.thread else "that has ended"
            tell(f"Exception in thread {name}:\n", stray.exc_value)

    def unraisable(stray: sys.UnraisableHookArgs) -> None:
        tell(f"{stray.err_msg or 'Exception ignored in'}: {stray.object!r}\n", stray.exc_value)

    def warn(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        tell(warnings.formatwarning(message, category, filename, lineno, line=""), None)

    sys.excepthook, threading.excepthook, sys.unraisablehook = uncaught, in_thread, unraisable
    warnings.showwarning = warn
    return give_back


def _guarded(words: Sequence[str], process: Process) -> int:
    import click

    from zeus_runtime.cli.group import zeus
    from zeus_runtime.errors import ZeusError, ends_process

    # Before anything is printed, also of a wrong command line.
    _prepare_streams()
    try:
        code = zeus.main(words, prog_name="zeus", standalone_mode=False, obj=process)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except ZeusError as error:
        return _failed(error, process)
    except click.ClickException as error:
        return _misused(error, process)
    except (click.Abort, KeyboardInterrupt):
        return 130
    # Before OSError, which it is.
    except BrokenPipeError:
        return _broken_pipe()
    except OSError as error:
        return _failed_system(error, process)
    except SystemExit as error:
        if ends_process(error):
            raise
        return _failed(error, process)
    except Exception:  # noqa: BLE001 - the edge: it is printed, redacted
        return _bug(process)


def _failed(error: BaseException, process: Process) -> int:
    from zeus_runtime.cli.streams import complain
    from zeus_runtime.config.messages.diagnostics import ConfigError

    *others, last = map(str, error.diagnostics) if isinstance(error, ConfigError) else [f"error: {error}"]
    for each in others:
        complain(process.redact(each))
    complain(process.redact(_with_notes(last, error)))
    return int(getattr(error, "exit_code", 1))


def _with_notes(text: str, error: BaseException) -> str:
    """An error's text with its notes, such as the other errors of works that were all tried."""
    return "\n".join((text, *map(str, getattr(error, "__notes__", ()))))


def _misused(error: click.ClickException, process: Process) -> int:
    """A wrong command line, which may hold anything."""
    from click.exceptions import NoArgsIsHelpError

    from zeus_runtime.cli.streams import complain

    if isinstance(error, NoArgsIsHelpError):
        complain(error.format_message(), laid_out=True)
        return error.exit_code
    # Click's own `show` drops escape sequences.
    if (context := getattr(error, "ctx", None)) is not None:
        complain(context.get_usage())
        complain(f"Try '{context.command_path} --help' for help.\n")
    complain(f"Error: {process.redact(error.format_message())}")
    return error.exit_code


def _prepare_streams() -> None:
    from zeus_runtime.escaping import limit_to

    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        # The parent process closed it, so input cannot be read and output has no reader.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        # A pipe gets text as it is, which its encoding may lack: that is escaped, not refused.
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(errors="backslashreplace")
    limit_to(getattr(stream, "encoding", None) for stream in (sys.stdout, sys.stderr))


def _broken_pipe() -> int:
    from zeus_runtime.cli.group import READER_GONE

    _drop_output()
    return READER_GONE


def _failed_system(error: OSError, process: Process) -> int:
    """The disk is full, a file may not be read: the user's to repair, and no bug."""
    from zeus_runtime.cli.streams import complain

    _drop_output()
    complain(process.redact(_with_notes(f"error: {error}", error)))
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
