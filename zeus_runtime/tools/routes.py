"""Which real folder a virtual prefix means."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from zeus_runtime.errors import ZeusError
from zeus_runtime.tools.paths import WorkspaceError, join, split


class WorkspaceConfigError(ZeusError):
    """The config's ``workspace`` cannot be used (exit 3).

    Args:
        key: which of its values is wrong, as a path of keys.
    """

    exit_code = 3
    code = "workspace"

    def __init__(self, message: str, *, remedy: str, key: tuple[str, ...]) -> None:
        super().__init__(message, remedy=remedy)
        self.key = key


def routes_of(given: Mapping[str, Path]) -> dict[str, Path]:
    routes: dict[str, Path] = {}
    for written, host in given.items():
        prefix = _route(written)
        if prefix in routes:
            raise WorkspaceConfigError(
                f"the route {prefix} is given twice", remedy="keep one of the two", key=("routes", written)
            )
        routes[prefix] = host.absolute()
    return routes


def _route(prefix: str) -> str:
    try:
        parts = split(prefix)
    except WorkspaceError:
        parts = ()
    if not parts or not prefix.startswith("/"):
        raise WorkspaceConfigError(
            f"{prefix!r} is not a route",
            remedy="a route is a prefix such as /memory/; workspace.root is where / goes",
            key=("routes", prefix),
        )
    return join(parts) + "/"
