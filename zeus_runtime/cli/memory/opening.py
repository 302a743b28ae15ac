"""The memory of a config for a command: opened, used, closed; a database that is not there is not made to look at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from zeus_runtime.cli.database_file import is_missing
from zeus_runtime.cli.options import ConfigArgs, read_owner

if TYPE_CHECKING:
    from zeus_runtime.agent.checked import Checked
    from zeus_runtime.cli.process import Process
    from zeus_runtime.memory.service import MemoryService

T = TypeVar("T")

PRESET = "zeus"
"""Whose memory is meant in a folder without a zeus.yaml: the preset that has one."""


def read_remembering(process: Process, which: ConfigArgs) -> Checked:
    """The config whose memory is meant.

    Raises:
        UsageError: it has none.
    """
    from zeus_runtime.errors import UsageError

    checked, _ = read_owner(process, which, preset=PRESET)
    if checked.config.memory is None:
        raise UsageError(
            f"the agent {checked.config.name!r} has no long-term memory",
            remedy="Add the key `memory:` to its config, such as `memory: {user: ann}`, or name another with --config.",
        )
    return checked


def with_memory(
    process: Process,
    checked: Checked,
    work: Callable[[MemoryService], Awaitable[T]],
    *,
    session: str | None = None,
    looks: bool = False,
) -> T | None:
    """What ``work`` gives.

    Args:
        session: whose memories are meant too.
        looks: nothing is written, so that a database file that is not there gives None and stays away.
    """
    import asyncio

    from zeus_runtime.agent.plan import make_plan
    from zeus_runtime.cli.start import prepared

    service = make_plan(checked).build.memory
    assert service is not None, "read_remembering saw to it"
    if looks and is_missing(checked):
        return None
    memory = service.for_session(session) if session else service

    async def run() -> T:
        try:
            return await work(memory)
        finally:
            await memory.aclose()

    with prepared(process):
        return asyncio.run(run())
