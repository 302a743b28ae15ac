"""The servers an agent has: from ``mcpServers``, from the files the YAML names, and the connectors'."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from zeus_plugins.tools.mcp.names import prefix_of
from zeus_runtime import (
    BROWSER_SERVER,
    McpServer,
    OptionsError,
    interpolate,
    mcp_server,
    server_problems,
)

if TYPE_CHECKING:
    from zeus_plugins.tools.mcp.options import Options
    from zeus_runtime import Build, Category, Connector

_ORDER = ("mcp", "oauth", "browser", "desktop")


@dataclass(frozen=True)
class Server:
    """One server as it will be connected to.

    Args:
        name: as the config names it.
        spec: its entry.
        category: the row of the mode table for its tools.
        prefix: what its tools' names begin with; empty for nothing.
        instructions: what section 9 says while it is connected; a connector's only.
    """

    name: str
    spec: McpServer
    category: Category
    prefix: str
    instructions: str = ""

    @property
    def drives(self) -> bool:
        """Whether it is a connector's."""
        return self.category in ("browser", "desktop")

    @property
    def remote(self) -> bool:
        return self.spec.command is None


def servers_of(options: Options, build: Build) -> tuple[Sequence[Server], Sequence[Server]]:
    """The servers, those with OAuth after the others, connectors last; and those that are disabled.

    Raises:
        OptionsError: a file or an entry in it is wrong, or names a server that the YAML has too.
    """
    specs = dict(build.config.mcp_servers)
    for index, file in enumerate(options.files):
        where = f"files.{index}"
        for name, spec in _from_file(Path(file), where, build.environ).items():
            if name in specs:
                raise OptionsError(
                    f"{Path(file).name} has a server {name!r}, and so has the YAML or an earlier file",
                    remedy="Rename one of them, or remove it.",
                    where=where,
                )
            specs[name] = spec
    connectors = dict(_connectors(build))
    driven = {connector.server: kind for kind, connector in connectors.items() if connector.server}
    servers = [_server(name, spec, driven.get(name), connectors, build) for name, spec in specs.items()]
    browser = connectors.get("browser")
    if browser is not None and browser.server is None:
        servers.append(_server("browser", BROWSER_SERVER, "browser", connectors, build))
    servers.sort(key=lambda server: _ORDER.index(server.category))
    return [each for each in servers if not each.spec.disabled], [
        each for each in servers if each.spec.disabled
    ]


_Kind = Literal["browser", "desktop"]


def _connectors(build: Build) -> Iterator[tuple[_Kind, Connector]]:
    configured = build.config.connectors
    if configured.browser is not None:
        yield "browser", configured.browser
    if configured.desktop is not None:
        yield "desktop", configured.desktop


def _server(
    name: str, spec: McpServer, kind: _Kind | None, connectors: Mapping[_Kind, Connector], build: Build
) -> Server:
    category: Category = kind or ("oauth" if spec.authorised else "mcp")
    prefix = prefix_of(name) if spec.prefix is None else spec.prefix
    instructions = "" if kind is None else _instructions(kind, connectors[kind], build)
    return Server(name, spec, category, prefix, instructions)


def _instructions(kind: _Kind, connector: Connector, build: Build) -> str:
    if connector.prompt is not None:
        candidates = [Path(connector.prompt)]
    else:
        candidates = [home / "prompts" / f"{kind.upper()}.md" for home in build.homes]
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
        remedy=f"Write it, or remove the key to use the bundled prompts/{kind.upper()}.md.",
    )


def _from_file(path: Path, where: str, environ: Mapping[str, str]) -> Mapping[str, McpServer]:
    def wrong(message: str, remedy: str, place: str = "") -> OptionsError:
        return OptionsError(f"{path}{place}: {message}", remedy=remedy, where=where)

    if not path.is_file():
        what = "is no file" if path.exists() else "is not there"
        raise OptionsError(
            f"{path} {what}", remedy="Write it, or remove it from the option files of mcp.", where=where
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        place = f":{error.lineno}:{error.colno}"
        raise wrong(f"it is not readable JSON: {error.msg}", "Repair it.", place) from None
    except (OSError, ValueError) as error:
        raise wrong(f"it is not readable JSON: {error}", "Repair it.") from None
    entries = content.get("mcpServers", content.get("servers")) if isinstance(content, dict) else None
    if not isinstance(entries, dict):
        raise wrong("it has no object mcpServers", 'Write {"mcpServers": {NAME: {...}}}.')
    found: dict[str, McpServer] = {}
    for name, entry in entries.items():
        try:
            spec = mcp_server(_filled(entry, environ))
        except ValueError as error:
            raise wrong(f"mcpServers.{name}: {error}", "Repair the entry.") from None
        for problem in server_problems(name, spec):
            key = f".{problem.key}" if problem.key else ""
            raise wrong(
                f"mcpServers.{name}{key}: {problem.message}", f"{problem.hint[:1].upper()}{problem.hint[1:]}."
            )
        found[name] = spec
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of two values under one key JSON would take the last without a word."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} is there twice in one object")
    return found


def _filled(value: Any, environ: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return interpolate(value, environ).text
    if isinstance(value, dict):
        return {key: _filled(item, environ) for key, item in value.items()}
    return [_filled(item, environ) for item in value] if isinstance(value, list) else value
