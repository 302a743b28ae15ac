"""Texts that a redactor searches for, and those of them that a text holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from zeus_runtime.config.secrets.encoded import Runs, long_runs
from zeus_runtime.config.secrets.matching import beyond_ascii, folded
from zeus_runtime.config.secrets.placeholders import (
    LEAST_DISTINCT,
    START,
    is_searched,
    placeholder,
    written_forms,
)
from zeus_runtime.config.secrets.scattered import Scattered

_LEAST_OPEN: Final = 4_096
"""Characters of a growing text that may wait, however short the secrets are: an encoding makes them longer."""
_MOST_WORDS: Final = 200
"""Of a secret; of a longer one, a stream may show the first words."""


class TokenForm(NamedTuple):
    """The form of tokens that are secrets although nobody told of them, such as the keys of a service.

    Args:
        name: the name in a placeholder begins with it.
        pattern: of the whole token; its group is the part that may be shown, and ends the name.
        public: the pattern of that part.
        length: of the whole token.
    """

    name: str
    pattern: str
    public: str
    length: int

    def places(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Where each token of this form starts and ends, and its placeholder."""
        for match in re.finditer(self.pattern, text):
            yield *match.span(), placeholder(f"{self.name}-{match[1]}")

    def is_shown_by(self, shown: str) -> bool:
        """Whether a placeholder is that of a token of this form."""
        return re.fullmatch(rf"{START}{self.name}-{self.public}>", shown) is not None


class Search:
    """Texts that are searched for.

    Args:
        forms: text to placeholder.
    """

    def __init__(self, forms: Mapping[str, str]) -> None:
        self.forms = forms
        self.texts = tuple(forms)
        # Most of a text is neither: only there a part of most forms is looked for.
        self._with_beyond = {form: beyond for form in forms if (beyond := beyond_ascii(form))}
        self._with_run = {
            form: max((form[start:end] for start, end in runs), key=len)
            for form in forms
            if form not in self._with_beyond and (runs := long_runs(form))
        }
        self._plain = [each for each in forms if each not in self._with_beyond and each not in self._with_run]

    def held_by(self, text: str, runs: Runs) -> tuple[str, ...]:
        """Those that ``text`` holds; ``runs`` are its ``long_runs``."""
        # A text holds few of the hundreds of forms; a pattern of all of them would be slow.
        found = [form for form in self._plain if form in text]
        if runs:
            joined = " ".join(text[start:end] for start, end in runs)
            found += [form for form, run in self._with_run.items() if run in joined and form in text]
        if self._with_beyond and (rest := beyond_ascii(text)):
            found += [form for form, beyond in self._with_beyond.items() if beyond in rest and form in text]
        return tuple(found)


class Searches(NamedTuple):
    """What a redactor searches for.

    Args:
        plain: in a text as it is.
        folded: in a folded text.
        bare: in a folded text without blanks, those that have some.
        scattered: in a folded text, in pieces; an escape that the secret looks like may be divided.
        gaps: where each of the bare ones must have blanks in the text.
        lengths: of the folded and bare ones that alone would be words or too short, how long each is as it is written:
            ``password`` is a word, and of the secret ``pass\\word`` only a longer text can be a way to write it.
        shown: the placeholders of all.
        quotes: whether a secret has quotes, so that ``folded`` must look at them.
        words: how many words of a growing text wait.
        most_open: how many characters of it wait at most.
        breaks: the characters that are in no secret, by blocks of Unicode; ASCII is in every secret.
        least: the characters of the shortest; a text is not longer when it is folded.
        texts: every text and pattern that is searched for.
    """

    plain: Search
    folded: Search
    bare: Search
    scattered: Scattered
    gaps: Mapping[str, Sequence[int]]
    lengths: Mapping[str, int]
    shown: frozenset[str]
    quotes: bool
    words: int
    most_open: int
    breaks: str
    least: int
    texts: Sequence[str]

    def may_find(self, text: str) -> bool:
        """Whether a text is long enough for one of them."""
        return len(text) >= self.least and bool(self.texts)


def searches_of(names: Mapping[str, str], form: TokenForm | None = None) -> Searches:
    """Those for secrets, each with the name in its placeholder.

    Args:
        form: of tokens that are found without a search here.
    """
    plain: dict[str, str] = {}
    meant: dict[str, str] = {}
    for secret, name in names.items():
        if is_searched(secret):
            for text, shown in written_forms(secret, name):
                plain.setdefault(text, shown)
    keys = {text: folded(text, quotes=False) for text in plain}
    if quotes := any("'" in key or '"' in key for key in keys.values()):
        keys = {text: folded(text) for text in plain}
    bare: dict[str, str] = {}
    gaps: dict[str, list[int]] = {}
    lengths: dict[str, int] = {}
    for text, shown in plain.items():
        key = keys[text]
        if len(set(key)) < LEAST_DISTINCT:
            continue
        meant.setdefault(key, shown)
        words = key.split()
        if len(words) > 1 and bare.setdefault("".join(words), shown) == shown:
            gaps["".join(words)] = list(accumulate(map(len, words[:-1])))
        if not is_searched(key):
            for each in (key, "".join(words)):
                lengths[each] = min(len(text), lengths.get(each, len(text)))
    written = Search(plain)
    return Searches(
        written,
        written if meant == plain else Search(meant),
        Search(bare),
        Scattered({**meant, **plain}),
        gaps,
        lengths,
        frozenset(plain.values()),
        quotes,
        max((min(len(key.split()), _MOST_WORDS) for key in meant), default=1),
        max(_LEAST_OPEN, 8 * max(map(len, (*plain, *meant)), default=0)),
        _breaks((*plain, *meant)),
        min((*map(len, (*plain, *meant, *bare)), *(() if form is None else (form.length,))), default=0),
        (*plain, *(() if form is None else (form.pattern,))),
    )


def _breaks(texts: Iterable[str]) -> str:
    """The characters outside ASCII whose block of 256 has none of ``texts``, for a character class."""
    # ASCII, and the rest of its block, is in every secret.
    taken = {0, *(ord(char) >> 8 for text in texts if not text.isascii() for char in text)}
    edges = pairwise((*sorted(taken), 0x1100))
    return "".join(
        f"\\U{first + 1 << 8:08x}-\\U{(end << 8) - 1:08x}" for first, end in edges if end - first > 1
    )
