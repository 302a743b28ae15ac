"""The files that decide about an agent: its config with all that it names, Homes, skills, and the database."""

from __future__ import annotations

import os
import site
import stat
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from glob import escape
from importlib.machinery import all_suffixes
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from zeus_runtime.config.layers.files import CONFIG_SUFFIX, SERVICE_FILE
from zeus_runtime.config.secrets.parts import key_files
from zeus_runtime.config.secrets.unloaded_configs import (
    config_places,
    holds_keys,
    named_configs,
    service_key_files,
    unloaded_configs,
    with_extended,
)
from zeus_runtime.config.secrets.written_secrets import addressed_key_files
from zeus_runtime.config.sqlite_url import database_file
from zeus_runtime.config.yaml.tree import find
from zeus_runtime.disk_paths import expanded, home_folders, is_file_name, is_folder, real_path, state_folder
from zeus_runtime.errors import MissingError
from zeus_runtime.plan.executed_parts import files_in, project_of
from zeus_runtime.plan.named_files import NamedFile, named_files, named_modules
from zeus_runtime.plan.workspace_root import workspace_root
from zeus_runtime.registry.home import HOME_FOLDERS, accounts_folder, bundled_home, user_home
from zeus_runtime.skills.discovery import FILE as SKILL_FILE
from zeus_runtime.skills.discovery import PROJECT_FOLDERS
from zeus_runtime.tools.access import DecidingSource, is_key_name
from zeus_runtime.tools.links import links_from
from zeus_runtime.tools.own_folders import STATE, UPLOADS, marks_folder
from zeus_runtime.tools.paths import folded
from zeus_runtime.tools.patterns import folded_part
from zeus_runtime.trust.compiled import compiled_folder
from zeus_runtime.trust.databases import is_database, logs
from zeus_runtime.trust.decision import records_folder

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    from zeus_runtime.config.secrets.unloaded_configs import UnloadedConfig
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.tools.access import Deciding

_EXECUTED_NAMES: Final = ("*.dist-info", "*.egg-info", "sitecustomize*", "usercustomize*")
"""Python executes modules of these names in any folder on its path; Zeus loads plugins that a distribution names."""

_LIBRARY_PATHS: Final = (
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
_RUN: Final = "the package runner of a server or hook executes it or what it names"
_DECIDES: Final = "it decides about this agent"
_DECIDES_ALL: Final = "it decides about all your agents"
_DECIDES_SERVICE: Final = "it decides who may use a service"
_PROCESSES: Final = "it shows the environment and memory of processes"
_SESSIONS: Final = "it holds the sessions"


def add_deciding(deciding: Deciding, checked: Checked) -> None:
    """Protect the files that decide about one agent.

    Files that do not exist yet and would be read the next time are protected too. The files of a sub-agent that shares
    the config and its folders are protected already.
    """
    source = DecidingSource(
        checked.document, workspace_root(checked), (checked.directory, checked.config.storage.url)
    )
    if any(source.document is each.document and source[1:] == each[1:] for each in deciding.sources):
        return
    deciding.sources.append(source)
    _real_folder.cache_clear()  # links change between two plans
    # Last the agent itself, whose own word on a file counts. A service reads the others again when their files change.
    agents = (*checked.beside, checked)
    work = tuple(dict.fromkeys(chain.from_iterable(map(_work, agents))))
    forms: set[str] = set()
    for each in agents:
        layers, spelled = each.spelled or ((), ())
        unloaded = (*unloaded_configs(each.document, each.private_homes, each.trust.paths), *layers)
        named = tuple(dict.fromkeys((*named_files(each, unloaded), *spelled)))
        forms.update(named_modules(each, unloaded))
        for place in (each.config.workspace.root, *each.config.workspace.routes.values()):
            deciding.folders[(each.directory / place).absolute()] = None
        config = each.document.path
        deciding.around |= dict.fromkeys((each.directory, *(() if config is None else (config.parent,))))
        for option in each.document.marked:
            if option.is_folder:
                deciding.folders[(each.directory / option.text).absolute()] = None
            elif option.is_shown:
                deciding.shown[(each.directory / option.text).absolute()] = None
        _add_configs(deciding, each, unloaded)
        _add_named(deciding, each, named)
        _add_homes(deciding, each, named, work)
        _add_linked_keys(deciding, each, work)
        _add_environment(deciding, each)
        _add_git(deciding, each)
    for file in (*_service_files(checked), *checked.service_files):
        _add_beginning(deciding, file, _DECIDES_SERVICE, holds_keys=True)
    for folder in checked.service_folders:
        deciding.served |= {real_path(folder)}
        for at in dict.fromkeys((str(folder.absolute()), real_path(folder))):
            deciding.add_names(at, f"*{CONFIG_SUFFIX}", "a service would run it as an agent", holds_keys=True)
    # What users of a service upload for their own sessions.
    _add(deciding, checked.directory / UPLOADS, _DECIDES_SERVICE, holds_keys=True, is_liftable=False)
    _add_own_home(deciding, checked)
    _add_home_folder(deciding, checked, work)
    _add_runtime(deciding, checked, forms)
    # Last, because of two patterns for a name the first one counts, and that of the home folder closes reading too.
    for each in agents:
        _add_looked_up(deciding, each, work)


def _add_looked_up(deciding: Deciding, checked: Checked, work: Sequence[Path]) -> None:
    """What package runners of servers and hooks find by themselves, such as ``.npmrc`` and ``node_modules``."""
    for found in dict.fromkeys(chain.from_iterable(part.looked_up for part in checked.parts)):
        fits = folded_part(found.name)
        entries = (each for each in _entries(found.folder) if each.is_symlink() and fits(folded(each.name)))
        # Also a link that leads nowhere yet.
        links = (os.path.split(real_path(each.path)) for each in entries if not _holds(Path(each.path), work))
        places = ((each, found.name) for each in dict.fromkeys((str(found.folder), real_path(found.folder))))
        for at, name in (*places, *((at, escape(name)) for at, name in links)):
            deciding.add_names(at, name, _RUN, is_installed=found.is_installed)


def _service_files(checked: Checked) -> Iterator[Path]:
    """The settings of a service in the working directory, or trusted by their path, and what they extend, with the
    database, certificate and keys that any of them names.

    Also settings that are not there: the next `zeus serve` in this folder would read them.
    """
    given = (each for each in checked.trust.paths if each.name == SERVICE_FILE)
    settings = dict.fromkeys((checked.directory / SERVICE_FILE, *given))
    yield from settings
    environ = checked.document.environ
    for layer in chain.from_iterable(with_extended(each, environ) for each in settings):
        for tree in layer.trees:
            yield from named_configs(tree, {}, layer.file.parent)
            yield from (checked.directory / expanded(text) for _, text in addressed_key_files(tree))
            yield from service_key_files(tree, layer.file.parent)
            node = find(tree, ("storage", "url"))
            if node is not None and is_file_name(node.value):
                # `zeus serve` ends with the error that an address of another database has.
                with suppress(MissingError):
                    database = database_file(node.value, checked.directory)
                    yield from () if database is None else (database,)


def _add_configs(deciding: Deciding, checked: Checked, unloaded: Iterable[UnloadedConfig]) -> None:
    """The config with its layers, and other runs' configs; one with a literal secret is closed to reading."""
    document = checked.document
    loaded = ((file, document.sources.texts.get(name)) for name, file in document.files.items())
    for file, text in (*loaded, *((each.file, each.text) for each in unloaded)):
        _add(deciding, file, holds_keys=holds_keys(text, document.redactor))
    for folder, stem, suffix in config_places(document, checked.trust.paths):
        for at in dict.fromkeys((folder.absolute(), folder.resolve())):
            # Also closed to reading: a file that is made later was not searched for secrets.
            deciding.add_names(str(at), escape(f"{stem}{suffix}"), holds_keys=True)
            deciding.add_names(str(at), f"{escape(stem)}.*{escape(suffix)}", holds_keys=True)


def _add_named(deciding: Deciding, checked: Checked, named: Iterable[NamedFile]) -> None:
    """The files that configs name: prompts, plugin files, keys, databases, and files of the programs they start."""
    work = _work(checked)
    database = database_file(checked.config.storage.url, checked.directory)
    default = () if database is None else (NamedFile(database, "database", holds_keys=True),)
    programs = (NamedFile(file, "program") for part in checked.parts for file in part.files)
    absent = (NamedFile(Path(*each), "absent") for part in checked.parts for each in part.absent)
    _add_in_workspaces(deciding, checked)
    for each in (*default, *named, *programs, *absent):
        if each.role == "absent":
            for at in dict.fromkeys((str(each.file.parent), real_path(each.file.parent))):
                deciding.add_names(at, each.file.name, "a program of the config would start it")
        elif each.role in ("database", "written"):
            # A database is of other agents too, with texts that this agent's rules may deny.
            why = _SESSIONS if each.role == "database" else _DECIDES
            _add(deciding, each.file, why, holds_keys=each.holds_keys)
            _add_beginning(deciding, each.file, why, holds_keys=each.holds_keys)
        elif each.role == "archive":
            for at in _spellings(each.file):
                deciding.add_archive(at, each.route)
        elif each.role not in ("home", "root"):
            _add_code(deciding, each.file, holds_keys=each.holds_keys)
            if each.role == "program" and each.file.suffix == ".py":
                _add_unasked(deciding, each.file.parent / "__pycache__")
            if each.role in ("program", "read"):
                _add_linked_code(deciding, each.file, work)
            # Also behind a link that is deeper than links are searched.
            for file in (files_in(each.file) or ()) if each.role == "read" else ():
                _add(deciding, Path(file), holds_keys=each.holds_keys)


def _add_in_workspaces(deciding: Deciding, checked: Checked) -> None:
    """The names of the files that options name, such as ``shell.env``, in each workspace, also of others' sessions.

    A command reads ``BASH_ENV: env.sh`` in the folder in which it starts, wherever the config's author saw the file.
    """
    options = [each for each in checked.parts if each.kind == "option"]
    if not options:
        return
    workspace = checked.config.workspace
    root, *routes = (checked.directory / each for each in (workspace.root, *workspace.routes.values()))
    bases = [Path(each) for at in (checked.directory, root, *routes) for each in _spellings(at)]
    for part in options:
        named = (*((str(each.parent), escape(each.name)) for each in part.files), *part.absent)
        below = {
            (Path(folder).relative_to(base), name)
            for folder, name in named
            for base in bases
            if Path(folder).is_relative_to(base)
        }
        for above, name in sorted(below):
            for at in dict.fromkeys(chain.from_iterable(map(_spellings, (root, *routes)))):
                deciding.add_names(os.path.normpath(Path(at, above)), name, _DECIDES)
            for at in _spellings(root) if workspace.per is not None else ():
                deciding.add_in_each(at, ("" if above == Path() else above.as_posix(), name), _DECIDES)


def _add_own_home(deciding: Deciding, checked: Checked) -> None:
    """The user's own Home, with the accounts in it."""
    # All agents of the user read it, so only a config of their own may open it. One that lies in the project asks.
    is_own = checked.trust.is_of_home(Path(checked.trust.file))
    for home in _own_homes(checked):
        _add(deciding, home, _DECIDES if is_own else _DECIDES_ALL, is_liftable=is_own)
    for environ in _environs(checked):
        for home in user_home(environ):
            _add_unasked(deciding, home)
        accounts = accounts_folder(environ)
        if accounts is not None:
            _add(deciding, accounts, _DECIDES_ALL, holds_keys=True, is_liftable=is_own)


def _add_home_folder(deciding: Deciding, checked: Checked, work: Sequence[Path]) -> None:
    """The settings and keys of the user's programs, where the home folder is in a workspace or is one.

    Libraries that Zeus uses read them too, and some execute what they name (``~/.aws/config``, ``~/.gitconfig``).
    """
    environ = checked.process_environ
    places = [Path(real_path(each)) for each in (*work, *deciding.folders, *deciding.around)]

    def is_reached(place: Path) -> bool:
        return any(Path(real_path(place)).is_relative_to(each) for each in places)

    def add(folder: Path, pattern: str, *, but: Collection[str] = (), holds_keys: bool = True) -> None:
        for at in dict.fromkeys((str(folder), real_path(folder))):
            deciding.add_names(at, pattern, _PROGRAMS, but=but, holds_keys=holds_keys)
        # Dotfiles are often links: `~/.bashrc -> dotfiles/bashrc`. A target outside could not be opened anyway.
        for link in _links_of_names(folder, pattern, but, work):
            if is_reached(link):
                _add(deciding, link, _PROGRAMS, holds_keys=holds_keys)

    for home in (Path(real_path(each)) for each in home_folders(environ) if is_reached(each)):
        add(home, ".*", but=_OF_PROJECTS)
        for each in _FOLDERS_OF_PROGRAMS:
            _add_unasked(deciding, home / each)
        for each in _FILES_OF_PROGRAMS:
            _add_unasked(deciding, home / each, is_file=True)
        add(home / ".local", "*", but=("share", "state"), holds_keys=False)
        add(home / ".local/state/zeus", "*")
        for each in (".config", ".local/share", ".local/state"):
            # Zeus's own Home has protections of its own.
            add(home / each, "*", but=("zeus",))
    state = state_folder(environ)
    if state is not None and is_reached(state):
        add(state, "chat_history")
    settings = Path(environ.get("XDG_CONFIG_HOME", ""))
    if settings.is_absolute() and is_reached(settings):
        add(settings, "*", but=("zeus",))


def _links_of_names(folder: Path, pattern: str, but: Collection[str], work: Sequence[Path]) -> Iterator[Path]:
    """The links of these names in a folder, and those in the folders of these names, also behind such a link.

    Links deeper in them are not looked for: build tools keep links to whole projects there.

    Args:
        pattern, but: the names, as ``Deciding.add_names`` takes them.
        work: folders that a link must not close.
    """
    fits = folded_part(pattern)
    for each in _entries(folder):
        name = folded(each.name)
        if not fits(name) or name in but or _holds(Path(each.path), work):
            continue
        found = (each, *_entries(each))
        yield from (
            link for entry in found if entry.is_symlink() and not _holds(link := Path(entry.path), work)
        )


def _entries(folder: str | os.PathLike[str]) -> list[os.DirEntry[str]]:
    """The entries of a folder; none if it is missing, is a file, or is closed to this user."""
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


_PROGRAMS: Final = "programs of the user read it"
_FOLDERS_OF_PROGRAMS: Final = tuple(
    ".aicore .aws .azure .cache .databricks .docker .huggingface .kube .litellm .npm .oci .postgresql .snowflake"
    " .ssh".split()
)
_FILES_OF_PROGRAMS: Final = (".boto", ".databrickscfg", ".netrc", ".npmrc", ".pg_service.conf", ".pgpass")
"""Entries of a home folder in which Zeus's libraries, or programs that start MCP servers, find programs, addresses and
keys at the next start. `.config` and `.local` are not among them: Zeus's own folders there are made."""
_VARIABLES_OF_PROGRAMS: Final = tuple(
    "AWS_ AZURE_ CLOUDSDK_ CONTAINERS_ DATABRICKS_ DOCKER_ KUBECONFIG OCI_ OPENSSL_ SNOWFLAKE_ SSL_".split()
)
"""How the variables of such programs begin: they name other places for the same settings (``DOCKER_CONFIG``)."""
_OF_PROJECTS: Final = frozenset(
    (".config", ".local", ".git", *(each.partition("/")[0] for each in PROJECT_FOLDERS))
)
"""A home folder may be a project too: these, or what is in them, have protections of their own."""


def _own_homes(checked: Checked) -> Iterable[Path]:
    # A project's `.env` or a program's mapping may name another Home for this run; the next run reads the user's own.
    environs = (*_environs(checked), checked.environ)
    return dict.fromkeys(home for environ in environs for home in user_home(environ))


def _environs(checked: Checked) -> tuple[Mapping[str, str], ...]:
    """The variables by which this process, and the next one in each home folder of the user, finds the user's files."""
    process = checked.process_environ
    return (process, *({"HOME": str(home)} for home in home_folders(process)))


def _add_homes(
    deciding: Deciding, checked: Checked, named: Sequence[NamedFile], work: Sequence[Path]
) -> None:
    """The folders of an agent's Homes, and its project's skills.

    Args:
        work: where this agent and those beside it work.
    """
    roots = [each.file for each in named if each.role == "root"]
    skills = {base / each for base in (*_work(checked), *roots) for each in PROJECT_FOLDERS}
    workspace = checked.config.workspace
    if workspace.per is not None:
        # Also the workspaces of other sessions and users: an agent of the same service may work in the folder of all.
        for root in (checked.directory / workspace.root, *roots):
            for at in dict.fromkeys((str(root.absolute()), real_path(root))):
                for each in PROJECT_FOLDERS:
                    above, _, name = each.partition("/")
                    deciding.add_in_each(at, (above, name), _DECIDES)
    # Its prompts and skills need no permission, and Zeus makes files in it while commands run.
    _add_unasked(deciding, checked.directory / STATE)
    homes = [each.file for each in named if each.role == "home"]
    searched = (
        checked.directory / ".zeus",
        *checked.homes,
        *checked.document.homes,
        *(home for _, home in checked.registry.homes),  # their presets are found without being listed
        *homes,
        *_own_homes(checked),
    )
    folders = {home / each for home in searched for each in HOME_FOLDERS}
    bundled = bundled_home()
    for folder in sorted(skills | folders):
        if folder.parent == bundled:  # an installed folder, whose links are the distribution's
            _add(deciding, folder)
        else:
            _add_folder(deciding, folder, (*work, *roots) if folder.name == "skills" else ())


def _add_linked_keys(deciding: Deciding, checked: Checked, work: Sequence[Path]) -> None:
    """The targets of links that are named like files of keys (``.env.local``), in the folders of work and config."""
    path = checked.document.path
    for folder in dict.fromkeys((*_work(checked), *(() if path is None else (path.absolute().parent,)))):
        for link in _links_of_keys(folder):
            if not _holds(link, work):
                _add(deciding, link, holds_keys=True)


def _links_of_keys(folder: Path) -> Iterator[Path]:
    """The links in a folder that are named like files of keys, however many files a tool has made beside them."""
    yield from (Path(each.path) for each in _entries(folder) if each.is_symlink() and is_key_name(each.name))


def _add_environment(deciding: Deciding, checked: Checked) -> None:
    """The files of the project that variables of Zeus's process name: Zeus's libraries read settings and keys there.

    A relative path, and a file that is not there, count if the variable's name says secret: an agent may edit
    ``FLASK_APP=app.py``, and ``XDG_STATE_HOME`` is a folder that Zeus makes. A folder counts if the name is one of a
    program: an agent may write to ``DATA_DIR=$PWD/data``.
    """
    project = project_of(checked.document, checked.config, checked.trust)
    work = (*_work(checked), *deciding.folders)
    for name, value in checked.process_environ.items():
        for place in _places_of_program(name, value):
            is_own = any(project.has(Path(each)) for each in _spellings(place))
            if is_own and not _holds(place, work):
                _add(deciding, place, f"the variable {name} names it for Zeus")
                _add_linked_code(deciding, place, work)
        named = {file: True for _, file in key_files(name, value)}
        if value.startswith(("/", "~")):
            named.setdefault(value, False)
        for text, is_secret in named.items():
            file = _file_at(text, is_absent=is_secret)
            if file is not None and any(project.has(Path(each)) for each in _spellings(file)):
                _add(deciding, file, f"the variable {name} names it for Zeus", holds_keys=is_secret)


def _add_git(deciding: Deciding, checked: Checked) -> None:
    """The files of the project that settings of its Git repositories name."""
    project = project_of(checked.document, checked.config, checked.trust)
    for each in checked.secret_files.named_by_git:
        file, setting = each
        if not is_folder(file) and any(project.has(Path(spelling)) for spelling in _spellings(file)):
            # As of `.git/config`: Git executes what further settings say, and their secrets are masked.
            _add(deciding, file, f"`{setting}` names it for git", holds_keys=not each.has_settings)
            if each.has_settings:
                _add_unasked(deciding, file, is_file=True)


def _places_of_program(name: str, value: str) -> Iterator[Path]:
    """The files and folders, there or not, that a variable of a program names (``SSL_CERT_DIR=./certs:/etc/certs``).

    A bare word is none: it may be the name of an account (``AWS_PROFILE=staging``).
    """
    if name.startswith(_VARIABLES_OF_PROGRAMS) and name not in _LIBRARY_PATHS:
        yield from (
            expanded(each).absolute() for each in value.split(":") if each.startswith(("/", "~", "."))
        )


def _file_at(text: str, *, is_absent: bool) -> Path | None:
    try:
        file = expanded(text).absolute()
        return file if stat.S_ISREG(file.stat().st_mode) else None
    except FileNotFoundError:
        # A name with a slash at its end is a folder's.
        may_be = is_absent and text.startswith(("/", "./", "../", "~")) and not text.endswith("/")
        return file if may_be else None
    except (OSError, ValueError):  # a text that cannot be a path, such as one that is too long
        return None


def _add_runtime(deciding: Deciding, checked: Checked, forms: Iterable[str]) -> None:
    """The files that run Zeus: Python, its packages, the record of the user's permissions, and the processes.

    Args:
        forms: the modules that configs have imported for the form of an answer.
    """
    for installed in _installed(checked.directory):
        _add(deciding, installed, _DECIDES_ALL, is_liftable=False)
        _add_unasked(deciding, installed)
    work = [each.resolve() for each in _work(checked)]
    places = (*work, *(checked.directory / each for each in checked.config.workspace.routes.values()))
    for folder in _named_by_variables(checked, places):
        if not _holds(folder, places):
            _add(deciding, folder, _LOADED, is_liftable=False)
            _add_unasked(deciding, folder)
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
            _add_code(deciding, place)
    path = tuple(_on_the_path(checked.directory))
    for each in (*searched, *imported):
        for folder, name in each.rivals(path):
            at = real_path(folder)
            # Its own package stays open where an agent works in it.
            is_work = folder.name == each.name and Path(at) in work
            if not is_work and deciding.find(at) is None:
                deciding.add_names(at, name, _EXECUTED)
    found = (records_folder, marks_folder, compiled_folder)
    kept = (folder(environ) for environ in _environs(checked) for folder in found)
    for own in dict.fromkeys((checked.trust.records, *kept)):
        if own is not None:
            _add(deciding, own, _DECIDES_ALL, is_liftable=False)
            _add_unasked(deciding, own)
    # They contain the secrets that are masked elsewhere.
    _add(deciding, Path("/proc"), _PROCESSES, holds_keys=True)


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
    for each in _entries(folder):
        name, _, ending = each.name.partition(".")
        if f".{ending}" in _ENDINGS:
            modules.add(name)
        elif name == each.name and name.isidentifier() and each.is_dir():
            has_code = any(os.path.exists(f"{each.path}/__init__{end}") for end in _ENDINGS)  # noqa: PTH110 - quicker
            (modules if has_code else packages).add(name)
    return _Modules(frozenset(modules), frozenset(packages))


def _add_unasked(deciding: Deciding, place: Path, *, is_file: bool = False) -> None:
    """Have a place made, if it is missing, before a command could make it, and keep files from its way."""
    (deciding.unasked_files if is_file else deciding.unasked)[str(place)] = None
    for at in dict.fromkeys((str(place), real_path(place))):
        deciding.add_way(at)


def _add_code(deciding: Deciding, file: Path, *, holds_keys: bool = False) -> None:
    _add(deciding, file, holds_keys=holds_keys)
    if file.suffix == ".py":
        # Python would load a forged cache file instead of the source.
        _add(deciding, file.parent / "__pycache__")


def _add_linked_code(deciding: Deciding, folder: Path, work: Sequence[Path]) -> None:
    """Protect the targets of links in a folder that a program or a component opens files in, also new files there."""
    if os.path.isdir(folder):  # noqa: PTH112 - False also for a name that is too long
        for link in links_from(folder, lambda link: not _holds(link, work)):
            if not _holds(link, work):
                _add_code(deciding, link)


def _add_folder(deciding: Deciding, folder: Path, work: Sequence[Path] = ()) -> None:
    """Protect a folder and the targets of its links, and the same for each folder that a link leads to.

    Args:
        work: folders that a link must not close completely, since no rule could open them again. A project may itself
            be a skill; then only its ``SKILL.md`` is protected.
    """

    def is_project(link: Path) -> bool:
        return _holds(link, work) and (link / SKILL_FILE).exists()

    _add(deciding, folder)
    for link in links_from(folder, lambda link: not is_project(link)):
        _add(deciding, link / SKILL_FILE if is_project(link) else link)


def _holds(link: Path, folders: Sequence[Path]) -> bool:
    """Whether a link leads to one of the folders, or to a folder above it."""
    target = real_path(link)
    return any(Path(real_path(each)).is_relative_to(target) for each in folders)


def _work(checked: Checked) -> tuple[Path, ...]:
    """The working directory, the folder of all workspaces, and this agent's own in it."""
    root = checked.directory / checked.config.workspace.root
    return tuple(dict.fromkeys((checked.directory, root, workspace_root(checked))))


def _add(
    deciding: Deciding,
    file: Path,
    why: str = _DECIDES,
    *,
    holds_keys: bool = False,
    is_liftable: bool = True,
) -> None:
    for each in _spellings(file):
        deciding.add(each, why, holds_keys=holds_keys, is_liftable=is_liftable)


def _installed(directory: Path) -> Iterator[Path]:
    """The folders of Python and of the packages that run Zeus: the next process executes their files.

    A package that is installed from its source in the project itself (``pip install --editable .``) stays open, so that
    the agent can work on it. Plugins count as trusted, so ``_code_of`` finds and protects their modules.
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
        yield from code if _holds(prefix, work) else (prefix,)
    for value in filter(None, map(checked.process_environ.get, _LIBRARY_PATHS)):
        yield from (Path(each).absolute() for each in value.replace(";", ":").split(":"))


def _on_the_path(directory: Path) -> Iterator[str]:
    """The project's own folders in which this Python looks for modules."""
    # A relative one, such as the empty one of Python's prompt, starts where the process is.
    for each in (Path(entry).absolute() for entry in sys.path):
        if _is_of(each, directory):
            yield from {str(each), real_path(each)}


def _is_of(folder: Path, directory: Path) -> bool:
    return folder.is_relative_to(directory) or directory.is_relative_to(folder)


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


def _add_beginning(deciding: Deciding, file: Path, why: str, *, holds_keys: bool = False) -> None:
    """Protect the file and its neighbours whose names begin with its name."""
    for at in _spellings(file):
        deciding.add_beginning(at, why, holds_keys=holds_keys)
    # SQLite would apply a log that a command makes. An empty one is none.
    real = Path(real_path(expanded(file).absolute()))
    for log in logs(real) if is_database(real) else ():
        _add_unasked(deciding, log, is_file=True)


def _spellings(file: Path) -> Iterable[str]:
    """A path as written, with the links of its folder resolved, and with all links resolved."""
    # Texts and not paths: each plan makes some hundred of them.
    written = str(expanded(file).absolute())
    plain = os.path.normpath(written)
    # Each file's folder is resolved once for many files. A circle of links is not an error here.
    folder, name = os.path.split(plain)
    near = f"{_real_folder(folder)}/{name}"
    found = [plain, near, real_path(near) if os.path.islink(near) else near]  # noqa: PTH114 - quicker
    if written != plain:
        found.append(real_path(written))  # after a link, `..` leads elsewhere than the text of the path says
    return dict.fromkeys(found)


@lru_cache(maxsize=256)
def _real_folder(folder: str) -> str:
    return real_path(folder).rstrip("/")
