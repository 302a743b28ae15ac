"""A provider that is not there: it answers by a script, counts exactly and refuses what does not fit its window."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from zeus_runtime.models.errors import ModelError
from zeus_runtime.models.interface import ModelPiece, ModelRequest, ModelResponse, TextDelta, Usage

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

    from zeus_runtime.context.tokens import Counter
    from zeus_runtime.models.profiles import ModelProfile

Script: TypeAlias = "Generator[AIMessage | str, Sent, None]"
"""What the model does: it is given each request that fitted and yields the answer to it; a text ends the run. The
first thing it yields answers nothing: it only waits for the first request."""


@dataclass(frozen=True)
class Sent:
    """One request that fitted.

    Args:
        request: as it was sent.
        tokens: by the provider's count.
    """

    request: ModelRequest
    tokens: int

    @property
    def messages(self) -> Sequence[BaseMessage]:
        return self.request.messages


class ExactProvider:
    """A Model with an exact window.

    Args:
        profile: its name and input limit.
        counter: counts the tokens of requests.
        script: the answers to turns.
        summarise: the answer to a policy's own calls.

    Attributes:
        turns: the requests it answered by the script, in order.
        summaries: those of policies.
        refused: the sizes of requests that did not fit.
    """

    def __init__(
        self,
        profile: ModelProfile,
        counter: Counter,
        script: Script,
        summarise: Callable[[ModelRequest], str],
    ) -> None:
        self.turns: list[Sent] = []
        self.summaries: list[Sent] = []
        self.refused: list[int] = []
        self._profile = profile
        self._counter = counter
        self._script = script
        self._summarise = summarise
        self._counted: dict[int, tuple[BaseMessage, int]] = {}
        self._fixed: tuple[str, object, int] = ("", (), 0)
        next(script)

    @property
    def name(self) -> str:
        return self._profile.name

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        tokens = self._fixed_of(request) + sum(map(self._tokens_of, request.messages))
        limit = self._profile.max_input_tokens
        if tokens > limit:
            self.refused.append(tokens)
            raise ModelError(
                f"prompt is too long: {tokens} tokens > {limit} maximum",
                kind="context_overflow",
                status=400,
                input_tokens=tokens,
                limit_tokens=limit,
            )
        message = self._answer(Sent(request, tokens))
        if message.text:
            yield TextDelta(message.text)
        reason = "tool_calls" if message.tool_calls else "stop"
        yield ModelResponse(message, Usage(tokens, self._counter.message(message)), reason, self.name)

    def _answer(self, sent: Sent) -> AIMessage:
        from langchain_core.messages import AIMessage

        if sent.request.purpose != "turn":
            self.summaries.append(sent)
            return AIMessage(self._summarise(sent.request))
        self.turns.append(sent)
        answer = self._script.send(sent)
        if isinstance(answer, str):
            return AIMessage(answer)
        # The same ids in every session: whoever keeps something by them must still tell sessions apart.
        named = [
            {**call, "id": f"call_{len(self.turns)}_{index}"} for index, call in enumerate(answer.tool_calls)
        ]
        return answer.model_copy(update={"tool_calls": named})

    def _fixed_of(self, request: ModelRequest) -> int:
        if self._fixed[:2] != (request.system, request.tools):
            tokens = self._counter.fixed(request.system, request.tools)
            self._fixed = request.system, request.tools, tokens
        return self._fixed[2]

    def _tokens_of(self, message: BaseMessage) -> int:
        known = self._counted.get(id(message))
        if known is None:
            # The message is kept with its id, so that the id is not given to another one.
            known = self._counted[id(message)] = (message, self._counter.message(message))
        return known[1]
