"""Mask secrets in the log records of libraries and of Zeus.

Libraries log the address of each request, and the key of an MCP server or a gateway may be part of it.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache, partial
from importlib.machinery import PathFinder
from pathlib import Path
from traceback import TracebackException
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.cutting import mask_known

if TYPE_CHECKING:
    from collections.abc import Callable
    from logging import LogRecord

# Also where they are no installed code, as in a clone.
_OWN: Final = frozenset({"zeus_runtime", "zeus_plugins"})
_PYTHON: Final = Path(os.__file__).parent


def mask_library_records() -> None:
    """From now on, mask what this process knows (``mask_before_cutting``) in these records, whoever handles them.

    A program's own record factory makes the records as before. One that it sets later and that does not call the
    former one takes this away, until the next call here.
    """
    import logging

    # A filter of a logger would not see the records of the loggers below it, nor of those that are made later.
    former = logging.getLogRecordFactory()
    if not (isinstance(former, partial) and former.func is _made):
        logging.setLogRecordFactory(partial(_made, former))


def _made(factory: Callable[..., LogRecord], *args: Any, **named: Any) -> LogRecord:
    record = factory(*args, **named)
    if not _is_the_programs_own(record):
        _mask(record)
    return record


def _is_the_programs_own(record: LogRecord) -> bool:
    # `makeLogRecord` makes one without a name.
    package = (record.name or "").partition(".")[0]
    # The name, since a compiled library names a file of the machine that built it.
    return not (package in _OWN or _is_librarys(record.pathname) or _is_installed_package(package))


@lru_cache(4096)
def _is_librarys(file: str) -> bool:
    return Path(file).is_relative_to(_PYTHON) or _is_installed(file)


@lru_cache(4096)
def _is_installed_package(name: str) -> bool:
    # Only the name of a logger: the package may not be imported.
    spec = PathFinder.find_spec(name)
    if spec is None:
        return False
    # A namespace has no file, but folders.
    return any(map(_is_installed, [spec.origin or "", *(spec.submodule_search_locations or ())]))


def _is_installed(file: str) -> bool:
    """Whether it is in a folder that distributions are installed in."""
    return any(
        Path(file).is_relative_to(folder) and _has_distributions(folder) for folder in map(Path, sys.path)
    )


@lru_cache
def _has_distributions(folder: Path) -> bool:
    return any(folder.glob("*.dist-info"))


def _mask(record: LogRecord) -> None:
    try:
        text = record.getMessage()
    except Exception:  # noqa: BLE001 - an argument may raise anything
        # It would end the call that logs; a handler's report would show the arguments.
        text = record.msg = f"{record.name}: a record that does not fit its format"
        record.args = None
    shown = mask_known(text)
    # Other records keep their arguments, which a program's handler may read.
    if shown != text:
        record.msg, record.args = shown, None
    if record.stack_info:
        record.stack_info = mask_known(record.stack_info)
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        # A group's every error, since a program's handler may show more of them than Python does.
        told = TracebackException.from_exception(error, compact=True, max_group_width=sys.maxsize)
        written = "".join(told.format()).rstrip("\n")
        # A formatter takes this in place of the error, whose message may have the address too.
        if (masked := mask_known(written)) != written:
            record.exc_text, record.exc_info = masked, None
