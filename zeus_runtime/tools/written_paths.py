"""The files that a call of a tool wrote, by the arguments with which it ran."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from zeus_runtime.tools.tool import Tool

WROTE: Final = "wrote"
"""Key in a result's artifact: the paths, if they are not those in the model's call, as where a person changed them."""
_USUAL: Final = ("path", "file_path")


def written_paths(tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
    """Return the paths in a call of a tool that writes: those that it declares, or those that usually are paths."""
    if tool.access != "write":
        return []
    names = tool.paths or _USUAL
    return [value for name, value in arguments.items() if name in names and isinstance(value, str)]
