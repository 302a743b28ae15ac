"""The layers of a config, read from disk: a file, what it extends, its overlay."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from glob import escape
from pathlib import Path
from typing import Final, NamedTuple

from zeus_runtime.config.layers.merge import RefPlaces, merge
from zeus_runtime.config.layers.plugin_home import (
    PREFIX,
    PluginHome,
    PluginHomes,
    plugin_named,
    presets_of,
    rules_of,
    split_preset,
)
from zeus_runtime.config.layers.upgrade import upgrade
from zeus_runtime.config.messages.diagnostics import ConfigError, Diagnostic, did_you_mean, listing
from zeus_runtime.config.yaml.reader import MAX_BYTES, decode, hint_for_pipe, read
from zeus_runtime.config.yaml.sources import Sources
from zeus_runtime.config.yaml.tree import Mark, Node, Origin
from zeus_runtime.cutting import cut_text
from zeus_runtime.disk_paths import expanded, is_file, is_folder, passes_only_links_above, real_path
from zeus_runtime.escaping import printable

DISCOVERED: Final = "zeus.yaml"
SERVICE_FILE: Final = "zeus-serve.yaml"
"""The settings of a service, which it reads from the working directory without being told."""
CONFIG_SUFFIX: Final = ".yaml"
"""Of the configs in a folder that a service runs."""
TEXT_SUFFIXES: Final = (CONFIG_SUFFIX, ".yml", ".json")
"""How the names of configs, settings and files of MCP servers end."""

_ENV_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def configs_in(folder: Path) -> Sequence[Path]:
    """The files of a folder that a service takes for configs and their overlays: its YAML files without settings."""
    found = sorted(folder.glob(f"*{CONFIG_SUFFIX}"))
    # A command of an agent may have made a folder of such a name.
    return [each for each in found if each.name != SERVICE_FILE and not each.is_dir()]


def any_layer(name: str, path: Path) -> None:
    """Permit each file as a layer."""


class _ReadLater(NamedTuple):
    """What a file extends that is not read yet, the weakest first.

    Args:
        folder: the file's folder.
        homes: where it looks presets up.
    """

    entries: Sequence[Node]
    folder: Path
    homes: Sequence[Path]


@dataclass
class Layers:
    """Reads files into one tree and remembers what it read.

    Args:
        directory: the working directory, which relative paths on the command line start from.
        homes: Home folders, nearest first, where presets are found.
        refs: where Refs are in the tree.
        plugin_homes: gives the plugins' Homes; asked only for a preset that no other Home has, or that names a plugin.
        stronger: layers that are laid over the files, strongest first, as far as they can be read beforehand: their
            `plugins` says whose Homes may be asked.
        sources: the texts read so far.
        folders: the folder of each source, which paths written in it start from.
        files: the file of each source that is one.
        absent: files that would have been read, had they been there.
        notices: what upgrades changed.
        problems: errors that do not prevent the rest from being read.
        read: the files' own trees, strongest first.
        named_homes: the Homes that files name, also where a stronger file names others.
        instead: texts that are read instead of files' contents.
        permit: raises for a file that may not be a layer, before anything of it is looked at; it gets the name that
            messages show, and the path.
        tolerates: whether a layer that is missing, not sound or in a circle counts as empty, and the rest is merged.
        near: further folders than the working directory whose files are the user's own.
    """

    directory: Path
    homes: Sequence[Path]
    refs: RefPlaces
    plugin_homes: PluginHomes = lambda rules: ()
    stronger: Callable[[], Iterable[Node]] = tuple
    sources: Sources = field(default_factory=Sources)
    folders: dict[str, Path] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    absent: list[Path] = field(default_factory=list)
    notices: list[Diagnostic] = field(default_factory=list)
    problems: list[Diagnostic] = field(default_factory=list)
    read: list[Node] = field(default_factory=list)
    named_homes: list[Path] = field(default_factory=list)
    instead: dict[Path, str] = field(default_factory=dict)
    permit: Callable[[str, Path], None] = any_layer
    tolerates: bool = False
    near: Sequence[Path] = ()
    _asked: Sequence[PluginHome] | None = None
    _waiting: list[_ReadLater] = field(default_factory=list)

    def shown(self, path: Path) -> str:
        """A path as messages show it: relative to the working directory where it is inside."""
        try:
            return path.relative_to(self.directory).as_posix()
        except ValueError:
            return str(path)

    def locate(self, source: str | Path | None, folder: Path | None = None) -> Path:
        """The file a source names: a preset of a Home, a path, or ``zeus.yaml`` in the working directory for None.

        A preset has priority over a file of the same name: an agent could write that file, and must not change its
        next config.

        Args:
            folder: where a relative path starts; None for the working directory.

        Raises:
            ConfigError: there is no such file, unless ``tolerates``; the message says what was looked for.
        """
        if source is None:
            return self._discover()
        if source == "":
            raise _lost(
                "file-not-found", "the config's name is empty", "name a file, a preset, or leave it out"
            )
        path = (self.directory if folder is None else folder) / expanded(source)
        preset = self.preset(source) if isinstance(source, str) else None
        if preset is not None:
            if os.path.lexists(path):
                self.notices.append(self._hides(str(source), preset))
            self._tell_of_the_projects(str(source), preset)
            return preset
        self.permit_file(path)
        try:
            path = config_at(path)
            if self.tolerates or path.exists():
                return path
            dangles = path.is_symlink()
        except OSError as error:
            message = f"{_cut(str(source))!r} names no file: {error.strerror}"
            raise _lost("file-not-found", message, "correct the name") from None
        if dangles:
            raise _lost(
                "file-not-found", f"{self.shown(path)} is a link to a file that is not there", "repair it"
            )
        if isinstance(source, str) and names_preset(source):
            raise self._unknown_preset(source, self.homes, None, also=self.shown(path))
        raise _lost("file-not-found", f"there is no file {printable(self.shown(path))}", _siblings(path))

    def preset(self, name: str) -> Path | None:
        """The preset that a word means; None for a path, and where no Home has a preset of this name.

        Raises:
            ConfigError: several plugins have one.
        """
        found = self._found_preset(name, self.homes, None) if names_preset(name) else None
        if found is None:
            # The file that the word means instead has its own rules for plugins.
            self._asked = None
        return found

    def file(self, path: Path) -> Node:
        """A file's tree, laid over what it extends.

        Raises:
            ConfigError: a file is missing, unreadable or not sound YAML, or files extend each other in a circle.
        """
        return self._file(path, self.homes, (), None)

    def text(self, text: str, name: str, folder: Path) -> Node:
        """The tree of a text without a file (standard input), laid over the configs that it extends."""
        return self._extended(text, name, folder, self.homes, ())

    def permit_file(self, path: Path) -> None:
        """Raise for a file that may not be a layer."""
        self.permit(self.shown(path), path)

    def is_preset(self, path: Path) -> bool:
        """Whether a located file is a preset of a Home, and therefore not a file of the user's project."""
        homes = [*self.homes, *(home.folder for home in self._asked or ())]
        return any(path.is_relative_to(home / "configs") for home in homes)

    def overlay(self, main: Path, env: str) -> Node:
        """The tree of the overlay for an environment: ``zeus.prod.yaml`` beside ``zeus.yaml``.

        Raises:
            ConfigError: the name is not valid, or the file does not exist.
        """
        path = overlay_path(main, env)
        if not path.exists():
            present = sorted(other.name for other in main.parent.glob(f"{main.stem}.*{main.suffix}"))
            hint = f"overlays here: {listing(present)}" if present else "write it, or leave --env out"
            raise _lost(
                "file-not-found", f"--env {env}: there is no file {printable(self.shown(path))}", hint
            )
        return self.file(path)

    def stacked(self, main: Path, env: str | None) -> Node:
        """A config's tree as a run has it: over what it extends, and with its overlay.

        Raises:
            ConfigError: as of ``file`` and ``overlay``.
        """
        root = self._layer(partial(self.file, main))
        if env is None:
            return root
        return merge(root, self._layer(partial(self.overlay, main, env)), self.refs)

    def _layer(self, read: Callable[[], Node]) -> Node:
        try:
            return read()
        except ConfigError:
            if not self.tolerates:
                raise
            return Node({}, (Origin(Mark("", 1, 1)),))

    def _discover(self) -> Path:
        path = self.directory / DISCOVERED
        if path.exists():
            return path
        other = self.directory / "zeus.yml"
        hint = "`zeus init` writes one; or name a file or a preset"
        if other.exists():
            hint = f"rename zeus.yml to {DISCOVERED}, or name it"
        presets = _presets(self.homes)
        message = f"there is no {DISCOVERED} in the working directory"
        raise _lost("file-not-found", message, f"{hint}: {listing(presets)}" if presets else hint)

    def _hides(self, name: str, preset: Path) -> Diagnostic:
        return self.sources.diagnostic(
            "preset-hides-file",
            f"{name!r} is a preset ({self.shown(preset)}), so the file ./{name} is not used",
            None,
            hint=f"write ./{name} for the file",
            severity="notice",
        )

    def _tell_of_the_projects(self, name: str, preset: Path) -> None:
        """Add a notice: a repository may contain a preset whose name the user takes for another preset's."""
        own = self.directory / ".zeus"
        others = [home / "configs" / preset.name for home in self.homes if home != own]
        hidden = next(filter(is_file, others), None)
        if hidden is not None and preset.parent.parent == own:
            self.notices.append(
                self.sources.diagnostic(
                    "preset-of-project",
                    f"{name!r} is this project's {self.shown(preset)}, not {self.shown(hidden)}",
                    None,
                    hint="look at it, or name the other file",
                    severity="notice",
                )
            )

    def _preset(self, name: str, homes: Sequence[Path], position: Mark | None) -> Path:
        found = self._found_preset(name, homes, position)
        if found is None:
            raise self._unknown_preset(name, homes, position)
        return found

    def _found_preset(self, name: str, homes: Sequence[Path], position: Mark | None) -> Path | None:
        plugin, bare = split_preset(name)
        for home in () if plugin else homes:
            if is_file(path := home / "configs" / f"{bare}.yaml"):
                return path
        asked = [home for home in self._of_plugins() if not plugin or plugin in home.names]
        # By plugin: two Homes of one plugin do not conflict, and its first one counts.
        found = {home.names: home for home in reversed(asked) if is_file(home.file(bare))}
        if len(found) == 1:
            return next(iter(found.values())).file(bare)
        if found:
            raise self._no_preset(
                f"the preset {name!r} is in the Homes of several plugins",
                f"write {' or '.join(sorted(home.written(bare) for home in found.values()))}",
                position,
                name,
            )
        return None

    def _unknown_preset(
        self, name: str, homes: Sequence[Path], position: Mark | None, *, also: str = ""
    ) -> ConfigError:
        near = _presets(homes)
        presets = [*near, *presets_of(self._of_plugins(), near)]
        close = did_you_mean(name, presets)
        tail = f"; did you mean {close!r}?" if close else ""
        message = (
            f"there is no file {_cut(also)} and no preset {_cut(name)!r}{tail}"
            if also
            else f"there is no preset {_cut(name)!r}{tail}"
        )
        looked = listing(self.shown(home / "configs") for home in homes) if homes else "no Home"
        return self._no_preset(message, f"presets: {listing(presets)}; looked in {looked}", position, name)

    def _no_preset(self, message: str, hint: str, position: Mark | None, name: str) -> ConfigError:
        return ConfigError(
            [self.sources.diagnostic("unknown-preset", message, position, hint=hint, width=len(name))]
        )

    def _of_plugins(self) -> Sequence[PluginHome]:
        if self._asked is None:
            self._asked = self.plugin_homes(rules_of((*self.stronger(), *self.read, *self._read_later())))
        return self._asked

    def _read_later(self) -> Iterator[Node]:
        """Yield the own trees of the files that are read after the present one, strongest first.

        Those that need the Homes of plugins are left out, and errors in the others are reported when they are read.
        """
        for waiting in reversed(self._waiting):
            near = homes_for(waiting.folder, self.directory, waiting.homes)
            for name in (entry.value for entry in reversed(waiting.entries)):
                places = [home / "configs" / f"{name}.yaml" for home in near]
                file = waiting.folder / expanded(name)
                path = next(filter(is_file, places if names_preset(name) else [file]), None)
                try:
                    if path is not None:
                        yield _read(self._content(path, name, None), name)
                except ConfigError:
                    continue

    def _file(
        self, path: Path, homes: Sequence[Path], chain: tuple[Path, ...], position: Mark | None
    ) -> Node:
        resolved = path.resolve()
        # Only the way to this file counts: two files may extend the same third one.
        if resolved in chain:
            shown = " → ".join(self.shown(Path(link)) for link in (*chain[chain.index(resolved) :], resolved))
            hint = "remove one of the `extends`"
            message = f"files extend each other in a circle: {shown}"
            raise ConfigError([self.sources.diagnostic("extends-cycle", message, position, hint=hint)])
        name = self.shown(path)
        text = self.instead.get(path)
        if text is None:
            text = self._content(path, name, position)
        self.files[name] = path
        return self._extended(text, name, path.parent, homes, (*chain, resolved))

    def _content(self, path: Path, name: str, position: Mark | None) -> str:
        self.permit_file(path)
        return decode(_bytes(path, name, self.sources, position), name)

    def _extended(
        self, text: str, name: str, folder: Path, homes: Sequence[Path], chain: tuple[Path, ...]
    ) -> Node:
        self.sources = self.sources.adding(name, text)
        self.folders[name] = folder
        root, upgraded = upgrade(self._tree(text, name), self.sources)
        self.problems += (each for each in upgraded if each.severity == "error")
        self.notices += (each for each in upgraded if each.severity != "error")
        # Before `extends` is followed: this file's `plugins` decides whose Homes may be asked for the presets.
        self.read.append(root)
        extends = root.value.get("extends")
        own = root._replace(value={key: node for key, node in root.value.items() if key != "extends"})
        own_homes = tuple(self._own_homes(root, folder))
        self.named_homes += own_homes
        if extends is None or extends.value is None:
            return own
        # What this file extends looks up its own presets in these Homes too.
        homes = (*own_homes, *homes)
        layers = [own]
        wrong: list[Diagnostic] = []
        entries = self._names(extends)
        # The strongest one, the last, is read first: its `plugins` decides whose Homes may be asked for the others.
        while entries:
            entry = entries.pop()
            self._waiting.append(_ReadLater(tuple(entries), folder, homes))
            try:
                layers.append(self._layer(partial(self._base, entry, folder, homes, chain)))
            except ConfigError as error:
                wrong[:0] = error.diagnostics
            self._waiting.pop()
        if wrong:
            raise ConfigError(wrong)
        merged = layers.pop()
        while layers:
            merged = merge(merged, layers.pop(), self.refs)
        return merged

    def _tree(self, text: str, name: str) -> Node:
        """A text's own tree; an error in a file elsewhere shows no line of it: the user may not have allowed it yet."""
        try:
            return _read(text, name)
        except ConfigError as error:
            real = Path(real_path(self.files.get(name, self.directory)))
            # A link in a project may lead to any folder, and the project may be elsewhere.
            near = (each for each in self.near if passes_only_links_above(each, self.directory))
            if any(real.is_relative_to(real_path(each)) for each in (self.directory, *near)):
                raise
            raise ConfigError([replace(each, source_line=None) for each in error.diagnostics]) from None

    def _own_homes(self, root: Node, folder: Path) -> Iterator[Path]:
        """The Homes that a file names, so that it can extend their presets; validation reports invalid entries."""
        homes = root.value.get("homes")
        for entry in homes.value if homes is not None and homes.is_list else ():
            # Variables are filled in after all files are read.
            if not isinstance(entry.value, str) or "$" in entry.value:
                continue
            plugin = plugin_named(entry.value)
            if plugin is None:
                home = folder / expanded(entry.value)
                self.permit_file(home / "configs")
                yield home
            else:
                yield from (home.folder for home in self._of_plugins() if plugin in home.names)

    def _base(self, entry: Node, folder: Path, homes: Sequence[Path], chain: tuple[Path, ...]) -> Node:
        name: str = entry.value
        position = entry.origin.value
        if names_preset(name):
            path = self._preset(name, homes_for(folder, self.directory, homes), position)
        else:
            path = folder / expanded(name)
            self.permit_file(path)
            if not is_file(path):
                lost = _cut(printable(self.shown(path)))
                message, hint = f"there is no file {lost} to extend", _siblings(path)
                diagnostic = self.sources.diagnostic(
                    "file-not-found", message, position, path=("extends",), hint=hint
                )
                raise ConfigError([diagnostic])
        return self._file(path, homes, chain, position)

    def _names(self, extends: Node) -> list[Node]:
        entries = extends.value if extends.is_list else [extends]
        wrong = [
            entry
            for entry in entries
            if not isinstance(entry.value, str) or not entry.value or "${" in entry.value
        ]
        problems = [
            self.sources.diagnostic(
                "wrong-type",
                "extends names a preset or a file, or lists several",
                entry.origin.value,
                path=("extends",),
                hint="write `extends: default` or `extends: [default, ./base.yaml]`; variables are not filled in here",
            )
            for entry in wrong
        ]
        if not entries:
            problems = [
                self.sources.diagnostic(
                    "wrong-length",
                    "extends lists nothing",
                    extends.origin.value,
                    path=("extends",),
                    hint="remove it",
                )
            ]
        if problems and not self.tolerates:
            raise ConfigError(problems)
        return [entry for entry in entries if entry not in wrong]


# A config is read with each of its overlays, and many extend the same preset.
_read: Final = lru_cache(maxsize=64)(read)


def homes_for(folder: Path, directory: Path, homes: Sequence[Path]) -> list[Path]:
    """The Homes where a file's presets and plugin files are looked up: the project's only for the project's own files.

    A config of the user's own that says ``extends: default`` must not get another ``default`` in each repository, and
    the permission that was given to its plugin files must not execute the repository's.

    Args:
        folder: where the file is.
        directory: the working directory.
        homes: all Homes, nearest first.
    """
    project = directory / ".zeus"
    if folder.resolve().is_relative_to(directory.resolve()):
        return list(homes)
    return [home for home in homes if home != project]


def folder_of(node: Node, folders: Mapping[str, Path], otherwise: Path) -> Path:
    """The folder where a relative path in a value starts: that of the file it is written in.

    Args:
        folders: the folder of each source.
        otherwise: the folder of a source that is not among these.
    """
    return folders.get(node.origin.value.source, otherwise)


def config_at(path: Path) -> Path:
    """The config that a path means: of a folder, its ``zeus.yaml``."""
    return path / DISCOVERED if is_folder(path) else path


def overlay_path(main: Path, env: str) -> Path:
    """Where the overlay for an environment is.

    Raises:
        ConfigError: the name is not valid.
    """
    if not _ENV_NAME.fullmatch(env):
        raise _lost(
            "file-not-found", f"--env {env!r} is not a valid name", "use letters, digits, `-` and `_`"
        )
    return main.with_name(f"{main.stem}.{env}{main.suffix}")


def overlays(main: Path) -> list[str]:
    """The environments for which there are overlays beside a config."""
    beside = main.parent.glob(f"{escape(main.stem)}.*{escape(main.suffix)}")
    names = (each.name.removeprefix(f"{main.stem}.").removesuffix(main.suffix) for each in beside)
    return sorted(name for name in names if _ENV_NAME.fullmatch(name))


def _presets(homes: Sequence[Path]) -> list[str]:
    found = (path.stem for home in homes for path in (home / "configs").glob("*.yaml"))
    return sorted({name for name in found if _is_name(name) and name != "profiles"})


def _is_name(source: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z0-9_-]+", source))


def names_preset(source: str) -> bool:
    return _is_name(source) or (source.startswith(PREFIX) and _is_name(split_preset(source)[1]))


def _bytes(path: Path, name: str, sources: Sources, position: Mark | None) -> bytes:
    try:
        with open(path, "rb", opener=_open_written) as file:
            # One byte too many is enough for `decode` to refuse the file.
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        message = f"{name} cannot be read: {error.strerror}"
        hint = "name a readable YAML file"
        raise ConfigError([sources.diagnostic("unreadable-file", message, position, hint=hint)]) from None


def _open_written(path: str, flags: int) -> int:
    """Open for reading without waiting for the writer of a pipe."""
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    # Only the opening must not wait: a pipe that has a writer is read to its end.
    os.set_blocking(descriptor, True)
    return descriptor


def _siblings(path: Path) -> str:
    if hint := hint_for_pipe(str(path)):
        return hint
    try:
        present = sorted(other.name for other in path.parent.iterdir() if other.suffix in (".yaml", ".yml"))
    except OSError:
        there = os.path.lexists(path.parent)
        return "the folder cannot be read" if there else "the folder is not there either"
    near = did_you_mean(path.name, [name for name in present if name != path.name])
    if near:
        return f"did you mean {near!r}?"
    return f"YAML files there: {listing(present)}" if present else "there is no YAML file in that folder"


def _lost(code: str, message: str, hint: str) -> ConfigError:
    return ConfigError([Sources().diagnostic(code, message, None, hint=hint)])


def _cut(name: str) -> str:
    return cut_text(name, 200)
