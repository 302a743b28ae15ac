"""Finding words in what left the window: the same question gives the same answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from zeus_runtime.plugin import dataclass

if TYPE_CHECKING:
    from zeus_plugins.middlewares.recall.absent import Absent


@dataclass(frozen=True)
class Find:
    """A message that has some of the words.

    Args:
        item: the message.
        words: how many different ones it has.
        exact: whether it has them side by side, as they were asked for.
        place: where in its text the excerpt should be.
    """

    item: Absent
    words: int
    exact: bool
    place: int


def search(items: Iterable[Absent], query: str) -> Sequence[Find]:
    """The messages that have at least half of the words of ``query``, whatever their case.

    Those with the whole phrase come first, then by how many of the words they have, then newest first.

    An empty query finds every message, oldest first. Words are found inside others too, so Chinese needs no spaces.
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
    """About ``chars`` characters of ``text`` around ``place``, on one line."""
    start = max(0, min(place - chars // 4, len(text) - chars))
    end = start + chars
    cut = " ".join(text[start:end].split())
    return f"{'... ' if start > 0 else ''}{cut}{' ...' if end < len(text) else ''}"
