"""Work that must not be left half done."""

from __future__ import annotations

import asyncio

import pytest

from zeus_runtime.plugin.tool import finished


async def test_work_ends_however_often_its_caller_is_cancelled() -> None:
    done: list[str] = []
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await goes_on.wait()
        done.append("whole")

    caller = asyncio.create_task(finished(work()))
    await begun.wait()
    for _ in range(3):
        caller.cancel()
        await asyncio.sleep(0)
    assert not caller.done()
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert done == ["whole"]


async def test_a_result_and_an_error_are_the_works() -> None:
    async def fails() -> None:
        raise KeyError("x")

    assert await finished(asyncio.sleep(0, "result")) == "result"
    with pytest.raises(KeyError):
        await finished(fails())


async def test_a_caller_that_was_cancelled_ends_as_cancelled_and_the_works_error_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def fails() -> None:
        begun.set()
        await goes_on.wait()
        raise KeyError("the disk is full")

    caller = asyncio.create_task(finished(fails()))
    await begun.wait()
    caller.cancel()
    await asyncio.sleep(0)
    goes_on.set()
    with pytest.raises(asyncio.CancelledError) as caught:
        await caller
    assert isinstance(caught.value.__cause__, KeyError)
    assert "the disk is full" in caplog.text
