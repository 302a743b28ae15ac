"""The tables, for SQLite and PostgreSQL alike. Times are UTC, in milliseconds since 1970."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, LargeBinary, Table, Text
from sqlmodel import Field, SQLModel

from zeus_runtime.store.compressed_columns import Packed


class ThreadRow(SQLModel, table=True):
    """A session: one thread of messages. ``epoch`` is raised by each claim of a process that runs it."""

    __tablename__ = "thread"

    key: int | None = Field(default=None, primary_key=True)
    session: str = Field(unique=True, max_length=64)
    agent: str
    created_ms: int = Field(sa_column=Column(BigInteger, nullable=False))
    updated_ms: int = Field(sa_column=Column(BigInteger, nullable=False, index=True))
    title: str = ""
    epoch: int = Field(default=0, sa_column=Column(Integer, nullable=False, server_default="0"))


class MessageRow(SQLModel, table=True):
    """One message, written once and never changed. ``seq`` counts from 1 within its session."""

    __tablename__ = "message"

    thread: int = Field(
        sa_column=Column(
            Integer, ForeignKey("thread.key", ondelete="CASCADE"), primary_key=True, autoincrement=False
        )
    )
    seq: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    id: str = Field(sa_column=Column(Text, nullable=False))
    created_ms: int = Field(sa_column=Column(BigInteger, nullable=False))
    payload: str = Field(sa_column=Column(Text, nullable=False))


class EditRow(SQLModel, table=True):
    """One edit of the view, in the order of admission; ``at_seq`` is the last message before the edit."""

    __tablename__ = "context_edit"

    thread: int = Field(
        sa_column=Column(
            Integer, ForeignKey("thread.key", ondelete="CASCADE"), primary_key=True, autoincrement=False
        )
    )
    number: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    at_seq: int = Field(sa_column=Column(Integer, nullable=False))
    payload: str = Field(sa_column=Column(Text, nullable=False))


class StepRow(SQLModel, table=True):
    """The ledger's entry of one model call; ``number`` counts from 1 within its session."""

    __tablename__ = "context_step"

    thread: int = Field(
        sa_column=Column(
            Integer, ForeignKey("thread.key", ondelete="CASCADE"), primary_key=True, autoincrement=False
        )
    )
    number: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    seq: int = Field(sa_column=Column(Integer, nullable=False))
    created_ms: int = Field(sa_column=Column(BigInteger, nullable=False))
    payload: str = Field(sa_column=Column(Packed, nullable=False))


class TextRow(SQLModel, table=True):
    """A section's text or a tool's schema that the ledger refers to by its digest; stored once per session."""

    __tablename__ = "context_text"

    thread: int = Field(
        sa_column=Column(
            Integer, ForeignKey("thread.key", ondelete="CASCADE"), primary_key=True, autoincrement=False
        )
    )
    digest: str = Field(sa_column=Column(Text, primary_key=True))
    text: str = Field(sa_column=Column(Text, nullable=False))


class RollbackRow(SQLModel, table=True):
    """A return to an earlier message: later messages stay stored, and are no longer part of the conversation."""

    __tablename__ = "thread_rollback"

    thread: int = Field(
        sa_column=Column(
            Integer, ForeignKey("thread.key", ondelete="CASCADE"), primary_key=True, autoincrement=False
        )
    )
    number: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    kept_seq: int = Field(sa_column=Column(Integer, nullable=False))
    last_seq: int = Field(sa_column=Column(Integer, nullable=False))
    edits: int = Field(sa_column=Column(Integer, nullable=False))
    steps: int = Field(sa_column=Column(Integer, nullable=False))
    created_ms: int = Field(sa_column=Column(BigInteger, nullable=False))


class SnapshotRow(SQLModel, table=True):
    """The state of a session when a turn began or ended: cursors into the log, not messages."""

    __tablename__ = "session_state_snapshot"

    thread: int = Field(
        sa_column=Column(
            Integer, ForeignKey("thread.key", ondelete="CASCADE"), primary_key=True, autoincrement=False
        )
    )
    number: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    at_seq: int = Field(sa_column=Column(Integer, nullable=False))
    edits: int = Field(sa_column=Column(Integer, nullable=False))
    run_id: str = Field(sa_column=Column(Text, nullable=False))
    reason: str = Field(sa_column=Column(Text, nullable=False))
    created_ms: int = Field(sa_column=Column(BigInteger, nullable=False))


class ArchiveRow(SQLModel, table=True):
    """An archived session: its packed rows, which are nowhere else until it is restored."""

    __tablename__ = "checkpoint_archive"

    thread: int = Field(
        sa_column=Column(
            Integer, ForeignKey("thread.key", ondelete="CASCADE"), primary_key=True, autoincrement=False
        )
    )
    archived_ms: int = Field(sa_column=Column(BigInteger, nullable=False))
    messages: int = Field(sa_column=Column(Integer, nullable=False))
    edits: int = Field(sa_column=Column(Integer, nullable=False))
    steps: int = Field(sa_column=Column(Integer, nullable=False))
    texts: int = Field(sa_column=Column(Integer, nullable=False))
    digest: str = Field(sa_column=Column(Text, nullable=False))
    rows: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class UpkeepRow(SQLModel, table=True):
    """When a regular task was last taken on; ``name`` says which task, and for which agent."""

    __tablename__ = "upkeep"

    name: str = Field(sa_column=Column(Text, primary_key=True))
    taken_ms: int = Field(sa_column=Column(BigInteger, nullable=False))


class IdentityRow(SQLModel, table=True):
    """The one name of this database, for programs outside it that several databases share."""

    __tablename__ = "database_identity"

    key: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    name: str = Field(sa_column=Column(Text, nullable=False))


class ParentRow(SQLModel, table=True):
    """The call and the run that a sub-agent's session works for; ``place`` is the place of that call's result."""

    __tablename__ = "thread_parent"

    thread: int = Field(
        sa_column=Column(
            Integer, ForeignKey("thread.key", ondelete="CASCADE"), primary_key=True, autoincrement=False
        )
    )
    parent: int = Field(
        sa_column=Column(Integer, ForeignKey("thread.key", ondelete="CASCADE"), nullable=False, index=True)
    )
    run_id: str = Field(sa_column=Column(Text, nullable=False))
    place: int = Field(sa_column=Column(Integer, nullable=False))
    agent: str = Field(sa_column=Column(Text, nullable=False))
    created_ms: int = Field(sa_column=Column(BigInteger, nullable=False))


class ApprovalRow(SQLModel, table=True):
    """An approval request, stored before the user sees it; ``verdict`` is null until it is decided.

    ``request`` and ``decision`` are JSON. ``digest`` binds the decision to the tool and the arguments that were shown,
    and ``shown`` binds it to the change that was shown; it is null in rows from before revision 0012.
    """

    __tablename__ = "pending_approval"

    thread: int = Field(
        sa_column=Column(
            Integer, ForeignKey("thread.key", ondelete="CASCADE"), primary_key=True, autoincrement=False
        )
    )
    id: str = Field(sa_column=Column(Text, primary_key=True))
    run_id: str = Field(sa_column=Column(Text, nullable=False))
    place: str = Field(sa_column=Column(Text, nullable=False))
    digest: str = Field(sa_column=Column(Text, nullable=False))
    created_ms: int = Field(sa_column=Column(BigInteger, nullable=False))
    expires_ms: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    request: str = Field(sa_column=Column(Text, nullable=False))
    verdict: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    decided_ms: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    decision: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    shown: str | None = Field(default=None, sa_column=Column(Text, nullable=True))


class NoteRow(SQLModel, table=True):
    """A value that a run stores to find it again when it is resumed; ``value`` is JSON."""

    __tablename__ = "run_note"

    thread: int = Field(
        sa_column=Column(
            Integer, ForeignKey("thread.key", ondelete="CASCADE"), primary_key=True, autoincrement=False
        )
    )
    run_id: str = Field(sa_column=Column(Text, primary_key=True))
    name: str = Field(sa_column=Column(Text, primary_key=True))
    created_ms: int = Field(sa_column=Column(BigInteger, nullable=False))
    value: str = Field(sa_column=Column(Text, nullable=False))


class AllowedRow(SQLModel, table=True):
    """A tool that a user does not want to be asked about again."""

    __tablename__ = "allowlist"

    user: str = Field(sa_column=Column("user", Text, primary_key=True))
    tool: str = Field(sa_column=Column(Text, primary_key=True))
    created_ms: int = Field(sa_column=Column(BigInteger, nullable=False))


class HandleRow(SQLModel, table=True):
    """A file that a session names, archived or not: an original of an edit, or an attachment of a message."""

    __tablename__ = "original_handle"

    handle: str = Field(sa_column=Column(Text, primary_key=True))
    thread: int = Field(
        sa_column=Column(
            Integer,
            ForeignKey("thread.key", ondelete="CASCADE"),
            primary_key=True,
            autoincrement=False,
            index=True,
        )
    )


TABLES: Final[tuple[Table, ...]] = tuple(
    SQLModel.metadata.tables[str(row.__tablename__)]
    for row in (
        ThreadRow,
        MessageRow,
        EditRow,
        StepRow,
        TextRow,
        RollbackRow,
        SnapshotRow,
        ArchiveRow,
        UpkeepRow,
        IdentityRow,
        ParentRow,
        ApprovalRow,
        NoteRow,
        AllowedRow,
        HandleRow,
    )
)
"""Every table of the schema, each after those it refers to. A new table needs a revision in ``migrations``."""
