"""Searches the messages that left the window; the same query gives the same answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from zeus_runtime.plugin import dataclass, unwrapped

if TYPE_CHECKING:
    from zeus_plugins.middlewares.recall.absent import Absent


@dataclass(frozen=True)
class Find:
    """A message that contains some of the words.

    Args:
        item: the message.
        words: how many different words it contains.
        exact: whether it contains the whole phrase.
        place: the place in its text for the excerpt.
    """

    item: Absent
    words: int
    exact: bool
    place: int


def search(items: Iterable[Absent], query: str) -> Sequence[Find]:
    """Return the messages that contain at least half of the words of ``query``, in upper or lower case.

    Messages with the whole phrase come first, then those with more of the words, then the newest.

    An empty query finds every message, oldest first. Words are also found inside others, so Chinese needs no spaces.
    """
    phrase = " ".join(query.casefold().split())
    words = list(dict.fromkeys(phrase.split()))
    if not words:
        return [Find(item, 0, False, 0) for item in items]
    finds = []
    for item in items:
        text = item.text.casefold()
        places = [place for word in words if (place := text.find(word)) >= 0]
        if 2 * len(places) >= len(words):
            exact = text.find(phrase)
            finds.append(Find(item, len(places), exact >= 0, exact if exact >= 0 else min(places)))
    return sorted(finds, key=lambda find: (not find.exact, -find.words, -find.item.seq))


def excerpt(text: str, place: int, chars: int) -> str:
    """Return about ``chars`` characters of ``text`` around ``place``, on one line."""
    start = max(0, min(place - chars // 4, len(text) - chars))
    end = start + chars
    cut = unwrapped(text[start:end])
    return f"{'... ' if start > 0 else ''}{cut}{' ...' if end < len(text) else ''}"
