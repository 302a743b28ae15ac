"""The memory of a config for a command: opened, used, closed; a database that is not there is not made to look at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from zeus_runtime.cli.database_file import is_missing
from zeus_runtime.cli.options import ConfigArgs, read_owner

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.errors import UsageError
    from zeus_runtime.memory.service import MemoryService
    from zeus_runtime.plan.validated import Checked

T = TypeVar("T")

PRESET = "zeus"
"""Whose memory is meant in a folder without a zeus.yaml: the preset that has one."""


def read_remembering(process: Process, which: ConfigArgs) -> Checked:
    """The config whose memory is meant; on a terminal, one without memory gets it if the user agrees.

    Raises:
        UsageError: it has none.
    """
    from zeus_runtime.errors import UsageError

    checked, _ = read_owner(process, which, preset=PRESET)
    if checked.config.memory is None and _turned_on(process, which, checked.config.name):
        checked, _ = read_owner(process, which, preset=PRESET)
    if checked.config.memory is None:
        raise UsageError(
            f"the agent {checked.config.name!r} has no long-term memory",
            remedy="Add the key `memory:` to its config, such as `memory: {user: ann}`, or name another with --config.",
        )
    return checked


LINE = "memory: {user: local}"
"""It turns memory on; the same line is proposed by `zeus init`."""


def _turned_on(process: Process, which: ConfigArgs, name: str) -> bool:
    """Whether the user agreed to add ``LINE`` to the config's file, and it was added."""
    from io import BytesIO

    from zeus_runtime.cli.asking import agreed
    from zeus_runtime.cli.streams import can_ask, complain
    from zeus_runtime.cli.whole_file import write_whole
    from zeus_runtime.config.messages.diagnostics import ConfigError
    from zeus_runtime.errors import UsageError
    from zeus_runtime.plan.validated import examine_config

    shown = which.config or "zeus.yaml"
    file = process.directory / shown
    if shown == "-" or not file.is_file() or not can_ask():
        return False
    if not agreed(f"The agent {name!r} has no long-term memory. Add `{LINE}` to {shown}?"):
        return False
    before = file.read_bytes()
    after = before + (b"" if before.endswith(b"\n") else b"\n") + f"{LINE}\n".encode()
    try:
        # Checked as text before it is written: the last line of the file may be one that another line cannot follow.
        examine_config("-", directory=process.directory, environ=process.environ, stdin=BytesIO(after))
    except ConfigError as error:
        raise UsageError(
            f"{shown} cannot be extended by a line: {error.message}",
            remedy=f"Add `{LINE}` to it by hand.",
        ) from None
    write_whole(file, after.decode(), shown)
    complain(f"added `{LINE}` to {shown}")
    complain("The agent itself uses it through the tool and the middleware `memory`; `zeus plan` shows both.")
    return True


def with_memory(
    process: Process,
    checked: Checked,
    work: Callable[[MemoryService], Awaitable[T]],
    *,
    session: str | None = None,
    looks: bool = False,
    saves: bool = False,
) -> T | None:
    """The result of ``work``.

    Args:
        session: whose memories are meant too.
        looks: nothing is written, so that a database file that is not there gives None and stays away.
        saves: something may be kept for the session, so that it has to be there.

    Raises:
        UsageError: there is no such session, and nothing that is remembered of it.
    """
    import asyncio

    from zeus_runtime.cli.start import prepared
    from zeus_runtime.plan.plan import make_plan

    service = make_plan(checked).context.memory
    assert service is not None, "read_remembering saw to it"
    missing = service.is_in_database and is_missing(checked)
    if looks and missing:
        return None
    if session is not None and missing:
        raise _no_session(session)
    memory = service if session is None else service.for_session(session)

    async def run() -> T:
        try:
            if session is not None:
                await _refuse_unknown(checked, memory, session, saves=saves)
            return await work(memory)
        finally:
            await memory.aclose()

    with prepared(process):
        return asyncio.run(run())


async def _refuse_unknown(checked: Checked, memory: MemoryService, session: str, *, saves: bool) -> None:
    """See to it that the session is there, archived or not; for a look it is enough that something is kept of it."""
    from zeus_runtime.store.database import Database
    from zeus_runtime.store.row_security import EVERYONE
    from zeus_runtime.store.thread_log import ThreadLog

    database = Database(checked.config.storage.url, directory=checked.directory, acting=EVERYONE)
    try:
        log = ThreadLog(database)
        await log.create_tables()
        if await log.has(session):
            return
    finally:
        await database.close()
    # Memories of a deleted session remain, and can still be listed and deleted.
    if saves or not await memory.list_memories(scope="session", status=None, limit=1):
        raise _no_session(session)


def _no_session(session: str) -> UsageError:
    from zeus_runtime.errors import UsageError

    return UsageError(
        f"there is no session {session!r}",
        remedy="`zeus sessions list` shows those there are, with `--archived` those that are put away.",
    )
