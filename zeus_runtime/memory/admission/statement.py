"""The statement of a short text, by its form: its words in order, its topic, and its denials."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal, NamedTuple, TypeAlias

from zeus_runtime.memory.admission.values import Value, values
from zeus_runtime.memory.admission.word_forms import BREAKS, USER, Form, form_of, stem, turning
from zeus_runtime.memory.admission.wording import (
    COPULAS,
    DETERMINERS,
    EMPTY,
    FORMER,
    GONE,
    IRREGULAR,
    MANY,
    NEGATORS,
    POINT,
    PREPOSITIONS,
    SIMPLIFIED,
    SUBJECTS,
    TITLES,
    TOLD,
    ZH_COMPOUND,
    ZH_EVENT,
    ZH_MANY,
    ZH_PREDICATE,
    ZH_SAME,
    ZH_SUBJECTS,
)
from zeus_runtime.memory.normalise import lowered, normalise
from zeus_runtime.memory.retrieval.fusion import CJK

Kind: TypeAlias = Literal["word", "name", "value", "character"]


class Word(NamedTuple):
    """A word that carries content; in Chinese a character.

    Args:
        key: equal for words that mean the same.
        kind: a ``name`` is written with a capital inside a sentence, or with digits: it has no synonym.
        value: of a number, version, date or time.
        denied: whether the clause denies it.
        gone: whether the text tells it as what was before, or was not chosen.
        about: whether it belongs to what the statement is about.
        after: the word before it in the text, of whatever kind, folded; articles and "now" are passed over.
        place: its start in the text.
    """

    key: str
    kind: Kind
    value: Value | None
    denied: bool
    gone: bool
    about: bool
    after: str
    place: int


class Statement(NamedTuple):
    """A text taken apart.

    Args:
        text: normalised, Chinese phrases in one form.
        words: those that carry content, in order.
        raw: all words, folded.
        event: it tells what happened, which may happen again.
        many: its verb allows several objects at once.
        past: its verb is in the past tense.
        inverted: it names the value first ("Vim is my editor").
        chinese: most of it is Chinese.
        order: it names no person and gives an instruction.
    """

    text: str
    words: tuple[Word, ...]
    raw: tuple[str, ...]
    event: bool
    many: bool
    past: bool
    inverted: bool
    chinese: bool
    order: bool


_TOKEN: Final = re.compile(
    rf"[{CJK}]|[^\W_{CJK}](?:[^\W{CJK}]+|['’.+#/&@-](?=[^\W{CJK}]))*[+#]*|[,.;:!?。、\n]|[$€£¥₹%°<>=]"
)
_ASCII_TOKEN: Final = re.compile(r"[a-zA-Z0-9]\w*(?:['.+#/&@-]\w+)*[+#]*|[,.;:!?\n$%<>=]", re.ASCII)
"""The same for texts in ASCII, in half the time."""
_CHARACTER: Final = re.compile(f"[{CJK}]")
_KANA: Final = re.compile("[\u3041-\u30ff]")
"""What only Japanese has, whose grammar is another."""
HIRAGANA: Final = re.compile("[\u3041-\u309f]")
"""What Japanese writes particles and endings with."""


class _Token(NamedTuple):
    raw: str
    low: str
    start: int
    value: Value | None


@lru_cache(4_096)
def state(text: str) -> Statement:
    """``text`` taken apart."""
    text = TITLES.sub(r"\1", normalise(text).replace("’", "'"))
    characters = 0 if text.isascii() else len(_CHARACTER.findall(text))
    chinese = _is_chinese(text, characters) and not _KANA.search(text)
    text = text.translate(SIMPLIFIED) if characters else text
    for pattern, word in ZH_SAME if characters else ():
        text = pattern.sub(word, text)
    tokens = _tokens(text)
    verb = _predicate_zh(text, tokens) if chinese else _verb(tokens)
    words = tuple(_content(text, tokens, verb, characters=characters > 0))
    past = _past(tokens, verb) if not chinese else False
    return Statement(
        text=text,
        words=words,
        raw=tuple(token.low for token in tokens if token.low not in BREAKS),
        event=ZH_EVENT.search(text) is not None if chinese else past,
        many=_many(text, tokens, verb, chinese=chinese),
        past=past,
        inverted=_inverted(tokens, verb, text, chinese=chinese),
        chinese=chinese,
        order=ZH_SUBJECTS.match(text) is None if chinese else verb == 0,
    )


def _is_chinese(text: str, characters: int) -> bool:
    """Whether most of a text is Chinese; where it begins so, a long name counts no more than a short one."""
    if not characters or characters * 3 > len(text.replace(" ", "")):
        return characters > 0
    rest = sum(min(len(run), 3) for run in _RUN.findall(text))
    return _CHARACTER.match(text) is not None and characters * 3 > characters + rest


_RUN: Final = re.compile(rf"[^\W_{CJK}]+")


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    for value in values(text):
        tokens += _plain(text, at, value.start)
        raw = text[value.start : value.end]
        tokens.append(_Token(raw, raw.lower(), value.start, value))
        at = value.end
    tokens += _plain(text, at, len(text))
    return tokens


def _plain(text: str, start: int, end: int) -> list[_Token]:
    tokens: list[_Token] = []
    for raw in (_ASCII_TOKEN if text.isascii() else _TOKEN).findall(text, start, end):
        start = text.index(raw, start)
        tokens.append(_Token(raw, raw.lower(), start, None))
        start += len(raw)
    return tokens


def _verb(tokens: list[_Token]) -> int:
    """Where what is said begins; 0 where nothing tells, as in an order."""
    if tokens and tokens[0].low == "please":
        return 0
    for place, token in enumerate(tokens):
        before = tokens[place - 1] if place else None
        verbal = token.low in COPULAS or token.low.endswith("n't") or token.low in NEGATORS
        if verbal and token.value is None:  # "may" is a month where it is a value
            return place
        if before is None or token.value or not token.low.isalpha():
            continue
        if before.low in SUBJECTS:
            return place
        label = (
            before.value
            and place > 1
            and tokens[place - 2].low.isalpha()
            and tokens[place - 2].low not in EMPTY
        )
        bare = (
            (before.value and not label)
            or before.low in _BEFORE_NOUNS
            or before.raw.endswith("'s")
            or before.low in BREAKS
        )
        if (
            not bare
            and ((_INFLECTED.search(token.low) and len(token.low) > 3) or token.low in IRREGULAR)
            and token.raw.islower()
        ):
            return place
    return 0


_BEFORE_NOUNS: Final = DETERMINERS | PREPOSITIONS
_INFLECTED: Final = re.compile(r"[^su'i]s$|ed$")


def _predicate_zh(text: str, tokens: list[_Token]) -> int:
    subject = ZH_SUBJECTS.match(text)
    match = ZH_PREDICATE.search(text, subject.end() if subject else 0)
    if match is None or (subject and match.start() == subject.end() and match[0] != "在"):
        return 0
    start = match.start()
    if match[0] == "在" and subject and start == subject.end():
        later = ZH_PREDICATE.search(text, match.end())
        start = later.start() if later else 0
    return next((place for place, token in enumerate(tokens) if token.start >= start), 0)


def _past(tokens: list[_Token], verb: int) -> bool:
    for place in dict.fromkeys((verb, 0)):
        if place < len(tokens):
            word = tokens[place]
            told = (word.low.endswith("ed") and len(word.low) > 4) or word.low in IRREGULAR
            if told and not turning(word.low) and word.value is None:
                return True
    return False


def _many(text: str, tokens: list[_Token], verb: int, *, chinese: bool) -> bool:
    if chinese:
        return ZH_MANY.search(text) is not None
    lows = [token.low for token in tokens[verb : verb + 4]]
    if any(stem(low) in _MANY_STEMS for low in lows):
        return True
    if lows[:1] == ["is"] and verb and tokens[verb - 1].low == "there":
        return lows[1:2] in (["a"], ["an"])
    return any(low in ("has", "have") and after in ("a", "an") for low, after in pairwise(lows))


def _inverted(tokens: list[_Token], verb: int, text: str, *, chinese: bool) -> bool:
    """ "Vim is my editor", "Node 20 is used": a name first, and then what it is for."""
    if chinese:
        return re.match(r"[^是,。]{1,20}是(?:我|用户|项目|团队|本|该|公司)", text) is not None
    lows = [token.low for token in tokens[verb : verb + 3]]
    return (
        len(lows) > 1
        and lows[0] in ("is", "are", "was", "were")
        and (lows[1] in ("my", "our", "the", "their", "his", "her", "used", "required", "user's", "what"))
        and tokens[0].low not in DETERMINERS
    )


_MANY_STEMS: Final = frozenset(map(stem, MANY))


def _content(text: str, tokens: list[_Token], verb: int, *, characters: bool) -> list[Word]:
    gone, former = _told(text)
    plainly = not gone and not former
    telling = lost = begun = former_places = _NOWHERE
    if not plainly:
        telling, lost = _places((begin, end) for begin, _, end in gone), _places(span[1:] for span in gone)
        begun, former_places = frozenset(begin for begin, _ in former), _places(former)
    harmless = _places(match.span() for match in ZH_COMPOUND.finditer(text)) if characters else _NOWHERE
    words: list[Word] = []
    denied = False
    waiting = False
    before = ""
    opening = True
    kind: Kind
    for place, (raw, low, start, value) in enumerate([*tokens, _END]):
        form = form_of(raw)
        previous, first = before, opening
        if not form.passed:
            before = low
        opening = form.ends
        if form.simple and plainly and value is None:
            if not form.empty:
                kind = _kind(form, first=first)
                words.append(Word(form.key, kind, None, denied, False, place < verb, previous, start))
                waiting = False
            continue
        if form.parts:
            if waiting and denied and words:
                words[-1] = words[-1]._replace(denied=not words[-1].denied)
            denied = waiting = False
            continue
        told = start in telling
        other = form.denied
        denies = start in begun or (form.denies and start not in harmless)
        if other is not None or (value is None and denies):
            denied, waiting = denied != (not told), not told and not other
            if other:
                words.append(Word(other, "word", None, denied, told, False, previous, start))
            continue
        if value is None and _empty(raw, start, form, text):
            continue
        if form.turns or start in former_places:
            continue
        past = start in lost
        key = f"{value.kind} {value.text}" if value else form.key
        kind = "value" if value else _kind(form, first=first)
        words.append(Word(key, kind, value, denied and not told, past, place < verb, previous, start))
        waiting = False
    return words


def _told(text: str) -> tuple[list[tuple[int, int, int]], list[tuple[int, int]]]:
    """What the text tells as gone, from the telling word on, and the words that tell what was before."""
    low = lowered(text)
    if not any(map(low.__contains__, _TOLD_IN_ASCII if text.isascii() else TOLD)):
        return [], []
    text = POINT.sub("\u00b7", text)
    gone = [
        (match.start(), match.start("gone"), match.end("gone"))
        for telling in GONE
        for match in telling.matches(text, low)
    ]
    return gone, [match.span() for match in FORMER.matches(text, low)]


_TOLD_IN_ASCII: Final = tuple(
    sign for sign in TOLD if sign.isascii() and not any(other in sign for other in TOLD if other != sign)
)
_END: Final = _Token(".", ".", 1 << 30, None)


def _places(spans: Iterable[tuple[int, int]]) -> frozenset[int]:
    """Every place within: asked for each word, where a text may have as many spans as words."""
    return frozenset(place for start, end in spans for place in range(start, end))


_NOWHERE: Final[frozenset[int]] = frozenset()


def _empty(raw: str, start: int, form: Form, text: str) -> bool:
    if start and form.upper and len(raw) == 1 and raw != "I":
        return False
    if form.empty:
        return True
    if raw not in USER:
        return False
    here = ZH_SUBJECTS.match(text, max(0, start - 1))
    return (here is not None and here[0] == USER) or text.startswith(USER, start)


def _kind(form: Form, *, first: bool) -> Kind:
    if form.character:
        return "character"
    return "name" if form.inside or (form.upper and not first) else "word"
