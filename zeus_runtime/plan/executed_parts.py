"""The parts of a config that need permission: code it executes, places it sends data to, files that it opens."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.config.mcp import Connectors, browser_server
from zeus_runtime.config.model import ProjectInstructions
from zeus_runtime.config.sqlite_url import database_file
from zeus_runtime.disk_paths import expanded, is_in, real_path, shown_below
from zeus_runtime.errors import MissingError, ZeusError
from zeus_runtime.plan.destinations import destination_at, destinations, header_keys, is_free, keys_beside
from zeus_runtime.plan.part_sources import (
    FileSource,
    PartSource,
    inner_folders,
    mask_of,
    own_homes,
    with_owner,
)
from zeus_runtime.registry.home import bundled_home

if TYPE_CHECKING:
    from zeus_runtime.config import Config, Document
    from zeus_runtime.config.mcp import McpServer
    from zeus_runtime.config.messages.diagnostics import Diagnostic
    from zeus_runtime.config.yaml.tree import Path as ConfigPath
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.plan.workspace import LiftingRule
    from zeus_runtime.tools.access import Deciding
    from zeus_runtime.trust.databases import DatabaseUse
    from zeus_runtime.trust.decision import Trust
    from zeus_runtime.trust.parts import Command, Part, Project, Remote


_OPTIONS: Final = frozenset({"value", "name", "asked"})
"""The marks of options that ask by themselves, as ``Marked.executes`` has them."""


def executing(ground: PartSource, protected: Callable[[], Deciding]) -> tuple[Part, ...]:
    """Every part of one config that needs permission, without those of its sub-agents.

    Args:
        protected: gives the files that decide about the agent; called only if the config names a text for the model.

    Most configs have none, so the module that makes parts is imported only when one is found.

    A feature that runs hooks or commands belongs here: yield a part for it, and check the permission where it starts.
    """
    protected = cache(protected)
    return (
        *_plugin_files(ground),
        *_options(ground),
        *named_parts(ground, protected),
        *_project_files(ground, protected),
        *_home_files(ground, protected),
        *_databases(ground),
        *_used_files(ground),
        *_servers(ground),
        *_commands(ground),
        *_folders(ground),
    )


def named_parts(ground: FileSource, protected: Callable[[], Deciding] | None = None) -> Iterator[Part]:
    """The parts of all that a YAML file names by keys that its schema marks, whichever keys these are.

    Args:
        protected: gives the files that decide about the agent; None for a YAML file that is no config.
    """
    yield from destinations(ground)
    yield from _layers(ground)
    yield from _files(ground, protected)
    yield from _secrets(ground)


def elsewhere_part(ground: FileSource, path: ConfigPath, named: Path, verb: str) -> Iterator[Part]:
    """The part of a file or folder that Zeus opens for itself; none for one in the project.

    Args:
        verb: ``reads`` or ``writes``.
    """
    # A link may lead out of the project, so only the real path is judged.
    file = Path(real_path(named))
    if not any(file.is_relative_to(each) for each in inner_folders(ground)):
        yield _file_part(ground, path, file, verb)


def foreign_database(
    named: Path, trust: Trust, use: DatabaseUse = "agents", *, directory: Path, where: str = ""
) -> Iterator[Part]:
    """The part of a SQLite database that this user's Zeus did not make; none for its own, or for one that is not there.

    Call it before any database is opened: SQLite completes it from the files beside it, which may name other files.

    Args:
        where: the position of its name in a YAML file.
    """
    from zeus_runtime.trust.databases import database_part, give, is_made

    file = named.resolve()
    if not is_made(trust.records, file):
        part = database_part(file, shown_below(file, directory), use, where=where)
        if trust.allows_by_digest(part):
            give(part, trust.file)
        yield part


def lifting(ground: PartSource, lifts: Iterable[LiftingRule]) -> Iterator[Part]:
    """The rules that lift the protection of files, such as ``.git/config``, whose next reader may execute them."""
    for rule, reasons, file in lifts:
        from zeus_runtime.trust.parts import rule_part

        path = ("workspace", "access", rule.written)
        target = None if file is None else shown_below(file, ground.document.directory)
        where = str(ground.document.position(path, "key"))
        part = rule_part(
            ground.document.address(path), rule.pattern, rule.right, target, reasons, where=where
        )
        yield with_owner(ground, part)


def project_of(document: Document, config: Config, trust: Trust) -> Project:
    """The folders that may contain a config's programs."""
    from zeus_runtime.trust.parts import Project

    directory = document.directory
    workspace = config.workspace
    places = [".", workspace.root, *workspace.routes.values(), *map(str, document.folders.values())]
    # A sub-agent may write what this agent's server executes, and the other way round.
    folders = tuple(dict.fromkeys([*(directory / each for each in places), *trust.work]))
    return Project(directory, folders, document.environ.get("PATH", ""), _place_of(document, trust))


def folders_named(directory: Path, words: Sequence[str], cwd: str) -> Sequence[str]:
    """The folders that the words of a command name, wherever they are.

    Args:
        cwd: its working directory; relative to ``directory``.
    """
    # Few commands name a file with keys, so the others load nothing.
    from zeus_runtime.trust.command_files import folders_named as named
    from zeus_runtime.trust.parts import Project

    place = directory / expanded(cwd)
    return named(words, Project(place, (place,)))


def _place_of(document: Document, trust: Trust) -> str:
    """What a permission says about the working directory, where programs find files by themselves.

    Nothing for a config in it, so that its digests hold wherever the project lies. For a config in a folder below, this
    folder: run from there, the config has another working directory. For any other config, the working directory.
    """
    if document.path is None:
        return ""
    directory, folder = document.directory.resolve(), Path(trust.file).parent
    if trust.is_own(Path(trust.file)) or not folder.is_relative_to(directory):
        return str(directory)
    return "" if folder == directory else folder.relative_to(directory).as_posix()


def used_server(name: str, server: McpServer) -> Command | Remote | None:
    """A server as a command or an address; None for one that is disabled."""
    from zeus_runtime.trust.parts import Command, Remote

    if server.disabled:
        return None
    if server.command is not None:
        words = (server.command, *server.args)
        return Command(name, words, dict(server.env), server.cwd or ".", server.data, sent=server.sent)
    return None if server.address is None else Remote(name, server.address, dict(server.headers), server.sent)


def permit(checked: Checked, server: Command | Remote) -> None:
    """Raise unless a process may be started, or an address called, as it is at this moment.

    Raises:
        UntrustedError: the user did not allow it, or it has changed since.
    """
    # The user allowed what the config itself says, not the folders of an agent that works apart.
    config = checked.config if checked.apart is None else checked.document.config()
    found = (
        _server_part(each, checked.document, config, checked.trust)
        for each in _placed(server, checked.document)
    )
    # The user's own parts need no permission, as long as they are as they were checked.
    own = {each.digest for each in checked.parts if each.own}
    checked.trust.require([part for part in found if part is not None and part.digest not in own])


def _placed(server: Command | Remote, document: Document) -> Iterable[Command | Remote]:
    """A process; a command of a hook once for each place of the config that has its words, since its digest has it."""
    from dataclasses import replace

    from zeus_runtime.trust.parts import Command

    if not isinstance(server, Command):
        return [server]
    same = (
        each.path for each in document.marked if "command" in each.executes and each.words == server.words
    )
    return [replace(server, name=document.address(path)) for path in same] or [server]


def _plugin_files(ground: PartSource) -> Iterator[Part]:
    names = [Path(name).name for name in ground.config.plugins.files]
    for part in ground.registry.executes:
        from dataclasses import replace

        position = ground.document.position(("plugins", "files", names.index(part.name)))
        yield replace(part, where=str(position))


def _servers(ground: PartSource) -> Iterator[Part]:
    document = ground.document
    for name, server in ground.config.mcp_servers.items():
        yield from _server(ground, name, server, ("mcpServers", name))
    connectors = ground.config.connectors
    if connectors != Connectors() and connectors.browser is not None and connectors.browser.server is None:
        yield from _server(ground, "browser", browser_server(), ("connectors", "browser"))
    for path, servers in server_files(document):
        if not isinstance(servers, Exception):  # the component that reads the file reports the problem
            for name, server in servers.items():
                yield from _server(ground, name, server, path)
                yield from _other_keys(ground, name, server, path)


def server_files(document: Document) -> Iterator[tuple[ConfigPath, Mapping[str, McpServer] | Exception]]:
    """The servers of each file of MCP servers that a config names, or why it cannot be read."""
    for each in document.marked:
        if "servers" in each.executes:
            from zeus_runtime.config.layers.mcp_files import servers_in_file

            try:
                yield each.path, servers_in_file(Path(each.text), document.environ)
            except (ZeusError, ValueError) as error:
                yield each.path, error


def unread_servers(document: Document) -> Iterator[Diagnostic]:
    """A problem for each file of MCP servers that cannot be read, so that its servers are not among the parts."""
    for path, error in server_files(document):
        if isinstance(error, Exception):
            message = error.message if isinstance(error, ZeusError) else str(error)
            yield document.diagnostic(path, "options", message, hint=getattr(error, "remedy", None))


def _commands(ground: PartSource) -> Iterator[Part]:
    from zeus_runtime.trust.parts import Command

    for each in ground.document.marked:
        if "command" in each.executes:
            used = Command(ground.document.address(each.path), each.words, kind="command")
            yield from _process(ground, used, each.path)


def _server(ground: PartSource, name: str, server: McpServer, path: ConfigPath) -> Iterator[Part]:
    used = used_server(name, server)
    if used is not None:
        yield from _process(ground, used, path)


def _other_keys(ground: PartSource, name: str, server: McpServer, path: ConfigPath) -> Iterator[Part]:
    """The keys of a server in a file that hold a secret and are not in its digest."""
    from zeus_runtime.plan.carried_secrets import other_secrets

    document = ground.document
    for key, value, names in other_secrets(server, ground.trust):
        from zeus_runtime.trust.parts import secret_part

        address = f"{document.address(path)}: mcpServers.{name}.{key}"
        shown, where = str(document.redactor.json(value)), str(document.position(path))
        yield with_owner(ground, secret_part(address, value, shown, names, where=where))


def _process(ground: PartSource, used: Command | Remote, path: ConfigPath) -> Iterator[Part]:
    part = _server_part(used, ground.document, ground.config, ground.trust, path)
    if part is not None:
        # In the project, it is never the user's own part: programs may load code from the folder that they start in.
        yield part if _runs_in_project(ground, used) else with_owner(ground, part)


def _runs_in_project(ground: PartSource, server: Command | Remote) -> bool:
    """Whether a process runs in a folder of the project, where programs such as ``npx`` look for code."""
    from zeus_runtime.trust.parts import Command

    if not isinstance(server, Command):
        return False
    cwd = (ground.document.directory / server.cwd).resolve()
    project = project_of(ground.document, ground.config, ground.trust)
    # A Home may lie inside the project, and only its owner writes there.
    return project.has(cwd) and not any(cwd.is_relative_to(home) for home in own_homes(ground))


def _server_part(
    server: Command | Remote, document: Document, config: Config, trust: Trust, path: ConfigPath | None = None
) -> Part | None:
    """The part of a server; None for an address that needs no permission."""
    from zeus_runtime.plan.carried_secrets import gets_secret
    from zeus_runtime.trust.parts import Command, command_part, remote_part

    mask = mask_of(document, trust)
    where = "" if path is None else str(document.position(path, "key"))
    if isinstance(server, Command):
        return command_part(server, project_of(document, config, trust), mask=mask, where=where)
    # Through an account, a server works with what is the user's own elsewhere, wherever it is.
    gets_more = "account" in server.sent or gets_secret(server, trust)
    if is_free(server.address, document, trust) and not gets_more:
        return None
    return remote_part(server, mask=mask, where=where)


def _secrets(ground: FileSource) -> Iterator[Part]:
    """The options with a secret of the environment that nothing else asks about.

    An option whose type declares a secret asks for nothing itself; the destination beside it covers its value.
    """
    if not ground.carried:
        return
    from zeus_runtime.trust.parts import secret_part

    document, covered = ground.document, set(_covered(ground))
    for each in ground.carried:
        path = each.path
        if each.is_declared or any(path[:length] in covered for length in range(len(path) + 1)):
            continue
        address, where = document.address(path), str(document.position(path))
        yield with_owner(ground, secret_part(address, each.value, each.shown, each.names, where=where))


def _covered(ground: FileSource) -> Iterator[ConfigPath]:
    """The places that the digests of other parts cover, and addresses that need no permission."""
    from zeus_runtime.plan.carried_secrets import ADDRESSES, IN_DIGEST

    for each in ground.document.marked:
        if not each.executes.isdisjoint({*_OPTIONS, "command"}):
            yield each.path
        part = next(destination_at(ground, each), None)
        # A text that is an address only by its signs goes to another place, where it needs no permission.
        if part is not None or any(not signs for signs in each.signs):
            yield each.path
        if part is not None:
            yield from ((*each.path[:-1], key) for key in header_keys(ground.document, each.path))
    if isinstance(ground, PartSource):
        for name, server in ground.config.mcp_servers.items():
            used = used_server(name, server)
            if used is None:
                yield ("mcpServers", name)
                continue
            part = _server_part(used, ground.document, ground.config, ground.trust)
            keys = ADDRESSES if part is None else IN_DIGEST
            yield from (("mcpServers", name, key) for key in keys)


def _options(ground: PartSource) -> Iterator[Part]:
    for each in ground.document.marked:
        if each.executes.isdisjoint(_OPTIONS):
            continue
        from zeus_runtime.trust.parts import option_part

        document, path = ground.document, each.path
        project = None
        if "value" in each.executes:
            project = project_of(document, ground.config, ground.trust)
        part = option_part(
            document.address(path),
            each.text,
            project,
            target=_linked_to(document, each.text) if each.is_folder or each.is_shown else "",
            keys=keys_beside(ground, path),
            approvals=tuple(_approvals(ground)) if "asked" in each.executes else (),
            mask=mask_of(document, ground.trust),
            where=str(document.position(path)),
        )
        yield with_owner(ground, part)


def _approvals(ground: PartSource) -> Iterator[str]:
    """What decides which calls a person is asked about: `approvals`, and the middlewares that ask, with their options.

    Those of plugin files do not count: whether such a file is allowed yet must not change the digest.
    """
    import json

    from zeus_runtime.registry import load_options

    asking: list[str] = []
    for each in ground.config.middlewares:
        with suppress(MissingError):
            found = ground.registry.get("middleware", each.name)
            if found.plugin.distribution is not None and hasattr(load_options(found), "asks_user"):
                asking.append(json.dumps({each.name: each.options}, sort_keys=True, default=str))
    if ground.config.approvals is not None:
        yield ground.config.approvals
    yield from asking or ["nobody is asked"]


def _linked_to(document: Document, folder: str) -> str:
    """Where a folder is if a link leads elsewhere from it, or on the way to it; else an empty text."""
    base = Path(real_path(document.directory))
    named = str(base / folder)
    real = real_path(named)
    return "" if real == os.path.normpath(named) else shown_below(Path(real), base)


def _layers(ground: FileSource) -> Iterator[Part]:
    """The files elsewhere that the config itself was read from: a base config, an overlay behind a link, ``.env``."""
    document = ground.document
    for name, file in document.files.items():
        if _is_elsewhere(ground, file.resolve()) and not _is_named_in_own_home(ground, file):
            from zeus_runtime.trust.parts import file_part

            # The question is about the main file anyway; any other file needs the name of the config that chose it.
            where = "" if name == document.source else document.source
            part = file_part(name, file.resolve(), document.directory, where=where)
            yield with_owner(ground, part)


def _files(ground: FileSource, protected: Callable[[], Deciding] | None) -> Iterator[Part]:
    """The files elsewhere that a config reads, such as a prompt, and those that no tool may read.

    Plugin files are found by ``_plugin_files``, and those in Homes by ``_home_files``.
    """
    for each in ground.document.marked:
        if not each.is_file or each.path[:2] == ("plugins", "files"):
            continue
        named = Path(each.text)
        # A sub-agent's config is closed where it has a secret, and no model reads it.
        known = None if each.path[:1] == ("agents",) and each.path[-1] == "config" else protected
        below = () if each.path[:1] == ("homes",) else files_in(named)
        if below is None:
            # Any of its links may lead elsewhere.
            yield _file_part(ground, each.path, named.resolve(), "reads")
            continue
        asked: set[Path] = set()
        for opened in (named, *below):
            # A file that is not there yet may be, when it is read; a link to itself leads nowhere.
            file = Path(real_path(opened))
            # The key of an SSH sandbox, for one, is read as such and not sent.
            is_asked = _is_unread(ground, file) or (
                not each.is_closed and _is_unreadable(ground, known, opened, file)
            )
            # Permission for a folder is for all that is in it.
            if is_asked and asked.isdisjoint((file, *file.parents)):
                asked.add(file)
                yield _file_part(ground, each.path, file, "reads")


def _project_files(ground: PartSource, protected: Callable[[], Deciding]) -> Iterator[Part]:
    """The files above the workspace that the config's own names make instructions, and not those of the usual names.

    In the workspace itself the rules of its tools decide which file is read.
    """
    setting, usual = ground.config.project_instructions, ProjectInstructions().files
    if isinstance(setting, bool) or set(setting.files) <= set(usual):
        return
    from zeus_runtime.prompt.project import folders_above

    root = (ground.document.directory / ground.config.workspace.root).resolve()
    for index, name in enumerate(setting.files):
        named = [] if name in usual else [folder / name for folder in folders_above(root)]
        for each in filter(os.path.lexists, named):
            file = Path(real_path(each))
            if _is_unread(ground, file) or _is_unreadable(ground, protected, each, file):
                yield _file_part(ground, ("project_instructions", "files", index), file, "reads")


def files_in(named: Path) -> Iterable[Path] | None:
    """The files that a component can open in a folder that the config names, links followed.

    None if they are too many to look at: then the permission is for the whole folder.
    """
    if not os.path.isdir(named):  # noqa: PTH112 - False also for a name that is too long
        return ()
    from zeus_runtime.trust.file_content import TooLargeError, files_below

    try:
        return list(files_below(named))
    except (TooLargeError, OSError):
        return None


def _home_files(ground: PartSource, protected: Callable[[], Deciding]) -> Iterator[Part]:
    """The files elsewhere that links in a project's or a config's Home make prompts, skills and profiles of the agent.

    All that is in ``prompts/`` counts: components also read files there, such as the one of ``summarization.prompt``.
    """
    from zeus_runtime.skills.discovery import skill_files, skill_roots

    document, config = ground.document, ground.config
    directory = document.directory
    # The links of the bundled one are the distribution's.
    homes = [each for each in ground.homes if each != bundled_home() and not _is_own_home(ground, each)]
    files = [file for home in homes for file in sorted((home / "prompts").glob("*"))]
    files += [home / "configs" / "profiles.yaml" for home in homes]
    roots = skill_roots(directory=directory, workspace=directory / config.workspace.root, homes=homes)
    # Skills of the project itself are read only where a middleware is told to trust them.
    trusts = any(each.options.get("trust_project") is True for each in config.middlewares)
    files += skill_files([root for root in roots if trusts or not root.project])
    found = {file: file.resolve() for file in files if file.exists()}
    for named, file in found.items():
        is_named = any(file.is_relative_to(home) for home in _named_homes(ground))
        if (_is_unread(ground, file) and not is_named) or _is_unreadable(ground, protected, named, file):
            from zeus_runtime.trust.parts import file_part

            shown = shown_below(named, directory)
            yield with_owner(ground, file_part(shown, file, directory, where=shown))


def _is_own_home(ground: PartSource, home: Path) -> bool:
    real = str(home.resolve())
    return any(is_in(real, str(each)) for each in own_homes(ground))


def _named_homes(ground: PartSource) -> list[Path]:
    """The Homes that the config names, which are parts themselves."""
    marked = ground.document.marked
    return [Path(each.text).resolve() for each in marked if each.is_file and each.path[0] == "homes"]


def _is_unread(ground: FileSource, file: Path) -> bool:
    """Whether no config may have a file read without permission.

    Of the user's own Home a project may use prompts and skills: it also has keys of accounts.
    """
    if _is_for_all(ground, file):
        return False
    # The working directory may be the whole home folder, with the user's own Home in it.
    holders = [each for each in ground.trust.homes if file.is_relative_to(each)]
    return not any(
        file.is_relative_to(each) and all(each.is_relative_to(home) for home in holders)
        for each in inner_folders(ground)
    )


def _is_for_all(ground: FileSource, file: Path) -> bool:
    """Whether each config may have a file read: a prompt or skill of the user's own Home, or an installed file."""
    own = (home / each for home in ground.trust.homes for each in ("prompts", "skills"))
    return any(is_in(str(file), str(each)) for each in (*own, *ground.trust.bundled, *ground.installed))


def _is_unreadable(
    ground: FileSource, protected: Callable[[], Deciding] | None, named: Path, file: Path
) -> bool:
    """Whether no tool may read a text for the model, by its path (``.env.local``) or by where a link leads.

    Args:
        protected: the files that decide about the agent; None for names alone.
        file: the real path.
    """
    if _is_for_all(ground, file):
        return False
    from zeus_runtime.tools.access import Deciding, Floor, Name, Reached

    deciding = Deciding() if protected is None else protected()
    floor = Floor(deciding)
    for path in dict.fromkeys((named, file)):
        below = [path.relative_to(each).parts for each in inner_folders(ground) if path.is_relative_to(each)]
        names = (Name(min(below, key=len)),) if below else ()
        if deciding.may_hold_keys(str(path)) or floor.ruling(Reached(names, str(path)), "read", None):
            return True
    return False


def _databases(ground: PartSource) -> Iterator[Part]:
    """The databases that this user's Zeus did not make."""
    document = ground.document
    for path, named in _database_files(ground):
        yield from foreign_database(
            named, ground.trust, directory=document.directory, where=str(document.position(path))
        )


def _used_files(ground: PartSource) -> Iterator[Part]:
    """The files elsewhere that Zeus opens for itself, such as a database, also if it would create them.

    The user's own Home is elsewhere too: a file that is created there could become a plugin.
    """
    document = ground.document
    used = [
        (each.path, document.directory / each.text, "reads" if each.kept_from == {"read"} else "writes")
        for each in document.marked
        if each.kept_from
    ]
    database = database_file(ground.config.storage.url, document.directory)
    if database is not None:
        used.append((("storage", "url"), database, "writes"))
    for path, named, verb in used:
        yield from elsewhere_part(ground, path, named, verb)


def _database_files(ground: PartSource) -> Iterator[tuple[ConfigPath, Path]]:
    """The SQLite databases that a config names, and those of its vector stores.

    Vector stores are in folders next to the database, whose names begin with the database's name, and in folders of
    ``.zeus``.
    """
    from zeus_runtime.trust.databases import is_database

    document = ground.document
    places = [(each.path, document.directory / each.text) for each in document.marked if each.kept_from]
    places += [(("storage", "url"), each) for each in (document.directory / ".zeus").glob("*/")]
    file = database_file(ground.config.storage.url, document.directory)
    if file is not None:
        yield ("storage", "url"), file
        places += [(("storage", "url"), each) for each in file.parent.glob(f"{escape(file.name)}-*/")]
    # A dict, because several keys may lead to one place: it is asked for once.
    for place, path in {place: path for path, place in places}.items():
        inside = place.glob("*.sqlite3") if place.is_dir() else [place]
        yield from ((path, each) for each in inside if is_database(each))


def _file_part(ground: FileSource, path: ConfigPath, file: Path, verb: str) -> Part:
    from zeus_runtime.trust.parts import file_part

    document = ground.document
    where = str(document.position(path))
    part = file_part(document.address(path), file, document.directory, verb=verb, where=where)
    return with_owner(ground, part)


def _is_elsewhere(ground: FileSource, file: Path) -> bool:
    """Whether a real path is outside the working directory, the outermost config's folder and the user's own Homes.

    The folders of other layers do not count as inside, because a config chooses what it extends.
    """
    return not any(file.is_relative_to(each) for each in (*inner_folders(ground), *own_homes(ground)))


def _is_named_in_own_home(ground: FileSource, file: Path) -> bool:
    """Whether a path leads through one of the user's own Homes, whose links the user made."""
    # With a `..` in it, the path may leave the Home again.
    return ".." not in file.parts and any(each.resolve() in own_homes(ground) for each in file.parents)


def _folders(ground: PartSource) -> Iterator[Part]:
    """The folders of the workspace outside the working directory and the outermost config's folder.

    Also those inside whose path has a protected name, such as ``.envs``: the workspace's own paths do not show it.
    """
    document, workspace = ground.document, ground.config.workspace
    routes = ((("workspace", "routes", prefix), target) for prefix, target in workspace.routes.items())
    for path, written in ((("workspace", "root"), workspace.root), *routes):
        folder = (document.directory / written).resolve()
        inside = [
            folder.relative_to(each).parts for each in inner_folders(ground) if folder.is_relative_to(each)
        ]
        # Seen from the nearer of the two folders: the names above it are those of the user's own folders.
        if inside and not _has_protected_name(min(inside, key=len)):
            continue
        from zeus_runtime.trust.parts import folder_part

        where = str(document.position(path))
        part = folder_part(document.address(path), shown_below(folder, document.directory), where=where)
        yield with_owner(ground, part)


def _has_protected_name(parts: Sequence[str]) -> bool:
    if not parts:
        return False
    from zeus_runtime.tools.access import is_floor_name

    return any(map(is_floor_name, parts))
