"""What the model sees: a view folded from the append-only history and the edits that the planner admitted."""

from zeus_runtime.context.archive import Archive, Archived, ArchiveError, read_archive
from zeus_runtime.context.edits import (
    DropBefore,
    Edit,
    Evict,
    Pin,
    Summarize,
    TruncateArguments,
    edit_from_json,
    edit_kind,
    edit_to_json,
)
from zeus_runtime.context.planner import Budget, Refusal, review
from zeus_runtime.context.size import Size, check_sizes
from zeus_runtime.context.view import Item, View, fold

__all__ = [
    "Archive",
    "ArchiveError",
    "Archived",
    "Budget",
    "DropBefore",
    "Edit",
    "Evict",
    "Item",
    "Pin",
    "Refusal",
    "Size",
    "Summarize",
    "TruncateArguments",
    "View",
    "check_sizes",
    "edit_from_json",
    "edit_kind",
    "edit_to_json",
    "fold",
    "read_archive",
    "review",
]
