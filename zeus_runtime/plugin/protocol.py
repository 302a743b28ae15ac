"""Protocols of the service: the interface, and a protocol's way to agents, sessions, turns, events and approvals.

A ``ServedProtocol`` gives Starlette routes. For each request it asks its ``ProtocolService`` for the
``ProtocolCaller``, which does all that the caller may do and no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.errors import BusyError as BusyError
    from zeus_runtime.errors import NotFoundError as NotFoundError
    from zeus_runtime.errors import UsageError as UsageError
    from zeus_runtime.serving.http.problems import STATUS as STATUS
    from zeus_runtime.serving.http.protocols import AgentInfo as AgentInfo
    from zeus_runtime.serving.http.protocols import ProtocolCaller as ProtocolCaller
    from zeus_runtime.serving.http.protocols import ProtocolService as ProtocolService
    from zeus_runtime.serving.http.protocols import ServedEvent as ServedEvent
    from zeus_runtime.serving.http.protocols import ServedProtocol as ServedProtocol
    from zeus_runtime.serving.http.protocols import is_clients as is_clients
    from zeus_runtime.serving.mcp_answers import visible_answers as visible_answers
    from zeus_runtime.serving.mcp_answers import visible_errors as visible_errors
    from zeus_runtime.serving.visible_results import visible_text as visible_text
    from zeus_runtime.store.turns import StoredTurn as StoredTurn
    from zeus_runtime.tools.client_tool import ClientTool as ClientTool
    from zeus_runtime.tools.client_tool import client_arguments as client_arguments

_ROOMS = {
    "AgentInfo": "serving.http.protocols",
    "BusyError": "errors",
    "ClientTool": "tools.client_tool",
    "NotFoundError": "errors",
    "ProtocolCaller": "serving.http.protocols",
    "ProtocolService": "serving.http.protocols",
    "STATUS": "serving.http.problems",
    "ServedEvent": "serving.http.protocols",
    "ServedProtocol": "serving.http.protocols",
    "StoredTurn": "store.turns",
    "UsageError": "errors",
    "client_arguments": "tools.client_tool",
    "is_clients": "serving.http.protocols",
    "visible_answers": "serving.mcp_answers",
    "visible_errors": "serving.mcp_answers",
    "visible_text": "serving.visible_results",
}

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS, root="zeus_runtime")
