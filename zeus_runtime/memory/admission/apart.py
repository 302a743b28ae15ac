"""Whether places that two statements fill otherwise show that they are about different things, whatever is near.

Each rule keeps a memory that would be lost otherwise; a text that tells a change itself is never held apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from zeus_runtime.memory.admission.wording import PREPOSITIONS, UNITS, ZH_MEASURES, ZH_SUBJECTS

if TYPE_CHECKING:
    from zeus_runtime.memory.admission.slots import Slot
    from zeus_runtime.memory.admission.statement import Statement, Word


def apart(ours: Statement, theirs: Statement, slots: Sequence[Slot], *, near: bool) -> str | None:
    """Why both are kept; None where nothing shows that they are about different things.

    Args:
        slots: where they differ, in order.
    """
    if any(map(_narrows, slots)):
        return "narrower"
    if any(map(_for_others, slots)):
        return "for others"
    slots = [slot for slot in slots if slot.new and slot.old]
    if not slots:
        return None
    if any(map(_other_kind, slots)):
        return "values of other kinds"
    if any(_other_end(slot, ours, theirs) for slot in slots):
        return "another end"
    if ours.chinese:
        return _apart_zh(ours, theirs, slots, near=near)
    if ours.many and theirs.many and any(map(_dated, slots)):
        return "another one"
    if not near and any(map(_says_else, slots)):
        return "values of other things"
    return None


def _apart_zh(ours: Statement, theirs: Statement, slots: Sequence[Slot], *, near: bool) -> str | None:
    first = slots[0]
    if _opens(first.new, ours) and _opens(first.old, theirs):
        if _names_and_values(first.new) and _names_and_values(first.old):
            return "subject"
        if first.later and first.later[0].value and not _kinds(first.new) and not _kinds(first.old):
            return "subject"
        dates = [
            side[0].value is not None and side[0].value.kind == "date" for side in (first.new, first.old)
        ]
        if all(dates) and (len(slots) > 1 or min(len(first.new), len(first.old)) > 1):
            return "entries"
    if any(_counts_others_zh(slot, ours, theirs) for slot in slots):
        return "counts others"
    return "values of other things" if any(_says_else_zh(slot, near=near) for slot in slots) else None


def _narrows(slot: Slot) -> bool:
    """Whether one text alone says of which of them it speaks: "the limit of partners" beside "the limit"."""
    new, old = ([word for word in side if word.about] for side in (slot.new, slot.old))
    return bool(new) != bool(old) and (new or old)[0].after in PREPOSITIONS


def _for_others(slot: Slot) -> bool:
    """Whether both sides say for whom or what, and not by a name or a value: "for guests" and "for members"."""
    return all(
        side and side[0].after == "for" and not any(word.value or word.kind == "name" for word in side)
        for side in (slot.new, slot.old)
    )


def _kinds(side: Sequence[Word]) -> set[str]:
    """Of the values; a version may be written as a number."""
    return {word.value.kind.replace("version", "number") for word in side if word.value}


def _other_kind(slot: Slot) -> bool:
    """Whether both sides hold values, none of one kind: "on Friday" and "at 10:00"."""
    new, old = _kinds(slot.new), _kinds(slot.old)
    return bool(new and old) and not new & old


def _other_end(slot: Slot, ours: Statement, theirs: Statement) -> bool:
    """Whether each side is one end of a time, and not the same: "since 2016" and "until June"."""
    new, old = _ends(slot.new, ours), _ends(slot.old, theirs)
    return len(new) == len(old) == 1 and new != old


def _ends(side: Sequence[Word], where: Statement) -> set[bool]:
    """Whether the values are ends and not beginnings; the words before one may be part of it."""
    found = [_END.match(where.text, max(0, word.place - _LONGEST)) for word in side if word.value]
    return {match["end"] is not None for match in found if match}


_END: Final = re.compile(
    r".{0,7}?\b(?:since|from|after|(?P<end>until|till|before))(?: the)? \d*\w", re.IGNORECASE
)
_LONGEST: Final = 7


def _dated(slot: Slot) -> bool:
    return all(_kinds(side) & _DATED for side in (slot.new, slot.old))


_DATED: Final = frozenset(("date", "time"))


def _says_else(slot: Slot) -> bool:
    """Whether both sides have a value and a further word: "due on the 1st" and "of the flat is 900"."""
    return all(
        _kinds(side) and any(word.value is None and not _unit(word, side) for word in side)
        for side in (slot.new, slot.old)
    )


def _unit(word: Word, side: Sequence[Word]) -> bool:
    """Whether the word is the unit of a value before it: in "12 years", not in "year 12"."""
    return word.key in UNITS and any(other.value and other.place < word.place for other in side)


def _opens(side: Sequence[Word], where: Statement) -> bool:
    """Whether the place is the first of its statement, but for whom it is about."""
    subject = ZH_SUBJECTS.match(where.text)
    begin = subject.end() if subject else 0
    return not any(begin <= word.place < side[0].place for word in where.words)


def _names_and_values(side: Sequence[Word]) -> bool:
    """Whether there are characters before a value: "健身房6点"."""
    values = [at for at, word in enumerate(side) if word.value]
    return bool(values) and values[0] > 0


def _counts_others_zh(slot: Slot, ours: Statement, theirs: Statement) -> bool:
    """Whether the numbers of both sides are of different things: "三个孩子" and "三只猫"."""
    new, old = _counted_zh(slot.new, ours), _counted_zh(slot.old, theirs)
    return bool(new and old) and not new & old


def _counted_zh(side: Sequence[Word], where: Statement) -> set[str]:
    """Return the characters of the things that a number counts, without its unit; empty without such a number."""
    places = [at for at, word in enumerate(side) if word.value and word.value.kind == "number"]
    if not places and not _follows_a_number(side[0], where):
        return set()
    return {word.key for word in side[places[0] + 1 if places else 0 :] if word.key not in _MEASURES}


def _says_else_zh(slot: Slot, *, near: bool) -> bool:
    """The same as ``_says_else`` for Chinese, and whether one side names what its value is, and of another unit."""
    if not (_kinds(slot.new) and _kinds(slot.old)):
        return False
    named = [any(word.value is None and word.key not in _MEASURES for word in side) for side in slot[:2]]
    return (all(named) and not near) or (any(named) and _unit_zh(slot.new) != _unit_zh(slot.old))


def _unit_zh(side: Sequence[Word]) -> str:
    """The character behind the last value, if it is of a unit."""
    last = max(at for at, word in enumerate(side) if word.value)
    after = side[last + 1].key if last + 1 < len(side) else ""
    return after if after in _MEASURES else ""


def _follows_a_number(word: Word, where: Statement) -> bool:
    before = [each for each in where.words if each.place < word.place]
    return bool(before) and before[-1].value is not None and before[-1].value.kind == "number"


_MEASURES: Final = frozenset(ZH_MEASURES + "公毫厘千英平方立美欧日里时钟")
