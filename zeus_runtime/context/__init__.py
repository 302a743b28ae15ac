"""The model's context: a view folded from the append-only history and the edits that the planner admitted.

Each name is loaded at first use, since a plan needs only a few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.context.archive import Archive as Archive
    from zeus_runtime.context.archive import Archived as Archived
    from zeus_runtime.context.archive import ArchiveError as ArchiveError
    from zeus_runtime.context.archive import read_archive as read_archive
    from zeus_runtime.context.budget import Budget as Budget
    from zeus_runtime.context.edit_rules import Refusal as Refusal
    from zeus_runtime.context.edit_rules import review as review
    from zeus_runtime.context.edits import DropBefore as DropBefore
    from zeus_runtime.context.edits import Edit as Edit
    from zeus_runtime.context.edits import Evict as Evict
    from zeus_runtime.context.edits import Pin as Pin
    from zeus_runtime.context.edits import Summarize as Summarize
    from zeus_runtime.context.edits import TruncateArguments as TruncateArguments
    from zeus_runtime.context.edits import edit_from_json as edit_from_json
    from zeus_runtime.context.edits import edit_kind as edit_kind
    from zeus_runtime.context.edits import edit_to_json as edit_to_json
    from zeus_runtime.context.items import Item as Item
    from zeus_runtime.context.offers import CompactionOffer as CompactionOffer
    from zeus_runtime.context.size import Size as Size
    from zeus_runtime.context.size import check_sizes as check_sizes
    from zeus_runtime.context.view import View as View
    from zeus_runtime.context.view import fold as fold

_ROOMS = {
    "Archive": "archive",
    "ArchiveError": "archive",
    "Archived": "archive",
    "Budget": "budget",
    "DropBefore": "edits",
    "Edit": "edits",
    "Evict": "edits",
    "Item": "items",
    "CompactionOffer": "offers",
    "Pin": "edits",
    "Refusal": "edit_rules",
    "Size": "size",
    "Summarize": "edits",
    "TruncateArguments": "edits",
    "View": "view",
    "check_sizes": "size",
    "edit_from_json": "edits",
    "edit_kind": "edits",
    "edit_to_json": "edits",
    "fold": "view",
    "read_archive": "archive",
    "review": "edit_rules",
}

__all__ = sorted(_ROOMS)

__getattr__, __dir__ = lazy(__name__, _ROOMS)
