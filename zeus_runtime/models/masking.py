"""A model that is sent no known secret and whose answers hold none, in whatever pieces they stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from zeus_runtime.config.secrets.placeholders import cut_place
from zeus_runtime.errors import masking_errors
from zeus_runtime.models.interface import (
    Model,
    ModelPiece,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    Retrying,
    TextDelta,
    ToolCallDelta,
    ToolSchema,
)
from zeus_runtime.models.messages import from_payload, to_payload
from zeus_runtime.strict_json import well_formed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from langchain_core.messages import BaseMessage

    from zeus_runtime.config.secrets.masking import Redactor

Message = TypeVar("Message", bound="BaseMessage")
StreamedText: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta
_TEXTS: Final = (TextDelta, ReasoningDelta, ToolCallDelta)


def masked_message(message: Message, secrets: Redactor) -> Message:
    """The message with known secrets masked; the same object where it holds none."""
    payload = to_payload(message)
    masked = secrets.masked(payload)
    if isinstance(payload["content"], list):
        masked = {**masked, "content": list(_masked_blocks(payload["content"], secrets))}
    return message if masked == payload else from_payload(masked)  # type: ignore[return-value]


def _masked_blocks(blocks: Sequence[Any], secrets: Redactor) -> Iterator[Any]:
    """Content blocks; texts side by side become one block where only together they hold a secret."""
    for is_text, group in groupby(blocks, lambda block: isinstance(block, Mapping) and _is_text(block)):
        found = list(group)
        masked = secrets.masked(found)
        if is_text and len(found) > 1:
            # A secret may begin in one block and end in the next.
            whole = secrets.text("".join(each["text"] for each in found))
            if whole != "".join(each["text"] for each in masked):
                masked = [{**masked[0], "text": whole}]
        yield from masked


def _is_text(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "text" and isinstance(block.get("text"), str)


def masked_schemas(schemas: Sequence[ToolSchema], secrets: Redactor) -> tuple[ToolSchema, ...]:
    """Tool schemas with known secrets masked in their descriptions and parameters."""
    return tuple(
        ToolSchema(each.name, secrets.text(each.description), secrets.masked(each.parameters))
        for each in schemas
    )


def masked_pieces(pieces: Sequence[ModelPiece], secrets: Redactor) -> list[ModelPiece]:
    """What a model streamed, all of it, with known secrets masked: each text is masked whole and cut anew."""
    texts: dict[tuple[type, int], list[str]] = {}
    streamed = [each for each in pieces if isinstance(each, _TEXTS)]
    for piece in streamed:
        texts.setdefault(_key(piece), []).append(_text(piece))
    cut = {key: _cut_anew(parts, secrets) for key, parts in texts.items()}
    told = [_with_text(each, next(cut[_key(each)])) for each in streamed]
    # A call's piece without text may bring its id and name.
    return [each for each in told if _text(each) or isinstance(each, ToolCallDelta)]


def _cut_anew(parts: Sequence[str], secrets: Redactor) -> Iterator[str]:
    """A text in as many pieces as before, masked; the pieces of a text without a secret are the same."""
    whole = well_formed("".join(parts))
    masked, done, end = secrets(whole), 0, 0
    for number, part in enumerate(parts, 1):
        end += len(part)
        place = len(masked) if number == len(parts) else max(done, cut_place(masked, end))
        yield masked[done:place]
        done = place


class Masked:
    """``model`` behind the last point before a provider where known secrets are masked.

    A message is looked at once, however often it is sent; again once another secret is known.

    Args:
        model: any model.
        secrets: what is masked.
        clean: the type of a conversation whose messages were masked with the secrets that are known at the beginning.
    """

    def __init__(self, model: Model, secrets: Redactor, clean: type = type(None)) -> None:
        self._clean = clean
        self._model = model
        self._secrets = secrets
        self._known = secrets.learned_count
        self._messages: dict[int, tuple[BaseMessage, BaseMessage]] = {}
        self._system = ("", "")
        self._tools: tuple[Sequence[ToolSchema], Sequence[ToolSchema]] = ((), ())

    @property
    def name(self) -> str:
        return self._model.name

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        held = HeldPieces(self._secrets)
        stream: AsyncGenerator[ModelPiece, None] = self._model.stream(self._sent(request))  # type: ignore[assignment]
        # Whatever hears of a failure, a tracer or an observer too, hears it masked.
        with masking_errors(self._secrets):
            async with aclosing(stream) as source:
                async for piece in source:
                    if isinstance(piece, Retrying):
                        held = HeldPieces(self._secrets)
                        yield replace(piece, reason=self._secrets(piece.reason))
                    elif isinstance(piece, ModelResponse):
                        for left in held.rest():
                            yield left
                        yield self._answer(piece)
                    else:
                        for passed in held.passed(piece):
                            yield passed

    def _answer(self, response: ModelResponse) -> ModelResponse:
        reason, name = self._secrets.text(response.finish_reason), self._secrets.text(response.model)
        message = masked_message(response.message, self._secrets)
        return replace(response, message=message, finish_reason=reason, model=name)

    def _sent(self, request: ModelRequest) -> ModelRequest:
        if (known := self._secrets.learned_count) != self._known:
            # No conversation is clean any more: its messages were masked before the last secret was known.
            self._known, self._clean = known, type(None)
            self._messages, self._system, self._tools = {}, ("", ""), ((), ())
        system, tools, messages = request.system, request.tools, request.messages
        if system != self._system[0]:
            self._system = (system, self._secrets.text(system))
        if tools is not self._tools[0]:
            masked = masked_schemas(tools, self._secrets)
            self._tools = (tools, tools if masked == tuple(tools) else masked)
        if self._system[1] != system:
            # A placeholder has another length than its secret, so the place of the cache mark moves.
            stable = self._secrets.text(system[: request.stable_system_length])
            request = request.override(system=self._system[1], stable_system_length=len(stable))
        if self._tools[1] is not tools:
            request = request.override(tools=self._tools[1])
        if not isinstance(messages, self._clean):
            request = request.override(messages=[self._message(each) for each in messages])
        return request

    def _message(self, message: BaseMessage) -> BaseMessage:
        known = self._messages.get(id(message))
        if known is None:
            # The message is kept with its masked form, so that its id stays its own.
            known = self._messages[id(message)] = (message, masked_message(message, self._secrets))
        return known[1]


class HeldPieces:
    """The ends of a stream's texts: text, reasoning, each call's arguments.

    Such an end may be the beginning of a secret, or half of a character, whose halves are joined as in the answer.
    """

    def __init__(self, secrets: Redactor) -> None:
        self._secrets = secrets
        self._ends: dict[tuple[type, int], str] = {}

    def passed(self, piece: StreamedText) -> Iterator[StreamedText]:
        """What of the piece, and of what was held before it, can be told now."""
        key = _key(piece)
        told, end = self._secrets.settled(self._ends.get(key, "") + _text(piece))
        if "\ud800" <= told[-1:] <= "\udbff":
            told, end = told[:-1], told[-1] + end
        told, self._ends[key] = well_formed(told), end
        # A call's piece without text may bring its id and name.
        if told or isinstance(piece, ToolCallDelta):
            yield _with_text(piece, told)

    def rest(self) -> Iterator[StreamedText]:
        """What is held at the end of the stream."""
        for (kind, index), end in self._ends.items():
            if end:
                text = well_formed(self._secrets.text(end))
                yield ToolCallDelta(index, None, None, text) if kind is ToolCallDelta else kind(text)


def _key(piece: StreamedText) -> tuple[type, int]:
    return type(piece), piece.index if isinstance(piece, ToolCallDelta) else 0


def _text(piece: StreamedText) -> str:
    return piece.arguments if isinstance(piece, ToolCallDelta) else piece.text


def _with_text(piece: StreamedText, text: str) -> StreamedText:
    if isinstance(piece, ToolCallDelta):
        return piece if piece.arguments == text else replace(piece, arguments=text)
    return piece if piece.text == text else type(piece)(text)
