"""One similarity from two signals: the cosine of vectors and the words in common.

Ranks are not fused, scores are: a weak signal that ranks noise first must not count as much as a strong one. Each
signal is first brought to a scale from 0, nothing to do with the query, to 1, as good as the query itself. The
lexical part here is the reference for what the databases' full-text indexes do.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from zeus_runtime.memory.embedding import Calibration
from zeus_runtime.memory.normalise import normalise

CJK: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
"""The inside of a character class: characters of scripts that write no spaces between words."""

_TOKEN = re.compile(rf"[{CJK}]|[^\W_{CJK}]+")
_STOP: Final = frozenset(
    "a an and are as at be by did do does for from had has have he her his how i in is it its me my of on or our "
    "she that the their they this to was we were what when where which who why will with you your".split()
) | frozenset("的了是我你他她它们在有和与就也都很吗呢吧啊把被这那个着得地之")

_ASKING: Final = frozenset(
    "about am any been being but can could hers him if into might must no nor not now please shall should so some such "
    "tell than theirs them then there these those while whom whose would yours much many".split()
)
"""Words that ask, beside those that are not indexed. ``may`` and ``us`` are not among them: a month and a country."""
_ASKING_CJK: Final = re.compile(
    "为什么|为何|什么时候|什么|何时|何处|怎么样|怎么|怎样|如何|多少|多久|多大|多长|多远|多早|多高|多重|几[点号时]|"
    "几(?![何乎])|哪(?!吒)[里儿个些天位种座家年月一]?|谁|是否|是不是|有没有|能不能|要不要|会不会|可不可以|可以|"
    "应该|需要|请问|吗|呢"
)


def query_tokens(query: str) -> list[str]:
    """What ``search_tokens`` finds in ``query`` without the words that only ask; with them if nothing else is left.

    A memory is a statement: it need not have them, and one that has them by chance fits no better.
    """
    asked = [token for token in search_tokens(_ASKING_CJK.sub(" ", normalise(query))) if token not in _ASKING]
    return asked or search_tokens(query)


def search_tokens(text: str) -> list[str]:
    """The words of ``text`` as an index has them: folded, without plural s and stop words, each CJK character alone."""
    return [_singular(word) for word in plain_words(text) if word not in _STOP]


def plain_words(text: str) -> list[str]:
    """The words of ``text``, folded: what ``search_tokens`` makes tokens of, one word at a time (``indexed``)."""
    return _TOKEN.findall(normalise(text).casefold())


def indexed(word: str) -> str | None:
    """The token of one of ``plain_words``; None for a stop word."""
    return None if word in _STOP else _singular(word)


def _singular(token: str) -> str:
    if len(token) < 4 or not token.isascii() or not token.endswith("s") or token.endswith(("ss", "us", "is")):
        return token
    return token[:-3] + "y" if token.endswith("ies") else token[:-1]


@dataclass(frozen=True)
class Corpus:
    """What BM25 needs to know of all texts that the caller may see.

    Args:
        texts: how many.
        mean_length: in tokens.
        texts_with: token to the number of texts that have it.
    """

    texts: int
    mean_length: float
    texts_with: Mapping[str, int] = field(default_factory=dict)

    def weight(self, token: str) -> float:
        """How much a token tells, in nats: rare ones more; never negative."""
        having = self.texts_with.get(token, 0)
        return math.log(1 + (self.texts - having + 0.5) / (having + 0.5))


def corpus(texts: Sequence[Sequence[str]]) -> Corpus:
    """The statistics of texts given as tokens."""
    having = Counter(token for text in texts for token in set(text))
    length = sum(map(len, texts)) / len(texts) if texts else 0.0
    return Corpus(len(texts), length, having)


K1: Final = 1.2
B: Final = 0.75
"""The usual constants of BM25 (Robertson and Zaragoza, 2009): saturation of repeats, share of length."""


def bm25(query: Sequence[str], text: Sequence[str], known: Corpus) -> float:
    """Okapi BM25 of a text for a query, both as tokens; 0 without a common token, no upper bound."""
    counts = Counter(text)
    long = 1 - B + B * len(text) / known.mean_length if known.mean_length else 1.0
    return sum(
        known.weight(token) * counts[token] * (K1 + 1) / (counts[token] + K1 * long)
        for token in set(query)
        if counts[token]
    )


def lexical_similarity(query: Sequence[str], text: Sequence[str], known: Corpus) -> float:
    """BM25 as a share of what the query would score at best: 0 to 1, comparable between queries.

    At best a text repeats each token of the query for ever, which would score ``weight × (K1 + 1)``. A token that
    occurs once in a text of mean length scores its weight and counts as found. So the share is of the weights alone,
    at most 1.
    """
    best = sum(known.weight(token) for token in set(query))
    return min(1.0, bm25(query, text, known) / best) if best else 0.0


@dataclass(frozen=True)
class Fusion:
    """How far each signal is to be trusted.

    Args:
        cosine_zero, cosine_one: the embedding model's, as ``Calibration`` has them.
        dense_trust, lexical_trust: 0 to 1; the weight of a signal of 1 alone. A model that does not know the
            language gets little.
        floor: an item with less similarity is not returned, so a query without relevant items finds nothing.
    """

    cosine_zero: float = 0.2
    cosine_one: float = 0.85
    dense_trust: float = 0.95
    lexical_trust: float = 0.9
    floor: float = 0.21

    def __post_init__(self) -> None:
        if not -1 <= self.cosine_zero < self.cosine_one <= 1:
            raise ValueError(f"cosine_zero {self.cosine_zero} is not below cosine_one {self.cosine_one}")
        for name in ("dense_trust", "lexical_trust", "floor"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is not between 0 and 1")

    def dense(self, cosine: float) -> float:
        """The cosine on the common scale."""
        share = (cosine - self.cosine_zero) / (self.cosine_one - self.cosine_zero)
        return min(1.0, max(0.0, share))

    def similarity(self, cosine: float | None, lexical: float | None) -> float:
        """One similarity, 0 to 1: the signals are independent evidence; a missing signal counts as none.

        ``1 − (1 − dense_trust × dense) × (1 − lexical_trust × lexical)``, that is, the chance that not both are
        wrong. It grows with each signal and is never below what one of them says alone.

        Args:
            cosine: None where one of the two has no vector.
            lexical: from ``lexical_similarity``; None where it was not asked for.
        """
        dense = 0.0 if cosine is None else self.dense(cosine) * self.dense_trust
        words = 0.0 if lexical is None else lexical * self.lexical_trust
        return 1 - (1 - dense) * (1 - words)

    def relevant(self, similarity: float) -> bool:
        """Whether it is above the floor."""
        return similarity >= self.floor and similarity > 0


_TOLD_BY_BOTH: Final = 0.7
"""How much of what words tell a model tells as well that is trusted wholly and knows the query."""


def fusion(calibration: Calibration | None, coverage: float) -> Fusion:
    """How words and the vectors of one model count together, for one query.

    Without a model only words count. Beside a model that knows the query they count less, as far as the model is
    trusted: if it sees no similarity, a common word is mostly chance.

    Args:
        calibration: of the model; None where there is none.
        coverage: the share of the query that the model knows, limited to 0 to 1.
    """
    if calibration is None:
        return Fusion()
    trust = calibration.trust * min(1.0, max(0.0, coverage))
    return Fusion(
        calibration.cosine_zero,
        calibration.cosine_one,
        dense_trust=trust,
        lexical_trust=Fusion.lexical_trust * (1 - _TOLD_BY_BOTH * trust),
    )
