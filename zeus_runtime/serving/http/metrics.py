"""The figures of a service in the Prometheus text format. No label holds an id or a name of a user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

if TYPE_CHECKING:
    from collections.abc import Callable


class Metrics:
    """The figures of one service.

    Args:
        working: how many sessions have a turn that runs.
    """

    def __init__(self, working: Callable[[], float]) -> None:
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter(
            "zeus_http_requests", "Answered requests.", ("method", "route", "status"), registry=registry
        )
        self.seconds = Histogram(
            "zeus_http_request_seconds",
            "From a request to the head of its answer.",
            ("route",),
            registry=registry,
            buckets=(0.005, 0.02, 0.1, 0.5, 2, 10),
        )
        self.open = Gauge(
            "zeus_http_open_requests", "Requests that are answered, with streams.", registry=registry
        )
        self.unaudited = Counter(
            "zeus_audit_failures", "Acts that could not be written into the audit log.", registry=registry
        )
        turns = Gauge("zeus_sessions_working", "Sessions with a turn that runs.", registry=registry)
        turns.set_function(working)

    def text(self) -> bytes:
        """All figures as Prometheus reads them."""
        return generate_latest(self._registry)
