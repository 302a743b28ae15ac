"""Two users of one service: neither reads or changes what is the other's, by any route."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from starlette.routing import BaseRoute, Mount, Route

from tests.serving.test_http_keys import URL as KEYS
from tests.serving.test_http_keys import bearer, keyed, made
from tests.support.agents import PositionModel, call, calling, script, write_agent
from tests.support.databases import SQLITE_URL, execute, storage
from tests.support.least_rights import as_agent
from tests.support.serving import begun, service_of, serving, until
from zeus_runtime import Agent
from zeus_runtime.serving.http.app import app_of
from zeus_runtime.serving.http.hosting import HostedAgent
from zeus_runtime.serving.http.principals import SCOPES, Principal
from zeus_runtime.serving.http.protocols import ProtocolCaller
from zeus_runtime.store.threads import Owner

ASKING: Final = "middlewares: [approve]\nmemory: {}\n"
MARK: Final = "needle-of-ann"
SECRET: Final = "shop-4711-Token-0815"

OF_ONE: Final[Mapping[tuple[str, str], Mapping[str, Any]]] = {
    ("GET", "/v1/sessions/{session}"): {},
    ("DELETE", "/v1/sessions/{session}"): {},
    ("POST", "/v1/sessions/{session}/rollback"): {"json": {"to": 1, "before": True}},
    ("GET", "/v1/sessions/{session}/messages"): {},
    ("GET", "/v1/sessions/{session}/messages/{number}/changes"): {},
    ("GET", "/v1/sessions/{session}/messages/{number}/files"): {"params": {"path": "/notes.md"}},
    ("POST", "/v1/sessions/{session}/fork"): {"json": {"step": 1, "middlewares": "[]"}},
    ("POST", "/v1/sessions/{session}/archive"): {},
    ("POST", "/v1/sessions/{session}/restore"): {},
    ("GET", "/v1/sessions/{session}/export"): {},
    ("POST", "/v1/sessions/{session}/runs"): {"json": {"prompt": "intrude"}, "params": {"queue": 1}},
    ("GET", "/v1/sessions/{session}/runs"): {},
    ("GET", "/v1/sessions/{session}/events"): {},
    ("GET", "/v1/runs/{run}"): {},
    ("GET", "/v1/runs/{run}/events"): {},
    ("POST", "/v1/runs/{run}/cancel"): {},
    ("GET", "/v1/approvals/{approval}"): {},
    ("POST", "/v1/approvals/{approval}"): {"json": {"decision": "approve"}},
    ("GET", "/v1/sessions/{session}/context/steps"): {},
    ("GET", "/v1/sessions/{session}/context"): {},
    ("GET", "/v1/sessions/{session}/context/diff"): {"params": {"a": 1, "b": 1}},
    ("GET", "/v1/sessions/{session}/context/why"): {"params": {"text": MARK}},
    ("GET", "/v1/sessions/{session}/forecast"): {},
    ("GET", "/v1/sessions/{session}/trace"): {},
    ("GET", "/v1/sessions/{session}/plan"): {},
    ("GET", "/v1/sessions/{session}/what-if"): {},
    ("POST", "/v1/sessions/{session}/what-if"): {"json": {"middlewares": "[]"}},
    ("GET", "/v1/sessions/{session}/artifacts"): {},
    ("GET", "/v1/sessions/{session}/artifacts/content"): {"params": {"path": "/effects.txt"}},
    ("GET", "/v1/backtests/{backtest}"): {},
    ("POST", "/v1/backtests/{backtest}/cancel"): {},
    ("GET", "/v1/files/{sha256}"): {},
    ("DELETE", "/v1/files/{sha256}"): {},
    ("GET", "/v1/memories/{memory}"): {},
    ("PATCH", "/v1/memories/{memory}"): {"json": {"content": "The intruder wrote this."}},
    ("DELETE", "/v1/memories/{memory}"): {},
    ("GET", "/v1/memories/{memory}/history"): {},
    ("POST", "/v1/memories/{memory}/release"): {},
    ("GET", "/v1/memories/batches/{batch}"): {},
    ("POST", "/v1/memories/batches/{batch}/undo"): {},
    ("GET", "/v1/knowledge/{base}"): {},
    ("GET", "/v1/knowledge/{base}/search"): {"params": {"query": MARK}},
}
"""Routes about one user's things: to any other user they do not exist."""

OF_ANN: Final = hashlib.sha256(b"of ann").hexdigest()
"""A file that a user uploaded."""

OF_MANY: Final[Mapping[tuple[str, str], Mapping[str, Any]]] = {
    ("GET", "/v1/agents"): {},
    ("GET", "/v1/sessions"): {},
    ("POST", "/v1/sessions"): {"json": {}},
    ("GET", "/v1/approvals"): {},
    ("GET", "/v1/sessions/search"): {"params": {"query": MARK}},
    ("GET", "/v1/memories"): {"params": {"status": "all"}},
    ("POST", "/v1/memories"): {"json": {"content": "The intruder has a house."}},
    ("GET", "/v1/memories/search"): {"params": {"query": MARK}},
    ("GET", "/v1/memories/quarantine"): {},
    ("GET", "/v1/memories/stats"): {},
    ("GET", "/v1/memories/batches"): {},
    ("GET", "/v1/profiles/{kind}"): {},
    ("PATCH", "/v1/profiles/{kind}"): {"json": {"fields": {"username": "intruder"}}},
    ("POST", "/v1/profiles/{kind}/draw"): {},
    ("PUT", "/v1/files/{sha256}"): {"content": b"another file"},
    ("GET", "/v1/backtests"): {},
    ("GET", "/v1/knowledge"): {},
    ("GET", "/v1/agents/{agent}/plan"): {},
    ("GET", "/v1/agents/{agent}/config"): {},
    ("POST", "/v1/agents/{agent}/validate"): {"json": {"text": "name: other"}},
    ("GET", "/health"): {},
    ("GET", "/ready"): {},
    ("GET", "/metrics"): {},
    ("GET", "/openapi.json"): {},
    ("GET", "/"): {},
    ("GET", "/page/{name}"): {},
    ("POST", "/login"): {"json": {"token": "wrong"}, "headers": {"X-Zeus-Page": "1"}},
    ("POST", "/logout"): {"headers": {"X-Zeus-Page": "1"}},
}
"""Routes without an id of a user's: their answers hold nothing of any other user."""


OF_NOTHING: Final = (
    "/v1/sessions/{session}/artifacts/content",
    "/v1/sessions/{session}/messages/{number}/files",
    "/v1/memories/batches/{batch}",
)
"""Routes that find nothing of their owner either: no call has written a file, no message brought one along, and no
model changed a memory."""

NAMING: Final[Mapping[tuple[str, str], Mapping[str, Any]]] = {
    ("POST", "/v1/backtests"): {"json": {"sessions": ["{session}"]}},
    ("POST", "/v1/runs"): {"json": {"prompt": "intrude", "attachments": [{"sha256": OF_ANN}]}},
}
"""Routes whose body names a user's things."""


def routes_of(routes: list[BaseRoute], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every method and path that the app answers; a mounted app counts as one."""
    for each in routes:
        inner = getattr(each, "routes", None) or getattr(
            getattr(each, "original_router", None), "routes", None
        )
        if isinstance(each, Mount):
            yield "*", prefix + each.path
        elif isinstance(each, Route) or hasattr(each, "methods"):
            yield from ((name, prefix + each.path) for name in each.methods or () if name != "HEAD")  # type: ignore[attr-defined]
        elif inner is not None:
            context = getattr(each, "include_context", None)
            yield from routes_of(inner, prefix + (getattr(context, "prefix", "") or ""))
        else:
            yield "*", f"{prefix}{each!r}"


@contextmanager
def behind_the_wall(url: str, folder: Path) -> Iterator[str]:
    """The URL of a database with all tables for a role that owns none of them."""

    async def opened() -> None:
        write_agent(folder, storage(url) + ASKING)
        async with Agent.from_config(directory=folder, model=script("Done."), trust="all") as agent:
            await agent.connections()
            await agent.memory.list_memories()
            (folder / "first.md").write_text("# First\n\nA text.\n")
            await agent.knowledge.add("first", [folder / "first.md"])
            await agent.knowledge.remove("first")

    execute(url, "CREATE EXTENSION vector")
    asyncio.run(opened())
    with as_agent(url) as restricted:
        yield restricted


@pytest.fixture(params=["another user", "another project", "no project", "another user on postgres"])
def intruding(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Who intrudes, and the database."""
    who, on, _ = request.param.partition(" on ")
    if not on:
        yield who, SQLITE_URL
        return
    with behind_the_wall(request.getfixturevalue("postgres_url"), tmp_path / "owner") as url:
        yield who, url


async def test_no_route_tells_a_user_of_another_or_changes_what_is_the_others(
    tmp_path: Path, intruding: tuple[str, str]
) -> None:
    intruder, url = intruding
    model = script(calling(call("record", "a", text=MARK)), "Done.")
    keys = url if url != SQLITE_URL else KEYS
    async with keyed(tmp_path, more=storage(url) + ASKING, model=model, url=keys) as (client, database):
        scopes = ("run", "approve", "read", "admin")
        ann = await made(database, "ann", project="blue", role="owner", scopes=scopes)
        owners = {
            "another user": ("bob", "blue"),
            "another project": ("ann", "red"),
            "no project": ("ann", None),
        }
        user, project = owners[intruder]
        other = await made(database, "intruder", user=user, project=project, role="owner", scopes=scopes)
        client.headers.update(bearer(ann))
        session, run = await begun(client, f"Keep {MARK}")
        await until(client, run, "waiting")
        (pending,) = (await client.get("/v1/approvals")).json()
        # Members of a project share its memories and bases, and a user's own go along into every project.
        scope: Literal["user", "project"] = "user" if intruder == "another user" else "project"
        kept = await client.post("/v1/memories", json={"content": f"Ann keeps {MARK}.", "scope": scope})
        memory = kept.json()["memory"]["id"]
        await with_base(tmp_path, Owner("ann", "blue", "owner"), project=scope == "project")
        ids = {
            "session": session,
            "run": run,
            "approval": pending["id"],
            "memory": memory,
            "batch": "batch_1",
            "base": "handbook",
            "kind": scope,
            "agent": "test",
            "sha256": OF_ANN,
            "backtest": "",
            "name": "page.js",
            "number": 1,
        }
        begun_job = await client.post("/v1/backtests", json={"sessions": [session]})
        ids["backtest"] = begun_job.json()["id"]
        assert (await client.put(f"/v1/files/{ids['sha256']}", content=b"of ann")).status_code == 201

        async def state() -> list[Any]:
            paths = (f"/v1/sessions/{session}", f"/v1/sessions/{session}/messages", f"/v1/runs/{run}")
            more = ("/v1/approvals", f"/v1/sessions/{session}/runs", f"/v1/sessions/{session}/context")
            more += (
                f"/v1/memories?scope={scope}&status=all",
                f"/v1/profiles/{scope}",
                "/v1/knowledge/handbook",
            )
            return [(await client.get(path)).json() for path in (*paths, *more)]

        before = await state()
        named = {
            each: json.loads(json.dumps(request).replace("{session}", session))
            for each, request in NAMING.items()
        }
        known = {**OF_ONE, **OF_MANY, **named}
        paths = (await client.get("/openapi.json")).json()["paths"]
        told = {(method.upper(), path) for path, methods in paths.items() for method in methods}
        assert told <= known.keys(), "a new route: say here whose things it is about"
        for (method, path), request in known.items():
            given = {**request, "headers": {**request.get("headers", {}), **bearer(other)}}
            answer = await client.request(method, path.format(**ids), **given)
            for mark in (MARK, session, run, pending["id"], memory, ids["backtest"]):
                asked = path.format(**ids) + str(request)
                assert mark not in answer.text or mark in asked, (method, path, answer.text)
            if (method, path) in (*OF_ONE, *NAMING):
                assert answer.status_code == 404, (method, path, answer.text)
                assert answer.json()["code"] in ("not_found", "unknown-memory"), (method, path)
        assert await state() == before
        assert (await client.get("/v1/sessions", headers=bearer(other))).json() != []
        for mine in (each["session"] for each in (await client.get("/v1/sessions")).json()):
            assert mine == session
        assert not (tmp_path / "effects.txt").exists()
        # The same requests of their owner find these things: nothing above was absent for another reason.
        found = 0
        for (method, path), request in {**OF_ONE, **named}.items():
            if method != "GET" or path.endswith("/events"):
                continue
            answer = await client.request(method, path.format(**ids), **request)
            absent = answer.status_code == 404
            assert absent == (path in OF_NOTHING), (path, answer.status_code, answer.text)
            found += not absent
        assert found > 15
        mine = (await client.get("/v1/sessions/search", params={"query": MARK})).json()
        assert {each["session"] for each in mine} == {session}
        fork = await client.post(f"/v1/sessions/{session}/fork", json={"step": 1})
        assert fork.status_code == 201, fork.text
        theirs = await client.get(f"/v1/sessions/{fork.json()['session']}", headers=bearer(other))
        assert theirs.status_code == 404


async def with_base(folder: Path, owner: Owner, *, project: bool = False) -> None:
    """A knowledge base of a user of the service with a document."""
    from tests.support.serving import service_of

    (folder / "handbook.md").write_text(f"# Doors\n\nThe {MARK} is behind the second door.\n")
    service = service_of(folder, script("Done."))
    (hosted,) = service.hosting
    await hosted.of(owner).knowledge.add("handbook", [folder / "handbook.md"], project=project)
    await service.aclose()


async def test_every_route_of_the_app_is_in_the_lists_above(tmp_path: Path) -> None:
    from tests.support.agents import write_agent
    from tests.support.serving import service_of

    write_agent(tmp_path)
    service = service_of(tmp_path, script("Done."))
    found = set(routes_of(app_of(service).routes))
    await service.aclose()
    assert found == {*OF_ONE, *OF_MANY, *NAMING}


async def test_a_user_has_their_own_memories_in_their_role(tmp_path: Path) -> None:
    from tests.support.agents import write_agent
    from tests.support.serving import service_of

    write_agent(tmp_path, "memory: {user: me, role: owner}\n")
    service = service_of(tmp_path, script("Done."))
    (hosted,) = service.hosting
    assert isinstance(hosted, HostedAgent)
    for owner, role in ((Owner("bob", "blue", "editor"), "editor"), (Owner("bob", "blue"), "viewer")):
        memory = hosted.of(owner).plan.config.memory
        assert memory is not None
        assert (memory.user, memory.project, memory.role) == ("bob", "blue", role)
    await service.aclose()


def texts_in(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*.txt"))


async def test_a_sub_agent_with_folders_of_its_own_shows_no_user_the_files_of_another(tmp_path: Path) -> None:
    (tmp_path / "desk").mkdir()
    (tmp_path / "helper.yaml").write_text(
        "version: 1\nname: helper\nmodel: x\ntools: [filesystem]\nworkspace: {root: desk, per: session}\n"
    )

    def answer(request: Any) -> Any:
        said, prompt = sum(each.type == "ai" for each in request.messages), str(request.messages[0].content)
        if not prompt.startswith("work of "):
            task = call("task", "t", description="d", prompt=f"work of {prompt}", agent="helper")
            return [calling(task), "Done."][said]
        write = call("write_file", "w", path=f"/{prompt[8:]}.txt", content=f"secret {prompt}")
        return [calling(write), calling(call("grep", "g", pattern="secret")), "Done."][said]

    more = "agents: {helper: {description: h, config: helper.yaml}}\n"
    sessions = {}
    model = PositionModel(answer)
    async with keyed(tmp_path, more=more, tools="[subagents]", model=model) as (client, database):
        keys = {name: bearer(await made(database, name)) for name in ("ann", "bob")}
        for name, key in keys.items():
            client.headers.update(key)
            sessions[name], run = await begun(client, name)
            await until(client, run, "complete")
        found = [str(each.content) for each in model.requests[-2].messages if each.type == "tool"][-1]
        assert "secret work of bob" in found
        assert "ann" not in found
        assert texts_in(tmp_path / "desk") == sorted(f"{each}/{name}.txt" for name, each in sessions.items())
        client.headers.update(keys["ann"])
        assert (await client.delete(f"/v1/sessions/{sessions['ann']}")).status_code == 204
        assert texts_in(tmp_path / "desk") == [f"{sessions['bob']}/bob.txt"]


async def test_no_route_shows_a_secret_that_a_text_of_the_config_holds(tmp_path: Path) -> None:
    held = f"${{SHOP_TOKEN}} {MARK}"
    config = (
        f"description: {held}\ninstructions: {held}\nmemory: {{}}\n"
        f"mcpServers: {{s: {{command: 'true', args: ['{held}'], disabled: true}}}}\n"
        f"middlewares: [{{approve: {{ask: [{{record: {{text: '{held}'}}}}]}}}}]\n"
    )
    write_agent(tmp_path, config)
    model = script(calling(call("record", "a", text=SECRET)), "Done.")
    service = service_of(tmp_path, model, environ={"SHOP_TOKEN": SECRET})
    async with serving(service) as client:
        session, run = await begun(client, f"go {SECRET}")
        await until(client, run, "waiting")
        (pending,) = (await client.get("/v1/approvals")).json()
        ids = {"session": session, "run": run, "approval": pending["id"], "agent": "test", "base": "handbook"}
        ids |= {"kind": "user", "number": 1, "name": "page.js", "memory": "m", "batch": "b"}
        ids |= {"sha256": OF_ANN, "backtest": "b"}
        shown = set()
        for (method, path), request in {**OF_ONE, **OF_MANY}.items():
            if method == "GET" and not path.endswith("/events"):
                answer = await client.get(path.format(**ids), **request)
                assert SECRET not in answer.text, (path, answer.text)
                shown |= {path} if "<secret:SHOP_TOKEN>" in answer.text else set()
    assert {"/v1/agents", "/v1/agents/{agent}/plan", "/v1/sessions/{session}/messages"} <= shown
    protocol = ProtocolCaller(service, Principal("local", None, SCOPES))
    assert [each.description for each in protocol.agents()] == [f"<secret:SHOP_TOKEN> {MARK}"]
