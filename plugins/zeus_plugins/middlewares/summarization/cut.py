"""Decides where a view is cut: between tool groups, keeping as much as requested and as fits. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def cut(
    kinds: Sequence[str],
    tokens: Sequence[int],
    *,
    keep_messages: int | None,
    keep_tokens: int | None,
    room_tokens: int,
) -> int | None:
    """Return the place of the first message that stays, or None if there is nothing to cut.

    An answer and the results of its calls stay or leave together; the last group always stays.

    Args:
        kinds: each message's type, ``tool`` for a result.
        tokens: each message's size.
        keep_messages: the minimum number of messages that stay, counted from the end.
        keep_tokens: the maximum tokens that stay, counted from the end.
        room_tokens: a maximum for the tokens that stay, whatever the other arguments say.
    """
    # Where a cut may be: not at 0, which removes nothing, and not before a result, whose call would leave.
    places = [place for place, kind in enumerate(kinds) if place > 0 and kind != "tool"]
    if not places:
        return None
    tail = _tails(tokens)
    if keep_messages is not None:
        wanted = len(kinds) - keep_messages
        fitting = [place for place in places if place <= wanted]
        start = fitting[-1] if fitting else None
    else:
        limit = keep_tokens if keep_tokens is not None else room_tokens
        start = next((place for place in places if tail[place] <= limit), places[-1])
    roomy = next((place for place in places if tail[place] <= room_tokens), places[-1])
    if start is None:
        return roomy if tail[0] > room_tokens else None
    # The later cut: the limit of the window counts more than the size to keep.
    return max(start, roomy)


def _tails(tokens: Sequence[int]) -> list[int]:
    """Return for each place the tokens from there to the end."""
    sums = [0] * (len(tokens) + 1)
    for place in range(len(tokens) - 1, -1, -1):
        sums[place] = sums[place + 1] + tokens[place]
    return sums
