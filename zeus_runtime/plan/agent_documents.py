"""The configs of the agents under ``agents``, as they are read; and the folders that all these agents work in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeus_runtime.config.document import Inherited
from zeus_runtime.config.yaml.tree import find, show_path
from zeus_runtime.disk_paths import expanded, shown_below
from zeus_runtime.errors import ZeusError
from zeus_runtime.trust.layers import permit_layer

if TYPE_CHECKING:
    from zeus_runtime.config import Document
    from zeus_runtime.config.layers.plugin_home import PluginHome
    from zeus_runtime.config.model import SubAgent
    from zeus_runtime.config.yaml.tree import Node
    from zeus_runtime.plan.validated import Checked


def own_document(checked: Checked, name: str, spec: SubAgent) -> Document:
    """The config of an agent under ``agents`` as it was read, with its ``overrides`` applied."""
    return _document(checked, checked.document, name, spec.config, spec.overrides)


def work_folders(checked: Checked) -> tuple[Path, ...]:
    """The folders of the workspaces of an agent and of its sub-agents at any depth: one of them may write there.

    The configs of the sub-agents are not checked yet, so one that cannot be read has none: the planner reports it.
    """
    folders = _folders(checked.directory, checked.document)
    if checked.config.agents:
        for document in _below(checked, checked.document, (), checked.config.limits.max_subagent_depth):
            folders += _folders(checked.directory, document)
    return tuple(dict.fromkeys(folders))


def _below(checked: Checked, document: Document, above: tuple[Path, ...], depth: int) -> Iterator[Document]:
    agents = document.get(("agents",))
    if depth <= 0 or not isinstance(agents, Mapping):
        return
    above = above if document.path is None else (*above, document.path.resolve())
    for name, spec in agents.items():
        given = spec if isinstance(spec, Mapping) else {}
        config, overrides = given.get("config"), given.get("overrides")
        try:
            found = _document(checked, document, name, config if isinstance(config, str) else None, overrides)
        except ZeusError:
            continue
        yield found
        if isinstance(config, str) and found.path is not None and found.path.resolve() not in above:
            yield from _below(checked, found, above, depth - 1)


def _folders(directory: Path, document: Document) -> list[Path]:
    routes = document.get(("workspace", "routes"))
    named = [document.get(("workspace", "root")), *(routes.values() if isinstance(routes, Mapping) else ())]
    return [directory / expanded(each) for each in named if isinstance(each, str) and "\0" not in each]


def _document(checked: Checked, above: Document, name: str, config: str | None, overrides: Any) -> Document:
    """The config of one agent, in the config ``above`` it.

    Args:
        checked: the outermost config that is checked: its folder, Homes and environment.
    """
    from zeus_runtime.config.layers.merge import merge, ref_places
    from zeus_runtime.config.model import Config

    document = _own(checked, above, name, config)
    laid = find(above.root, ("agents", name, "overrides"))
    root = document.root
    if laid is not None and laid.is_map and overrides:
        root = merge(root, laid, ref_places(Config))
    if config is not None:
        root = _in_workspace_of(above.root, root)
    if root is document.root:
        return document
    # Such values are written in the parent's file: their relative paths start there, and errors show its lines.
    document = replace(
        document,
        folders={**above.folders, **document.folders},
        sources=document.sources.joined(above.sources),
    )
    return laid_over(document, root, shared=config is None)


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


def _own(checked: Checked, above: Document, name: str, config: str | None) -> Document:
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
    document = _loaded(checked, above, config)
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


def _loaded(checked: Checked, above: Document, config: str) -> Document:
    from zeus_runtime.config import load
    from zeus_runtime.config.layers.files import Layers, homes_for
    from zeus_runtime.config.layers.merge import ref_places
    from zeus_runtime.config.model import Config
    from zeus_runtime.registry import installed_homes

    def plugin_homes(rules: object) -> Sequence[PluginHome]:
        return installed_homes(rules, checked.given_environ)

    permit = partial(permit_layer, checked.trust, checked.directory)
    folder = checked.directory if above.path is None else above.path.parent
    homes = homes_for(folder, checked.directory, checked.homes)
    file = folder / config
    is_file = "/" in config or config.endswith((".yaml", ".yml"))
    if not is_file and file.exists():
        # A preset has priority over a file of its name, as on the command line.
        is_file = Layers(checked.directory, homes, ref_places(Config), plugin_homes).preset(config) is None
    return load(
        file if is_file else config,
        environ=checked.environ,
        homes=homes,
        plugin_homes=plugin_homes,
        directory=checked.directory,
        permit=permit,
    )
