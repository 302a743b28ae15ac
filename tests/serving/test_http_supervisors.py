"""A key of all users works for the users whose sessions it reaches: in their folders, with their memories."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tests.serving.test_http_keys import bearer, keyed, made
from tests.support.agents import PositionModel, call, calling, write_agent
from tests.support.serving import begun, service_of, serving, until
from zeus_runtime.serving.http.principals import SCOPES, Principal
from zeus_runtime.serving.http.settings import OpenAgents, Settings
from zeus_runtime.store.threads import Owner

OF_USERS: Final = (
    "workspace: {root: work, per: user}\nmemory: {}\nmiddlewares: [{approve: {allow: [memory_save]}}]\n"
)
TEA: Final = "The user drinks tea."


def writing(request: Any) -> Any:
    """Write a file, which asks, then remember something and write another file, once for each prompt."""
    human = max(place for place, each in enumerate(request.messages) if each.type == "human")
    said = sum(each.type == "ai" for each in request.messages[human:])
    name = str(request.messages[human].content)
    first = call("write_file", f"{name}1", path=f"/{name}.txt", content="x")
    then = (
        call("memory_save", f"{name}2", content=TEA, memory_type="preference"),
        call("list_files", f"{name}3", path="/"),
    )
    return [calling(first), calling(*then), "Done."][said]


def folders(work: Path) -> set[str]:
    return {each.parent.name.partition("~")[0] for each in work.rglob("*.txt")}


async def test_what_a_supervisor_approves_or_asks_for_is_done_as_the_sessions_owner(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    model = PositionModel(writing)
    async with keyed(tmp_path, more=OF_USERS, tools="[filesystem, memory]", model=model) as (
        client,
        database,
    ):
        ann, bob = bearer(await made(database)), bearer(await made(database, "bob"))
        boss = bearer(await made(database, "boss", user=None))
        client.headers.update(ann)
        session, run = await begun(client, "first")
        await until(client, run, "waiting")
        client.headers.update(boss)
        for turn in (run, None):
            if turn is None:
                # A prompt of the supervisor is a turn of the owner too.
                _, turn = await begun(client, "second", session)
                await until(client, turn, "waiting")
            (waiting,) = (await client.get("/v1/approvals")).json()
            shown = (await client.get(f"/v1/approvals/{waiting['id']}")).json()
            for lines in (shown["lines"], shown["whole"]):
                assert lines[0]["text"].endswith("; the agent test for ann calls it")
            decision = {"decision": "approve", "seen": shown["seen"], "always": turn != run}
            answer = await client.post(f"/v1/approvals/{waiting['id']}", json=decision)
            assert answer.status_code == 200, answer.text
            assert answer.json().get("allowlist_of") == (None if turn == run else "ann")
            assert (await until(client, turn, "complete", "failed"))["state"] == "complete"
        assert folders(tmp_path / "work") == {"ann"}
        listed = [str(each.content) for each in model.requests[-1].messages if each.type == "tool"]
        assert any("first.txt" in each for each in listed)
        written = (await client.get(f"/v1/sessions/{session}/artifacts")).json()
        assert {each["path"] for each in written} == {"/first.txt", "/second.txt"}
        fork = (await client.post(f"/v1/sessions/{session}/fork", json={"step": 1})).json()["session"]
        client.headers.update(ann)
        assert (await client.get(f"/v1/sessions/{fork}")).status_code == 200
        assert TEA in (await client.get("/v1/memories")).text
        client.headers.update(bob)
        assert TEA not in (await client.get("/v1/memories")).text


async def test_a_file_that_a_supervisor_sends_along_is_in_the_owners_turn(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"of the boss").hexdigest()
    async with keyed(
        tmp_path, more="middlewares: [resources]\n", model=PositionModel(lambda _request: "Done.")
    ) as (client, database):
        ann, boss = bearer(await made(database)), bearer(await made(database, "boss", user=None))
        client.headers.update(ann)
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        client.headers.update(boss)
        await client.put(f"/v1/files/{digest}", content=b"of the boss")
        body = {"prompt": "read", "attachments": [{"sha256": digest, "name": "a.txt"}]}
        key = {"Idempotency-Key": "k"}
        runs = [
            (await client.post(f"/v1/sessions/{session}/runs", json=body, headers={**headers, **key})).json()
            for headers in (boss, boss)
        ]
        assert runs[0]["run"] == runs[1]["run"], runs
        assert (await until(client, runs[0]["run"], "complete", "failed"))["state"] == "complete"
        own = await client.post(f"/v1/sessions/{session}/runs", json={"prompt": "go"}, headers={**ann, **key})
        assert own.json()["run"] != runs[0]["run"]


async def test_the_owners_agent_stays_open_while_a_supervisor_works_with_it(tmp_path: Path) -> None:
    write_agent(tmp_path)
    service = service_of(tmp_path, PositionModel(lambda _request: "Done."))
    service = replace(service, settings=Settings(agents=OpenAgents(most_open=1)))
    (hosted,) = service.hosting
    ann, boss = Owner("ann"), Principal("boss", None, SCOPES)
    async with serving(service) as client:
        made_session = await service.turns.begin_session(hosted, ann)
        async with service.for_owner(boss, made_session.session) as found:
            assert found.owner == ann
            await service._let_idle_go()
            assert ann in hosted.open
        await service._let_idle_go()
        assert ann not in hosted.open
        assert (await client.get("/health")).status_code == 200
        assert not service.present
