"""Find the newest part of a view, which a policy leaves unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeus_runtime.context.size import Size
    from zeus_runtime.context.view import View


def kept_from(view: View, keep: Size, limit_tokens: int) -> int:
    """The ``seq`` of the first message of the newest ``keep``; the cost grows with the part that is kept.

    Args:
        view: the messages that are sent.
        keep: messages, tokens, or a fraction of ``limit_tokens``; the message that would exceed it is not kept.
        limit_tokens: the model's input limit.

    Returns:
        1 if all is kept, ``view.upto + 1`` if not even the last message fits.
    """
    if keep.messages is not None:
        return view.item(len(view) - keep.messages).seq if keep.messages < len(view) else 1
    left = keep.in_tokens(limit_tokens) or 0
    first = view.upto + 1
    # From the end, so that it costs as much as is kept, not as the view has.
    for place in range(len(view) - 1, -1, -1):
        item = view.item(place)
        left -= item.tokens
        if left < 0:
            return first
        first = item.seq
    return 1
