"""A thread's line: which messages the conversation goes on from, after rollbacks set others aside. Pure.

The log counts messages by ``seq``, which no rollback gives out again. Whoever works on a conversation counts *places*
along its line, from 1 without gaps; without a rollback the two are the same. A rollback keeps a beginning of the line,
so a place that is still there means the same message as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Rollback:
    """The messages after ``kept_seq`` that were there by then were set aside.

    Args:
        number: counts from 1 within the thread.
        kept_seq: the last message that stayed; 0 if none did.
        last_seq: the highest ``seq`` that was written by then.
        edits, steps: the last edit's and the last ledger entry's number by then.
        created_ms: when, in UTC milliseconds.
    """

    number: int
    kept_seq: int
    last_seq: int
    edits: int
    steps: int
    created_ms: int = 0


@dataclass(frozen=True)
class Line:
    """The messages of a conversation in order: those of ``spans``, then all from ``start`` on.

    Args:
        spans: what former rollbacks left, as ranges of ``seq``.
        start: the first ``seq`` after the last rollback.
    """

    spans: tuple[range, ...] = ()
    start: int = 1

    def place(self, seq: int) -> int | None:
        """Where the message ``seq`` stands, from 1; 0 for 0, None if it was set aside."""
        if seq == 0:
            return 0
        before = 0
        for span in self.spans:
            if seq in span:
                return before + seq - span.start + 1
            before += len(span)
        return before + seq - self.start + 1 if seq >= self.start else None

    def seq(self, place: int) -> int:
        """The ``seq`` of the message that stands, or will stand, at ``place``."""
        rest = place
        for span in self.spans:
            if rest <= len(span):
                return span.start + rest - 1
            rest -= len(span)
        return self.start + rest - 1


def line_of(rollbacks: Iterable[Rollback]) -> Line:
    """The line after ``rollbacks``, given in order."""
    line = Line()
    for each in rollbacks:
        whole = (*line.spans, range(line.start, each.last_seq + 1))
        left = (range(span.start, min(span.stop, each.kept_seq + 1)) for span in whole)
        line = Line(tuple(span for span in left if span), each.last_seq + 1)
    return line


def edits_aside(rollbacks: Sequence[Rollback], edits: Iterable[tuple[int, int]]) -> frozenset[int]:
    """The numbers of the edits that ``rollbacks`` set aside: those that knew more than what stayed.

    Args:
        edits: number, and the place of the last message it could know.
    """
    kept = _kept(rollbacks)
    return frozenset(
        number for number, at in edits if any(number <= each.edits and at > place for each, place in kept)
    )


def steps_aside(rollbacks: Sequence[Rollback], steps: Iterable[tuple[int, int]]) -> frozenset[int]:
    """The numbers of the ledger's entries that ``rollbacks`` set aside: those whose answer did not stay.

    Args:
        steps: number, and the place of the last message that the call knew of.
    """
    kept = _kept(rollbacks)
    return frozenset(
        number
        for number, cursor in steps
        if any(number <= each.steps and cursor >= place for each, place in kept)
    )


def _kept(rollbacks: Sequence[Rollback]) -> list[tuple[Rollback, int]]:
    """Each rollback and the place of the last message that stayed."""
    return [
        (each, line_of(rollbacks[:index]).place(each.kept_seq) or 0) for index, each in enumerate(rollbacks)
    ]
