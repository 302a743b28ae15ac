"""Sandboxes: programs run isolated from the host, within limits, on separate files.

A ``SandboxBackend`` starts a ``Sandbox`` for a session; ``SandboxFiles`` copies files in and out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.disk_paths import home_folders as home_folders
    from zeus_runtime.process_path import system_programs as system_programs
    from zeus_runtime.tools.own_programs import OwnPrograms as OwnPrograms
    from zeus_runtime.tools.sandbox import WORKING_FOLDER as WORKING_FOLDER
    from zeus_runtime.tools.sandbox import Outcome as Outcome
    from zeus_runtime.tools.sandbox import Program as Program
    from zeus_runtime.tools.sandbox import Sandbox as Sandbox
    from zeus_runtime.tools.sandbox import SandboxBackend as SandboxBackend
    from zeus_runtime.tools.sandbox import SandboxCapabilities as SandboxCapabilities
    from zeus_runtime.tools.sandbox import SandboxError as SandboxError
    from zeus_runtime.tools.sandbox import SandboxFile as SandboxFile
    from zeus_runtime.tools.sandbox import SandboxLimit as SandboxLimit
    from zeus_runtime.tools.sandbox import SandboxLimits as SandboxLimits
    from zeus_runtime.tools.sandbox import SandboxUnavailableError as SandboxUnavailableError
    from zeus_runtime.tools.sandbox import SharedWorkspace as SharedWorkspace
    from zeus_runtime.tools.sandbox import refuse_unrunnable as refuse_unrunnable
    from zeus_runtime.tools.sandbox_files import SandboxFiles as SandboxFiles
    from zeus_runtime.tools.sandbox_files import inner_path as inner_path
    from zeus_runtime.tools.sandbox_folders import make_session_folder as make_session_folder
    from zeus_runtime.tools.sandbox_folders import remove_folder as remove_folder
    from zeus_runtime.tools.sandbox_folders import remove_older as remove_older
    from zeus_runtime.tools.sandbox_folders import session_folder as session_folder
    from zeus_runtime.tools.sandbox_local import folder_sandboxes as folder_sandboxes
    from zeus_runtime.tools.sandbox_sessions import SandboxSessions as SandboxSessions

_ROOMS = {
    "Outcome": "tools.sandbox",
    "OwnPrograms": "tools.own_programs",
    "Program": "tools.sandbox",
    "Sandbox": "tools.sandbox",
    "SandboxBackend": "tools.sandbox",
    "SandboxCapabilities": "tools.sandbox",
    "SandboxError": "tools.sandbox",
    "SandboxFile": "tools.sandbox",
    "SandboxFiles": "tools.sandbox_files",
    "SandboxLimit": "tools.sandbox",
    "SandboxLimits": "tools.sandbox",
    "SandboxSessions": "tools.sandbox_sessions",
    "SandboxUnavailableError": "tools.sandbox",
    "SharedWorkspace": "tools.sandbox",
    "WORKING_FOLDER": "tools.sandbox",
    "folder_sandboxes": "tools.sandbox_local",
    "home_folders": "disk_paths",
    "inner_path": "tools.sandbox_files",
    "make_session_folder": "tools.sandbox_folders",
    "refuse_unrunnable": "tools.sandbox",
    "remove_folder": "tools.sandbox_folders",
    "remove_older": "tools.sandbox_folders",
    "session_folder": "tools.sandbox_folders",
    "system_programs": "process_path",
}

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS, root="zeus_runtime")
