"""What the model sees: a view folded from the append-only history and the edits that the planner admitted."""

from zeus_runtime.context.edits import DropBefore, Edit, edit_from_json, edit_to_json
from zeus_runtime.context.planner import Budget, Refusal, review
from zeus_runtime.context.view import Item, View, fold

__all__ = [
    "Budget",
    "DropBefore",
    "Edit",
    "Item",
    "Refusal",
    "View",
    "edit_from_json",
    "edit_to_json",
    "fold",
    "review",
]
