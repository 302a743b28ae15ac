"""The summarization policy: replaces old messages by one structured summary; the originals stay readable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from zeus_runtime.plugin import dataclass
from zeus_runtime.plugin.context import CompactionOffer, Summarize
from zeus_runtime.plugin.middleware import Middleware
from zeus_runtime.plugin.model import is_users, text_of

if TYPE_CHECKING:
    from zeus_plugins.middlewares.summarization.options import Options
    from zeus_plugins.middlewares.summarization.price import SentAgain
    from zeus_plugins.middlewares.summarization.summariser import Summariser, SummaryOutcome
    from zeus_runtime.plugin import RunContext
    from zeus_runtime.plugin.context import Budget, Edit, Item, Size, View
    from zeus_runtime.plugin.counter import Counter
    from zeus_runtime.plugin.model import ModelProfile, ModelRequest

POLICY = "summarization"

_LEAST_SHARE = 0.05
"""A smaller share of the input limit, or of the latest size for a summary, is not worth a broken prefix, unless the
provider refused the request."""

_LEAST_TOKENS = 150
"""A summary with its frame is never shorter than this."""


@dataclass(frozen=True)
class _Paid:
    """A summary that was written but is not in the view yet.

    Args:
        first, start: the messages that it replaces, by their places in the history; ``start`` is excluded.
        summary: the text.
    """

    first: int
    start: int
    summary: str


class Summarization(Middleware):
    """Summarizes when the trigger is reached. A summary that was not admitted is the beginning of the next one.

    Args:
        options: the trigger, the messages to keep, and the model.
        context: the models and the counter.

    Raises:
        OptionsError: no Home has the prompt file.
    """

    proposes = (Summarize,)

    def __init__(self, options: Options, context: RunContext) -> None:
        self._options = options
        self._context = context
        self._prompt = options.prompt_file(context.homes).read_text(encoding="utf-8-sig").strip()
        self._paid: _Paid | None = None
        self._sent: SentAgain | None = None
        self._priced: ModelProfile | None = None
        self._offered = False

    async def edits(self, view: View, budget: Budget) -> Sequence[Edit | CompactionOffer]:
        why = self._triggered(view, budget)
        if not why:
            return ()
        start = self._start(view, budget)
        if start is None:
            return ()
        replaced = [view.item_of(seq) for seq in range(view.first, start) if seq not in view.pinned]
        if not self._worth_it(replaced, budget):
            return ()
        # After an overflow, or if the user asks to compact, every policy's trigger counts as reached already.
        if budget.overflow or not self._options.cheaper_first:
            return (await self._edit(view, budget, replaced, start, why),)
        return (self._offer(view, budget, replaced, start, why),)

    def _offer(
        self, view: View, budget: Budget, replaced: Sequence[Item], start: int, why: str
    ) -> CompactionOffer:
        async def make() -> Sequence[Edit]:
            self._offered = False
            return (await self._edit(view, budget, replaced, start, why),)

        self._offered = True
        sent = self._sent
        return CompactionOffer(
            policy=POLICY,
            reason=why,
            seq=start,
            cheaper_first=self._options.cheaper_first,
            at_most_tokens=self._enough(budget),
            removes_tokens=max(1, sum(item.tokens for item in replaced) - self._limit(budget) // 2),
            make=make,
            price_usd=None if sent is None else sent.summary_usd(budget.used_tokens),
            spent_usd=0.0 if sent is None else sent.cost_usd,
        )

    def _enough(self, budget: Budget) -> int:
        """Return the tokens of a request at which no summary is due for a while; 0 if fewer tokens do not help."""
        most = [budget.used_tokens, self._latest(budget)]
        if self._trigger.messages is None:
            most.append(budget.tokens_of(self._trigger))
        elif budget.at_least(self._trigger):
            return 0
        return int((1 - _LEAST_SHARE) * min(most))

    def _triggered(self, view: View, budget: Budget) -> str:
        """Return the reason for a summary now; empty for none."""
        sent = self._sent_again(budget)
        if sent is not None:
            if self._offered:
                # Cheaper edits were made instead: what is left has cost less.
                sent.forget()
                self._offered = False
            sent.note(view, is_cached=not budget.cache_expired)
        most = self._options.max_trigger_tokens
        if budget.at_least(self._trigger):
            return f"the request reached {self._trigger}"
        if budget.used_tokens >= self._latest(budget):
            return "the request reached " + (
                "the input limit" if most is None else f"{most:,} tokens of messages"
            )
        if sent is not None and self._pays(budget):
            cost, summary = sent.cost_usd, sent.summary_usd(budget.used_tokens)
            expired = ", since the provider's cache has expired" if budget.cache_expired else ""
            return (
                f"sending the older messages again has cost ${cost:.4f}, and a summary costs about"
                f" ${summary:.4f}{expired}"
            )
        return ""

    def _pays(self, budget: Budget) -> bool:
        """Return whether a summary is due by its price."""
        return self._options.by_price and self._sent is not None and self._sent.pays(budget.used_tokens)

    def _sent_again(self, budget: Budget) -> SentAgain | None:
        """Return what sending again has cost; None if it decides nothing."""
        from zeus_plugins.middlewares.summarization.price import SentAgain, prices_of

        options, profile = self._options, self._context.profile
        if self._priced is not profile:
            # Another model of a chain has other prices, and has cached nothing.
            self._priced, self._sent = profile, None
        prices = prices_of(profile) if options.by_price or options.cheaper_first else None
        if prices is not None and self._sent is None:
            summary = self._limit(budget) // 2
            kept = budget.tokens_of(self._keep) if self._keep.messages is None else 0
            said = min(self._options.user_message_tokens, self._limit(budget) // 4)
            self._sent = SentAgain(prices, stays_tokens=kept + summary + said, summary_tokens=summary)
        return self._sent

    def _latest(self, budget: Budget) -> int:
        """Return the tokens of a request from which on it is summarized, whatever the trigger says."""
        most = self._options.max_trigger_tokens
        return budget.usable_tokens if most is None else most + budget.fixed_tokens

    def _start(self, view: View, budget: Budget) -> int | None:
        """Return the place in the history of the first message that stays."""
        from zeus_plugins.middlewares.summarization.cut import cut

        items = [view.item_of(seq) for seq in range(view.first, view.upto + 1)]
        trigger, keep = self._trigger, self._keep
        # A trigger in messages names no size, so a usual one takes its place.
        usable = budget.usable_tokens
        ceiling = budget.tokens_of(trigger) if trigger.messages is None else usable * 85 // 100
        ceiling = min(ceiling, self._latest(budget))
        if budget.overflow:
            ceiling = min(ceiling, usable // 2)
        others = budget.used_tokens - sum(item.tokens for item in items)
        place = cut(
            [item.message.type for item in items],
            [item.tokens for item in items],
            keep_messages=keep.messages,
            keep_tokens=None if keep.messages is not None else budget.tokens_of(keep),
            # A fifth stays free: otherwise the next step would reach the trigger again.
            room_tokens=max(0, (ceiling - others - self._limit(budget)) * 4 // 5),
        )
        return None if place is None else items[place].seq

    @property
    def _trigger(self) -> Size:
        return self._options.sizes(self._context.profile)[0]

    @property
    def _keep(self) -> Size:
        return self._options.sizes(self._context.profile)[1]

    @property
    def _counter(self) -> Counter:
        return self._context.counter

    def _limit(self, budget: Budget) -> int:
        """Return the maximum length of the summary in tokens."""
        # An eighth, so that in a small window the summary does not take the room that it makes.
        return min(self._options.max_summary_tokens, budget.usable_tokens // 8)

    def _worth_it(self, replaced: Sequence[Item], budget: Budget) -> bool:
        tokens = sum(item.tokens for item in replaced)
        # Also after an overflow: such a summary would be longer than what it replaces.
        if tokens < _LEAST_TOKENS:
            return False
        if budget.overflow or self._trigger.messages is not None or self._pays(budget):
            return True
        return tokens >= _LEAST_SHARE * min(budget.usable_tokens, self._latest(budget))

    async def _edit(self, view: View, budget: Budget, replaced: Sequence[Item], start: int, why: str) -> Edit:
        from zeus_plugins.middlewares.summarization.summary_message import bounded, compose, newest_said

        count = self._counter.text
        # A longer summary of so few messages would hardly pay for the changed prefix.
        limit = min(self._limit(budget), sum(item.tokens for item in replaced) // 3)
        handle = self._context.archive.history_handle
        note = f"[cut; the rest is in {handle}]"
        request = self._request(view, replaced, start)
        if request is not None:
            request = request[0], bounded(request[1], count, max(50, limit), note)
        most = min(self._options.user_message_tokens, limit // 4)
        said = newest_said(self._said(view, replaced, request), count, most, note)
        # The user's words are part of the summary's room, not beside it.
        limit -= sum(count(text) for _, text in said)
        summary, how, cost = await self._summary(view, budget, replaced, start, limit)
        # Kept before the planner decides: if it refuses the edit, the summary that was paid for is used next time.
        self._paid = _Paid(view.first, start, summary)
        return Summarize(
            policy=POLICY,
            reason=f"{why}; {len(replaced)} messages {how}",
            seq=start,
            content=compose(
                summary,
                handle=handle,
                count=start - 1 - sum(seq < start for seq in view.pinned),
                last=start - 1,
                said=said,
                request=request,
            ),
            handle=handle,
            cost_usd=cost,
        )

    async def _summary(
        self, view: View, budget: Budget, replaced: Sequence[Item], start: int, limit: int
    ) -> tuple[str, str, float | None]:
        """Return the summary, a description of how it was made, and its cost in USD."""
        from zeus_plugins.middlewares.summarization.extract import extract
        from zeus_plugins.middlewares.summarization.summary_message import bounded, summary_in
        from zeus_plugins.middlewares.summarization.transcript import entry, tail

        count = self._counter.text
        former = summary_in(str(view.summary.content)) if view.summary is not None else ""
        paid, refused = self._paid, None
        # The planner refused the edit after the summary was paid for: only what came since is summarized.
        if paid is not None and paid.first == view.first and paid.summary:
            former = paid.summary
            replaced = [item for item in replaced if item.seq >= paid.start]
            if not replaced:
                return former, "are in a summary that was written earlier", None
        elif (request := self._in_conversation(view, budget, replaced, start, limit)) is not None:
            outcome = await self._summariser(limit).continue_with(request, len(replaced))
            if not outcome.failure:
                return outcome.summary, _how(outcome, 0), outcome.cost_usd
            refused = outcome
        entries = [entry(item.seq, item.message) for item in replaced]
        shown = entries
        if self._options.trim_tokens_to_summarize is not None:
            shown = tail(entries, count, self._options.trim_tokens_to_summarize)
        skipped = len(entries) - len(shown)
        outcome = await self._outcome(shown, former, limit)
        how, cost = _how(outcome, skipped), outcome.cost_usd
        if refused is not None:
            how = f"{how}; the request in the conversation returned no summary: {refused.failure}"
            cost = refused.cost_usd if cost is None else cost + (refused.cost_usd or 0.0)
        if not outcome.failure:
            return outcome.summary, how, cost
        # The model failed part of the way: its summary so far stays, and the rest becomes an extract.
        rest = replaced[skipped + outcome.done :]
        known = outcome.summary if outcome.calls else bounded(former, count, limit, "[cut]") if former else ""
        lines = extract([(item.seq, item.message) for item in rest], count, limit)
        made = "\n\n".join(part for part in (known, lines) if part)
        return made, how, cost

    def _in_conversation(
        self, view: View, budget: Budget, replaced: Sequence[Item], start: int, limit: int
    ) -> ModelRequest | None:
        """Return a request for a summary that extends the last request sent; None if a transcript is cheaper."""
        from zeus_plugins.middlewares.summarization.ongoing import cheaper, question, shared_messages

        options, context = self._options, self._context
        if (
            not options.reuse_cache
            or options.model is not None
            or context.model_profile is not context.profile
            or options.trim_tokens_to_summarize is not None
        ):
            return None
        # None before this process has sent one: then nothing is known of the provider's cache.
        sent = context.last_request()
        if sent is None or budget.overflow:
            return None
        asked = question(self._prompt, view.upto - start + 1, limit)
        question_tokens = self._counter.message(asked)
        if budget.used_tokens + question_tokens > budget.usable_tokens:
            return None
        items = list(view.items())
        new = sum(item.tokens for item in items[shared_messages(sent.messages, items) :])
        if not cheaper(
            context.profile,
            cached_tokens=0 if budget.cache_expired else budget.used_tokens - new,
            new_tokens=new + question_tokens,
            transcript_tokens=sum(item.tokens for item in replaced) + self._counter.text(self._prompt),
        ):
            return None
        return sent.override(messages=[*(item.message for item in items), asked], purpose="summary")

    async def _outcome(self, entries: Sequence[str], former: str, limit: int) -> SummaryOutcome:
        from zeus_plugins.middlewares.summarization.summariser import SummaryOutcome

        try:
            summariser = self._summariser(limit)
        except Exception as error:  # noqa: BLE001 - an unusable summary model must not end the run; the fallback reports it
            return SummaryOutcome(summary=former, failure=str(error))
        return await summariser.summarise(entries, former)

    def _summariser(self, limit: int) -> Summariser:
        from zeus_plugins.middlewares.summarization.summariser import Summariser
        from zeus_runtime.plugin.counter import counter_for

        context = self._context
        counter = self._counter
        if self._options.model is not None:
            model = context.open_model(self._options.model)
            profile = context.profile_of(model.name)
            counter = counter_for(profile)
        else:
            model, profile = context.model, context.model_profile
            if profile is not context.profile:
                counter = counter_for(profile)
        return Summariser(
            model,
            prompt=self._prompt,
            counter=counter,
            profile=profile,
            summary_tokens=limit,
        )

    def _said(
        self, view: View, replaced: Sequence[Item], request: tuple[int, str] | None
    ) -> Iterator[tuple[int, str]]:
        """Yield place and text of the user's messages that left the view, newest first, but for the last request."""
        from zeus_plugins.middlewares.summarization.summary_message import said_in

        former = set() if view.summary is None else said_in(str(view.summary.content))
        # The former summary may quote a tag with any number in it: only messages that have left count.
        earlier = {seq for seq in former if 0 < seq < view.first and seq not in view.pinned}
        gone = {item.seq for item in replaced}
        for seq in sorted(earlier | gone, reverse=True):
            message = view.original(seq)
            if is_users(message) and (request is None or seq != request[0]):
                yield seq, text_of(message, name_others=True)

    def _request(self, view: View, replaced: Sequence[Item], start: int) -> tuple[int, str] | None:
        """Return the user's last request if the view would no longer show it."""
        from zeus_plugins.middlewares.summarization.summary_message import request_in

        if any(is_users(view.original(seq)) for seq in range(start, view.upto + 1)):
            return None
        gone = next((item for item in reversed(replaced) if is_users(item.message)), None)
        pinned = max((seq for seq in view.pinned if is_users(view.original(seq))), default=0)
        if gone is not None:
            return (gone.seq, text_of(gone.message, name_others=True)) if gone.seq > pinned else None
        carried = request_in(str(view.summary.content)) if view.summary is not None else None
        return carried if carried is not None and carried[0] > pinned else None


def _how(outcome: SummaryOutcome, skipped: int) -> str:
    calls = "one call" if outcome.calls == 1 else f"{outcome.calls} calls"
    where = " of the conversation itself" if outcome.in_place else ""
    said = [f"summarized in {calls}{where}"] if outcome.calls else []
    if skipped:
        said.append(f"the oldest {skipped} not shown to the summarizer (trim_tokens_to_summarize)")
    if outcome.trimmed:
        said.append(f"{outcome.trimmed} of the calls with trimmed input")
    if outcome.failure:
        what = "the rest" if outcome.calls else "an extract"
        said.append(f"{what} was made without a model, because the summary model failed: {outcome.failure}")
    return "; ".join(said)
