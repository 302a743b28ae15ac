"""Set up the process of a command that runs an agent: garbage collection, and warnings without secrets."""

from __future__ import annotations

import gc
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from zeus_runtime.escaping import terminal_text

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process


_THRESHOLDS: Final = (20_000, 20, 20)
"""At Python's own (700, 10, 10) each run looks through all loaded modules several times, for a quarter of its CPU."""


@contextmanager
def prepared(process: Process) -> Iterator[None]:
    """Collect garbage again; libraries log to standard error with secrets masked, and warn their authors elsewhere.

    Python's warnings are for developers: ``python -W`` and ``PYTHONWARNINGS`` show them.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(_Redacting(process.redact))
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


class _Redacting(logging.Formatter):
    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return terminal_text(self._redact(super().format(record)))
