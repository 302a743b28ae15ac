"""A config whose agent works apart from its project, as an evaluation needs it: other files, another database."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.config import Ref

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeus_runtime.config import Config
    from zeus_runtime.plan.validated import Checked

WORKSPACE: Final = "workspace"
"""The folder of the agent's files, within the folder that is its own."""


def set_apart(checked: Checked, folder: Path) -> Checked:
    """The same config with its workspace, routes, archive, database and memory in ``folder``.

    The rest stays: working directory (MCP servers start there), knowledge bases, permissions.

    Args:
        folder: an absolute path; the folders of the workspace and its routes are made in it.
    """
    from zeus_runtime.config.model import Storage

    config = checked.config
    routes = routes_apart(config, folder)
    for each in (folder / WORKSPACE, *routes.values()):
        each.mkdir(parents=True, exist_ok=True)
    workspace = replace(
        config.workspace,
        root=str(folder / WORKSPACE),
        per=None,
        routes={prefix: str(place) for prefix, place in routes.items()},
    )
    memory = None if config.memory is None else replace(config.memory, vector_store=None, backend=None)
    changed = replace(
        config,
        workspace=workspace,
        storage=Storage(f"sqlite:///{folder / 'zeus.db'}"),
        checkpointer=Ref("sqlite"),
        memory=memory,
    )
    return replace(checked, config=changed, apart=folder)


def routes_apart(config: Config, folder: Path) -> Mapping[str, Path]:
    """The folder of each route of the workspace, within ``folder``; none is within another one."""
    # Encoded, because `/a/b/` and `/a_b/` may both be routes.
    return {
        prefix: folder / "routes" / prefix.strip("/").replace("%", "%25").replace("/", "%2F")
        for prefix in config.workspace.routes
    }
