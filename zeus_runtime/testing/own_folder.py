"""A temporary folder for one run of an evaluation."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def own_folder(prefix: str) -> Iterator[Path]:
    """A folder that is deleted afterwards, with the records that its databases are the user's.

    Args:
        prefix: the beginning of its name.
    """
    from zeus_runtime.trust.decision import records_folder
    from zeus_runtime.trust.records import forget

    with TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        try:
            yield folder
        finally:
            if (records := records_folder(os.environ)) is not None:
                for file in folder.rglob("*.db"):
                    forget(records, str(file))
