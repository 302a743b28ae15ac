"""The new messages in a view: those since a place in the history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeus_runtime.context.items import Item
    from zeus_runtime.context.view import View


def arrivals(view: View, after: int) -> Sequence[Item]:
    """The messages of ``view`` with a ``seq`` above ``after``, oldest first; the cost grows only with the new ones.

    Args:
        view: the messages that are sent.
        after: the last ``seq`` that was processed; 0 at first.
    """
    return view.arrived(after)


def tool_groups(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Messages that belong together: an answer with the results of its calls; every other message alone."""
    group: list[Item] = []
    for item in items:
        if group and item.message.type != "tool":
            yield group
            group = []
        group.append(item)
    if group:
        yield group
