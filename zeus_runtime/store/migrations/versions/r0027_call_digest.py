"""The digest of a call, whatever its tool's setting, and the arguments of a call that began without an approval."""

from __future__ import annotations

import hashlib
import json

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"

_KEPT = sa.text(
    "SELECT thread, id, place, request FROM pending_approval"
    " WHERE verdict = 'reject' OR (verdict = 'approve' AND decision NOT LIKE '%\"arguments\": null%')"
)
_NOTED = sa.text("UPDATE pending_approval SET call_digest = :digest WHERE thread = :thread AND id = :id")


def upgrade() -> None:
    """Former rejections and changed arguments hold whatever the setting.

    They do not if a secret was masked in the call, or if the tool makes other arguments of it since: what the model
    wrote is not stored.
    """
    for name in ("call_digest", "begun_with"):
        op.add_column("pending_approval", sa.Column(name, sa.Text, nullable=True))
    op.execute(
        "CREATE INDEX ix_approval_rejected ON pending_approval (thread, run_id) WHERE verdict = 'reject'"
    )
    connection = op.get_bind()
    for thread, name, place, request in connection.execute(_KEPT).all():
        connection.execute(_NOTED, {"thread": thread, "id": name, "digest": _digest(place, request)})


def _digest(place: str, request: str) -> str:
    """The digest of a call, without the setting."""
    told = json.loads(request)
    form = [told.get("schema")] if "." in place else []
    text = json.dumps([told["tool"], told["arguments"], *form], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
