"""The files that a call of a tool wrote, by the arguments with which it ran."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from zeus_runtime.tools.tool import Tool

WROTE: Final = "wrote"
"""Key in a result's artifact: the paths, if they are not those in the model's call, as where a person changed them."""
_USUAL: Final = ("path", "file_path")


def written_paths(tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
    """Return the paths in a call of a tool that writes: those that it declares, or those that usually are paths."""
    return list(_named(arguments, tool.paths or _USUAL)) if tool.access == "write" else []


def _named(value: object, names: Collection[str], name: str = "") -> Iterator[str]:
    """The texts of the arguments with these names, at any depth."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _named(each, names, key)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _named(each, names, name)
    elif isinstance(value, str) and name in names:
        yield value
