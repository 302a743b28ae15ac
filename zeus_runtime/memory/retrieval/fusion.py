"""One similarity from two signals: the cosine of vectors and the words in common.

Ranks are not fused, scores are: a weak signal that ranks noise first must not count as much as a strong one. Each
signal is first brought to a scale from 0, nothing to do with the query, to 1, as good as the query itself. The
lexical part here is the reference for what the databases' full-text indexes do.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from zeus_runtime.memory.embedding import Calibration
from zeus_runtime.memory.retrieval.analysis import CJK as CJK
from zeus_runtime.memory.retrieval.analysis import OR


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
        """How much a token, in any of its forms, tells, in nats: rare ones more; never negative."""
        # A text that has two forms is counted twice.
        having = min(self.texts, sum(self.texts_with.get(form, 0) for form in token.split(OR)))
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
    """Okapi BM25 of a text for a query, both as tokens; 0 without a common token, no upper bound.

    A text is in one language, so it has one form of a token; another form beside it is added as a further token.
    """
    counts = Counter(text)
    long = 1 - B + B * len(text) / known.mean_length if known.mean_length else 1.0
    return sum(
        known.weight(token) * counts[form] * (K1 + 1) / (counts[form] + K1 * long)
        for token in set(query)
        for form in token.split(OR)
        if counts[form]
    )


def lexical_similarity(query: Sequence[str], text: Sequence[str], known: Corpus) -> float:
    """BM25 as a share of the weights of the query's tokens: comparable between queries.

    A token that occurs once in a text of mean length scores its weight and counts as found, so a text that has all of
    them has about 1. One that repeats them, or says little else, has more, up to ``K1 + 1``.
    """
    best = sum(known.weight(token) for token in set(query))
    return bm25(query, text, known) / best if best else 0.0


@dataclass(frozen=True)
class Fusion:
    """How far each signal is to be trusted.

    Args:
        cosine_zero, cosine_one: the embedding model's, as ``Calibration`` has them.
        dense_trust, lexical_trust: 0 to 1; the weight of a signal of 1 alone. A model that does not know the
            language gets little.
        surely: where no item has so much similarity, nothing is found: the query has no answer here.
        floor: an item with less similarity is not returned beside others.
    """

    cosine_zero: float = 0.2
    cosine_one: float = 0.85
    dense_trust: float = 0.95
    lexical_trust: float = 0.9
    surely: float = 0.43
    floor: float = 0.21

    def __post_init__(self) -> None:
        if not -1 <= self.cosine_zero < self.cosine_one <= 1:
            raise ValueError(f"cosine_zero {self.cosine_zero} is not below cosine_one {self.cosine_one}")
        for name in ("dense_trust", "lexical_trust", "surely", "floor"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is not between 0 and 1")

    def dense(self, cosine: float) -> float:
        """The cosine on the common scale, where a good answer has 1 and a better one more."""
        return max(0.0, (cosine - self.cosine_zero) / (self.cosine_one - self.cosine_zero))

    def similarity(self, cosine: float | None, lexical: float | None) -> float:
        """One similarity, 0 to 1: the signals are independent evidence; a missing signal counts as none.

        ``1 - (1 - dense_trust)^dense * (1 - lexical_trust)^lexical``: the chance that not both are wrong, where a
        signal of 1 is right as often as its trust says, and each further 1 of it as often again. It grows with each
        signal and is never below what one of them says alone.

        Args:
            cosine: None where one of the two has no vector.
            lexical: from ``lexical_similarity``; None where it was not asked for.
        """
        dense = 0.0 if cosine is None else self.dense(cosine)
        return 1 - math.exp(-dense * self.dense_weight - (lexical or 0.0) * self.lexical_weight)

    @property
    def dense_weight(self) -> float:
        """Of a dense signal of 1, in nats."""
        return _nats(self.dense_trust)

    @property
    def lexical_weight(self) -> float:
        """Of a lexical signal of 1, in nats."""
        return _nats(self.lexical_trust)

    def relevant(self, similarity: float) -> bool:
        """Whether it is above the floor."""
        return similarity >= self.floor and similarity > 0


def _nats(trust: float) -> float:
    return -math.log1p(-min(trust, _SURE))


# A trust of 1 would be infinitely many nats.
_SURE: Final = 1 - 1e-6

_SURELY_BESIDE: Final = 0.41
"""``surely`` beside a model."""
_TOLD_BY_BOTH: Final = 0.09
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
        surely=_SURELY_BESIDE,
    )
