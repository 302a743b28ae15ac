"""The files that decide about an agent: its config with all that it names, Homes, skills, and the database."""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterator
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.config.layers.user_paths import expanded
from zeus_runtime.config.secrets.unloaded import config_places, holds_keys, unloaded_configs
from zeus_runtime.plan.executed_parts import database_file
from zeus_runtime.registry.home import accounts_folder, user_home
from zeus_runtime.skills.discovery import PROJECT_FOLDERS

if TYPE_CHECKING:
    from zeus_runtime.config import Document
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.tools.access import Deciding

_HOME_FOLDERS: Final = ("configs", "prompts", "plugins", "skills")


def add_deciding(deciding: Deciding, checked: Checked) -> None:
    """Protect the files that decide about one agent.

    Files that do not exist yet and would be read the next time are protected too.
    """
    _add_configs(deciding, checked.document)
    _add_named(deciding, checked)
    _add_homes(deciding, checked)
    _add_runtime(deciding, checked)


def _add_configs(deciding: Deciding, document: Document) -> None:
    """The config with its layers, and other runs' configs; one with a literal secret is closed to reading."""
    loaded = ((file, document.sources.texts.get(name)) for name, file in document.files.items())
    for file, text in (*loaded, *unloaded_configs(document)):
        _add(deciding, file, holds_keys=holds_keys(text, document.redactor))
    for folder, stem, suffix in config_places(document):
        for at in dict.fromkeys((folder.absolute(), folder.resolve())):
            # Also closed to reading: a file that is made later was not searched for secrets.
            deciding.add_names(str(at), escape(f"{stem}{suffix}"), holds_keys=True)
            deciding.add_names(str(at), f"{escape(stem)}.*{escape(suffix)}", holds_keys=True)


def _add_named(deciding: Deciding, checked: Checked) -> None:
    """The files that the config names: prompts, plugin files, keys, databases, and files of the programs it starts."""
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
    """The Homes, the accounts in the user's own Home, and the project's skills."""
    for home in (checked.directory / ".zeus", *checked.homes):
        for each in _HOME_FOLDERS:
            _add(deciding, home / each)
    # A project's `.env` or a program's mapping may name another Home for this run; the next run reads the user's own.
    for home in dict.fromkeys((*user_home(checked.process_environ), *user_home(checked.environ))):
        _add(deciding, home)
    accounts = accounts_folder(checked.process_environ)
    if accounts is not None:
        _add(deciding, accounts, holds_keys=True)
    for base in (checked.directory, checked.directory / checked.config.workspace.root):
        for skills in PROJECT_FOLDERS:
            _add(deciding, base / skills)


def _add_runtime(deciding: Deciding, checked: Checked) -> None:
    """The files that run Zeus: Python, its packages, the record of the user's permissions, and the processes."""
    for installed in _installed(checked.directory):
        _add(deciding, installed)
    if checked.trust.records is not None:
        _add(deciding, checked.trust.records)
    # The memory and environment of the processes contain the secrets that are masked elsewhere.
    _add(deciding, Path("/proc"), holds_keys=True)


def _add_code(deciding: Deciding, file: Path, *, holds_keys: bool = False) -> None:
    _add(deciding, file, holds_keys=holds_keys)
    if file.suffix == ".py":
        # Python would load a forged cache file instead of the source.
        _add(deciding, file.parent / "__pycache__")


def _add(deciding: Deciding, file: Path, *, holds_keys: bool = False) -> None:
    for each in _spellings(file):
        deciding.add(str(each), holds_keys=holds_keys)


def _installed(directory: Path) -> Iterator[Path]:
    """The folders of Python and of the packages that run Zeus: the next process executes their files.

    A package that is installed from its source in the project itself (``pip install --editable .``) stays open, so that
    the agent can work on it.
    """
    # Users cannot write to a system's own folders, which contain much else; the folders with modules follow below.
    yield from (Path(each) for each in (sys.prefix, sys.base_prefix) if each not in ("/usr", "/usr/local"))
    for each in (Path(os.__file__).parent, Path(site.getusersitepackages()), *map(Path, sys.path)):
        is_source = each.is_relative_to(directory) or directory.is_relative_to(each)
        if each.is_absolute() and (each.name.endswith("-packages") or not is_source):
            yield each


def _add_beginning(deciding: Deciding, file: Path, why: str) -> None:
    """Protect the file and its neighbours whose names begin with its name, such as SQLite's ``-wal``."""
    for at in _spellings(file):
        deciding.add_names(str(at.parent), f"{escape(at.name)}*", why)


def _spellings(file: Path) -> list[Path]:
    """A path as written, with the links of its folder resolved, and with all links resolved."""
    plain = Path(os.path.normpath(expanded(file).absolute()))
    return list(dict.fromkeys([plain, plain.parent.resolve() / plain.name, plain.resolve()]))
