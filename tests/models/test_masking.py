"""A model behind the mask: what it is sent and what it answers, whole and in pieces."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import string
from collections.abc import AsyncIterator, Sequence
from functools import partial
from itertools import pairwise
from traceback import format_exception
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from zeus_runtime.config import Redactor
from zeus_runtime.config.secrets.masking import secrets_of_environment
from zeus_runtime.config.secrets.placeholders import is_searched
from zeus_runtime.errors import ZeusError, mask_error, masking_errors
from zeus_runtime.memory.embedding import (
    Calibration,
    Embedder,
    EmbeddingUnavailableError,
    MaskedEmbedder,
    Purpose,
)
from zeus_runtime.models.errors import ModelError
from zeus_runtime.models.interface import (
    ModelPiece,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    Retrying,
    TextDelta,
    ToolCallDelta,
    ToolSchema,
)
from zeus_runtime.models.masking import Masked, masked_message, masked_pieces

if TYPE_CHECKING:
    from zeus_runtime.memory.embedding import Vectors

KEY = "sk-live-0123456789"
SECRETS = Redactor().adding({KEY: "API_KEY", f"{KEY}-and-more": "LONGER", "live-0123": "INNER"})

alphabet = string.ascii_lowercase[:3] + "012-"
secrets = st.lists(st.text(alphabet, min_size=8, max_size=12).filter(is_searched), min_size=1, max_size=3)


class Spoken:
    """A model that says given pieces, and remembers what it was asked."""

    name = "spoken"

    def __init__(self, *pieces: ModelPiece) -> None:
        self.pieces = pieces
        self.asked: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        self.asked.append(request)
        for piece in self.pieces:
            yield piece


def heard(known: Redactor, *pieces: ModelPiece, request: ModelRequest | None = None) -> list[ModelPiece]:
    async def listen() -> list[ModelPiece]:
        model = Masked(Spoken(*pieces, ModelResponse(AIMessage("end"))), known)
        return [piece async for piece in model.stream(request or ModelRequest("", []))]

    return asyncio.run(listen())


def split(text: str, places: Sequence[int]) -> list[str]:
    cuts = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(cuts)]


@given(st.data())
def test_however_a_text_is_split_it_comes_out_as_if_it_were_whole(data: st.DataObject) -> None:
    known = Redactor().adding(data.draw(secrets))
    parts = st.one_of(st.text(alphabet, max_size=6), st.sampled_from(known.forms))
    text = "".join(data.draw(st.lists(parts, max_size=5)))
    pieces = split(text, data.draw(st.lists(st.integers(0, 60))))
    for kind in (TextDelta, ReasoningDelta):
        told = [piece.text for piece in heard(known, *map(kind, pieces)) if isinstance(piece, kind)]
        assert "".join(told) == known.text(text)
    calls = [ToolCallDelta(1, None, None, each) for each in pieces]
    said = [piece.arguments for piece in heard(known, *calls) if isinstance(piece, ToolCallDelta)]
    assert "".join(said) == known.text(text)


@pytest.mark.parametrize("at", range(len(KEY) + 1))
def test_a_secret_that_is_cut_in_two_does_not_show(at: int) -> None:
    told = heard(SECRETS, TextDelta(f"it is {KEY[:at]}"), TextDelta(f"{KEY[at:]}, yes"))
    assert "".join(each.text for each in told if isinstance(each, TextDelta)) == "it is <secret:API_KEY>, yes"


@pytest.mark.parametrize("kind", [TextDelta, ReasoningDelta, partial(ToolCallDelta, 0, None, None)])
@pytest.mark.parametrize("known", [Redactor(), SECRETS])
def test_a_character_that_is_cut_in_two_comes_whole_and_half_of_one_is_replaced(
    kind: Any, known: Redactor
) -> None:
    pieces = ["A \ud83d", "\ude00 B \ude00", "C\ud83d", "D \ud83d"]
    found = masked_pieces([kind(each) for each in pieces], known)
    told = [each.arguments if isinstance(each, ToolCallDelta) else cast(Any, each).text for each in found]
    assert "".join(told) == "A \U0001f600 B \ufffdC\ufffdD \ufffd"
    assert all(each == each.encode("utf-8", "replace").decode() for each in told)


@pytest.mark.parametrize("width", [1, 7, 30, 1000])
@pytest.mark.parametrize("kind", [TextDelta, partial(ToolCallDelta, 0, None, None)])
def test_a_recorded_secret_that_is_wrapped_behind_a_prefix_is_masked_as_in_the_response(
    kind: Any, width: int
) -> None:
    secret = base64.b64encode(hashlib.sha512(b"a").digest() + hashlib.sha512(b"b").digest()).decode()
    known = Redactor({secret: "DEPLOY_KEY"})
    lines = [f"web-1  | {secret[at : at + 40]}" for at in range(0, len(secret), 40)]
    text = "\n".join(["It logs", *lines, f"and {KEY}."])
    pieces = [kind(text[at : at + width]) for at in range(0, len(text), width)]
    found = [cast(Any, each) for each in masked_pieces(pieces, known)]
    told = [each.arguments if isinstance(each, ToolCallDelta) else each.text for each in found]
    assert "".join(told) == known.text(text)
    assert secret[41:60] not in "".join(told)
    assert (len(told) > 1) == (width < len(text))
    # No piece has a part of a placeholder only.
    assert width < 30 or all(each.count("<secret:") == each.count(">") for each in told)


def test_recorded_pieces_without_a_secret_stay_as_they_came() -> None:
    pieces = [TextDelta("A "), ToolCallDelta(0, "a", "one", ""), ReasoningDelta("so"), TextDelta("word.")]
    assert masked_pieces(pieces, SECRETS) == pieces


def test_parallel_calls_and_text_are_held_apart() -> None:
    pieces = [
        ToolCallDelta(0, "a", "one", f'{{"x": "{KEY[:5]}'),
        ToolCallDelta(1, "b", "two", f'{{"y": "{KEY[:7]}'),
        TextDelta(KEY[:9]),
        ToolCallDelta(0, None, None, f'{KEY[5:]}"}}'),
        ToolCallDelta(1, None, None, f'{KEY[7:]}"}}'),
        TextDelta(KEY[9:]),
    ]
    told = heard(SECRETS, *pieces)
    calls = [each for each in told if isinstance(each, ToolCallDelta)]
    assert "".join(each.arguments for each in calls if each.index == 0) == '{"x": "<secret:API_KEY>"}'
    assert "".join(each.arguments for each in calls if each.index == 1) == '{"y": "<secret:API_KEY>"}'
    assert [(each.id, each.name) for each in calls if each.id] == [("a", "one"), ("b", "two")]
    assert "".join(each.text for each in told if isinstance(each, TextDelta)) == "<secret:API_KEY>"
    assert isinstance(told[-1], ModelResponse)


def test_what_was_held_of_a_call_that_starts_again_is_void() -> None:
    told = heard(SECRETS, TextDelta("a sk-"), Retrying(2, "again", 0), TextDelta("b"))
    assert [each.text for each in told if isinstance(each, TextDelta)] == ["a ", "b"]


def test_of_text_without_a_secret_the_last_word_waits() -> None:
    """Whatever it is: a guess at a secret must not be answered by how much of it waits."""
    told = heard(SECRETS, *(TextDelta(each) for each in ("Hello", " wor", "ld!")))
    assert [each.text for each in told if isinstance(each, TextDelta)] == ["Hello ", "world!"]


def test_the_finished_answer_holds_no_secret_anywhere() -> None:
    message = AIMessage(
        f"I {KEY}",
        tool_calls=[{"id": "a", "name": "x", "args": {"deep": [{"er": KEY}]}, "type": "tool_call"}],
        invalid_tool_calls=[{"id": "b", "name": "y", "args": KEY, "error": KEY, "type": "invalid_tool_call"}],
        additional_kwargs={"reasoning_content": f"so {KEY}"},
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    )

    async def ask() -> ModelResponse:
        response = ModelResponse(message, finish_reason=f"by {KEY}", model=f"m-{KEY}")
        model = Masked(Spoken(response), SECRETS)
        (answer,) = [piece async for piece in model.stream(ModelRequest("", []))]
        assert isinstance(answer, ModelResponse)
        return answer

    answer = asyncio.run(ask())
    assert KEY not in repr(answer)
    assert answer.message.tool_calls[0]["args"] == {"deep": [{"er": "<secret:API_KEY>"}]}
    assert answer.message.usage_metadata == message.usage_metadata
    assert answer.finish_reason == "by <secret:API_KEY>"


def test_nothing_of_a_request_holds_a_secret_and_its_stable_part_keeps_its_end() -> None:
    spoken = Spoken(ModelResponse(AIMessage("end")))
    model = Masked(spoken, SECRETS)
    schema = ToolSchema("t", f"uses {KEY}", {"type": "object", "properties": {"a": {"default": KEY}}})
    stable = f"You are {KEY}."
    request = ModelRequest(
        f"{stable} Today {KEY}", [HumanMessage(KEY)], tools=(schema,), stable_system_length=len(stable)
    )

    async def ask() -> None:
        _ = [piece async for piece in model.stream(request)]
        _ = [piece async for piece in model.stream(request)]

    asyncio.run(ask())
    first, second = spoken.asked
    assert KEY not in repr(first)
    assert first.system[: first.stable_system_length] == "You are <secret:API_KEY>."
    assert first == second
    assert first.messages[0] is second.messages[0], "a message is looked at once"


def test_a_request_without_a_secret_is_passed_on_as_it_is() -> None:
    spoken = Spoken(ModelResponse(AIMessage("end")))
    messages: tuple[Any, ...] = (HumanMessage("hello"),)
    request = ModelRequest("You are.", messages, tools=(ToolSchema("t", "d", {"type": "object"}),))

    async def ask() -> None:
        _ = [piece async for piece in Masked(spoken, SECRETS, tuple).stream(request)]

    asyncio.run(ask())
    assert spoken.asked[0] is request


def test_a_secret_over_two_blocks_of_text_does_not_show() -> None:
    halves: list[str | dict[str, Any]] = [
        {"type": "text", "text": f"a {KEY[:9]}"},
        {"type": "text", "text": f"{KEY[9:]} b"},
    ]
    picture = {"type": "image_url", "image_url": {"url": "https://a.example/x.png"}}
    masked = masked_message(HumanMessage([*halves, picture, halves[0]]), SECRETS)
    assert masked.content == [{"type": "text", "text": "a <secret:API_KEY> b"}, picture, halves[0]]


def test_a_piece_of_another_kind_between_its_halves_does_not_show_a_secret() -> None:
    pieces = [TextDelta(KEY[:9]), ToolCallDelta(0, "c", "echo", '{"a":'), TextDelta(KEY[9:] + ".")]
    told = heard(SECRETS, *pieces, ToolCallDelta(0, None, None, "1}"))
    assert "".join(each.text for each in told if isinstance(each, TextDelta)) == "<secret:API_KEY>."
    assert "".join(each.arguments for each in told if isinstance(each, ToolCallDelta)) == '{"a":1}'


class Failing:
    """A model that fails behind another error, after it said that it tries again."""

    name = "failing"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        yield Retrying(2, f"refused {KEY}", 0)
        try:
            raise OSError(2, f"no {KEY}", f"/keys/{KEY}")
        except OSError as error:
            failure = ModelError(f"bad key {KEY}", kind="auth", remedy=f"Check {KEY}")
            failure.add_note(f"it was {KEY}")
            raise ExceptionGroup("several", [failure, KeyError(KEY)]) from error


def test_an_error_is_masked_where_it_is_raised_with_all_that_is_behind_it() -> None:
    told: list[ModelPiece] = []

    async def listen() -> None:
        async for piece in Masked(Failing(), SECRETS).stream(ModelRequest("", [])):
            told.append(piece)  # noqa: PERF401 - what came before the error counts

    with pytest.raises(ExceptionGroup) as failed:
        asyncio.run(listen())
    assert told == [Retrying(2, "refused <secret:API_KEY>", 0)]
    text = "".join(format_exception(failed.value))
    assert KEY not in text
    error = failed.value.exceptions[0]
    assert isinstance(error, ModelError)
    assert (error.message, error.remedy) == ("bad key <secret:API_KEY>", "Check <secret:API_KEY>")
    assert error.kind == "auth"
    assert failed.value.__cause__.filename == "/keys/<secret:API_KEY>"  # type: ignore[union-attr]
    assert text.count("<secret:API_KEY>") == 6


class Unreachable(Embedder):
    model, dimension, calibration, quick = "unreachable", 8, Calibration(0.1, 0.9, 0.5), True

    async def embed(self, texts: Sequence[str], *, purpose: Purpose) -> Vectors:
        raise EmbeddingUnavailableError(f"{purpose} {texts[0]} was refused for {KEY}")

    def coverage(self, text: str) -> float:
        return float("secret:API_KEY" in text)

    def of_a_kind(self, one: str, other: str) -> bool:
        return one == other == "<secret:API_KEY>"


def test_an_embedding_model_is_asked_and_fails_without_secrets() -> None:
    masked = MaskedEmbedder(Unreachable(), SECRETS)
    with pytest.raises(
        EmbeddingUnavailableError, match="query <secret:API_KEY> was refused for <secret:API_KEY>"
    ):
        asyncio.run(masked.embed([KEY], purpose="query"))
    assert (masked.model, masked.dimension, masked.quick, masked.worker) == ("unreachable", 8, True, None)
    assert masked.coverage(KEY) == 1
    assert masked.of_a_kind(KEY, KEY)


def test_what_was_sent_before_a_secret_was_learned_is_masked_from_then_on() -> None:
    token = "fresh-token-0815"
    known, model = secrets_of_environment({}), Spoken()
    masked = Masked(model, known, tuple)
    tools = [ToolSchema("probe", f"with {token}", {})]
    for messages in ((HumanMessage(token),), [HumanMessage(token)]):
        request = ModelRequest(f"You know {token}.", messages, tools=tools)  # type: ignore[arg-type]

        async def ask(request: ModelRequest = request) -> list[ModelPiece]:
            return [piece async for piece in masked.stream(request)]

        asyncio.run(ask())
        known.learn(token, "far")
        asyncio.run(ask())
    before, *after = model.asked
    assert token in repr(before)
    for each in after:
        assert token not in repr((each.system, each.messages, each.tools))
        assert each.messages[0].content == "<secret:far>"


class SlottedError(Exception):
    __slots__ = ("_why",)

    def __init__(self, why: str) -> None:
        self._why = why

    def __str__(self) -> str:
        return self._why


class HiddenError(ZeusError):
    """An error whose text nobody can set."""

    exit_code = 4

    def __str__(self) -> str:
        return f"no {KEY}"


def errors() -> list[Exception]:
    return [
        ImportError(f"no {KEY}"),
        SyntaxError(f"no {KEY}"),
        KeyError({"a": [KEY]}),
        ValueError(KEY.encode()),
        OSError(2, KEY, f"/{KEY}"),
        SlottedError(KEY),
        ExceptionGroup(f"no {KEY}", [ValueError(KEY), HiddenError("x")]),
        ExceptionGroup("two", [ExceptionGroup("in", [HiddenError("x"), SlottedError(KEY)])]),
        HiddenError("x"),
    ]


@pytest.mark.parametrize("error", errors(), ids=lambda error: type(error).__name__)
def test_an_error_whose_text_is_in_no_attribute_is_masked_too(error: Exception) -> None:
    error.add_note(f"it was {KEY}")

    def fail() -> None:
        with masking_errors(SECRETS):
            try:
                raise error
            except Exception as first:
                raise RuntimeError("behind it") from first

    with pytest.raises(RuntimeError, match="behind it") as told:
        fail()
    shown = "".join(format_exception(told.value))
    assert KEY not in shown + repr(told.value.__cause__) + repr(told.value.__context__)
    assert "<secret:API_KEY>" in shown
    assert "raise error" in shown, "the trace stays"
    assert type(told.value.__cause__).__name__ == type(error).__name__


def test_an_error_that_is_replaced_has_not_the_first_one_behind_it() -> None:
    with pytest.raises(ZeusError, match="no <secret:API_KEY>") as told, masking_errors(SECRETS):
        raise HiddenError("x")
    assert type(told.value).__name__ == "HiddenError"
    assert (told.value.exit_code, told.value.__context__, told.value.__cause__) == (4, None, None)
    assert KEY not in "".join(format_exception(told.value))


@pytest.mark.parametrize("error", errors()[:6], ids=lambda error: type(error).__name__)
def test_an_error_keeps_its_type_where_its_text_can_be_set(error: Exception) -> None:
    assert mask_error(error, SECRETS) is error
