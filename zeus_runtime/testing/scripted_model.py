"""A model that answers by a script, for tests: no network, no clock, the same ids every time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from zeus_runtime.models.errors import ModelError
from zeus_runtime.models.interface import (
    ModelPiece,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
)

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

Answer: TypeAlias = "str | AIMessage | ModelResponse | BaseException"
Step: TypeAlias = "Answer | Callable[[ModelRequest], Answer]"

_PIECE_CHARACTERS = 8
_PIECES = 200
"""Of a text, about; a longer text has longer pieces."""


class ScriptedModel:
    """Answers one step per call: a text, a message, a whole response, an exception to raise, or a function of the
    request that gives one of these.

    Args:
        steps: the script. When it is used up, a call fails with a ModelError (divergence).
        by_position: the step is chosen by how many answers the conversation already holds, not by how often the model
            was called; so a second model with the same script continues a resumed run.
        usage: reported with every answer that does not bring its own; None reports none.
        name: what ``name`` says.

    Attributes:
        requests: every request, in the order they came.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        *,
        by_position: bool = False,
        usage: Usage | None = Usage(input_tokens=10, output_tokens=5),  # noqa: B008, RUF100 - frozen
        name: str = "scripted",
    ) -> None:
        self.requests: list[ModelRequest] = []
        self._steps = tuple(steps)
        self._by_position = by_position
        self._usage = usage
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        self.requests.append(request)
        place = _answers(request) if self._by_position else len(self.requests) - 1
        for piece in self._pieces(request, place):
            yield piece

    def _pieces(self, request: ModelRequest, place: int) -> Iterator[ModelPiece]:
        if place >= len(self._steps):
            raise ModelError(
                f"the script has {len(self._steps)} steps, and call {place + 1} came", kind="divergence"
            )
        step = self._steps[place]
        answer: Any = step if isinstance(step, BaseException) or not callable(step) else step(request)
        if isinstance(answer, BaseException):
            raise answer
        response = self._response(answer, place)
        yield from _streamed(response.message)
        yield response

    def _response(self, answer: str | AIMessage | ModelResponse, place: int) -> ModelResponse:
        from langchain_core.messages import AIMessage

        if isinstance(answer, ModelResponse):
            return answer
        message = AIMessage(answer) if isinstance(answer, str) else answer
        if any(call["id"] is None for call in message.tool_calls):
            named = [
                {**call, "id": call["id"] or f"call_{place}_{index}"}
                for index, call in enumerate(message.tool_calls)
            ]
            message = message.model_copy(update={"tool_calls": named})
        reason = "tool_calls" if message.tool_calls or message.invalid_tool_calls else "stop"
        return ModelResponse(message, self._usage, reason, self._name)


def calling(*calls: tuple[str, Mapping[str, Any]], text: str = "") -> AIMessage:
    """A step that calls tools, in parallel: ``calling(("ls", {"path": "/"}))``. The model gives the ids."""
    from langchain_core.messages import AIMessage

    return AIMessage(
        text,
        tool_calls=[{"name": name, "args": dict(arguments), "id": None} for name, arguments in calls],
    )


def _answers(request: ModelRequest) -> int:
    return sum(message.type == "ai" for message in request.messages)


def _streamed(message: AIMessage) -> Iterator[ModelPiece]:
    from json import dumps

    reasoning = message.additional_kwargs.get("reasoning_content", "")
    yield from (ReasoningDelta(piece) for piece in _cut(reasoning))
    yield from (TextDelta(piece) for piece in _cut(message.text))
    calls = [
        (call["id"], call["name"], dumps(call["args"], ensure_ascii=False)) for call in message.tool_calls
    ]
    calls += [(call["id"], call["name"] or "", call["args"] or "") for call in message.invalid_tool_calls]
    for index, (call_id, name, arguments) in enumerate(calls):
        yield ToolCallDelta(index, call_id, name, "")
        yield from (ToolCallDelta(index, None, None, piece) for piece in _cut(arguments))


def _cut(text: str) -> Iterator[str]:
    length = max(_PIECE_CHARACTERS, len(text) // _PIECES)
    return (text[start : start + length] for start in range(0, len(text), length))
