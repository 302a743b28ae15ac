"""Requests made from the service's own OpenAPI: no failure, only what it says, problems for bad input."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import CHECKS
from schemathesis.generation import GenerationMode

from tests.support.agents import call, calling, script, write_agent
from tests.support.serving import TOKEN, service_of
from zeus_runtime.serving.http.app import app_of

EXAMPLES: Final = 3
"""Of each operation and kind of data."""
ENDLESS: Final = ("/v1/sessions/{session}/events", "/v1/runs/{run}/events")
NAMES: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
GOES: Final = ("DELETE", "/archive", "/rollback", "/cancel")
"""Operations that would take the session or the run away that the others need."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a service in a thread."""
    folder = tmp_path_factory.mktemp("service")
    write_agent(folder, "memory: {user: ann}\nmiddlewares: [approve, resources]\n")
    model = script(calling(call("record", "a", text="x")), *(f"Answer {n}." for n in range(500)))
    config = uvicorn.Config(app_of(service_of(folder, model)), port=0, log_config=None, access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30) as client:
        yield client
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def known(service: httpx.Client) -> dict[str, str]:
    """Real ids by the name of their parameter: a turn that waits for a decision, a memory."""
    session = service.post("/v1/sessions", json={}).json()["session"]
    run = service.post(f"/v1/sessions/{session}/runs", json={"prompt": "go"}).json()["run"]
    while service.get(f"/v1/runs/{run}").json()["state"] != "waiting":
        time.sleep(0.02)
    (pending,) = service.get("/v1/approvals").json()
    kept = service.post("/v1/memories", json={"content": "The user lives in Graz."}).json()
    return {
        "session": session,
        "run": run,
        "approval": pending["id"],
        "memory": kept["memory"]["id"],
        "agent": "test",
    }


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["valid", "wrong"])
def test_the_service_answers_as_its_openapi_says(
    service: httpx.Client, known: dict[str, str], mode: GenerationMode
) -> None:
    schema = schemathesis.openapi.from_dict(service.get("/openapi.json").json())
    failures: list[str] = []
    asked = 0
    for found in schema.get_all_operations():
        operation: Any = found.ok()
        if operation.path in ENDLESS:
            continue
        goes = any(word in f"{operation.method.upper()} {operation.path}" for word in GOES)
        for is_second in (False, True):
            try:
                asked += answered(operation, mode, service, {} if goes else known)
                break
            except BaseExceptionGroup as group:
                # CPython 3.11 counts the depth of syntax trees for all threads together (gh-106905), and both the
                # library that makes the requests and the service's thread may parse when they begin.
                if not is_second and all(isinstance(each, SystemError) for each in group.exceptions):
                    continue
                failures.append(f"{operation.label}: {[str(each) for each in group.exceptions]}")
                break
    assert not failures, "\n\n".join(failures)
    assert asked > 100


def answered(operation: Any, mode: GenerationMode, service: httpx.Client, ids: dict[str, str]) -> int:
    """Send requests for an operation and check the answers; how many there were.

    Args:
        ids: real ones, for half of the requests.
    """
    asked = 0

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), real=st.booleans())
    def ask(case: Any, real: bool) -> None:
        nonlocal asked
        if real:
            given_ids = case.path_parameters or {}
            case.path_parameters = {name: ids.get(name, value) for name, value in given_ids.items()}
        asked += 1
        case.call_and_validate(
            base_url=str(service.base_url),
            headers={"Authorization": f"Bearer {TOKEN}"},
            checks=CHECKS.get_by_names(NAMES),
        )

    ask()
    return asked
