"""The words of a text as a knowledge base has them.

Their numbers are stored with the chunks, so another analysis, such as memory's, would need every document read again.
"""

from __future__ import annotations

import re
from typing import Final

from zeus_runtime.memory.normalise import normalise
from zeus_runtime.memory.retrieval.analysis import CJK

_TOKEN = re.compile(rf"[{CJK}]|[^\W_{CJK}]+")
_STOP: Final = frozenset(
    "a an and are as at be by did do does for from had has have he her his how i in is it its me my of on or our "
    "she that the their they this to was we were what when where which who why will with you your".split()
) | frozenset("的了是我你他她它们在有和与就也都很吗呢吧啊把被这那个着得地之")


def search_tokens(text: str) -> list[str]:
    """The words of ``text`` without plural s and stop words, each CJK character alone."""
    return [_singular(word) for word in plain_words(text) if word not in _STOP]


def plain_words(text: str) -> list[str]:
    """The words of ``text``, folded: what ``search_tokens`` makes tokens of, one word at a time (``indexed``)."""
    return _TOKEN.findall(normalise(text).casefold())


def indexed(word: str) -> str | None:
    """The token of one of ``plain_words``; None for a stop word."""
    return None if word in _STOP else _singular(word)


def _singular(token: str) -> str:
    if len(token) < 4 or not token.isascii() or not token.endswith("s") or token.endswith(("ss", "us", "is")):
        return token
    return token[:-3] + "y" if token.endswith("ies") else token[:-1]
