"""Which known model a user may have meant by a name that no table has. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

_SNAPSHOT: Final = re.compile(r"\d{4}-?\d{2}-?\d{2}|@|-v\d+(:\d+)?$|\blatest\b|\bpreview\b")
_PART: Final = re.compile(r"[a-z]+|\d+")
_OTHER_NAMES: Final = {"google": "gemini", "vertex": "vertex_ai", "aws": "bedrock", "together": "together_ai"}
"""What people call a provider, to litellm's word for it."""
_BEDROCK: Final = re.compile(r"[a-z-]+\.")
_RATIO: Final = 0.8


class _Rank(NamedTuple):
    """How well a known name fits, the best first in sorting."""

    kind: int
    is_snapshot: bool
    more_words: int
    distance: float
    older: tuple[int, ...]
    length: int
    name: str


def suggestions(name: str, providers: Mapping[str, str], count: int = 3) -> tuple[str, ...]:
    """Up to ``count`` known models for an unknown ``name``, best first, each as the user should write it.

    A name with a provider is compared with that provider's models only; ``openai:gpt-5.2`` has one too, and a misspelt
    provider is taken for the nearest. Names that
    differ in separators alone (``gpt-5-2``, ``gpt5.2``) come first, then those that hold all its words (``sonnet``),
    newest first, then those that are spelled nearly so.

    Args:
        providers: each known model's name to its provider, by litellm's word (empty where unknown).
    """
    provider, asked = _parted(name, frozenset(providers.values()))
    if provider is None and "/" in asked:
        return ()
    ranked = sorted(_ranked(asked.rpartition("/")[2], dict(_candidates(provider, providers))))
    if not ranked and provider is None:
        ranked = sorted(_ranked(asked, {each: each.rpartition("/")[2] for each in providers}))
    if any(not each.is_snapshot for each in ranked):
        ranked = [each for each in ranked if not each.is_snapshot]
    best = [each for each in ranked if each.kind == ranked[0].kind or each.kind < 2]
    return tuple(dict.fromkeys(each.name for each in best))[:count]


def _parted(name: str, known: frozenset[str]) -> tuple[str | None, str]:
    """The provider that a name begins with, if it names one, and the rest."""
    match = re.match(r"([^/:]+)[/:](.+)", name)
    if match is None:
        return None, name
    from zeus_runtime.config.messages.diagnostics import did_you_mean

    written = match[1].lower()
    provider = _OTHER_NAMES.get(written, written)
    near = provider if provider in known else did_you_mean(provider, sorted(known))
    return (None, name) if near is None else (near, match[2])


def _candidates(provider: str | None, providers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The spelling of each candidate model, and the part of it that is compared."""
    for key, of in providers.items():
        if provider is None:
            # Users do not shorten Bedrock's names (`us.anthropic.…`) or a reseller's.
            if "/" not in key and not _BEDROCK.match(key):
                yield key, key
        elif of == provider:
            rest = key.removeprefix(f"{provider}/")
            yield f"{provider}/{rest}", rest.rpartition("/")[2]


def _ranked(asked: str, candidates: Mapping[str, str]) -> Iterator[_Rank]:
    from difflib import SequenceMatcher

    wanted = asked.lower()
    words = _words(wanted)
    # It keeps what it learned of `b`, so the wanted name is set once.
    matcher = SequenceMatcher(b=wanted, autojunk=False)
    for name, compared in candidates.items():
        known = compared.lower()
        parts = _words(known)
        letters, numbers = _split(parts)
        more = len(set(letters) - set(words))
        older = tuple(-number for number in numbers)
        snapshot = bool(_SNAPSHOT.search(known))
        if parts == words:
            yield _Rank(0, snapshot, more, 0, older, len(name), name)
        elif words and _holds(parts, words):
            yield _Rank(1, snapshot, more, 0, older, len(name), name)
        else:
            matcher.set_seq1(known)
            # Upper bounds that cost little: `ratio` takes quadratic time, and there are thousands of names.
            if matcher.real_quick_ratio() >= _RATIO and matcher.quick_ratio() >= _RATIO:
                ratio = matcher.ratio()
                if ratio >= _RATIO:
                    yield _Rank(2, snapshot, 0, -ratio, older, len(name), name)


def _words(name: str) -> list[str]:
    """Runs of letters and runs of digits: ``gpt-4o`` and ``gpt4o`` have the same."""
    return _PART.findall(name)


def _split(parts: list[str]) -> tuple[list[str], list[int]]:
    letters = [part for part in parts if not part.isdigit()]
    # A number of four digits and more is a date.
    return letters, [int(part) for part in parts if part.isdigit() and len(part) < 4]


def _holds(parts: list[str], words: list[str]) -> bool:
    """Whether ``parts`` has ``words`` in this order; other words may be between them."""
    # `in` takes from the iterator up to the word that it finds, which keeps the order.
    rest = iter(parts)
    return all(word in rest for word in words)
