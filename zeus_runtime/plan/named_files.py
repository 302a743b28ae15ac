"""The files that configs name: of the loaded config, of its values that others replace, and of configs not loaded."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, TypeGuard

from zeus_runtime.config.layers.files import Layers, folder_of, homes_for, overlays
from zeus_runtime.config.layers.loading import filled_in, read_stack
from zeus_runtime.config.layers.merge import ref_places
from zeus_runtime.config.mcp import browser_server
from zeus_runtime.config.messages.diagnostics import ConfigError
from zeus_runtime.config.model import Config
from zeus_runtime.config.schema.marked import Marked, marked_values
from zeus_runtime.config.secrets.key_files import SOURCED
from zeus_runtime.config.secrets.sound_texts import SERVERS, are_sound_servers, is_sound_config
from zeus_runtime.config.secrets.unloaded_configs import (
    agents_layers,
    config_places,
    file_text,
    named_configs,
    presets_in,
    servers_at,
)
from zeus_runtime.config.secrets.written_secrets import (
    addressed_key_files,
    named_key_files,
    only_sets_variables,
)
from zeus_runtime.config.sqlite_url import database_file
from zeus_runtime.config.yaml.tree import Node, find, plain, walk
from zeus_runtime.config.yaml.tree import Path as NodePath
from zeus_runtime.disk_paths import expanded, is_file, is_file_name, place_of, plain_path, real_path
from zeus_runtime.errors import MissingError
from zeus_runtime.plan.agent_documents import as_agent, homes_of
from zeus_runtime.plan.executed_parts import folders_named, project_of
from zeus_runtime.registry import installed_homes
from zeus_runtime.registry.home import environs_of_starts
from zeus_runtime.tools.own_folders import ARCHIVES, OWN_SANDBOXES

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.sound_texts import Searched
    from zeus_runtime.config.secrets.unloaded_configs import UnloadedConfig
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.trust.command_files import Covered
    from zeus_runtime.trust.package_runners import LookedUp
    from zeus_runtime.trust.parts import Command, Project

Role: TypeAlias = Literal[
    "read",
    "written",
    "database",
    "folder",
    "sent",
    "home",
    "root",
    "workspaces",
    "archive",
    "program",
    "absent",
    "settings",
    "installed",
]


class NamedFile(NamedTuple):
    """A file or folder that a config names, there or not.

    Args:
        file: absolute; its links are not resolved. The name of one with one of the last three roles is a glob pattern.
        role: ``read`` by Zeus; ``written`` by Zeus, with files beside it whose names begin with its name; ``database``,
            the same for sessions; ``folder`` in which Zeus changes the files; ``sent`` if a provider's library would
            read keys from it; ``home``; ``root`` of a workspace, which may hold skills; ``workspaces`` for such a root
            in which sessions or users have their own; ``archive`` where Zeus keeps originals, or files of sandboxes;
            ``program`` of a server or an option, or a folder with its files;
            ``absent`` if a program would start it as soon as it is there; ``settings`` of a package runner, and what is
            ``installed`` for one (``LookedUp``).
        holds_keys: whether no tool may read it either.
        route: of an archive, its name in ``ARCHIVES``, or ``OWN_SANDBOXES``.
        is_of_option: whether an option such as ``shell.env`` names it, so that commands look for it in each workspace.
    """

    file: Path
    role: Role
    holds_keys: bool = False
    route: str = ""
    is_of_option: bool = False


_NOTHING: Final = Node({}, ())


class _Value(NamedTuple):
    """The value of an option that is executed."""

    text: str


class _Tree(NamedTuple):
    """A config's tree.

    Args:
        root: with variables filled in.
        folders: the folder of each source, where relative paths start.
        folder: where they start in a source that is not among these.
        homes: of a stack, those in which its agents' configs are looked up.
        environ: of a stack, the variables that its agents' configs get.
        started: of a stack, the variables by which its start finds the Homes.
    """

    root: Node
    folders: Mapping[str, Path]
    folder: Path
    homes: Sequence[Path] = ()
    environ: Mapping[str, str] = MappingProxyType({})
    started: Mapping[str, str] = MappingProxyType({})

    def file(self, node: Node) -> Path:
        return self.folder_of(node) / expanded(node.value)

    def folder_of(self, node: Node) -> Path:
        return folder_of(node, self.folders, self.folder)

    def values_of(self, part: Node | None) -> str:
        """The values in a part of the tree, each with the folder where it starts if it is a path."""
        found = () if part is None else walk(part)
        values = (
            (at, node, len(node.value) if node.is_map or node.is_list else node.value) for at, node in found
        )
        # Two configs that name each other by `../` have ever longer paths.
        return repr([(*at, value, real_path(self.folder_of(node))) for at, node, value in values])


class NamedByTexts(NamedTuple):
    """What texts name.

    Args:
        files: the files.
        texts: the configs and files of MCP servers among them, there or not.
        unsound: those that cannot be parsed or do not fit their schema, so that they may name more; each with what
            counts of it.
    """

    files: Sequence[NamedFile]
    texts: Collection[Path]
    unsound: Mapping[Path, Searched]


def named_files(
    checked: Checked, unloaded: Sequence[UnloadedConfig], given: Sequence[Path] = ()
) -> NamedByTexts:
    """The files that a config names, loaded or replaced, and those of configs that this run did not load.

    The files of the commands in the loaded texts are not among them: they are in ``checked.parts``, with their digests.

    Args:
        unloaded: the configs that the document was not read from.
        given: those of them over which a run may lay an overlay, beside `zeus.yaml`, the main file and presets.
    """
    loaded, *others = _trees(checked, unloaded)
    named = _Named(checked)
    named.know(loaded, checked.document.marked)
    trees = (loaded, *others, *_Stacks(checked, unloaded).trees(given))
    layers = (tree._replace(root=each) for tree in trees for each in agents_layers(tree.root))
    files = dict.fromkeys(chain.from_iterable(map(named.files, layers)))
    schema = checked.document.schema or {}
    unsound = [each.file for each in unloaded if not is_sound_config(each, schema)]
    return NamedByTexts(
        tuple(files),
        named.texts,
        {**dict.fromkeys(unsound, "misfits"), **dict.fromkeys(named.unsound, "text")},
    )


def named_modules(checked: Checked, unloaded: Sequence[UnloadedConfig]) -> Iterator[str]:
    """The modules that the same configs have imported for the form of an answer (``output.schema``)."""
    for tree in _trees(checked, unloaded):
        for layer in agents_layers(tree.root):
            # Also of an agent's entry, which may have a form of its own.
            for each in marked_values(layer, checked.document.schema or {}):
                if "name" in each.executes and each.path[-2:] == ("output", "schema"):
                    module = each.text.partition(":")[0]
                    if all(map(str.isidentifier, module.split("."))):
                        yield module


def _trees(checked: Checked, unloaded: Sequence[UnloadedConfig]) -> Iterator[_Tree]:
    """The loaded tree, then those of values that others replace, and of configs that this run did not load."""
    document = checked.document
    loaded = _Tree(document.root, document.folders, document.directory)
    yield loaded
    yield from (loaded._replace(root=each) for each in (*document.replaced, *document.defaults))
    yield from (_Tree(root, {}, each.file.parent) for each in unloaded for root in each.trees)


class _Start(NamedTuple):
    """A config that a start would read, as its main file or as that of an agent.

    Args:
        source: as ``Layers.locate`` takes it.
        above: the tree of the config that names it; of a main file, the start's Homes and variables.
        env: the name of an overlay.
        folder: where a relative ``source`` starts.
        laid: the ``overrides`` of the agent.
    """

    source: str | Path
    above: _Tree
    env: str | None = None
    folder: Path | None = None
    laid: Node | None = None


class _Stacks:
    """Merges texts as a start would: together they may name a file that none of them names by itself.

    A layer that is missing, not sound or in a circle counts as empty: the person who mends it executes the rest too.
    """

    def __init__(self, checked: Checked, unloaded: Sequence[UnloadedConfig]) -> None:
        self._checked = checked
        self._unloaded = [each.file for each in unloaded]
        self._searched = {*self._unloaded, *checked.document.files.values()}
        self._refs = ref_places(Config)
        self._read: set[tuple[object, ...]] = set()

    def trees(self, given: Sequence[Path]) -> Iterator[_Tree]:
        """Each config over what it extends, alone and with each of its overlays; and its agents' configs with what it
        lays over them."""
        checked = self._checked
        # All that `zeus run` takes as its main file, also a preset that the loaded config extends.
        mains = [each.file for each in config_places(checked.document, given)]
        mains += chain.from_iterable(map(presets_in, checked.private_homes))
        # A program may give its agent an environment of its own; the next run has the variables of the process. Each
        # start has Homes in an order of its own, so one of a name that two of them have is not the other's.
        known = {**checked.process_environ, **checked.given_environ}
        starts = [
            _Tree(
                _NOTHING,
                {},
                checked.directory,
                homes_of(checked, _NOTHING, {}, each),
                {**known, **each},
                each,
            )
            for each in environs_of_starts(checked.given_environ)
        ]
        files = [(main, env) for main in mains for env in (None, *overlays(main))]
        waiting = [_Start(main, start, env) for start in starts for main, env in files]
        # Also those to which only a value leads that a stronger layer or a variable replaces.
        start = starts[0]._replace(homes=checked.homes, environ=checked.environ)
        waiting[:0] = [_Start(file, start) for file in self._unloaded if file not in mains]
        while waiting:
            for tree, is_new in self._stack(waiting.pop()):
                yield from (tree,) if is_new else ()
                yield from self._of_agents(tree, waiting)

    def _stack(self, start: _Start) -> Iterator[tuple[_Tree, bool]]:
        """The trees of a config as a start would read it, and whether they are not searched otherwise."""
        checked, homes, environ = self._checked, start.above.homes, start.above.environ
        if start.folder is not None:
            homes = homes_for(start.folder, checked.directory, homes)
        plugin_homes = partial(installed_homes, environ=checked.given_environ)
        layers = Layers(checked.directory, homes, self._refs, plugin_homes, tolerates=True)
        try:
            file = layers.locate(start.source, start.folder)
        except ConfigError:
            return
        # Once: configs may run each other.
        given = map(start.above.values_of, (start.laid, find(start.above.root, ("workspace",))))
        key = (place_of(file), start.env, *given, *map(real_path, homes), frozenset(environ.items()))
        if key in self._read:
            return
        self._read.add(key)
        root, dotenv = read_stack(layers, file, start.env)
        environ = {**dict(dotenv), **environ}
        # One text is searched by itself, with the variables of this run.
        is_one = len(layers.read) < 2 and environ == checked.environ and file in self._searched
        for each in filled_in(root, environ):
            tree = start.above._replace(
                root=each, folders=layers.folders, folder=file.parent, environ=environ
            )
            tree = _as_agent(tree, start.above, start.laid)
            homes = homes_of(checked, tree.root, tree.folders, tree.started)
            yield tree._replace(homes=homes), not is_one or tree.root is not each

    def _of_agents(self, tree: _Tree, waiting: list[_Start]) -> Iterator[_Tree]:
        """The trees of agents that share a config; those with a config of their own are added to ``waiting``."""
        agents = find(tree.root, ("agents",))
        for agent in agents.value.values() if agents is not None and agents.is_map else ():
            overrides, config = find(agent, ("overrides",)), find(agent, ("config",))
            laid = overrides if overrides is not None and overrides.is_map else None
            if config is not None and is_file_name(config.value):
                waiting.append(_Start(config.value, tree, folder=tree.folder_of(config), laid=laid))
            elif laid is not None:
                yield _as_agent(tree, tree, laid, shared=True)


def _as_agent(tree: _Tree, above: _Tree, laid: Node | None, *, shared: bool = False) -> _Tree:
    """An agent's tree with what the config above lays over it."""
    root = as_agent(tree.root, above.root, laid, shared=shared)
    return tree if root is tree.root else tree._replace(root=root, folders={**above.folders, **tree.folders})


class _Named:
    """Finds the files of each tree; a command that several trees have in the same folders is looked at once."""

    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._directory = checked.directory
        self._schema = checked.document.schema or {}
        self._own = project_of(checked.document, checked.config, checked.trust)
        self._known: list[tuple[Command | _Value, Sequence[Path]]] = []
        self._servers_at: dict[Path, UnloadedConfig] = {}
        self._configs: dict[Path, None] = {}

    @property
    def unsound(self) -> Iterator[Path]:
        """The files of MCP servers that are there and not sound."""
        found = self._servers_at.items()
        return (file for file, each in found if is_file(file) and not are_sound_servers(each, self._schema))

    @property
    def texts(self) -> Collection[Path]:
        """The configs and the files of MCP servers that the trees name."""
        return {**self._configs, **self._servers_at}

    def know(self, tree: _Tree, marked: Sequence[Marked]) -> None:
        """Leave out the commands of a tree from now on."""
        folders = self._project(tree).folders
        # Those of its files may have changed since, if the present texts are asked for.
        started = self._commands(tree, marked, files=bool(self._checked.document.files), disabled=False)
        self._known += ((each, folders) for each in started)

    def files(self, tree: _Tree) -> Iterator[NamedFile]:
        """The files that one tree names."""
        for file in named_configs(tree.root, tree.folders, tree.folder):
            self._configs[file] = None
            yield NamedFile(file, "read")
        for path in (("storage", "url"), ("workspace", "root")):
            node = find(tree.root, path)
            if node is not None and is_file_name(node.value):
                yield from self._placed(path[0], node.value)
        per, root = (find(tree.root, ("workspace", key)) for key in ("per", "root"))
        if per is not None and per.value is not None:
            named = root.value if root is not None and is_file_name(root.value) else "."
            yield NamedFile(self._directory / expanded(named), "workspaces")
        # A library reads such a file at each connection, as of `?passfile=` in `storage.url`.
        for _, text in addressed_key_files(tree.root):
            yield from self._sent(text)
        yield from self._archives(tree)
        marked = [each for each in marked_values(tree.root, self._schema) if is_file_name(each.text)]
        for value in marked:
            yield from self._marked(tree, value)
        # A value that commands get, as of `shell.env`, may name a file for them: its secrets are masked.
        given = {each.path for each in marked if "value" in each.executes}
        yield from self._of_keys(tree, given)
        for value in (each for each in marked if each.holds_secrets):
            for root in self._servers_in(tree.file(value.node)).trees:
                yield from self._of_keys(tree._replace(root=root), set())
        if commands := [*self._commands(tree, marked)]:
            project = self._project(tree)
            for command in commands:
                if (command, project.folders) not in self._known:
                    self._known.append((command, project.folders))
                    yield from _of_command(command, project)

    def _placed(self, key: str, text: str) -> Iterator[NamedFile]:
        if key == "workspace":
            yield NamedFile(self._directory / expanded(text), "root")
            return
        try:
            file = database_file(text, self._directory)
        except MissingError:  # a run with this value ends with the error
            return
        if file is not None:
            yield NamedFile(file, "database", holds_keys=True)

    def _archives(self, tree: _Tree) -> Iterator[NamedFile]:
        routes = find(tree.root, ("workspace", "routes"))
        for prefix, node in routes.value.items() if routes is not None and routes.is_map else ():
            name = prefix.strip("/") if isinstance(prefix, str) else ""
            if name in ARCHIVES and is_file_name(node.value):
                yield NamedFile(self._directory / expanded(node.value), "archive", route=name)

    def _marked(self, tree: _Tree, value: Marked) -> Iterator[NamedFile]:
        if value.is_file:
            role: Role = "home" if value.path[:1] == ("homes",) else "read"
            yield NamedFile(tree.file(value.node), role, value.is_closed)
        if value.kept_from:
            yield NamedFile(self._directory / value.text, "written", value.is_closed)
        if value.is_folder and not value.kept_from:
            yield NamedFile(self._directory / value.text, "folder")
            if value.is_of_sessions:
                yield NamedFile(self._directory / value.text, "archive", route=OWN_SANDBOXES)
        # A provider's library reads keys from such a file, as `vertex_credentials` names one, and addresses from one
        # that a tool has written since the config was checked.
        if value.may_name_file and "://" not in value.text:
            yield from self._sent(value.text)

    def _of_keys(self, tree: _Tree, given: Container[NodePath]) -> Iterator[NamedFile]:
        """The files of the project that the names of variables, options and flags say to hold secrets, as
        ``key_files`` has it of the process's variables.

        Args:
            given: the places of values that do not count.
        """
        for name, text, path, is_path in named_key_files(tree.root, partial(folders_named, self._directory)):
            file = self._directory / expanded(text)
            if name == SOURCED and _is_script(file):
                continue
            # A key itself names no file.
            if path not in given and (is_path or is_file(file)):
                project = self._project(tree)
                if any(project.has(Path(each)) for each in (plain_path(file), real_path(file))):
                    yield from self._sent(text)

    def _sent(self, text: str) -> Iterator[NamedFile]:
        file = self._directory / expanded(text)
        if is_file_name(text) and not _is_folder(file):
            yield NamedFile(file, "sent", holds_keys=True)

    def _commands(
        self, tree: _Tree, marked: Sequence[Marked], *, files: bool = True, disabled: bool = True
    ) -> Iterator[Command | _Value]:
        """The servers that a tree has started, and the values of its options that are executed.

        Args:
            files: with those in its files of servers.
            disabled: with disabled servers, which a setting may enable for another run.
        """
        yield from (_Value(each.text) for each in marked if "value" in each.executes)
        if commands := [each.words for each in marked if each.words]:
            from zeus_runtime.trust.parts import Command

            yield from (Command("", words) for words in commands)
        for entry in _entries(find(tree.root, ("mcpServers",)), disabled=disabled):
            yield from _command(entry)
        browser = find(tree.root, ("connectors", "browser"))
        if browser is not None and browser.is_map and plain(browser).get("server") is None:
            server = browser_server()
            yield from _command({"command": server.command, "args": server.args, "cwd": server.cwd})
        for each in marked:
            if files and "servers" in each.executes:
                yield from self._servers_of(tree.file(each.node), disabled=disabled)

    def _servers_in(self, file: Path) -> UnloadedConfig:
        if file not in self._servers_at:
            self._servers_at[file] = servers_at(file, self._checked.environ)
        return self._servers_at[file]

    def _servers_of(self, file: Path, *, disabled: bool) -> Iterator[Command]:
        """The servers in a file; its reader reports an entry that is not sound, which leaves out no other here."""
        for tree in self._servers_in(file).trees:
            for key in SERVERS:
                for entry in _entries(find(tree, (key,)), disabled=disabled):
                    yield from _command(entry)

    def _project(self, tree: _Tree) -> Project:
        workspace = find(tree.root, ("workspace",))
        found = plain(workspace) if workspace is not None and workspace.is_map else {}
        routes = found.get("routes")
        named = (found.get("root"), *(routes.values() if isinstance(routes, Mapping) else ()))
        folders = (self._directory / expanded(each) for each in named if is_file_name(each))
        # Those of the workspace first, as `project_of` has them: missing files are looked for in the first ones alone.
        places = (*folders, *self._own.folders, tree.folder, *tree.folders.values())
        return replace(self._own, folders=tuple(dict.fromkeys(places)))


def _entries(servers: Node | None, *, disabled: bool) -> Iterator[Mapping[str, Any]]:
    if servers is not None and servers.is_map:
        entries = (plain(entry) for entry in servers.value.values() if entry.is_map)
        yield from (each for each in entries if disabled or each.get("disabled", False) is False)


def _command(entry: Mapping[str, Any]) -> Iterator[Command]:
    """The process that an entry starts, as far as its values fit; none for an address."""
    from zeus_runtime.trust.parts import Command

    program, cwd, given = entry.get("command"), entry.get("cwd"), entry.get("env")
    words = (program if isinstance(program, str) else "", *_texts(entry.get("args")))
    env = (
        {name: value for name, value in given.items() if _is_text(value)}
        if isinstance(given, Mapping)
        else {}
    )
    if any(words):
        place = str(expanded(cwd)) if _is_text(cwd) else "."
        yield Command("", words, env, place, tuple(_texts(entry.get("data"))))


def _of_command(command: Command | _Value, project: Project) -> Iterator[NamedFile]:
    found, is_of_option = _covered(command, project), isinstance(command, _Value)
    absent = (Path(folder, pattern) for folder, pattern in found.absent)
    yield from (NamedFile(each, "program", is_of_option=is_of_option) for each in found.paths)
    yield from (NamedFile(each, "absent", is_of_option=is_of_option) for each in absent)
    yield from map(of_runner, found.looked_up)


def of_runner(found: LookedUp) -> NamedFile:
    """What a package runner looks up, as a file that a config names."""
    return NamedFile(found.folder / found.name, "installed" if found.is_installed else "settings")


def _covered(command: Command | _Value, project: Project) -> Covered:
    from zeus_runtime.trust.parts import covered_by, covered_by_value

    if isinstance(command, _Value):
        return covered_by_value(command.text, project)
    return covered_by(command, project)


def _is_script(file: Path) -> bool:
    """Whether a file that a shell reads does more than set variables: then tools may read it."""
    text = file_text(file) if is_file(file) else None
    return text is None or not only_sets_variables(text)


def _texts(value: object) -> Iterator[str]:
    return (each for each in (value if isinstance(value, list | tuple) else ()) if _is_text(each))


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and "\0" not in value


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a text that cannot be a path, such as one that is too long
        return True
