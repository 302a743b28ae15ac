"""A failed call is made again when that may help, as often and as late as the YAML says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from zeus_runtime.config.model import Retry
from zeus_runtime.models.errors import ErrorClass, ModelError
from zeus_runtime.models.interface import ModelPiece, ModelRequest, ModelResponse, Retrying, TextDelta
from zeus_runtime.models.retry import with_retry

REQUEST = ModelRequest("", ())
ANSWER = ModelResponse(AIMessage("done"))


class Playing:
    """A model that plays one list of pieces per call; an exception is raised where it stands."""

    name = "playing"

    def __init__(self, *calls: list[ModelPiece | BaseException]) -> None:
        self.calls = list(calls)
        self.closed = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        try:
            for piece in self.calls.pop(0):
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            self.closed += 1


def failing(kind: ErrorClass, retry_after_seconds: float | None = None) -> ModelError:
    return ModelError(f"a {kind}", kind=kind, retry_after_seconds=retry_after_seconds)


async def play(
    model: Playing,
    retry: Retry = Retry(),
    random: float = 0.0,  # noqa: B008, RUF100
) -> tuple[list[ModelPiece], list[float]]:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    pieces = [
        piece async for piece in with_retry(model, retry, sleep=sleep, random=lambda: random).stream(REQUEST)
    ]
    return pieces, waits


async def test_a_call_that_succeeds_passes_through() -> None:
    assert await play(Playing([TextDelta("a"), ANSWER])) == ([TextDelta("a"), ANSWER], [])


@pytest.mark.parametrize(("first", "longest"), [(1.0, 8.0), (0.0, 0.0)])
async def test_a_factor_of_any_size_waits_no_longer_than_the_longest_wait(
    first: float, longest: float
) -> None:
    retry = Retry(attempts=5, initial_seconds=first, factor=1e300, max_seconds=8.0)
    _, waits = await play(Playing(*([failing("server")] for _ in range(4)), [ANSWER]), retry)
    assert waits == [first, longest, longest, longest]


@pytest.mark.parametrize("kind", ["rate_limit", "server", "network", "timeout"])
async def test_a_passing_fault_is_cured_by_another_try(kind: ErrorClass) -> None:
    pieces, waits = await play(Playing([failing(kind)], [failing(kind)], [ANSWER]))
    assert pieces == [Retrying(2, f"a {kind}", 1.0), Retrying(3, f"a {kind}", 2.0), ANSWER]
    assert waits == [1.0, 2.0]


@pytest.mark.parametrize("kind", ["auth", "bad_request", "context_overflow", "divergence"])
async def test_what_another_try_cannot_cure_is_raised_at_once(kind: ErrorClass) -> None:
    model = Playing([failing(kind)], [ANSWER])
    with pytest.raises(ModelError) as caught:
        await play(model)
    assert caught.value.kind == kind
    assert len(model.calls) == 1


async def test_a_stream_that_breaks_in_the_middle_is_told_void_and_begun_again() -> None:
    pieces, _ = await play(Playing([TextDelta("half"), failing("network")], [TextDelta("whole"), ANSWER]))
    assert pieces == [TextDelta("half"), Retrying(2, "a network", 1.0), TextDelta("whole"), ANSWER]


async def test_a_stream_that_ends_without_an_answer_is_a_network_error() -> None:
    pieces, _ = await play(Playing([TextDelta("half")], [ANSWER]))
    assert isinstance(pieces[1], Retrying)
    with pytest.raises(ModelError, match="before the answer was complete") as caught:
        await play(Playing([], [], []))
    assert caught.value.kind == "network"


async def test_three_tries_are_made_and_the_last_error_says_so() -> None:
    model = Playing([failing("server")], [failing("server")], [failing("server")], [ANSWER])
    with pytest.raises(ModelError, match="given up after 3 tries"):
        await play(model)
    assert len(model.calls) == 1


async def test_one_attempt_means_no_other_try() -> None:
    with pytest.raises(ModelError, match=r"^a server$"):
        await play(Playing([failing("server")], [ANSWER]), Retry(attempts=1))


async def test_waits_double_up_to_the_longest() -> None:
    calls: list[list[ModelPiece | BaseException]] = [[failing("server")] for _ in range(5)]
    _, waits = await play(Playing(*calls, [ANSWER]), Retry(attempts=6))
    assert waits == [1.0, 2.0, 4.0, 8.0, 8.0]


@given(st.floats(0, 1, exclude_max=True), st.floats(0, 1), st.floats(0, 8))
def test_jitter_only_shortens_a_wait_and_by_no_more_than_its_share(
    random: float, jitter: float, initial: float
) -> None:
    retry = Retry(jitter=jitter, initial_seconds=initial)
    _, (wait,) = asyncio.run(play(Playing([failing("server")], [ANSWER]), retry, random))
    assert initial * (1 - jitter) <= wait + 1e-9
    assert wait <= initial


async def test_the_wait_the_provider_asks_for_is_kept_exactly() -> None:
    _, waits = await play(Playing([failing("rate_limit", 7.5)], [ANSWER]), random=0.9)
    assert waits == [7.5]


async def test_a_longer_wait_than_allowed_ends_the_tries_and_is_told() -> None:
    model = Playing([failing("rate_limit", 60.0)], [ANSWER])
    with pytest.raises(
        ModelError, match=r"asks to wait 60 s, longer than retry.max_seconds \(8 s\)"
    ) as caught:
        await play(model)
    assert caught.value.retry_after_seconds == 60
    assert len(model.calls) == 1


async def test_a_cancel_is_never_retried() -> None:
    model = Playing([asyncio.CancelledError()], [ANSWER])
    with pytest.raises(asyncio.CancelledError):
        await play(model)
    assert len(model.calls) == 1


async def test_a_bug_in_a_model_is_not_retried() -> None:
    model = Playing([ZeroDivisionError()], [ANSWER])
    with pytest.raises(ZeroDivisionError):
        await play(model)


async def test_closing_the_stream_closes_the_model_beneath() -> None:
    model = Playing([TextDelta("a"), ANSWER])
    stream = with_retry(model, Retry()).stream(REQUEST)
    assert await anext(stream) == TextDelta("a")
    await stream.aclose()  # type: ignore[attr-defined]
    assert model.closed == 1


async def test_nothing_follows_the_answer() -> None:
    model = Playing([ANSWER, TextDelta("late")])
    assert (await play(model))[0] == [ANSWER]
    assert model.closed == 1


def test_the_models_name_shows_through() -> None:
    assert with_retry(Playing(), Retry()).name == "playing"
