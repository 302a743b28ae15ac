"""Whether a new text says the same as an older one, says that its value changed, or says something else.

Both texts are taken apart and aligned word by word: the words that both have are the frame, the places that they fill
otherwise are the slots. The kinds of what fills the slots, and what each text is marked as, decide. Where nothing
tells, both stay. Only single statements replace each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import Final, Literal, NamedTuple, TypeAlias

from zeus_runtime.memory.admission import grammar
from zeus_runtime.memory.admission.decisions import SAME_WORDS
from zeus_runtime.memory.admission.statement import BECAME, Statement, Word, parse
from zeus_runtime.memory.normalise import same_words

OfAKind: TypeAlias = Callable[[str, str], bool | None]
"""Whether two words or short phrases name values of one kind; None where that is not known (``Embedder.of_a_kind``)."""


class TextVerdict(NamedTuple):
    """The relation of a new text to an older one, and the rule that found it."""

    decision: Literal["duplicate", "superseded", "different"]
    reason: str


class Slot(NamedTuple):
    """A place that the two texts fill otherwise; one side may be empty.

    Args:
        later: the words of the new text after it.
    """

    new: Sequence[Word]
    old: Sequence[Word]
    later: Sequence[Word]


_COMPARED: Final = 400
"""Words of a text; longer ones are not aligned."""


def tells_change(text: str) -> bool:
    """Whether a text says itself that something is otherwise than it was."""
    where = parse(text)
    return bool(where.marks & {"news", "now"}) or any(word.gone for word in where.words)


def held_once(text: str) -> tuple[str, str] | None:
    """Who has what, where the text names something that a person has one of at a time, such as a home; else None."""
    return parse(text).held


def compare(new: str, old: str, *, near: bool, of_a_kind: OfAKind | None = None) -> TextVerdict:
    """Whether ``new`` repeats, replaces or leaves alone what ``old`` says.

    Args:
        near: whether the embedding model takes them for the same. Without it only the texts count.
        of_a_kind: knows values of one kind; None: only their form counts.
    """
    if same_words(new, old):
        return TextVerdict("duplicate", SAME_WORDS)
    ours, theirs = parse(new), parse(old)
    if max(len(ours.words), len(theirs.words)) > _COMPARED:
        return TextVerdict("different", "too long to compare")
    if _other_person(ours, theirs):
        return TextVerdict("different", "subject")
    verdict = _told(ours, theirs, near=near) or _aligned(ours, theirs, of_a_kind, near=near)
    if verdict.decision == "superseded" and "several" in ours.marks | theirs.marks:
        return TextVerdict("different", "several sentences")
    return verdict


_BESIDE: Final = (("planned", True), ("added", False), ("another", False), ("formerly", False))
"""Marks of a new text alone that leave the older one as it is, and whether also where the new one tells a change."""


def _other_person(ours: Statement, theirs: Statement) -> bool:
    """Whether the texts are about different people: he and she, or the speaker and another person."""
    for one, other in (("he", "she"), ("speaker", "others")):
        sides = [(one in each.marks, other in each.marks) for each in (ours, theirs)]
        if sorted(sides) == [(False, True), (True, False)]:
            return True
    return False


def _beside(ours: Statement, theirs: Statement, *, news: bool) -> str | None:
    """Why ``theirs`` still holds by what each text is marked as; None where that tells nothing."""
    for mark, always in _BESIDE:
        if mark in ours.marks - theirs.marks and (always or not news):
            return mark
    return "past" if "formerly" in theirs.marks - ours.marks or (not news and _was(ours, theirs)) else None


def _was(ours: Statement, theirs: Statement) -> bool:
    """Whether ``ours`` says in the past tense what ``theirs`` says in the present, with the same verb."""
    was = {"was", "were"}
    if theirs.past or was & set(theirs.raw):
        return False
    if ours.past:
        forms = {grammar.stem(word) for word in theirs.raw}
        return any(
            grammar.in_the_past(word) and word not in theirs.raw and grammar.stem(word) in forms
            for word in ours.raw
        )
    pairs = zip(ours.raw, ours.raw[1:], strict=False)
    done = {after for word, after in pairs if word in was}
    so = any(not grammar.participle(after) or after in theirs.raw for after in done)
    return so and not {"is", "are"}.isdisjoint(theirs.raw)


def _told(ours: Statement, theirs: Statement, *, near: bool) -> TextVerdict | None:
    """What the texts themselves call gone, and what came in place of something that one has once."""
    kept = {word.key for word in ours.words if not word.gone}
    gone = {word.key for word in ours.words if word.gone} - kept
    said = [word for word in theirs.words if not word.gone]
    hit = [word for word in said if word.key in gone]
    if hit:
        named = any(word.kind == "name" for word in hit)
        same = near and (named or not any(word.kind == "name" for word in said))
        short = len(said) <= 4 and named
        stays = any(word.kind == "name" and word.key in kept for word in said)
        if same or ((said[-1].key in gone or short) and "event" not in theirs.marks and not stays):
            return TextVerdict("superseded", "told")
    if (
        ours.held is not None
        and ours.held == theirs.held
        and not theirs.past
        and (ours.past or "news" in ours.marks)
    ):
        names = [{word.key for word in each.words if word.kind == "name"} for each in (ours, theirs)]
        if not names[0] & names[1]:
            return TextVerdict("superseded", "value")
    return None


def _aligned(ours: Statement, theirs: Statement, of_a_kind: OfAKind | None, *, near: bool) -> TextVerdict:
    new = [word for word in ours.words if not word.gone]
    old = [word for word in theirs.words if not word.gone]
    slots = _slots(new, old)
    added = [word for slot in slots for word in slot.new]
    dropped = [word for slot in slots for word in slot.old]
    common = {word.key for word in new} & {word.key for word in old}
    if not common:
        return TextVerdict("different", "nothing in common")
    if _other_subject(ours, theirs, added, dropped, common):
        return TextVerdict("different", "subject")
    sides = {word.key: word.denied for word in old}
    if any(word.denied != sides.get(word.key, word.denied) for word in new):
        return (
            TextVerdict("different", "denies another")
            if added and dropped
            else TextVerdict("superseded", "denial")
        )
    lone = {word.key for word in (*added, *dropped)}
    if any(prefix + key in lone for key in lone for prefix in grammar.OPPOSITES):
        return TextVerdict("superseded", "opposite")
    if not lone and {word.key for word in ours.words if word.gone} != {
        word.key for word in theirs.words if word.gone
    }:
        return TextVerdict("different", "told otherwise")
    if not lone:
        return _same_words(ours, theirs, new, old)
    if lone <= grammar.WISHES and (theirs.order if added else ours.order):
        return TextVerdict("duplicate", "same content")
    if lone <= _MODALS:
        return TextVerdict("superseded", "modality")
    if not dropped:
        return TextVerdict("different", "says more")
    if not added:
        wider = any(word.kind in ("name", "value") for word in dropped) or _limits(theirs) - _limits(ours)
        known = near and not wider and "news" not in ours.marks - theirs.marks
        return TextVerdict("duplicate" if known else "different", "says less")
    return _filled(ours, theirs, slots, of_a_kind, near=near)


_MODALS: Final = frozenset(map(grammar.key, grammar.MODALS))


def _slots(new: Sequence[Word], old: Sequence[Word]) -> list[Slot]:
    """Where the texts differ, in order; a word that only stands elsewhere differs nowhere."""
    places = [at for at, (a, b) in enumerate(zip(new, old, strict=False)) if a.key != b.key]
    if len(new) == len(old) and all(new[at].value and old[at].value for at in places):
        return [Slot(new[at : at + 1], old[at : at + 1], new[at + 1 :]) for at in places]
    matcher = SequenceMatcher(None, [word.key for word in old], [word.key for word in new], autojunk=False)
    slots = [
        slot
        for tag, o0, o1, n0, n1 in matcher.get_opcodes()
        if tag != "equal"
        for slot in _parted(new[n0:n1], old[o0:o1], new[n1:])
    ]
    added = Counter(word.key for slot in slots for word in slot.new)
    moved = added & Counter(word.key for slot in slots for word in slot.old)
    sides = [(_without(slot.new, moved), _without(slot.old, moved), slot.later) for slot in slots]
    return [Slot(*side) for side in sides if side[0] or side[1]]


def _without(words: Sequence[Word], moved: Counter[str]) -> list[Word]:
    return [word for word in words if word.key not in moved]


def _parted(new: Sequence[Word], old: Sequence[Word], later: Sequence[Word]) -> list[Slot]:
    """One place, or several if both sides go on with the same preposition, as in "tea in the evening"."""
    for at, word in enumerate(new[1:], 1):
        for other, each in enumerate(old[1:], 1):
            if word.head == each.head and word.head in grammar.PREPOSITIONS:
                return [Slot(new[:at], old[:other], new[at:]), *_parted(new[at:], old[other:], later)]
    return [Slot(new, old, later)]


def _limits(where: Statement) -> set[str]:
    return set(grammar.LIMITS.intersection(where.raw)) | (where.marks & {"limited"})


def _other_subject(
    ours: Statement, theirs: Statement, added: Sequence[Word], dropped: Sequence[Word], common: set[str]
) -> bool:
    """Whether the texts are about different things."""
    if "inverted" in ours.marks & theirs.marks:
        return False
    ways = [{word.key: word.head for word in each.words if word.head in grammar.WAYS} for each in (ours, theirs)]
    if any(ways[1].get(key, way) != way for key, way in ways[0].items()):
        return True
    lone = [_topics(side) | _versions(side, len(added) + len(dropped)) for side in (added, dropped)]
    shared = [_topics(each.words) & common for each in (ours, theirs)]
    return all(lone) or any(side and not both for side, both in zip(lone, shared, strict=True))


def _versions(side: Sequence[Word], differing: int) -> set[str]:
    """The versions that a statement may be about where more than they differs."""
    found = {
        word.key
        for word in side
        if word.about and word.value and (word.value.kind == "version" or "." in word.value.text)
    }
    return found if differing > 2 else set()


def _same_words(ours: Statement, theirs: Statement, new: Sequence[Word], old: Sequence[Word]) -> TextVerdict:
    passive = ("passive" in ours.marks) != ("passive" in theirs.marks)
    if ours.past != theirs.past and not passive:
        return TextVerdict("superseded", "tense")
    known = {word.key for each in (ours, theirs) for word in each.words if each.text[word.start].isupper()}
    names = [[word.key for word in side if word.key in known] for side in (new, old)]
    characters = [[word.key for word in side if word.kind == "character"] for side in (new, old)]
    listed = "listed" in ours.marks & theirs.marks
    moved = names[0] != names[1] and len(new) == len(old) and not listed
    if (
        moved != (passive and len(names[0]) > 1)
        or characters[0] != characters[1]
        or _swapped(ours.raw, theirs.raw)
    ):
        return TextVerdict("superseded", "order")
    if {
        word
        for word in _written(ours) ^ _written(theirs)
        if word.lower() in ours.raw and word.lower() in theirs.raw
    }:
        return TextVerdict("superseded", "case")
    return TextVerdict("duplicate", "same content")


def _swapped(new: Sequence[str], old: Sequence[str]) -> bool:
    """Whether two words changed places and nothing else did."""
    apart = [(a, b) for a, b in zip(new, old, strict=False) if a != b]
    return len(new) == len(old) and len(apart) == 2 and apart[0] == apart[1][::-1]


def _written(where: Statement) -> set[str]:
    """Names with capitals inside, such as ``userId``."""
    return {word for word in where.text.split() if word[1:] != word[1:].lower() and not word.isupper()}


def _filled(
    ours: Statement, theirs: Statement, slots: list[Slot], of_a_kind: OfAKind | None, *, near: bool
) -> TextVerdict:
    """The rule for texts that both have something that the other one lacks."""
    both, news = ours.marks & theirs.marks, "news" in ours.marks
    if "event" in both:
        return TextVerdict("different", "event")
    if why := _beside(ours, theirs, news=news):
        return TextVerdict("different", why)
    if not news and any(map(_narrows, slots)):
        return TextVerdict("different", "narrower")
    whole = all(slot.new and slot.old for slot in slots)
    filled = [slot for slot in slots if slot.new and slot.old]
    if not news:
        if any(_of_other_things(slot, near=near and not ours.chinese) for slot in filled):
            return TextVerdict("different", "values of other things")
        several = sum(max(len(slot.new), len(slot.old)) for slot in slots) > 1
        if filled and several and _entries(ours, theirs, filled[0], filled[-1]):
            return TextVerdict("different", "entries")
        dated = any(_kinds(slot.new) & _kinds(slot.old) & {"date", "time"} for slot in filled)
        if dated and "several_objects" in both and not ours.chinese:
            return TextVerdict("different", "another one")
    if whole and all(_kinds(slot.new) & _kinds(slot.old) for slot in slots):
        return TextVerdict("superseded", "value")
    if "several_objects" in both and not any(_kinds(slot.new) & _kinds(slot.old) for slot in filled):
        return TextVerdict("different", "beside each other")
    if not whole or len(slots) > 1:
        return TextVerdict("different", "reworded")
    slot = slots[0]
    if slot.new[0].denied and slot.old[0].denied:
        return TextVerdict("different", "denies another")
    if (not news or slot.new[0].head == BECAME) and _another_side(ours, theirs, slot, of_a_kind):
        return TextVerdict("different", "another side")
    inflected = all(any(grammar.HIRAGANA.match(word.key) for word in side) for side in slot[:2])
    if (near and not inflected) or _framed(ours, theirs, slot):
        return TextVerdict("superseded", "value")
    return TextVerdict("different", "reworded")


def _kinds(side: Sequence[Word]) -> set[str]:
    """Of the values; a version may be written as a number, and a number that names a topic counts nothing."""
    return {
        "label" if word.label and word.about else word.value.kind.replace("version", "number")
        for word in side
        if word.value
    }


def _narrows(slot: Slot) -> bool:
    """Whether one text alone says of which of them it speaks: "the limit of partners" beside "the limit"."""
    about = [[word for word in side if word.about] for side in (slot.new, slot.old)]
    return bool(about[0]) != bool(about[1]) and (about[0] or about[1])[0].head in grammar.PREPOSITIONS


def _of_other_things(slot: Slot, *, near: bool) -> bool:
    """Whether the fillings are of other kinds, at other ends of a time, for others, or count other things."""
    kinds = _kinds(slot.new), _kinds(slot.old)
    if all(kinds):
        heads = {word.head for word in (*slot.new, *slot.old) if word.value}
        if not kinds[0] & kinds[1] or (heads & grammar.BEGINS and heads & grammar.ENDS):
            return True
    elif not any(kinds):
        counted = all(side[0].behind == "number" for side in (slot.new, slot.old))
        named = any(word.kind == "name" for word in (*slot.new, *slot.old))
        return (counted and not slot.later) or ({slot.new[0].head, slot.old[0].head} == {"for"} and not named)
    things = [{word.key for word in side if not word.value} for side in (slot.new, slot.old)]
    counted, units = [each - _UNITS for each in things], [each & _UNITS for each in things]
    if not all(kinds) or counted[0] & counted[1]:
        return False
    return (all(counted) and not near) or (any(counted) and bool(units[0]) != bool(units[1]))


_UNITS: Final = frozenset(map(grammar.key, grammar.UNITS))


def _entries(ours: Statement, theirs: Statement, first: Slot, last: Slot) -> bool:
    """Whether the texts are two entries of a list: a number or a date says which one differs, and more does too."""
    topic = bool(_topics(ours.words) & _topics(theirs.words))
    if all(
        _which(word, where, topic=topic) for word, where in ((first.new[0], ours), (first.old[0], theirs))
    ):
        return True
    return not ours.chinese and not first.new[0].label and last.new[-1].label and last.old[-1].label


def _which(word: Word, where: Statement, *, topic: bool) -> bool:
    dated = word.value is not None and word.value.kind in ("date", "time")
    return (dated and (word.about or word == where.words[0])) or (word.label and (word.about or not topic))


def _topics(words: Sequence[Word]) -> set[str]:
    """What a statement is about; a count or a date is not, the number of one thing among others is."""
    return {
        word.key
        for word in words
        if word.about and (word.label if word.value else word.key not in _QUANTITIES)
    }


_QUANTITIES: Final = frozenset(map(grammar.key, grammar.QUANTITIES))


def _another_side(ours: Statement, theirs: Statement, slot: Slot, of_a_kind: OfAKind | None) -> bool:
    """Whether what stands after "is" in each is of another kind, or names another of several people.

    Form tells a name, a value and "a nurse" from each other; "black" and "lazy" only who knows the words.
    """
    if "relative" in ours.marks & theirs.marks and slot.new[0].kind == slot.old[0].kind == "name":
        return True
    if not all(side[0].head in _IS for side in (slot.new, slot.old)):
        return False
    if all(
        len(side) > 1 and side[0].kind == "word" and side[1].head in grammar.PREPOSITIONS for side in slot[:2]
    ):
        return slot.new[0].key != slot.old[0].key  # "built with Hugo" and "published at ..."
    forms = [_form(slot.new), _form(slot.old)]
    if forms[0] != forms[1]:
        # What somebody has once has values of a kind, however they are worded.
        return ours.held is None or ours.held != theirs.held or not {*forms} <= {"noun", "plain"}
    if of_a_kind is None or forms[0] in ("name", "value") or ours.held is not None:
        return False
    end = slot.later[0].start if slot.later else None
    new, old = ours.text[slot.new[0].start : end], theirs.text[slot.old[0].start :]
    return of_a_kind(new.strip(" .,;:!?"), old.strip(" .,;:!?")) is False


_IS: Final = frozenset(("is", "are", "am", "be", BECAME))


def _form(side: Sequence[Word]) -> str:
    if side[0].kind == "name":
        return "name"
    if any(word.value for word in side):
        return "value"
    return "noun" if side[0].behind == "article" else "plain"


def _framed(ours: Statement, theirs: Statement, slot: Slot) -> bool:
    """Whether what surrounds the place says enough for the texts to be about one thing, even if no model says so."""
    frame = [word for word in ours.words if word not in slot.new and word.key not in grammar.WISHES]
    new, old = slot.new[0], slot.old[0]
    if ours.chinese:
        enough = len(frame) >= max(2, len(slot.new), len(slot.old)) or (
            bool(frame) and _placed(ours, theirs, slot)
        )
        return (
            enough
            and bool(_kinds(slot.new)) == bool(_kinds(slot.old))
            and (new.head == "用") == (old.head == "用")
        )
    became = new.head == BECAME and old.head in grammar.COPULAS
    if not frame or not (new.head == old.head or became):
        return False
    if (new.value and "event" not in ours.marks) or new.head in _HEADS:
        return True
    if not slot.later or new.head in grammar.SUBJECTS:
        return False
    if slot.later[0].head in grammar.COPULAS | grammar.PREPOSITIONS:
        return "event" not in ours.marks and slot.later[0].head == "for" and new.kind == old.kind == "name"
    return "'s" not in ours.text[slot.new[-1].start : slot.later[0].start]


_HEADS: Final = {BECAME} | grammar.COPULAS | grammar.PREPOSITIONS | grammar.NAMING


def _placed(ours: Statement, theirs: Statement, slot: Slot) -> bool:
    """Whether both sides name, in Chinese, where something is or how it is called, and no time."""
    if _kinds(slot.new) or _kinds(slot.old):
        return False
    if slot.new[0].head == slot.old[0].head == "在" and slot.later:
        return True
    return all(
        grammar.PLACED_ZH.search(where.text, 0, word.start)
        for word, where in ((slot.new[0], ours), (slot.old[0], theirs))
    )
