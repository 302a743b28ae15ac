"""The current branch of a session: the messages of the conversation, after rollbacks set others aside. Pure.

The log counts messages by ``seq``, and a rollback does not reuse the numbers. Code that works on a conversation counts
*places* along the branch, from 1 without gaps; without a rollback the two are equal. A rollback keeps a beginning of
the branch, so a place that still exists means the same message as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Rollback:
    """A rollback: it set aside the messages after ``kept_seq`` that existed then.

    Args:
        number: counts from 1 within the session.
        kept_seq: the last message that stayed; 0 if none did.
        last_seq: the highest ``seq`` at that time.
        edits, steps: the numbers of the last edit and the last ledger entry at that time.
        created_ms: when, in UTC milliseconds.
    """

    number: int
    kept_seq: int
    last_seq: int
    edits: int
    steps: int
    created_ms: int = 0


@dataclass(frozen=True)
class SessionBranch:
    """The messages of a conversation in order: those of ``spans``, then all from ``start`` on.

    Args:
        spans: the ranges of ``seq`` that former rollbacks left.
        start: the first ``seq`` after the last rollback.
    """

    spans: tuple[range, ...] = ()
    start: int = 1

    def place(self, seq: int) -> int | None:
        """The place of the message ``seq``, from 1; 0 for 0, None if it was set aside."""
        if seq == 0:
            return 0
        before = 0
        for span in self.spans:
            # At most one span for each rollback, and a range knows its members without a search.
            if seq in span:
                return before + seq - span.start + 1
            before += len(span)
        return before + seq - self.start + 1 if seq >= self.start else None

    def seq(self, place: int) -> int:
        """The ``seq`` of the message that is, or will be, at ``place``."""
        rest = place
        for span in self.spans:
            if rest <= len(span):
                return span.start + rest - 1
            rest -= len(span)
        return self.start + rest - 1


def line_of(rollbacks: Iterable[Rollback]) -> SessionBranch:
    """The line after ``rollbacks``, given in order."""
    line = SessionBranch()
    # Each round cuts all spans at `kept_seq`, then begins a new open end; so `spans` stay in order and do not overlap.
    for each in rollbacks:
        whole = (*line.spans, range(line.start, each.last_seq + 1))
        left = (range(span.start, min(span.stop, each.kept_seq + 1)) for span in whole)
        line = SessionBranch(tuple(span for span in left if span), each.last_seq + 1)
    return line


def place_when_written(rollbacks: Iterable[Rollback], seq: int) -> int:
    """The place that the message ``seq`` got when it was written, also if a rollback set it aside since."""
    return line_of(each for each in rollbacks if each.last_seq < seq).place(seq) or 0


def edits_aside(rollbacks: Sequence[Rollback], edits: Iterable[tuple[int, int]]) -> frozenset[int]:
    """The numbers of the edits that ``rollbacks`` set aside: those made after messages that did not stay.

    Args:
        edits: (number, place of the last message before the edit).
    """
    kept = _kept(rollbacks)
    # `>`: an edit follows the message `at`, so it goes with that message. Later edits know the rollback already.
    return frozenset(
        number for number, at in edits if any(number <= each.edits and at > place for each, place in kept)
    )


def steps_aside(rollbacks: Sequence[Rollback], steps: Iterable[tuple[int, int]]) -> frozenset[int]:
    """The numbers of the ledger's entries that ``rollbacks`` set aside: those whose answer did not stay.

    Args:
        steps: (number, place of the last message before the call).
    """
    kept = _kept(rollbacks)
    return frozenset(
        number
        for number, cursor in steps
        # `>=`: the step's answer is the message after `cursor`, and the step goes with its answer.
        if any(number <= each.steps and cursor >= place for each, place in kept)
    )


def _kept(rollbacks: Sequence[Rollback]) -> list[tuple[Rollback, int]]:
    """Each rollback, and the place of the last message that stayed."""
    return [
        (each, line_of(rollbacks[:index]).place(each.kept_seq) or 0) for index, each in enumerate(rollbacks)
    ]
