"""Configs that this run did not load but another run would load: their places, their contents, and their secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from glob import escape
from itertools import pairwise
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from zeus_runtime.config.layers.dotenv import read_dotenv
from zeus_runtime.config.layers.files import DISCOVERED, SERVICE_FILE, config_at, folder_of, names_preset
from zeus_runtime.config.layers.interpolation import InterpolationError, interpolate
from zeus_runtime.config.layers.loading import filled_in, literal
from zeus_runtime.config.layers.mcp_files import once
from zeus_runtime.config.layers.upgrade import CURRENT
from zeus_runtime.config.messages.diagnostics import ConfigError
from zeus_runtime.config.secrets.folder_listings import FolderListings
from zeus_runtime.config.secrets.key_files import key_files_of_entry, key_files_of_words
from zeus_runtime.config.secrets.masking import secrets_of_environment
from zeus_runtime.config.secrets.written_secrets import secrets_of_env_file, written_secrets
from zeus_runtime.config.yaml.reader import MAX_BYTES, decode, read_value
from zeus_runtime.config.yaml.tree import Node, find, of_json, plain
from zeus_runtime.disk_paths import expanded, is_file_name, place_of
from zeus_runtime.proc_files import opened
from zeus_runtime.strict_json import read_json, without_comments

if TYPE_CHECKING:
    from zeus_runtime.config.document import Document
    from zeus_runtime.config.secrets.masking import Redactor


_AROUND: Final = re.compile(r"[\n\"'\[\]{},]|:\s|(?:^|\s)(?:[-#]|//)\s")
"""What is around the values of a text that cannot be parsed: a path may hold blanks."""


class ConfigPlace(NamedTuple):
    """Where a config is looked for; its overlays have a word between stem and suffix."""

    folder: Path
    stem: str
    suffix: str

    @property
    def file(self) -> Path:
        return self.folder / f"{self.stem}{self.suffix}"


def config_places(document: Document, given: Iterable[Path]) -> Iterator[ConfigPlace]:
    """The places of ``zeus.yaml`` in the working directory, of the main file, and of the configs in ``given``."""
    files = [document.directory / DISCOVERED, *given]
    if document.path is not None:
        files.append(document.path)
    for file in dict.fromkeys(files):
        yield ConfigPlace(file.parent, file.stem, file.suffix)


class UnloadedConfig(NamedTuple):
    """A file that decides and that the document was not read from: a config, a service's settings, or MCP servers.

    Args:
        file: its place.
        text: None if it cannot be read.
        trees: its content with variables filled in, and with their defaults; none for a text that cannot be parsed.
    """

    file: Path
    text: str | None
    trees: tuple[Node, ...]


def unloaded_configs(
    document: Document, homes: Iterable[Path], given: Iterable[Path]
) -> Iterator[UnloadedConfig]:
    """The configs that the document was not read from.

    Those in these places with their overlays, the presets of Homes, and all that they extend or have agents run; also
    those that a value of the document names which a stronger layer or a variable replaces.

    Args:
        homes: the Homes whose presets may have secrets, so not those of installed distributions.
        given: the configs that are trusted by their paths: whoever changes one decides about the next run.
    """
    return (each for _, each in places_of_unloaded(document, homes, given) if each is not None)


def places_of_unloaded(
    document: Document, homes: Iterable[Path], given: Iterable[Path]
) -> Iterator[tuple[Path, UnloadedConfig | None]]:
    """The places where ``unloaded_configs`` looks, each with the config that is there.

    They are files, there or not, and the folders of overlays and presets. A change of one may give other configs.
    """
    seen = {*map(place_of, document.files.values())}
    waiting: list[Path] = []
    for place in config_places(document, given):
        # A file's name may hold `*` or `[`.
        overlays = place.folder.glob(f"{escape(place.stem)}.*{escape(place.suffix)}")
        waiting += (place.folder, place.file, *overlays)
    for home in homes:
        waiting += _presets_with_folder(home)
    for tree in (*document.replaced, *document.defaults):
        waiting += _further(tree, document.folders, document.directory)
    yield from _read_on(waiting, seen, document.environ)


def may_be_config(file: Path) -> bool:
    """Whether a text is a config, or may be one: it is no YAML yet. One of another program has no known ``version``."""
    text = file_text(file) if _is_there(file) else None
    root = None if text is None else _root(text)
    if root is None:
        return True
    version, extends = (find(root, (key,)) for key in ("version", "extends"))
    # A file that it extends may have the version.
    return extends is not None or (version is not None and version.value in range(CURRENT + 1))


def servers_at(file: Path, environ: Mapping[str, str]) -> UnloadedConfig:
    """A file of MCP servers; one that its reader refuses for comments or last commas has trees too."""
    text = file_text(file) if _is_there(file) else None
    try:
        root = of_json(None if text is None else read_json(without_comments(text), once))
    except ValueError:
        root = of_json(None)
    return UnloadedConfig(file, text, filled_in(root, environ) if root.is_map else ())


def spelled_values(layer: UnloadedConfig, environ: Mapping[str, str]) -> Sequence[str]:
    """The pieces between the signs of a text that cannot be parsed; its values are among them."""
    filled = "\n".join(_filled(line, environ) for line in letters(layer).split("\n"))
    return [each for piece in _AROUND.split(filled) if (each := piece.strip())]


def spelled_key_files(values: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The files of keys in such a text, each behind the name before it that says so."""
    for name, value in pairwise(values):
        yield from key_files_of_entry(name, value, is_variable=False)
        yield from key_files_of_words([name, value])


def letters(layer: UnloadedConfig) -> str:
    """A layer's text; also of a file that is not UTF-8, or too long, and those of UTF-16."""
    if layer.text is not None:
        return layer.text
    try:
        with opened(layer.file) as stream:
            return stream.read(MAX_BYTES).decode("utf-8", "replace").replace("\0", "")
    except OSError:
        return ""


def _filled(line: str, environ: Mapping[str, str]) -> str:
    try:
        return interpolate(line, environ).text
    except InterpolationError:
        return line


def secrets_of_unloaded(configs: Iterable[UnloadedConfig]) -> dict[str, str]:
    """The secrets that are written out in these configs, to their names."""
    return {
        secret: f"{each.file.name}/{name}"
        for each in configs
        for secret, name in (written_in(each.text) or {} if each.text is not None else {}).items()
    }


def secrets_of_folder(folder: Path) -> dict[str, str]:
    """The secrets that are written out in the configs of a folder, to their names.

    These are its ``*.yaml`` with a ``version``, and the settings of a service.

    A file that is not sound YAML has none.
    """
    found: dict[str, str] = {}
    for file in sorted(folder.glob("*.yaml")):
        text = file_text(file) if _is_there(file) else None
        is_settings = file.name == SERVICE_FILE
        # Other files may be many and long: only a text that may be a config is parsed.
        root = _root(text) if text is not None and (is_settings or "version" in text) else None
        if root is not None and root.is_map and (is_settings or "version" in root.value):
            for secret, name in written_secrets(plain(literal(root))).items():
                found.setdefault(secret, f"{file.name}/{name}")
    return found


def secrets_of_folders(folders: Iterable[Path], environ: Mapping[str, str]) -> Redactor:
    """The secrets of the environment, and those in the files of variables and the configs of these folders."""
    listed = [*dict.fromkeys(folders)]
    written = [pair for folder in listed for pair in dotenv_of_folder(folder)]
    known = secrets_of_environment(environ, written)
    for folder in listed:
        known = known.adding(secrets_of_folder(folder)).adding(secrets_of_env_files(folder))
    return known


def dotenv_of_folder(folder: Path) -> Sequence[tuple[str, str]]:
    """The names and values of a folder's ``.env``; none if it cannot be read or is not sound."""
    file = folder / ".env"
    try:
        return read_dotenv(file, file.name)
    except ConfigError:
        # Whatever loads a config there says what is wrong with the file.
        return ()


def secrets_of_env_files(folder: Path) -> dict[str, str]:
    """The secrets in the files of variables in a folder, and in each ``.env`` directly below it, to their names.

    A file that cannot be read has none.
    """
    found: dict[str, str] = {}
    for file in FolderListings().env_files(folder, below=True):
        with suppress(OSError):
            found = {**secrets_of_env_file(file), **found}
    return found


def with_extended(file: Path, environ: Mapping[str, str]) -> Iterator[UnloadedConfig]:
    """A YAML file that this run does not load, and all files that it extends; those that are there."""
    return (each for _, each in _read_on([file], set(), environ) if each is not None)


def agents_layers(tree: Node) -> Iterator[Node]:
    """A config's tree, and each ``overrides`` of its agents, which is laid over a config and so is a tree too."""
    yield tree
    for agent in _agents(tree):
        overrides = find(agent, ("overrides",))
        if overrides is not None and overrides.is_map:
            yield from agents_layers(overrides)


def named_configs(tree: Node, folders: Mapping[str, Path], folder: Path) -> Iterator[Path]:
    """The files that a config's tree extends or has its agents run, there or not.

    Args:
        folders: the folder of each source, where relative paths start.
        folder: where they start in a source that is not among these.
    """
    extends = tree.value.get("extends")
    bases = [] if extends is None else extends.value if extends.is_list else [extends]
    named = [each for each in bases if isinstance(each.value, str) and not names_preset(each.value)]
    named += [node for agent in _agents(tree) if (node := find(agent, ("config",))) is not None]
    for node in named:
        if is_file_name(node.value):
            yield config_at(folder_of(node, folders, folder) / expanded(node.value))


def service_key_files(tree: Node, folder: Path) -> Iterator[Path]:
    """The certificate and the key that the settings of a service name, there or not.

    Args:
        folder: that of the settings' file.
    """
    for name in ("certificate", "key"):
        node = find(tree, ("tls", name))
        if node is not None and is_file_name(node.value):
            yield folder / expanded(node.value)


def _agents(tree: Node) -> Iterator[Node]:
    agents = tree.value.get("agents")
    yield from agents.value.values() if agents is not None and agents.is_map else ()


def _read_on(
    waiting: list[Path], seen: set[str], environ: Mapping[str, str]
) -> Iterator[tuple[Path, UnloadedConfig | None]]:
    """The places, and those that the configs there name, each with its config.

    A place has none if there is no file, and if the file was seen already.
    """
    while waiting:
        file = waiting.pop()
        # A place has one spelling, so configs that extend each other end the search.
        if not _is_there(file) or (place := place_of(file)) in seen:
            yield file, None
            continue
        seen.add(place)
        text = file_text(file)
        root = None if text is None else _root(text)
        trees = () if root is None or not root.is_map else filled_in(root, environ)
        yield file, UnloadedConfig(file, text, trees)
        for tree in trees:
            waiting += _further(tree, {}, file.parent)


def _further(tree: Node, folders: Mapping[str, Path], folder: Path) -> Iterator[Path]:
    """The configs that a tree names, and the presets of the Homes that it names, with their folders."""
    for layer in agents_layers(tree):
        yield from named_configs(layer, folders, folder)
        homes = layer.value.get("homes")
        for node in homes.value if homes is not None and homes.is_list else ():
            if is_file_name(node.value):
                yield from _presets_with_folder(folder_of(node, folders, folder) / expanded(node.value))


def _presets_with_folder(home: Path) -> Iterator[Path]:
    yield home / "configs"
    yield from presets_in(home)


def presets_in(home: Path) -> Iterator[Path]:
    """The presets of a Home, with their overlays."""
    folder = home / "configs"
    return folder.glob("*.yaml") if _is_there(folder, S_ISDIR) else iter(())


def _is_there(path: Path, test: Callable[[int], bool] = S_ISREG) -> bool:
    """Whether there is a file, or what ``test`` says; no error for a text that no file can have as its name."""
    try:
        return test(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def holds_keys(text: str | None, redactor: Redactor) -> bool:
    """Whether a config's text has a secret written out, or cannot be judged; None is a text that could not be read."""
    if text is None or redactor(text) != text:
        return True
    written = written_in(text)
    return written is None or bool(written)


def file_text(file: Path) -> str | None:
    """The text of a config's file; None if it cannot be read."""
    try:
        with opened(file) as stream:
            return decode(stream.read(MAX_BYTES + 1), file.name)
    except (OSError, ConfigError):
        return None


# Sub-agents that share a config ask for the same texts.
@lru_cache(maxsize=64)
def written_in(text: str) -> Mapping[str, str] | None:
    """The secrets in a config's text, defaults of variables too; None for a text that is not sound YAML."""
    try:
        root = read_value(text, "")
    except ConfigError:
        return None
    return MappingProxyType({} if root is None else written_secrets(plain(literal(root))))


@lru_cache(maxsize=64)
def _root(text: str) -> Node | None:
    try:
        return read_value(text, "")
    except ConfigError:
        return None
