"""Constants of the fusion, chosen on all sources but one and tried on that one: ``memory_quality --fit``.

Chosen is what hits most (among 5 and among 10, summed) of what finds no more without an answer than the constants
before did: no fewer questions that find nothing, no more memories among the first 5 and in all. By brute force.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from benchmarks.memory import Filled
from benchmarks.memory_quality import DEPTH, SHOWN, Question
from zeus_runtime.memory.retrieval.analysis import query_tokens, search_tokens
from zeus_runtime.memory.retrieval.fusion import Fusion, corpus, fusion, lexical_similarity
from zeus_runtime.memory.retrieval.search import Fused

Numbers = NDArray[np.float64]
Constants = tuple[float, float, float, float]
"""cosine_zero, cosine_one, the trust in words beside the model, floor."""

BEFORE: Constants = (0.2, 0.8, 0.9, 0.15)
"""With dense trust 0.6, queries embedded as memories and their asking words searched for."""
TRUST = 0.8
_GRID = tuple(product((0.1, 0.15, 0.2), (0.5, 0.6, 0.7, 0.8), (0.2, 0.4, 0.6), (0.15, 0.18, 0.2, 0.21, 0.22)))
_HITS = (0, 1)
"""Rows of ``Counts``: hits among 5, among 10, questions that find nothing without their answer, memories they find
among 5 and in all, questions in all, answered ones."""
_NOTHING, _SHOWN, _ALL, _QUESTIONS, _ANSWERED = range(2, 7)

Counts = NDArray[np.float64]
"""Seven figures by source."""


class Asked:
    """What all constants have in common."""

    def __init__(
        self, questions: Sequence[Question], lexical: Numbers, cosines: Numbers, known: Numbers
    ) -> None:
        self.sources = list(dict.fromkeys(each.source for each in questions))
        self._source = np.array([self.sources.index(each.source) for each in questions])
        self._answer = np.array([-1 if each.answer is None else each.answer for each in questions])
        self._lexical, self._cosines, self._known = lexical, cosines, known

    def counts(self, constants: Constants, trust: float) -> Counts:
        """What these constants give."""
        zero, one, beside, floor = constants
        alone = Fusion.lexical_trust
        similarity = np.stack(
            [
                Fused(Fusion(zero, one, trust * known, alone + (beside - alone) * known))(cosines, words)
                for known, cosines, words in zip(self._known, self._cosines, self._lexical, strict=True)
            ]
        )
        rows = np.arange(len(similarity))
        answered = self._answer >= 0
        own = np.where(answered, similarity[rows, self._answer], 0.0)
        before = (similarity > own[:, None]).sum(axis=1)
        similarity[rows[answered], self._answer[answered]] = 0
        others = (similarity >= floor).sum(axis=1)
        hit = answered & (own >= floor)
        figures = [hit & (before < SHOWN), hit & (before < DEPTH), others == 0]
        figures += [np.minimum(others, SHOWN), others, np.ones(len(rows)), answered]
        return np.array([np.bincount(self._source, each, len(self.sources)) for each in figures])


def chosen(tried: Sequence[Counts], before: Counts, among: NDArray[np.bool_]) -> int:
    """Which of ``tried`` is best on the sources ``among``."""
    limit = before[:, among].sum(axis=1)

    def worth(counts: Counts) -> float:
        sums = counts[:, among].sum(axis=1)
        few = (
            sums[_NOTHING] >= limit[_NOTHING] and sums[_SHOWN] <= limit[_SHOWN] and sums[_ALL] <= limit[_ALL]
        )
        return float(sums[list(_HITS)].sum()) if few else -1.0

    return max(range(len(tried)), key=lambda number: worth(tried[number]))


def line(counts: Counts) -> str:
    """Of the sources in ``counts`` together."""
    sums = counts.sum(axis=1)
    hits = "/".join(f"{100 * sums[row] / max(1, sums[_ANSWERED]):.1f}" for row in _HITS)
    nothing, shown, every = (sums[row] / sums[_QUESTIONS] for row in (_NOTHING, _SHOWN, _ALL))
    return f"{hits:>12}   {100 * nothing:5.1f} % find nothing, {shown:.2f} among 5, {every:.1f} in all"


async def fit(filled: Filled, texts: Sequence[str], questions: Sequence[Question]) -> None:
    """Print what was best without each source, and what it gives there."""
    tokens = [search_tokens(text) for text in texts]
    known = corpus(tokens)
    embedder = filled.embedder
    asked = [each.text for each in questions]
    coverage = np.array([embedder.coverage(text) for text in asked])

    def lexical(queries: Iterator[list[str]]) -> Numbers:
        return np.array([[lexical_similarity(query, text, known) for text in tokens] for query in queries])

    old = await embedder.embed(asked, purpose="memory") @ filled.vectors.T
    before = Asked(questions, lexical(map(search_tokens, asked)), old, coverage).counts(BEFORE, 0.6)
    cosines = await embedder.embed(asked, purpose="query") @ filled.vectors.T
    now = Asked(questions, lexical(map(query_tokens, asked)), cosines, coverage)
    tried = [now.counts(constants, TRUST) for constants in _GRID]
    held = []
    for number, source in enumerate(now.sources):
        among = np.arange(len(now.sources)) != number
        best = chosen(tried, before, among)
        held.append(tried[best][:, [number]])
        print(f"{source:<12}{_GRID[best]!s:<24} there: {line(held[-1])}, before: {line(before[:, [number]])}")
    print(f"{'each on what it was not chosen on':<42}{line(np.hstack(held))}")
    print(f"{'before':<42}{line(before)}")
    best = chosen(tried, before, np.ones(len(now.sources), np.bool_))
    print(f"{'chosen on all ' + str(_GRID[best]):<42}{line(tried[best])}")
    today = fusion(embedder.calibration, 1.0)
    constants = (today.cosine_zero, today.cosine_one, today.lexical_trust, today.floor)
    print(f"{'as Zeus has it':<42}{line(now.counts(constants, today.dense_trust))}")
    print(f"{'without the floor':<42}{line(now.counts((*constants[:3], 1e-9), today.dense_trust))}")
