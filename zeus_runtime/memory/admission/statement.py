"""The statement of a short text, by its form: its words in order, its topic, its denials and what it tells as gone."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from zeus_runtime.memory.admission import grammar
from zeus_runtime.memory.admission.values import Value, values
from zeus_runtime.memory.normalise import normalise
from zeus_runtime.memory.retrieval.analysis import CJK

Held: TypeAlias = tuple[str, str]
"""Who has it, empty for the user, and what."""


class Word(NamedTuple):
    """A word that carries content; in Chinese a character.

    Args:
        key: equal for words that mean the same.
        kind: a ``name`` is written with a capital inside a sentence, or with digits.
        denied: whether the clause denies it.
        gone: whether the text tells it as what was before, or was not chosen.
        about: whether it stands before the verb, with what the statement is about.
        label: it is a number that says which of several things is meant: "room 12", not "12 rooms".
        head: the word before it in the text, in lower case; articles and "now" are passed over.
        behind: what stands right before it: an ``article``, a ``number``, or else nothing of these.
        start: its place in the text.
    """

    key: str
    kind: Literal["word", "name", "value", "character"]
    value: Value | None
    denied: bool
    gone: bool
    about: bool
    label: bool
    head: str
    behind: str
    start: int


class Statement(NamedTuple):
    """A text taken apart.

    Args:
        text: normalised, phrases in one form.
        words: those that carry content, in order; ``raw`` has all of them in lower case.
        marks: of the whole text (``grammar.MARKS``).
        past: its verb is in the past tense.
        order: it names no subject and gives an instruction.
        held: what it says of something that a person has one of at a time, such as an employer; else None.
    """

    text: str
    words: tuple[Word, ...]
    raw: tuple[str, ...]
    marks: frozenset[str]
    past: bool
    order: bool
    chinese: bool
    held: Held | None


BECAME: Final = "became"
"""The head of what something came to be: "changed to", "became"."""


class _Token(NamedTuple):
    raw: str
    low: str
    start: int
    value: Value | None = None


# "node.js", "C++", "don't" and "A/B" are one token each; the full stop behind "done" is another token.
_TOKEN: Final = re.compile(
    rf"[{CJK}]|[^\W_{CJK}](?:[^\W{CJK}]+|['’.+#/&@-](?=[^\W{CJK}]))*[+#]*|[,.;:!?。、\n]|[$€£¥₹%°<>=]"
)
_CHARACTER: Final = re.compile(f"[{CJK}]")
_KANA: Final = re.compile("[\u3041-\u30ff]")
_RUN: Final = re.compile(rf"[^\W_{CJK}]+")
_POINT: Final = re.compile(r"(?<=\d)\.(?=\d)")  # of "2.5", which ends nothing


@lru_cache(4_096)
def parse(text: str) -> Statement:
    """``text`` taken apart."""
    text = grammar.TITLE_STOP.sub("", normalise(text).replace("’", "'")).translate(grammar.SIMPLIFIED)
    marks = {
        role
        for role, patterns in grammar.MARKS.items()
        if any(each.search(text) for each in patterns.of(text))
    }
    held = _held(text)
    text = grammar.in_one_form(text)
    chinese = _is_chinese(text)
    tokens = _tokens(text)
    labels = {match.start() for match in grammar.LABEL_ZH.finditer(text)} if chinese else set()
    verb = 0 if "request" in marks else _verb_zh(text, tokens, labels) if chinese else _verb(tokens)
    past = not chinese and any(grammar.in_the_past(tokens[at].low) for at in {verb, 0} if at < len(tokens))
    if not chinese and not grammar.MANY.isdisjoint(
        grammar.stem(each.low) for each in tokens[verb : verb + 4]
    ):
        marks.add("several_objects")
    if _points_back(tokens, verb, chinese=chinese):
        marks.add("pointing")
    return Statement(
        text=text,
        words=tuple(_content(text, tokens, verb, labels, chinese=chinese)),
        raw=tuple(token.low for token in tokens if token.low not in grammar.BREAKS),
        marks=frozenset(marks | {"event"} if past else marks),
        past=past,
        order=grammar.SUBJECT_ZH.match(text) is None if chinese else verb == 0,
        chinese=chinese,
        held=held,
    )


def affirmed(text: str) -> str:
    """``text`` without the clauses that deny something or tell it as past; a full stop stands for each of them.

    A clause that only goes on with the one before it is denied with it, as "Java or C" in "writes no Rust, Java or C".
    """
    text = normalise(text).replace("’", "'")
    plain = text.translate(grammar.SIMPLIFIED)
    spared = _places(match.span() for match in grammar.HARMLESS.finditer(plain))
    former = _places(match.span() for match in grammar.FORMER.finditer(plain))
    return _without(text, plain, lambda clause, _joint: any(_denies(each, spared, former) for each in clause))


def without_others(text: str, told: Collection[int]) -> str:
    """``text`` without the later clauses whose subject is a name; a full stop replaces each of them.

    In "The user likes tea, and Anna often works late", a name opens the later clause, right before its verb. Behind a
    mere comma, a name may be the rest of a place ("Graz, Austria"). A sentence begins with a capital in any case. So
    neither counts as a subject.

    Args:
        text: as ``affirmed`` gives it.
        told: where verbs begin. Without them, "and Kubernetes operators" would look like such a clause.
    """
    return _without(
        text, text.translate(grammar.SIMPLIFIED), lambda clause, joint: _is_others(clause, joint, told)
    )


def _is_others(clause: Sequence[_Token], joint: str, told: Collection[int]) -> bool:
    if joint in grammar.BREAKS and joint != ";":
        return False
    names = 0
    while names < len(clause) and _is_name(clause[names]):
        names += 1
    added = grammar.EMPTY - grammar.SUBJECTS - grammar.PREPOSITIONS
    verb = next((each.start for each in clause[names:] if each.low not in added), None)
    return names > 0 and verb in told


def _is_name(token: _Token) -> bool:
    return token.value is None and token.low not in grammar.EMPTY and _kind(token.raw, first=False) == "name"


def _without(text: str, plain: str, is_left_out: Callable[[Sequence[_Token], str], bool]) -> str:
    """``text`` without some clauses and those that only go on with them.

    Args:
        plain: the text with simplified characters.
        is_left_out: gets a clause and the last word or sign before it.
    """
    chinese = _is_chinese(plain)
    titles = {match.start() for match in grammar.TITLE_STOP.finditer(plain)}
    kept: list[str] = []
    at, left_out = 0, False
    clause: list[_Token] = []
    parted, joint = True, "."
    for token in [*_tokens(plain), _Token(".", ".", len(text))]:
        if token.low not in grammar.CLAUSES or token.start in titles:
            clause.append(token)
            continue
        if clause:
            goes_on = not parted and not _tells(plain[at : token.start], clause, chinese=chinese)
            left_out = (left_out and goes_on) or is_left_out(clause, joint)
            said = text[at : token.start]
            kept.append("." + said[len(said.rstrip()) :] if left_out else said)
            at, clause, parted = token.start, [], False
        # Of several, as in ", but", the one that parts counts.
        parted, joint = parted or token.low in grammar.PARTING, token.low
    return "".join(kept) + text[at:]


def _denies(token: _Token, spared: Collection[int], former: Collection[int]) -> bool:
    if token.value is not None or token.start in spared:
        return False
    return token.start in former or _negates(token.low) or grammar.key(token.raw) in grammar.DENYING


def _tells(text: str, clause: Sequence[_Token], *, chinese: bool) -> bool:
    """Whether a clause has a subject or a verb of its own. Otherwise it is one more entry of a list."""
    if chinese:
        return grammar.PREDICATE_ZH.search(text) is not None
    words = [token.low for token in clause if token.value is None]
    if not (grammar.SUBJECTS | grammar.COPULAS).isdisjoint(words):
        return True
    first = next((low for low in words if low not in grammar.EMPTY), "")
    return _inflected(first) or grammar.in_the_past(first)


def _is_chinese(text: str) -> bool:
    # A Latin word counts as three characters at most: one long name in a Chinese sentence does not make it English.
    latin = sum(min(len(run), 3) for run in _RUN.findall(text))
    # Japanese has kana beside its ideographs, and another grammar.
    return 2 * len(_CHARACTER.findall(text)) > latin and not _KANA.search(text)


def _held(text: str) -> Held | None:
    match = next((match for pattern in grammar.HELD.of(text) if (match := pattern.match(text))), None)
    if match is None:
        return None
    nobody, who = grammar.SUBJECTS | grammar.DETERMINERS, re.findall(r"[\w'-]+", match["who"].lower())
    who = [word for word in who if word.removesuffix("'s") not in nobody]
    return " ".join(who), (match.groupdict().get("what") or str(match.lastgroup)).lower()


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    for value in (*values(text), None):
        end = value.start if value else len(text)
        plain = [_Token(each[0], each[0].lower(), each.start()) for each in _TOKEN.finditer(text, at, end)]
        tokens += plain[1:] if tokens and plain and plain[0].low in grammar.CLASSIFIERS else plain
        if value:
            raw, at = text[value.start : value.end], value.end
            tokens.append(_Token(raw, raw.lower(), value.start, value))
    return tokens


def _verb(tokens: list[_Token]) -> int:
    """Where what is said begins: at the first verb; 0 where nothing tells, as in an order."""
    opening = _opening(tokens)
    for place, token in enumerate(tokens):
        if place < opening:
            continue
        if token.value is None and (token.low in grammar.COPULAS or _negates(token.low)):
            return place
        if not place or token.value or not token.raw.isalpha():
            continue
        before = tokens[place - 1]
        if before.low in grammar.SUBJECTS:
            return place
        noun_follows = (
            (before.value is not None and not _is_label(tokens, place - 1, topic=True))
            or before.low in grammar.DETERMINERS | grammar.PREPOSITIONS | grammar.BREAKS
            or before.low.endswith("'s")
        )
        if (
            not noun_follows
            and token.raw.islower()
            and (_inflected(token.low) or grammar.in_the_past(token.low))
        ):
            return place
    return 0


def _inflected(low: str) -> bool:
    return len(low) > 3 and re.search(r"[^su'i]s$|ed$", low) is not None


def _opening(tokens: list[_Token]) -> int:
    """Where the subject begins: behind the comma of "On old systems, the default is ...", else at the start."""
    if not tokens or tokens[0].low not in grammar.OPENERS:
        return 0
    return next((place + 1 for place, token in enumerate(tokens) if token.low == ","), 0)


def _points_back(tokens: list[_Token], verb: int, *, chinese: bool) -> bool:
    """Whether the subject is only a word for what another text said: "It requires ...", "These are ..."."""
    if chinese:
        return 0 < verb <= _PLURAL and tokens[0].low in grammar.POINTING
    return verb > 0 and tokens[verb - 1].low in grammar.POINTING


_PLURAL: Final = 2  # characters of a Chinese word for "it" or "they"


def _verb_zh(text: str, tokens: list[_Token], labels: Collection[int]) -> int:
    """The same in Chinese: at the first predicate, or else at the first value that is no label."""
    subject = grammar.SUBJECT_ZH.match(text)
    begin = subject.end() if subject else 0
    found = [match.start() for match in grammar.PREDICATE_ZH.finditer(text, begin)]
    if subject and found and found[0] == begin:
        found = found[1:] if text[begin] == "在" else [0]
    counted = [token.start for token in tokens if token.value and token.start not in labels]
    start = (found or counted or [max(labels, default=-1) + 1])[0]
    return next((place for place, token in enumerate(tokens) if token.start >= start), 0)


def _negates(low: str) -> bool:
    return low in grammar.NEGATORS or low.endswith("n't")


def _content(
    text: str, tokens: list[_Token], verb: int, labels: Collection[int], *, chinese: bool
) -> list[Word]:
    gone = [
        match for pattern in grammar.GONE.of(text) for match in pattern.finditer(_POINT.sub("\u00b7", text))
    ]
    telling = _places((match.start(), match.end("gone")) for match in gone)
    lost = _places(match.span("gone") for match in gone)
    former = _places(match.span() for match in grammar.FORMER.finditer(text))
    harmless = _places(match.span() for match in grammar.HARMLESS.finditer(text))
    words: list[Word] = []
    denied = waiting = False
    opening, head, behind = True, "", ""
    # A full stop at the end closes the last clause, whose denial may stand behind its verb.
    for place, token in enumerate([*tokens, _Token(".", ".", len(text))]):
        raw, low, start, value = token
        first, before, right_before = opening, head, behind
        opening, head = low in grammar.FULL_STOPS, head if low in grammar.PASSED_OVER else low
        behind = (
            "article" if low in grammar.DETERMINERS else "number" if value and value.kind == "number" else ""
        )
        if low in grammar.CLAUSES:
            if waiting and denied and words:  # "raucht nicht"
                words[-1] = words[-1]._replace(denied=not words[-1].denied)
            denied = waiting = False
            continue
        key = _value_key(tokens, place, value) if value else grammar.key(raw)
        turned = grammar.TURNING.fullmatch(low) is not None
        if turned or (low in grammar.TO and before == BECAME):
            head = BECAME
        other = None if value else grammar.DENYING.get(key)
        begins = start in former and start - 1 not in former
        if value is None and (begins or other is not None or (_negates(low) and start not in harmless)):
            denied, waiting = denied != (start not in telling), start not in telling and not other
            if not other:
                continue
            key = other
        elif value is None and (_empty(raw, low, start) or turned or start in former):
            continue
        words.append(
            Word(
                key=key,
                kind="value" if value else _kind(raw, first=first),
                value=value,
                denied=denied and start not in telling,
                gone=start in lost,
                about=place < verb,
                label=start in labels if chinese else _is_label(tokens, place, topic=place < verb),
                head=before,
                behind=right_before,
                start=start,
            )
        )
        waiting = waiting and bool(other)
    return words


def _places(spans: Iterable[tuple[int, int]]) -> set[int]:
    return {place for start, end in spans for place in range(start, end)}


def _empty(raw: str, low: str, start: int) -> bool:
    initials = start > 0 and raw.isupper() and raw != "I"
    return not initials and (low in grammar.EMPTY or low in grammar.BREAKS)


def _value_key(tokens: list[_Token], place: int, value: Value) -> str:
    """Equal for the same value; zeros that end a decimal count for nothing only where it measures: "2.50 EUR"."""
    text = value.text
    if value.kind == "number" and "." in text and _measures(tokens, place):
        text = text.rstrip("0").rstrip(".")
    return f"{value.kind} {text}"


def _measures(tokens: list[_Token], place: int) -> bool:
    """Whether a unit or its sign stands beside this number. Any other may be a version: "3.10"."""
    before, after = (tokens[at].low if 0 <= at < len(tokens) else "" for at in (place - 1, place + 1))
    return grammar.key(after) in grammar.UNITS or not grammar.SIGNS.isdisjoint((before, after))


def _is_label(tokens: list[_Token], place: int, *, topic: bool) -> bool:
    """Whether this is a number behind the thing that it names, and before nothing that it counts."""
    value = tokens[place].value
    if value is None or value.kind != "number" or not place:
        return False
    before, after = tokens[place - 1].low, tokens[place + 1].low if place + 1 < len(tokens) else ""
    named = before.isalpha() and before not in grammar.EMPTY and grammar.key(before) not in grammar.QUANTITIES
    return named and (topic or not after.isalpha() or after in grammar.EMPTY)


def _kind(raw: str, *, first: bool) -> Literal["word", "name", "character"]:
    if _CHARACTER.match(raw):
        return "character"
    inside = raw[1:]
    named = (
        inside != inside.lower() or any(each.isdigit() for each in inside) or (raw[0].isupper() and not first)
    )
    return "name" if named else "word"
