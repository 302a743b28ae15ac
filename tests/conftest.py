"""For all tests: the databases that what is stored runs on (``tests.support.databases``), and Hypothesis's settings."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.support.databases import database_url, postgres_server, postgres_url

__all__ = ["database_url", "postgres_server", "postgres_url"]

# Laws are tested, not the speed of a machine that others use too.
settings.register_profile("zeus", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("zeus")
