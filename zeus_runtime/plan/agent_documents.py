"""The configs of the agents under ``agents``, as they are read; and the folders that all these agents work in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from zeus_runtime.config.document import Inherited
from zeus_runtime.config.layers.files import folder_of, homes_for
from zeus_runtime.config.layers.plugin_home import plugin_named
from zeus_runtime.config.yaml.tree import find, plain, show_path
from zeus_runtime.disk_paths import expanded, is_file_name, shown_below
from zeus_runtime.errors import ZeusError
from zeus_runtime.registry import installed_homes, search_path
from zeus_runtime.trust.layers import permit_layer

if TYPE_CHECKING:
    from zeus_runtime.config import Document
    from zeus_runtime.config.model import SubAgent
    from zeus_runtime.config.yaml.tree import Node
    from zeus_runtime.plan.validated import Checked


def own_document(checked: Checked, name: str, spec: SubAgent) -> Document:
    """The config of an agent under ``agents`` as it was read, with its ``overrides`` applied."""
    return _document(checked, checked.document, checked.homes, name, spec.config)


def work_folders(checked: Checked) -> tuple[Path, ...]:
    """The folders of the workspaces of an agent and of its sub-agents at any depth: one of them may write there.

    The configs of the sub-agents are not checked yet, so one that cannot be read has none: the planner reports it.
    """
    folders = _folders(checked.directory, checked.document)
    if checked.config.agents:
        depth = checked.config.limits.max_subagent_depth
        for document in _below(checked, checked.document, checked.homes, (), depth):
            folders += _folders(checked.directory, document)
    return tuple(dict.fromkeys(folders))


def _below(
    checked: Checked, document: Document, homes: Sequence[Path], above: tuple[Path, ...], depth: int
) -> Iterator[Document]:
    agents = document.get(("agents",))
    if depth <= 0 or not isinstance(agents, Mapping):
        return
    above = above if document.path is None else (*above, document.path.resolve())
    for name, spec in agents.items():
        given = spec if isinstance(spec, Mapping) else {}
        config = given.get("config")
        try:
            found = _document(checked, document, homes, name, config if isinstance(config, str) else None)
        except ZeusError:
            continue
        yield found
        if isinstance(config, str) and found.path is not None and found.path.resolve() not in above:
            own = homes_of(checked, found.root, found.folders, checked.given_environ)
            yield from _below(checked, found, own, above, depth - 1)


def _folders(directory: Path, document: Document) -> list[Path]:
    routes = document.get(("workspace", "routes"))
    named = [document.get(("workspace", "root")), *(routes.values() if isinstance(routes, Mapping) else ())]
    return [directory / expanded(each) for each in named if isinstance(each, str) and "\0" not in each]


def homes_of(
    checked: Checked, root: Node, folders: Mapping[str, Path], environ: Mapping[str, str]
) -> tuple[Path, ...]:
    """The Homes in which a config's tree looks its agents' configs up, nearest first; those that are there.

    Args:
        checked: a config that is read in the same directory.
        folders: the folder of each source.
        environ: the variables of the start.
    """
    homes = find(root, ("homes",))
    entries = homes.value if homes is not None and homes.is_list else ()
    named = [
        each.value
        if plugin_named(each.value)
        else str(folder_of(each, folders, checked.directory) / expanded(each.value))
        for each in entries
        if is_file_name(each.value)
    ]

    def of_plugin(name: str, _: object) -> Iterator[Path]:
        plugins = find(root, ("plugins",))
        rules = {} if plugins is None else plain(plugins)
        return (home.folder for home in installed_homes(rules, checked.given_environ) if name in home.names)

    return search_path(
        directory=checked.directory, environ=environ, homes=named, homes_of=of_plugin, tolerates=True
    )


def _document(
    checked: Checked, above: Document, homes: Sequence[Path], name: str, config: str | None
) -> Document:
    """The config of one agent, in the config ``above`` it.

    Args:
        checked: the outermost config that is checked: its folder, environment and trust.
        homes: those of the config above.
    """
    document = _own(checked, above, homes, name, config)
    overrides = find(above.root, ("agents", name, "overrides"))
    root = as_agent(document.root, above.root, overrides, shared=config is None)
    if root is document.root:
        return document
    # Such values are written in the parent's file: their relative paths start there, and errors show its lines.
    document = replace(
        document,
        folders={**above.folders, **document.folders},
        sources=document.sources.joined(above.sources),
    )
    return laid_over(document, root, shared=config is None)


def as_agent(root: Node, above: Node, overrides: Node | None, *, shared: bool) -> Node:
    """The tree of a config as an agent's, with what the config above it lays over it and gives it.

    Args:
        overrides: of the agent's entry.
        shared: the config is that of the agent above.
    """
    from zeus_runtime.config.layers.merge import merge, ref_places
    from zeus_runtime.config.model import Config

    if overrides is not None and overrides.is_map and overrides.value:
        root = merge(root, overrides, ref_places(Config))
    return root if shared else _in_workspace_of(above, root)


def _in_workspace_of(above: Node, root: Node) -> Node:
    """A config with the keys of ``workspace`` of the config above that it does not write, unless it writes a root.

    An agent whose parent has a folder for each session or user shares that one.
    """
    given, own = find(above, ("workspace",)), find(root, ("workspace",))
    if given is None or not given.is_map:
        return root
    if own is None:
        return root._replace(value={**root.value, "workspace": given})
    if not own.is_map or "root" in own.value:
        return root
    shared = {"per"} if find(given, ("per",)) is not None and given.value["per"].value is not None else set()
    written = {key: each for key, each in own.value.items() if key not in shared}
    return root._replace(value={**root.value, "workspace": own._replace(value={**given.value, **written})})


def _own(checked: Checked, above: Document, homes: Sequence[Path], name: str, config: str | None) -> Document:
    """The config of one agent before its overrides, with where its values may be written."""
    entry = ("agents", name)
    inherited = (
        Inherited(above, (*entry, "overrides")),
        *(Inherited(above, (*entry, key), (key,)) for key in ("instructions", "output")),
        Inherited(above, ("models", "subagents"), ("model",)),
        Inherited(above, ("workspace",), ("workspace",)),
    )
    if config is None:
        # First the config that both share: a value that is nowhere belongs to it.
        inherited = (Inherited(above, ()), *inherited)
        return replace(above, inherited=inherited, prefix=f"{above.prefix}{show_path(entry)}: ")
    document = _loaded(checked, above, homes, name, config)
    file = config if document.path is None else shown_below(document.path.resolve(), document.directory)
    return replace(document, inherited=inherited, prefix=f"{file}: ")


def laid_over(document: Document, root: Node, *, shared: bool) -> Document:
    """An agent's config with what its entry under ``agents`` lays over it.

    Args:
        root: the resulting tree.
        shared: the config is that of the agent above, whose plan protects what its values name.
    """
    replaced = document.replaced if shared else (*document.replaced, document.root)
    return replace(document, root=root, replaced=replaced)


def _loaded(checked: Checked, above: Document, homes: Sequence[Path], name: str, config: str) -> Document:
    from zeus_runtime.config import load

    folder = checked.directory if above.path is None else above.path.parent
    # An agent that a tool brings is not written in the config.
    if (written := find(above.root, ("agents", name, "config"))) is not None:
        folder = folder_of(written, above.folders, folder)
    return load(
        config,
        folder=folder,
        environ=above.environ,
        homes=homes_for(folder, checked.directory, homes),
        plugin_homes=partial(installed_homes, environ=checked.given_environ),
        directory=checked.directory,
        permit=partial(permit_layer, checked.trust, checked.directory),
    )
