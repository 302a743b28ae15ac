"""Texts that claim a place beside stored ones: one more of a kind, an earlier state, a plan."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
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
    plans, adds, other = _says(ours.text)
    if plans and not _says(theirs.text)[0]:
        return "planned"
    formerly = _formerly(ours)
    if not formerly and _formerly(theirs):
        return "past"
    if news:
        return None
    if adds or (other and not _OTHER.search(theirs.text)):
        return "beside each other"
    if _was(ours, theirs) or (formerly and not _formerly(theirs)):
        return "past"
    return None


@lru_cache(64)
def _says(text: str) -> tuple[bool, bool, bool]:
    """Whether a text plans something, adds it to others, or speaks of another one."""
    return _PLANS.search(text) is not None, _ADDS.search(text) is not None, _OTHER.search(text) is not None


def _formerly(where: Statement) -> bool:
    """Whether the statement is of what was before."""
    if where.chinese:
        return _FORMERLY_ZH.search(where.text) is not None
    return not _FORMERLY.isdisjoint(where.raw)


_PLANS: Final = re.compile(
    r"\b(?:would like to|hop(?:es?|ing) to|plan(?:s|ning)? to|considers?|considering|thinks? (?:about|of)"
    r"|thinking (?:about|of)|might|could|perhaps|maybe)\b|打算|考虑|计划(?=[去搬换改在用买学])|可能",
    re.IGNORECASE,
)
_FORMERLY: Final = frozenset(("originally", "initially", "formerly", "previously"))
_FORMERLY_ZH: Final = re.compile("最初|当初|起初|原先")
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
    was = _followers(ours, _STATES_PAST)
    return bool(now) and any(not _participle(after) or after in now for after in was)


def _followers(where: Statement, verbs: Collection[str]) -> set[str]:
    """The words right after any of some others."""
    return {after for word, after in pairwise(where.raw) if word in verbs}


_STATES_PAST: Final = frozenset(("was", "were"))
_STATES_PRESENT: Final = frozenset(("is", "are"))


def _participle(word: str) -> bool:
    """Whether "was" with this word tells what was done and not what was so: "was set to 5"."""
    return word.endswith("ed") or word.removeprefix("re") in IRREGULAR or word in _UNCHANGED


_UNCHANGED: Final = frozenset(("set", "cut", "put", "split", "hit", "shut"))
