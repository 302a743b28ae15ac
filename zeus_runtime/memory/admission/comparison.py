"""Whether a new text says the same as an older one, says that its value changed, or says something else.

Both texts are taken apart and aligned word by word: the words that both have are the frame, the places that they fill
otherwise are the slots. The kinds of what fills the slots, and what each text is marked as, decide. Where nothing
tells, both stay. Only single statements replace each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from functools import partial
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


_different: Final = partial(TextVerdict, "different")
_superseded: Final = partial(TextVerdict, "superseded")


class Slot(NamedTuple):
    """A place that the two texts fill otherwise; one side may be empty, and ``later`` are our words after it."""

    new: Sequence[Word]
    old: Sequence[Word]
    later: Sequence[Word]


_COMPARED: Final = 400  # words of a text; longer ones are not aligned
_PLACE: Final = 4  # words of a text that says little more than what may be gone, or what is filled otherwise


def tells_change(text: str) -> bool:
    """Whether a text says itself that something is otherwise than it was."""
    where = parse(text)
    return not where.marks.isdisjoint(("news", "now")) or any(word.gone for word in where.words)


def compare(
    new: str, old: str, *, near: bool, of_a_kind: OfAKind | None = None, of_one: bool = False
) -> TextVerdict:
    """Whether ``new`` repeats, replaces or leaves alone what ``old`` says.

    Args:
        near: whether the embedding model takes them for the same. Without it only the texts count.
        of_a_kind: knows values of one kind; None: only their form counts.
        of_one: both are known to be about the same thing, so that "it" is the same in both.
    """
    if same_words(new, old):
        return TextVerdict("duplicate", SAME_WORDS)
    ours, theirs = parse(new), parse(old)
    if _is_part(ours) or _is_part(theirs):
        return _different("part")
    if max(len(ours.words), len(theirs.words)) > _COMPARED:
        return _different("too long to compare")
    if _other_person(ours, theirs):
        return _different("subject")
    verdict = _told(ours, theirs, near=near) or _aligned(ours, theirs, of_a_kind, near=near)
    if verdict.decision == "superseded":
        if "several" in ours.marks | theirs.marks:
            return _different("several sentences")
        if not of_one and "pointing" in ours.marks | theirs.marks:
            return _different("points back")
    return verdict


def _is_part(where: Statement) -> bool:
    """Whether the text is a part of something larger, such as a row of a table: no clause to take apart."""
    return "part" in where.marks


def _other_person(ours: Statement, theirs: Statement) -> bool:
    """Whether the texts are about different people: he and she, or the speaker and another person."""
    return any(
        # One text has the first mark alone and the other text the second alone; a text with both tells nothing.
        sorted((one in each.marks, other in each.marks) for each in (ours, theirs))
        == [(False, True), (True, False)]
        for one, other in (("he", "she"), ("speaker", "others"))
    )


def _told(ours: Statement, theirs: Statement, *, near: bool) -> TextVerdict | None:
    """What the new text itself calls gone, and what came in place of something that one has once."""
    kept = {word.key for word in ours.words if not word.gone}
    said = [word for word in theirs.words if not word.gone]
    hit = [word for word in said if word.key in _gone(ours) - kept]
    if hit:
        names = [word.key for word in said if word.kind == "name"]
        named = any(word.kind == "name" for word in hit)
        half = 2 * sum(not word.about for word in hit) >= sum(not word.about for word in said)
        half = half and 2 * sum(word in hit or word.key in kept for word in said) >= len(said)
        at_the_end = (said[-1] in hit and half) or (named and len(said) <= _PLACE)
        if (near and named >= bool(names)) or (
            at_the_end and "event" not in theirs.marks and kept.isdisjoint(names)
        ):
            return _superseded("told")
    came = ours.held is not None and (ours.past or "news" in ours.marks)
    if came and ours.held == theirs.held and not theirs.past:
        names = [word.key for word in said if word.kind == "name"]
        return _superseded("value") if kept.isdisjoint(names) else None
    return None


def _gone(where: Statement) -> set[str]:
    return {word.key for word in where.words if word.gone}


def _aligned(ours: Statement, theirs: Statement, of_a_kind: OfAKind | None, *, near: bool) -> TextVerdict:
    new, old = ([word for word in each.words if not word.gone] for each in (ours, theirs))
    slots = _slots(new, old)
    added, dropped = ([word for slot in slots for word in slot[side]] for side in (0, 1))
    sides = {word.key: word.denied for word in old}
    common = sides.keys() & {word.key for word in new}
    if not common:
        return _different("nothing in common")
    if _other_subject(ours, theirs, added, dropped, common):
        return _different("subject")
    if any(word.denied != sides.get(word.key, word.denied) for word in new):
        half = 2 * len(common) >= max(len(new), len(old)) and not (added and dropped)
        return _superseded("denial") if half else _different("denies another")
    if added and dropped and _share_little(ours, theirs, common):
        return _different("little in common")
    lone = {word.key for word in (*added, *dropped)}
    if any(prefix + key in lone for key in lone for prefix in grammar.OPPOSITES):
        return _superseded("opposite")
    if not lone:
        return _same_content(ours, theirs, new, old)
    if lone <= grammar.WISHES and (theirs.order if added else ours.order):
        return TextVerdict("duplicate", "same content")
    if lone <= grammar.MODALS:
        return _superseded("modality")
    if not dropped:
        return _different("says more")
    if not added:
        wider = any(word.kind in ("name", "value") for word in dropped) or "news" in ours.marks - theirs.marks
        return TextVerdict("duplicate" if near and not wider else "different", "says less")
    return _filled(ours, theirs, slots, of_a_kind, near=near)


def _share_little(ours: Statement, theirs: Statement, common: set[str]) -> bool:
    """Whether less than about half of the longer text is in both, so that one place filled otherwise tells nothing.

    A name or value of several words counts as one. Characters of Chinese are no words, so their number tells nothing.
    """
    if ours.chinese or theirs.chinese or (ours.held is not None and ours.held == theirs.held):
        return False
    return 2 * len(common) + 1 < max(_parts(ours), _parts(theirs))


def _is_short(ours: Statement, theirs: Statement) -> bool:
    """Whether the texts are so short that an embedding model tells them apart; a word of many moves it little."""
    return ours.chinese or theirs.chinese or max(_parts(ours), _parts(theirs)) <= _PLACE


def _parts(where: Statement) -> int:
    plain = [word.kind == "word" for word in where.words if not word.gone]
    return sum(own or before for own, before in zip(plain, [True, *plain], strict=False))


def _slots(new: Sequence[Word], old: Sequence[Word]) -> list[Slot]:
    """Where the texts differ, in order; a word that only stands elsewhere differs nowhere."""
    places = [at for at, (a, b) in enumerate(zip(new, old, strict=False)) if a.key != b.key]
    # Only values differ, word by word: no alignment can be better, and equal numbers must not be matched across
    # places.
    if len(new) == len(old) and all(new[at].value and old[at].value for at in places):
        return [Slot(new[at : at + 1], old[at : at + 1], new[at + 1 :]) for at in places]
    # `autojunk` would ignore the frequent words of texts with 200 words or more.
    matcher = SequenceMatcher(None, [word.key for word in old], [word.key for word in new], autojunk=False)
    slots = [
        slot
        for tag, o0, o1, n0, n1 in matcher.get_opcodes()
        if tag != "equal"
        for slot in _parted(new[n0:n1], old[o0:o1], new[n1:])
    ]
    added, dropped = (Counter(word.key for slot in slots for word in slot[side]) for side in (0, 1))
    # A word that only changed its place is added once and dropped once.
    moved = added & dropped
    kept = [[[word for word in side if word.key not in moved] for side in slot[:2]] for slot in slots]
    return [Slot(new, old, slot.later) for (new, old), slot in zip(kept, slots, strict=True) if new or old]


def _parted(new: Sequence[Word], old: Sequence[Word], later: Sequence[Word]) -> list[Slot]:
    """One place, or several if both sides go on with the same preposition, as in "tea in the evening"."""
    for at, word in enumerate(new[1:], 1):
        for other, each in enumerate(old[1:], 1):
            if word.head == each.head and word.head in grammar.PREPOSITIONS:
                return [Slot(new[:at], old[:other], new[at:]), *_parted(new[at:], old[other:], later)]
    return [Slot(new, old, later)]


def _other_subject(
    ours: Statement, theirs: Statement, added: Sequence[Word], dropped: Sequence[Word], common: set[str]
) -> bool:
    """Whether the texts are about different things, or of the way to a place and the way back."""
    if "inverted" in ours.marks & theirs.marks:
        return False
    ways = [
        {word.key: word.head for word in each.words if word.head in grammar.WAYS} for each in (ours, theirs)
    ]
    if any(ways[1].get(key, way) != way for key, way in ways[0].items()):
        return True
    lone = _topics(added), _topics(dropped)
    shared = [_topics(each.words) & common for each in (ours, theirs)]
    return all(lone) or any(side and not both for side, both in zip(lone, shared, strict=True))


def _topics(words: Sequence[Word]) -> set[str]:
    """What a statement is about; a count or a date is not, the number of one thing among others is."""
    about = [word for word in words if word.about]
    return {word.key for word in about if (word.label if word.value else word.key not in grammar.QUANTITIES)}


def _same_content(ours: Statement, theirs: Statement, new: list[Word], old: list[Word]) -> TextVerdict:
    """The rule for texts of the same words: they may be in another order or tense."""
    if _gone(ours) != _gone(theirs):
        return _different("told otherwise")
    passive = ("passive" in ours.marks) != ("passive" in theirs.marks)
    if ours.past != theirs.past and not passive:
        return _superseded("tense")
    capital = {word.key for each in (ours, theirs) for word in each.words if each.text[word.start].isupper()}
    names = [[word.key for word in side if word.key in capital] for side in (new, old)]
    characters = [[word.key for word in side if word.kind == "character"] for side in (new, old)]
    apart = [pair for pair in zip(ours.raw, theirs.raw, strict=False) if pair[0] != pair[1]]
    swapped = len(ours.raw) == len(theirs.raw) and len(apart) == 2 and apart[0] == apart[1][::-1]
    moved = names[0] != names[1] and len(new) == len(old) and "listed" not in ours.marks & theirs.marks
    if moved != (passive and len(names[0]) > 1) or characters[0] != characters[1] or swapped:
        return _superseded("order")
    return TextVerdict("duplicate", "same content")


def _filled(
    ours: Statement, theirs: Statement, slots: list[Slot], of_a_kind: OfAKind | None, *, near: bool
) -> TextVerdict:
    """The rule for texts that both have something that the other one lacks."""
    both, news = ours.marks & theirs.marks, "news" in ours.marks
    filled = [slot for slot in slots if slot.new and slot.old]
    kinds = [_kinds(slot.new) & _kinds(slot.old) for slot in filled]
    if "event" in both:
        return _different("event")
    why = _beside(ours, theirs, news=news) or (
        None if news else _apart(ours, theirs, slots, filled, near=near)
    )
    if why:
        return _different(why)
    if len(filled) == len(slots) and all(kinds):
        return _superseded("value")
    if "several_objects" in both and not any(kinds):
        return _different("beside each other")
    if (
        len(slots) > 1
        or not filled
        or all(any("\u3041" <= each.key <= "\u309f" for each in side) for side in slots[0][:2])
    ):
        return _different("reworded")  # common endings in hiragana make texts near that say different things
    slot = slots[0]
    if slot.new[0].denied and slot.old[0].denied:
        return _different("denies another")
    if (not news or slot.new[0].head == BECAME) and _another_side(ours, theirs, slot, of_a_kind):
        return _different("another side")
    surely_near = near and (news or _is_short(ours, theirs))
    return _superseded("value") if surely_near or _framed(ours, theirs, slot) else _different("reworded")


_BESIDE: Final = ("added", "another", "formerly")
"""Marks of a new text alone that leave the older one as it is, unless the new one tells a change."""


def _beside(ours: Statement, theirs: Statement, *, news: bool) -> str | None:
    """Why ``theirs`` still holds by what each text is marked as as a whole; None where that tells nothing."""
    only, others = ours.marks - theirs.marks, theirs.marks - ours.marks
    if "planned" in only:
        return "planned"
    if "formerly" in others or (not news and _was(ours, theirs)):
        return "past"
    return None if news else next((mark for mark in _BESIDE if mark in only), None)


def _was(ours: Statement, theirs: Statement) -> bool:
    """Whether ``ours`` says in the past tense what ``theirs`` says in the present, with the same verb."""
    if theirs.past or not grammar.WERE.isdisjoint(theirs.raw):
        return False
    if ours.past:
        forms = {grammar.stem(word) for word in theirs.raw}
        told = set(filter(grammar.in_the_past, ours.raw)) - set(theirs.raw)
        return not forms.isdisjoint(map(grammar.stem, told))
    after = {word for verb, word in zip(ours.raw, ours.raw[1:], strict=False) if verb in grammar.WERE}
    return not grammar.IS.isdisjoint(theirs.raw) and any(
        not grammar.participle(word) or word in theirs.raw for word in after
    )


def _apart(
    ours: Statement, theirs: Statement, slots: list[Slot], filled: list[Slot], *, near: bool
) -> str | None:
    """Why the slots show that the texts are about different things; a text that tells a change is not held apart."""
    if any(map(_narrows, slots)):
        return "narrower"
    if any(_of_other_things(slot, near=near and not ours.chinese) for slot in filled):
        return "values of other things"
    if filled and max(len(slots), *(len(side) for slot in slots for side in slot[:2])) > 1:
        first, last = filled[0], filled[-1]
        topic = bool(_topics(ours.words) & _topics(theirs.words))
        which = _which(first.new[0], ours, topic=topic) and _which(first.old[0], theirs, topic=topic)
        of_one = not ours.chinese and not first.new[0].label and last.new[-1].label and last.old[-1].label
        if which or of_one:
            return "entries"
    dated = any(_kinds(slot.new) & _kinds(slot.old) & {"date", "time"} for slot in filled)
    several = "several_objects" in ours.marks & theirs.marks and not ours.chinese
    return "another one" if dated and several else None


def _which(word: Word, where: Statement, *, topic: bool) -> bool:
    """Whether a number or a date says which entry of a list the text is: "room 12", "on Monday, ..."."""
    dated = word.value is not None and word.value.kind in ("date", "time")
    return (dated and (word.about or word == where.words[0])) or (word.label and (word.about or not topic))


def _kinds(side: Sequence[Word]) -> set[str]:
    """Of the values; a version may be written as a number, and a number that names a topic counts nothing."""
    found = [(word, word.value.kind) for word in side if word.value]
    return {
        "label" if each.label and each.about else kind.replace("version", "number") for each, kind in found
    }


def _narrows(slot: Slot) -> bool:
    """Whether one text alone says of which of them it speaks: "the limit of partners" beside "the limit"."""
    about = [[word for word in side if word.about] for side in slot[:2]]
    return bool(about[0]) != bool(about[1]) and (about[0] or about[1])[0].head in grammar.PREPOSITIONS


def _of_other_things(slot: Slot, *, near: bool) -> bool:
    """Whether the fillings are of other kinds, at other ends of a time, for others, or count other things."""
    kinds, words = (_kinds(slot.new), _kinds(slot.old)), (*slot.new, *slot.old)
    things = [{word.key for word in side if not word.value} for side in slot[:2]]
    counted, units = [each - grammar.UNITS for each in things], [each & grammar.UNITS for each in things]
    if not any(kinds):
        last = not slot.later and slot.new[0].behind == slot.old[0].behind == "number"
        others = slot.new[0].head == slot.old[0].head == "for"
        return last or (others and not any(word.kind == "name" for word in words))
    if not all(kinds):
        return False
    heads = {word.head for word in words if word.value}
    if kinds[0].isdisjoint(kinds[1]) or (heads & grammar.BEGINS and heads & grammar.ENDS):
        return True
    unlike = (all(counted) and not near) or (any(counted) and bool(units[0]) != bool(units[1]))
    return unlike and counted[0].isdisjoint(counted[1])


def _another_side(ours: Statement, theirs: Statement, slot: Slot, of_a_kind: OfAKind | None) -> bool:
    """Whether what stands after "is" in each is of another kind, or names another of several people.

    Form tells a name, a value and "a nurse" from each other; "black" and "lazy" only who knows the words.
    """
    new, old = slot.new[0], slot.old[0]
    if "relative" in ours.marks & theirs.marks and new.kind == old.kind == "name":
        return True
    if not (new.head in (*grammar.IS, BECAME) and old.head in grammar.IS):
        return False
    if all(
        len(side) > 1 and side[0].kind == "word" and side[1].head in grammar.PREPOSITIONS for side in slot[:2]
    ):
        return new.key != old.key  # "built with Hugo" and "published at ..."
    forms, held = {_form(slot.new), _form(slot.old)}, ours.held is not None and ours.held == theirs.held
    if len(forms) > 1:
        return not (held and forms == {"noun", "plain"})
    if of_a_kind is None or held or not forms <= {"noun", "plain"}:
        return False
    end = slot.later[0].start if slot.later else None
    phrases = ours.text[new.start : end], theirs.text[old.start :]
    return of_a_kind(*(phrase.strip(" .,;:!?") for phrase in phrases)) is False


def _form(side: Sequence[Word]) -> str:
    if side[0].kind == "name" or any(word.value for word in side):
        return "name" if side[0].kind == "name" else "value"
    return "noun" if side[0].behind == "article" else "plain"


def _framed(ours: Statement, theirs: Statement, slot: Slot) -> bool:
    """Whether what surrounds the place says enough for the texts to be about one thing, even if no model says so."""
    new, old = slot.new[0], slot.old[0]
    frame = [word for word in ours.words if word not in slot.new and word.key not in grammar.WISHES]
    if ours.held is not None and ours.held == theirs.held:
        return True
    if ours.chinese:
        enough = len(frame) >= max(2, len(slot.new), len(slot.old))
        alike = bool(_kinds(slot.new)) == bool(_kinds(slot.old))
        return enough and alike and (new.head in grammar.HEADS) == (old.head in grammar.HEADS)
    if not frame or (new.head != old.head and not (new.head == BECAME and old.head in grammar.COPULAS)):
        return False
    event = "event" in ours.marks
    if (new.value and not event) or new.head in grammar.HEADS or new.head == BECAME:
        return True
    if not slot.later or new.head in grammar.SUBJECTS:
        return False
    if slot.later[0].head in grammar.COPULAS | grammar.PREPOSITIONS:
        return not event and slot.later[0].head == "for" and new.kind == old.kind == "name"
    return "'s" not in ours.text[slot.new[-1].start : slot.later[0].start]
