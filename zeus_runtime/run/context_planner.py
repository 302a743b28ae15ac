"""Planning: before every model call, policies propose edits and the runtime decides what the model will see.

Every path uses this planner: the next step, recovery from an overflow, a compaction that the user requests, and a
session that continues with another model.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, get_args

from zeus_runtime.context import Budget, Edit, View, review
from zeus_runtime.context.archive import Archive, ArchiveError
from zeus_runtime.context.edit_rules import Cached, Refusal, Reported, breaks_cache, cached_prices
from zeus_runtime.context.edits import edit_kind
from zeus_runtime.context.ledger import MAX_DECISIONS, PolicyDecision
from zeus_runtime.context.offers import CompactionOffer
from zeus_runtime.context.prompt_cost import Fixed
from zeus_runtime.context.tokens.uncertainty import Uncertainty
from zeus_runtime.events import Event, Notice
from zeus_runtime.middleware.chain import Blaming, overrides
from zeus_runtime.middleware.protocol import Middleware
from zeus_runtime.run.transcript import Transcript
from zeus_runtime.tools.calling_tool import calling
from zeus_runtime.tools.worker_threads import in_thread

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from zeus_runtime.context.offers import Cheaper, InPlace, Shortening
    from zeus_runtime.models.errors import ModelError
    from zeus_runtime.models.profiles import ModelProfile

# Takes "12" and "4,096"; "N" replaces each, so two texts that differ in counts only are one.
_NUMBER: Final = re.compile(r"\d[\d,]*")

ROOM: Final = 0.95
"""Share of the usable window that a request must fit into before it is tried again after an overflow."""


@dataclass(frozen=True)
class PlannedContext:
    """The messages of a model call, and how they were chosen.

    Args:
        view: the messages.
        budget: the budget measured with them.
        estimate_tokens: the whole request as counted, before anchoring to the provider's count.
        decisions: the decisions on proposed edits.
        admitted: how many edits were admitted.
    """

    view: View
    budget: Budget
    estimate_tokens: int
    decisions: tuple[PolicyDecision, ...] = ()
    admitted: int = 0


@dataclass(frozen=True)
class LastRequest:
    """The session's last request to this model, as far as the provider may have it cached.

    Args:
        view: its messages.
        until_ms: when the cache drops it (UTC milliseconds).
    """

    view: View
    until_ms: float


class ContextPlanner:
    """One run's planner: the policies, the input limit as known so far, and the anchor of the counts.

    Args:
        transcript: the session's messages and edits.
        middlewares: (name, instance) in YAML order.
        profile: the model's limits and prices.
        output_reserve_tokens: tokens of the window reserved for the answer.
        archive: receives the originals.
        emit: receives notices.
        anchor: the provider's count for the session's last request to this model; None without one.
        last: that request; None without one.
        learned_limit_tokens: an input limit below the profile's, which the provider stated in an earlier run.
        margin_share: the share that a count may be too low by (``Uncertainty``), as known so far.
    """

    def __init__(
        self,
        transcript: Transcript,
        middlewares: Sequence[tuple[str, Middleware]],
        *,
        profile: ModelProfile,
        output_reserve_tokens: int,
        archive: Archive,
        emit: Callable[[Event], None],
        anchor: Reported | None = None,
        last: LastRequest | None = None,
        learned_limit_tokens: int | None = None,
        margin_share: float,
    ) -> None:
        self._transcript = transcript
        self._policies = [(name, each) for name, each in middlewares if overrides(type(each), "edits")]
        self._profile = profile
        self._limit = min(profile.max_input_tokens, learned_limit_tokens or profile.max_input_tokens)
        self._reserve = output_reserve_tokens
        self._archive = archive
        self._emit = emit
        # Without a reported count the estimate counts as it is.
        self._anchor = anchor or Reported(0, 0)
        self._uncertainty = Uncertainty(margin_share)
        self._last = last
        self._cache_expired = False
        self._told: set[tuple[str, str]] = set()

    async def plan(self, cursor: int, fixed: Fixed, *, forced: bool = False) -> PlannedContext:
        """The view of messages 1 to ``cursor`` after every policy has proposed its edits, in YAML order.

        Args:
            fixed: the parts of the request other than messages.
            forced: whether every trigger counts as reached, until the request fits.
        """
        view = self._transcript.view(cursor)
        before = view
        # Once for all policies: what one of them does may take longer than the cache lives.
        self._cache_expired = self._last is not None and self._transcript.now_ms() > self._last.until_ms
        decisions: list[PolicyDecision] = []
        budget = self._budget(view, fixed, forced=forced)
        for name, policy in self._policies:
            after = await self._consult(name, policy, view, fixed, budget, cursor, decisions)
            # A view is a value: another object means that edits were admitted, so the budget has changed.
            if after is not view:
                view = after
                forced = forced and not self._fits(view, fixed)
                budget = self._budget(view, fixed, forced=forced)
        # Still over the window: ask again as after an overflow. A guessed window is no reason to lose context.
        if not forced and self._profile.known and self._policies and not self._fits(view, fixed, share=1.0):
            for name, policy in self._policies:
                budget = self._budget(view, fixed, forced=True)
                view = await self._consult(name, policy, view, fixed, budget, cursor, decisions)
                if self._fits(view, fixed):
                    break
        return PlannedContext(
            view,
            self._budget(view, fixed),
            fixed.tokens + view.tokens,
            listed(decisions),
            # Counts only admitted edits, since each one raises the number by one.
            view.edits - before.edits,
        )

    def sent(self, planned: PlannedContext, reported_tokens: int | None, cached_seconds: float) -> None:
        """Remember the request that was sent.

        Args:
            reported_tokens: the provider's token count for it, if it reports one.
            cached_seconds: how long the provider keeps it cached.
        """
        self._last = LastRequest(planned.view, self._transcript.now_ms() + 1000 * cached_seconds)
        # A count under half of the estimate is not believed: some providers leave cached input out of it.
        if reported_tokens and 2 * reported_tokens > planned.estimate_tokens:
            self._learn(reported_tokens, planned.estimate_tokens)
            self._anchor = Reported(reported_tokens, planned.estimate_tokens)

    def _learn(self, reported_tokens: int, counted_tokens: int) -> None:
        # What edits made shorter has a negative number of new tokens, and teaches nothing.
        before = self._anchor
        self._uncertainty.learn(
            counted_tokens - before.tokens_counted, reported_tokens - before.tokens_reported
        )

    def overflowed(self, planned: PlannedContext, error: ModelError) -> PolicyDecision:
        """Learn the request's true size and the window from an overflow error."""
        limit = error.limit_tokens
        # The lowest limit that was stated counts.
        if limit is not None and 0 < limit < self._limit:
            self._limit = limit
        # Without a count in the error, at least one token more than the limit is certain.
        true_tokens = error.input_tokens or max(planned.budget.used_tokens, self._limit + 1)
        self._learn(true_tokens, planned.estimate_tokens)
        self._anchor = Reported(true_tokens, planned.estimate_tokens)
        return PolicyDecision(
            "runtime",
            "overflow",
            False,
            error.message,
            tokens_before=planned.budget.used_tokens,
            tokens_after=true_tokens,
        )

    @property
    def limit_learned(self) -> bool:
        """Whether the provider stated a smaller input limit than the profile."""
        return self._limit < self._profile.max_input_tokens

    @property
    def margin_share(self) -> float:
        """The share that a count may be too low by, as learned so far."""
        return self._uncertainty.share

    @property
    def limit_tokens(self) -> int:
        """The input limit as known so far."""
        return self._limit

    def _fits(self, view: View, fixed: Fixed, share: float = ROOM) -> bool:
        """Whether the request fits, also if what the provider has not counted yet is larger than its count."""
        budget = self._budget(view, fixed)
        margin = self._uncertainty.tokens(fixed.tokens + view.tokens - self._anchor.tokens_counted)
        return budget.used_tokens + margin <= share * budget.usable_tokens

    def _budget(self, view: View, fixed: Fixed, *, forced: bool = False) -> Budget:
        estimate = fixed.tokens + view.tokens
        return Budget(
            input_limit_tokens=self._limit,
            # A learned limit may be smaller than the reserve, which was planned for the profile's.
            output_reserve_tokens=min(self._reserve, self._limit // 2),
            fixed_tokens=fixed.tokens,
            used_tokens=self._anchor.tokens(estimate),
            messages=len(view),
            known=self._profile.known,
            overflow=forced,
            cache_expired=self._cache_expired,
        )

    async def _consult(
        self,
        name: str,
        policy: Middleware,
        view: View,
        fixed: Fixed,
        budget: Budget,
        cursor: int,
        decisions: list[PolicyDecision],
    ) -> View:
        proposed = await self._proposals(name, policy, view, budget)
        if not proposed:
            return view
        offer = next((each for each in proposed if isinstance(each, CompactionOffer)), None)
        if offer is not None:
            cheaper = await self._cheaper(offer, view, fixed, budget, cursor, decisions)
            if cheaper is not None:
                return cheaper
            with Blaming(name):
                proposed = [*(each for each in proposed if each is not offer), *await offer.make()]
        refusals = [each for each in proposed if isinstance(each, Refusal)]
        # Reviewed before the price is asked: an inadmissible edit must not count as a saving of the others.
        kept = self._reviewed(view, [each for each in proposed if isinstance(each, get_args(Edit))], refusals)
        # For all edits together: they break the cached prefix once, at the earliest of them.
        loss = breaks_cache(view, kept, budget, self._cached())
        if loss is not None:
            refusals += [Refusal(edit, loss) for edit in kept]
            kept = []
        after = await self._admit(view, kept, refusals, cursor, decisions)
        self._refuse(name, refusals, decisions)
        return after

    async def _proposals(
        self, name: str, policy: Middleware, view: View, budget: Budget
    ) -> Sequence[Edit | Refusal | CompactionOffer]:
        with Blaming(name):
            with calling(None, of_session=True):
                proposed = list(await policy.edits(view, budget))
            for each in proposed:
                if not isinstance(each, (*get_args(Edit), Refusal, CompactionOffer)):
                    raise TypeError(f"edits returned a {type(each).__name__}, which is not an edit")
        return proposed

    async def _admit(
        self,
        view: View,
        edits: Sequence[Edit],
        refusals: list[Refusal],
        cursor: int,
        decisions: list[PolicyDecision],
    ) -> View:
        """The view after ``edits``; those that cannot be archived or no longer fit join ``refusals``."""
        # Originals are archived before an edit is admitted: an edit must never lose a message.
        saved = await self._archived(view, edits, refusals)
        admitted: list[Edit] = []
        after = view
        for edit in saved:
            effect = after.effect(edit)
            # Reviewed again: an edit admitted before it in this list may have changed the view.
            refusal = review(after, edit, effect)
            if refusal is not None:
                refusals.append(refusal)
                continue
            # Measured one after the other, so the savings of the edits add up to that of the whole.
            stamped = stamp(edit, after.tokens, effect.tokens_after)
            admitted.append(stamped)
            after = after.applied(stamped, effect)
        if admitted:
            await self._transcript.admit(admitted, cursor, after)
            decisions += grouped(admitted, first_number=view.edits + 1)
        return after

    async def _cheaper(
        self,
        offer: CompactionOffer,
        view: View,
        fixed: Fixed,
        budget: Budget,
        cursor: int,
        decisions: list[PolicyDecision],
    ) -> View | None:
        """The view after edits that make the offered compaction needless; None if there are none for less.

        The policies that the offer names are asked one after the other. The edits of the first ones lose least, so the
        first set of edits that pays is taken.
        """
        from zeus_runtime.context.cache_model import rules_for
        from zeus_runtime.context.offers import best_part, token_prices

        def fits(saved_tokens: int) -> bool:
            counted = fixed.tokens + view.tokens - saved_tokens
            return self._anchor.tokens(counted) <= offer.at_most_tokens

        by_name = dict(self._policies)
        # Only messages that the compaction would remove may be shortened: shortening others makes no room for it.
        asked = budget.override(room_before=offer.seq)
        known: dict[tuple[int, str], Shortening] = {}
        part: Cheaper | None = None
        for name in offer.cheaper_first:
            if name not in by_name or not fits(view.tokens):
                continue
            proposed = await self._proposals(name, by_name[name], view, asked)
            for each in _shortenings(view, proposed):
                # The first policy wins a message: its edit loses less than that of a later one.
                known.setdefault(_target(each.edit), each)
            part = best_part(
                view,
                known.values(),
                offer,
                prices=token_prices(self._profile),
                sent=None if self._cache_expired or self._last is None else self._last.view,
                reach=rules.lookback if (rules := rules_for(self._profile.name)) is not None else 0,
                fits=fits,
            )
            if part is not None and part.pays:
                break
        if part is None:
            return None
        after: View | None = None
        if part.pays:
            refusals: list[Refusal] = []
            after = await self._admit(view, part.edits, refusals, cursor, decisions)
            for refusal in refusals:
                self._refuse(refusal.edit.policy, [refusal], decisions)
            # No edit was admitted, for example because the archive cannot be written: then the offered compaction is
            # made.
            if after is view:
                return None
        seqs = [edit.seq for edit in part.edits]
        reason = f"{offer.policy} is due: {offer.reason}; {_weighed(offer, part)}"
        decisions.append(
            PolicyDecision("runtime", "cheaper", False, reason, len(part.edits), (min(seqs), max(seqs)))
        )
        return after

    def _reviewed(self, view: View, proposed: Sequence[Edit], refusals: list[Refusal]) -> list[Edit]:
        kept: list[Edit] = []
        for edit in proposed:
            refusal = review(view, edit)
            if refusal is None:
                kept.append(edit)
            else:
                refusals.append(refusal)
        return kept

    async def _archived(self, view: View, edits: Sequence[Edit], refusals: list[Refusal]) -> Sequence[Edit]:
        if not edits:
            return []
        try:
            return await in_thread(
                self._archive.save, edits=edits, originals=lambda edit: originals(view, edit)
            )
        except ArchiveError as error:
            # Without the originals no edit may be made; the request is sent as it is, and may be refused as too large.
            refusals += [Refusal(edit, error.message) for edit in edits]
            return []

    def _cached(self) -> Cached:
        sent = None if self._last is None or self._cache_expired else self._last.view
        return cached_prices(self._profile, sent)

    def _refuse(self, name: str, refusals: Sequence[Refusal], decisions: list[PolicyDecision]) -> None:
        by_reason: dict[tuple[str, str], list[Edit]] = {}
        for refusal in refusals:
            by_reason.setdefault((edit_kind(refusal.edit), refusal.reason), []).append(refusal.edit)
        for (kind, reason), edits in by_reason.items():
            seqs = [edit.seq for edit in edits]
            decisions.append(PolicyDecision(name, kind, False, reason, len(edits), (min(seqs), max(seqs))))
            # Counts differ from step to step: one notice for a reason, whatever its numbers.
            told = (name, _NUMBER.sub("N", reason))
            if told not in self._told:
                self._told.add(told)
                self._emit(Notice("edit_refused", f"An edit of {name} was refused: {reason}."))


def _shortenings(view: View, proposed: Sequence[Edit | Refusal | CompactionOffer]) -> Iterator[Shortening]:
    """The admissible edits in place among a policy's proposals."""
    from zeus_runtime.context.offers import InPlace, Shortening

    for edit in proposed:
        if isinstance(edit, get_args(InPlace)):
            effect = view.effect(edit)
            if review(view, edit, effect) is None:
                yield Shortening(edit, view.tokens - effect.tokens_after)


def _target(edit: InPlace) -> tuple[int, str]:
    """What an edit shortens: a message, or the arguments of one of its calls."""
    return edit.seq, getattr(edit, "call_id", "")


def _weighed(offer: CompactionOffer, part: Cheaper) -> str:
    """Why edits in place were made, or not made, instead of a compaction."""
    first, *others = (f"{count} of {policy}" for policy, count in Tally(e.policy for e in part.edits).items())
    number, _, policy = first.partition(" ")
    edits = " and ".join([f"{number} edit{'s' * (number != '1')} {policy}", *others])
    if not part.is_enough:
        return f"{edits} would save {part.saved_tokens:,} tokens, which is not enough"
    saving = f"saving {part.saved_tokens:,} tokens by {edits}"
    if offer.price_usd is None:
        return f"{saving} needs no model call"
    cost = f"costs ${part.cost_usd:.4f}" if part.cost_usd >= 0 else f"saves ${-part.cost_usd:.4f} at once"
    return f"{saving} {cost}, as much room by {offer.policy} costs ${max(0.0, part.worth_usd):.4f}"


def originals(view: View, edit: Edit) -> Mapping[int, BaseMessage]:
    """The messages that ``edit`` removes from the view or replaces, by ``seq``, as they are in the history."""
    return {seq: view.original(seq) for seq in view.leaving(edit)}


def stamp(edit: Edit, before: int, after: int) -> Edit:
    """``edit`` with the view's tokens before and after it."""
    from dataclasses import replace

    return replace(edit, tokens_before=before, tokens_after=after)


def listed(decisions: Sequence[PolicyDecision]) -> tuple[PolicyDecision, ...]:
    """All of ``decisions``, or the first ones and a last decision that counts the rest."""
    if len(decisions) <= MAX_DECISIONS:
        return tuple(decisions)
    rest = decisions[MAX_DECISIONS - 1 :]
    admitted = any(each.admitted for each in rest)
    edits = sum(each.count for each in rest)
    return (
        *decisions[: MAX_DECISIONS - 1],
        PolicyDecision("runtime", "more", admitted, f"{len(rest)} more decisions are not listed", edits),
    )


def grouped(edits: Sequence[Edit], *, first_number: int) -> list[PolicyDecision]:
    """One decision for each group of consecutive admitted edits with the same policy and kind."""
    decisions: list[PolicyDecision] = []
    start = 0
    # `start` is the first edit of the current group; the last round closes the last group.
    for place in range(1, len(edits) + 1):
        one = edits[start]
        if place < len(edits) and (edits[place].policy, edit_kind(edits[place])) == (
            one.policy,
            edit_kind(one),
        ):
            continue
        group = edits[start:place]
        seqs = [edit.seq for edit in group]
        decisions.append(
            PolicyDecision(
                one.policy,
                edit_kind(one),
                True,
                one.reason,
                len(group),
                (min(seqs), max(seqs)),
                (first_number + start, first_number + place - 1),
                one.tokens_before,
                group[-1].tokens_after,
            )
        )
        start = place
    return decisions
