"""Where two statements differ, in order, and what it means that both have something the other one lacks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from zeus_runtime.memory.admission.apart import apart
from zeus_runtime.memory.admission.beside import beside
from zeus_runtime.memory.admission.statement import HIRAGANA, Statement, Word
from zeus_runtime.memory.admission.told_of_it import another_side
from zeus_runtime.memory.admission.verdict import OfAKind, TextVerdict
from zeus_runtime.memory.admission.word_forms import turning
from zeus_runtime.memory.admission.wording import (
    COPULAS,
    DETERMINERS,
    EMPTY,
    NAMING,
    PREPOSITIONS,
    QUANTIFIERS,
    SUBJECTS,
    TURNING,
    UNITS,
    ZH_MANY,
    ZH_NUMBERED,
    ZH_PLACED,
)


class Slot(NamedTuple):
    """A place that the two texts fill differently; one side may be empty."""

    new: Sequence[Word]
    old: Sequence[Word]
    later: Sequence[Word]


_COMPARED: Final = 400
"""Words of each text that are compared in order; longer texts are compared without it."""


def places_of(new: Sequence[Word], old: Sequence[Word]) -> list[int] | None:
    """Which words differ where both texts are the same but for values; None where they are not.

    A number is then compared with the one in its own place: guest 14 has nothing of who sleeps in room 14.
    """
    if len(new) != len(old) or not any(word.value for word in new):
        return None
    places = [at for at, (a, b) in enumerate(zip(new, old, strict=True)) if a.key != b.key]
    kinds = [(new[at].value, old[at].value) for at in places]
    same = all(a is not None and b is not None and a.kind == b.kind for a, b in kinds)
    return places if same and places else None


def slots_of(
    new: Sequence[Word], old: Sequence[Word], places: Sequence[int] | None = None
) -> list[Slot] | None:
    """Where the texts differ, in order; None for texts too long to tell.

    Args:
        places: where that is known (``places_of``).
    """
    if places is not None:
        return [Slot(new[at : at + 1], old[at : at + 1], new[at + 1 :]) for at in places]
    if max(len(new), len(old)) > _COMPARED:
        return None
    matcher = SequenceMatcher(None, [word.key for word in old], [word.key for word in new], autojunk=False)
    return [
        slot
        for tag, o0, o1, n0, n1 in matcher.get_opcodes()
        if tag != "equal"
        for slot in _parted(new[n0:n1], old[o0:o1], new[n1:])
    ]


def _parted(new: Sequence[Word], old: Sequence[Word], later: Sequence[Word]) -> list[Slot]:
    """Return one place, or several if both sides continue with the same preposition, as in "tea in the evening"."""
    for at, word in enumerate(new[1:], 1):
        for other, each in enumerate(old[1:], 1):
            if word.after == each.after and word.after in PREPOSITIONS:
                return [Slot(new[:at], old[:other], new[at:]), *_parted(new[at:], old[other:], later)]
    return [Slot(new, old, later)]


def filled(
    ours: Statement,
    theirs: Statement,
    slots: list[Slot] | None,
    *,
    near: bool,
    of_a_kind: OfAKind | None = None,
) -> TextVerdict:
    """The rule for texts that both have something that the other one lacks."""
    if ours.event and theirs.event:
        return TextVerdict("different", "event")
    news = says_news(ours)
    if why := beside(ours, theirs, news=news):
        return TextVerdict("different", why)
    if slots is None or any(map(_clause_in_kana, slots)):
        return TextVerdict("different", "reworded")
    slots = [slot for slot in slots if slot.old or not _came_to(slot, ours)]
    whole = all(slot.new and slot.old for slot in slots)
    if not news and (why := apart(ours, theirs, slots, near=near)):
        return TextVerdict("different", why)
    if whole and _entries(ours, theirs, slots):
        return TextVerdict("different", "entries")
    if whole and all(_valued(slot) for slot in slots):
        if not near and any(_counts_others(slot) for slot in slots):
            return TextVerdict("different", "counts others")
        return TextVerdict("superseded", "value")
    if ours.many and theirs.many and not any(map(_valued, slots)):
        return TextVerdict("different", "beside each other")
    if any(slot.new and slot.old and slot.new[0].denied and slot.old[0].denied for slot in slots):
        return TextVerdict("different", "denies another")
    if whole and len(slots) == 1 and not news and another_side(ours, theirs, slots[0], of_a_kind):
        return TextVerdict("different", "another side")
    if (
        whole
        and len(slots) == 1
        and (near or _framed(ours, theirs, slots[0]) or _turned(ours, theirs, slots[0]))
    ):
        return TextVerdict("superseded", "value")
    return TextVerdict("different", "reworded")


def _entries(ours: Statement, theirs: Statement, slots: Sequence[Slot]) -> bool:
    """Whether the texts are two entries of a list: what says which one differs, and something after it too.

    "Guest 3 in room 12" and "guest 4 in room 15" are two facts, unless the new text tells a change.
    """
    if sum(max(len(slot.new), len(slot.old)) for slot in slots) < _ENTRY or says_news(ours):
        return False
    new, old = slots[0].new[0], slots[0].old[0]
    shared = {word.key for word in ours.words if word.about} & {
        word.key for word in theirs.words if word.about
    }
    if all(_which(word, where, topic=bool(shared)) for word, where in ((new, ours), (old, theirs))):
        return True
    if ours.chinese or _labelled(new, ours):
        return False
    return _labelled(slots[-1].new[-1], ours) and _labelled(slots[-1].old[-1], theirs)


def _labelled(word: Word, where: Statement) -> bool:
    """Whether the number says which of several things is meant: "one class of year 12", not "in 5 years"."""
    if word.value is None or word.value.kind != "number":
        return False
    match = _LABEL.search(where.text, 0, word.place)
    return match is not None and match["what"].lower() not in EMPTY | QUANTIFIERS


_LABEL: Final = re.compile(r"\b(?:of|for|in|on|at|from) (?:the )?(?P<what>[a-z]{3,}) $", re.IGNORECASE)


_ENTRY: Final = 2
"""Places that differ between two entries of a list, at least: which one, and what of it."""
_NEWS: Final = frozenset(
    ("now", "nowadays", "currently", "instead", "anymore", "longer", "again", "correction")
)
_ZH_NEWS: Final = re.compile(
    "改|换|搬|移|调|变|转|升级|降|推迟|提前|不再|涨[到至价]|上涨|(?:提高|增加|减少|缩短|延长)[到至为]"
)


def says_news(where: Statement) -> bool:
    """Whether the statement says that something is otherwise than it was."""
    return any(word in _NEWS or TURNING.fullmatch(word) for word in where.raw) or (
        where.chinese and _ZH_NEWS.search(where.text) is not None
    )


def _which(word: Word, where: Statement, *, topic: bool) -> bool:
    """Whether the word says which of several things the text is about.

    Args:
        topic: both texts are about something that they share, so that only a word of it can say which one.
    """
    if word.value is None:
        return False
    if word.value.kind in ("date", "time"):
        return word.about
    if where.chinese:
        return ZH_NUMBERED.match(where.text, word.place) is not None and (
            word.about or ZH_NUMBERED.match(where.text) is not None
        )
    if topic and not word.about:
        return False
    follower = where.text[word.place + word.value.end - word.value.start :].split(maxsplit=1)
    named = word.after.isalpha() and word.after not in EMPTY
    return named and (not follower or follower[0].lower().strip(",.;:") in EMPTY | {""})


def _valued(slot: Slot) -> bool:
    """Whether both sides hold a value of the same kind."""
    kinds = [{word.value.kind for word in side if word.value} for side in (slot.new, slot.old)]
    return bool(kinds[0] & kinds[1])


def _clause_in_kana(slot: Slot) -> bool:
    """Whether both sides hold Japanese with its particles, so more than a name: common endings make such texts near."""
    return all(any(HIRAGANA.match(word.key) for word in side) for side in (slot.new, slot.old))


def _came_to(slot: Slot, ours: Statement) -> bool:
    """Whether the place holds nothing but a word that tells what a value came to, as in "was cut to $9"."""
    if ours.chinese:
        told = ours.text[slot.new[0].place : slot.new[-1].place + 1]
        return not slot.old and bool(slot.new) and _TO_A_NUMBER_ZH.fullmatch(told) is not None
    return len(slot.new) == 1 and _TO_A_NUMBER.match(ours.text, slot.new[0].place) is not None


_TO_A_NUMBER: Final = re.compile(r"[a-z]+ to [$€£¥₹]?\d")
_TO_A_NUMBER_ZH: Final = re.compile(
    "(?:涨价?|降价?|升|调整?|加|减|提高|增加|减少|缩短|延长|推迟|提前|改)[到至为成]"
)


def _counts_others(slot: Slot) -> bool:
    """Whether the numbers of both sides are of different things: "40 employees" and "3 offices"."""
    new, old = _counted(slot.new), _counted(slot.old)
    if new is None or old is None or new == old:
        return False
    kinds = UNITS.get(new.removeprefix(_NAMED)), UNITS.get(old.removeprefix(_NAMED))
    if new.startswith(_NAMED) and old.startswith(_NAMED):
        return False
    return kinds[0] is None or kinds[0] != kinds[1]


def _counted(side: Sequence[Word]) -> str | None:
    """Return the word that a side's only number counts, or, after a mark, the word that the number belongs to.

    None if there is no such word.
    """
    places = [at for at, word in enumerate(side) if word.value]
    if len(places) != 1 or (value := side[places[0]].value) is None or value.kind != "number":
        return None
    at = places[0]
    if at + 1 < len(side):
        return side[at + 1].key if side[at + 1].kind != "character" else None
    return f"{_NAMED}{side[at - 1].key}" if at and side[at - 1].kind == "name" else None


_NAMED: Final = "\0"


def _modifier(slot: Slot, ours: Statement) -> bool:
    """Whether the differing words qualify one that both texts have, as in "dark mode"; not as in "Emma's cooking"."""
    if not slot.later or not slot.new or _OWNER.match(ours.text, slot.new[-1].place):
        return False
    if slot.later[0].kind == "character":
        return len(slot.later) > 1 and ZH_MANY.match(ours.text, slot.later[0].place) is None
    return slot.later[0].after not in COPULAS | PREPOSITIONS


_OWNER: Final = re.compile(r"[A-Z]\w*'s\b")


def _framed(ours: Statement, theirs: Statement, slot: Slot) -> bool:
    """Whether what surrounds the place says enough for the texts to be about one thing, even if no model says so."""
    inside = {word.place for word in slot.new}
    frame = [word for word in ours.words if word.place not in inside and word.key != "prefer"]
    head = slot.new[0].after
    if ours.chinese:
        enough = len(frame) >= max(2, len(slot.new), len(slot.old)) or (
            bool(frame) and _placed(slot, ours, theirs)
        )
        told = [any(word.value for word in side) for side in (slot.new, slot.old)]
        return enough and told[0] == told[1] and (head == "用") == (slot.old[0].after == "用")
    if not frame or head != slot.old[0].after:
        return False
    if (slot.new[0].value is not None and not ours.event) or head in _HEADS:
        return True
    if head not in SUBJECTS and _modifier(slot, ours) and _qualifies(slot, theirs):
        return True
    return _for_a_purpose(slot) and not ours.event


def _for_a_purpose(slot: Slot) -> bool:
    """Whether both sides are names of what serves one purpose: "uses Slack for chat" and "uses Teams for chat"."""
    named = all(word.kind == "name" for word in (*slot.new, *slot.old))
    return named and bool(slot.later) and slot.later[0].after == "for"


def _qualifies(slot: Slot, theirs: Statement) -> bool:
    """Whether the older text too says what follows the place right after it: "a dark mode", not "goes by bike"."""
    after = next((word.after for word in theirs.words if word.place > slot.old[-1].place), "")
    return after not in COPULAS | PREPOSITIONS


def _placed(slot: Slot, ours: Statement, theirs: Statement) -> bool:
    """Whether both sides name, in Chinese, where something is or is done, or how it is called, and no time."""
    new, old = slot.new[0], slot.old[0]
    if any(word.value for word in (*slot.new, *slot.old)):
        return False
    if new.after == old.after == "在" and slot.later:
        return True
    return all(
        ZH_PLACED.search(where.text, 0, word.place) is not None
        for word, where in ((new, ours), (old, theirs))
    )


_HEADS: Final = COPULAS | PREPOSITIONS | NAMING


def _turned(ours: Statement, theirs: Statement, slot: Slot) -> bool:
    """Whether ``ours`` tells that what ``theirs`` says of the same thing became something else of its kind.

    "The mascot was changed to an owl" after "the mascot is a fox"; not after "the mascot is ugly".
    """
    new, old = slot.new[0], slot.old[0]
    inside = {word.place for word in slot.new}
    if ours.chinese:
        return _turned_zh(ours, theirs, slot)
    if old.after not in COPULAS or not any(word.place not in inside for word in ours.words):
        return False
    if not (turning(new.after) or (new.after == "to" and says_news(ours))):
        return False
    return (
        _article(new, ours) == _article(old, theirs)
        and (new.kind == old.kind == "name" or _article(new, ours) or turning(new.after))
    ) or _valued(slot)


def _turned_zh(ours: Statement, theirs: Statement, slot: Slot) -> bool:
    """The same in Chinese, of a name or a thing: "店长换成了小何" after "店长是阿敏", not after "店长是新来的"."""
    told = _BECAME_ZH.match(ours.text, slot.new[0].place)
    frame = [word for word in ours.words if word.place < slot.new[0].place]
    is_so = slot.old[0].after in _IS_ZH or (slot.old[0].key == "叫" and len(slot.old) > 1)
    return (
        told is not None
        and is_so
        and len(frame) > 1
        and not slot.later
        and not any(word.value for word in (*slot.new, *slot.old))
        and not theirs.text.rstrip("。").endswith("的")
    )


_BECAME_ZH: Final = re.compile("[换改][成为]了?")
_IS_ZH: Final = frozenset("是为叫用")


def _article(word: Word, where: Statement) -> bool:
    return where.text[: word.place].rstrip().rpartition(" ")[2].lower() in DETERMINERS
