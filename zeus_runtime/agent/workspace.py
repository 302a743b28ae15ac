"""An agent's files: the workspace, its routes, and where what leaves the window is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from zeus_runtime.config import ConfigError
from zeus_runtime.tools import WorkspaceFiles
from zeus_runtime.tools.routes import WorkspaceConfigError

if TYPE_CHECKING:
    from zeus_runtime.agent.checked import Checked

ARCHIVE_ROUTES: Final = {
    "/large_tool_results/": ".zeus/large_tool_results",
    "/conversation_history/": ".zeus/conversation_history",
    "/attached_files/": ".zeus/attached_files",
}
"""Where originals and what a message brings along go unless ``workspace.routes`` says otherwise: the workspace itself
stays clean."""


def planned_workspace(checked: Checked) -> WorkspaceFiles:
    """The workspace as the config says.

    Raises:
        ConfigError: its root or a route is not there, or a prefix is none.
    """
    workspace = checked.config.workspace
    routes = {prefix: checked.directory / target for prefix, target in _routes(workspace.routes).items()}
    quiet = frozenset(ARCHIVE_ROUTES) - workspace.routes.keys()
    try:
        files = WorkspaceFiles(checked.directory / workspace.root, routes, quiet=quiet)
        files.check()
    except WorkspaceConfigError as error:
        place = ("workspace", *error.key)
        raise ConfigError([checked.diagnostic(error.code, error.message, place, hint=error.remedy)]) from None
    return files


def _routes(routes: Mapping[str, str]) -> Mapping[str, str]:
    written = {f"/{prefix.strip('/')}/" for prefix in routes}
    missing = {prefix: target for prefix, target in ARCHIVE_ROUTES.items() if prefix not in written}
    return {**routes, **missing}
