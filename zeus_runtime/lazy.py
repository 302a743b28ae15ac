"""Load modules at first use: a package's public names, and libraries that another library imports without need."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import RLock
from types import ModuleType
from typing import Any, Final


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


@contextmanager
def postponed(module: str, *names: str) -> Iterator[None]:
    """While inside, ``from module import name`` does not execute ``module``, if ``name`` is one of ``names``.

    The importer gets an object that executes the module when it is called or its attributes are read. It is not a
    class, so do not give names that the importer derives from, or catches as exceptions. Every other use of the module,
    inside or later, executes it as an import would; its submodules can be imported without it. Nothing changes if the
    module is imported already, or is not installed.

    Args:
        module: its full name; the packages above it are imported.
    """
    from importlib.util import find_spec, module_from_spec

    spec = None if module in sys.modules else find_spec(module)
    if spec is None or spec.loader is None:
        yield
        return
    made = module_from_spec(spec)
    made.__class__ = _Postponed
    made.__dict__[_NAMES] = names
    sys.modules[module] = made
    try:
        yield
    finally:
        made.__dict__.pop(_NAMES, None)


_NAMES: Final = "_postponed_names"
_RUNS: Final = "_postponed_runs"
_LOCK: Final = RLock()


class _Postponed(ModuleType):
    """A module that is executed when an attribute is read that it does not have yet."""

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__.get(_NAMES, ()):
            return _Name(self, name)
        return self._executed(name)

    def _executed(self, name: str) -> Any:
        """An attribute of the executed module."""
        if name == "__path__":
            # Python asks each module that something is imported from; a package has it from the start.
            raise AttributeError(name)
        spec = self.__dict__["__spec__"]
        with _LOCK:
            # Another thread may have executed it meanwhile, or this thread is just doing so.
            if type(self) is _Postponed and not self.__dict__.get(_RUNS):
                self.__dict__[_RUNS] = True
                try:
                    spec.loader.exec_module(self)
                    self.__class__ = ModuleType  # type: ignore[assignment]
                finally:
                    del self.__dict__[_RUNS]
        # As for any module: the name, what its own `__getattr__` returns, or an AttributeError.
        return ModuleType.__getattribute__(self, name)


class _Name:
    """A name of a module that was not executed when it was imported."""

    def __init__(self, module: _Postponed, name: str) -> None:
        self._module = module
        self._name = name

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._value()(*args, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._value(), name)

    def _value(self) -> Any:
        if type(self._module) is _Postponed:
            return self._module._executed(self._name)
        return getattr(self._module, self._name)
