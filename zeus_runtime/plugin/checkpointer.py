"""Checkpointers: transactions, fencing and errors for a saver that shares the core's database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.store.database import make_private as make_private
    from zeus_runtime.store.database import sqlite_file as sqlite_file
    from zeus_runtime.store.database_url import without_password as without_password
    from zeus_runtime.store.group_commit import writer_beside as writer_beside
    from zeus_runtime.store.postgres import connection_arguments as connection_arguments
    from zeus_runtime.store.postgres import connection_may_be_gone as connection_may_be_gone
    from zeus_runtime.store.postgres import explained_postgres_error as explained_postgres_error
    from zeus_runtime.store.row_security import secure_rows as secure_rows
    from zeus_runtime.store.session_lock import claim as claim
    from zeus_runtime.store.session_lock import claim_lost as claim_lost
    from zeus_runtime.store.session_lock import epoch_of as epoch_of
    from zeus_runtime.store.sqlite_errors import explained_sqlite_error as explained_sqlite_error
    from zeus_runtime.store.transactions import Transactions as Transactions
    from zeus_runtime.store.transactions import retry_while_locked as retry_while_locked
    from zeus_runtime.store.write_ahead_log import shorten_log as shorten_log

_ROOMS = {
    "Transactions": "store.transactions",
    "claim": "store.session_lock",
    "claim_lost": "store.session_lock",
    "connection_arguments": "store.postgres",
    "connection_may_be_gone": "store.postgres",
    "epoch_of": "store.session_lock",
    "explained_postgres_error": "store.postgres",
    "explained_sqlite_error": "store.sqlite_errors",
    "make_private": "store.database",
    "retry_while_locked": "store.transactions",
    "secure_rows": "store.row_security",
    "shorten_log": "store.write_ahead_log",
    "sqlite_file": "store.database",
    "without_password": "store.database_url",
    "writer_beside": "store.group_commit",
}

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS, root="zeus_runtime")
