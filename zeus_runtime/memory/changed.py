"""Whether a new text says the same as an older one, says that its value changed, or says something else.

The rules look at form: the same sentence with one place filled otherwise, a denial more or less, numbers and dates that
differ, words that tell a change. Where nothing tells, the new text takes the place of the old one: that keeps what is
new, and the old one stays in the history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Final, Literal, NamedTuple, TypeAlias

from zeus_runtime.memory.normalise import duplicate_key
from zeus_runtime.memory.statement import Statement, Word, state
from zeus_runtime.memory.values import agree
from zeus_runtime.memory.wording import COPULAS, DETERMINERS, OPPOSITES, PREPOSITIONS, SUFFIXES, ZH_MANY

Verdict: TypeAlias = Literal["duplicate", "superseded", "different"]


class Change(NamedTuple):
    """What a new text is beside an older one, and by which rule."""

    decision: Verdict
    reason: str


class _Slot(NamedTuple):
    """A place that the two texts fill differently; one side may be empty."""

    new: Sequence[Word]
    old: Sequence[Word]
    later: Sequence[Word]


_COMPARED: Final = 400
"""Words of each text that are compared in order; longer texts are compared without it."""


def compare(new: str, old: str, *, near: bool) -> Change:
    """Whether ``new`` repeats, replaces or leaves alone what ``old`` says.

    Args:
        near: whether the embedding model takes them for the same. Without it only what stands in the texts counts.
    """
    if duplicate_key(new) == duplicate_key(old):
        return Change("duplicate", "same words")
    ours, theirs = _aligned(state(new), state(old))
    return _told(ours, theirs, near=near) or _compared(ours, theirs, near=near)


def _aligned(ours: Statement, theirs: Statement) -> tuple[Statement, Statement]:
    """``ours`` with the keys of ``theirs`` wherever a word or value of both is the same in another form."""
    lone = {word.key: word for word in theirs.words if word.key not in {each.key for each in ours.words}}
    words = [_renamed(word, lone) for word in ours.words]
    return replace(ours, words=tuple(words)), theirs


def _renamed(word: Word, lone: dict[str, Word]) -> Word:
    for key, other in lone.items():
        if word.value and other.value:
            same = word.value.kind == other.value.kind and agree(word.value, other.value)
        else:
            same = word.kind == other.kind == "word" and _one_word(word.key, other.key)
        if same:
            return word._replace(key=key)
    return word


def _one_word(one: str, other: str) -> bool:
    shared = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return shared >= 4 and one[shared:] in SUFFIXES and other[shared:] in SUFFIXES


def _told(ours: Statement, theirs: Statement, *, near: bool) -> Change | None:
    """What the texts themselves call gone."""
    kept = {word.key for word in ours.words if not word.gone}
    gone = {word.key for word in ours.words if word.gone} - kept
    said = [word for word in theirs.words if not word.gone]
    if said and gone:
        hit = [word for word in said if word.key in gone]
        if hit and (near or said[-1].key in gone or any(word.kind in ("name", "value") for word in hit)):
            return Change("superseded", "told")
    before = {word.key for word in theirs.words if word.gone} - {word.key for word in said}
    if near and before & kept:
        return Change("superseded", "taken back")
    return None


def _compared(ours: Statement, theirs: Statement, *, near: bool) -> Change:
    new = [word for word in ours.words if not word.gone]
    old = [word for word in theirs.words if not word.gone]
    common = Counter(word.key for word in new) & Counter(word.key for word in old)
    if not common:
        return Change("different", "nothing in common")
    added, dropped = _rest(new, common), _rest(old, common)
    if _other_subject(ours, theirs, added, dropped, common):
        return Change("different", "subject")
    flip = _denied(new, old, added, dropped)
    if flip is not None:
        return flip
    if not added and not dropped:
        return _same_words(ours, theirs, new, old)
    if not dropped:
        return Change("different", "says more")
    if not added:
        rigid = any(word.kind in ("name", "value") for word in dropped)
        return Change("duplicate", "says less") if near and not rigid else Change("different", "says less")
    return _filled(ours, theirs, _slots(new, old), near=near)


def _rest(words: Iterable[Word], common: Counter[str]) -> list[Word]:
    left = Counter(common)
    rest = []
    for word in words:
        if left[word.key] > 0:
            left[word.key] -= 1
        else:
            rest.append(word)
    return rest


def _other_subject(
    ours: Statement, theirs: Statement, added: Sequence[Word], dropped: Sequence[Word], common: Counter[str]
) -> bool:
    """Whether the texts are about different things; a count or a date is never what a text is about."""
    if ours.inverted and theirs.inverted:
        return False
    only = len(added) == len(dropped) == 1
    lone_new = [word for word in added if word.about and not _count(word, ours, only=only)]
    lone_old = [word for word in dropped if word.about and not _count(word, theirs, only=only)]
    if lone_new and lone_old:
        return True
    return any(
        lone and not any(word.about and word.key in common for word in each.words)
        for lone, each in ((lone_new, ours), (lone_old, theirs))
    )


def _count(word: Word, where: Statement, *, only: bool) -> bool:
    """Whether a value counts, dates or versions something, and is not the number of one thing among others.

    Args:
        only: nothing else differs; else a version may be what the text is about.
    """
    if word.value is None:
        return False
    if word.value.kind in ("date", "time"):
        return True
    if word.value.kind == "version" or "." in word.value.text:
        return only
    following = where.text[word.value.end :]
    if where.chinese:
        preceding = where.text[: word.place].rstrip()
        return not preceding or following[:1] in "个条次名人年天小分周块元岁台位种倍层秒只本张家间米辆口号%" or not following
    return not word.after or word.after in COPULAS | DETERMINERS | PREPOSITIONS


def _denied(
    new: Sequence[Word], old: Sequence[Word], added: Sequence[Word], dropped: Sequence[Word]
) -> Change | None:
    sides = {word.key: word.denied for word in old}
    flips = [word for word in new if word.key in sides and word.denied != sides[word.key]]
    if flips:
        if added and dropped:
            return Change("different", "denies another")
        return Change("superseded", "denial")
    if any(_opposite(a.key, b.key) for a in added for b in dropped):
        return Change("superseded", "opposite")
    return None


def _opposite(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return long.endswith(short) and len(short) > 3 and long[: -len(short)] in OPPOSITES


def _same_words(ours: Statement, theirs: Statement, new: Sequence[Word], old: Sequence[Word]) -> Change:
    if ours.past != theirs.past:
        return Change("superseded", "tense")
    names = [[word.key for word in side if word.kind == "name"] for side in (new, old)]
    turned = (" by " in ours.text) != (" by " in theirs.text)
    if names[0] != names[1] and sorted(names[0]) == sorted(names[1]) and len(new) == len(old) and not turned:
        return Change("superseded", "order")
    return Change("duplicate", "same content")


def _slots(new: Sequence[Word], old: Sequence[Word]) -> list[_Slot] | None:
    """Where the texts differ, in order; None for texts too long to tell."""
    if max(len(new), len(old)) > _COMPARED:
        return None
    matcher = SequenceMatcher(None, [word.key for word in old], [word.key for word in new], autojunk=False)
    return [
        slot
        for tag, o0, o1, n0, n1 in matcher.get_opcodes()
        if tag != "equal"
        for slot in _parted(new[n0:n1], old[o0:o1], new[n1:])
    ]


def _parted(new: Sequence[Word], old: Sequence[Word], later: Sequence[Word]) -> list[_Slot]:
    """One place, or two if both sides go on with the same preposition: "coffee in the morning", "tea in the evening"."""
    for at, word in enumerate(new[1:], 1):
        for other, each in enumerate(old[1:], 1):
            if word.after == each.after and word.after in PREPOSITIONS:
                return [_Slot(new[:at], old[:other], new[at:]), *_parted(new[at:], old[other:], later)]
    return [_Slot(new, old, later)]


def _filled(ours: Statement, theirs: Statement, slots: list[_Slot] | None, *, near: bool) -> Change:
    """The rule for texts that both have something that the other one lacks."""
    if ours.event and theirs.event:
        return Change("different", "event")
    if slots is None:
        return Change("superseded", "reworded") if near else Change("different", "reworded")
    whole = all(slot.new and slot.old for slot in slots)
    if whole and all(_valued(slot) for slot in slots):
        return Change("superseded", "value")
    if ours.many and theirs.many and not any(map(_valued, slots)) and not any(_modifier(slot, ours) for slot in slots):
        return Change("different", "beside each other")
    if any(slot.new and slot.old and slot.new[0].denied and slot.old[0].denied for slot in slots):
        return Change("different", "denies another")
    if whole and len(slots) > 1 and _qualified(slots, ours):
        return Change("different", "circumstance")
    if whole and len(slots) == 1 and (near or _framed(ours, slots[0])):
        return Change("superseded", "value")
    return Change("superseded", "reworded") if near else Change("different", "reworded")


def _valued(slot: _Slot) -> bool:
    """Whether both sides hold a value of the same kind."""
    kinds = [{word.value.kind for word in side if word.value} for side in (slot.new, slot.old)]
    return bool(kinds[0] & kinds[1])


def _modifier(slot: _Slot, ours: Statement) -> bool:
    """Whether the differing words qualify one that both texts have, as in "dark mode"."""
    if not slot.later or not slot.new:
        return False
    if slot.later[0].kind == "character":
        return len(slot.later) > 1 and ZH_MANY.match(ours.text, slot.later[0].place) is None
    return slot.later[0].after not in COPULAS | PREPOSITIONS


def _qualified(slots: Sequence[_Slot], ours: Statement) -> bool:
    first, last = slots[0], slots[-1]
    if ours.chinese:
        return first.new[0].place <= 6 and not _valued(first)
    return last.new[0].after in PREPOSITIONS | DETERMINERS and not _valued(last)


def _framed(ours: Statement, slot: _Slot) -> bool:
    """Whether what surrounds the place says enough for the texts to be about one thing, even if no model says so."""
    inside = {word.place for word in slot.new}
    frame = [word for word in ours.words if word.place not in inside and word.key != "prefer"]
    if ours.chinese:
        return len(frame) >= 2
    head = slot.new[0].after
    if not frame or head != slot.old[0].after:
        return False
    return slot.new[0].value is not None or head in COPULAS | PREPOSITIONS or _modifier(slot, ours)
