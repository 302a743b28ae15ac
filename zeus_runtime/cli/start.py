"""Set up the process of a command that runs an agent: garbage collection, and warnings without secrets."""

from __future__ import annotations

import gc
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from zeus_runtime.cli.streams import complain

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process


_THRESHOLDS: Final = (20_000, 20, 20)
"""At Python's own (700, 10, 10) each run looks through all loaded modules several times, for a quarter of its CPU."""


@contextmanager
def prepared(process: Process) -> Iterator[None]:
    """Collect garbage again; libraries log to standard error with secrets masked, and warn their authors elsewhere.

    Python's warnings are for developers: ``python -W`` and ``PYTHONWARNINGS`` show them.
    """
    handler = MaskedWarnings(process.redact)
    root = logging.getLogger()
    root.addHandler(handler)
    collecting, thresholds = gc.isenabled(), gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    gc.enable()
    try:
        with warnings.catch_warnings():
            if not sys.warnoptions:
                warnings.simplefilter("ignore")
            yield
    finally:
        gc.set_threshold(*thresholds)
        if not collecting:
            gc.disable()
        root.removeHandler(handler)


def mask_logs(process: Process) -> None:
    """Mask the log records that no handler takes: those of plugins and libraries outside of ``prepared``."""
    logging.lastResort = MaskedWarnings(process.redact)


class MaskedWarnings(logging.Handler):
    """Writes warnings of libraries to standard error, with secrets masked; also those that cannot be formatted.

    Args:
        redact: masks the secrets of a text.
    """

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        self._redact = redact

    def emit(self, record: logging.LogRecord) -> None:
        if sys.is_finalizing():
            # Nothing can be imported any more, so nothing can be masked.
            sys.stderr.write(f"{record.levelname} {record.name} at the end of the process\n")
            return
        try:
            text = self.format(record)
        except Exception as error:  # noqa: BLE001 - a wrong format is the library's mistake, and ends nothing
            text = f"{record.levelname} {record.name}: {record.msg!r} with {record.args!r} ({error!r})"
        with suppress(OSError, ValueError):  # a closed stream
            complain(self._redact(text), as_is=True)
