"""The words of a text as the index has them: folded, without stop words, stemmed in the text's language.

Stems are Snowball's; stop words of languages other than English and Chinese are those of the package ``stop-words``,
whose English list has too many words that tell something, such as ``home`` and ``work``. A change of what comes out
raises ``ANALYSIS``: places that were indexed before are then indexed again (``records.reindexed``), and documents of
knowledge bases are read again.
"""

from __future__ import annotations

import unicodedata
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

import regex

from zeus_runtime.memory.normalise import normalise

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ANALYSIS: Final = 1
"""Which analysis this is. 0 is that before there was a number."""

CJK: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
"""The inside of a character class: characters of scripts that write no spaces between words."""
_PAIRED: Final = r"\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
"""Scripts that write no spaces between words, or put particles behind them: two characters are a word there.

Of Chinese, pairs beside single characters find no more (``benchmarks.memory_quality``) and would double the index.
"""
_TOKEN = regex.compile(rf"[{CJK}]|[{_PAIRED}][{_PAIRED}\p{{M}}]*|[^\W_{CJK}{_PAIRED}][^\W_{CJK}{_PAIRED}]*")
# Elsewhere marks are letters: Hindi's vowels and Thai's tones must stay.
_MARK = regex.compile(r"(?<=[\p{Latin}\p{Greek}\p{Cyrillic}])\p{Mn}+")
_IS_PAIRED = regex.compile(rf"[{_PAIRED}]")

_ENGLISH: Final = frozenset(
    "a an and are as at be by did do does for from had has have he her his how i in is it its me my of on or our "
    "she that the their they this to was we were what when where which who why will with you your "
    "d don ll m re s t ve".split()
)
"""The last ones are what an apostrophe parts from a word."""
_CHINESE: Final = frozenset("的了是我你他她它们在有和与就也都很吗呢吧啊把被这那个着得地之")
_ASKING: Final = frozenset(
    "about am any been being but can could hers him if into might must no nor not now please shall should so some such "
    "tell than theirs them then there these those while whom whose would yours much many".split()
)
"""Words that ask, beside those that are not indexed. ``may`` and ``us`` are not among them: a month and a country."""
_OF_ENGLISH: Final = _ENGLISH | _ASKING
# Not in 几何 (geometry), 几乎 (almost) and 哪吒 (a name), where the character does not ask.
_ASKING_CJK: Final = regex.compile(
    "为什么|为何|什么时候|什么|何时|何处|怎么样|怎么|怎样|如何|多少|多久|多大|多长|多远|多早|多高|多重|几[点号时]|"
    "几(?![何乎])|哪(?!吒)[里儿个些天位种座家年月一]?|谁|是否|是不是|有没有|能不能|要不要|会不会|可不可以|可以|"
    "应该|需要|请问|吗|呢"
)

_LANGUAGES: Final = (
    "arabic catalan czech danish dutch finnish french german greek hindi hungarian indonesian italian norwegian "
    "persian polish portuguese romanian russian spanish swedish turkish".split()
)
"""Those beside English of which there are both stems and stop words."""
_BY_SCRIPT: Final = (
    (regex.compile(r"\p{Cyrillic}"), "russian"),
    (regex.compile(r"\p{Greek}"), "greek"),
    (regex.compile(r"\p{Arabic}"), "arabic"),
    (regex.compile(r"\p{Devanagari}"), "hindi"),
)
OR: Final = "|"
"""Between the forms of one word of a query: any of them is it."""


def search_tokens(text: str) -> list[str]:
    """The words of ``text`` as an index has them, each CJK character alone."""
    words = plain_words(text)
    language = language_of(words)
    return [token for word in words for token in word_tokens(word, language)]


def language_of(words: Sequence[str]) -> str:
    """The language in which a text of these words is indexed."""
    return known_language(words) or "english"


def known_language(words: Sequence[str]) -> str | None:
    """The language that stop words or the script tell; None if nothing does."""
    return _language(words) or next(
        (language for script, language in _BY_SCRIPT if any(map(script.match, words))), None
    )


def likely_languages(words: Sequence[str]) -> list[str]:
    """The languages of which most stop words are among these, or that the script tells; all if nothing tells one."""
    english = sum(map(_OF_ENGLISH.__contains__, words))
    counts = [0] * len(_LANGUAGES)
    for mask in filter(None, map(_stop_words().get, words)):
        left = mask
        # Each round takes the lowest bit that is set: one language that has this stop word.
        while left:
            counts[(left & -left).bit_length() - 1] += 1
            left &= left - 1
    most = max(english, *counts)
    if not most:
        told = known_language(words)
        return ["english", *_LANGUAGES] if told is None else [told]
    others = [name for name, count in zip(_LANGUAGES, counts, strict=True) if count == most]
    return ["english", *others] if english == most else others


def word_tokens(word: str, language: str) -> Sequence[str]:
    """How a text in this language has one of ``plain_words``; nothing for a stop word, one token for one in ASCII."""
    if _is_stop(word, language):
        return ()
    return _pairs(word) if _IS_PAIRED.match(word) else (_stem(word, language),)


def query_tokens(query: str) -> list[str]:
    """The words of ``query`` to look for, without those that only ask; with them if nothing else is left.

    A memory is a statement: it need not have them, and one that has them by chance fits no better. A word has all the
    forms, joined by ``OR``, that the languages have of it which the query and the memory may be in: a query of a few
    words tells none.
    """
    words = plain_words(_ASKING_CJK.sub(" ", normalise(query)))
    language = _language(words)
    asked = [word for word in words if word not in _ASKING and not _is_stop(word, language)]
    if not asked:
        words = plain_words(query)
        language = _language(words)
        asked = [word for word in words if not _is_stop(word, language)]
    return [form for word in asked for form in _forms(word, language)]


def plain_words(text: str) -> list[str]:
    """The words of ``text``, with case and compatibility folded, in order."""
    found: list[str] = _TOKEN.findall(normalise(text).casefold())
    return found


def _forms(word: str, language: str | None) -> Iterator[str]:
    if _IS_PAIRED.match(word):
        yield from _pairs(word)
        return
    names = ("english", *_LANGUAGES) if language is None else ("english", language)
    yield OR.join(dict.fromkeys(_stem(word, name) for name in names))


def _pairs(word: str) -> list[str]:
    return [word[at : at + 2] for at in range(len(word) - 1)] or [word]


@lru_cache(20_000)
def _stem(word: str, language: str) -> str:
    """Its stem without diacritics. English has none, so there they are left out first: ``Tomáš`` is ``Tomas``."""
    if language == "english":
        word = _unmarked(word)
    return _unmarked(_stemmer(language).stemWord(word)) or word


@cache
def _stemmer(language: str) -> Any:
    from Stemmer import Stemmer

    return Stemmer(language)


def _unmarked(word: str) -> str:
    if word.isascii():
        return word
    return unicodedata.normalize("NFC", _MARK.sub("", unicodedata.normalize("NFD", word))).casefold()


def _is_stop(word: str, language: str | None) -> bool:
    if word in _CHINESE:
        return True
    if language is None or language == "english":
        return word in _ENGLISH
    return bool(_stop_words().get(word, 0) & 1 << _LANGUAGES.index(language))


def _language(words: Sequence[str]) -> str | None:
    """The language most of whose stop words are among these, English if it has as many; None without any."""
    english = sum(map(_OF_ENGLISH.__contains__, words))
    known = [*filter(None, map(_stop_words().get, words))]
    best, most = "english", english
    if len(known) > english:
        for number, name in enumerate(_LANGUAGES):
            own = sum(mask >> number & 1 for mask in known)
            if own > most:
                best, most = name, own
    return best if most else None


@cache
def _stop_words() -> Mapping[str, int]:
    """Each stop word with the languages that have it, one bit for each."""
    from stop_words import get_stop_words

    found: dict[str, int] = {}
    for number, name in enumerate(_LANGUAGES):
        for listed in get_stop_words(name):
            for word in plain_words(listed):
                found[word] = found.get(word, 0) | 1 << number
    return found
