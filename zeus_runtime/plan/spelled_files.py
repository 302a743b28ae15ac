"""The files that edited texts of configs spell anywhere, which the schema cannot find while a text does not fit it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from glob import escape
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from zeus_runtime.config.layers.files import CONFIG_SUFFIX, DISCOVERED
from zeus_runtime.config.layers.interpolation import InterpolationError, interpolate
from zeus_runtime.config.schema.marked import marked_values
from zeus_runtime.config.schema.walk import type_name, types, walk_with
from zeus_runtime.config.secrets.parts import key_files_of_entry, key_files_of_words
from zeus_runtime.config.secrets.unloaded_configs import (
    agents_layers,
    file_text,
    with_extended,
    written_in,
)
from zeus_runtime.config.yaml.reader import MAX_BYTES
from zeus_runtime.config.yaml.tree import walk
from zeus_runtime.disk_paths import expanded, is_file
from zeus_runtime.plan.executed_parts import project_of
from zeus_runtime.plan.named_files import SERVERS, NamedFile, of_runner
from zeus_runtime.trust.command_files import MOST_BASES
from zeus_runtime.trust.command_words import is_path
from zeus_runtime.trust.package_runners import looked_up
from zeus_runtime.trust.parts import Command, covered_by

if TYPE_CHECKING:
    from zeus_runtime.config.schema.walk import Schema
    from zeus_runtime.config.secrets.unloaded_configs import UnloadedConfig
    from zeus_runtime.config.yaml.tree import Node
    from zeus_runtime.config.yaml.tree import Path as NodePath
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.trust.command_files import Covered
    from zeus_runtime.trust.parts import Project

_BETWEEN: Final = re.compile(r"(?:[\s\"'`\[\]{}(),:;|&<>=]|\.(?=\s|$))+")
"""What is between the paths of a text: the signs of YAML, of a shell, and of sentences."""
_AROUND: Final = re.compile(r"[\n\"'\[\]{},]|:\s|(?:^|\s)[-#]\s")
"""What is around the values of a text that is no YAML: a path may hold blanks."""
_PATH: Final = re.compile(r"/|\w\.\w")
_SPACE: Final = re.compile(r"\s")
_READ: Final = (CONFIG_SUFFIX, ".yml", ".json")


class Spelled(NamedTuple):
    """What edited texts of configs spell.

    Args:
        layers: the texts, with those of the configs that they spell.
        files: the files that all these spell.
    """

    layers: Sequence[UnloadedConfig]
    files: Sequence[NamedFile]


def spelled_files(
    checked: Checked, work: Collection[Path] = (), *, given: Sequence[Path] | None = None
) -> Spelled:
    """What the texts of a config's files spell that are others than the loaded ones, sound YAML or not.

    Prose names much on which an agent works, so a word counts only if it is a path or the whole name of a file. It
    counts as a folder only where a text that the schema does not fit is a path, or is in a list, as the words of a
    command or a Home are. The folders of work, and those above, never count.

    Args:
        work: where other agents work.
        given: other files than the config's.
    """
    document = checked.document
    loaded = {file: document.sources.texts.get(name) for name, file in document.files.items()}
    layers: dict[Path, UnloadedConfig] = {}
    found: dict[NamedFile, None] = {}
    # A `.env` has values for other programs too.
    own = [file for file in (*loaded, *document.further) if file.name != ".env"]
    first = own if given is None else [*given]
    waiting = [*first]
    while waiting:
        for layer in with_extended(waiting.pop(), document.environ):
            at = layer.file.resolve()
            if at in layers or (layer.text is not None and layer.text == loaded.get(layer.file)):
                continue
            # A `package.json` in prose starts nothing; a file of MCP servers does, also one whose keys are misspelt.
            if layer.file not in first and layer.file.suffix == ".json" and not _has_servers(layer):
                continue
            layers[at] = layer
            text = _Text(checked, layer, work)
            files = [each for each in text.files() if each not in found]
            found |= dict.fromkeys(files)
            first += (servers := [*text.servers()])
            waiting += servers
            # Each may be a config, or a file of MCP servers, which names files too.
            waiting += [each.file for each in files if each.file.suffix in _READ and each.role != "absent"]
    return Spelled(tuple(layers.values()), tuple(found))


def fits(checked: Checked) -> bool:
    """Whether the schema fits the present texts of a config's files, so that it finds all that they name."""
    document = checked.document
    files = [file for file in document.files.values() if file.name != ".env"]
    layers = chain.from_iterable(with_extended(each, document.environ) for each in files)
    return all(
        each.trees and all(_fits(tree, document.schema or {}) for tree in each.trees) for each in layers
    )


def _fits(tree: Node, schema: Schema) -> bool:
    for layer in agents_layers(tree):
        for _, node, allowed in _unfit(layer, schema):
            # A number is filled in as a text, and `number` includes `integer`.
            is_number = "number" in allowed and type_name(node.value) == "integer"
            if not allowed or not (node.interpolated or is_number):
                return False
    return True


def _unfit(tree: Node, schema: Schema) -> Iterator[tuple[NodePath, Node, frozenset[str]]]:
    """The nodes of a tree whose type the schema does not allow there, with the types that it allows."""
    for path, node, places in walk_with(tree, schema):
        # These are a layer of their own.
        is_layer = path[:1] == ("agents",) and path[2:3] == ("overrides",) and path[3:]
        if not is_layer and type_name(node.value) not in (allowed := types(places)):
            yield path, node, allowed


class _Text:
    """Finds the files of one text."""

    def __init__(self, checked: Checked, layer: UnloadedConfig, work: Collection[Path]) -> None:
        self._schema = checked.document.schema or {}
        self._layer = layer
        self._environ = checked.document.environ
        own = project_of(checked.document, checked.config, checked.trust)
        self._project = replace(own, folders=tuple(dict.fromkeys((layer.file.parent, *own.folders, *work))))

    def files(self) -> Iterator[NamedFile]:
        trees, folders = self._layer.trees, self._project.folders
        text = _raw(self._layer.file) if self._layer.text is None else self._layer.text
        values = [node.value for tree in trees for _, node in walk(tree) if isinstance(node.value, str)]
        if not trees:
            filled = "\n".join(_filled(line, self._environ) for line in text.split("\n"))
            values = [each.strip() for each in _AROUND.split(filled)]
            yield from self._keys(values)
        words = map(_from_home, (*values, *_BETWEEN.split("\n".join((text, *values)))))
        named = {word: [_at(each, word) for each in folders] for word in words if is_path(word)}
        # A program may look for one word in the folder that another one names.
        every = [*chain.from_iterable(named.values())]
        inside = [*map(Path, islice(filter(os.path.isdir, every), MOST_BASES))]
        whole = [word for word, places in named.items() if any(map(os.path.isfile, places))]
        paths = [word for word in named if _is_path(word)]
        wide = replace(self._project, folders=tuple(dict.fromkeys((*folders, *inside))))
        for each in self._covered([*dict.fromkeys((*paths, *whole))], wide).named:
            # Not `main.py` for the word `main`.
            if not each.path.is_dir() and (_PATH.search(each.name) or each.name == each.path.name):
                yield NamedFile(each.path, "program")
        bases = dict.fromkeys((self._layer.file.parent, self._project.directory, *inside))
        for file in (base / word for base in bases for word in paths):
            is_near = os.path.isdir(file.parent)  # noqa: PTH112 - False also for a name that is too long
            if is_near and not os.path.lexists(file):
                yield NamedFile(file.with_name(escape(file.name)), "absent")
        yield from map(of_runner, looked_up(values, [each for each in bases if self._project.has(each)]))
        # The config of an agent, which may be named by its folder.
        configs = filter(os.path.isfile, (_at(place, DISCOVERED) for place in every))
        yield from (NamedFile(Path(each), "read") for each in configs)
        for layer in chain.from_iterable(map(agents_layers, trees)):
            yield from self._unfit(layer)

    def _keys(self, values: Sequence[str]) -> Iterator[NamedFile]:
        """The files of keys in a text that is no YAML, there: the one before says so, or what is in the file."""
        said = {
            file
            for name, value in pairwise(values)
            for _, file in (
                *key_files_of_entry(name, value, is_variable=False),
                *key_files_of_words([name, value]),
            )
        }
        for value in dict.fromkeys((*values, *said)):
            for place in (Path(_at(each, _from_home(value))) for each in self._project.folders):
                if is_file(place) and (value in said or written_in(file_text(place) or "")):
                    yield NamedFile(place, "sent", holds_keys=True)

    def servers(self) -> Iterator[Path]:
        """The files that it names as those of MCP servers."""
        for layer in chain.from_iterable(map(agents_layers, self._layer.trees)):
            for each in marked_values(layer, self._schema):
                if "servers" in each.executes:
                    yield self._layer.file.parent / expanded(each.text)

    def _unfit(self, tree: Node) -> Iterator[NamedFile]:
        """What texts name that the schema does not fit."""
        for path, node, _ in _unfit(tree, self._schema):
            if node.is_list:
                found = self._covered([each.value for each in node.value if isinstance(each.value, str)])
            elif isinstance(node.value, str) and isinstance(path[-1], str) and _is_path(node.value):
                found = self._covered([node.value])
                # It may be a file of keys.
                yield from (
                    NamedFile(each, "sent", holds_keys=True) for each in found.paths if each.is_file()
                )
            else:
                continue
            yield from (NamedFile(each, "program") for each in found.paths)
            yield from _absent(found)

    def _covered(self, words: Sequence[str], project: Project | None = None) -> Covered:
        return covered_by(
            Command("", ("", *words), cwd=str(self._layer.file.parent)), project or self._project
        )


def _has_servers(layer: UnloadedConfig) -> bool:
    return any(tree.value.keys() & SERVERS for tree in layer.trees)


def _filled(line: str, environ: Mapping[str, str]) -> str:
    try:
        return interpolate(line, environ).text
    except InterpolationError:
        return line


def _from_home(word: str) -> str:
    return str(expanded(word)) if word.startswith("~") else word


def _is_path(word: str) -> bool:
    return bool(_PATH.search(word)) and not _SPACE.search(word)


def _absent(found: Covered) -> Iterator[NamedFile]:
    return (NamedFile(Path(folder, pattern), "absent") for folder, pattern in found.absent)


def _raw(file: Path) -> str:
    """The letters of a file that is not UTF-8, or too long; those of UTF-16 too."""
    try:
        with file.open("rb") as stream:
            return stream.read(MAX_BYTES).decode("utf-8", "replace").replace("\0", "")
    except OSError:
        return ""


def _at(*parts: str | Path) -> str:
    # A text and no `Path`: a config has some thousand words.
    return os.path.join(*parts)  # noqa: PTH118
