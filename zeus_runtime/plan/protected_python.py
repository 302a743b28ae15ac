"""The files that run Zeus: Python, its packages, the libraries that it loads, and the records of permissions."""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from glob import escape
from importlib.machinery import all_suffixes
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from zeus_runtime.disk_paths import is_in, real_path
from zeus_runtime.plan.protecting import (
    DECIDES_ALL,
    add_code,
    add_file,
    add_unasked,
    entries_of,
    holds_any,
    real_once,
    work_folders,
)
from zeus_runtime.registry.home import environs_of_user
from zeus_runtime.tools.own_folders import marks_folder
from zeus_runtime.trust.compiled import compiled_folder
from zeus_runtime.trust.decision import records_folder

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.tools.access import Deciding

_EXECUTED_NAMES: Final = ("*.dist-info", "*.egg-info", "sitecustomize*", "usercustomize*")
"""Python executes modules of these names in any folder on its path; Zeus loads plugins that a distribution names."""

LIBRARY_PATHS: Final = (
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"),
    *("OPENSSL_MODULES", "OPENSSL_ENGINES", "GCONV_PATH"),
)
"""The variables with the folders in which a process finds libraries: by the loader of Linux or macOS, by OpenSSL, and
by the C library of Linux."""

_LIBRARY_NAMES: Final = ("*.so", "*.so.*", "*.dylib", "glibc-hwcaps")
_EXECUTED: Final = "the next Python that starts would execute it"
_LOADED: Final = "the next Zeus loads code from it, since a variable of the environment names it"
_IS_EARLIER: Final = "Python would import it in place of an installed module of its name"
_ENDINGS: Final = tuple(all_suffixes())
_PROCESSES: Final = "it shows the environment and memory of processes"


def add_runtime(deciding: Deciding, checked: Checked, forms: Iterable[str]) -> None:
    """The files that run Zeus: Python, its packages, the record of the user's permissions, and the processes.

    Args:
        forms: the modules that configs have imported for the form of an answer.
    """
    for installed in _installed(checked.directory):
        add_file(deciding, installed, DECIDES_ALL, is_liftable=False)
        add_unasked(deciding, installed)
    work = [each.resolve() for each in work_folders(checked)]
    places = (*work, *(checked.directory / each for each in checked.config.workspace.routes.values()))
    for folder in _named_by_variables(checked, places):
        if not holds_any(folder, places):
            add_file(deciding, folder, _LOADED, is_liftable=False)
            add_unasked(deciding, folder)
            continue
        for at, name in product((str(folder), real_path(folder)), _LIBRARY_NAMES):
            deciding.add_names(at, name, _EXECUTED)
    for source in _on_the_path(checked.directory):
        for name in _EXECUTED_NAMES:
            deciding.add_names(source, name, _EXECUTED)
    _add_earlier_modules(deciding, checked.directory)
    modules = {
        each.source.partition(":")[0] for each in checked.registry.plugins if each.distribution is not None
    }
    # Presets of an installed plugin are trusted, with the programs in its Home that they name.
    homes = (home for plugin, home in checked.registry.homes if plugin.distribution is not None)
    searched = tuple(_searched(modules))
    # Of a package with a form, the rest may be the project's own program, on which the agent works.
    imported = tuple(each for each in _searched(forms, to_end=True) if each.spec is not None)
    files = (Path(file) for each in imported if (file := each.file) is not None)
    for place in (*chain.from_iterable(each.code for each in searched), *homes, *files):
        # A protected folder of the work could not be opened again by any rule.
        at = real_path(place)
        is_work = any(each.is_relative_to(at) for each in work)
        if not is_work and deciding.find(str(place)) is None:
            add_code(deciding, place)
    path = tuple(_on_the_path(checked.directory))
    for each in (*searched, *imported):
        for folder, name in each.rivals(path):
            at = real_once(str(folder))
            # Its own package stays open where an agent works in it.
            is_work = folder.name == each.name and Path(at) in work
            if not is_work and deciding.find(at) is None:
                deciding.add_names(at, name, _EXECUTED)
    found = (records_folder, marks_folder, compiled_folder)
    kept = (folder(environ) for environ in environs_of_user() for folder in found)
    for own in dict.fromkeys((checked.trust.records, *kept)):
        if own is not None:
            add_file(deciding, own, DECIDES_ALL, is_liftable=False)
            add_unasked(deciding, own)
    # They contain the secrets that are masked elsewhere.
    add_file(deciding, Path("/proc"), _PROCESSES, holds_keys=True)


def _add_earlier_modules(deciding: Deciding, directory: Path) -> None:
    """Keep tools from making a module in the project that Python would import in place of an installed one.

    ``PYTHONPATH`` and the folder of a script come before the standard library and the packages that run Zeus. What the
    project has already stays open.
    """
    path = [Path(entry).absolute() for entry in sys.path]
    own = [_is_of(each, directory) and deciding.find(real_path(each)) is None for each in path]
    for number, folder in enumerate(path):
        later = [each for each, is_own in zip(path[number:], own[number:], strict=True) if not is_own]
        if not (own[number] and later):
            continue
        found = [_modules_later(str(each)) for each in later]
        here = _modules_in(str(folder))
        modules = set(chain.from_iterable(chain.from_iterable(found))) - here.modules
        packages = (
            modules & set(chain.from_iterable(each.open_packages for each in found)) - here.open_packages
        )
        for at in dict.fromkeys((str(folder), real_path(folder))):
            deciding.add_modules(at, modules, _IS_EARLIER)
            for name in packages:
                deciding.add_names(at, escape(name), _IS_EARLIER)


class _Modules(NamedTuple):
    """The names that a folder of the path gives to modules.

    Args:
        modules: those with code.
        open_packages: folders without ``__init__``, of which an earlier folder of the path may have another part.
    """

    modules: frozenset[str]
    open_packages: frozenset[str]


@lru_cache(maxsize=64)
def _modules_later(folder: str) -> _Modules:
    if Path(folder) == Path(os.__file__).parent:
        # Python finds those that are built in without the path.
        return _Modules(sys.stdlib_module_names.difference(sys.builtin_module_names), frozenset())
    modules, packages = _modules_in(folder)
    return _Modules(modules, frozenset(name for name in packages if _has_code(f"{folder}/{name}")))


def _has_code(folder: str) -> bool:
    modules, packages = _modules_in(folder)
    return bool(modules) or any(_has_code(f"{folder}/{name}") for name in packages)


def _modules_in(folder: str) -> _Modules:
    modules: set[str] = set()
    packages: set[str] = set()
    for each in entries_of(folder):
        name, _, ending = each.name.partition(".")
        if f".{ending}" in _ENDINGS:
            modules.add(name)
        elif name == each.name and name.isidentifier() and each.is_dir():
            has_code = any(os.path.exists(f"{each.path}/__init__{end}") for end in _ENDINGS)  # noqa: PTH110 - quicker
            (modules if has_code else packages).add(name)
    return _Modules(frozenset(modules), frozenset(packages))


def _installed(directory: Path) -> Iterator[Path]:
    """The folders of Python and of the packages that run Zeus: the next process executes their files.

    A package that is installed from its source in the project itself (``pip install --editable .``) stays open, so that
    the agent can work on it. Plugins count as trusted, so ``_searched`` finds their modules.
    """
    # Users cannot write to a system's own folders, which contain much else; the folders with modules follow below.
    yield from (Path(each) for each in (sys.prefix, sys.base_prefix) if each not in ("/usr", "/usr/local"))
    for each in (Path(os.__file__).parent, Path(site.getusersitepackages()), *map(Path, sys.path)):
        is_source = _is_of(each, directory)
        # Virtual environments are often in the project, so the name decides about a folder of packages.
        if each.is_absolute() and (each.name.endswith("-packages") or not is_source):
            yield each


def _named_by_variables(checked: Checked, work: Sequence[Path]) -> Iterator[Path]:
    """The folders from which this process loads code because a variable names them: compiled files and libraries.

    A relative one starts where the process is, as for Python and the loader; an empty entry is this folder itself.

    Args:
        work: the folders that an agent works in. Of one that holds compiled files, only those of Zeus count.
    """
    if sys.pycache_prefix is not None:
        prefix = Path(sys.pycache_prefix).absolute()
        # Below the prefix, Python repeats the whole path of a module.
        code = (prefix / each.relative_to(each.anchor) for each in _installed(checked.directory))
        yield from code if holds_any(prefix, work) else (prefix,)
    for value in filter(None, map(checked.process_environ.get, LIBRARY_PATHS)):
        yield from (Path(each).absolute() for each in value.replace(";", ":").split(":"))


def _on_the_path(directory: Path) -> Iterator[str]:
    """The project's own folders in which this Python looks for modules."""
    # A relative one, such as the empty one of Python's prompt, starts where the process is.
    for each in (Path(entry).absolute() for entry in sys.path):
        if _is_of(each, directory):
            yield from {str(each), real_once(str(each))}


def _is_of(folder: Path, directory: Path) -> bool:
    return is_in(str(folder), str(directory)) or is_in(str(directory), str(folder))


class _Searched(NamedTuple):
    """A module that Python looks for.

    Args:
        name: the last part of its name.
        spec: where Python finds it; None if it does not.
        folders: those of the package above; None for a module on the path.
    """

    name: str
    spec: ModuleSpec | None
    folders: Sequence[str] | None

    @property
    def code(self) -> Iterator[Path]:
        """Its file or folder. A namespace package has no code, and may contain packages of other distributions."""
        if self.spec is not None and self.spec.has_location:
            yield from map(Path, self.spec.submodule_search_locations or [str(self.spec.origin)])

    @property
    def file(self) -> str | None:
        """The file that its import executes; None for a namespace package."""
        return self.spec.origin if self.spec is not None and self.spec.has_location else None

    def rivals(self, path: Iterable[str]) -> Iterator[tuple[Path, str]]:
        """The files that Python would import in its place if they were there, each as its folder and a glob.

        Python prefers a package to a module beside it, both to a folder without ``__init__``, and earlier folders.

        Args:
            path: the folders of the path in which tools may make files.
        """
        within = () if self.spec is None else self.spec.submodule_search_locations or ()
        found = (each.parent for each in (*self.code, *map(Path, within)))
        for folder in dict.fromkeys((*found, *map(Path, path if self.folders is None else self.folders))):
            if self.spec is None:
                yield folder, escape(self.name)
            for suffix in all_suffixes():
                yield folder, escape(f"{self.name}{suffix}")
                yield folder / self.name, escape(f"__init__{suffix}")


def _searched(modules: Iterable[str], *, to_end: bool = False) -> Iterator[_Searched]:
    """The modules and the packages above them, down to the first that has code, each once; nothing is executed.

    Args:
        to_end: also those below it, down to the modules themselves.
    """
    specs: dict[str, ModuleSpec | None] = {}
    for module in modules:
        name, search = "", None
        for part in module.split("."):
            name = f"{name}.{part}".lstrip(".")
            if name not in specs:
                specs[name] = _spec(name, search)
                yield _Searched(part, specs[name], search)
            spec = specs[name]
            search = None if spec is None else spec.submodule_search_locations
            if search is None or (not to_end and spec is not None and spec.has_location):
                break


def _spec(name: str, search: Sequence[str] | None) -> ModuleSpec | None:
    """Where Python finds a module; ``importlib.util.find_spec`` would execute its parent packages."""
    found = (finder.find_spec(name, search) for finder in sys.meta_path)
    return next((spec for spec in found if spec is not None), None)
