"""What the model can call: tools, the modes that rule them, their dispatch, and the files they work on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.tools.dispatch import check_tools as check_tools
    from zeus_runtime.tools.dispatch import fitted_arguments as fitted_arguments
    from zeus_runtime.tools.dispatch import invoke as invoke
    from zeus_runtime.tools.dispatch import validate_arguments as validate_arguments
    from zeus_runtime.tools.entries import FileEntry as FileEntry
    from zeus_runtime.tools.modes import MODE_TABLE as MODE_TABLE
    from zeus_runtime.tools.modes import ShownTool as ShownTool
    from zeus_runtime.tools.modes import permitted as permitted
    from zeus_runtime.tools.modes import showing as showing
    from zeus_runtime.tools.modes import visible as visible
    from zeus_runtime.tools.paths import WorkspaceError as WorkspaceError
    from zeus_runtime.tools.tool import Access as Access
    from zeus_runtime.tools.tool import Category as Category
    from zeus_runtime.tools.tool import Tool as Tool
    from zeus_runtime.tools.tool import ToolCall as ToolCall
    from zeus_runtime.tools.tool import ToolResult as ToolResult
    from zeus_runtime.tools.tool import ToolRun as ToolRun
    from zeus_runtime.tools.toolset import Account as Account
    from zeus_runtime.tools.toolset import Connection as Connection
    from zeus_runtime.tools.toolset import LoginPage as LoginPage
    from zeus_runtime.tools.toolset import Tell as Tell
    from zeus_runtime.tools.toolset import Toolset as Toolset
    from zeus_runtime.tools.workspace import WorkspaceFiles as WorkspaceFiles

# The decorator `tool` is public as `zeus_runtime.tool` (from `tools.define`): here its name would shadow the module.
_ROOMS = {
    "Access": "tool",
    "Account": "toolset",
    "Category": "tool",
    "Connection": "toolset",
    "FileEntry": "entries",
    "LoginPage": "toolset",
    "MODE_TABLE": "modes",
    "ShownTool": "modes",
    "Tell": "toolset",
    "Tool": "tool",
    "ToolCall": "tool",
    "ToolResult": "tool",
    "ToolRun": "tool",
    "Toolset": "toolset",
    "WorkspaceError": "paths",
    "WorkspaceFiles": "workspace",
    "check_tools": "dispatch",
    "invoke": "dispatch",
    "permitted": "modes",
    "showing": "modes",
    "fitted_arguments": "dispatch",
    "validate_arguments": "dispatch",
    "visible": "modes",
}

__all__ = sorted(_ROOMS)

__getattr__, __dir__ = lazy(__name__, _ROOMS)
