"""The files that decide about an agent: its config with all that it names, Homes, skills, and the database."""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterable, Iterator, Sequence
from glob import escape
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.config.layers.user_paths import expanded
from zeus_runtime.config.secrets.unloaded import config_places, holds_keys, unloaded_configs
from zeus_runtime.config.sqlite_url import database_file
from zeus_runtime.registry.home import accounts_folder, user_home
from zeus_runtime.skills.discovery import FILE as SKILL_FILE
from zeus_runtime.skills.discovery import PROJECT_FOLDERS
from zeus_runtime.tools.access import is_key_name

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    from zeus_runtime.config import Document
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.tools.access import Deciding

_HOME_FOLDERS: Final = ("configs", "prompts", "plugins", "skills")

# A project can bring a link to a whole disk.
_MOST_ENTRIES: Final = 2_000
_MOST_LEVELS: Final = 8
_MOST_LINKED_FOLDERS: Final = 100


def add_deciding(deciding: Deciding, checked: Checked) -> None:
    """Protect what decides about one agent.

    Files that are not there yet and would be read next time are protected too.
    """
    _add_configs(deciding, checked.document)
    _add_named(deciding, checked)
    _add_homes(deciding, checked)
    _add_linked_keys(deciding, checked)
    _add_runtime(deciding, checked)


def _add_configs(deciding: Deciding, document: Document) -> None:
    """The config with its layers, and the configs of other runs; one that has a secret written out is not read."""
    loaded = ((file, document.sources.texts.get(name)) for name, file in document.files.items())
    for file, text in (*loaded, *unloaded_configs(document)):
        _add(deciding, file, holds_keys=holds_keys(text, document.redactor))
    for folder, stem, suffix in config_places(document):
        for at in dict.fromkeys((folder.absolute(), folder.resolve())):
            # Closed to reading too: nobody has looked for secrets in a file that is made later.
            deciding.add_names(str(at), escape(f"{stem}{suffix}"), holds_keys=True)
            deciding.add_names(str(at), f"{escape(stem)}.*{escape(suffix)}", holds_keys=True)


def _add_named(deciding: Deciding, checked: Checked) -> None:
    """What the config names: prompts, plugin files, keys, databases, and the files of programs that it starts."""
    document = checked.document
    for named in document.named_files():
        if named.path[0] != "homes":
            _add_code(deciding, named.file, holds_keys=named.holds_secrets)
    for part in checked.parts:
        for file in part.files:
            _add_code(deciding, file)
    for named in document.protected_files():
        _add(deciding, named.file, holds_keys=named.holds_secrets)
        _add_beginning(deciding, named.file, "it decides about this agent")
    database = database_file(checked.config.storage.url, checked.directory)
    if database is not None:
        _add_beginning(deciding, database, "it holds the sessions")


def _add_homes(deciding: Deciding, checked: Checked) -> None:
    """The Homes, the accounts in the user's own, and the project's skills."""
    # A project's `.env` or a program's mapping may name another Home for this run; the next run reads the user's own.
    own = dict.fromkeys((*user_home(checked.process_environ), *user_home(checked.environ)))
    for home in own:
        _add(deciding, home)
    accounts = accounts_folder(checked.process_environ)
    if accounts is not None:
        _add(deciding, accounts, holds_keys=True)
    work = _work(checked)
    skills = {base / each for base in work for each in PROJECT_FOLDERS}
    homes = {
        home / each for home in (checked.directory / ".zeus", *checked.homes, *own) for each in _HOME_FOLDERS
    }
    for folder in sorted(skills | homes):
        _add_folder(deciding, folder, work if folder.name == "skills" else ())


def _add_linked_keys(deciding: Deciding, checked: Checked) -> None:
    """What links named as files of keys lead to, such as ``.env.local``, in the folders of the work and the config."""
    work = _work(checked)
    path = checked.document.path
    for folder in dict.fromkeys((*work, *(() if path is None else (path.absolute().parent,)))):
        for link in _links(folder, levels=1):
            if is_key_name(link.name) and not _holds(link, work):
                _add(deciding, link, holds_keys=True)


def _add_runtime(deciding: Deciding, checked: Checked) -> None:
    """What runs Zeus: Python, its packages, the record of what the user allowed, and the processes themselves."""
    for installed in _installed(checked.directory):
        _add(deciding, installed)
    modules = {
        each.source.partition(":")[0] for each in checked.registry.plugins if each.distribution is not None
    }
    for place in _code_of(modules):
        # No rule could open the folder of the work itself again.
        is_work = any(each.resolve().is_relative_to(os.path.realpath(place)) for each in _work(checked))
        if not is_work and deciding.find(str(place)) is None:
            _add_code(deciding, place)
    if checked.trust.records is not None:
        _add(deciding, checked.trust.records)
    # The processes' own memory and environment, which hold what is masked elsewhere.
    _add(deciding, Path("/proc"), holds_keys=True)


def _add_code(deciding: Deciding, file: Path, *, holds_keys: bool = False) -> None:
    _add(deciding, file, holds_keys=holds_keys)
    if file.suffix == ".py":
        # Python would load a forged cache file instead of the source.
        _add(deciding, file.parent / "__pycache__")


def _add_folder(deciding: Deciding, folder: Path, work: Sequence[Path] = ()) -> None:
    """Protect a folder with all that links in it lead to, also those in a folder that a link leads to.

    Args:
        work: folders that no link may close whole, since no rule could open them again: a project may be a skill of
            its own, and then its ``SKILL.md`` alone is protected.
    """
    _add(deciding, folder)
    seen: set[str] = set()
    waiting = [folder]
    while waiting and len(seen) < _MOST_LINKED_FOLDERS:
        at = os.path.realpath(waiting.pop(0))
        if at in seen:
            continue
        seen.add(at)
        for link in _links(Path(at)):
            if _holds(link, work) and (link / SKILL_FILE).exists():
                _add(deciding, link / SKILL_FILE)
            else:
                _add(deciding, link)
                waiting.append(link)


def _links(folder: Path, levels: int = _MOST_LEVELS) -> Iterator[Path]:
    """The links in a folder, those of the upper levels first; none is followed."""
    left, level = _MOST_ENTRIES, [str(folder)]
    for _ in range(levels):
        below: list[str] = []
        for each in level:
            entries = _entries(each, left)
            left -= len(entries)
            yield from (Path(entry.path) for entry in entries if entry.is_symlink())
            below += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        level = below


def _entries(folder: str, most: int) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(islice(found, most))
    except OSError:
        return []  # not there, no folder, or closed to the user: Zeus reads nothing in it either


def _holds(link: Path, folders: Sequence[Path]) -> bool:
    """Whether a link leads to one of the folders or above it."""
    target = os.path.realpath(link)
    return any(each.resolve().is_relative_to(target) for each in folders)


def _work(checked: Checked) -> tuple[Path, ...]:
    """The working directory and the workspace."""
    root = checked.directory / checked.config.workspace.root
    return tuple(dict.fromkeys((checked.directory, root)))


def _add(deciding: Deciding, file: Path, *, holds_keys: bool = False) -> None:
    for each in _spellings(file):
        deciding.add(str(each), holds_keys=holds_keys)


def _installed(directory: Path) -> Iterator[Path]:
    """The folders of Python and of the packages that run Zeus: the next process executes what is put there.

    A package that is installed from its source in the project itself (``pip install --editable .``) stays open to
    work on it; of a plugin, which counts as trusted, ``_code_of`` finds the module.
    """
    # No user writes in a system's own folders, which hold much else; the modules there are below.
    yield from (Path(each) for each in (sys.prefix, sys.base_prefix) if each not in ("/usr", "/usr/local"))
    for each in (Path(os.__file__).parent, Path(site.getusersitepackages()), *map(Path, sys.path)):
        is_source = each.is_relative_to(directory) or directory.is_relative_to(each)
        if each.is_absolute() and (each.name.endswith("-packages") or not is_source):
            yield each


def _code_of(modules: Iterable[str]) -> Iterator[Path]:
    """The files and packages of modules, where Python would import them from; no package above one is executed."""
    specs: dict[str, ModuleSpec | None] = {}
    for module in modules:
        name, search = "", None
        for part in module.split("."):
            name = f"{name}.{part}".lstrip(".")
            known = name in specs
            spec = specs[name] if known else specs.setdefault(name, _spec(name, search))
            search = None if spec is None else spec.submodule_search_locations
            # A namespace has no code: others have packages in it too.
            if spec is not None and spec.has_location and not known:
                yield from map(Path, search or [str(spec.origin)])
            if search is None or (spec is not None and spec.has_location):
                break


def _spec(name: str, search: Sequence[str] | None) -> ModuleSpec | None:
    """Where Python finds a module; ``importlib.util.find_spec`` would execute the packages above it."""
    found = (finder.find_spec(name, search) for finder in sys.meta_path)
    return next((spec for spec in found if spec is not None), None)


def _add_beginning(deciding: Deciding, file: Path, why: str) -> None:
    """Protect the file and all beside it whose names begin with its own, such as SQLite's ``-wal``."""
    for at in _spellings(file):
        deciding.add_names(str(at.parent), f"{escape(at.name)}*", why)


def _spellings(file: Path) -> list[Path]:
    """A path as it is written, with the links of its folder resolved, and with all links resolved."""
    written = expanded(file).absolute()
    plain = Path(os.path.normpath(written))
    # A `..` after a link leads elsewhere than the text of the path says. A circle of links is no error here.
    real = [
        os.path.realpath(plain.parent) + f"/{plain.name}",
        os.path.realpath(plain),
        os.path.realpath(written),
    ]
    return list(dict.fromkeys([plain, *map(Path, real)]))
