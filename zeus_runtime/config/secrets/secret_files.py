"""The files whose text makes secrets of a config: one list, for the config's check and before each run.

The variables of a living process are looked at with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cache, partial
from itertools import chain
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Final, NamedTuple

from zeus_runtime.config.layers.dotenv import is_dotenv, read_dotenv
from zeus_runtime.config.layers.files import SERVICE_FILE, configs_in, folder_of
from zeus_runtime.config.layers.loading import with_text
from zeus_runtime.config.messages.diagnostics import ConfigError
from zeus_runtime.config.schema.marked import marked_values
from zeus_runtime.config.schema.validate import prepared, with_absolute_paths
from zeus_runtime.config.secrets.folder_listings import ENV_NAME, FolderListings
from zeus_runtime.config.secrets.key_files import key_files
from zeus_runtime.config.secrets.secrets_in_values import secrets_in
from zeus_runtime.config.secrets.sound_texts import SERVERS, misfit_values
from zeus_runtime.config.secrets.unloaded_configs import (
    agents_layers,
    file_text,
    may_be_config,
    places_of_unloaded,
    secrets_of_unloaded,
    servers_at,
    spelled_key_files,
    spelled_values,
)
from zeus_runtime.config.secrets.written_secrets import (
    files_of_repository,
    named_by_repository,
    named_key_files,
    repositories_of,
    secrets_of_env_file,
    secrets_of_file,
    secrets_of_key_file,
    secrets_of_repository,
)
from zeus_runtime.disk_paths import expanded, is_file, is_file_name
from zeus_runtime.process_path import given_environ

if TYPE_CHECKING:
    from zeus_runtime.config.document import Document
    from zeus_runtime.config.schema.marked import Marked
    from zeus_runtime.config.secrets.git_settings import GitFile
    from zeus_runtime.config.secrets.unloaded_configs import UnloadedConfig
    from zeus_runtime.config.secrets.written_secrets import FoldersNamed
    from zeus_runtime.config.yaml.tree import Node


_UNREADABLE: Final = (
    "it cannot be read: its former values hold, and secrets that are new in it are perhaps not masked"
)


class LookState(NamedTuple):
    """What tells a changed file from the former one."""

    is_folder: bool
    inode: int
    size: int
    modified_ns: int
    # A program may set the other time back, as `tar` does.
    changed_ns: int


class _Source(NamedTuple):
    """Files that are read together.

    Args:
        key: the same at each look.
        paths: the files, there or not, and the folders where further ones may appear; asked only before they are read.
        read: their secrets now, to their names.
    """

    key: object
    paths: Callable[[], Iterable[Path]]
    read: Callable[[], Mapping[str, str]]


class _Unloaded(NamedTuple):
    """The configs that the document was not read from, at one moment.

    Args:
        places: where they were looked for.
        configs: those that are there.
        spelled: for each of them the files that its text spells.
        servers: the files of servers that they name.
    """

    places: Sequence[Path]
    configs: Sequence[UnloadedConfig]
    spelled: Sequence[Mapping[Path, str]]
    servers: Sequence[Path]


class SecretFiles:
    """Finds the secrets in the files of a config: at first in all, then in each that changed since the last look.

    Args:
        document: the config, checked.
        folders: those whose Git repositories and files of variables count, and those directly in them.
        shared: the folder of all workspaces, if sessions or users have their own in it; only its own files count.
        is_workspace: whether a folder has the name of such a workspace; then it counts for its session or user alone.
        homes: the Homes whose presets may have secrets.
        given: the configs that are trusted by their paths.
        environ: the variables that the config was read with, without ``.env``; if its owner changes it, it is read
            anew, and so is the process's own environment.
        folders_named: finds the folders in which a command may open a file.
    """

    def __init__(
        self,
        document: Document,
        *,
        folders: Sequence[Path],
        shared: Sequence[Path] = (),
        is_workspace: Callable[[str], object] = lambda _: False,
        homes: Sequence[Path],
        given: Sequence[Path],
        environ: Mapping[str, str],
        folders_named: FoldersNamed,
    ) -> None:
        self._document = document
        self._folders_named = folders_named
        self.folders: Sequence[Path] = tuple(dict.fromkeys((*folders, *shared)))
        self._shared: Sequence[Path] = [each for each in shared if each not in folders]
        self._is_of_folders = False
        self._listings = FolderListings(is_workspace)
        self._homes = homes
        self._given = (*given, document.directory / SERVICE_FILE)
        self._service_folders: Sequence[Path] = ()
        self._seen: dict[object, Mapping[Path, LookState | None]] = {}
        self._variables: dict[Path, Sequence[tuple[str, str]]] = {}
        self._unread: dict[Path, str] = {}
        self._anew: dict[Path, Document] = {}
        self._in_json: dict[Path, Sequence[UnloadedConfig]] = {}
        self._in_trees: dict[int, tuple[Node, Mapping[Path, str]]] = {}
        self._environ = environ
        self._pairs = self._present_pairs()
        self._named_first = _named_files(document.environ.items())
        self._later: dict[str, str] = {}

    def copy(self) -> SecretFiles:
        """One with a look of its own, which starts from the last look of this one."""
        other = copy(self)
        other._seen, other._variables, other._anew = dict(self._seen), dict(self._variables), dict(self._anew)
        other._in_json, other._unread = dict(self._in_json), dict(self._unread)
        other._listings = self._listings.copy()
        return other

    def of_folders(self, folders: Sequence[Path]) -> SecretFiles:
        """A look at these folders alone, such as the workspace of one session."""
        other = copy(self)
        other.folders, other._shared, other._is_of_folders = folders, (), True
        other._seen, other._unread, other._listings = {}, {}, FolderListings()
        return other

    def of_service(self, folders: Sequence[Path]) -> SecretFiles:
        """A look also at the configs in the folders of a service: a person may add one."""
        other = self.copy()
        other._service_folders = folders
        other._seen.pop("", None)
        return other

    def changed(self) -> dict[str, str]:
        """The secrets of each file and variable that changed since the last look, to their names."""
        if self._is_of_folders:
            found: dict[str, str] = {}
            self._look(self._of_repositories(), found)
        else:
            found = self._of_config_and_variables()
        env_files = self._env_files()
        self._look((_single(each, self._of_env_file, ENV_NAME) for each in env_files), found)
        if self._unread:
            known = {*env_files, *self._loaded_dotenvs()}
            if not self._is_of_folders:
                known.update((*self._key_files(), *self._keys_of_unloaded(self._of_other_runs())))
            self._unread = {file: why for file, why in self._unread.items() if file in known}
        return found

    def _of_config_and_variables(self) -> dict[str, str]:
        found = self._of_later_variables()
        former = dict(self._variables)
        self._look(self._dotenvs(), found)
        if former and former != self._variables:
            # Their values may be filled in in any other file.
            self._seen = {each.key: self._seen[each.key] for each in self._dotenvs()}
        self._look(self._others(), found)
        return found

    @property
    def unread(self) -> Mapping[Path, str]:
        """The files of variables and keys that the last look could not read, or not wholly, each with the reason: so
        secrets in them are perhaps not known."""
        return dict(sorted(self._unread.items()))

    @property
    def named(self) -> Sequence[Path]:
        """The files that values of the config and variables name, there or not."""
        return [*self._json_files(), *self._key_files()]

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables of the config, with those of ``.env`` as the last look found them."""
        return self._environs[-1]

    @property
    def texts(self) -> Mapping[Path, object]:
        """The state of each config, loaded or not, ``.env`` and file of servers, as the last look found it."""
        keys = (*self._document.files.values(), *self._document.further, *self._json_files(), "")
        seen = chain.from_iterable(self._seen.get(each, {}).items() for each in keys)
        return {path: state for path, state in seen if state is None or not state.is_folder}

    def _look(self, sources: Iterable[_Source], found: dict[str, str]) -> None:
        for each in sources:
            seen = self._seen.get(each.key)
            if seen is not None and seen == states(seen):
                continue
            # First the states: a change while they are read is found by the next look.
            self._seen[each.key] = states(each.paths())
            for secret, name in each.read().items():
                found.setdefault(secret, name)

    def _present_pairs(self) -> frozenset[tuple[str, str]]:
        return frozenset([*given_environ().items(), *self._environ.items()])

    def _of_later_variables(self) -> dict[str, str]:
        former, self._pairs = self._pairs, self._present_pairs()
        later = sorted(self._pairs - former)
        self._later = {**self._later, **dict(later)}
        return {secret: name for name, value in later for secret in secrets_in(name, value)}

    def _dotenvs(self) -> Iterator[_Source]:
        return (_single(file, self._of_dotenv) for file in self._loaded_dotenvs())

    def _loaded_dotenvs(self) -> Iterable[Path]:
        files = (*self._document.files.values(), *self._document.further)
        return dict.fromkeys(file for file in files if file.name == ENV_NAME)

    def _env_files(self) -> Sequence[Path]:
        """The files of variables that are not loaded, where an agent works and beside each config that is read."""
        configs = () if self._is_of_folders else self._document.files.values()
        beside = dict.fromkeys((*(each.parent for each in configs), *self._service_folders))
        found = chain(
            *(self._listings.env_files(each, below=each not in self._shared) for each in self.folders),
            *(self._listings.env_files(folder) for folder in beside),
        )
        loaded = set(self._loaded_dotenvs())
        return [file for file in dict.fromkeys(found) if file not in loaded]

    def _others(self) -> Iterator[_Source]:
        """Those whose reading may need the variables; the configs first, since a new line may name a file."""
        document = self._document
        for name, file in document.files.items():
            if file.name != ENV_NAME:
                yield _single(file, partial(self._of_config, name))
        for file in self._json_files():
            yield _single(file, self._of_json)
        for file, variable in self._key_files().items():
            yield _single(file, partial(self._of_keys, variable))
        yield from self._of_repositories()
        yield _Source("", self._places_of_unloaded, self._of_unloaded)

    def _of_repositories(self) -> Iterator[_Source]:
        for each in self._repositories:
            read = partial(secrets_of_repository, each, self._environ)
            yield _Source(each, partial(self._files_of_repository, each), read)

    @property
    def named_by_git(self) -> Sequence[GitFile]:
        """The files that settings of the repositories name, there or not."""
        return [file for each in self._repositories for file in named_by_repository(each, self._environ)]

    @property
    def _repositories(self) -> Iterable[Path]:
        around = (each for folder in self.folders for each in repositories_of(folder))
        above = [each for each in self.folders if each not in self._shared]
        below = (each for folder in above for each in self._listings.repositories(folder))
        # Git reads the settings that variables name without a repository too.
        always = () if self._is_of_folders else (self._document.directory / ".git",)
        return dict.fromkeys((*around, *below)) or always

    def _files_of_repository(self, kept: Path) -> Iterator[Path]:
        yield from files_of_repository(kept)
        yield from (each.path for each in named_by_repository(kept, self._environ))

    def _json_files(self) -> Sequence[Path]:
        marked = (each for document in self._readings for each in document.marked if each.holds_secrets)
        return list(dict.fromkeys(Path(each.text) for each in marked))

    def _key_files(self) -> Mapping[Path, str]:
        """The files from which libraries and components read keys, each with the variable or the parameter of an
        address that names it, or empty if an option of the config does."""
        found = dict(self._marked(chain.from_iterable(each.marked for each in self._readings)))
        later = _named_files(chain(*self._variables.values(), self._later.items()))
        in_json = [*chain.from_iterable(self._in_json.values())]
        trees = chain((each.root for each in self._readings), *(each.trees for each in in_json))
        # A tree never changes, and to walk it takes as long as all other parts of a look.
        former, self._in_trees = self._in_trees, {}
        for tree in trees:
            # By identity: the value is kept beside it, so no other tree gets its number.
            self._in_trees[id(tree)] = former.get(id(tree)) or (
                tree,
                self._named_in(tree, self._folders_named, is_loaded=True),
            )
        spelled = (self._spelled(each) for each in in_json if not each.trees)
        for named in (*(each for _, each in self._in_trees.values()), *spelled):
            found |= named
        return found | self._places((*self._named_first, *later))

    def _marked(self, values: Iterable[Marked]) -> Iterator[tuple[Path, str]]:
        for each in values:
            if each.may_name_file or each.is_key_file:
                yield self._document.directory / each.text, ""

    def _named_in(
        self, tree: Node, folders_named: FoldersNamed, *, is_loaded: bool = False
    ) -> dict[Path, str]:
        """The files with keys that a tree names.

        Args:
            is_loaded: without those that its own options name: the document knows them.
        """
        schema = self._document.schema
        assert schema is not None  # a checked one has it
        layers = agents_layers(tree) if tree.is_map else ()
        marked = (marked_values(each, schema) for each in layers if not (is_loaded and each is tree))
        named = ((each.name, each.file) for each in named_key_files(tree, folders_named))
        return {**dict(self._marked(chain.from_iterable(marked))), **self._places(named)}

    def _places(self, named: Iterable[tuple[str, str]]) -> dict[Path, str]:
        return {self._document.directory / expanded(file): key for key, file in named}

    def _spelled(self, layer: UnloadedConfig) -> dict[Path, str]:
        """The files that a text names where it is not sound, or is none of a config: any may have keys."""
        folders, schema = (layer.file.parent, self._document.directory), self._document.schema or {}
        values = [*misfit_values(layer, schema)] if layer.trees else spelled_values(layer, self.environ)
        places = (base / expanded(each) for each in filter(is_file_name, values) for base in folders)
        said = () if layer.trees else spelled_key_files(values)
        # Of a text that cannot be parsed, most pieces are no names.
        return {file: "" for file in places if layer.trees or is_file(file)} | self._places(said)

    def _keys_of_unloaded(self, unloaded: _Unloaded) -> Mapping[Path, str]:
        found = {file: name for each in unloaded.spelled for file, name in each.items()}
        in_servers = (each.trees for file in unloaded.servers for each in self._servers_at(file))
        trees = (each for _, _, each in self._trees_of_unloaded(unloaded.configs))
        # Many configs have the same commands.
        folders_named = cache(self._folders_named)
        for tree in chain(trees, *in_servers):
            named = self._named_in(tree, folders_named)
            found |= {file: key for file, key in named.items() if key or file not in found}
        loaded = self._key_files()  # the loaded config is among the others too
        return {file: key for file, key in found.items() if file not in loaded}

    def _of_other_runs(self) -> _Unloaded:
        """The configs of other runs as they are now, read once for all that is looked for in them."""
        given = (*self._given, *filter(may_be_config, self._served))
        found = [
            *chain.from_iterable(places_of_unloaded(each, self._homes, given) for each in self._readings)
        ]
        configs = tuple(each for _, each in found if each is not None)
        spelled = tuple(map(self._spelled, configs))
        servers = self._servers_of_unloaded(configs, spelled)
        return _Unloaded(tuple(place for place, _ in found), configs, spelled, servers)

    def _servers_of_unloaded(
        self, configs: Sequence[UnloadedConfig], spelled: Sequence[Mapping[Path, str]]
    ) -> Sequence[Path]:
        """The files of servers that no loaded config names; also those that a text spells where it is not sound."""
        schema = self._document.schema
        assert schema is not None  # a checked one has it
        named = (
            folder_of(each.node, folders, folder) / expanded(each.text)
            for folders, folder, tree in self._trees_of_unloaded(configs)
            for layer in (agents_layers(tree) if tree.is_map else ())
            for each in marked_values(layer, schema)
            if each.holds_secrets and is_file_name(each.text)
        )
        in_texts = filter(self._has_servers, chain.from_iterable(spelled))
        loaded = {*self._json_files()}
        return [file for file in dict.fromkeys(chain(named, in_texts)) if file not in loaded]

    def _has_servers(self, file: Path) -> bool:
        trees = chain.from_iterable(each.trees for each in self._servers_at(file))
        return any(key in tree.value for tree in trees for key in SERVERS)

    def _trees_of_unloaded(
        self, configs: Iterable[UnloadedConfig]
    ) -> Iterator[tuple[Mapping[str, Path], Path, Node]]:
        """The tree of each config that a reading left out, and of the values that others replace: the folder of each
        source, that of all other sources, and the tree."""
        yield from (({}, each.file.parent, tree) for each in configs for tree in each.trees)
        for document in self._readings:
            for tree in (*document.replaced, *document.defaults):
                yield document.folders, document.directory, tree

    @property
    def _readings(self) -> Iterator[Document]:
        yield self._document
        yield from self._anew.values()

    @property
    def _environs(self) -> Sequence[Mapping[str, str]]:
        """The variables as the config was read with them, and with those of ``.env`` now."""
        environ = self._document.environ
        now = {**environ, **{name: value for each in self._variables.values() for name, value in each}}
        return (environ,) if now == environ else (environ, now)

    def _of_dotenv(self, file: Path) -> Mapping[str, str]:
        # Read as one that is not loaded too, so that what is commented out is known.
        found = self._of_env_file(file)
        try:
            variables = read_dotenv(file, ENV_NAME)
        except ConfigError:
            # Its former values hold, as they do in the config.
            self._unread[file] = _UNREADABLE
            return found
        self._unread.pop(file, None)
        self._variables[file] = variables
        return {**found, **{secret: name for name, value in variables for secret in secrets_in(name, value)}}

    def _of_env_file(self, file: Path) -> Mapping[str, str]:
        self._unread.pop(file, None)
        try:
            return secrets_of_env_file(file, partial(self._tell, file)) if is_dotenv(file) else {}
        except OSError:
            self._unread[file] = _UNREADABLE
            return {}

    def _of_config(self, name: str, file: Path) -> Mapping[str, str]:
        text = file_text(file) if is_file(file) else None
        self._anew.pop(file, None)
        if text is None or text == self._document.sources.texts.get(name):
            # What it had when it was read is known, but for the values of variables that changed.
            text = self._document.sources.texts.get(name) if len(self._environs) > 1 else None
        if text is None or (document := with_text(self._document, name, text, self._environs)) is None:
            return {}
        schema = document.schema
        assert schema is not None  # a checked one has it
        self._anew[file] = with_absolute_paths(prepared(document, schema), schema)
        return {secret: f"{file.name}/{place}" for secret, place in self._anew[file].redactor.names.items()}

    def _of_json(self, file: Path) -> Mapping[str, str]:
        self._in_json[file] = self._servers_at(file)
        return self._of_servers(file)

    def _servers_at(self, file: Path) -> Sequence[UnloadedConfig]:
        return [servers_at(file, environ) for environ in self._environs]

    def _of_servers(self, file: Path) -> Mapping[str, str]:
        return _together(secrets_of_file(file, environ) for environ in self._environs)

    def _of_keys(self, variable: str, file: Path) -> Mapping[str, str]:
        self._unread.pop(file, None)
        return _together(
            secrets_of_key_file(file, environ, variable=variable, unread=partial(self._tell, file))
            for environ in self._environs
        )

    def _tell(self, file: Path, why: str) -> None:
        self._unread.setdefault(file, why)

    def _of_unloaded(self) -> Mapping[str, str]:
        unloaded = self._of_other_runs()
        keys = (self._of_keys(name, file) for file, name in self._keys_of_unloaded(unloaded).items())
        servers = map(self._of_servers, unloaded.servers)
        return {**_together(chain(keys, servers)), **secrets_of_unloaded(unloaded.configs)}

    def _places_of_unloaded(self) -> Iterator[Path]:
        # Also a text that is no config yet, and a loaded one: a new line of it may name another config.
        yield from (*self._service_folders, *self._served, *self._document.files.values())
        unloaded = self._of_other_runs()
        yield from unloaded.places
        yield from unloaded.servers
        yield from self._keys_of_unloaded(unloaded)

    @property
    def _served(self) -> Iterator[Path]:
        return chain.from_iterable(map(configs_in, self._service_folders))


def _single(file: Path, read: Callable[[Path], Mapping[str, str]], kind: str = "") -> _Source:
    """A file by itself, which is read for each kind of secrets that it may have."""
    return _Source((kind, file) if kind else file, lambda: (file,), partial(read, file))


def _named_files(variables: Iterable[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    return [*chain.from_iterable(key_files(name, value) for name, value in variables)]


def _together(each: Iterable[Mapping[str, str]]) -> Mapping[str, str]:
    return {secret: name for found in each for secret, name in found.items()}


def states(paths: Iterable[Path]) -> Mapping[Path, LookState | None]:
    """The state of each file or folder; None for one that is not there."""
    return {path: _state(path) for path in paths}


def _state(path: Path) -> LookState | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return LookState(
        S_ISDIR(found.st_mode), found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    )
