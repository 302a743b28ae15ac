"""The files that a call of a tool wrote, by the arguments with which it ran."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from zeus_runtime.tools.tool import Tool

WROTE: Final = "wrote"
"""Key in a result's artifact: the paths, if they are not those in the model's call, as where a person changed them."""
MAY_HAVE_WRITTEN: Final = "may_have_written"
"""The same for ``path_texts``."""
_USUAL: Final = ("path", "file_path")
_LONGEST_PATH: Final = 4_096
"""The system opens no longer one (``PATH_MAX``)."""


def written_paths(tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
    """Return the paths in a call of a tool that writes: those that it declares, or those that usually are paths."""
    if tool.access != "write":
        return []
    names = tool.paths or _USUAL
    return [value for name, value in arguments.items() if name in names and isinstance(value, str)]


def path_texts(tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
    """Return each text in a call of a tool that writes, at any depth, that may be a path; who asks looks for a file."""
    return list(_texts(arguments, tool.paths)) if tool.access == "write" else []


def _texts(value: object, paths: Collection[str], name: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(each, paths, key)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each, paths, name)
    elif isinstance(value, str) and 0 < len(value) <= _LONGEST_PATH and (name in paths or "\n" not in value):
        # Where no tool declares a path, a text of several lines is a content.
        yield value
