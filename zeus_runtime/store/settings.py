"""Users' own choices, which are stored in the database and not in the YAML: JSON by user and name."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, text

from zeus_runtime.store.row_security import act_for

_GET: Final = text("SELECT value FROM user_setting WHERE user_id = :user AND name = :name")
_DROP: Final = text("DELETE FROM user_setting WHERE user_id = :user AND name = :name")
_PUT: Final = text(
    "INSERT INTO user_setting (user_id, name, value, secret, updated_ms) VALUES (:user, :name, :value, :secret, :at)"
    " ON CONFLICT (user_id, name) DO UPDATE SET value = excluded.value, updated_ms = excluded.updated_ms"
)


def setting(connection: Connection, user: str, name: str) -> str | None:
    """The JSON that is stored for the user under ``name``, inside a transaction; None without one."""
    act_for(connection, user, None, None)
    found: str | None = connection.execute(_GET, {"user": user, "name": name}).scalar_one_or_none()
    return found


def put_setting(connection: Connection, user: str, name: str, value: str | None, at_ms: int) -> None:
    """Store the JSON for the user, or remove it, inside a transaction that may write.

    Args:
        value: the JSON; None removes it.
        at_ms: UTC milliseconds.
    """
    act_for(connection, user, None, None)
    if value is None:
        connection.execute(_DROP, {"user": user, "name": name})
        return
    row = {"user": user, "name": name, "value": value, "secret": False, "at": at_ms}
    connection.execute(_PUT, row)
