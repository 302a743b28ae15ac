"""The file of a config's database, looked for without opening or making it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeus_runtime.plan.validated import Checked


def is_missing(checked: Checked) -> bool:
    """Whether the config's database is a file that is not there."""
    from zeus_runtime.store.database import sqlite_file

    file = sqlite_file(checked.config.storage.url, checked.directory)
    return file is not None and not file.exists()
