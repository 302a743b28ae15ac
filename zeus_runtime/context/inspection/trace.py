"""One stored session, and the changes of each of its messages."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.context.edits import Edit, Pin, edit_kind
from zeus_runtime.context.ledger import StepRecord
from zeus_runtime.context.prompt_cost import Fixed, fixed_from_json
from zeus_runtime.context.view import View, fold
from zeus_runtime.errors import UsageError

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from zeus_runtime.context.tokens import Counter

REMOVING: Final = ("drop_before", "summarize")
"""The kinds of edits that remove messages from the view."""


@dataclass(frozen=True)
class Branch:
    """A session as it was until the user went back to an earlier message.

    Args:
        until_step: the last step before that.
        history, edits: as they were then, like the trace's.
        aside: the numbers of the steps that were already set aside.
    """

    until_step: int
    history: Sequence[BaseMessage]
    edits: Sequence[tuple[int, Edit]]
    aside: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Trace:
    """One stored session.

    Args:
        session: its id.
        history: every message of the conversation, ``seq`` 1 first.
        edits: the admitted edits in order, each with the ``seq`` of the last message before it.
        steps: the ledger.
        texts: the texts that the ledger refers to, by digest.
        counter: counts the messages' tokens as the model does.
        replayable: names of tools whose results can be fetched again.
        problems: the entries that could not be read; views that need them cannot be shown.
        branches: the session before each return to an earlier message, in order.
        aside: the numbers of the steps that no longer belong to the conversation.
    """

    session: str
    history: Sequence[BaseMessage]
    edits: Sequence[tuple[int, Edit]]
    steps: Sequence[StepRecord]
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    counter: Counter | None = None
    replayable: frozenset[str] = frozenset()
    problems: Sequence[str] = ()
    branches: Sequence[Branch] = ()
    aside: frozenset[int] = frozenset()

    def line_of(self, step: StepRecord) -> Trace:
        """The session along the branch of ``step``, without the steps of other branches."""
        own = next((each for each in self.branches if step.number <= each.until_step), None)
        aside = self.aside if own is None else own.aside
        last = self.steps[-1].number if own is None else own.until_step
        return replace(
            self,
            history=self.history if own is None else own.history,
            edits=self.edits if own is None else own.edits,
            steps=[each for each in self.steps if each.number <= last and each.number not in aside],
            branches=(),
            aside=frozenset(),
        )

    def step(self, number: int | None = None) -> StepRecord:
        """The step ``number``; the last one by default.

        Raises:
            UsageError: the ledger has no such step.
        """
        if not self.steps:
            raise UsageError(
                f"the session {self.session} has no step yet", remedy="Its first model call makes one."
            )
        if number is None:
            return self.steps[-1]
        found = next((step for step in self.steps if step.number == number), None)
        if found is None:
            raise UsageError(
                f"the session {self.session} has no step {number}",
                remedy=f"It has steps {self.steps[0].number} to {self.steps[-1].number}.",
            )
        return found

    def view(self, step: StepRecord) -> View:
        """The messages that ``step`` sent.

        Raises:
            UsageError: one of its edits or messages cannot be read.
        """
        if self.branches:
            return self.line_of(step).view(step)
        if step.edits > len(self.edits) or step.cursor > len(self.history):
            raise UsageError(
                f"what step {step.number} sent cannot be rebuilt: {'; '.join(self.problems) or 'the log is shorter'}"
            )
        edits = [edit for _, edit in self.edits[: step.edits]]
        return fold(self.history, edits, step.cursor, counter=self.counter, replayable=self.replayable)

    def fixed(self, step: StepRecord) -> Fixed | None:
        """The parts of the request of ``step`` other than messages; None where the ledger has lost them."""
        text = self.texts.get(step.fixed)
        try:
            return None if text is None else fixed_from_json(step.fixed, text)
        except (ValueError, KeyError, TypeError):
            return None

    def sources(self, step: StepRecord, section: str) -> Sequence[Mapping[str, Any]]:
        """The sources of a section of ``step``, as its middleware recorded them."""
        fixed = self.fixed(step)
        text = None if fixed is None else self.texts.get(fixed.sources.get(section, ""))
        return () if text is None else tuple(json.loads(text))

    def step_of(self, edit: int) -> int | None:
        """The first step that sent the result of edit number ``edit``; None if none did."""
        # Along one line the number of edits never falls from step to step.
        place = bisect_left(self.steps, edit, key=lambda step: step.edits)
        return self.steps[place].number if place < len(self.steps) else None

    @cached_property
    def fates(self) -> Mapping[int, tuple[Fate, ...]]:
        """The edits that changed each message, by ``seq``, in order."""
        found: dict[int, list[Fate]] = {}
        view = fold(self.history, (), 0, counter=self.counter, replayable=self.replayable)
        for number, (at_seq, edit) in enumerate(self.edits, start=1):
            if not edit.seq:  # it was set aside
                view = view.applied(edit)
                continue
            view = view.extended(min(at_seq, len(self.history)))
            seqs = view.group(edit.seq) if isinstance(edit, Pin) else view.leaving(edit)
            fate = Fate(
                number, self.step_of(number), at_seq, edit.policy, edit_kind(edit), edit.reason, edit.handle
            )
            for seq in seqs:
                found.setdefault(seq, []).append(fate)
            view = view.applied(edit)
        return {seq: tuple(fates) for seq, fates in found.items()}


@dataclass(frozen=True)
class Fate:
    """One edit's effect on a message.

    Args:
        number: the edit's, from 1.
        step: the first step that sent the message so; None if none did.
        at_seq: the last message before the edit.
        policy, kind, reason: the edit's policy, kind and reason.
        handle: the path of the original.
    """

    number: int
    step: int | None
    at_seq: int
    policy: str
    kind: str
    reason: str
    handle: str


def decisive(fates: Sequence[Fate]) -> Fate | None:
    """The edit that removed a message from the view, or else the last one that shortened it."""
    shed = [fate for fate in fates if fate.kind != "pin"]
    return next((fate for fate in shed if fate.kind in REMOVING), shed[-1] if shed else None)
