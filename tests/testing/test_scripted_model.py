"""The scripted model answers as told, the same way every time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from zeus_runtime.plugin.model import ModelError, ModelPiece, ModelRequest, ModelResponse, TextDelta, Usage
from zeus_runtime.testing import ModelConformance, ScriptedModel, calling


def request(*texts: str) -> ModelRequest:
    return ModelRequest(
        "", [AIMessage(text) if text.startswith("ai") else HumanMessage(text) for text in texts]
    )


def ask(model: ScriptedModel, asked: ModelRequest) -> tuple[list[ModelPiece], ModelResponse]:
    async def collect() -> list[ModelPiece]:
        return [piece async for piece in model.stream(asked)]

    *pieces, response = asyncio.run(collect())
    assert isinstance(response, ModelResponse)
    return pieces, response


def test_steps_are_answered_in_order_and_requests_kept() -> None:
    model = ScriptedModel(["one", AIMessage("two"), lambda asked: f"three to {asked.messages[0].content}"])
    asked = request("me")
    assert [ask(model, asked)[1].message.content for _ in range(3)] == ["one", "two", "three to me"]
    assert model.requests == [asked] * 3


@pytest.mark.parametrize("length", [1_607, 1_608, 2_000_000])
def test_a_long_text_streams_in_few_pieces(length: int) -> None:
    text = "abcdefghi" * (length // 9 + 1)
    pieces, _ = ask(ScriptedModel([text[:length]]), request("x"))
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == text[:length]
    assert 199 <= len(pieces) <= 201


def test_a_text_streams_in_pieces() -> None:
    pieces, _ = ask(ScriptedModel(["a longer answer"]), request("x"))
    assert pieces == [TextDelta("a longer"), TextDelta(" answer")]


def test_calls_without_ids_get_the_same_ones_every_time() -> None:
    for _ in range(2):
        model = ScriptedModel(["text", calling(("ls", {}), ("ls", {"path": "/"}))])
        ask(model, request("x"))
        _, response = ask(model, request("x"))
        assert [call["id"] for call in response.message.tool_calls] == ["call_1_0", "call_1_1"]
        assert response.finish_reason == "tool_calls"


def test_by_position_a_new_model_goes_on_where_the_conversation_stands() -> None:
    steps = ["first", "second", "third"]
    model = ScriptedModel(steps, by_position=True)
    assert ask(model, request("x", "ai", "y"))[1].message.content == "second"
    assert (
        ask(ScriptedModel(steps, by_position=True), request("x", "ai", "y", "ai"))[1].message.content
        == "third"
    )


def test_an_exception_is_raised_where_it_stands() -> None:
    model = ScriptedModel([ModelError("down", kind="server"), "up"])
    with pytest.raises(ModelError, match="down"):
        ask(model, request("x"))
    assert ask(model, request("x"))[1].message.content == "up"


def test_a_used_up_script_says_so() -> None:
    with pytest.raises(ModelError, match="has 0 steps, and call 1 came"):
        ask(ScriptedModel([]), request("x"))


def test_usage_is_what_was_asked_for() -> None:
    usage = Usage(3, 4)
    assert ask(ScriptedModel(["x"], usage=usage), request("x"))[1].usage == usage
    assert ask(ScriptedModel(["x"], usage=None), request("x"))[1].usage is None


def test_the_script_itself_is_not_changed() -> None:
    step = calling(("ls", {}))
    ask(ScriptedModel([step]), request("x"))
    assert step.tool_calls[0]["id"] is None


class TestConformance(ModelConformance):
    can_hang = False

    @contextmanager
    def answering(self, answer: AIMessage | Exception | None) -> Iterator[ScriptedModel]:
        if isinstance(answer, Exception):
            yield ScriptedModel([ModelError(str(answer), kind="server")])
        else:
            assert answer is not None
            yield ScriptedModel([answer] * 3)


@pytest.mark.parametrize(
    ("pieces", "broken"),
    [
        ([TextDelta("Hello, world!")], "test_the_response_comes_once_and_last"),
        ([ModelResponse(AIMessage("Hello, world!"))], "test_a_text_streams_and_is_whole_at_the_end"),
        ([TextDelta("Hello, world!"), ModelResponse(AIMessage("Hello, world!"))], "test_usage_is_reported"),
        (
            [ModelResponse(AIMessage("")), ModelResponse(AIMessage(""))],
            "test_the_response_comes_once_and_last",
        ),
    ],
)
def test_conformance_catches_a_model_that_breaks_the_rules(pieces: list[ModelPiece], broken: str) -> None:
    class Rebel:
        name = "rebel"

        async def stream(self, request: ModelRequest):  # type: ignore[no-untyped-def]
            for piece in pieces:
                yield piece

    class Tried(ModelConformance):
        @contextmanager
        def answering(self, answer: AIMessage | Exception | None) -> Iterator[Rebel]:
            yield Rebel()

    with pytest.raises(AssertionError):
        getattr(Tried(), broken)()


def test_conformance_catches_a_model_that_ignores_a_cancel() -> None:
    class Deaf:
        name = "deaf"

        async def stream(self, request: ModelRequest):  # type: ignore[no-untyped-def]
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                yield ModelResponse(AIMessage(""))

    class Tried(ModelConformance):
        @contextmanager
        def answering(self, answer: AIMessage | Exception | None) -> Iterator[Deaf]:
            yield Deaf()

    with pytest.raises(AssertionError):
        Tried().test_a_cancel_ends_the_call()
