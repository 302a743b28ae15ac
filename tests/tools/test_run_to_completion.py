"""Work that must not be left half done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from zeus_runtime.config import Ref
from zeus_runtime.errors import RunError
from zeus_runtime.plugin.sandbox import SandboxBackend
from zeus_runtime.plugin.tool import finished
from zeus_runtime.tools.run_to_completion import all_tried
from zeus_runtime.tools.sandboxes import Sandboxes


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


async def test_each_work_is_tried_in_order_and_no_error_is_lost() -> None:
    tried: list[str] = []

    def work(name: str, error: BaseException | None = None) -> Callable[[], Awaitable[object]]:
        async def trying() -> None:
            tried.append(name)
            if error is not None:
                raise error

        return trying

    await all_tried()
    await all_tried(work("a"), work("b"))
    one, other, cancelled = RunError("one"), ValueError("other"), asyncio.CancelledError("cancelled")
    with pytest.raises(RunError) as caught:
        await all_tried(work("c", one), work("d"), work("e", other), work("f"))
    assert tried == ["a", "b", "c", "d", "e", "f"]
    assert (caught.value is one, one.__notes__) == (True, ["Also failed: ValueError: other"])
    with pytest.raises(asyncio.CancelledError, match="cancelled"):
        await all_tried(work("g", ValueError("x")), work("h", cancelled), work("i"))
    assert tried[-1] == "i"
    with pytest.raises(asyncio.CancelledError) as stopped:
        await all_tried(
            work("j", RunError("one")), work("k", asyncio.CancelledError()), work("l"), stops=True
        )
    assert (tried[-2:], stopped.value.__notes__) == (["j", "k"], ["Also failed: one"])


async def test_nothing_to_do_is_left_out() -> None:
    done: list[str] = []

    async def work() -> None:
        done.append("done")

    await all_tried(None, work, None)
    await all_tried(None, work, at_once=True)
    assert done == ["done", "done"]


async def test_works_that_begin_at_once_are_all_awaited_whatever_fails_or_is_cancelled() -> None:
    told: list[str] = []
    goes_on = asyncio.Event()

    async def slow() -> None:
        told.append("slow begins")
        await goes_on.wait()
        told.append("slow ends")

    async def fails() -> None:
        told.append("fails")
        raise RunError("one")

    def fails_at_once() -> Awaitable[object]:
        raise ValueError("other")

    caller = asyncio.create_task(all_tried(slow, fails, fails_at_once, at_once=True))
    for _ in range(3):
        await asyncio.sleep(0)
    assert told == ["slow begins", "fails"]
    caller.cancel()
    await asyncio.sleep(0)
    goes_on.set()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await caller
    assert told[-1] == "slow ends"
    assert cancelled.value.__notes__ == ["Also failed: one", "Also failed: ValueError: other"]
    with pytest.raises(RunError) as caught:
        await all_tried(slow, fails, fails_at_once, at_once=True)
    assert caught.value.__notes__ == ["Also failed: ValueError: other"]


async def test_a_backend_that_cannot_remove_or_close_keeps_no_other_from_it() -> None:
    done: list[str] = []

    class Backend:
        def __init__(self, name: str) -> None:
            self._name = name

        async def remove(self, session: str) -> None:
            done.append(f"{self._name} {session}")
            if self._name == "a":
                raise RunError("the machine does not answer")

        async def aclose(self) -> None:
            await self.remove("closed")

    sandboxes = Sandboxes(lambda ref: cast("SandboxBackend", Backend(ref.name)))
    for name in ("a", "b"):
        sandboxes.open(Ref(name))
    with pytest.raises(RunError):
        await sandboxes.remove("s")
    with pytest.raises(RunError):
        await sandboxes.aclose()
    assert done == ["a s", "b s", "a closed", "b closed"]


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
