"""Context: the view of a conversation, the edits that a policy proposes, the budget, the archive of originals.

History is never rewritten: ``Evict``, ``DropBefore``, ``Summarize`` and the other edits change only the view. The
planner admits them, or gives its reason (``Refusal``). A compaction that costs a model call is a ``CompactionOffer``,
so that the planner can look for cheaper edits first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.context import Budget as Budget
    from zeus_runtime.context import DropBefore as DropBefore
    from zeus_runtime.context import Edit as Edit
    from zeus_runtime.context import Summarize as Summarize
    from zeus_runtime.context import View as View
    from zeus_runtime.context.archive import Archive as Archive
    from zeus_runtime.context.edit_rules import Refusal as Refusal
    from zeus_runtime.context.edits import Evict as Evict
    from zeus_runtime.context.edits import Pin as Pin
    from zeus_runtime.context.edits import TruncateArguments as TruncateArguments
    from zeus_runtime.context.items import Item as Item
    from zeus_runtime.context.new_messages import arrivals as arrivals
    from zeus_runtime.context.new_messages import tool_groups as tool_groups
    from zeus_runtime.context.newest_part import kept_from as kept_from
    from zeus_runtime.context.offers import CompactionOffer as CompactionOffer
    from zeus_runtime.context.size import Size as Size

_ROOMS = {
    "Archive": "context.archive",
    "Budget": "context",
    "DropBefore": "context",
    "Edit": "context",
    "Evict": "context.edits",
    "Item": "context.items",
    "CompactionOffer": "context.offers",
    "Pin": "context.edits",
    "Refusal": "context.edit_rules",
    "Size": "context.size",
    "Summarize": "context",
    "TruncateArguments": "context.edits",
    "View": "context",
    "arrivals": "context.new_messages",
    "kept_from": "context.newest_part",
    "tool_groups": "context.new_messages",
}

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS, root="zeus_runtime")
