"""The file of a SQLite URL: the only reading of such a URL, so that the file that is judged is the one that is opened.

SQLAlchemy, whose import is too slow for the check of a config, gets the file and never the text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from zeus_runtime.errors import MissingError

URLS: Final = (
    "Set storage.url to a SQLAlchemy URL: sqlite:///.zeus/zeus.db, or postgresql://user@host/database, and install its"
    " driver (pip install 'zeus-runtime[postgres]')."
)


def is_sqlite(url: str) -> bool:
    """Whether a URL is SQLite's, with whichever driver."""
    return url.partition("://")[0].partition("+")[0] == "sqlite"


def database_file(url: str, directory: Path) -> Path | None:
    """The file that a SQLite URL names, its links not resolved; None for a server or a database in memory.

    Args:
        url: its path is percent-encoded, as everywhere in SQLAlchemy's URLs; what follows a ``?`` names no file.
        directory: where a relative path starts.

    Raises:
        MissingError: it names a host, as ``sqlite://zeus.db`` does, or a path that no file can have.
    """
    if not is_sqlite(url):
        return None
    authority, _, encoded = url.partition("://")[2].partition("?")[0].partition("/")
    if authority:
        raise _unusable("its URL names a host: a relative path follows three slashes")
    path = encoded
    if "%" in encoded:
        from urllib.parse import unquote

        path = unquote(encoded)
    if "\0" in path:
        raise _unusable("no file's name has a zero byte")
    return directory / path if path not in ("", ":memory:") else None


def _unusable(why: str) -> MissingError:
    return MissingError(f"the SQLite database cannot be used: {why}", remedy=URLS)
