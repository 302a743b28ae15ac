"""A client of a service (`zeus serve`): typed results and events, streams that continue, errors with its codes.

    from zeus_runtime.client import ServiceClient

    with ServiceClient("http://localhost:8700", token) as service:
        for event in service.run("Which orders are late?"):
            print(event)

``AsyncServiceClient`` has the same methods for asyncio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeus_runtime.lazy import lazy

if TYPE_CHECKING:
    from zeus_runtime.client.clients import AsyncServiceClient as AsyncServiceClient
    from zeus_runtime.client.clients import ServiceClient as ServiceClient
    from zeus_runtime.client.errors import ServiceBusyError as ServiceBusyError
    from zeus_runtime.client.errors import ServiceChangedError as ServiceChangedError
    from zeus_runtime.client.errors import ServiceError as ServiceError
    from zeus_runtime.client.errors import ServiceForbiddenError as ServiceForbiddenError
    from zeus_runtime.client.errors import ServiceLimitError as ServiceLimitError
    from zeus_runtime.client.errors import ServiceNotFoundError as ServiceNotFoundError
    from zeus_runtime.client.errors import ServiceRequestError as ServiceRequestError
    from zeus_runtime.client.errors import ServiceUnauthorizedError as ServiceUnauthorizedError
    from zeus_runtime.client.errors import ServiceUnavailableError as ServiceUnavailableError
    from zeus_runtime.client.results import ServiceAgent as ServiceAgent
    from zeus_runtime.client.results import ServiceApproval as ServiceApproval
    from zeus_runtime.client.results import ServiceArtifact as ServiceArtifact
    from zeus_runtime.client.results import ServiceBacktest as ServiceBacktest
    from zeus_runtime.client.results import ServiceBase as ServiceBase
    from zeus_runtime.client.results import ServiceDecision as ServiceDecision
    from zeus_runtime.client.results import ServiceEvent as ServiceEvent
    from zeus_runtime.client.results import ServiceFile as ServiceFile
    from zeus_runtime.client.results import ServiceFoundMessage as ServiceFoundMessage
    from zeus_runtime.client.results import ServiceHit as ServiceHit
    from zeus_runtime.client.results import ServiceMemory as ServiceMemory
    from zeus_runtime.client.results import ServicePage as ServicePage
    from zeus_runtime.client.results import ServiceProfile as ServiceProfile
    from zeus_runtime.client.results import ServiceSaved as ServiceSaved
    from zeus_runtime.client.results import ServiceSession as ServiceSession
    from zeus_runtime.client.results import ServiceTurn as ServiceTurn

_ROOMS = {
    "AsyncServiceClient": "clients",
    "ServiceAgent": "results",
    "ServiceApproval": "results",
    "ServiceArtifact": "results",
    "ServiceBacktest": "results",
    "ServiceBase": "results",
    "ServiceBusyError": "errors",
    "ServiceChangedError": "errors",
    "ServiceClient": "clients",
    "ServiceDecision": "results",
    "ServiceError": "errors",
    "ServiceEvent": "results",
    "ServiceFile": "results",
    "ServiceForbiddenError": "errors",
    "ServiceFoundMessage": "results",
    "ServiceHit": "results",
    "ServiceLimitError": "errors",
    "ServiceMemory": "results",
    "ServiceNotFoundError": "errors",
    "ServicePage": "results",
    "ServiceProfile": "results",
    "ServiceRequestError": "errors",
    "ServiceSaved": "results",
    "ServiceSession": "results",
    "ServiceTurn": "results",
    "ServiceUnauthorizedError": "errors",
    "ServiceUnavailableError": "errors",
}

__all__ = [*sorted(_ROOMS)]

__getattr__, __dir__ = lazy(__name__, _ROOMS)
