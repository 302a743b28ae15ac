"""For all tests: the databases that what is stored runs on (``tests.support.databases``), and what spares them time."""

from __future__ import annotations

import gc
import os
import tempfile

import pytest
from hypothesis import HealthCheck, settings

from tests.support.asked_once import ask_once
from tests.support.databases import database_url, postgres_server, postgres_url

__all__ = ["database_url", "postgres_server", "postgres_url"]

# Laws are tested, not the speed of a machine that others use too.
settings.register_profile("zeus", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("zeus")

ask_once()

# The configs of tests are their own. What is about trust takes this away (``tests/trust``).
os.environ["ZEUS_TRUST"] = "all"
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="zeus-tests-")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Modules and tests stay until the end: they are not looked through for garbage again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
