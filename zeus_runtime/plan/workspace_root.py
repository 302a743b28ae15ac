"""The folder of an agent's workspace, which its session or its user may have alone."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zeus_runtime.plan.validated import Checked


def workspace_root(checked: Checked) -> Path:
    """The absolute path of an agent's workspace: that of its session or its user, if these have their own."""
    root = (checked.directory / checked.config.workspace.root).absolute()
    place = place_of(checked)
    if not place:
        return root
    return root / (session_name(*place) if checked.config.workspace.per == "session" else user_name(place))


def place_of(checked: Checked) -> tuple[str, ...]:
    """Whose folder below ``workspace.root`` is the workspace; empty if it is the root itself.

    A plan that is made for no session, and whose sessions have their own, has a folder that nothing makes: the root
    holds the files of all.
    """
    workspace = checked.config.workspace
    if workspace.per == "user":
        return checked.place or (checked.config.user,)
    return (checked.session,) if workspace.per == "session" else ()


def place_for(user: str, project: str | None) -> tuple[str, ...]:
    """What ``place_of`` gives for a user of a service."""
    return (user,) if project is None else (user, project)


def user_name(place: Sequence[str]) -> str:
    """The name of a folder for a user, or a user in a project: no other and no session has it; it leads nowhere else.

    It ends with a digest, so no folder that is in the root for another purpose has it. A mark beside a folder that Zeus
    made would not do: its record is on one machine, and where that is lost, the user would have an empty folder.
    """
    return _with_digest(place[0], list(place))


def earlier_root(checked: Checked) -> Path | None:
    """The folder that an earlier version gave the user: it had the name of the user alone. None if it had a digest."""
    place = place_of(checked)
    if checked.config.workspace.per != "user" or len(place) != 1:
        return None
    name = place[0]
    had_digest = not _PLAIN.fullmatch(name) or name.startswith(_OF_SESSIONS)
    return None if had_digest else workspace_root(checked).with_name(name)


def session_name(session: str) -> str:
    """The name of a folder for a session, as ``user_name``. An id that Zeus gave stays itself: nobody chose it."""
    if _PLAIN.fullmatch(session) and session.startswith(_OF_SESSIONS):
        return session
    return _with_digest(session, {"session": session})


def working_folders(checked: Checked) -> Sequence[Path]:
    """The folders that the tools of a plan work in: its workspace, and the targets of its routes."""
    routes = checked.config.workspace.routes.values()
    return (workspace_root(checked), *(checked.directory / each for each in routes))


def is_workspace_name(name: str) -> bool:
    """Whether a folder's name is one that ``user_name`` or ``session_name`` gives."""
    return _OF_PLACE.fullmatch(name) is not None


_PLAIN: Final = re.compile("[a-z0-9][a-z0-9_-]{0,63}")
_OF_SESSIONS: Final = "session_"
"""Begins the ids that Zeus gives sessions."""
_OF_PLACE: Final = re.compile(f"[a-z0-9-]{{0,24}}~[0-9a-f]{{32}}|{_OF_SESSIONS}[a-z0-9_-]{{1,64}}")


def _with_digest(name: str, place: object) -> str:
    # As JSON, so that ("a", "b") and ("ab",) differ.
    digest = hashlib.sha256(json.dumps(place).encode()).hexdigest()[:32]
    return f"{re.sub('[^a-z0-9]+', '-', name.lower())[:24].strip('-')}~{digest}"
