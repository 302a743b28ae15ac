"""Zeus runtime: one validated YAML file defines an agent; this package runs it.

These are the names for programs that run agents: the agent, its events, errors and approvals. The names for plugin
authors are in ``zeus_runtime.plugin``. Each name is loaded at first use, so importing the package costs nothing.
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
    from zeus_runtime.config.messages.diagnostics import ConfigError as ConfigError
    from zeus_runtime.config.messages.diagnostics import Diagnostic as Diagnostic
    from zeus_runtime.config.model import Config as Config
    from zeus_runtime.errors import CancelledRunError as CancelledRunError
    from zeus_runtime.errors import LimitError as LimitError
    from zeus_runtime.errors import MissingError as MissingError
    from zeus_runtime.errors import OptionsError as OptionsError
    from zeus_runtime.errors import RunError as RunError
    from zeus_runtime.errors import UnavailableError as UnavailableError
    from zeus_runtime.errors import UsageError as UsageError
    from zeus_runtime.errors import ZeusError as ZeusError
    from zeus_runtime.events import ApprovalDecided as ApprovalDecided
    from zeus_runtime.events import ApprovalRequested as ApprovalRequested
    from zeus_runtime.events import Event as Event
    from zeus_runtime.events import ModelCallEnded as ModelCallEnded
    from zeus_runtime.events import ModelCallStarted as ModelCallStarted
    from zeus_runtime.events import ModelChanged as ModelChanged
    from zeus_runtime.events import ModelRetry as ModelRetry
    from zeus_runtime.events import Notice as Notice
    from zeus_runtime.events import OutputPartial as OutputPartial
    from zeus_runtime.events import Reasoning as Reasoning
    from zeus_runtime.events import RunCompleted as RunCompleted
    from zeus_runtime.events import RunFailed as RunFailed
    from zeus_runtime.events import RunStarted as RunStarted
    from zeus_runtime.events import SubAgentEvent as SubAgentEvent
    from zeus_runtime.events import Text as Text
    from zeus_runtime.events import TokenUsage as TokenUsage
    from zeus_runtime.events import ToolCallChunk as ToolCallChunk
    from zeus_runtime.events import ToolCallResult as ToolCallResult
    from zeus_runtime.events import ToolCallStarted as ToolCallStarted
    from zeus_runtime.events import ToolProgress as ToolProgress
    from zeus_runtime.tools.approval import ApprovalChannel as ApprovalChannel
    from zeus_runtime.tools.approval import ApprovalRequest as ApprovalRequest
    from zeus_runtime.tools.approval import Decision as Decision
    from zeus_runtime.tools.approval import PendingApproval as PendingApproval
    from zeus_runtime.trust.decision import UntrustedError as UntrustedError

_ROOMS = {
    "Agent": "agent.agent",
    "ApprovalChannel": "tools.approval",
    "ApprovalDecided": "events",
    "ApprovalRequest": "tools.approval",
    "ApprovalRequested": "events",
    "CancelledRunError": "errors",
    "Config": "config.model",
    "ConfigError": "config.messages.diagnostics",
    "Decision": "tools.approval",
    "Diagnostic": "config.messages.diagnostics",
    "Event": "events",
    "FailedRunError": "agent.result",
    "LimitError": "errors",
    "MissingError": "errors",
    "ModelCallEnded": "events",
    "ModelCallStarted": "events",
    "ModelChanged": "events",
    "ModelRetry": "events",
    "Notice": "events",
    "OptionsError": "errors",
    "OutputPartial": "events",
    "PendingApproval": "tools.approval",
    "Reasoning": "events",
    "RunCompleted": "events",
    "RunError": "errors",
    "RunFailed": "events",
    "RunResult": "agent.result",
    "RunStarted": "events",
    "SubAgentEvent": "events",
    "Text": "events",
    "TokenUsage": "events",
    "ToolCallChunk": "events",
    "ToolCallResult": "events",
    "ToolCallStarted": "events",
    "ToolProgress": "events",
    "UnavailableError": "errors",
    "UntrustedError": "trust.decision",
    "UsageError": "errors",
    "ZeusError": "errors",
    "from_langchain_middleware": "bridges.langchain",
    "from_langchain_tool": "bridges.langchain",
}

__all__ = ["__version__", *sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS)
