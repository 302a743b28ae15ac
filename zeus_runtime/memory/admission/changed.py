"""Whether a new text says the same as an older one, says that its value changed, or says something else.

The rules look at form: the same sentence with one place filled otherwise, a denial more or less, numbers and dates that
differ, words that tell a change. Where nothing tells, both stay. Only single statements replace each other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from itertools import pairwise
from typing import Final

from zeus_runtime.memory.admission.alignment import LEAST, aligned
from zeus_runtime.memory.admission.held_once import held_once
from zeus_runtime.memory.admission.slots import filled, places_of, says_news, slots_of
from zeus_runtime.memory.admission.statement import Statement, Word, state
from zeus_runtime.memory.admission.verdict import OfAKind, TextVerdict
from zeus_runtime.memory.admission.word_forms import stem, turning
from zeus_runtime.memory.admission.wording import (
    COPULAS,
    DETERMINERS,
    LIMITS,
    MODALS,
    OPPOSITES,
    PREPOSITIONS,
    QUANTIFIERS,
    ZH_LABEL,
    ZH_LIMITS,
    ZH_NOW,
    ZH_NUMBERED,
)
from zeus_runtime.memory.normalise import duplicate_key

_PLACE: Final = 4


def compare(new: str, old: str, *, near: bool, of_a_kind: OfAKind | None = None) -> TextVerdict:
    """Whether ``new`` repeats, replaces or leaves alone what ``old`` says.

    Args:
        near: whether the embedding model takes them for the same. Without it only the texts count.
        of_a_kind: knows values of one kind; None: only their form counts.
    """
    return SAME_WORDS if same_words(new, old) else compare_other(new, old, near=near, of_a_kind=of_a_kind)


SAME_WORDS: Final = TextVerdict("duplicate", "same words")


def compare_other(new: str, old: str, *, near: bool, of_a_kind: OfAKind | None = None) -> TextVerdict:
    """``compare`` for texts that do not have the same words."""
    ours, theirs = aligned(state(new), state(old))
    if _other_person(ours, theirs):
        return TextVerdict("different", "subject")
    verdict = (
        _told(ours, theirs, near=near)
        or _moved(ours, theirs)
        or _compared(ours, theirs, of_a_kind, near=near)
    )
    if verdict.decision == "superseded" and any(_SEVERAL.search(each.text) for each in (ours, theirs)):
        return TextVerdict("different", "several sentences")
    return verdict


_SEVERAL: Final = re.compile(r"[.!?;](?=\s+\S)|[。！？；](?=.)|[?？]\s*$|\n")
"""A text of more than one sentence, or a question: nobody can tell by form what all of it replaces."""


def tells_change(text: str) -> bool:
    """Whether a text says itself that something is otherwise than it was."""
    where = state(text)
    return says_news(where) or any(word.gone for word in where.words) or ZH_NOW.search(text) is not None


def same_words(one: str, other: str) -> bool:
    """Whether the texts differ in nothing that ``duplicate_key`` looks at."""
    return _key(one) == _key(other)


_key: Final = lru_cache(1_024)(duplicate_key)


def _told(ours: Statement, theirs: Statement, *, near: bool) -> TextVerdict | None:
    """What the texts themselves call gone."""
    kept = {word.key for word in ours.words if not word.gone}
    gone = {word.key for word in ours.words if word.gone} - kept
    said = [word for word in theirs.words if not word.gone]
    if said and gone:
        hit = [word for word in said if word.key in gone]
        named = any(word.kind == "name" for word in hit)
        short = len(said) <= _PLACE and named
        same = near and (named or not any(word.kind == "name" for word in said))
        names = {word.key for word in ours.words if word.kind == "name"}
        pairs = [{one.key, other.key} & names for one, other in pairwise(said)]
        both = any(pair & gone and pair & kept for pair in pairs)
        if hit and (same or ((said[-1].key in gone or short) and not theirs.event and not both)):
            return TextVerdict("superseded", "told")
    before = {word.key for word in theirs.words if word.gone} - {word.key for word in said}
    if near and before & kept:
        return TextVerdict("superseded", "taken back")
    if near and gone and before and gone != before:
        return TextVerdict("superseded", "told otherwise")
    return None


def _moved(ours: Statement, theirs: Statement) -> TextVerdict | None:
    """Whether ``ours`` tells how somebody came to what they have once: "moved to Nantes"."""
    held = held_once(ours.text)
    if held is None or theirs.past or not (ours.past or says_news(ours)) or held != held_once(theirs.text):
        return None
    names = [{word.key for word in each.words if word.kind == "name"} for each in (ours, theirs)]
    return None if names[0] & names[1] else TextVerdict("superseded", "value")


def _compared(ours: Statement, theirs: Statement, of_a_kind: OfAKind | None, *, near: bool) -> TextVerdict:
    new = [word for word in ours.words if not word.gone]
    old = [word for word in theirs.words if not word.gone]
    places = places_of(new, old)
    common = _common(new, old) if places is None else _kept(new, places)
    if not common:
        return TextVerdict("different", "nothing in common")
    if places is None:
        added, dropped = _rest(new, common), _rest(old, common)
    else:
        added, dropped = [new[at] for at in places], [old[at] for at in places]
    if _other_way(ours, theirs) or _other_subject(ours, theirs, added, dropped, common):
        return TextVerdict("different", "subject")
    flip = _denied(new, old, added, dropped)
    if flip is not None:
        return flip
    if not added and not dropped:
        if [word.key for word in ours.words if word.gone] != [
            word.key for word in theirs.words if word.gone
        ] and not near:
            return TextVerdict("different", "told otherwise")
        return _same_words(ours, theirs, new, old)
    lone = {word.key for word in (*added, *dropped)}
    if lone <= _WISH and (theirs.order if added else ours.order):
        return TextVerdict("duplicate", "same content")
    if lone <= MODALS:
        return TextVerdict("superseded", "modality")
    if lone <= _INTERVALS and "every" in ours.raw and "every" in theirs.raw:
        return TextVerdict("superseded", "value")
    if not dropped:
        return TextVerdict("different", "says more")
    if not added:
        wider = any(word.kind in ("name", "value") for word in dropped) or _limits(theirs) - _limits(ours)
        told = any(turning(word) and word not in theirs.raw for word in ours.raw)
        return (
            TextVerdict("duplicate", "says less")
            if near and not (wider or told)
            else TextVerdict("different", "says less")
        )
    return filled(ours, theirs, slots_of(new, old, places), near=near, of_a_kind=of_a_kind)


_WISH: Final = frozenset(("prefer", "喜", "欢"))
"""What makes a wish of an order: "answer in French", "the user wants answers in French"."""
_INTERVALS: Final = frozenset(("other", "second"))
"""Between "every" and what comes round: "every other Monday"."""
_QUANTITIES: Final = frozenset(map(stem, QUANTIFIERS))


_AND: Final = re.compile(r"\b(?:and|or|also|too|as well)\b|[,;、和与及跟也还]|以及", re.IGNORECASE)


def _limits(where: Statement) -> set[str]:
    return set(LIMITS.intersection(where.raw)).union(ZH_LIMITS.findall(where.text))


def _common(new: Iterable[Word], old: Iterable[Word]) -> dict[str, int]:
    """The keys that both have, and how often."""
    left: dict[str, int] = {}
    for word in old:
        left[word.key] = left.get(word.key, 0) + 1
    common: dict[str, int] = {}
    for word in new:
        if left.get(word.key, 0) > common.get(word.key, 0):
            common[word.key] = common.get(word.key, 0) + 1
    return common


def _kept(words: Sequence[Word], but: Collection[int]) -> dict[str, int]:
    return dict(Counter(word.key for at, word in enumerate(words) if at not in but))


def _rest(words: Iterable[Word], common: Mapping[str, int]) -> list[Word]:
    left = dict(common)
    rest = []
    for word in words:
        if left.get(word.key, 0) > 0:
            left[word.key] -= 1
        else:
            rest.append(word)
    return rest


def _other_person(ours: Statement, theirs: Statement) -> bool:
    """Whether the texts are about different people: he and she, or the speaker and another person."""
    raw = [set(each.raw) for each in (ours, theirs)]
    for one, other in ((_HE, _SHE), (_WHO_SPEAKS, _OTHERS)):
        if sorted((bool(one & words), bool(other & words)) for words in raw) == [
            (False, True),
            (True, False),
        ]:
            return True
    return False


_HE: Final = frozenset(("he", "him", "his", "他"))
_SHE: Final = frozenset(("she", "her", "hers", "她"))
_OTHERS: Final = _HE | _SHE | {"they", "them", "their", "theirs"}
_WHO_SPEAKS: Final = frozenset(
    ("i", "i'm", "i've", "me", "my", "mine", "we", "we're", "our", "ours", "我", "咱")
)


def _other_way(ours: Statement, theirs: Statement) -> bool:
    """Whether one is of the way to a place and the other of the way from there: two flights."""
    new, old = (
        {match["where"].lower(): match["way"].lower() for match in _WAY.finditer(each.text)}
        for each in (ours, theirs)
    )
    return len(new) == len(old) == 1 and new.keys() == old.keys() and new != old


_WAY: Final = re.compile(r"\b(?P<way>to|from) (?:the )?(?P<where>\w+)", re.IGNORECASE)


def _other_subject(
    ours: Statement,
    theirs: Statement,
    added: Sequence[Word],
    dropped: Sequence[Word],
    common: Mapping[str, int],
) -> bool:
    """Whether the texts are about different things; a count or a date is never what a text is about."""
    if ours.inverted and theirs.inverted:
        return False
    only = len(added) == len(dropped) == 1
    lone_new = [word for word in added if _about(word, ours, only=only)]
    lone_old = [word for word in dropped if _about(word, theirs, only=only)]
    if lone_new and lone_old:
        return True
    return any(
        lone and not any(word.about and word.key in common for word in each.words)
        for lone, each in ((lone_new, ours), (lone_old, theirs))
    )


def _about(word: Word, where: Statement, *, only: bool) -> bool:
    """Whether the statement is about this; a count or a date is not, the number of one thing among others is.

    Args:
        only: nothing else differs; else a version may be what the text is about.
    """
    if word.value is None:
        return word.about and word.key not in _QUANTITIES
    if word.value.kind in ("date", "time"):
        return False
    if word.value.kind == "version" or "." in word.value.text:
        return word.about and not only
    if where.chinese:
        label = ZH_LABEL.match(where.text, word.place - 1) if word.place else ZH_NUMBERED.match(where.text)
        return label is not None
    return word.about and bool(word.after) and word.after not in COPULAS | DETERMINERS | PREPOSITIONS


def _denied(
    new: Sequence[Word], old: Sequence[Word], added: Sequence[Word], dropped: Sequence[Word]
) -> TextVerdict | None:
    sides = {word.key: word.denied for word in old}
    flips = [word for word in new if word.key in sides and word.denied != sides[word.key]]
    if flips:
        if added and dropped:
            return TextVerdict("different", "denies another")
        return TextVerdict("superseded", "denial")
    if _opposite({word.key for word in added}, {word.key for word in dropped}):
        return TextVerdict("superseded", "opposite")
    return None


def _opposite(new: Set[str], old: Set[str]) -> bool:
    """Whether a word on one side is the opposite of one on the other."""
    return any(
        prefix + key in others
        for keys, others in ((new, old), (old, new))
        for key in keys
        if len(key) >= LEAST
        for prefix in OPPOSITES
    )


def _same_words(ours: Statement, theirs: Statement, new: Sequence[Word], old: Sequence[Word]) -> TextVerdict:
    passive = (" by " in ours.text) != (" by " in theirs.text)
    if ours.past != theirs.past and not passive:
        return TextVerdict("superseded", "tense")
    known = {word.key for each in (ours, theirs) for word in each.words if each.text[word.place].isupper()}
    names = [[word.key for word in side if word.key in known] for side in (new, old)]
    moved = names[0] != names[1] and sorted(names[0]) == sorted(names[1]) and len(new) == len(old)
    if _AND.search(ours.text) and _AND.search(theirs.text):
        moved = False
    if (
        moved != (passive and len(names[0]) > 1)
        or _swapped(ours.raw, theirs.raw)
        or (ours.chinese and _characters(new) != _characters(old))
    ):
        return TextVerdict("superseded", "order")
    if any(word.lower() in theirs.raw for word in _written(ours) - _written(theirs)) or any(
        word.lower() in ours.raw for word in _written(theirs) - _written(ours)
    ):
        return TextVerdict("superseded", "case")
    return TextVerdict("duplicate", "same content")


def _characters(words: Sequence[Word]) -> list[str]:
    return [word.key for word in words if word.kind == "character"]


def _swapped(new: Sequence[str], old: Sequence[str]) -> bool:
    """Whether two words changed places and nothing else did."""
    if len(new) != len(old):
        return False
    apart = [(a, b) for a, b in zip(new, old, strict=True) if a != b]
    return len(apart) == 2 and apart[0] == apart[1][::-1]


def _written(where: Statement) -> set[str]:
    """Names with capitals inside, such as ``userId``."""
    return {word for word in _INSIDE.findall(where.text) if not word.isupper()}


_INSIDE: Final = re.compile(r"\b[A-Za-z]+[A-Z][A-Za-z]*\b")
