"""What a session's own folder holds is masked in all that a caller sends to a service, and in all that it shows."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.serving.test_http_keys import bearer, keyed, made, ready_database
from tests.serving.test_http_users import NAMING, OF_ONE
from tests.support.agents import call, calling, script, write_agent
from tests.support.serving import begun, service_of, serving, until
from zeus_runtime import Agent
from zeus_runtime.agent import session_plans
from zeus_runtime.errors import ZeusError
from zeus_runtime.serving.http.settings import Settings
from zeus_runtime.tools.approval import Decision

OWN: Final = "workspace: {root: work, per: session}\nmiddlewares: [approve]\n"


def secret(number: int) -> str:
    return f"xK{sha256(bytes([number])).hexdigest()[:20]}"


UNKNOWN: Final = " ".join(map(secret, range(10, 60)))
"""What is stored before a file of the folder has it."""
WRITES: Final = calling(call("write_file", "w", path="/x.txt", content=UNKNOWN))


def keep(folder: Path, number: int) -> str:
    """A new secret in a new file of a session's folder."""
    (folder / f".env.n{number}").write_text(f"A_TOKEN={secret(number)}\n")
    return secret(number)


def stored(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in (folder / ".zeus").rglob("*") if each.is_file())


@asynccontextmanager
async def waiting(
    tmp_path: Path, model: Any = None
) -> AsyncIterator[tuple[httpx.AsyncClient, str, str, Agent]]:
    """A service that has not worked in the session yet, whose turn waits for an approval; also the run."""
    (tmp_path / "work").mkdir()
    write_agent(tmp_path, OWN, tools="[filesystem]")
    async with serving(service_of(tmp_path, script(WRITES))) as client:
        session, run = await begun(client, f"go {UNKNOWN}")
        await until(client, run, "waiting")
    service = service_of(tmp_path, model or script("Done."))
    async with serving(service) as client:
        yield client, session, run, service.hosting.named(None).of(None)


async def test_a_prompt_is_masked_before_the_session_has_a_plan(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (client, session, _, _):
        old = keep(tmp_path / "work" / session, 10)
        waits = (await client.get("/v1/approvals")).text
        assert secret(11) in waits
        assert old not in waits
        given = keep(tmp_path / "work" / session, 1)
        answer = await client.post(
            f"/v1/sessions/{session}/runs", json={"prompt": f"see {given}!"}, params={"queue": 1}
        )
        shown = await client.get(f"/v1/sessions/{session}/runs")
    assert answer.status_code == 202
    assert "see <secret:.env.n1/A_TOKEN-" in answer.text
    assert given not in shown.text
    assert given.encode() not in stored(tmp_path)


@pytest.mark.parametrize(
    "decision",
    [
        {"decision": "reject", "reason": "not SECRET"},
        {
            "decision": "approve",
            "instruction": "not SECRET",
            "changed": {"path": "/x.txt", "content": "not SECRET"},
        },
    ],
)
async def test_a_decision_is_masked_before_the_session_has_a_plan(
    tmp_path: Path, decision: dict[str, Any]
) -> None:
    async with waiting(tmp_path) as (client, session, run, _):
        (pending,) = (await client.get("/v1/approvals")).json()
        given = keep(tmp_path / "work" / session, 1)
        body = {
            name: {**each, "content": f"not {given}"}
            if isinstance(each, dict)
            else each.replace("SECRET", given)
            for name, each in decision.items()
        }
        answer = await client.post(f"/v1/approvals/{pending['id']}", json=body)
        assert answer.status_code == 200, answer.text
        await until(client, run, "complete", "failed")
    assert given.encode() not in stored(tmp_path)
    assert b"<secret:.env.n1/A_TOKEN-" in stored(tmp_path)


async def unmasked_routes(
    client: httpx.AsyncClient, session: str, run: str, folder: Path, agent: Agent
) -> list[str]:
    """The routes that name a session and do not mask what its folder has got just before the request."""
    routes = [(each, given) for each, given in (*OF_ONE.items(), *NAMING.items())]
    names = ("{session}", "{run}", "{approval}")
    named = [
        (method, path, given)
        for (method, path), given in routes
        if any(each in path or each in repr(given) for each in names)
    ]
    assert len(named) > 25
    # A rollback gives up what waits, and at the end there is no session.
    named.sort(key=lambda each: (each[0] == "DELETE", "/approvals/" not in each[1]))
    late = []
    (pending,) = (await client.get("/v1/approvals")).json()
    values = {"session": session, "run": run, "approval": pending["id"], "number": "1"}
    for number, (method, path, given) in enumerate(named, 10):
        new = keep(folder, number)
        body = {**given, "json": {"sessions": [session]}} if "{session}" in repr(given) else given
        request = client.build_request(method, path.format(**values), **body)
        answer = await client.send(request, stream=True)
        # A stream of events has no end.
        shown = await anext(answer.aiter_text(1_000_000 if "/events" not in path else None), "")
        await answer.aclose()
        if new in shown or agent.masked(f"see {new}!") == f"see {new}!":
            late.append(f"{method} {path}: {answer.status_code}")
    return late


async def test_every_route_that_names_a_session_looks_at_its_folder_first(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (client, session, run, agent):
        assert await unmasked_routes(client, session, run, tmp_path / "work" / session, agent) == []


async def test_every_route_that_shows_a_users_session_to_another_caller_looks_at_the_users_folder_first(
    tmp_path: Path,
) -> None:
    """The token of the process reaches the sessions of all users."""
    (tmp_path / "work").mkdir()
    write_agent(tmp_path, OWN.replace("per: session", "per: user"), tools="[filesystem]")
    database = await ready_database(tmp_path)
    service = replace(service_of(tmp_path, script(WRITES, "Done.")), settings=Settings(), database=database)
    async with serving(service) as client:
        own = dict(client.headers)
        client.headers.update(bearer(await made(database, "ann", user="ann")))
        session, run = await begun(client, f"go {UNKNOWN}")
        await until(client, run, "waiting")
        (folder,) = (tmp_path / "work").iterdir()
        client.headers.update(own)
        agent = service.hosting.named(None).of(None)
        assert await unmasked_routes(client, session, run, folder, agent) == []


async def test_every_method_of_an_agent_that_names_a_session_looks_at_its_folder(tmp_path: Path) -> None:
    further: dict[str, dict[str, Any]] = {
        "artifact": {"path": "/x.txt"},
        "decide": {"decisions": {"0": Decision("reject")}},
        "fork": {"step": 1, "middlewares": "[]"},
        "message_file": {"number": 1, "path": "/x.txt"},
        "rollback": {"to": 1},
        "run": {"prompt": "go"},
        "stream": {"prompt": "go"},
    }
    # These change or show nothing in which a caller's text or a stored one is.
    silent = {"cancel", "suspend", "outermost"}
    methods: list[tuple[str, Callable[..., Any]]] = [
        (name, each)
        for name, each in inspect.getmembers(Agent, inspect.isfunction)
        if not name.startswith("_") and name not in silent and "session" in inspect.signature(each).parameters
    ]
    assert len(methods) > 15
    methods.sort(key=lambda each: each[0] in ("archive", "delete_session"))
    late = []
    async with waiting(tmp_path) as (_, session, _, agent):
        for number, (name, method) in enumerate(methods):
            new = keep(tmp_path / "work" / session, number)
            with suppress(ZeusError):
                found = method(agent, **{"session": session, **further.get(name, {})})
                if inspect.isasyncgen(found):
                    await anext(found)
                    await found.aclose()
                else:
                    await found
            if agent.masked(f"see {new}!") == f"see {new}!":
                late.append(name)
    assert late == []


async def test_another_callers_turn_is_masked_by_what_the_folder_of_the_session_holds(tmp_path: Path) -> None:
    """The token of the process adds a turn to the session of a user, in the agent of that user."""
    (tmp_path / "work").mkdir()
    more = OWN.replace("middlewares: [approve]\n", "")
    async with keyed(tmp_path, more=more, model=script("Done.", "Done.")) as (client, database):
        own = dict(client.headers)
        client.headers.update(bearer(await made(database, "ann", user="ann", scopes=("run", "read"))))
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        client.headers.update(own)
        given = keep(tmp_path / "work" / session, 1)
        _, run = await begun(client, f"see {given}!", session)
        await until(client, run, "complete")
    assert given.encode() not in stored(tmp_path)


@pytest.mark.parametrize("file", [".env.local", ".git/config"])
async def test_a_secret_of_the_operator_stays_masked_after_the_session_that_had_it_first_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    monkeypatch.setattr(session_plans, "KEPT", 0)
    (tmp_path / "work").mkdir()
    write_agent(tmp_path, OWN, tools="[filesystem]")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / file).write_text("")
    texts = {
        ".env.local": "SHOP_TOKEN=SECRET\n",
        ".git/config": '[remote "o"]\n\turl = https://ann:SECRET@git.example/a\n',
    }
    async with serving(service_of(tmp_path, script(*["Done."] * 5))) as client:

        async def turn(prompt: str, session: str | None = None) -> str:
            session, run = await begun(client, prompt, session)
            await until(client, run, "complete")
            return session

        first = await turn("go")
        given = keep(tmp_path / "work" / first, 1)
        await turn("go", first)
        (tmp_path / file).write_text(texts[file].replace("SECRET", given))
        await turn("go", first)
        # The folders of the first are looked at no longer.
        await turn("go")
        await turn(f"see {given}!")
    assert given.encode() not in stored(tmp_path)
