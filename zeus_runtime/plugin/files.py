"""An agent's files: the workspace, its paths and patterns, and the access rules.

Every access goes through ``WorkspaceFiles``, which checks each path against the config's rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.tools.access import ANY_TOOL as ANY_TOOL
    from zeus_runtime.tools.access import AccessLayer as AccessLayer
    from zeus_runtime.tools.access import Patterns as Patterns
    from zeus_runtime.tools.access import Reached as Reached
    from zeus_runtime.tools.access import Ruling as Ruling
    from zeus_runtime.tools.attachments import Reference as Reference
    from zeus_runtime.tools.diff import difference as difference
    from zeus_runtime.tools.entries import FileEntry as FileEntry
    from zeus_runtime.tools.gate import AccessAsked as AccessAsked
    from zeus_runtime.tools.masked_text import OPEN_BYTES as OPEN_BYTES
    from zeus_runtime.tools.masked_text import edited_masked as edited_masked
    from zeus_runtime.tools.masked_text import masked_bytes as masked_bytes
    from zeus_runtime.tools.masked_text import open_bytes as open_bytes
    from zeus_runtime.tools.masked_text import placeholders_left as placeholders_left
    from zeus_runtime.tools.masked_text import written_masked as written_masked
    from zeus_runtime.tools.mounts import parts_below as parts_below
    from zeus_runtime.tools.own_folders import LinkedFolderError as LinkedFolderError
    from zeus_runtime.tools.own_folders import beside as beside
    from zeus_runtime.tools.own_folders import open_own as open_own
    from zeus_runtime.tools.own_folders import own_path as own_path
    from zeus_runtime.tools.paths import NoSuchFileError as NoSuchFileError
    from zeus_runtime.tools.paths import WorkspaceError as WorkspaceError
    from zeus_runtime.tools.paths import composed as composed
    from zeus_runtime.tools.paths import folded as folded
    from zeus_runtime.tools.patterns import PathFilter as PathFilter
    from zeus_runtime.tools.patterns import PathTest as PathTest
    from zeus_runtime.tools.patterns import compile_filter as compile_filter
    from zeus_runtime.tools.patterns import compile_glob as compile_glob
    from zeus_runtime.tools.patterns import compile_way as compile_way
    from zeus_runtime.tools.patterns import expand_braces as expand_braces
    from zeus_runtime.tools.patterns import folded_cover as folded_cover
    from zeus_runtime.tools.patterns import folded_glob as folded_glob
    from zeus_runtime.tools.patterns import literal_prefix as literal_prefix
    from zeus_runtime.tools.patterns import parts_of as parts_of
    from zeus_runtime.tools.patterns import pattern_slip as pattern_slip
    from zeus_runtime.tools.patterns import text_slip as text_slip
    from zeus_runtime.tools.patterns import text_test as text_test
    from zeus_runtime.tools.program_view import ProgramMount as ProgramMount
    from zeus_runtime.tools.second_names import passes_unlisted as passes_unlisted
    from zeus_runtime.tools.workspace import WorkspaceFiles as WorkspaceFiles

_ROOMS = {
    "ANY_TOOL": "tools.access",
    "AccessAsked": "tools.gate",
    "AccessLayer": "tools.access",
    "FileEntry": "tools.entries",
    "NoSuchFileError": "tools.paths",
    "PathFilter": "tools.patterns",
    "PathTest": "tools.patterns",
    "Patterns": "tools.access",
    "ProgramMount": "tools.program_view",
    "Reached": "tools.access",
    "Reference": "tools.attachments",
    "Ruling": "tools.access",
    "WorkspaceError": "tools.paths",
    "WorkspaceFiles": "tools.workspace",
    "compile_filter": "tools.patterns",
    "compile_glob": "tools.patterns",
    "compile_way": "tools.patterns",
    "composed": "tools.paths",
    "difference": "tools.diff",
    "edited_masked": "tools.masked_text",
    "expand_braces": "tools.patterns",
    "folded": "tools.paths",
    "folded_cover": "tools.patterns",
    "folded_glob": "tools.patterns",
    "literal_prefix": "tools.patterns",
    "masked_bytes": "tools.masked_text",
    "OPEN_BYTES": "tools.masked_text",
    "open_bytes": "tools.masked_text",
    "LinkedFolderError": "tools.own_folders",
    "beside": "tools.own_folders",
    "open_own": "tools.own_folders",
    "own_path": "tools.own_folders",
    "parts_below": "tools.mounts",
    "parts_of": "tools.patterns",
    "passes_unlisted": "tools.second_names",
    "pattern_slip": "tools.patterns",
    "text_slip": "tools.patterns",
    "text_test": "tools.patterns",
    "placeholders_left": "tools.masked_text",
    "written_masked": "tools.masked_text",
}

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS, root="zeus_runtime")
