"""The summary call: in pieces that fit the summarizer's window, and tried again with less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from zeus_plugins.middlewares.summarization.transcript import chunks, end
from zeus_plugins.middlewares.summarization.wording import bounded
from zeus_runtime.plugin.model import ModelError, ModelRequest, ModelResponse, calls_of, cost_usd

if TYPE_CHECKING:
    from zeus_runtime.plugin.counter import Counter
    from zeus_runtime.plugin.model import Model, ModelProfile

_HOPELESS: Final = frozenset({"auth", "divergence"})
"""Failures that less input does not cure."""

_NO_TEXT: Final = "the summary model gave no text"

CUT_NOTE: Final = "[the summary was cut here]"


@dataclass(frozen=True)
class SummaryOutcome:
    """What came of it.

    Args:
        summary: as far as it was paid for; the former summary while no call has given one.
        done: how many entries it covers.
        calls: model calls that gave a text.
        cost_usd: what they cost; None while no price is known.
        trimmed: how many of the calls saw only the end of their piece.
        failure: why the rest is not covered; empty when all is.
        in_place: whether it was asked for in the conversation itself.
    """

    summary: str = ""
    done: int = 0
    calls: int = 0
    cost_usd: float | None = None
    trimmed: int = 0
    failure: str = ""
    in_place: bool = False


class Summariser:
    """Summarises with a model, in as many calls as its window needs, each going on from the summary before.

    Args:
        model: what is called; it repeats failed calls itself, as `retry` says.
        prompt: how a summary is written.
        counter: counts in the model's tokens.
        profile: the model's window and prices.
        summary_tokens: the longest summary.
    """

    def __init__(
        self, model: Model, *, prompt: str, counter: Counter, profile: ModelProfile, summary_tokens: int
    ) -> None:
        self._model = model
        self._prompt = prompt
        self._count = counter.text
        self._profile = profile
        self._limit = summary_tokens

    async def summarise(self, entries: Sequence[str], previous: str) -> SummaryOutcome:
        """One summary of ``previous`` and ``entries``; what was paid for is in it also when a later call fails."""
        made = SummaryOutcome(summary=previous)
        pieces = list(chunks(entries, self._count, self._piece_tokens))
        for number, piece in enumerate(pieces, start=1):
            try:
                answer = await self._call(made.summary, piece.text, number, len(pieces))
                trimmed = 0
            except ModelError as error:
                if error.kind in _HOPELESS:
                    return replace(made, failure=error.message)
                try:
                    rest = end(piece.text, self._count, self._less(piece.text, error))
                    answer = await self._call(made.summary, rest, number, len(pieces))
                    trimmed = 1
                except ModelError as second:
                    return replace(made, failure=second.message)
            price = self._price(answer)
            cost = made.cost_usd if price is None else (made.cost_usd or 0.0) + price
            made = SummaryOutcome(
                self._bounded(answer), piece.done, made.calls + 1, cost, made.trimmed + trimmed
            )
        return made

    async def continue_with(self, request: ModelRequest, entries: int) -> SummaryOutcome:
        """One summary asked for in the conversation itself, or why there is none.

        Args:
            request: the conversation, the question last.
            entries: how many messages the summary stands for.
        """
        try:
            answer = await self._finished(request)
        except ModelError as error:
            return SummaryOutcome(failure=error.message)
        if calls_of(answer.message):
            # What it says beside a call announces the call; it is no summary.
            return SummaryOutcome(failure="the model called a tool", cost_usd=self._price(answer))
        if not _is_text(answer):
            return SummaryOutcome(failure=_NO_TEXT, cost_usd=self._price(answer))
        return SummaryOutcome(self._bounded(answer), entries, 1, self._price(answer), in_place=True)

    def _price(self, answer: ModelResponse) -> float | None:
        if answer.cost_usd is None and answer.usage is not None:
            return cost_usd(self._profile, answer.usage)
        return answer.cost_usd

    def _bounded(self, answer: ModelResponse) -> str:
        text = _text(answer)
        if answer.finish_reason == "length":
            text = f"{text}\n{CUT_NOTE}"
        return bounded(text, self._count, self._limit, CUT_NOTE)

    @property
    def _piece_tokens(self) -> int:
        """What one call can take besides the prompt, the former summary and the answer, a tenth left for the error
        of the count."""
        taken = self._count(self._prompt) + 2 * self._limit + 200
        return max(200, self._profile.max_input_tokens * 9 // 10 - taken)

    def _less(self, piece: str, error: ModelError) -> int:
        """A second try sees half, or less where the provider says how much was too much."""
        share = 0.5
        if error.input_tokens and error.limit_tokens:
            share = min(share, error.limit_tokens / error.input_tokens * 0.5)
        return max(1, int(self._count(piece) * share))

    async def _call(self, previous: str, piece: str, number: int, pieces: int) -> ModelResponse:
        from langchain_core.messages import HumanMessage

        of = f" (part {number} of {pieces})" if pieces > 1 else ""
        asked = [f"<messages>\n{piece}\n</messages>"]
        if previous:
            asked.insert(0, f"<summary_so_far>\n{previous}\n</summary_so_far>")
        words = self._limit * 6 // 10
        asked.append(
            f"Write the record of these messages{of}{', going on from the summary so far' if previous else ''}, in at "
            f"most {words} words."
        )
        return await self._answer(
            ModelRequest(self._prompt, [HumanMessage("\n\n".join(asked))], purpose="summary")
        )

    async def _answer(self, request: ModelRequest) -> ModelResponse:
        response = await self._finished(request)
        if not _is_text(response):
            raise ModelError(_NO_TEXT, kind="server")
        return response

    async def _finished(self, request: ModelRequest) -> ModelResponse:
        response: ModelResponse | None = None
        async for each in self._model.stream(request):
            if isinstance(each, ModelResponse):
                response = each
        if response is None:
            raise ModelError(_NO_TEXT, kind="server")
        return response


def _is_text(response: ModelResponse) -> bool:
    return bool(_text(response)) and response.finish_reason != "content_filter"


def _text(response: ModelResponse) -> str:
    return str(response.message.text).strip()
