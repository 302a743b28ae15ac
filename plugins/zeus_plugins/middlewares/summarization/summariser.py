"""Calls the summary model, in parts that fit its window, and retries with less input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from zeus_plugins.middlewares.summarization.summary_message import bounded
from zeus_plugins.middlewares.summarization.transcript import chunks, end
from zeus_runtime.plugin.model import ModelError, ModelRequest, ModelResponse, calls_of, cost_usd

if TYPE_CHECKING:
    from zeus_runtime.plugin.counter import Counter
    from zeus_runtime.plugin.model import Model, ModelProfile

_HOPELESS: Final = frozenset({"auth", "divergence"})
"""Failures for which a retry with less input is useless."""

_NO_TEXT: Final = "the summary model returned no text"

CUT_NOTE: Final = "[the summary was cut here]"


@dataclass(frozen=True)
class SummaryOutcome:
    """The result of summarizing.

    Args:
        summary: the summary up to the last successful call; the former summary if no call succeeded.
        done: the number of entries that it covers.
        calls: the number of model calls that returned a text.
        cost_usd: their cost; None if no price is known.
        trimmed: the number of calls that saw only the end of their part.
        failure: why the remaining entries are not covered; empty if all are.
        in_place: whether the summary was requested in the conversation itself.
    """

    summary: str = ""
    done: int = 0
    calls: int = 0
    cost_usd: float | None = None
    trimmed: int = 0
    failure: str = ""
    in_place: bool = False


class Summariser:
    """Summarises with a model, in as many calls as its window needs; each call continues the previous summary.

    Args:
        model: the model to call; it retries failed calls by itself, as `retry` says.
        prompt: the instructions for the summary.
        counter: counts the model's tokens.
        profile: the model's window and prices.
        summary_tokens: maximum tokens of the summary.
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
        """Summarise ``previous`` and ``entries``; if a call fails, the results of earlier calls are kept."""
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
                    # The end of the part: its newest messages matter most.
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
        """Request a summary in the conversation itself; the outcome has the summary or the failure.

        Args:
            request: the conversation, with the question as its last message.
            entries: the number of messages that the summary replaces.
        """
        try:
            answer = await self._finished(request)
        except ModelError as error:
            return SummaryOutcome(failure=error.message)
        if calls_of(answer.message):
            # Text next to a call announces the call; it is not a summary.
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
        """Return the tokens that one call can take besides prompt, former summary and answer.

        A tenth is reserved for errors of the count.
        """
        # Twice the summary: the former one in the request and the new one in the answer; 200 for the sentences around
        # them.
        taken = self._count(self._prompt) + 2 * self._limit + 200
        return max(200, self._profile.max_input_tokens * 9 // 10 - taken)

    def _less(self, piece: str, error: ModelError) -> int:
        """Return the input for a retry in tokens: half, or less if the provider's error names its limit."""
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
            f"Write the record of these messages{of}{', continuing the summary so far' if previous else ''}, in at "
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
