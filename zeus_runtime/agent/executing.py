"""What a config would execute: its plugin files, the options that are marked ``Executes``, its MCP servers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.config.mcp import BROWSER_SERVER, Connectors
from zeus_runtime.config.nodes import show_path
from zeus_runtime.config.schemawalk import walk_with
from zeus_runtime.config.typeschema import EXECUTES
from zeus_runtime.errors import ZeusError
from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from zeus_runtime.agent.checked import Checked
    from zeus_runtime.config import Config, Document
    from zeus_runtime.config.mcp import McpServer
    from zeus_runtime.config.nodes import Path as ConfigPath
    from zeus_runtime.plugins import Registry
    from zeus_runtime.trust.decision import Trust
    from zeus_runtime.trust.parts import Command, Mask, Part, Project


@dataclass(frozen=True)
class Ground:
    """What the parts of one config are found from.

    Args:
        document: checked, its paths absolute.
        config: the same, typed.
        registry: the plugins, and the plugin files that the config names.
        trust: decides about them.
    """

    document: Document
    config: Config
    registry: Registry
    trust: Trust


def executing(ground: Ground) -> tuple[Part, ...]:
    """Every part of one config that executes something, without those of its sub-agents.

    What runs hooks or commands in a later version belongs here: yield a part for it, and permit it where it starts.
    """
    return (*_plugin_files(ground), *_options(ground), *_servers(ground), *_folders(ground))


def all_parts(checked: Checked) -> tuple[Part, ...]:
    """The parts of a config and of its sub-agents, at any depth, each once."""
    found = {part.digest: part for part in checked.parts}
    for part in _below(checked, (), checked.config.limits.max_subagent_depth):
        found.setdefault(part.digest, part)
    return tuple(found.values())


def project_of(document: Document, config: Config) -> Project:
    """The folders that a config's programs may lie in."""
    from zeus_runtime.trust.parts import Project

    directory = document.directory
    workspace = config.workspace
    places = [".", workspace.root, *workspace.routes.values(), *map(str, document.folders.values())]
    folders = tuple(dict.fromkeys(directory / each for each in places))
    return Project(directory, folders, document.environ.get("PATH", ""))


def command_of(name: str, server: McpServer) -> Command | None:
    """The process that is a server; None for a remote or disabled one."""
    from zeus_runtime.trust.parts import Command

    if server.command is None or server.disabled:
        return None
    return Command(name, (server.command, *server.args), dict(server.env), server.cwd or ".")


def permit(checked: Checked, command: Command) -> None:
    """Raise unless a process may be started as it would be at this moment.

    Raises:
        UntrustedError: the user did not allow it, or it changed since.
    """
    from zeus_runtime.trust.parts import command_part

    part = command_part(command, project_of(checked.document, checked.config))
    if any(each.own and each.digest == part.digest for each in checked.parts):
        return
    checked.trust.require([part])


def _below(checked: Checked, above: tuple[Path, ...], depth: int) -> Iterator[Part]:
    """The parts of the agents under ``agents``. One whose config is not valid is skipped: the planner reports it."""
    if depth <= 0 or not checked.config.agents:
        return
    from zeus_runtime.agent.checked import examine
    from zeus_runtime.agent.subagents import own_document

    path = checked.document.path
    above = above if path is None else (*above, path.resolve())
    for name, spec in checked.config.agents.items():
        try:
            document = own_document(checked, name, spec)
            if spec.config is not None and document.path is not None and document.path.resolve() in above:
                continue
            below = examine(
                document, directory=checked.directory, environ=checked.given_environ, trust=checked.trust
            )
        except ZeusError:
            continue
        yield from below.parts
        if spec.config is not None:
            yield from _below(below, above, depth - 1)


def _plugin_files(ground: Ground) -> Iterator[Part]:
    names = [Path(name).name for name in ground.config.plugins.files]
    for part in ground.registry.executes:
        from dataclasses import replace

        position = ground.document.position(("plugins", "files", names.index(part.name)))
        yield replace(part, where=str(position))


def _servers(ground: Ground) -> Iterator[Part]:
    document = ground.document
    for name, server in ground.config.mcp_servers.items():
        yield from _server(ground, name, server, ("mcpServers", name))
    connectors = ground.config.connectors
    if connectors != Connectors() and connectors.browser is not None and connectors.browser.server is None:
        yield from _server(ground, "browser", BROWSER_SERVER, ("connectors", "browser"))
    for path, file in _marked(ground, "servers"):
        from zeus_runtime.config.mcp_files import servers_in_file

        try:
            servers = servers_in_file(Path(file), document.environ)
        except (ZeusError, ValueError):
            continue  # the component that reads the file says what is wrong with it
        for name, server in servers.items():
            yield from _server(ground, name, server, path)


def _server(ground: Ground, name: str, server: McpServer, path: ConfigPath) -> Iterator[Part]:
    command = command_of(name, server)
    if command is None:
        return
    from dataclasses import replace

    from zeus_runtime.trust.parts import command_part

    document = ground.document
    project = project_of(document, ground.config)
    where = str(document.position(path, "key"))
    part = command_part(command, project, mask=_mask(document), where=where)
    yield replace(part, own=_is_own(ground, part))


def _options(ground: Ground) -> Iterator[Part]:
    for path, value in _marked(ground, "value"):
        from dataclasses import replace

        from zeus_runtime.trust.parts import option_part

        document = ground.document
        project = project_of(document, ground.config)
        name = ".".join([each for each in path if isinstance(each, str)][-2:])
        where = str(document.position(path))
        part = option_part(name, show_path(path), value, project, mask=_mask(document), where=where)
        yield replace(part, own=_is_own(ground, part))


def _folders(ground: Ground) -> Iterator[Part]:
    """The folders of the workspace outside the working directory and the folder of the outermost config."""
    document, workspace = ground.document, ground.config.workspace
    inside = (document.directory.resolve(), Path(ground.trust.file).parent)
    routes = ((("workspace", "routes", prefix), target) for prefix, target in workspace.routes.items())
    for path, written in ((("workspace", "root"), workspace.root), *routes):
        folder = (document.directory / written).resolve()
        if any(folder.is_relative_to(each) for each in inside):
            continue
        from dataclasses import replace

        from zeus_runtime.trust.parts import folder_part

        part = folder_part(show_path(path), folder, where=str(document.position(path)))
        yield replace(part, own=_is_own(ground, part))


def _marked(ground: Ground, what: str) -> Iterator[tuple[ConfigPath, str]]:
    """The strings that are marked ``Executes`` and are not what they would be anyway."""
    document = ground.document
    if document.schema is None:
        return
    for path, node, places in walk_with(document.root, document.schema):
        if isinstance(node.value, str) and any(
            place.get(EXECUTES) == what and place.get("default") != node.value for place in places
        ):
            yield path, node.value


def _is_own(ground: Ground, part: Part) -> bool:
    """Whether nothing in a part comes from elsewhere than the user's Home, an installed distribution, or the process.

    A ``.env`` that adds variables lies in the project, and so may whatever they are filled in for.
    """
    document, trust = ground.document, ground.trust
    places = (*document.folders.values(), *part.files)
    has_own_variables = document.environ.keys() <= trust.variables
    installed = [home.resolve() for plugin, home in ground.registry.homes if plugin.distribution is not None]
    own_files = [*trust.homes, *installed]
    return has_own_variables and all(
        any(place.resolve().is_relative_to(home) for home in own_files) for place in places
    )


_MAY_RUN: Final = re.compile(r"[^\w.,:=@%+/~-]", re.ASCII)
"""Characters with a meaning to a shell, such as those of ``$(curl${IFS}host|sh)``, and white space."""


def _mask(document: Document) -> Mask:
    """Masks secrets in what a person reads, except those that a shell may run: a config names its secrets itself."""
    from zeus_runtime.config.secrets import Redactor, url_passwords

    known = document.redactor.names
    redactor = Redactor({text: name for text, name in known.items() if not _MAY_RUN.search(text)})

    def masked(text: str) -> str:
        if any(_MAY_RUN.search(each) for each in url_passwords(text)):
            return str(redactor.known(text))
        return redactor(text)

    return masked
