"""The files that decide about an agent: its config with all that it names, Homes, skills, and the database."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from glob import escape
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.config.layers.files import CONFIG_SUFFIX, SERVICE_FILE, TEXT_SUFFIXES
from zeus_runtime.config.secrets.key_files import key_files
from zeus_runtime.config.secrets.secret_files import states
from zeus_runtime.config.secrets.unloaded_configs import (
    config_places,
    holds_keys,
    may_be_config,
    named_configs,
    service_key_files,
    unloaded_configs,
    with_extended,
)
from zeus_runtime.config.secrets.written_secrets import addressed_key_files
from zeus_runtime.config.sqlite_url import database_file
from zeus_runtime.config.yaml.tree import find
from zeus_runtime.disk_paths import (
    expanded,
    home_folders,
    is_file_name,
    is_folder,
    is_in,
    real_path,
    state_folder,
)
from zeus_runtime.errors import MissingError
from zeus_runtime.plan.executed_parts import files_in, project_of
from zeus_runtime.plan.named_files import NamedByTexts, NamedFile, named_files, named_modules, of_runner
from zeus_runtime.plan.protected_python import LIBRARY_PATHS, add_runtime
from zeus_runtime.plan.protecting import (
    DECIDES,
    DECIDES_ALL,
    add_beginning,
    add_code,
    add_file,
    add_folder,
    add_linked_code,
    add_unasked,
    entries_of,
    forget_links,
    holds_any,
    real_once,
    spellings,
    work_folders,
)
from zeus_runtime.plan.workspace_root import workspace_root
from zeus_runtime.plan.workspace_secrets import files_of_work
from zeus_runtime.registry.home import (
    HOME_FOLDERS,
    accounts_folder,
    bundled_home,
    environs_of_user,
    homes_of_user,
    user_home,
)
from zeus_runtime.skills.discovery import PROJECT_FOLDERS
from zeus_runtime.tools.access import DecidingSource, is_key_name
from zeus_runtime.tools.own_folders import STATE, UPLOADS
from zeus_runtime.tools.paths import folded
from zeus_runtime.tools.patterns import folded_part

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.unloaded_configs import UnloadedConfig
    from zeus_runtime.plan.named_files import Role
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.tools.access import Deciding

_RUN: Final = "the package runner or the Python of a server or hook executes it or what it names"
_OF_RUNNERS: Final = ("settings", "installed")
_DECIDES_SERVICE: Final = "it decides who may use a service"
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
    forget_links()  # links change between two plans
    # Last the agent itself, whose own word on a file counts. A service reads the others again when their files change.
    agents = (*checked.beside, checked)
    work = tuple(dict.fromkeys(chain.from_iterable(map(work_folders, agents))))
    # An agent's routes too, which a text of another agent may name.
    places = tuple(dict.fromkeys((*work, *chain.from_iterable(each.work for each in agents))))
    forms: set[str] = set()
    of_runners: dict[NamedFile, None] = {}
    loaded = {each.document.path for each in agents}.union(*(each.document.files.values() for each in agents))
    added = [each for each in checked.served_configs if each not in loaded]
    # Also one that is no config yet.
    texts = dict.fromkeys(added)
    served = [each for each in added if may_be_config(each)]
    for each in agents:
        # Once for all: each agent of the service has the same folders.
        unloaded, named, searched = _named(each, places, served if each is checked else ())
        texts |= dict.fromkeys(searched)
        forms.update(named_modules(each, unloaded))
        of_runners |= dict.fromkeys(file for file in named if file.role in _OF_RUNNERS)
        of_runners |= dict.fromkeys(of_runner(found) for part in each.parts for found in part.looked_up)
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
    for file in dict.fromkeys((*_service_files(checked, places), *checked.service_files)):
        add_beginning(deciding, file, _DECIDES_SERVICE, holds_keys=True)
        texts |= dict.fromkeys([file] if file.suffix in TEXT_SUFFIXES else ())
    for folder in checked.service_folders:
        deciding.served |= {real_path(folder)}
        for at in dict.fromkeys((str(folder.absolute()), real_path(folder))):
            deciding.add_names(at, f"*{CONFIG_SUFFIX}", "a service would run it as an agent", holds_keys=True)
    # What users of a service upload for their own sessions.
    add_file(deciding, checked.directory / UPLOADS, _DECIDES_SERVICE, holds_keys=True, is_liftable=False)
    _add_own_home(deciding, checked)
    _add_home_folder(deciding, checked, work)
    add_runtime(deciding, checked, forms)
    # Last, because of two patterns for a name the first one counts, and that of the home folder closes reading too.
    _add_looked_up(deciding, of_runners, work)
    # What was known of one before holds: a plan of before was not told of its change.
    deciding.texts |= {**states(texts), **deciding.texts}


def _named(
    checked: Checked, work: Collection[Path], served: Iterable[Path]
) -> tuple[Sequence[UnloadedConfig], Sequence[NamedFile], Iterable[Path]]:
    """What configs name, or spell where one is not sound.

    Args:
        work: where the agents work.
        served: configs in the folders of a service that no agent has loaded.

    Returns:
        The configs that this run did not load; the files; and the texts that were searched, with those that would be.
    """
    given = (*checked.trust.paths, *served)
    unloaded = (*unloaded_configs(checked.document, checked.private_homes, given),)
    found = named_files(checked, unloaded, given)
    spelled = [] if checked.spelled is None else [checked.spelled]
    if found.unsound:
        from zeus_runtime.plan.spelled_files import spelled_files

        spelled.append(spelled_files(checked, work, given=found.unsound))
    layers = (*chain.from_iterable(each.layers for each in spelled),)
    further = named_files(checked, layers) if layers else NamedByTexts((), (), {})
    of_texts = (*chain.from_iterable(each.files for each in spelled),)
    files = dict.fromkeys((*found.files, *further.files, *of_texts))
    texts = (
        *(each.file for each in (*unloaded, *layers)),
        *found.texts,
        *further.texts,
        *(file for each in of_texts if (file := _plain(each)).suffix in TEXT_SUFFIXES),
        # A new preset changes its folder.
        *(each.file / "configs" for each in files if each.role == "home"),
    )
    return (*unloaded, *layers), tuple(files), texts


def _add_looked_up(deciding: Deciding, of_runners: Iterable[NamedFile], work: Sequence[Path]) -> None:
    """What package runners of servers and hooks find by themselves, such as ``.npmrc`` and ``node_modules``."""
    for found in of_runners:
        folder, pattern = found.file.parent, found.file.name
        fits = folded_part(pattern)
        entries = (each for each in entries_of(folder) if each.is_symlink() and fits(folded(each.name)))
        # Also a link that leads nowhere yet.
        links = (
            os.path.split(real_path(each.path)) for each in entries if not holds_any(Path(each.path), work)
        )
        places = ((each, pattern) for each in dict.fromkeys((str(folder), real_path(folder))))
        for at, name in (*places, *((at, escape(name)) for at, name in links)):
            deciding.add_names(at, name, _RUN, is_installed=found.role == "installed")


def _service_files(checked: Checked, work: Collection[Path]) -> Iterator[Path]:
    """The settings of a service in the working directory, trusted by their path, or in use, and what they extend, with
    the database, certificate and keys that any of them names.

    Also settings that are not there: the next `zeus serve` in this folder would read them.
    """
    given = (each for each in checked.trust.paths if each.name == SERVICE_FILE)
    used = (each for each in checked.service_files if each.suffix in TEXT_SUFFIXES)
    settings = dict.fromkeys((checked.directory / SERVICE_FILE, *given, *used))
    yield from settings
    environ = checked.document.environ
    layers = [*chain.from_iterable(with_extended(each, environ) for each in settings)]
    if layers:
        from zeus_runtime.plan.spelled_files import spelled_files

        # They have few values, so each path among these counts, whatever its key.
        spelled = spelled_files(checked, work, given={each.file: "values" for each in layers})
        yield from (_plain(each) for each in spelled.files if each.role not in _OF_RUNNERS)
    for layer in layers:
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


def _plain(named: NamedFile) -> Path:
    # One that is not there has a pattern as its name.
    name = re.sub(r"\[([*?[])\]", r"\1", named.file.name) if named.role == "absent" else named.file.name
    return named.file.with_name(name)


def _add_configs(deciding: Deciding, checked: Checked, unloaded: Iterable[UnloadedConfig]) -> None:
    """The config with its layers, and other runs' configs; one with a literal secret is closed to reading."""
    document = checked.document
    loaded = ((file, document.sources.texts.get(name)) for name, file in document.files.items())
    for file, text in (*loaded, *((each.file, each.text) for each in unloaded)):
        add_file(deciding, file, holds_keys=holds_keys(text, document.redactor))
    for folder, stem, suffix in config_places(document, checked.trust.paths):
        for at in dict.fromkeys((folder.absolute(), folder.resolve())):
            # Also closed to reading: a file that is made later was not searched for secrets.
            deciding.add_names(str(at), escape(f"{stem}{suffix}"), holds_keys=True)
            deciding.add_names(str(at), f"{escape(stem)}.*{escape(suffix)}", holds_keys=True)


def _add_named(deciding: Deciding, checked: Checked, named: Sequence[NamedFile]) -> None:
    """The files that configs name: prompts, plugin files, keys, databases, and files of the programs they start."""
    work = work_folders(checked)
    database = database_file(checked.config.storage.url, checked.directory)
    default = () if database is None else (NamedFile(database, "database", holds_keys=True),)
    programs = (NamedFile(file, "program") for part in checked.parts for file in part.files)
    absent = (NamedFile(Path(*each), "absent") for part in checked.parts for each in part.absent)
    _add_in_workspaces(deciding, checked, named)
    for each in (*default, *named, *programs, *absent):
        if each.role == "absent":
            above = str(each.file.parent)
            for at in dict.fromkeys((above, real_once(above))):
                deciding.add_names(at, each.file.name, "a program of the config would start it")
        elif each.role in ("database", "written"):
            # A database is of other agents too, with texts that this agent's rules may deny.
            why = _SESSIONS if each.role == "database" else DECIDES
            add_file(deciding, each.file, why, holds_keys=each.holds_keys)
            add_beginning(deciding, each.file, why, holds_keys=each.holds_keys)
        elif each.role == "archive":
            for at in spellings(each.file):
                deciding.add_archive(at, each.route)
        elif each.role not in ("home", "root", "workspaces", *_OF_RUNNERS):
            add_code(deciding, each.file, holds_keys=each.holds_keys)
            if each.role == "program" and each.file.suffix == ".py":
                add_unasked(deciding, each.file.parent / "__pycache__")
            if each.role in ("program", "read"):
                add_linked_code(deciding, each.file, work)
            # Also behind a link that is deeper than links are searched.
            for file in (files_in(each.file) or ()) if each.role == "read" else ():
                add_file(deciding, Path(file), holds_keys=each.holds_keys)


def _add_in_workspaces(deciding: Deciding, checked: Checked, named: Sequence[NamedFile]) -> None:
    """The names of the files that options name, such as ``shell.env``, in each workspace, also of others' sessions.

    A command reads ``BASH_ENV: env.sh`` in the folder in which it starts, wherever the config's author saw the file.
    """
    options = [each for each in checked.parts if each.kind == "option"]
    files = {
        *((str(file.parent), escape(file.name)) for part in options for file in part.files),
        *(each for part in options for each in part.absent),
        *((str(each.parent), escape(each.name)) for each in _of_options(named, "program")),
        *((str(each.parent), each.name) for each in _of_options(named, "absent")),
    }
    if not files:
        return
    workspace = checked.config.workspace
    roots = (checked.directory / each for each in (workspace.root, *workspace.routes.values()))
    shared = [*_shared_workspaces(checked, named)]
    places = [*roots, *(each.file for each in named if each.role == "root"), *shared]
    bases = [Path(each) for at in (checked.directory, *places) for each in spellings(at)]
    below = {
        (Path(folder).relative_to(base), name)
        for folder, name in files
        for base in bases
        if Path(folder).is_relative_to(base)
    }
    for above, name in sorted(below):
        for at in dict.fromkeys(chain.from_iterable(map(spellings, places))):
            deciding.add_names(os.path.normpath(Path(at, above)), name, DECIDES)
        for at in dict.fromkeys(chain.from_iterable(map(spellings, shared))):
            deciding.add_in_each(at, ("" if above == Path() else above.as_posix(), name), DECIDES)


def _of_options(named: Iterable[NamedFile], role: Role) -> Iterator[Path]:
    return (each.file for each in named if each.is_of_option and each.role == role)


def _shared_workspaces(checked: Checked, named: Iterable[NamedFile]) -> Iterable[Path]:
    """The folders in which sessions or users have workspaces of their own, also with another config of the project."""
    own = () if checked.config.workspace.per is None else (checked.directory / checked.config.workspace.root,)
    return dict.fromkeys((*own, *(each.file for each in named if each.role == "workspaces")))


def _add_own_home(deciding: Deciding, checked: Checked) -> None:
    """The user's own Home, with the accounts in it."""
    # All agents of the user read it, so only a config of their own may open it. One that lies in the project asks.
    is_own = checked.trust.is_of_home(Path(checked.trust.file))
    for home in homes_of_user(checked.environ):
        add_file(deciding, home, DECIDES if is_own else DECIDES_ALL, is_liftable=is_own)
    for environ in environs_of_user():
        for home in user_home(environ):
            add_unasked(deciding, home)
        accounts = accounts_folder(environ)
        if accounts is not None:
            add_file(deciding, accounts, DECIDES_ALL, holds_keys=True, is_liftable=is_own)


def _add_home_folder(deciding: Deciding, checked: Checked, work: Sequence[Path]) -> None:
    """The settings and keys of the user's programs, where the home folder is in a workspace or is one.

    Libraries that Zeus uses read them too, and some execute what they name (``~/.aws/config``, ``~/.gitconfig``).
    """
    environ = checked.process_environ
    places = [real_once(str(each)) for each in (*work, *deciding.folders, *deciding.around)]

    def is_reached(place: Path) -> bool:
        real = real_once(str(place))
        return any(is_in(real, each) for each in places)

    def add(folder: Path, pattern: str, *, but: Collection[str] = (), holds_keys: bool = True) -> None:
        for at in dict.fromkeys((str(folder), real_once(str(folder)))):
            deciding.add_names(at, pattern, _PROGRAMS, but=but, holds_keys=holds_keys)
        # Dotfiles are often links: `~/.bashrc -> dotfiles/bashrc`. A target outside could not be opened anyway.
        for link in _links_of_names(folder, pattern, but, work):
            if is_reached(link):
                add_file(deciding, link, _PROGRAMS, holds_keys=holds_keys)

    for home in (Path(real_path(each)) for each in home_folders(environ) if is_reached(each)):
        add(home, ".*", but=_OF_PROJECTS)
        for each in _FOLDERS_OF_PROGRAMS:
            add_unasked(deciding, home / each)
        for each in _FILES_OF_PROGRAMS:
            add_unasked(deciding, home / each, is_file=True)
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
    for each in entries_of(folder):
        name = folded(each.name)
        if not fits(name) or name in but or holds_any(Path(each.path), work):
            continue
        found = (each, *entries_of(each))
        yield from (
            link for entry in found if entry.is_symlink() and not holds_any(link := Path(entry.path), work)
        )


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


def _add_homes(
    deciding: Deciding, checked: Checked, named: Sequence[NamedFile], work: Sequence[Path]
) -> None:
    """The folders of an agent's Homes, and its project's skills.

    Args:
        work: where this agent and those beside it work.
    """
    roots = [each.file for each in named if each.role == "root"]
    skills = {base / each for base in (*work_folders(checked), *roots) for each in PROJECT_FOLDERS}
    # Also the workspaces of other sessions and users: an agent of the same service may work in the folder of all.
    for root in _shared_workspaces(checked, named):
        for at in dict.fromkeys((str(root.absolute()), real_path(root))):
            for each in PROJECT_FOLDERS:
                above, _, name = each.partition("/")
                deciding.add_in_each(at, (above, name), DECIDES)
    # Its prompts and skills need no permission, and Zeus makes files in it while commands run.
    add_unasked(deciding, checked.directory / STATE)
    homes = [each.file for each in named if each.role == "home"]
    searched = (
        checked.directory / ".zeus",
        *checked.homes,
        *checked.document.homes,
        *(home for _, home in checked.registry.homes),  # their presets are found without being listed
        *homes,
        *homes_of_user(checked.environ),
    )
    folders = {home / each for home in searched for each in HOME_FOLDERS}
    bundled = bundled_home()
    for folder in sorted(skills | folders):
        if folder.parent == bundled:  # an installed folder, whose links are the distribution's
            add_file(deciding, folder)
        else:
            add_folder(deciding, folder, (*work, *roots) if folder.name == "skills" else ())


def _add_linked_keys(deciding: Deciding, checked: Checked, work: Sequence[Path]) -> None:
    """The targets of links that are named like files of keys (``.env.local``), in the folders of work and config."""
    path = checked.document.path
    for folder in dict.fromkeys(
        (*work_folders(checked), *(() if path is None else (path.absolute().parent,)))
    ):
        for link in _links_of_keys(folder):
            if not holds_any(link, work):
                add_file(deciding, link, holds_keys=True)


def _links_of_keys(folder: Path) -> Iterator[Path]:
    """The links in a folder that are named like files of keys, however many files a tool has made beside them."""
    yield from (
        Path(each.path) for each in entries_of(folder) if each.is_symlink() and is_key_name(each.name)
    )


def _add_environment(deciding: Deciding, checked: Checked) -> None:
    """The files of the project that variables of Zeus's process name: Zeus's libraries read settings and keys there.

    A relative path, and a file that is not there, count if the variable's name says secret: an agent may edit
    ``FLASK_APP=app.py``, and ``XDG_STATE_HOME`` is a folder that Zeus makes. A folder counts if the name is one of a
    program: an agent may write to ``DATA_DIR=$PWD/data``.
    """
    project = project_of(checked.document, checked.config, checked.trust)
    work = (*work_folders(checked), *deciding.folders)
    for name, value in checked.process_environ.items():
        for place in _places_of_program(name, value):
            is_own = any(project.has(Path(each)) for each in spellings(place))
            if is_own and not holds_any(place, work):
                add_file(deciding, place, f"the variable {name} names it for Zeus")
                add_linked_code(deciding, place, work)
        named = {file: True for _, file in key_files(name, value)}
        if value.startswith(("/", "~")):
            named.setdefault(value, False)
        for text, is_secret in named.items():
            file = _file_at(text, is_absent=is_secret)
            if file is not None and any(project.has(Path(each)) for each in spellings(file)):
                add_file(deciding, file, f"the variable {name} names it for Zeus", holds_keys=is_secret)


def _add_git(deciding: Deciding, checked: Checked) -> None:
    """The files of the project that settings of its Git repositories name."""
    in_work = [file for look in files_of_work([checked]) for file in look.named_by_git]
    found = (*checked.secret_files.named_by_git, *in_work)
    if not found:
        return
    project = project_of(checked.document, checked.config, checked.trust)
    for each in found:
        file, setting = each
        if not is_folder(file) and any(project.has(Path(spelling)) for spelling in spellings(file)):
            # As of `.git/config`: Git executes what further settings say, and their secrets are masked.
            add_file(deciding, file, f"`{setting}` names it for git", holds_keys=not each.has_settings)
            if each.has_settings:
                add_unasked(deciding, file, is_file=True)


def _places_of_program(name: str, value: str) -> Iterator[Path]:
    """The files and folders, there or not, that a variable of a program names (``SSL_CERT_DIR=./certs:/etc/certs``).

    A bare word is none: it may be the name of an account (``AWS_PROFILE=staging``).
    """
    if name.startswith(_VARIABLES_OF_PROGRAMS) and name not in LIBRARY_PATHS:
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
