"""Files of MCP servers in other clients' form, such as ``.mcp.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zeus_runtime.config.layers.interpolation import interpolate
from zeus_runtime.config.mcp import McpServer, mcp_server, server_problems
from zeus_runtime.errors import OptionsError
from zeus_runtime.strict_json import read_json


def servers_in_file(path: Path, environ: Mapping[str, str], *, where: str = "") -> Mapping[str, McpServer]:
    """The servers that a file lists, with variables filled in.

    Args:
        environ: the variables that ``${VAR}`` can name.
        where: the option that names the file, for errors.

    Raises:
        OptionsError: the file or an entry in it is wrong.
    """

    def wrong(message: str, remedy: str, place: str = "") -> OptionsError:
        return OptionsError(f"{path}{place}: {message}", remedy=remedy, where=where or None)

    if not path.is_file():
        what = "is not a file" if path.exists() else "does not exist"
        raise OptionsError(
            f"{path} {what}",
            remedy="Write it, or remove it from the option files of mcp.",
            where=where or None,
        )
    try:
        content = read_json(path.read_text(encoding="utf-8-sig"), once)
    except json.JSONDecodeError as error:
        place = f":{error.lineno}:{error.colno}"
        raise wrong(f"it is not readable JSON: {error.msg}", "Repair it.", place) from None
    except (OSError, ValueError) as error:
        raise wrong(f"it is not readable JSON: {error}", "Repair it.") from None
    # VS Code calls them `servers`.
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


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without duplicate keys; the JSON parser would silently take the last value."""
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
