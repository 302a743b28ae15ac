"""Detect a model that repeats itself: the same calls with the same results, again and again."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.cutting import cut_text
from zeus_runtime.models.content import calls_of

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

LONGEST_CYCLE: Final = 4
"""Answers in the longest cycle that is detected."""

WARN_AT: Final = 3
"""The first repetition that gives the model a warning."""

DIGEST: Final = "result_digest"
"""Key in a result's artifact: the digest of the result before a warning was added to it."""


def repetitions(steps: Sequence[Any]) -> int:
    """How often the same cycle of one to ``LONGEST_CYCLE`` steps is repeated at the end of ``steps``.

    1 where nothing repeats, 0 for no steps.
    """
    return max((_cycles(steps, period) for period in range(1, LONGEST_CYCLE + 1)), default=0) if steps else 0


def _cycles(steps: Sequence[Any], period: int) -> int:
    equal = 0
    # After each round, the last `equal` steps are those that came `period` steps before them.
    while equal + period < len(steps) and steps[-1 - equal] == steps[-1 - equal - period]:
        equal += 1
    return equal // period + 1


@dataclass(frozen=True)
class _Answer:
    """The calls of one answer: a digest of each call, and one of each result, in call order."""

    asked: tuple[str, ...]
    results: tuple[str, ...]


class Repeats:
    """A run's newest calls, as many as are needed to decide whether the limit is reached.

    Args:
        limit: repetitions that end the run.
        messages: the session's; those since the user's last message count.
    """

    def __init__(self, limit: int, messages: Sequence[BaseMessage] = ()) -> None:
        # `limit` cycles of the longest kind: with older answers the count could only grow beyond the limit.
        newest = _newest(messages, LONGEST_CYCLE * limit)
        self._answers = deque(reversed(newest), maxlen=LONGEST_CYCLE * limit)
        self._asking: tuple[BaseMessage, tuple[str, ...]] | None = None

    @property
    def count(self) -> int:
        """How often the newest answer's calls, or the cycle that they end, gave the same results; 0 for no calls."""
        return repetitions(self._answers)

    def add(self, answer: BaseMessage, results: Iterable[BaseMessage]) -> None:
        """Add an answer whose calls all have results."""
        self._answers.append(_Answer(self._asked(answer), tuple(map(_result, results))))

    def expected(self, answer: BaseMessage, index: int, content: str) -> int:
        """The number of the repetition if call ``index`` of ``answer`` gives ``content``; 1 for a first time.

        The answer's other calls may be unfinished: they count as repeated if name and arguments are the same.
        """
        asked, most = self._asked(answer), 1
        for period in range(1, min(LONGEST_CYCLE, len(self._answers)) + 1):
            # The answer that came one period ago: if this cycle is repeated, the present one does the same.
            former = self._answers[-period]
            if former.asked == asked and former.results[index] == digest_of(content):
                most = max(most, _cycles([*self._answers, former], period))
        return most

    def _asked(self, answer: BaseMessage) -> tuple[str, ...]:
        """A digest of each call, made once for the answer whose calls run."""
        if self._asking is None or self._asking[0] is not answer:
            self._asking = answer, _asked(answer)
        return self._asking[1]


def warning(count: int, limit: int) -> str:
    """The note to the model above a repeated result."""
    return (
        f"[Repetition {count}: this call gave the same result before. Do not make it again: try something else, or"
        f" say what blocks you. The run ends at {limit} repetitions.]\n\n"
    )


def digest_of(text: str) -> str:
    """A digest that tells results apart."""
    # A result may hold a lone surrogate, which plain UTF-8 refuses.
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def named(answer: BaseMessage) -> str:
    """The calls of an answer for a sentence: names and arguments, shortened."""
    said = [f"{call['name'] or '(no name)'} {_json(call['args'])}" for call in calls_of(answer)]
    text = ", ".join(cut_text(each, 120) for each in said[:3])
    return text if len(said) <= 3 else f"{text} and {len(said) - 3} more"


def _newest(messages: Sequence[BaseMessage], most: int) -> list[_Answer]:
    """The newest answers whose calls have all results, back to the user's last message, newest first."""
    found: list[_Answer] = []
    results: list[BaseMessage] = []
    for message in reversed(messages):
        # The runtime's own messages have this type too: after one of them the model knows something new.
        if message.type == "human" or len(found) == most:
            break
        if message.type == "tool":
            results.append(message)
        elif message.type == "ai":
            if results and len(results) == len(calls_of(message)):
                found.append(_answer(message, reversed(results)))
            results = []
    return found


def _answer(answer: BaseMessage, results: Iterable[BaseMessage]) -> _Answer:
    return _Answer(_asked(answer), tuple(_result(each) for each in results))


def _asked(answer: BaseMessage) -> tuple[str, ...]:
    return tuple(digest_of(f"{call['name']}\n{_json(call['args'])}") for call in calls_of(answer))


def _result(message: BaseMessage) -> str:
    # The text of a warned result contains the repetition's number, so it never repeats: use the old digest.
    artifact = getattr(message, "artifact", None)
    kept = artifact.get(DIGEST) if isinstance(artifact, Mapping) else None
    return str(kept or digest_of(str(message.content)))


def _json(value: Any) -> str:
    # Sorted: the same arguments in another order are the same call.
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
