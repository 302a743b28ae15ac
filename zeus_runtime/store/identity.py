"""The name of a database, for programs outside it that several databases share, such as a server of vectors."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from sqlalchemy import select, text

from zeus_runtime.store.tables import IDENTITY

if TYPE_CHECKING:
    from sqlalchemy import Connection

_NAME: Final = select(IDENTITY.c.name)
_NEW: Final = text("INSERT INTO database_identity (key, name) VALUES (1, :name) ON CONFLICT (key) DO NOTHING")


def database_identity(connection: Connection) -> str:
    """Sixteen hexadecimal digits, drawn when they are asked for first. A copy of the database has the same."""
    name = connection.execute(_NAME).scalar()
    if name is None:
        # Another process may draw one at the same time: the first INSERT wins, and both read that one.
        connection.execute(_NEW, {"name": secrets.token_hex(8)})
        name = connection.execute(_NAME).scalar_one()
    return str(name)
