"""The tables, for SQLite and PostgreSQL alike. Times are UTC, in milliseconds since 1970."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    DDL,
    BigInteger,
    Column,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    event,
    literal_column,
)

from zeus_runtime.store.compressed_columns import Packed

_METADATA: Final = MetaData()


def _thread(*, index: bool | None = None) -> Column[int]:
    """The session that a row belongs to, and with which it is deleted: part of the primary key."""
    key = ForeignKey("thread.key", ondelete="CASCADE")
    return Column("thread", Integer, key, primary_key=True, autoincrement=False, index=index)


def _counted(name: str) -> Column[int]:
    return Column(name, Integer, primary_key=True, autoincrement=False)


def _named(*names: str) -> list[Column[str]]:
    return [Column(name, Text, primary_key=True) for name in names]


def _texts(*names: str, nullable: bool = False) -> list[Column[str]]:
    return [Column(name, Text, nullable=nullable) for name in names]


def _wholes(*names: str) -> list[Column[int]]:
    return [Column(name, Integer, nullable=False) for name in names]


def _longs(*names: str, nullable: bool = False) -> list[Column[int]]:
    return [Column(name, BigInteger, nullable=nullable) for name in names]


THREAD: Final = Table(
    "thread",
    _METADATA,
    Column("key", Integer, primary_key=True),
    Column("session", String(64), unique=True, nullable=False),
    Column("agent", String, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("updated_ms", BigInteger, nullable=False, index=True),
    Column("title", String, nullable=False, default=""),
    Column("epoch", Integer, nullable=False, server_default="0"),
    Column("owner", Text, index=True),
    Column("owner_project", Text),
)
"""A session: one thread of messages. ``epoch`` is raised by each claim of a process that runs it.

``owner`` and ``owner_project`` are the user of a service who began it; null for a session that was begun elsewhere.
"""

MESSAGE: Final = Table(
    "message", _METADATA, _thread(), _counted("seq"), *_texts("id"), *_longs("created_ms"), *_texts("payload")
)
"""One message, written once and never changed. ``seq`` counts from 1 within its session."""

EDIT: Final = Table(
    "context_edit", _METADATA, _thread(), _counted("number"), *_wholes("at_seq"), *_texts("payload")
)
"""One edit of the view, in the order of admission; ``at_seq`` is the last message before the edit."""

STEP: Final = Table(
    "context_step",
    _METADATA,
    _thread(),
    _counted("number"),
    *_wholes("seq"),
    *_longs("created_ms"),
    Column("payload", Packed, nullable=False),
)
"""The ledger's entry of one model call; ``number`` counts from 1 within its session."""

TEXT: Final = Table("context_text", _METADATA, _thread(), *_named("digest"), *_texts("text"))
"""A section's text or a tool's schema that the ledger refers to by its digest; stored once per session."""

ROLLBACK: Final = Table(
    "thread_rollback",
    _METADATA,
    _thread(),
    _counted("number"),
    *_wholes("kept_seq", "last_seq", "edits", "steps"),
    *_longs("created_ms"),
)
"""A return to an earlier message: later messages stay stored, and are no longer part of the conversation."""

SNAPSHOT: Final = Table(
    "session_state_snapshot",
    _METADATA,
    _thread(),
    _counted("number"),
    *_wholes("at_seq", "edits"),
    *_texts("run_id", "reason"),
    *_longs("created_ms"),
)
"""The state of a session when a turn began or ended: cursors into the log, not messages."""

ARCHIVE: Final = Table(
    "checkpoint_archive",
    _METADATA,
    _thread(),
    *_longs("archived_ms"),
    *_wholes("messages", "edits", "steps", "texts"),
    *_texts("digest"),
    Column("rows", LargeBinary, nullable=False),
)
"""An archived session: its packed rows, which are nowhere else until it is restored."""

UPKEEP: Final = Table("upkeep", _METADATA, *_named("name"), *_longs("taken_ms"))
"""When a regular task was last taken on; ``name`` says which task, and for which agent."""

IDENTITY: Final = Table("database_identity", _METADATA, _counted("key"), *_texts("name"))
"""The one name of this database, for programs outside it that several databases share."""

PARENT: Final = Table(
    "thread_parent",
    _METADATA,
    _thread(),
    # Indexed for the children of a session, and for the cascade, which looks for them at each deletion.
    Column("parent", Integer, ForeignKey("thread.key", ondelete="CASCADE"), nullable=False, index=True),
    *_texts("run_id"),
    *_wholes("place"),
    *_texts("agent"),
    *_longs("created_ms"),
)
"""The call and the run that a sub-agent's session works for; ``place`` is the place of that call's result."""

APPROVAL: Final = Table(
    "pending_approval",
    _METADATA,
    _thread(),
    *_named("id"),
    *_texts("run_id", "place", "digest"),
    *_longs("created_ms"),
    *_longs("expires_ms", nullable=True),
    *_texts("request"),
    *_texts("verdict", nullable=True),
    *_longs("decided_ms", nullable=True),
    *_texts("decision", "shown", nullable=True),
    *_longs("begun_epoch", nullable=True),
    *_texts("begun_with", nullable=True),
)
"""An approval request, stored before the user sees it; ``verdict`` is null until it is decided.

``request`` and ``decision`` are JSON. ``digest`` binds an approval to the tool, its setting and the arguments that were
shown, and ``shown`` binds it to the change that was shown; it is null in rows from before revision 0012.
``begun_epoch`` is the session's epoch in which the approved call began to run, and null if it did not. It is negative
if the approval still holds when the call is interrupted: the call stopped to ask something, or it starts a sub-agent.
``begun_with`` has the arguments, as JSON, if the call began although it needed no approval any more.
"""

NOTE: Final = Table(
    "run_note", _METADATA, _thread(), *_named("run_id", "name"), *_longs("created_ms"), *_texts("value")
)
"""A value that a run stores to find it again when it is resumed; ``value`` is JSON."""

EVENT: Final = Table(
    "run_event",
    _METADATA,
    _thread(),
    _counted("seq"),
    *_texts("session", "run_id"),
    *_wholes("kind", "with_message"),
    *_longs("created_ms"),
    *_texts("payload"),
)
"""An event of a session's runs; ``seq`` counts from 1 within its session. ``payload`` is JSON.

``session`` is the one that it comes from, which may be a sub-agent's; ``run_id`` is the run of the session's own agent.
``with_message`` is 1 if it was stored in the transaction of a message of that session; ``kind`` is 1 for a piece of an
unfinished answer, 2 for a terminal event, else 0.
"""

TURN: Final = Table(
    "turn",
    _METADATA,
    _thread(),
    # The primary key begins with the session, and `find_turn` knows only the run.
    Column("run_id", Text, primary_key=True, index=True),
    Column("number", Integer, nullable=False),
    *_texts("state", "request"),
    Column("idempotency_key", Text),
    *_longs("created_ms"),
    *_longs("started_ms", "ended_ms", nullable=True),
    *_texts("ending", nullable=True),
    Column("mark", Text, index=True),
    sqlite_with_rowid=False,
)
"""A turn that a service was asked for; ``number`` gives the order within its session.

``state`` is ``queued``, ``running``, ``waiting`` (for a decision), ``complete``, ``failed`` or ``cancelled``;
``request`` (the prompt and its attachments) and ``ending`` (the terminal event) are JSON. ``mark`` is a protocol's name
for the conversation up to the turn's end.
"""
OPEN_STATES: Final = ("queued", "running", "waiting")
"""Those of a turn that is not over."""
# Literals: SQLAlchemy expands the parameters of an IN at each execution, and `Prepared` compiles once.
IS_OPEN: Final = TURN.c.state.in_([literal_column(f"'{each}'") for each in OPEN_STATES])
"""Whether a turn is not over."""
IS_REJECTED: Final = APPROVAL.c.verdict == literal_column("'reject'")
# Written out, because an `Index` with `postgresql_where` imports SQLAlchemy's PostgreSQL in each process.
_WAITING_INDEX: Final = "CREATE INDEX ix_turn_waiting ON turn (thread) WHERE state = 'waiting'"
event.listen(TURN, "after_create", DDL(_WAITING_INDEX))  # type: ignore[no-untyped-call]
_REJECTED_INDEX: Final = (
    "CREATE INDEX ix_approval_rejected ON pending_approval (thread, run_id) WHERE verdict = 'reject'"
)
event.listen(APPROVAL, "after_create", DDL(_REJECTED_INDEX))  # type: ignore[no-untyped-call]


BACKTEST: Final = Table(
    "backtest",
    _METADATA,
    *_named("id"),
    Column("idempotency_key", Text, unique=True),
    Column("owner", Text, index=True),
    Column("owner_project", Text),
    *_longs("created_ms"),
    *_texts("state", "problem"),
    sqlite_with_rowid=False,
)
"""A backtest that a service was asked for. ``owner`` and ``owner_project`` are the user, as in ``thread``.

``state`` is ``running``, ``complete``, ``failed``, ``cancelled`` or ``lost``.
"""

REPLAY: Final = Table(
    "backtest_replay",
    _METADATA,
    Column("backtest", Text, ForeignKey("backtest.id", ondelete="CASCADE"), primary_key=True),
    _counted("number"),
    # The primary key begins with the backtest; a session's end deletes by session.
    _thread(index=True),
    *_texts("policy"),
    Column("outcome", Packed),
    sqlite_with_rowid=False,
)
"""One session of a backtest under one policy; ``number`` gives the order. ``outcome`` is null until it is replayed."""

ALLOWED: Final = Table("allowlist", _METADATA, *_named("user", "tool", "setting"), *_longs("created_ms"))
"""A tool that a user does not want to be asked about again.

``setting`` is ``tools.approval.setting_digest`` of the tool that the user saw; empty for every tool of that name, which
the user named without seeing a call.
"""

HANDLE: Final = Table("original_handle", _METADATA, *_named("handle"), _thread(index=True))
"""A file that a session names, archived or not: an original of an edit, or an attachment of a message."""

SERVICE_KEY: Final = Table(
    "service_key",
    _METADATA,
    *_named("id"),
    *_texts("name", "digest"),
    *_texts("user_id", "project_id", "role", nullable=True),
    *_texts("scopes"),
    *_texts("agents", nullable=True),
    *_longs("created_ms"),
    *_longs("expires_ms", "revoked_ms", "last_used_ms", nullable=True),
    *_texts("rotated_from", nullable=True),
)
"""A key of a service. ``digest`` is of its secret part, which is stored nowhere; ``id`` is the part that finds it.

``user_id`` is null for a key of all users; ``scopes`` and ``agents`` (null: all) are JSON.
"""

AUDIT: Final = Table(
    "audit_entry",
    _METADATA,
    # SQLite numbers rows by itself only in a column of the type INTEGER.
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    *_longs("at_ms"),
    Column("user_id", Text, index=True),
    *_texts("caller", "action"),
    *_texts("agent", "session", "subject", "decision", nullable=True),
    *_wholes("status"),
    *_texts("outcome"),
)
"""Who did what with a service. The database refuses to change or delete a row (``service_audit.append_only``)."""

TABLES: Final = (
    THREAD,
    MESSAGE,
    EDIT,
    STEP,
    TEXT,
    ROLLBACK,
    SNAPSHOT,
    ARCHIVE,
    UPKEEP,
    IDENTITY,
    PARENT,
    APPROVAL,
    NOTE,
    EVENT,
    TURN,
    BACKTEST,
    REPLAY,
    ALLOWED,
    HANDLE,
    SERVICE_KEY,
    AUDIT,
)
"""Every table of the schema, each after those it refers to. A new table needs a revision in ``migrations``."""
