"""A config's MCP servers and connectors: their problems, and the tool component that they imply."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.config import ConfigError
from zeus_runtime.config.mcp import Connectors, server_problems
from zeus_runtime.disk_paths import real_path
from zeus_runtime.plan.components import planned_component
from zeus_runtime.registry.home import homes_of_user

if TYPE_CHECKING:
    from zeus_runtime.config import Diagnostic
    from zeus_runtime.config.mcp import Connector, McpServer
    from zeus_runtime.config.yaml.tree import Path as ConfigPath
    from zeus_runtime.plan.components import PlannedComponent
    from zeus_runtime.plan.validated import Checked

IMPLIED: Final = "mcp"
"""The tool component that ``mcpServers`` and ``connectors`` imply."""


def implied_component(checked: Checked) -> tuple[PlannedComponent, ...]:
    """The component of the MCP servers, if there are any and ``tools`` does not list it.

    Raises:
        ConfigError: something is wrong with the servers.
    """
    from zeus_runtime.config import Ref

    config = checked.config
    if problems := [*_in_homes(checked)]:
        raise ConfigError(problems)
    if not (config.mcp_servers or config.connectors != Connectors()):
        return ()
    _refuse_servers(checked)
    if any(ref.name == IMPLIED for ref in config.tools):
        return ()
    path = ("mcpServers",) if config.mcp_servers else ("connectors",)
    return (planned_component(checked, "tool", Ref(IMPLIED), path),)


def _named(connectors: Connectors) -> tuple[tuple[str, Connector | None], ...]:
    return (("browser", connectors.browser), ("desktop", connectors.desktop))


def _unreadable_prompts(checked: Checked) -> Iterator[Diagnostic]:
    """A problem for each connector whose instructions file is missing or cannot be read as text."""
    for kind, connector in _named(checked.config.connectors):
        if connector is None or connector.prompt is None:
            continue
        path, place = Path(connector.prompt), ("connectors", kind, "prompt")
        hint = "write it, or remove the key to use the bundled instructions"
        if not path.is_file():
            what = "is not a file" if path.exists() else "does not exist"
            yield checked.diagnostic("missing-file", f"{path} {what}", place, hint=hint)
            continue
        try:
            path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            yield checked.diagnostic("not-utf8", f"{path} is not UTF-8", place, hint="save it as UTF-8")
        except OSError as error:
            message = f"{path} cannot be read: {error.strerror}"
            yield checked.diagnostic("unreadable-file", message, place, hint="make it readable")


def _started_data(checked: Checked) -> Iterator[Diagnostic]:
    """A problem for each file under ``data`` that its server's command starts."""
    if not any(server.data for server in checked.config.mcp_servers.values()):
        return
    from zeus_runtime.plan.executed_parts import project_of, used_server
    from zeus_runtime.trust.parts import Command, program_data

    for name, server in checked.config.mcp_servers.items():
        used = used_server(name, server) if server.data else None
        if not isinstance(used, Command):
            continue
        for entry in program_data(used, project_of(checked.document, checked.config, checked.trust)):
            yield checked.diagnostic(
                "mcp-server",
                f"{entry!r} under data is, or holds, what the command starts: the program, or the first file among"
                " the arguments",
                ("mcpServers", name, "data", server.data.index(entry)),
                hint="remove it; if it is not a program, name it in one word with its option (--db-path=data.db) or"
                " under env",
            )


def _in_homes(checked: Checked) -> Iterator[Diagnostic]:
    """A problem for each server that starts in the user's own Home.

    What a server saves there under a name from the model would decide about all agents of the user, without a question.
    """
    servers: list[tuple[ConfigPath, str, McpServer]] = [
        (("mcpServers", name), name, each) for name, each in checked.config.mcp_servers.items()
    ]
    if any("servers" in each.executes for each in checked.document.marked):
        from zeus_runtime.plan.executed_parts import server_files

        for path, found in server_files(checked.document):
            # The component that reads the file reports one that cannot be read.
            if not isinstance(found, Exception):
                servers += [(path, name, each) for name, each in found.items()]
    for path, name, server in servers:
        if server.cwd and not server.disabled:
            # Only the folder itself and those in it: from a folder above, a name would have to spell the way.
            cwd = Path(real_path(checked.directory / server.cwd))
            if any(cwd.is_relative_to(real_path(home)) for home in homes_of_user(checked.environ)):
                yield checked.diagnostic(
                    "mcp-server",
                    f"the server {name!r} starts in your own Home ({cwd}), whose prompts and configs are trusted"
                    " without asking, so what it saves there could change all your agents",
                    (*path, "cwd") if path[0] == "mcpServers" else path,
                    hint="make a folder of its own and name that, such as `cwd: ${HOME}/.local/share/mcp`",
                )


def _refuse_servers(checked: Checked) -> None:
    config = checked.config
    problems = [
        checked.diagnostic(
            "mcp-server",
            each.message,
            ("mcpServers", name, *([each.key] if each.key else [])),
            hint=each.hint,
        )
        for name, server in config.mcp_servers.items()
        for each in server_problems(name, server)
    ]
    problems += _started_data(checked)
    for kind, connector in _named(config.connectors):
        if connector is None:
            continue
        known = ", ".join(config.mcp_servers) or "there are none"
        if connector.server is None and kind == "desktop":
            message, hint = "no server is known that drives a desktop", f"name one of mcpServers: {known}"
        elif connector.server is not None and connector.server not in config.mcp_servers:
            message, hint = f"{connector.server!r} is none of mcpServers", f"its servers: {known}"
        else:
            continue
        problems.append(checked.diagnostic("mcp-server", message, ("connectors", kind, "server"), hint=hint))
    problems += _unreadable_prompts(checked)
    if problems:
        raise ConfigError(problems)
