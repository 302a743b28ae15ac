"""What every ``Model`` must do, as tests that an author of a model plugin inherits.

    class TestMyModel(ModelConformance):
        @contextmanager
        def answering(self, answer):
            with my_fake_provider(answer) as url:
                yield MyModel(url)

The tests need pytest, and nothing else: they run their own event loop.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from zeus_runtime.models.errors import ModelError
from zeus_runtime.models.interface import (
    Model,
    ModelPiece,
    ModelRequest,
    ModelResponse,
    TextDelta,
    ToolCallDelta,
    ToolSchema,
)

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

_LS = ToolSchema("ls", "Lists a folder.", {"type": "object", "properties": {"path": {"type": "string"}}})
_DEADLINE_SECONDS = 30


class ModelConformance:
    """Inherit it and say how to get the model; each ``test_`` method is one thing a model must do."""

    can_hang: ClassVar[bool] = True
    """False for a model that cannot be made to wait: the tests of cancelling are then left out."""

    can_fail: ClassVar[bool] = True
    """False for a model whose provider cannot be made to fail."""

    def answering(self, answer: AIMessage | Exception | None) -> AbstractContextManager[Model]:
        """The model, its provider giving ``answer`` to every request.

        Args:
            answer: the message; None for a provider that says nothing for ever; an exception for one that fails with
                a server error (its text is the provider's).
        """
        raise NotImplementedError

    def request(self) -> ModelRequest:
        """What is asked; override it if the model needs another."""
        from langchain_core.messages import HumanMessage

        return ModelRequest("Be brief.", [HumanMessage("Hello?")], tools=(_LS,))

    def test_a_text_streams_and_is_whole_at_the_end(self) -> None:
        streamed, response = self._ask(_text())
        assert "".join(piece.text for piece in streamed if isinstance(piece, TextDelta)) == "Hello, world!"
        assert response.message.content == "Hello, world!"
        assert response.message.tool_calls == []

    def test_the_response_comes_once_and_last(self) -> None:
        for answer in (_text(), _two_calls()):
            streamed, _ = self._ask(answer)
            assert not any(isinstance(piece, ModelResponse) for piece in streamed)

    def test_parallel_calls_are_told_apart(self) -> None:
        streamed, response = self._ask(_two_calls())
        calls = response.message.tool_calls
        assert [(call["name"], call["args"]) for call in calls] == [
            ("ls", {"path": "/a"}),
            ("ls", {"path": "/b"}),
        ]
        assert len({call["id"] for call in calls}) == 2
        assert all(call["id"] for call in calls)
        for index, call in enumerate(calls):
            pieces = [
                piece for piece in streamed if isinstance(piece, ToolCallDelta) and piece.index == index
            ]
            assert (pieces[0].id, pieces[0].name) == (call["id"], call["name"])
            assert json.loads("".join(piece.arguments for piece in pieces)) == call["args"]
        assert response.finish_reason == "tool_calls"

    def test_usage_is_reported(self) -> None:
        _, response = self._ask(_text())
        assert response.usage is not None
        assert response.usage.input_tokens > 0
        assert response.usage.output_tokens > 0
        assert (
            response.usage.cache_read_tokens + response.usage.cache_write_tokens
            <= response.usage.input_tokens
        )

    def test_one_model_serves_calls_at_the_same_time(self) -> None:
        with self.answering(_text()) as model:

            async def three() -> list[list[ModelPiece]]:
                return list(await asyncio.gather(*(_collect(model, self.request()) for _ in range(3))))

            answers = asyncio.run(three())
        assert [_response(pieces).message.content for pieces in answers] == ["Hello, world!"] * 3

    def test_what_the_provider_does_wrong_is_a_model_error(self) -> None:
        if not self.can_fail:
            _skip("the provider cannot be made to fail")
        import pytest

        with (
            self.answering(RuntimeError("the provider is on fire")) as model,
            pytest.raises(ModelError) as caught,
        ):
            asyncio.run(_collect(model, self.request()))
        assert caught.value.kind in ("server", "network")

    def test_a_cancel_ends_the_call(self) -> None:
        if not self.can_hang:
            _skip("the provider cannot be made to wait")
        with self.answering(None) as model:

            async def cancelled() -> bool:
                call = asyncio.create_task(_collect(model, self.request()))
                done, _ = await asyncio.wait([call], timeout=0.1)
                assert not done, "the call must wait for its provider"
                call.cancel()
                done, _ = await asyncio.wait([call], timeout=_DEADLINE_SECONDS)
                return bool(done) and call.cancelled()

            assert asyncio.run(cancelled())

    def test_a_stream_can_be_closed_at_any_piece(self) -> None:
        with self.answering(_text()) as model:

            async def closed() -> None:
                stream: Any = model.stream(self.request())
                await anext(stream)
                await asyncio.wait_for(stream.aclose(), _DEADLINE_SECONDS)

            asyncio.run(closed())

    def test_it_has_a_name(self) -> None:
        with self.answering(_text()) as model:
            assert model.name

    def _ask(self, answer: AIMessage) -> tuple[list[ModelPiece], ModelResponse]:
        with self.answering(answer) as model:
            pieces = asyncio.run(_collect(model, self.request()))
        return pieces[:-1], _response(pieces)


def _text() -> AIMessage:
    from langchain_core.messages import AIMessage

    return AIMessage("Hello, world!")


def _two_calls() -> AIMessage:
    from langchain_core.messages import AIMessage

    return AIMessage(
        "",
        tool_calls=[
            {"name": "ls", "args": {"path": "/a"}, "id": "a"},
            {"name": "ls", "args": {"path": "/b"}, "id": "b"},
        ],
    )


async def _collect(model: Model, request: ModelRequest) -> list[ModelPiece]:
    return [piece async for piece in model.stream(request)]


def _response(pieces: list[ModelPiece]) -> ModelResponse:
    assert pieces, "a stream must not be empty"
    last = pieces[-1]
    assert isinstance(last, ModelResponse), "the last piece must be the response"
    return last


def _skip(why: str) -> NoReturn:
    import pytest

    pytest.skip(why)
