"""A Document: one config, merged and filled in, every value knowing where it was written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from zeus_runtime.config.messages.diagnostics import ConfigError, Diagnostic, Severity, in_order
from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.config.yaml.sources import Sources
from zeus_runtime.config.yaml.tree import Mark, Node, Origin, Path, find, nearest, plain, show_path
from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from zeus_runtime.config.model import Config, Plugins
    from zeus_runtime.config.schema.marked import Marked


class Early(NamedTuple):
    """The parts of a config that Zeus must know before it loads components.

    Args:
        plugins: which plugins may load.
        homes: further Homes: absolute paths, or ``plugin:NAME``.
    """

    plugins: Plugins
    homes: tuple[str, ...]


class Inherited(NamedTuple):
    """Values of a sub-agent's config that may be written in the config above.

    Args:
        document: the config above.
        at: the place of the values in it.
        to: their place in the sub-agent's config.
    """

    document: Document
    at: Path
    to: Path = ()


@dataclass(frozen=True)
class Document:
    """A config as ``load`` made it. Its ``repr`` shows no value.

    Args:
        source: the main file's name as messages show it; ``<stdin>`` for standard input.
        path: the main file; None for standard input.
        root: the tree.
        sources: the texts it was read from, and the redactor.
        folders: the folder of each source.
        files: every file it was read from, by the name that messages show: what it extends, the main file, the overlay,
            ``.env``.
        further: other files that count too, whether they are there or not: a ``.env`` that is absent, and files with
            secrets that the config names.
        environ: the process environment with ``.env`` beneath it.
        directory: the working directory.
        notices: warnings that are not errors (an upgraded file, an unknown model).
        problems: errors found while loading (unset variables); ``check`` reports them with its own.
        schema: the schema that the document was checked against; None before the check.
        replaced: the trees of its files before they were merged, and with the defaults of their variables. A value that
            a stronger file or a variable replaces is a secret too: a tool may read the file.
        defaults: the trees of its files with the defaults of their variables, where a variable replaces one.
        inherited: of a sub-agent's config, the values that may be written in the config above.
        prefix: stands before the address of a value that is written in a sub-agent's own file; names this file.
        homes: the Homes that its files name, also where a stronger file, or ``--set``, names others for this run: their
            ``extends`` looks there, and the next run may.
    """

    source: str
    path: FilePath | None
    root: Node
    sources: Sources
    folders: Mapping[str, FilePath]
    files: Mapping[str, FilePath]
    environ: Mapping[str, str]
    directory: FilePath
    notices: tuple[Diagnostic, ...] = ()
    problems: tuple[Diagnostic, ...] = ()
    schema: Mapping[str, Any] | None = field(default=None)
    replaced: tuple[Node, ...] = ()
    defaults: tuple[Node, ...] = ()
    homes: tuple[FilePath, ...] = ()
    further: tuple[FilePath, ...] = ()
    inherited: tuple[Inherited, ...] = ()
    prefix: str = ""

    def __repr__(self) -> str:
        return f"Document({self.source!r})"

    @property
    def redactor(self) -> Redactor:
        """Masks the config's secrets in any text or JSON."""
        return self.sources.redactor

    @cached_property
    def value(self) -> dict[str, Any]:
        """The merged JSON. It holds secrets in clear: pass it through ``redactor.json`` before showing it."""
        value: dict[str, Any] = plain(self.root)
        return value

    def get(self, path: Path, default: Any = None) -> Any:
        """The JSON value at a path, or ``default``."""
        node = find(self.root, path)
        return default if node is None else plain(node)

    def position(self, path: Path, at: Literal["key", "value"] = "value") -> Mark:
        """Where the value at ``path``, or its key, is written; for a path that is not there, where it would belong."""
        node, found = nearest(self.root, path)
        origin = node.origin
        # Of a missing key, the place is the key of the mapping that it would be in.
        return origin.key if origin.key and (at == "key" or found != path) else origin.value

    def address(self, path: Path) -> str:
        """The place of a value in the config and the file that has it, as ``--set`` writes it.

        All agents that share a value have one address for it. The address of a sub-agent's own value is
        ``agents.NAME.overrides…``; if its config is another file, the name of the file is before the path.
        """
        written = find(self.root, path)
        for document, at, to in self.inherited:
            if path[: len(to)] != to:
                continue
            there = (*at, *path[len(to) :])
            above = find(document.root, there)
            if written is None or above is None:
                # One that is written nowhere, such as a default, belongs to the config that both share.
                is_same = written is above and not at
            else:
                is_same = written.origin.value == above.origin.value
            if is_same:
                return document.address(there)
        return f"{self.prefix}{show_path(path)}"

    def origins(self, path: Path) -> tuple[Origin, ...]:
        """Where the value at ``path`` was written, the newest first; the others are what it overrode."""
        node = find(self.root, path)
        return (
            ()
            if node is None
            else tuple(origin for origin in node.origins if not origin.implied) or node.origins
        )

    def diagnostic(
        self,
        path: Path,
        code: str,
        message: str,
        *,
        at: Literal["key", "value"] = "value",
        hint: str | None = None,
        severity: Severity = "error",
    ) -> Diagnostic:
        """A Diagnostic about the value at ``path``, with its place, source line and the chain of overlays.

        For checks beyond the schema, such as a missing file or an unknown model. Secrets in ``message`` and ``hint``
        are masked.
        """
        origins = self.origins(path)
        related: tuple[tuple[str, Mark | None], ...] = ()
        if len(origins) > 1:
            related = ((_chain(origins), None),)
        mark = self.position(path, at)
        return self.sources.diagnostic(
            code,
            message,
            mark,
            path=path,
            width=self._width(path, mark),
            related=related,
            hint=hint,
            severity=severity,
        )

    def error(self, diagnostics: Iterable[Diagnostic]) -> ConfigError:
        """A ConfigError of diagnostics, in order of position."""
        return ConfigError(in_order(diagnostics, self.sources.texts))

    def explain(self, path: str) -> str:
        """Where a value comes from, in words: ``limits.max_steps = 5`` and the places that wrote it.

        Args:
            path: as ``--set`` writes it.

        Raises:
            ConfigError: neither the config nor its schema has such a value.
        """
        from zeus_runtime.config.messages.explain import explain_value

        return explain_value(self, path)

    @cached_property
    def marked(self) -> tuple[Marked, ...]:
        """The values of a checked config that the schema marks: paths, what is executed, where data is sent."""
        from zeus_runtime.config.schema.marked import marked_values

        assert self.schema is not None, "a document that was checked has its schema"
        return tuple(marked_values(self.root, self.schema))

    def config(self) -> Config:
        """The typed Config; relative paths in it are absolute if the document was checked.

        Names that the database stores with each session or memory have known secrets masked.

        Raises:
            ConfigError: the value does not fit, which cannot be after ``check``.
        """
        from zeus_runtime.config.model import Config
        from zeus_runtime.config.schema.construct import BuildError, build

        if self.problems:
            raise self.error(self.problems)
        # The schema allows any key that begins so, and the type has none.
        own = {key: value for key, value in self.value.items() if not key.startswith("x-")}
        try:
            config: Config = build(Config, own)
        except BuildError as error:
            raise self.error([self.diagnostic(error.path, "wrong-type", error.message)]) from None
        return self._without_secrets(config)

    def _without_secrets(self, config: Config) -> Config:
        """The config with the secrets masked in the names that are stored, so that each reader means the same name."""
        memory, text = config.memory, self.redactor.text
        if memory is not None:
            project = None if memory.project is None else text(memory.project)
            memory = replace(memory, user=text(memory.user), project=project)
        return replace(config, name=text(config.name), memory=memory)

    def _width(self, path: Path, mark: Mark) -> int:
        node, _ = nearest(self.root, path)
        if mark == node.origin.key:
            return len(str(path[-1])) if path and find(self.root, path) is node else 1
        if node.is_map or node.is_list:
            return 1
        line = self.sources.line(mark) or ""
        return _scalar_width(line[mark.column - 1 :])


def _chain(origins: tuple[Origin, ...]) -> str:
    return " overrides ".join(origin.value.short for origin in origins)


def _scalar_width(text: str) -> int:
    import re

    match = re.match(r'"(?:[^"\\]|\\.)*"|\'(?:[^\']|\'\')*\'|[^#,\]}]*?(?=\s+#|\s*[,\]}]|\s*$)', text)
    return max(1, match.end() if match else 1)
