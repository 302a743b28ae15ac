"""The inputs for finding what a YAML file names that needs permission, and whose a part is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from zeus_runtime.disk_paths import is_in
from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from zeus_runtime.config import Config, Document
    from zeus_runtime.plan.carried_secrets import Carried
    from zeus_runtime.registry import Registry
    from zeus_runtime.trust.decision import Trust
    from zeus_runtime.trust.masking import PartMask
    from zeus_runtime.trust.parts import Part


@dataclass(frozen=True)
class FileSource:
    """The inputs for finding what one YAML file names: files elsewhere, and places that data is sent to.

    Args:
        document: the checked document, with absolute paths.
        trust: decides about the parts.
        installed: the Homes of installed distributions, with links resolved.
    """

    document: Document
    trust: Trust
    installed: tuple[Path, ...]

    @cached_property
    def carried(self) -> tuple[Carried, ...]:
        """The options with a secret of the environment."""
        from zeus_runtime.plan.carried_secrets import carried_secrets

        return carried_secrets(self.document, self.trust)


@dataclass(frozen=True)
class PartSource(FileSource):
    """The inputs for finding the parts of one config.

    Args:
        config: the document, typed.
        registry: the plugins, and the plugin files that the config names.
        homes: the Homes, nearest first.
    """

    config: Config
    registry: Registry
    homes: tuple[Path, ...]


def part_source(
    document: Document, config: Config, registry: Registry, homes: tuple[Path, ...], trust: Trust
) -> PartSource:
    """The inputs for finding the parts of one config."""
    named = ((plugin, home) for plugin, home in registry.homes if plugin.distribution is not None)
    installed = tuple(home.resolve() for _, home in named)
    return PartSource(document, trust, installed, config, registry, homes)


def with_owner(ground: FileSource, part: Part) -> Part:
    """The part, marked with whether it is the user's own."""
    from dataclasses import replace

    return replace(part, own=_is_own(ground, part))


def _is_own(ground: FileSource, part: Part) -> bool:
    """Whether everything in a part comes from the user's Home, an installed distribution, or the process.

    A ``.env`` that adds variables is in the project, and so may be the values that use them. A sub-agent does the tasks
    of the config above it, which may give it instructions too, so that config counts as well.
    """
    document, trust = ground.document, ground.trust
    places = (*_folders_with_above(document), *part.files)
    has_own_variables = document.environ.keys() <= trust.variables
    return has_own_variables and all(
        any(is_in(place, str(home)) for home in own_homes(ground))
        for place in (str(each.resolve()) for each in places)
    )


def _folders_with_above(document: Document) -> Iterator[Path]:
    """The folders of a config's files, and of those of the configs above a sub-agent."""
    yield from document.folders.values()
    for above in {id(each.document): each.document for each in document.inherited}.values():
        yield from _folders_with_above(above)


def own_homes(ground: FileSource) -> tuple[Path, ...]:
    """The Homes that the user made or installed, with links resolved; none that lies in the project."""
    return (*ground.trust.own_homes, *ground.trust.bundled, *ground.installed)


def mask_of(document: Document, trust: Trust) -> PartMask:
    """What is masked in the lines of a config's parts."""
    from zeus_runtime.trust.masking import PartMask

    own = {name: value for name, value in document.environ.items() if name in trust.variables}
    return PartMask.of(own, document.redactor)


def inner_folders(ground: FileSource) -> tuple[Path, Path]:
    """The folders whose files are the project's: the working directory and that of the outermost config."""
    return ground.document.directory.resolve(), Path(ground.trust.folder)
