"""What a text itself says to stand beside what is kept: one more of its kind, what was before, what is planned."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import pairwise
from typing import Final

from zeus_runtime.memory.admission.statement import Statement
from zeus_runtime.memory.admission.word_forms import stem
from zeus_runtime.memory.admission.wording import IRREGULAR


def beside(ours: Statement, theirs: Statement, *, news: bool) -> str | None:
    """Why ``theirs`` still holds by the words of ``ours``; None where they do not say so.

    Args:
        news: whether ``ours`` tells a change.
    """
    if _PLANS.search(ours.text) and not _PLANS.search(theirs.text):
        return "planned"
    if _FORMERLY.search(theirs.text) and not _FORMERLY.search(ours.text):
        return "past"
    if news:
        return None
    if _ADDS.search(ours.text) or (_OTHER.search(ours.text) and not _OTHER.search(theirs.text)):
        return "beside each other"
    if _was(ours, theirs) or (_FORMERLY.search(ours.text) and not _FORMERLY.search(theirs.text)):
        return "past"
    return None


_PLANS: Final = re.compile(
    r"\b(?:would like to|hop(?:es?|ing) to|plan(?:s|ning)? to|considers?|considering|thinks? (?:about|of)"
    r"|thinking (?:about|of)|might|could|perhaps|maybe)\b|打算|考虑|计划(?=[去搬换改在用买学])|可能",
    re.IGNORECASE,
)
_FORMERLY: Final = re.compile(
    r"\b(?:originally|initially|formerly|previously|at first|in the past)\b|最初|当初|起初|原先",
    re.IGNORECASE,
)
_ADDS: Final = re.compile(
    r"\balso\b(?!,)|\badditionally\b(?!,)|\bas well(?: as\b|(?=\s*[.,;!]|\s*$))|\btoo(?=\s*[.;!]|\s*$)"
    r"|(?<!再)也|还(?=[会能用在对有要喜爱去])|另外还",
    re.IGNORECASE,
)
_OTHER: Final = re.compile(
    r"\b(?:an)?other\b(?! than)|\b(?:additional|extra)\b|另(?:一|外)|其他|其它", re.IGNORECASE
)


def _was(ours: Statement, theirs: Statement) -> bool:
    """Whether ``ours`` says in the past tense what ``theirs`` says in the present, with the same verb."""
    if theirs.past or not _STATES_PAST.isdisjoint(theirs.raw):
        return False
    if ours.past:
        forms = {stem(word) for word in theirs.raw}
        return any(
            (word.endswith("ed") or word in IRREGULAR) and word not in theirs.raw and stem(word) in forms
            for word in ours.raw
        )
    now = _followers(theirs, _STATES_PRESENT)
    return any(not _participle(after) or after in now for after in _followers(ours, _STATES_PAST)) and bool(
        now
    )


def _followers(where: Statement, verbs: Collection[str]) -> set[str]:
    """The words right after any of some others."""
    return {after for word, after in pairwise(where.raw) if word in verbs}


_STATES_PAST: Final = frozenset(("was", "were"))
_STATES_PRESENT: Final = frozenset(("is", "are"))


def _participle(word: str) -> bool:
    """Whether "was" with this word tells what was done and not what was so: "was set to 5"."""
    return word.endswith("ed") or word.removeprefix("re") in IRREGULAR or word in _UNCHANGED


_UNCHANGED: Final = frozenset(("set", "cut", "put", "split", "hit", "shut"))
