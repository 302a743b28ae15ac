"""Public names of a package that are loaded at first use, so that importing the package costs nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy(
    package: str, rooms: Mapping[str, str], *, root: str | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's ``__getattr__`` and ``__dir__``.

    Args:
        package: its ``__name__``.
        rooms: the module below ``root`` that has each public name, by name.
        root: a package above it; by default the package itself.
    """

    def load(name: str) -> Any:
        room = rooms.get(name)
        if room is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"{root or package}.{room}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted(rooms)

    return load, names
