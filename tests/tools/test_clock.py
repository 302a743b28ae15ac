"""A time limit stands still while a person is waited for, and at no other time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from tests.tools.test_dispatch import RUN, returning
from zeus_runtime.plugin.tool import Tool, ToolResult
from zeus_runtime.tools import invoke
from zeus_runtime.tools.pausable_timeout import Clock, all_standing_still

T = TypeVar("T")


class Skipping(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
    """Waits for nothing: the loop's time jumps to what comes next."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> Any:
        self.loop.now += timeout or 0
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose time passes only while nothing is to be done."""

    def __init__(self) -> None:
        self.now = 0.0
        selector = Skipping()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now


def virtually(work: Callable[[], Awaitable[T]]) -> T:
    async def main() -> T:
        return await work()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())


async def ended(clock: Clock, inside: Callable[[Clock], Awaitable[None]]) -> float:
    """When the clock ended what is inside, in the loop's seconds."""

    async def limited() -> None:
        async with clock:
            await inside(clock)

    with pytest.raises(TimeoutError):
        await limited()
    assert clock.expired
    return asyncio.get_running_loop().time()


def test_a_limit_without_waiting_ends_what_is_inside() -> None:
    async def work() -> float:
        return await ended(Clock(5), lambda _clock: asyncio.sleep(60))

    assert virtually(work) == 5


def test_what_a_person_takes_does_not_count_and_what_comes_after_does() -> None:
    async def thinking(clock: Clock) -> None:
        await asyncio.sleep(3)
        with clock.standing_still():
            await asyncio.sleep(1_000)
        await asyncio.sleep(60)

    async def work() -> float:
        return await ended(Clock(5), thinking)

    assert virtually(work) == 1_005


def test_several_who_are_waited_for_at_once_stop_it_until_the_last() -> None:
    async def work() -> float:
        clock = Clock(5)

        async def thinking(seconds: float) -> None:
            with clock.standing_still():
                await asyncio.sleep(seconds)

        async def asking(_clock: Clock) -> None:
            await asyncio.gather(thinking(10), thinking(100), thinking(50))
            await asyncio.sleep(60)

        return await ended(clock, asking)

    assert virtually(work) == 105


def test_a_question_that_outlives_the_call_or_comes_before_it_breaks_nothing() -> None:
    async def work() -> float:
        clock = Clock(5)
        with clock.standing_still():
            async with clock:
                await asyncio.sleep(20)
        late = Clock(5)

        async def question() -> None:
            with all_standing_still([clock, late]):
                await asyncio.sleep(10)

        asked = asyncio.create_task(question())
        await asyncio.sleep(1)
        over = await ended(late, lambda _clock: asyncio.sleep(60))
        await asked
        return over

    assert virtually(work) == 20 + 10 + 5


def test_without_a_limit_there_is_nothing_to_stop() -> None:
    async def work() -> bool:
        clock = Clock(None)
        async with clock:
            with clock.standing_still():
                await asyncio.sleep(1_000)
        return clock.expired

    assert virtually(work) is False


def test_a_call_ends_by_its_own_limit_however_long_another_is_asked_about() -> None:
    async def slow() -> str:
        await asyncio.sleep(100)
        return "late"

    async def work() -> ToolResult:
        mine, others = Clock(5), Clock(5)
        made = returning("")
        tool = Tool("slow", "", made.parameters, slow, timeout_seconds=5)
        with others.standing_still():
            return await invoke(tool, {}, RUN, mine)

    result = virtually(work)
    assert result.is_error
    assert "did not finish within 5 seconds" in result.content
