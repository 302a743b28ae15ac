"""Zeus runtime: one validated YAML file says what an agent is; this package runs it.

The public names, for programs that run agents and for plugin authors. Each is loaded at first use, so importing the
package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zeus_runtime.agent.build import Build as Build
    from zeus_runtime.agent.middleware import Middleware as Middleware
    from zeus_runtime.agent.middleware import Turn as Turn
    from zeus_runtime.config.annotations import Doc as Doc
    from zeus_runtime.config.annotations import Maximum as Maximum
    from zeus_runtime.config.annotations import MaxLength as MaxLength
    from zeus_runtime.config.annotations import Minimum as Minimum
    from zeus_runtime.config.annotations import MinLength as MinLength
    from zeus_runtime.context import Budget as Budget
    from zeus_runtime.context import DropBefore as DropBefore
    from zeus_runtime.context import Edit as Edit
    from zeus_runtime.context import View as View
    from zeus_runtime.errors import MissingError as MissingError
    from zeus_runtime.errors import RunError as RunError
    from zeus_runtime.errors import ZeusError as ZeusError
    from zeus_runtime.models.errors import ModelError as ModelError
    from zeus_runtime.models.interface import Model as Model
    from zeus_runtime.models.interface import ModelPiece as ModelPiece
    from zeus_runtime.models.interface import ModelRequest as ModelRequest
    from zeus_runtime.models.interface import ModelResponse as ModelResponse
    from zeus_runtime.models.interface import ReasoningDelta as ReasoningDelta
    from zeus_runtime.models.interface import TextDelta as TextDelta
    from zeus_runtime.models.interface import ToolCallDelta as ToolCallDelta
    from zeus_runtime.models.interface import ToolSchema as ToolSchema
    from zeus_runtime.models.interface import Usage as Usage
    from zeus_runtime.plugins.component import Component as Component
    from zeus_runtime.plugins.hookspecs import hookimpl as hookimpl
    from zeus_runtime.prompt.sections import Section as Section
    from zeus_runtime.store.database import sqlite_file as sqlite_file
    from zeus_runtime.store.transactions import Transactions as Transactions
    from zeus_runtime.store.transactions import retry_while_locked as retry_while_locked
    from zeus_runtime.tools.define import tool as tool
    from zeus_runtime.tools.paths import WorkspaceError as WorkspaceError
    from zeus_runtime.tools.paths import printable as printable
    from zeus_runtime.tools.tool import Tool as Tool
    from zeus_runtime.tools.tool import ToolCall as ToolCall
    from zeus_runtime.tools.tool import ToolResult as ToolResult
    from zeus_runtime.tools.tool import ToolRun as ToolRun
    from zeus_runtime.tools.workspace import FileEntry as FileEntry
    from zeus_runtime.tools.workspace import WorkspaceFiles as WorkspaceFiles

__version__ = "0.1.0"

_HOMES = {
    "Budget": "context",
    "Build": "agent.build",
    "Component": "plugins.component",
    "Doc": "config.annotations",
    "DropBefore": "context",
    "Edit": "context",
    "FileEntry": "tools.workspace",
    "MaxLength": "config.annotations",
    "Maximum": "config.annotations",
    "Middleware": "agent.middleware",
    "MinLength": "config.annotations",
    "Minimum": "config.annotations",
    "MissingError": "errors",
    "Model": "models.interface",
    "ModelError": "models.errors",
    "ModelPiece": "models.interface",
    "ModelRequest": "models.interface",
    "ModelResponse": "models.interface",
    "ReasoningDelta": "models.interface",
    "RunError": "errors",
    "Section": "prompt.sections",
    "TextDelta": "models.interface",
    "Tool": "tools.tool",
    "ToolCall": "tools.tool",
    "ToolCallDelta": "models.interface",
    "ToolResult": "tools.tool",
    "ToolRun": "tools.tool",
    "ToolSchema": "models.interface",
    "Turn": "agent.middleware",
    "Usage": "models.interface",
    "View": "context",
    "WorkspaceError": "tools.paths",
    "WorkspaceFiles": "tools.workspace",
    "ZeusError": "errors",
    "hookimpl": "plugins.hookspecs",
    "printable": "tools.paths",
    "Transactions": "store.transactions",
    "retry_while_locked": "store.transactions",
    "sqlite_file": "store.database",
    "tool": "tools.define",
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    module = _HOMES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
