"""Tools and toolsets.

``tool`` makes a ``Tool`` from a typed function; its category decides in which modes it is offered. A component creates
its tools once, for plans and all runs; a function that needs its run asks for a parameter ``run``. A ``Toolset`` is
opened before an agent's first run and provides tools that are known only then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.config.layers.mcp_files import servers_in_file as servers_in_file
    from zeus_runtime.config.mcp import Connector as Connector
    from zeus_runtime.config.mcp import McpServer as McpServer
    from zeus_runtime.config.mcp import browser_server as browser_server
    from zeus_runtime.config.schema.defaults import fill_defaults as fill_defaults
    from zeus_runtime.config.schema.defaults import map_texts as map_texts
    from zeus_runtime.strict_json import json_problem as json_problem
    from zeus_runtime.strict_json import keys_in as keys_in
    from zeus_runtime.strict_json import strict_json as strict_json
    from zeus_runtime.tools.define import tool as tool
    from zeus_runtime.tools.dispatch import fitted_arguments as fitted_arguments
    from zeus_runtime.tools.dispatch import validate_arguments as validate_arguments
    from zeus_runtime.tools.modes import has_connectors as has_connectors
    from zeus_runtime.tools.modes import permitted as permitted
    from zeus_runtime.tools.preview import Change as Change
    from zeus_runtime.tools.preview import Preview as Preview
    from zeus_runtime.tools.preview import preview_of as preview_of
    from zeus_runtime.tools.run_to_completion import all_tried as all_tried
    from zeus_runtime.tools.run_to_completion import finished as finished
    from zeus_runtime.tools.tool import Access as Access
    from zeus_runtime.tools.tool import Category as Category
    from zeus_runtime.tools.tool import Tool as Tool
    from zeus_runtime.tools.tool import ToolCall as ToolCall
    from zeus_runtime.tools.tool import ToolResult as ToolResult
    from zeus_runtime.tools.tool import ToolRun as ToolRun
    from zeus_runtime.tools.toolset import Account as Account
    from zeus_runtime.tools.toolset import Connection as Connection
    from zeus_runtime.tools.toolset import ConnectionState as ConnectionState
    from zeus_runtime.tools.toolset import LoginPage as LoginPage
    from zeus_runtime.tools.toolset import Tell as Tell
    from zeus_runtime.tools.toolset import Toolset as Toolset
    from zeus_runtime.tools.worker_process import Apart as Apart
    from zeus_runtime.tools.worker_process import ApartError as ApartError
    from zeus_runtime.tools.worker_threads import in_thread as in_thread

_ROOMS = {
    "Access": "tools.tool",
    "Account": "tools.toolset",
    "Apart": "tools.worker_process",
    "ApartError": "tools.worker_process",
    "Category": "tools.tool",
    "Change": "tools.preview",
    "Connection": "tools.toolset",
    "ConnectionState": "tools.toolset",
    "Connector": "config.mcp",
    "LoginPage": "tools.toolset",
    "McpServer": "config.mcp",
    "Preview": "tools.preview",
    "Tell": "tools.toolset",
    "Tool": "tools.tool",
    "ToolCall": "tools.tool",
    "ToolResult": "tools.tool",
    "ToolRun": "tools.tool",
    "Toolset": "tools.toolset",
    "browser_server": "config.mcp",
    "all_tried": "tools.run_to_completion",
    "in_thread": "tools.worker_threads",
    "finished": "tools.run_to_completion",
    "fill_defaults": "config.schema.defaults",
    "fitted_arguments": "tools.dispatch",
    "has_connectors": "tools.modes",
    "permitted": "tools.modes",
    "preview_of": "tools.preview",
    "servers_in_file": "config.layers.mcp_files",
    "json_problem": "strict_json",
    "keys_in": "strict_json",
    "map_texts": "config.schema.defaults",
    "strict_json": "strict_json",
    "tool": "tools.define",
    "validate_arguments": "tools.dispatch",
}

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS, root="zeus_runtime")
