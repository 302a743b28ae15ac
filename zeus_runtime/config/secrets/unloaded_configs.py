"""Configs that this run did not load but another run would load: their places, secrets, and the files they name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from glob import escape
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zeus_runtime.config.layers.files import DISCOVERED, names_preset
from zeus_runtime.config.layers.interpolation import InterpolationError, interpolate
from zeus_runtime.config.messages.diagnostics import ConfigError
from zeus_runtime.config.schema.types import FILE_RELATIVE, HOLDS_SECRETS, PROTECTED
from zeus_runtime.config.schema.walk import walk_with
from zeus_runtime.config.secrets.written_secrets import written_secrets
from zeus_runtime.config.sqlite_url import database_file
from zeus_runtime.config.yaml.reader import MAX_BYTES, decode, read_value
from zeus_runtime.config.yaml.tree import plain
from zeus_runtime.disk_paths import expanded
from zeus_runtime.errors import MissingError

if TYPE_CHECKING:
    from zeus_runtime.config.document import Document
    from zeus_runtime.config.schema.walk import Schema
    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.config.yaml.tree import Node
    from zeus_runtime.config.yaml.tree import Path as TreePath

HOME_FOLDERS: Final = ("configs", "prompts", "plugins", "skills")
_WITHOUT_DEFAULT: Final = r"\$\{\w+(?::\?[^{}]*)?\}"


class ConfigPlace(NamedTuple):
    """Where a config is looked for; its overlays have a word between stem and suffix."""

    folder: Path
    stem: str
    suffix: str


def config_places(document: Document) -> Iterator[ConfigPlace]:
    """The places of ``zeus.yaml`` in the working directory and of the main file."""
    discovered = Path(DISCOVERED)
    yield ConfigPlace(document.directory, discovered.stem, discovered.suffix)
    if document.path is not None:
        yield ConfigPlace(document.path.parent, document.path.stem, document.path.suffix)


def unloaded_configs(document: Document, homes: Iterable[Path]) -> Iterator[tuple[Path, str | None]]:
    """The configs that the document was not read from, each with its text; None for one that cannot be read.

    Those in these places with their overlays, the presets of Homes, and all that they extend or have agents run.

    Args:
        homes: the Homes whose presets may have secrets, so not those of installed distributions.
    """
    seen = {file.resolve() for file in document.files.values()}
    waiting = [
        file
        for folder, stem, suffix in config_places(document)
        for file in (folder / f"{stem}{suffix}", *folder.glob(f"{escape(stem)}.*{escape(suffix)}"))
    ]
    waiting += [file for home in homes for file in (home / "configs").glob("*.yaml")]
    while waiting:
        file = waiting.pop()
        if file.is_file() and (resolved := file.resolve()) not in seen:
            seen.add(resolved)
            text = _text(file)
            yield file, text
            named = _named_in(text, document.schema)
            waiting += [file.parent / expanded(value) for path, value, _ in named if _names_config(path)]


def unloaded_secrets(document: Document, homes: Iterable[Path]) -> dict[str, str]:
    """The secrets that are written out in these configs, to their names."""
    return {
        secret: f"{file.name}/{name}"
        for file, text in unloaded_configs(document, homes)
        for secret, name in (_written_in(text) or {} if text is not None else {}).items()
    }


class FileOfUnloaded(NamedTuple):
    """A file that such a config names.

    Args:
        file: where it is or would be.
        holds_secrets: whether the schema says that it holds secrets.
        begins: whether all files whose names begin with its name belong to it.
    """

    file: Path
    holds_secrets: bool = False
    begins: bool = False


def files_of_unloaded(document: Document, homes: Iterable[Path]) -> Iterator[FileOfUnloaded]:
    """The files that these configs name: bases, configs of agents, prompts, Homes, keys, databases."""
    for at, text in unloaded_configs(document, homes):
        for path, value, places in _named_in(text, document.schema):
            if path[:1] == ("homes",):
                home = at.parent / expanded(value)
                yield from (FileOfUnloaded(home / each) for each in HOME_FOLDERS)
            elif path == ("storage", "url"):
                yield from databases_of([value], document.directory)
            elif kept_from := {place.get(PROTECTED) for place in places} - {None}:
                closed = not kept_from.isdisjoint({"read", "both"})
                yield FileOfUnloaded(document.directory / value, closed, begins=True)
            else:
                holds_secrets = any(place.get(HOLDS_SECRETS) for place in places)
                yield FileOfUnloaded(at.parent / expanded(value), holds_secrets)


def databases_of(urls: Iterable[str], directory: Path) -> Iterator[FileOfUnloaded]:
    """The SQLite databases that values of ``storage.url`` name."""
    for url in urls:
        try:
            file = database_file(url, directory)
        except MissingError:  # a run with this value ends with the error
            continue
        if file is not None:
            yield FileOfUnloaded(file, holds_secrets=True, begins=True)


def _named_in(
    text: str | None, schema: Schema | None
) -> Iterator[tuple[TreePath, str, Sequence[Mapping[str, Any]]]]:
    """The paths of files in a config's text, each with its place; a variable in one has its value only in that run."""
    root = None if text is None else _root(text)
    if root is None or schema is None or not root.is_map:
        return
    for path, node, places in walk_with(root, schema):
        if not isinstance(node.value, str) or "$" in node.value or "\0" in node.value:
            continue
        if path[:1] == ("extends",) and names_preset(node.value):
            continue
        is_file = any(place.get(FILE_RELATIVE) or place.get(PROTECTED) for place in places)
        if is_file or _names_config(path) or path == ("storage", "url"):
            yield path, node.value, places


def _names_config(path: TreePath) -> bool:
    return path[:1] == ("extends",) or (path[:1] == ("agents",) and path[2:] == ("config",))


def holds_keys(text: str | None, redactor: Redactor) -> bool:
    """Whether a config's text has a secret written out, or cannot be judged; None is a text that could not be read."""
    if text is None or redactor(text) != text:
        return True
    written = _written_in(text)
    return written is None or bool(written)


def _text(file: Path) -> str | None:
    try:
        with file.open("rb") as stream:
            return decode(stream.read(MAX_BYTES + 1), file.name)
    except (OSError, ConfigError):
        return None


# Sub-agents that share a config ask for the same texts.
@lru_cache(maxsize=64)
def _written_in(text: str) -> Mapping[str, str] | None:
    """The secrets in a config's text, defaults of variables too; None for a text that is not sound YAML."""
    try:
        root = read_value(text, "")
    except ConfigError:
        return None
    return MappingProxyType({} if root is None else written_secrets(_literal(plain(root))))


@lru_cache(maxsize=64)
def _root(text: str) -> Node | None:
    try:
        return read_value(text, "")
    except ConfigError:
        return None


def _literal(value: Any) -> Any:
    """``value`` as it is without any variable: ``${TOKEN}`` is empty, and ``${TOKEN:-text}`` is ``text``."""
    if isinstance(value, dict):
        return {key: _literal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_literal(item) for item in value]
    if not isinstance(value, str) or "$" not in value:
        return value
    try:
        return interpolate(re.sub(_WITHOUT_DEFAULT, "", value), {}).text
    except InterpolationError:
        return value  # malformed, so all of it is literal
