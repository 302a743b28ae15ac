"""The folder of an agent's workspace, which its session or its user may have alone."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeus_runtime.plan.validated import Checked


def workspace_root(checked: Checked) -> Path:
    """The absolute path of an agent's workspace: that of its session or its user, if these have their own."""
    root = (checked.directory / checked.config.workspace.root).absolute()
    place = place_of(checked)
    return root / folder_name(place) if place else root


def place_of(checked: Checked) -> tuple[str, ...]:
    """Whose folder below ``workspace.root`` is the workspace; empty if it is the root itself.

    A plan that is made for no session, and whose sessions have their own, has a folder that nothing makes: the root
    holds the files of all.
    """
    workspace = checked.config.workspace
    if workspace.per == "user":
        return checked.place or (checked.config.user,)
    return (checked.session,) if workspace.per == "session" else ()


def folder_name(place: Sequence[str]) -> str:
    """The name of a folder for a session or a user: no other has it, and it leads nowhere else.

    A name of small letters and digits stays itself. Any other gets a digest, after a ``~`` that no such name has; a
    file system may not tell large letters from small ones.
    """
    if len(place) == 1 and re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", place[0]):
        return place[0]
    # As JSON, so that ("a", "b") and ("ab",) differ.
    digest = hashlib.sha256(json.dumps(list(place)).encode()).hexdigest()[:32]
    return f"{re.sub('[^a-z0-9]+', '-', place[0].lower())[:24].strip('-')}~{digest}"
