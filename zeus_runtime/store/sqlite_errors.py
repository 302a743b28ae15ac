"""SQLite's errors in the user's terms: the cause and a remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from zeus_runtime.errors import MissingError, RunError, ZeusError

# Primary result code, its meaning, the remedy. https://www.sqlite.org/rescode.html
_UNUSABLE: Final = {
    "SQLITE_NOTADB": ("is not a database", "Move the file away"),
    "SQLITE_CANTOPEN": ("cannot be opened", "Make its file and its folder readable and writable"),
    "SQLITE_READONLY": ("is read-only", "Make the file and its folder writable"),
    "SQLITE_PERM": ("may not be used", "Make the file and its folder readable and writable"),
}
_FAILED: Final = {
    "SQLITE_FULL": (
        "has no room left",
        "Make room on its disk and try again; resume a run with --continue.",
    ),
    "SQLITE_CORRUPT": (
        "is damaged",
        "Put the file aside and restore a backup; `sqlite3 FILE .recover` saves what can still be read.",
    ),
    "SQLITE_BUSY": (
        "is locked by another process",
        "Wait for it or end it, and try again; resume a run with --continue.",
    ),
}
_OTHERWISE: Final = (
    "Check that it is a database, reachable, writable and not full; then resume with --continue."
)


def explained_sqlite_error(
    error: BaseException | None, what: str, file: Path | None, *, key: str = "storage.url"
) -> ZeusError:
    """SQLite's ``error``, or that of its file, in the user's terms.

    Args:
        what: the object that failed, such as ``the database 'sqlite:///a.db'``.
        file: the database's; None for one in memory.
        key: the config's key that names it.

    Returns:
        ``MissingError`` if the database cannot be used, ``RunError`` if an operation on it failed.
    """
    if isinstance(error, OSError):
        message = f"{what} cannot be made: {error.strerror}: {error.filename}"
        return MissingError(message, remedy=f"Make its folder, or set {key} to another place.")
    code = "_".join(str(getattr(error, "sqlite_errorname", "")).split("_")[:2])
    if code in _UNUSABLE:
        message, remedy = _UNUSABLE[code]
        cause = "it is a folder" if file is not None and file.is_dir() else error
        return MissingError(f"{what} {message}: {cause}", remedy=f"{remedy}, or set {key} to another place.")
    message, remedy = _FAILED.get(code, ("failed", _OTHERWISE))
    return RunError(f"{what} {message}: {error}", remedy=remedy)
