"""Constants of the fusion, chosen on all sources but one and tried on that one: ``memory_quality --fit``.

It tries all combinations, over Zeus's own scores of words and cosines. A combination must find nothing as often as
``NOTHING`` says where there is no answer, and on no source less among 10 than words alone. Of those it chooses the one
that finds most among 5 and among 10, summed over sources. The conversation that is held back takes no part.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmarks.memory import Filled
from benchmarks.memory_conversations import HELD_BACK, conversations
from benchmarks.memory_quality import DEPTH, SHOWN, Question, filled_with
from zeus_runtime.memory.permissions import reach
from zeus_runtime.memory.retrieval.fusion import Fusion
from zeus_runtime.memory.retrieval.words import asked_words

if TYPE_CHECKING:
    from sqlalchemy import Connection

Numbers = NDArray[np.float64]
Shares = Mapping[str, tuple[float, float]]
"""Of the evidence of a source, found among ``SHOWN`` and ``DEPTH``."""

NOTHING = (0.071, 0.08)
"""The share of questions that must find nothing: with their answer away, and those that have none."""
NOTHING_BY_WORDS = (0.196, 0.16)
"""The same by words alone."""
_LATER = 2**41
_GRID = tuple(product((0.1, 0.15, 0.2), (1.0, 1.3, 1.6, 1.8, 2.0, 2.3, 2.6)))
"""cosine_zero, and the weight of words beside the model in nats."""
_CHOSEN = (0.15, 1.8)
"""Not the best of all sources together, which has few conversations: more words, as those left out call for."""
_DENSE = 1.61 / 0.45
"""Nats for a cosine of 1: that of a trust of 0.8 from ``cosine_zero`` 0.15 to ``cosine_one`` 0.6."""
_BESIDE = 0.45
"""Of ``surely``, the share that what is found beside a sure one needs."""


class Scores:
    """Of one memory: by question and item the scores of words, the cosines, and which item is an answer."""

    def __init__(
        self,
        lexical: Numbers,
        cosines: Numbers,
        known: Numbers,
        answers: NDArray[np.bool_],
        sources: list[str],
    ) -> None:
        self.lexical, self.cosines, self.known = lexical, cosines, known[:, None]
        self.answers, self.sources = answers, np.array(sources)

    def nats(self, zero: float, beside: float) -> Numbers:
        words = Fusion().lexical_weight * (1 - self.known) + beside * self.known
        return np.asarray(self.lexical * words + np.maximum(0, self.cosines - zero) * _DENSE * self.known)

    def least(self, nats: Numbers, nothing: tuple[float, float]) -> float:
        """The best score from which on something is found, so that so many questions find nothing."""
        answered = self.answers.any(axis=1)
        best = np.where(self.answers, -1, nats).max(axis=1)
        away, without = np.sort(best[answered]), np.sort(best[~answered])
        return float(max(away[int(nothing[0] * len(away))], without[int(nothing[1] * len(without))])) + 1e-6

    def found(self, nats: Numbers, least: float) -> Shares:
        sure = nats.max(axis=1, keepdims=True) >= least
        kept = np.where(sure & (nats >= _BESIDE * least), nats, 0)
        order = np.argsort(-kept, axis=1, kind="stable")[:, :DEPTH]
        rows = np.arange(len(kept))[:, None]
        right = self.answers[rows, order] & (kept[rows, order] > 0)
        count = np.maximum(1, self.answers.sum(axis=1))
        shares = [right[:, :depth].sum(axis=1) / count for depth in (SHOWN, DEPTH)]
        answered = self.answers.any(axis=1)
        return {
            source: (float(shares[0][of].mean()), float(shares[1][of].mean()))
            for source in dict.fromkeys(self.sources.tolist())
            if (of := (self.sources == source) & answered).any()
        }


async def scores(
    filled: Filled, asked: Sequence[str], answers: NDArray[np.bool_], sources: list[str]
) -> Scores:
    """Of a filled memory."""
    operations = await filled.memory._shared.operations()
    caller = filled.memory.caller

    def work(connection: Connection) -> Numbers:
        lexicon = operations._index.lexicon
        return np.array(
            [
                lexicon.find(
                    connection,
                    asked_words(text),
                    reach(caller, "read"),
                    caller.user_id,
                    now_ms=_LATER,
                    in_context=True,
                )[0].lexical
                for text in asked
            ]
        )

    lexical = await operations.database.read(work, caller)
    cosines = await filled.embedder.embed(asked, purpose="query") @ filled.vectors.T
    known = np.array([filled.embedder.coverage(text) for text in asked])
    return Scores(lexical, cosines, known, answers, sources)


def shares(all_scores: Sequence[Scores], constants: tuple[float, float] | None) -> tuple[Shares, float]:
    """What is found of each source, and from which score on; by words alone without ``constants``."""
    found: dict[str, tuple[float, float]] = {}
    least = 0.0
    for number, each in enumerate(all_scores):
        alone = each.lexical * Fusion().lexical_weight
        nats = alone if constants is None else each.nats(*constants)
        if number == 0:
            least = each.least(nats, NOTHING_BY_WORDS if constants is None else NOTHING)
        found |= each.found(nats, least)
    return found, least


def percent(values: Sequence[tuple[float, float]]) -> str:
    return "/".join(f"{100 * sum(each[depth] for each in values) / len(values):.1f}" for depth in (0, 1))


async def fit(filled: Filled, texts: Sequence[str], questions: Sequence[Question]) -> None:
    """Print what was best without each source, and what it gives there."""
    answers = np.zeros((len(questions), len(texts)), np.bool_)
    for row, question in enumerate(questions):
        if question.answer is not None:
            answers[row, question.answer] = True
    asked, sources = [each.text for each in questions], [each.source for each in questions]
    there = [await scores(filled, asked, answers, sources)]
    for name, conversation in conversations().items():
        if name == HELD_BACK:
            continue
        with tempfile.TemporaryDirectory() as folder:
            own = await filled_with(conversation, Path(folder), None)
            right = np.array(
                [
                    [turn.id in evidence for turn in conversation.turns]
                    for _, evidence in conversation.questions
                ]
            )
            asked = [text for text, _ in conversation.questions]
            there.append(await scores(own, asked, right, [name] * len(asked)))
            await own.memory.aclose()
    words, least = shares(there, None)
    tried = {constants: shares(there, constants) for constants in _GRID}

    def chosen(among: Sequence[str]) -> tuple[float, float]:
        def worth(constants: tuple[float, float]) -> tuple[bool, float]:
            found = tried[constants][0]
            never_worse = all(found[each][1] >= words[each][1] for each in among)
            return never_worse, sum(sum(found[each]) for each in among)

        return max(_GRID, key=worth)

    held = []
    for source in words:
        best = chosen([each for each in words if each != source])
        held.append(tried[best][0][source])
        print(
            f"{source:<12}{best!s:<14} there {percent([held[-1]]):>12}, words alone {percent([words[source]])}"
        )
    print(f"{'each on what it was not chosen on':<36}{percent(held)}")
    print(f"{'words alone':<36}{percent(list(words.values()))}, surely from {least:.3f} nats")
    print(f"{'as Zeus has it ' + str(_CHOSEN):<36}{percent(list(tried[_CHOSEN][0].values()))}")
    best = chosen(list(words))
    print(
        f"{'chosen on all ' + str(best):<36}{percent(list(tried[best][0].values()))}, from {tried[best][1]:.3f} nats"
    )
