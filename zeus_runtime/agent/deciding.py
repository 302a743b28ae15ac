"""The files that decide about an agent: its config with all that it names, Homes, skills, and the database."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.agent.executing import database_file
from zeus_runtime.config.unloaded import config_places, holds_keys, unloaded_configs
from zeus_runtime.config.user_paths import expanded
from zeus_runtime.plugins.home import accounts_folder, user_home
from zeus_runtime.skills.discovery import PROJECT_FOLDERS

if TYPE_CHECKING:
    from zeus_runtime.agent.checked import Checked
    from zeus_runtime.tools.access import Deciding

_HOME_FOLDERS: Final = ("configs", "prompts", "plugins", "skills")


def add_deciding(deciding: Deciding, checked: Checked) -> None:
    """Protect what decides about one agent.

    Files that are not there yet and would be read next time are protected too.
    """
    document = checked.document
    for name, file in document.files.items():
        # A file that has a secret written out is closed to reading as well.
        text = document.sources.texts.get(name)
        _add(deciding, file, holds_keys=holds_keys(text, document.redactor))
    for file, text in unloaded_configs(document):
        _add(deciding, file, holds_keys=holds_keys(text, document.redactor))
    for folder, stem, suffix in config_places(document):
        for at in dict.fromkeys((folder.absolute(), folder.resolve())):
            # Closed to reading too: nobody has looked for secrets in a file that is made later.
            deciding.add_names(str(at), escape(f"{stem}{suffix}"), holds_keys=True)
            deciding.add_names(str(at), f"{escape(stem)}.*{escape(suffix)}", holds_keys=True)
    for named in document.named_files():
        if named.path[0] == "homes":
            continue
        _add(deciding, named.file, holds_keys=named.holds_secrets)
        if named.file.suffix == ".py":
            # Python would load a forged cache file instead of the source.
            _add(deciding, named.file.parent / "__pycache__")
    for named in document.protected_files():
        _add(deciding, named.file, holds_keys=named.holds_secrets)
        _add_beginning(deciding, named.file, "it decides about this agent")
    for part in checked.parts:
        for file in part.files:
            _add(deciding, file)
            if file.suffix == ".py":
                _add(deciding, file.parent / "__pycache__")
    for home in (checked.directory / ".zeus", *checked.homes):
        for each in _HOME_FOLDERS:
            _add(deciding, home / each)
    # A project's `.env` or a program's mapping may name another Home for this run; the next run reads the user's own.
    for home in dict.fromkeys((*user_home(checked.process_environ), *user_home(checked.environ))):
        _add(deciding, home)
    accounts = accounts_folder(checked.process_environ)
    if accounts is not None:
        _add(deciding, accounts, holds_keys=True)
    # The processes' own memory and environment, which hold what is masked elsewhere.
    _add(deciding, Path("/proc"), holds_keys=True)
    for installed in _installed(checked.directory):
        _add(deciding, installed)
    if checked.trust.records is not None:
        _add(deciding, checked.trust.records)
    root = checked.directory / checked.config.workspace.root
    for base in (checked.directory, root):
        for skills in PROJECT_FOLDERS:
            _add(deciding, base / skills)
    database = database_file(checked.config.storage.url, checked.directory)
    if database is not None:
        _add_beginning(deciding, database, "it holds the sessions")


def _add(deciding: Deciding, file: Path, *, holds_keys: bool = False) -> None:
    for each in _spellings(file):
        deciding.add(str(each), holds_keys=holds_keys)


def _installed(directory: Path) -> Iterator[Path]:
    """The folders of Python and of the packages that run Zeus: the next process executes what is put there.

    A package that is installed from its source in the project itself (``pip install --editable .``) stays open to
    work on it.
    """
    import site

    # A system's own folders are no user's to write; the modules in them are named below.
    yield from (Path(each) for each in {sys.prefix, sys.base_prefix} - {"/usr", "/usr/local"})
    for each in (Path(os.__file__).parent, Path(site.getusersitepackages()), *map(Path, sys.path)):
        is_source = each.is_relative_to(directory) or directory.is_relative_to(each)
        if each.is_absolute() and (each.name.endswith("-packages") or not is_source):
            yield each


def _add_beginning(deciding: Deciding, file: Path, why: str) -> None:
    """Protect the file and all beside it whose names begin with its own, such as SQLite's ``-wal``."""
    for at in _spellings(file):
        deciding.add_names(str(at.parent), f"{escape(at.name)}*", why)


def _spellings(file: Path) -> list[Path]:
    """A path as it is written, with the links of its folder resolved, and with all links resolved."""
    plain = Path(os.path.normpath(expanded(file).absolute()))
    return list(dict.fromkeys([plain, plain.parent.resolve() / plain.name, plain.resolve()]))
