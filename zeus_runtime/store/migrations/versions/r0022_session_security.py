"""Row-level security of sessions (PostgreSQL); old rows of a service's audit log may be removed."""

from __future__ import annotations

from alembic import op

from zeus_runtime.store.row_security import secure_sessions
from zeus_runtime.store.service_audit import append_only

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    secure_sessions(op.get_bind())
    append_only(op.get_bind())
