"""Which embedding model a user's memories are compared by, and where the user's own choice is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.config.ref import Ref
from zeus_runtime.errors import OptionsError, UsageError

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from sqlalchemy import Connection

SETTING: Final = "embeddings"
"""The name of the choice among a user's settings."""

DEFAULT: Final = Ref("static")
"""It runs on this machine: where texts are sent is never decided by a key that happens to be set."""


def create_embeddings(
    user_id: str,
    *,
    choices: Mapping[str, Ref | str | Mapping[str, Any]],
    configured: Ref | None,
) -> Ref:
    """The embedding component for ``user_id``: the user's own, else the YAML's, else ``DEFAULT``.

    The choice decides how a new text and a query are embedded. Memories embedded by another model stay as they are:
    they are found by their words, their vectors are compared with nothing, and `zeus memory reindex` embeds them
    again. So a user who takes another model loses no memory and mixes no cosines.

    Args:
        choices: by user id, as stored: ``name``, ``{name: {options}}`` or a Ref.
        configured: ``memory.embeddings`` of the YAML.

    Raises:
        OptionsError: the user's stored choice is none.
    """
    own = choices.get(user_id)
    if own is not None:
        return _ref(own, user_id)
    if configured is not None:
        return configured
    return DEFAULT


def as_stored(ref: Ref) -> str:
    """A choice as it is kept: the JSON of ``{name: {options}}``.

    Raises:
        UsageError: the options are not JSON.
    """
    try:
        return json.dumps({ref.name: dict(ref.options)}, sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"the options of the embedding model {ref.name!r} cannot be stored: {error}"
        ) from None


def written_choice(text: str) -> Ref:
    """The choice that a user writes as in the YAML: ``name`` or ``{name: {options}}``.

    Raises:
        UsageError: it is neither.
        ConfigError: it is not YAML.
    """
    from zeus_runtime.config.yaml.reader import read_value
    from zeus_runtime.config.yaml.tree import plain

    node = read_value(text, "MODEL")
    ref = _as_ref(None if node is None else plain(node))
    if ref is None:
        raise UsageError(
            "the embedding model is neither a name nor {name: {options}}",
            remedy="Write it as under memory.embeddings: static, or '{litellm: {model: text-embedding-3-large}}'.",
        )
    return ref


def stored_in_file(file: Path, user_id: str) -> str | None:
    """The JSON that is kept for the user in a SQLite file, read in a millisecond and with nothing made or changed.

    Returns:
        None without a choice, without a file, and where the file holds no memory.

    Raises:
        RunError: the file is there and cannot be read.
    """
    if not file.exists():
        return None
    import sqlite3
    from contextlib import closing
    from urllib.parse import quote

    from zeus_runtime.errors import RunError

    query = "SELECT value FROM user_setting WHERE user_id = ? AND name = ?"
    try:
        # sqlite3's own `with` commits and leaves the connection open.
        with closing(sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True)) as connection:
            known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'user_setting'").fetchone()
            row = known and connection.execute(query, (user_id, SETTING)).fetchone()
    except sqlite3.Error as error:
        raise RunError(f"the database {file} cannot be read: {error}") from error
    return str(row[0]) if row else None


def stored_choice(connection: Connection, user_id: str) -> str | None:
    """The JSON that is kept for the user, inside a transaction; None without a choice."""
    from zeus_runtime.store.settings import setting

    return setting(connection, user_id, SETTING)


def store_choice(connection: Connection, user_id: str, stored: str | None, at: datetime) -> None:
    """Keep the JSON for the user, or nothing any more, inside a transaction that may write."""
    from zeus_runtime.memory.records import to_ms
    from zeus_runtime.store.settings import put_setting

    put_setting(connection, user_id, SETTING, stored, to_ms(at))


def chosen_ref(stored: str, user_id: str) -> Ref:
    """The choice that ``as_stored`` made JSON of.

    Raises:
        OptionsError: it is none.
    """
    try:
        return _ref(json.loads(stored), user_id)
    except ValueError:
        raise _unusable(user_id) from None


def _ref(stored: Ref | str | Mapping[str, Any], user_id: str) -> Ref:
    ref = stored if isinstance(stored, Ref) else _as_ref(stored)
    if ref is None:
        raise _unusable(user_id)
    return ref


def _as_ref(value: Any) -> Ref | None:
    if isinstance(value, str) and value.strip():
        return Ref(value.strip())
    if isinstance(value, Mapping) and len(value) == 1:
        ((name, options),) = value.items()
        if name and (options is None or isinstance(options, Mapping)):
            return Ref(name, dict(options or {}))
    return None


def _unusable(user_id: str) -> OptionsError:
    return OptionsError(
        f"the embedding model stored for the user {user_id!r} is neither a name nor {{name: options}}",
        remedy="`zeus memory embeddings use NAME` stores another one, `zeus memory embeddings reset` removes it.",
    )
