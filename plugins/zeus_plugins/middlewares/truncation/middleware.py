"""The truncation policy: cuts long arguments of old tool calls in the view, once per call and in batches."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from zeus_plugins.middlewares.truncation.candidates import candidates, shortened
from zeus_runtime.plugin.context import TruncateArguments, arrivals, kept_from
from zeus_runtime.plugin.middleware import Middleware

if TYPE_CHECKING:
    from zeus_plugins.middlewares.truncation.candidates import Candidate
    from zeus_plugins.middlewares.truncation.options import Options
    from zeus_runtime.plugin import RunContext
    from zeus_runtime.plugin.context import Budget, Edit, View

ASK_AGAIN_AFTER = 0.1
"""How much fuller the window must be before refused edits are proposed again, as a share of the window."""


class Truncation(Middleware):
    """Collects candidates as calls arrive; proposes them together once the window is full enough.

    Args:
        options: the lengths, and when to cut.
        context: the model's profile, its counter, and the tools with their replayable arguments.
    """

    proposes = (TruncateArguments,)

    def __init__(self, options: Options, context: RunContext) -> None:
        self._options = options
        self._context = context
        self._seen = 0
        self._waiting: list[Candidate] = []
        self._offered: set[str] = set()
        self._ask_again_at = 0.0

    async def edits(self, view: View, budget: Budget) -> Sequence[Edit]:
        new = arrivals(view, self._seen)
        self._seen = max(self._seen, view.upto)
        # Also below the trigger: each call is looked at once, when it arrives.
        self._waiting += candidates(new, self._replayable, self._options.max_chars)
        if budget.room_before:
            self._waiting = [each for each in self._waiting if _whole(view, each)]
            return [self._edit(each) for each in self._waiting if each.seq < budget.room_before]
        trigger, keep = self._options.sizes(self._context.profile)
        if not self._waiting or not budget.at_least(trigger):
            return ()
        if budget.fraction_used < self._ask_again_at and not budget.overflow:
            return ()
        self._waiting = [each for each in self._waiting if _whole(view, each)]
        border = kept_from(view, keep, budget.usable_tokens)
        ripe = [each for each in self._waiting if each.seq < border]
        # Made before they are wanted: only an edit's own text tells what it saves.
        proposals = [self._edit(each) for each in ripe]
        saved = sum(self._saving(each, edit) for each, edit in zip(ripe, proposals, strict=True))
        if not ripe or (saved < self._options.min_saving_tokens and not budget.overflow):
            return ()
        # All were proposed before, so the planner refused them. Ask again when the window is fuller.
        if self._offered.issuperset(each.call_id for each in ripe):
            self._ask_again_at = budget.fraction_used + ASK_AGAIN_AFTER
        self._offered.update(each.call_id for each in ripe)
        return proposals

    def _replayable(self, tool: str) -> Collection[str]:
        known = self._context.tools.get(tool)
        declared = known.replayable_arguments if known is not None else frozenset()
        return declared | frozenset(self._options.arguments.get(tool, ()))

    def _edit(self, candidate: Candidate) -> TruncateArguments:
        archive = self._context.archive
        file = f"the file is {candidate.path}; " if candidate.path else ""
        where = {
            name: f"{file}the original argument: {archive.argument_handle(candidate.call_id, name)}"
            for name in candidate.arguments
        }
        return TruncateArguments(
            policy="truncation",
            reason=f"{candidate.tool}: {', '.join(candidate.arguments)} can be read again",
            seq=candidate.seq,
            call_id=candidate.call_id,
            arguments=shortened(candidate, self._options.keep_chars, self._options.truncation_text, where),
            handle=archive.arguments_handle(candidate.call_id),
        )

    def _saving(self, candidate: Candidate, edit: TruncateArguments) -> int:
        counter = self._context.counter
        before = sum(map(counter.text, candidate.arguments.values()))
        return before - sum(map(counter.text, edit.arguments.values()))


def _whole(view: View, candidate: Candidate) -> bool:
    return (
        view.shown(candidate.seq)
        and candidate.seq not in view.pinned
        and not view.truncated(candidate.call_id)
    )
