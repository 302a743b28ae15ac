"""The files that texts which decide spell anywhere: their schema does not find them while a text does not fit it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from glob import escape
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from zeus_runtime.config.layers.files import CONFIG_SUFFIX, DISCOVERED, TEXT_SUFFIXES
from zeus_runtime.config.schema.marked import marked_values
from zeus_runtime.config.secrets.sound_texts import SERVERS, is_sound_config, misfit_values, misfits
from zeus_runtime.config.secrets.unloaded_configs import (
    agents_layers,
    file_text,
    letters,
    spelled_key_files,
    spelled_values,
    with_extended,
    written_in,
)
from zeus_runtime.config.sqlite_url import database_file
from zeus_runtime.config.yaml.tree import walk
from zeus_runtime.disk_paths import expanded, is_file, is_file_name, place_of
from zeus_runtime.errors import MissingError
from zeus_runtime.plan.executed_parts import project_of
from zeus_runtime.plan.named_files import NamedFile, of_runner
from zeus_runtime.trust.command_words import is_path
from zeus_runtime.trust.databases import is_database
from zeus_runtime.trust.name_search import MOST_BASES
from zeus_runtime.trust.package_runners import looked_up
from zeus_runtime.trust.parts import Command, covered_by

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.sound_texts import Searched
    from zeus_runtime.config.secrets.unloaded_configs import UnloadedConfig
    from zeus_runtime.config.yaml.tree import Node
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.trust.command_files import Covered
    from zeus_runtime.trust.parts import Project

_BETWEEN: Final = re.compile(r"(?:[\s\"'`\[\]{}(),:;|&<>=]|\.(?=\s|$))+")
"""What is between the paths of a text: the signs of YAML, of a shell, and of sentences."""
_PATH: Final = re.compile(r"/|\w\.\w")
_SPACE: Final = re.compile(r"\s")
_FOLDER: Final = re.compile(r"(?:\.{0,2}|~\w*)/")
"""How a folder begins that counts: one without is often a name in prose, such as `src/`."""


class Spelled(NamedTuple):
    """What texts spell.

    Args:
        layers: the texts, with those of the configs that they spell.
        files: the files that all these spell.
    """

    layers: Sequence[UnloadedConfig]
    files: Sequence[NamedFile]


def spelled_files(
    checked: Checked, work: Collection[Path] = (), *, given: Mapping[Path, Searched] | None = None
) -> Spelled:
    """What the texts of a config's files spell that are others than the loaded ones, or those of other files.

    Prose names much on which an agent works, so a word counts only if it is a path or the whole name of a file. It
    counts as a folder only where a text that the schema does not fit is a path, or is in a list, as the words of a
    command or a Home are. The folders of work, and those above, never count.

    Args:
        work: where other agents work.
        given: other files than the config's, each with what counts of it; the same counts of those that it spells.
    """
    document = checked.document
    loaded = {file: document.sources.texts.get(name) for name, file in document.files.items()}
    layers: dict[str, UnloadedConfig] = {}
    found: dict[NamedFile, None] = {}
    if given is None:
        # A `.env` has values for other programs too.
        given = {file: "text" for file in (*loaded, *document.further) if file.name != ".env"}
    first = {*given}
    waiting = [*given.items()]
    while waiting:
        file, searched = waiting.pop()
        for layer in with_extended(file, document.environ):
            at = place_of(layer.file)
            if at in layers or (layer.text is not None and layer.text == loaded.get(layer.file)):
                continue
            # A `package.json` in prose starts nothing; a file of MCP servers does, also one whose keys are misspelt.
            if layer.file not in first and layer.file.suffix == ".json" and not _has_servers(layer):
                continue
            layers[at] = layer
            text = _Text(checked, layer, work, searched)
            files = [each for each in text.files() if each not in found]
            found |= dict.fromkeys(files)
            servers = [*text.servers()]
            first |= {*servers}
            waiting += [(each, "text") for each in servers]
            # Each may be a config, or a file of MCP servers, which names files too.
            waiting += [
                (each.file, "text" if each.file.suffix == ".json" else searched)
                for each in files
                if each.file.suffix in TEXT_SUFFIXES and each.role != "absent"
            ]
            # A folder may be a Home with presets.
            folders = [each.file / "configs" for each in files if each.role == "program"]
            waiting += [(each, searched) for folder in folders for each in folder.glob(f"*{CONFIG_SUFFIX}")]
    return Spelled(tuple(layers.values()), tuple(found))


def fits(checked: Checked) -> bool:
    """Whether the present texts of a config's files are sound."""
    document = checked.document
    files = [file for file in document.files.values() if file.name != ".env"]
    layers = chain.from_iterable(with_extended(each, document.environ) for each in files)
    return all(is_sound_config(each, document.schema or {}) for each in layers)


class _Text:
    """Finds the files of one text."""

    def __init__(
        self, checked: Checked, layer: UnloadedConfig, work: Collection[Path], searched: Searched
    ) -> None:
        self._schema = checked.document.schema or {}
        self._layer = layer
        self._searched = searched
        self._environ = checked.document.environ
        own = project_of(checked.document, checked.config, checked.trust)
        self._project = replace(own, folders=tuple(dict.fromkeys((layer.file.parent, *own.folders, *work))))

    def files(self) -> Iterator[NamedFile]:
        trees, folders = self._layer.trees, self._project.folders
        text = "" if trees and self._searched != "text" else letters(self._layer)
        values = [*self._values()]
        if not trees:
            yield from self._keys(values)
            yield from self._folders(values)
        yield from self._databases(values)
        words = map(_from_home, (*values, *_BETWEEN.split("\n".join((text, *values)))))
        named = {word: [_at(each, word) for each in folders] for word in words if is_path(word)}
        # A program may look for one word in the folder that another one names.
        every = [*chain.from_iterable(named.values())]
        inside = [*map(Path, islice(filter(os.path.isdir, every), MOST_BASES))]
        whole = [word for word, places in named.items() if any(map(os.path.isfile, places))]
        paths = [word for word in named if _is_path(word)]
        wide = replace(self._project, folders=tuple(dict.fromkeys((*folders, *inside))))
        covered = self._covered([*dict.fromkeys((*paths, *whole))], wide)
        for each in covered.named:
            # Not `main.py` for the word `main`.
            if not each.path.is_dir() and (_PATH.search(each.name) or each.name == each.path.name):
                yield NamedFile(each.path, "program")
                if is_database(each.path):
                    yield NamedFile(each.path, "database", holds_keys=True)
        bases = dict.fromkeys((self._layer.file.parent, self._project.directory, *inside))
        for file in (base / word for base in bases for word in paths):
            is_near = os.path.isdir(file.parent)  # noqa: PTH112 - False also for a name that is too long
            if is_near and not os.path.lexists(file):
                yield NamedFile(file.with_name(escape(file.name)), "absent")
        runners = looked_up(values, [each for each in bases if self._project.has(each)])
        yield from map(of_runner, (*runners, *covered.looked_up))
        # The config of an agent, which may be named by its folder.
        configs = filter(os.path.isfile, (_at(place, DISCOVERED) for place in every))
        yield from (NamedFile(Path(each), "read") for each in configs)
        for tree in self._trees() if self._searched != "values" else ():
            yield from self._unfit(tree)

    def _trees(self) -> Iterator[Node]:
        return chain.from_iterable(map(agents_layers, self._layer.trees))

    def _values(self) -> Iterator[str]:
        if not self._layer.trees:
            yield from spelled_values(self._layer, self._environ)
        elif self._searched == "misfits":
            yield from misfit_values(self._layer, self._schema)
        else:
            for path, node in chain.from_iterable(map(walk, self._layer.trees)):
                if isinstance(node.value, str):
                    # In a list of settings, a plain word is the name of a right or of a host.
                    is_word = self._searched == "values" and isinstance(path[-1], int)
                    yield from () if is_word and not _is_path(node.value) else (node.value,)
                elif self._searched == "values":
                    yield from (each for each in path[-1:] if isinstance(each, str) and _is_path(each))

    def _databases(self, values: Sequence[str]) -> Iterator[NamedFile]:
        for value in filter(is_file_name, values):
            with suppress(MissingError):
                file = database_file(value, self._project.directory)
                yield from () if file is None else (NamedFile(file, "database", holds_keys=True),)

    def _keys(self, values: Sequence[str]) -> Iterator[NamedFile]:
        """The files of keys in a text that cannot be parsed, there: the one before says so, or what is in the file."""
        said = {file for _, file in spelled_key_files(values)}
        for value in dict.fromkeys((*values, *said)):
            for place in (Path(_at(each, _from_home(value))) for each in self._project.folders):
                if is_file(place) and (value in said or written_in(file_text(place) or "")):
                    yield NamedFile(place, "sent", holds_keys=True)

    def _folders(self, values: Iterable[str]) -> Iterator[NamedFile]:
        """The folders in a text that cannot be parsed, such as Homes."""
        found = self._covered([_from_home(each) for each in values if _FOLDER.match(each)])
        yield from (NamedFile(each, "program") for each in found.paths if each.is_dir())

    def servers(self) -> Iterator[Path]:
        """The files that it names as those of MCP servers."""
        for tree in self._trees():
            for each in marked_values(tree, self._schema):
                if "servers" in each.executes:
                    yield self._layer.file.parent / expanded(each.text)

    def _unfit(self, tree: Node) -> Iterator[NamedFile]:
        """What texts name that the schema does not fit."""
        for path, node, _ in misfits(tree, self._schema):
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
            yield from (NamedFile(Path(folder, pattern), "absent") for folder, pattern in found.absent)

    def _covered(self, words: Sequence[str], project: Project | None = None) -> Covered:
        return covered_by(
            Command("", ("", *words), cwd=str(self._layer.file.parent)), project or self._project
        )


def _has_servers(layer: UnloadedConfig) -> bool:
    if not layer.trees:
        return any(f'"{key}"' in letters(layer) for key in SERVERS)
    return any(tree.value.keys() & SERVERS for tree in layer.trees)


def _from_home(word: str) -> str:
    return str(expanded(word)) if word.startswith("~") else word


def _is_path(word: str) -> bool:
    return bool(_PATH.search(word)) and not _SPACE.search(word)


def _at(*parts: str | Path) -> str:
    # A text and no `Path`: a config has some thousand words.
    return os.path.join(*parts)  # noqa: PTH118
