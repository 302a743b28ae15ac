"""Whether two statements both hold of one subject: a cat is black, and lazy; a daughter is Mia, and another one Zoe."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from zeus_runtime.memory.admission.held_once import held_once
from zeus_runtime.memory.admission.wording import DETERMINERS, IRREGULAR, PREPOSITIONS

if TYPE_CHECKING:
    from zeus_runtime.memory.admission.slots import Slot
    from zeus_runtime.memory.admission.statement import Statement, Word
    from zeus_runtime.memory.admission.verdict import OfAKind

_Form: TypeAlias = Literal["value", "name", "noun", "plain"]
_WORDED: Final = frozenset(("noun", "plain"))
_IS: Final = frozenset(("is", "are", "am", "be"))


def another_side(ours: Statement, theirs: Statement, slot: Slot, of_a_kind: OfAKind | None) -> bool:
    """Whether what stands after "is" in each is of another kind, or names another of several people.

    Form tells a name, a value and "a nurse" from each other; "black" and "lazy" only who knows the words.
    """
    if _names_one_of_several(ours, slot.new[0]) and _names_one_of_several(theirs, slot.old[0]):
        return True
    if not (slot.new[0].after in _IS and slot.old[0].after in _IS):
        return False
    forms = _form(slot.new, ours), _form(slot.old, theirs)
    held = held_once(ours.text)
    # What somebody has once has values of a kind, however they are worded.
    if held is not None and held == held_once(theirs.text):
        return forms[0] != forms[1] and not _WORDED.issuperset(forms)
    if forms[0] != forms[1]:
        return True
    done = [_participle(side, where) for side, where in ((slot.new, ours), (slot.old, theirs))]
    if all(done) and done[0] != done[1]:
        return True
    if of_a_kind is None or forms[0] in ("name", "value"):
        return False
    later = slot.later[0].place if slot.later else None
    return of_a_kind(_phrase(slot.new, ours, later), _phrase(slot.old, theirs, None)) is False


def _names_one_of_several(where: Statement, name: Word) -> bool:
    return name.kind == "name" and _SEVERAL.search(where.text, 0, name.place) is not None


_SEVERAL: Final = re.compile(
    r"\b(?:son|daughter|child|kid|brother|sister|sibling|twin|cousin|aunt|uncle|nephew|niece|grand(?:son|daughter|child)"
    r"|friend|roommate|neighbou?r|colleague|co-?worker|teammate|client|customer|student|pupil)(?:'s name)? is"
    r"(?: (?:called|named))? $",
    re.IGNORECASE,
)


def _form(side: Sequence[Word], where: Statement) -> _Form:
    first = side[0]
    if first.kind == "name":
        return "name"
    if any(word.value for word in side):
        return "value"
    before = where.text[: first.place].rstrip().rpartition(" ")[2].lower()
    return "noun" if before in DETERMINERS else "plain"


def _participle(side: Sequence[Word], where: Statement) -> str:
    """What is done, where more is said of it: "built" of "built with Hugo"; empty where that is not so."""
    match = _DONE.match(where.text, side[0].place)
    if match is None or len(side) < _MORE or not (match[1].endswith("ed") or match[1] in IRREGULAR):
        return ""
    return side[0].key


_DONE: Final = re.compile(rf"([a-z]+) (?:{'|'.join(sorted(PREPOSITIONS))}) ")
_MORE: Final = 2


def _phrase(side: Sequence[Word], where: Statement, end: int | None) -> str:
    """As it is written, from its first word to its last."""
    return where.text[side[0].place : end].strip(" .,;:!?")
