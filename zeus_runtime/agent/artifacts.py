"""The files that a session's tools wrote and that are still there, each as far as the access rules let it be read."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from zeus_runtime.errors import NotFoundError, UsageError
from zeus_runtime.models.content import calls_of
from zeus_runtime.models.messages import from_payload
from zeus_runtime.run.stored_thread import messages_after
from zeus_runtime.tools.calling_tool import calling
from zeus_runtime.tools.masked_text import masked_bytes
from zeus_runtime.tools.paths import WorkspaceError
from zeus_runtime.tools.written_paths import WROTE, written_paths

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.tools import WorkspaceFiles

MAX_BYTES: Final = 50_000_000
"""Of a file that is read."""
_CLOCKS_MS: Final = 2_000
"""How far the clock of a file system may be behind."""


@dataclass(frozen=True)
class Artifact:
    """A file that a session wrote.

    Args:
        path: in the workspace, such as ``/report.md``.
        modified_ms: when it was changed last, UTC milliseconds.
    """

    path: str
    size_bytes: int
    modified_ms: int


async def artifacts(log: ThreadLog, plan: Plan, session: str) -> Sequence[Artifact]:
    """The files that successful calls of writing tools ran with, and that were changed since; the last changed first.

    Files that a program wrote, such as one that the shell started, are not known.

    Raises:
        UsageError: the session does not exist, or it is archived.
    """
    named = await _named(log, plan, session)
    return await asyncio.to_thread(_there, plan.context.workspace, named)


async def content(log: ThreadLog, plan: Plan, secrets: Redactor, session: str, path: str) -> bytes:
    """The content of one of them, with known secrets masked in text.

    Raises:
        NotFoundError: it is not one of them.
        UsageError: the session does not exist, or the file is too large.
    """
    found = next((each for each in await artifacts(log, plan, session) if each.path == path), None)
    if found is None:
        raise NotFoundError(f"the session {session} wrote no file {path!r} that is still there")
    if found.size_bytes > MAX_BYTES:
        raise UsageError(f"{path} has more than {MAX_BYTES:,} bytes")

    def read() -> bytes:
        with calling(None):
            return masked_bytes(plan.context.workspace.read(path, max_bytes=MAX_BYTES), secrets)

    try:
        return await asyncio.to_thread(read)
    except WorkspaceError as error:
        raise NotFoundError(str(error)) from None


async def _named(log: ThreadLog, plan: Plan, session: str) -> dict[str, int]:
    """Each path with which a successful call of a writing tool ran, and when its result came."""
    writing = {each.tool.name: each.tool for each in plan.tools if each.tool.access == "write"}
    found: dict[str, int] = {}
    calls: dict[str, list[str]] = {}
    for _, entry in await messages_after(log, await log.find(session), 0, None):
        message = from_payload(json.loads(entry.payload))
        for call in calls_of(message):
            if call["name"] in writing and call["id"] and isinstance(call["args"], dict):
                calls[call["id"]] = written_paths(writing[call["name"]], call["args"])
        if message.type == "tool" and message.status != "error":  # type: ignore[attr-defined]
            named = calls.get(message.tool_call_id, [])  # type: ignore[attr-defined]
            artifact = message.artifact  # type: ignore[attr-defined]
            if isinstance(artifact, Mapping):
                named = artifact.get(WROTE, named)
            for text in named:
                # The first result: a file that is changed later is still the session's.
                found.setdefault(text, entry.created_ms)
    return found


def _there(files: WorkspaceFiles, named: dict[str, int]) -> list[Artifact]:
    found: dict[str, Artifact] = {}
    # The model or a person wrote these texts: one may name what Zeus keeps for another user's session.
    with calling(None):
        for text, at_ms in named.items():
            try:
                path = files.normalize(text)
                # Opened and not only looked up: the access rules decide at the opened descriptor.
                with files.open(path) as file:
                    size, modified_ms = _stat(file)
            except (WorkspaceError, OSError):
                continue
            # A result follows its write, and an earlier file is not the session's.
            if modified_ms >= at_ms - _LONGEST_CALL_MS:
                found[path] = Artifact(path, size, modified_ms)
    return sorted(found.values(), key=lambda each: (-each.modified_ms, each.path))


_LONGEST_CALL_MS: Final = 60_000 + _CLOCKS_MS
"""Between a tool's write and its stored result."""


def _stat(file: BinaryIO) -> tuple[int, int]:
    stat = os.fstat(file.fileno())
    return stat.st_size, stat.st_mtime_ns // 1_000_000
