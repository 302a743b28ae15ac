"""The tools that a user always allows, and how often a user wants to be asked, stored in the sessions' database."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError

from zeus_runtime.store.settings import put_setting, setting
from zeus_runtime.store.tables import ALLOWED

if TYPE_CHECKING:
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.tools.approval import AskMode, Listing

_MODE: Final = "approval_mode"


class AllowedTool(NamedTuple):
    """An entry of a user's allowlist.

    Args:
        tool: the tool's name.
        setting: ``setting_digest`` of the tool that the user saw; empty for every tool of that name.
        since_ms: UTC milliseconds.
    """

    tool: str
    setting: str
    since_ms: int

    @property
    def is_any(self) -> bool:
        """Whether it is for every tool of its name."""
        return not self.setting


async def allow(log: ThreadLog, user: str, tool: str, setting: str = "") -> bool:
    """Add a tool to a user's allowlist; False if it is already there.

    Args:
        setting: ``setting_digest`` of the tool that the user saw; empty for every tool of that name.
    """
    row = {"user": user, "tool": tool, "setting": setting, "created_ms": log.now_ms()}
    try:
        await log.database.run(lambda connection: connection.execute(insert(ALLOWED), row))
    except IntegrityError:
        return False
    return True


async def revoke(log: ThreadLog, user: str, tool: str) -> bool:
    """Remove every entry of a tool's name from a user's allowlist; False if there was none."""
    here = (ALLOWED.c.user == user, ALLOWED.c.tool == tool)
    return await log.database.run(
        lambda connection: connection.execute(delete(ALLOWED).where(*here)).rowcount > 0
    )


async def allowlist(log: ThreadLog, user: str) -> list[AllowedTool]:
    """A user's allowlist, by name and then by time."""
    query = select(ALLOWED.c.tool, ALLOWED.c.setting, ALLOWED.c.created_ms).where(ALLOWED.c.user == user)
    query = query.order_by(ALLOWED.c.tool, ALLOWED.c.created_ms, ALLOWED.c.setting)
    return await log.database.run(lambda connection: [AllowedTool(*row) for row in connection.execute(query)])


async def stored_mode(log: ThreadLog, user: str) -> str | None:
    """How often the user chose to be asked (``AskMode``); None without a choice."""
    stored = await log.database.run(lambda connection: setting(connection, user, _MODE))
    if stored is None:
        return None
    try:
        return str(json.loads(stored))
    except ValueError:
        # A value that is not JSON: returned as it is, so that the caller can name the invalid choice.
        return stored


async def store_mode(log: ThreadLog, user: str, mode: AskMode | None) -> None:
    """Store how often the user wants to be asked; None removes the choice."""
    value = None if mode is None else json.dumps(mode)
    await log.database.run(lambda connection: put_setting(connection, user, _MODE, value, log.now_ms()))


async def listing(log: ThreadLog, user: str, tool: str, setting: str) -> Listing:
    """What a user's allowlist says about a tool.

    Args:
        setting: ``setting_digest`` of the tool in its workspace.
    """
    query = select(ALLOWED.c.setting).where(ALLOWED.c.user == user, ALLOWED.c.tool == tool)
    found = await log.database.run(lambda connection: set(connection.execute(query).scalars()))
    if found & {"", setting}:
        return "allowed"
    return "changed" if found else "absent"
