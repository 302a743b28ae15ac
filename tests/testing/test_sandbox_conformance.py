"""The tests that an author of a sandbox inherits fail where a backend is broken, and come to an end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from zeus_runtime.testing import SandboxConformance


class Endless:
    """A backend that ends no program."""

    async def create(self, session: str) -> Any:
        return self

    async def exec(self, *_: object) -> None:
        await asyncio.Event().wait()


class OfEndless(SandboxConformance):
    deadline_seconds = 0.01

    @asynccontextmanager
    async def backend(self) -> AsyncIterator[Any]:
        yield Endless()


def test_a_backend_that_ends_no_program_fails_its_tests_and_does_not_hang() -> None:
    with pytest.raises(AssertionError, match=r"not done in 0\.01 seconds"):
        OfEndless().test_a_program_that_takes_too_long_is_ended()
