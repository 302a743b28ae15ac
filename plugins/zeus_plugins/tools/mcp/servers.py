"""The servers of an agent: from ``mcpServers``, from the files that the YAML names, and from the connectors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from zeus_runtime.plugin import OptionsError
from zeus_runtime.plugin.tool import McpServer, browser_server, servers_in_file

if TYPE_CHECKING:
    from zeus_plugins.tools.mcp.options import Options
    from zeus_runtime.plugin import PlanContext
    from zeus_runtime.plugin.tool import Category, Connector

_ORDER = ("mcp", "oauth", "browser", "desktop")


@dataclass(frozen=True)
class PlannedServer:
    """One server, as Zeus will connect to it.

    Args:
        name: its name in the config.
        spec: its entry in the config.
        category: the row of the mode table for its tools.
        prefix: the beginning of its tools' names; empty for none.
        instructions: the text of section 9 while it is connected; only for a connector.
        root: the folder that it gets as its root, if it starts in another one, which Zeus makes.
    """

    name: str
    spec: McpServer
    category: Category
    prefix: str
    instructions: str = ""
    root: Path | None = None

    @property
    def drives(self) -> bool:
        """Whether it is the server of a connector."""
        return self.category in ("browser", "desktop")

    @property
    def remote(self) -> bool:
        return self.spec.command is None

    @property
    def setting(self) -> str:
        """The program or the address that its calls go to; headers are left out, because their tokens change."""
        spec = self.spec
        addresses = [spec.url, spec.server_url, spec.http_url, spec.preset]
        return json.dumps(
            [spec.command, list(spec.args), dict(spec.env), spec.cwd, addresses], sort_keys=True
        )


def servers_of(
    options: Options, context: PlanContext
) -> tuple[Sequence[PlannedServer], Sequence[PlannedServer]]:
    """The enabled servers and the disabled ones. Servers with OAuth come after the others, connectors last.

    Raises:
        OptionsError: a file or an entry in it is wrong, or has a server that the YAML or an earlier file has too.
    """
    specs = dict(context.config.mcp_servers)
    for index, file in enumerate(options.files):
        where = f"files.{index}"
        for name, spec in servers_in_file(Path(file), context.environ, where=where).items():
            if name in specs:
                raise OptionsError(
                    f"{Path(file).name} has a server {name!r}, which the YAML or an earlier file has too",
                    remedy="Rename one of them, or remove it.",
                    where=where,
                )
            specs[name] = spec
    connectors = dict(_connectors(context))
    driven = {connector.server: kind for kind, connector in connectors.items() if connector.server}
    servers = [_server(name, spec, driven.get(name), connectors, context) for name, spec in specs.items()]
    browser = connectors.get("browser")
    if browser is not None and browser.server is None:
        spec = browser_server()
        bundled = _server("browser", spec, "browser", connectors, context)
        servers.append(bundled if spec.cwd is None else replace(bundled, root=context.directory))
    servers.sort(key=lambda server: _ORDER.index(server.category))
    return [each for each in servers if not each.spec.disabled], [
        each for each in servers if each.spec.disabled
    ]


_Kind = Literal["browser", "desktop"]


def _connectors(context: PlanContext) -> Iterator[tuple[_Kind, Connector]]:
    configured = context.config.connectors
    if configured.browser is not None:
        yield "browser", configured.browser
    if configured.desktop is not None:
        yield "desktop", configured.desktop


def _server(
    name: str,
    spec: McpServer,
    kind: _Kind | None,
    connectors: Mapping[_Kind, Connector],
    context: PlanContext,
) -> PlannedServer:
    category: Category = kind or ("oauth" if spec.authorised else "mcp")
    instructions = "" if kind is None else _instructions(kind, connectors[kind], context)
    return PlannedServer(name, spec, category, spec.prefix_for(name), instructions)


def _instructions(kind: _Kind, connector: Connector, context: PlanContext) -> str:
    if connector.prompt is not None:
        candidates = [Path(connector.prompt)]
    else:
        candidates = [home / "prompts" / f"{kind.upper()}.md" for home in context.homes]
    for path in candidates:
        try:
            return path.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            raise OptionsError(
                f"connectors.{kind}.prompt: {path} cannot be read: {error}", remedy="Name a UTF-8 text file."
            ) from None
    raise OptionsError(
        f"connectors.{kind}.prompt: there is no file {candidates[-1].name if candidates else kind.upper() + '.md'}",
        remedy=f"Create it, or remove the key to use the bundled prompts/{kind.upper()}.md.",
    )
