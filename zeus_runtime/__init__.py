"""Zeus runtime: one validated YAML file says what an agent is; this package runs it.

The public names, for programs that run agents and for plugin authors. Each is loaded at first use, so importing the
package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy
from zeus_runtime.version import __version__ as __version__

if TYPE_CHECKING:
    from zeus_runtime.agent.agent import Agent as Agent
    from zeus_runtime.agent.result import FailedRunError as FailedRunError
    from zeus_runtime.agent.result import RunResult as RunResult
    from zeus_runtime.bridges.langchain import from_langchain_middleware as from_langchain_middleware
    from zeus_runtime.bridges.langchain import from_langchain_tool as from_langchain_tool
    from zeus_runtime.config.layers.mcp_files import servers_in_file as servers_in_file
    from zeus_runtime.config.mcp import BROWSER_SERVER as BROWSER_SERVER
    from zeus_runtime.config.mcp import Connector as Connector
    from zeus_runtime.config.mcp import McpServer as McpServer
    from zeus_runtime.config.messages.diagnostics import ConfigError as ConfigError
    from zeus_runtime.config.messages.diagnostics import Diagnostic as Diagnostic
    from zeus_runtime.config.model import Config as Config
    from zeus_runtime.config.model import SubAgent as SubAgent
    from zeus_runtime.config.ref import Ref as Ref
    from zeus_runtime.config.schema.annotations import Alias as Alias
    from zeus_runtime.config.schema.annotations import AlsoCalled as AlsoCalled
    from zeus_runtime.config.schema.annotations import Doc as Doc
    from zeus_runtime.config.schema.annotations import Maximum as Maximum
    from zeus_runtime.config.schema.annotations import MaxLength as MaxLength
    from zeus_runtime.config.schema.annotations import Minimum as Minimum
    from zeus_runtime.config.schema.annotations import MinLength as MinLength
    from zeus_runtime.config.schema.annotations import Pattern as Pattern
    from zeus_runtime.config.schema.annotations import RefTo as RefTo
    from zeus_runtime.config.schema.markers import Destination as Destination
    from zeus_runtime.config.schema.markers import Executes as Executes
    from zeus_runtime.config.schema.markers import FileRelative as FileRelative
    from zeus_runtime.config.schema.markers import WorkRelative as WorkRelative
    from zeus_runtime.config.secrets.masking import Redactor as Redactor
    from zeus_runtime.config.secrets.masking import Secret as Secret
    from zeus_runtime.context import Budget as Budget
    from zeus_runtime.context import DropBefore as DropBefore
    from zeus_runtime.context import Edit as Edit
    from zeus_runtime.context import Summarize as Summarize
    from zeus_runtime.context import View as View
    from zeus_runtime.context.archive import Archive as Archive
    from zeus_runtime.context.arrivals import arrivals as arrivals
    from zeus_runtime.context.arrivals import tool_groups as tool_groups
    from zeus_runtime.context.cache_model import rules_for as rules_for
    from zeus_runtime.context.edits import Evict as Evict
    from zeus_runtime.context.edits import Pin as Pin
    from zeus_runtime.context.edits import TruncateArguments as TruncateArguments
    from zeus_runtime.context.items import Item as Item
    from zeus_runtime.context.kept_part import kept_from as kept_from
    from zeus_runtime.context.planner import Refusal as Refusal
    from zeus_runtime.context.size import Size as Size
    from zeus_runtime.context.tokens import Counter as Counter
    from zeus_runtime.context.tokens import counter_for as counter_for
    from zeus_runtime.context.tokens import counter_with as counter_with
    from zeus_runtime.cutting import cut_text as cut_text
    from zeus_runtime.cutting import last_words as last_words
    from zeus_runtime.errors import LimitError as LimitError
    from zeus_runtime.errors import MissingError as MissingError
    from zeus_runtime.errors import OptionsError as OptionsError
    from zeus_runtime.errors import RunError as RunError
    from zeus_runtime.errors import UnavailableError as UnavailableError
    from zeus_runtime.errors import ZeusError as ZeusError
    from zeus_runtime.escaping import printable as printable
    from zeus_runtime.frozen import dataclass as dataclass
    from zeus_runtime.knowledge.convert import convert_file as convert_file
    from zeus_runtime.knowledge.service import KnowledgeService as KnowledgeService
    from zeus_runtime.memory.embedding import Calibration as Calibration
    from zeus_runtime.memory.embedding import Embedder as Embedder
    from zeus_runtime.memory.embedding import EmbeddingUnavailableError as EmbeddingUnavailableError
    from zeus_runtime.memory.embedding import WorkerFactory as WorkerFactory
    from zeus_runtime.memory.items import Embedding as Embedding
    from zeus_runtime.memory.items import MemoryItem as MemoryItem
    from zeus_runtime.memory.items import MemoryType as MemoryType
    from zeus_runtime.memory.items import Scope as Scope
    from zeus_runtime.memory.outcomes import Saved as Saved
    from zeus_runtime.memory.outcomes import UnknownMemoryError as UnknownMemoryError
    from zeus_runtime.memory.permissions import Reach as Reach
    from zeus_runtime.memory.retrieval.ranking import Ranked as Ranked
    from zeus_runtime.memory.service import MemoryService as MemoryService
    from zeus_runtime.memory.vectors import AtHand as AtHand
    from zeus_runtime.memory.vectors import Entry as Entry
    from zeus_runtime.memory.vectors import VectorQuery as VectorQuery
    from zeus_runtime.memory.vectors import VectorStore as VectorStore
    from zeus_runtime.middleware.protocol import CallModel as CallModel
    from zeus_runtime.middleware.protocol import CallRun as CallRun
    from zeus_runtime.middleware.protocol import CallTool as CallTool
    from zeus_runtime.middleware.protocol import Middleware as Middleware
    from zeus_runtime.middleware.protocol import Turn as Turn
    from zeus_runtime.models.cassette import Cassette as Cassette
    from zeus_runtime.models.cassette import cassette_model as cassette_model
    from zeus_runtime.models.cassette import read_cassette as read_cassette
    from zeus_runtime.models.cassette import recorded_answer as recorded_answer
    from zeus_runtime.models.content import calls_of as calls_of
    from zeus_runtime.models.content import text_of as text_of
    from zeus_runtime.models.error_classification import model_error as model_error
    from zeus_runtime.models.errors import ModelError as ModelError
    from zeus_runtime.models.interface import CachePoints as CachePoints
    from zeus_runtime.models.interface import Model as Model
    from zeus_runtime.models.interface import ModelPiece as ModelPiece
    from zeus_runtime.models.interface import ModelRequest as ModelRequest
    from zeus_runtime.models.interface import ModelResponse as ModelResponse
    from zeus_runtime.models.interface import ReasoningDelta as ReasoningDelta
    from zeus_runtime.models.interface import Retrying as Retrying
    from zeus_runtime.models.interface import TextDelta as TextDelta
    from zeus_runtime.models.interface import ToolCallDelta as ToolCallDelta
    from zeus_runtime.models.interface import ToolSchema as ToolSchema
    from zeus_runtime.models.interface import Usage as Usage
    from zeus_runtime.models.messages import assistant_message as assistant_message
    from zeus_runtime.models.messages import from_chat as from_chat
    from zeus_runtime.models.messages import from_payload as from_payload
    from zeus_runtime.models.messages import to_chat as to_chat
    from zeus_runtime.models.messages import to_payload as to_payload
    from zeus_runtime.models.messages import well_formed as well_formed
    from zeus_runtime.models.pictures import MAX_PICTURE_BYTES as MAX_PICTURE_BYTES
    from zeus_runtime.models.pictures import Picture as Picture
    from zeus_runtime.models.pictures import keep_picture as keep_picture
    from zeus_runtime.models.pictures import most_picture_bytes as most_picture_bytes
    from zeus_runtime.models.pictures import picture_of as picture_of
    from zeus_runtime.models.pictures import pictures_of as pictures_of
    from zeus_runtime.models.profiles import ModelProfile as ModelProfile
    from zeus_runtime.models.profiles import cost_usd as cost_usd
    from zeus_runtime.models.recorder import Recorder as Recorder
    from zeus_runtime.models.vision import PictureSight as PictureSight
    from zeus_runtime.plan.build import Build as Build
    from zeus_runtime.plan.checks.misfits import Misfit as Misfit
    from zeus_runtime.plan.checks.misfits import Surroundings as Surroundings
    from zeus_runtime.prompt.sections import Section as Section
    from zeus_runtime.prompt.sections import SourcedText as SourcedText
    from zeus_runtime.registry.component import Component as Component
    from zeus_runtime.registry.home import accounts_folder as accounts_folder
    from zeus_runtime.registry.hookspecs import hookimpl as hookimpl
    from zeus_runtime.skills.discovery import Skill as Skill
    from zeus_runtime.skills.discovery import Skills as Skills
    from zeus_runtime.skills.discovery import find_skills as find_skills
    from zeus_runtime.skills.discovery import has_skills as has_skills
    from zeus_runtime.skills.discovery import skill_roots as skill_roots
    from zeus_runtime.skills.front_matter import read_skill_text as read_skill_text
    from zeus_runtime.skills.listing import matching_skills as matching_skills
    from zeus_runtime.skills.listing import skill_listing as skill_listing
    from zeus_runtime.skills.resources import read_skill_resource as read_skill_resource
    from zeus_runtime.skills.resources import skill_resources as skill_resources
    from zeus_runtime.store.database import make_private as make_private
    from zeus_runtime.store.database import sqlite_file as sqlite_file
    from zeus_runtime.store.database import without_password as without_password
    from zeus_runtime.store.postgres import connection_arguments as connection_arguments
    from zeus_runtime.store.postgres import connection_may_be_gone as connection_may_be_gone
    from zeus_runtime.store.postgres import explained_postgres_error as explained_postgres_error
    from zeus_runtime.store.row_security import secure_rows as secure_rows
    from zeus_runtime.store.session_lock import claim as claim
    from zeus_runtime.store.session_lock import claim_lost as claim_lost
    from zeus_runtime.store.session_lock import epoch_of as epoch_of
    from zeus_runtime.store.sqlite_errors import explained_sqlite_error as explained_sqlite_error
    from zeus_runtime.store.transactions import Transactions as Transactions
    from zeus_runtime.store.transactions import retry_while_locked as retry_while_locked
    from zeus_runtime.tools.access import ANY_TOOL as ANY_TOOL
    from zeus_runtime.tools.access import AccessLayer as AccessLayer
    from zeus_runtime.tools.access import Patterns as Patterns
    from zeus_runtime.tools.access import Reached as Reached
    from zeus_runtime.tools.access import Ruling as Ruling
    from zeus_runtime.tools.approval import ApprovalChannel as ApprovalChannel
    from zeus_runtime.tools.approval import ApprovalPending as ApprovalPending
    from zeus_runtime.tools.approval import ApprovalRequest as ApprovalRequest
    from zeus_runtime.tools.approval import Approvals as Approvals
    from zeus_runtime.tools.approval import AskMode as AskMode
    from zeus_runtime.tools.approval import AskModes as AskModes
    from zeus_runtime.tools.approval import Decision as Decision
    from zeus_runtime.tools.approval import PendingApproval as PendingApproval
    from zeus_runtime.tools.attachments import Reference as Reference
    from zeus_runtime.tools.define import tool as tool
    from zeus_runtime.tools.dispatch import validate_arguments as validate_arguments
    from zeus_runtime.tools.entries import FileEntry as FileEntry
    from zeus_runtime.tools.gate import AccessAsked as AccessAsked
    from zeus_runtime.tools.masked_text import edited_masked as edited_masked
    from zeus_runtime.tools.masked_text import masked_bytes as masked_bytes
    from zeus_runtime.tools.masked_text import placeholders_left as placeholders_left
    from zeus_runtime.tools.masked_text import written_masked as written_masked
    from zeus_runtime.tools.modes import has_connectors as has_connectors
    from zeus_runtime.tools.own_folders import own_path as own_path
    from zeus_runtime.tools.paths import NoSuchFileError as NoSuchFileError
    from zeus_runtime.tools.paths import WorkspaceError as WorkspaceError
    from zeus_runtime.tools.paths import composed as composed
    from zeus_runtime.tools.patterns import PathFilter as PathFilter
    from zeus_runtime.tools.patterns import PathTest as PathTest
    from zeus_runtime.tools.patterns import compile_filter as compile_filter
    from zeus_runtime.tools.patterns import compile_glob as compile_glob
    from zeus_runtime.tools.patterns import expand_braces as expand_braces
    from zeus_runtime.tools.patterns import folded_glob as folded_glob
    from zeus_runtime.tools.patterns import literal_prefix as literal_prefix
    from zeus_runtime.tools.patterns import parts_of as parts_of
    from zeus_runtime.tools.preview import Change as Change
    from zeus_runtime.tools.preview import Preview as Preview
    from zeus_runtime.tools.preview import preview_of as preview_of
    from zeus_runtime.tools.run_to_completion import finished as finished
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
    from zeus_runtime.tools.sandbox import refuse_unrunnable as refuse_unrunnable
    from zeus_runtime.tools.sandbox_files import SandboxFiles as SandboxFiles
    from zeus_runtime.tools.sandbox_files import inner_path as inner_path
    from zeus_runtime.tools.sandbox_folders import make_session_folder as make_session_folder
    from zeus_runtime.tools.sandbox_folders import remove_folder as remove_folder
    from zeus_runtime.tools.sandbox_folders import remove_older as remove_older
    from zeus_runtime.tools.sandbox_folders import session_folder as session_folder
    from zeus_runtime.tools.sandbox_local import folder_sandboxes as folder_sandboxes
    from zeus_runtime.tools.sandbox_sessions import SandboxSessions as SandboxSessions
    from zeus_runtime.tools.search import SearchHit as SearchHit
    from zeus_runtime.tools.search import WebSearch as WebSearch
    from zeus_runtime.tools.tool import Access as Access
    from zeus_runtime.tools.tool import Category as Category
    from zeus_runtime.tools.tool import Tool as Tool
    from zeus_runtime.tools.tool import ToolCall as ToolCall
    from zeus_runtime.tools.tool import ToolResult as ToolResult
    from zeus_runtime.tools.tool import ToolRun as ToolRun
    from zeus_runtime.tools.toolset import Account as Account
    from zeus_runtime.tools.toolset import Connection as Connection
    from zeus_runtime.tools.toolset import ConnectionState as ConnectionState
    from zeus_runtime.tools.toolset import Tell as Tell
    from zeus_runtime.tools.toolset import Toolset as Toolset
    from zeus_runtime.tools.worker_process import Apart as Apart
    from zeus_runtime.tools.worker_process import ApartError as ApartError
    from zeus_runtime.tools.workspace import WorkspaceFiles as WorkspaceFiles
    from zeus_runtime.trust.decision import UntrustedError as UntrustedError
    from zeus_runtime.trust.parts import Command as Command
    from zeus_runtime.trust.parts import Remote as Remote


_ROOMS = {
    "ANY_TOOL": "tools.access",
    "Access": "tools.tool",
    "AccessAsked": "tools.gate",
    "AccessLayer": "tools.access",
    "Account": "tools.toolset",
    "Agent": "agent.agent",
    "Alias": "config.schema.annotations",
    "AlsoCalled": "config.schema.annotations",
    "Apart": "tools.worker_process",
    "ApartError": "tools.worker_process",
    "ApprovalChannel": "tools.approval",
    "ApprovalPending": "tools.approval",
    "ApprovalRequest": "tools.approval",
    "Approvals": "tools.approval",
    "Archive": "context.archive",
    "AskMode": "tools.approval",
    "AskModes": "tools.approval",
    "AtHand": "memory.vectors",
    "BROWSER_SERVER": "config.mcp",
    "Budget": "context",
    "Build": "plan.build",
    "CachePoints": "models.interface",
    "Calibration": "memory.embedding",
    "CallModel": "middleware.protocol",
    "CallRun": "middleware.protocol",
    "CallTool": "middleware.protocol",
    "Cassette": "models.cassette",
    "Category": "tools.tool",
    "Change": "tools.preview",
    "Command": "trust.parts",
    "Component": "registry.component",
    "Config": "config.model",
    "ConfigError": "config.messages.diagnostics",
    "Connection": "tools.toolset",
    "ConnectionState": "tools.toolset",
    "Connector": "config.mcp",
    "Counter": "context.tokens",
    "Decision": "tools.approval",
    "Destination": "config.schema.markers",
    "Diagnostic": "config.messages.diagnostics",
    "Doc": "config.schema.annotations",
    "DropBefore": "context",
    "Edit": "context",
    "Embedder": "memory.embedding",
    "Embedding": "memory.items",
    "EmbeddingUnavailableError": "memory.embedding",
    "Entry": "memory.vectors",
    "Evict": "context.edits",
    "Executes": "config.schema.markers",
    "FailedRunError": "agent.result",
    "FileEntry": "tools.entries",
    "FileRelative": "config.schema.markers",
    "Item": "context.items",
    "KnowledgeService": "knowledge.service",
    "LimitError": "errors",
    "MAX_PICTURE_BYTES": "models.pictures",
    "MaxLength": "config.schema.annotations",
    "Maximum": "config.schema.annotations",
    "McpServer": "config.mcp",
    "MemoryItem": "memory.items",
    "MemoryService": "memory.service",
    "MemoryType": "memory.items",
    "Middleware": "middleware.protocol",
    "MinLength": "config.schema.annotations",
    "Minimum": "config.schema.annotations",
    "Misfit": "plan.checks.misfits",
    "MissingError": "errors",
    "Model": "models.interface",
    "ModelError": "models.errors",
    "ModelPiece": "models.interface",
    "ModelProfile": "models.profiles",
    "ModelRequest": "models.interface",
    "ModelResponse": "models.interface",
    "NoSuchFileError": "tools.paths",
    "OptionsError": "errors",
    "Outcome": "tools.sandbox",
    "PathFilter": "tools.patterns",
    "PathTest": "tools.patterns",
    "Pattern": "config.schema.annotations",
    "Patterns": "tools.access",
    "PendingApproval": "tools.approval",
    "Picture": "models.pictures",
    "PictureSight": "models.vision",
    "Pin": "context.edits",
    "Preview": "tools.preview",
    "Program": "tools.sandbox",
    "Ranked": "memory.retrieval.ranking",
    "Reach": "memory.permissions",
    "Reached": "tools.access",
    "ReasoningDelta": "models.interface",
    "Recorder": "models.recorder",
    "Redactor": "config.secrets.masking",
    "Ref": "config.ref",
    "RefTo": "config.schema.annotations",
    "Reference": "tools.attachments",
    "Refusal": "context.planner",
    "Remote": "trust.parts",
    "Retrying": "models.interface",
    "Ruling": "tools.access",
    "RunError": "errors",
    "RunResult": "agent.result",
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
    "Saved": "memory.outcomes",
    "Scope": "memory.items",
    "SearchHit": "tools.search",
    "Secret": "config.secrets.masking",
    "Section": "prompt.sections",
    "Size": "context.size",
    "Skill": "skills.discovery",
    "Skills": "skills.discovery",
    "SourcedText": "prompt.sections",
    "SubAgent": "config.model",
    "Summarize": "context",
    "Surroundings": "plan.checks.misfits",
    "Tell": "tools.toolset",
    "TextDelta": "models.interface",
    "Tool": "tools.tool",
    "ToolCall": "tools.tool",
    "ToolCallDelta": "models.interface",
    "ToolResult": "tools.tool",
    "ToolRun": "tools.tool",
    "ToolSchema": "models.interface",
    "Toolset": "tools.toolset",
    "Transactions": "store.transactions",
    "TruncateArguments": "context.edits",
    "Turn": "middleware.protocol",
    "UnavailableError": "errors",
    "UnknownMemoryError": "memory.outcomes",
    "UntrustedError": "trust.decision",
    "Usage": "models.interface",
    "VectorQuery": "memory.vectors",
    "VectorStore": "memory.vectors",
    "View": "context",
    "WORKING_FOLDER": "tools.sandbox",
    "WebSearch": "tools.search",
    "WorkRelative": "config.schema.markers",
    "WorkerFactory": "memory.embedding",
    "WorkspaceError": "tools.paths",
    "WorkspaceFiles": "tools.workspace",
    "ZeusError": "errors",
    "accounts_folder": "registry.home",
    "arrivals": "context.arrivals",
    "assistant_message": "models.messages",
    "calls_of": "models.content",
    "cassette_model": "models.cassette",
    "claim": "store.session_lock",
    "claim_lost": "store.session_lock",
    "compile_filter": "tools.patterns",
    "compile_glob": "tools.patterns",
    "composed": "tools.paths",
    "connection_arguments": "store.postgres",
    "connection_may_be_gone": "store.postgres",
    "convert_file": "knowledge.convert",
    "cost_usd": "models.profiles",
    "counter_for": "context.tokens",
    "counter_with": "context.tokens",
    "cut_text": "cutting",
    "dataclass": "frozen",
    "edited_masked": "tools.masked_text",
    "epoch_of": "store.session_lock",
    "expand_braces": "tools.patterns",
    "explained_postgres_error": "store.postgres",
    "explained_sqlite_error": "store.sqlite_errors",
    "find_skills": "skills.discovery",
    "finished": "tools.run_to_completion",
    "folded_glob": "tools.patterns",
    "folder_sandboxes": "tools.sandbox_local",
    "from_chat": "models.messages",
    "from_langchain_middleware": "bridges.langchain",
    "from_langchain_tool": "bridges.langchain",
    "from_payload": "models.messages",
    "has_connectors": "tools.modes",
    "has_skills": "skills.discovery",
    "hookimpl": "registry.hookspecs",
    "inner_path": "tools.sandbox_files",
    "keep_picture": "models.pictures",
    "kept_from": "context.kept_part",
    "last_words": "cutting",
    "literal_prefix": "tools.patterns",
    "make_private": "store.database",
    "make_session_folder": "tools.sandbox_folders",
    "masked_bytes": "tools.masked_text",
    "matching_skills": "skills.listing",
    "model_error": "models.error_classification",
    "most_picture_bytes": "models.pictures",
    "own_path": "tools.own_folders",
    "parts_of": "tools.patterns",
    "picture_of": "models.pictures",
    "pictures_of": "models.pictures",
    "placeholders_left": "tools.masked_text",
    "preview_of": "tools.preview",
    "printable": "escaping",
    "read_cassette": "models.cassette",
    "read_skill_resource": "skills.resources",
    "read_skill_text": "skills.front_matter",
    "recorded_answer": "models.cassette",
    "refuse_unrunnable": "tools.sandbox",
    "remove_folder": "tools.sandbox_folders",
    "remove_older": "tools.sandbox_folders",
    "retry_while_locked": "store.transactions",
    "rules_for": "context.cache_model",
    "secure_rows": "store.row_security",
    "servers_in_file": "config.layers.mcp_files",
    "session_folder": "tools.sandbox_folders",
    "skill_listing": "skills.listing",
    "skill_resources": "skills.resources",
    "skill_roots": "skills.discovery",
    "sqlite_file": "store.database",
    "text_of": "models.content",
    "to_chat": "models.messages",
    "to_payload": "models.messages",
    "tool": "tools.define",
    "tool_groups": "context.arrivals",
    "validate_arguments": "tools.dispatch",
    "well_formed": "models.messages",
    "without_password": "store.database",
    "written_masked": "tools.masked_text",
}

__all__ = ["__version__", *sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS)
