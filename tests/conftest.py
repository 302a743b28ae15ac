"""For all tests: the databases that what is stored runs on (``tests.support.databases``), and what spares them time."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.asked_once import ask_once
from tests.support.databases import database_url, postgres_server, postgres_url

if TYPE_CHECKING:
    from tests.support.scheduling import GroupScheduling

__all__ = ["database_url", "postgres_server", "postgres_url"]

# Laws are tested, not the speed of a machine that others use too. Each run draws other examples.
settings.register_profile(
    "zeus",
    deadline=None,
    max_examples=int(os.environ.get("ZEUS_TEST_EXAMPLES", "25")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("zeus")

ask_once()

# Collecting makes half a million objects that stay: to look for garbage among them took a third of its time.
gc.disable()

# Pytest compiles each module of tests anew, a third of the time of collecting, where it must not keep what it compiled.
sys.dont_write_bytecode = False

# Tests end processes and never the machine, so no file has to reach a disk. A container's memory disk may be too small.
_IN_MEMORY = Path("/dev/shm")
if _IN_MEMORY.is_dir() and os.access(_IN_MEMORY, os.W_OK) and shutil.disk_usage(_IN_MEMORY).free > 2 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_IN_MEMORY))

# The configs of tests are their own. What is about trust takes this away (``tests/trust``).
os.environ["ZEUS_TRUST"] = "all"
_STATE = tempfile.mkdtemp(prefix="zeus-tests-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT"))
os.environ["XDG_STATE_HOME"] = _STATE


def pytest_unconfigure() -> None:
    """Leave nothing in memory."""
    shutil.rmtree(_STATE, ignore_errors=True)


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than processors: a quarter of a worker's time is waiting, for processes, servers and disks."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Compile what each worker would compile."""
    from tests.support.compiled_tests import compile_tests

    compile_tests(config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling | None:
    """``--dist loadgroup`` by a scheduler that is quick with thousands of tests."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from tests.support.scheduling import GroupScheduling

    return GroupScheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Modules and tests stay until the end: they are not looked through for garbage again and again."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.fixture
def unlisted(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Hides a name in all listings from then on."""

    def hide(name: str) -> None:
        listed = os.listdir
        monkeypatch.setattr(os, "listdir", lambda at: [each for each in listed(at) if each != name])

    return hide


@pytest.fixture(autouse=True)
def secrets_of_one_test() -> None:
    """Forget the secrets of agents of earlier tests that are not collected yet: a placeholder could have their name."""
    cutting = sys.modules.get("zeus_runtime.cutting")
    if cutting is not None:
        cutting._MASKERS.clear()


@pytest.fixture(autouse=True)
def litellms_connections() -> Iterator[None]:
    """Close what litellm keeps for each address: every test has a provider of its own, and they add up to thousands."""
    yield
    litellm = sys.modules.get("litellm")
    if hasattr(litellm, "in_memory_llm_clients_cache"):
        litellm.in_memory_llm_clients_cache.flush_cache()
