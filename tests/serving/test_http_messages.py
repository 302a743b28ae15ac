"""The changes and the files of a message over HTTP."""

from __future__ import annotations

import hashlib
from pathlib import Path

import httpx

from tests.serving.test_http_keys import bearer, keyed, made
from tests.support.agents import call, calling, script, write_agent
from tests.support.pictures import png
from tests.support.serving import begun, service_of, serving, until


async def test_the_change_of_a_call_stays_with_its_result(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text("# Plan\n\nShip.\n")
    model = script(
        calling(
            call("write_file", "a", path="new\u202e.md", content="one\ntwo \n"),
            call("edit_file", "b", path="plan.md", old="Ship.", new="Ship today:\u200b"),
            call("edit_file", "c", path="plan.md", old="nowhere", new="x"),
        ),
        "Done.",
    )
    write_agent(tmp_path, tools="[probe, filesystem]")
    async with serving(service_of(tmp_path, model)) as client:
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        address = f"/v1/sessions/{session}/messages"
        listed = {
            each["tool_call_id"]: each
            for each in (await client.get(address)).json()
            if each["role"] == "tool"
        }
        assert listed["b"]["artifact"]["changes"] == [
            {"path": "/plan.md", "new": False, "removed": 1, "added": 1}
        ], "a list of messages has no lines"
        assert "changes" not in (listed["c"].get("artifact") or {})

        async def lines(name: str) -> list[str]:
            found = await client.get(f"{address}/{listed[name]['number']}/changes")
            assert found.status_code == 200, found.text
            return [each["text"] for each in found.json()["lines"]]

        assert await lines("b") == [
            "  /plan.md: 1 removed, 1 added",
            "      # Plan",
            "      ",
            "    - Ship.",
            "    + Ship today:\\u200b",
        ]
        assert await lines("a") == ["  /new\\u202e.md: new file, 2 lines", "    + one", "    + two␠"]
        assert await lines("c") == []
        events = (await client.get(f"/v1/runs/{run}/events")).text
        assert f'"number":{listed["b"]["number"]}' in events.replace(" ", "")
        await client.post(f"/v1/sessions/{session}/rollback", json={"to": 1})
        for number in (2, 3, 99):
            missing = await client.get(f"{address}/{number}/changes")
            assert (missing.status_code, missing.json()["code"]) == (404, "not_found"), (
                "set aside, or never there"
            )
        again = await client.post(f"/v1/sessions/{session}/runs", json={"resume": True})
        await until(client, again.json()["run"], "complete")
        now = (await client.get(f"{address}/3/changes")).json()
        assert now["changes"] == [], (
            "the message of that number is another one now, whose call changed nothing"
        )


async def test_the_change_of_a_file_that_only_an_approval_opens_is_kept_too(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text("old\n")
    model = script(calling(call("write_file", "a", path="plan.md", content="new\n")), "Done.")
    write_agent(tmp_path, "workspace: {access: {plan.md: ask}}\n", tools="[probe, filesystem]")
    async with serving(service_of(tmp_path, model)) as client:
        session, run = await begun(client, "go")
        await until(client, run, "waiting")
        (asked,) = (await client.get("/v1/approvals")).json()
        await client.post(f"/v1/approvals/{asked['id']}", json={"decision": "approve"})
        await until(client, run, "complete")
        (made,) = (await client.get(f"/v1/sessions/{session}/messages/3/changes")).json()["changes"]
        assert (made["lines"], (tmp_path / "plan.md").read_text()) == (["-old\n", "+new\n"], "new\n")


async def test_a_file_of_a_message_is_given_to_its_user_alone_and_never_runs(tmp_path: Path) -> None:
    page, picture = b"<script>alert(1)</script>", png(4, 3)
    drawing = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    async with keyed(tmp_path, more="middlewares: [resources]\n", model=script("Seen.", "Seen too.")) as (
        client,
        database,
    ):
        client.headers.update(bearer(await made(database)))
        sent = {"page ä.html": page, "shelf.png": picture, "drawing.svg": drawing}
        for data in sent.values():
            await client.put(f"/v1/files/{hashlib.sha256(data).hexdigest()}", content=data)
        attached = [{"sha256": hashlib.sha256(data).hexdigest(), "name": name} for name, data in sent.items()]
        session = (await client.post("/v1/sessions", json={})).json()["session"]
        run = await client.post(
            f"/v1/sessions/{session}/runs", json={"prompt": "Look.", "attachments": attached}
        )
        await until(client, run.json()["run"], "complete")
        (asked, *_) = (await client.get(f"/v1/sessions/{session}/messages")).json()
        kept = {each["path"]: each["copy"] for each in asked["additional_kwargs"]["references"]}
        assert kept.keys() == sent.keys()
        address = f"/v1/sessions/{session}/messages/1/files"
        types = {
            "page ä.html": "text/plain; charset=utf-8",
            "shelf.png": "image/png",
            "drawing.svg": "text/plain; charset=utf-8",
        }
        for name, path in kept.items():
            given = await client.get(address, params={"path": path})
            assert (given.status_code, given.content) == (200, sent[name]), given.text
            assert given.headers["content-type"] == types[name]
            assert given.headers["content-disposition"].startswith("attachment; filename*=UTF-8''")
            assert given.headers["x-content-type-options"] == "nosniff"
            assert given.headers["content-security-policy"].startswith("default-src 'none'")
        other = bearer(await made(database, "bob", user="bob"))
        path = kept["shelf.png"]
        refused = await client.get(address, params={"path": path}, headers=other)
        assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
        own = (await client.post("/v1/sessions", json={}, headers=other)).json()["session"]
        run = await client.post(
            f"/v1/sessions/{own}/runs", json={"prompt": f"@{path} @*.png Look."}, headers=other
        )
        async with httpx.AsyncClient(base_url=client.base_url, headers=other, timeout=30) as bobs:
            await until(bobs, run.json()["run"], "complete")
        mention = (await client.get(f"/v1/sessions/{own}/messages", headers=other)).json()[0]
        names = [each["path"] for each in mention["additional_kwargs"]["references"]]
        assert names == [path, "*.png"], "a pattern names no file of another session"
        # Nor through his session, whose message names the path of her file.
        for number in (1, 2):
            stolen = await client.get(
                f"/v1/sessions/{own}/messages/{number}/files", params={"path": path}, headers=other
            )
            assert stolen.status_code == 404, stolen.content
        for path in ("/zeus.yaml", "/../../etc/passwd", "", kept["shelf.png"] + "x"):
            unknown = await client.get(address, params={"path": path})
            assert unknown.status_code == 404, path
        assert (
            await client.get(address.replace("/1/", "/2/"), params={"path": kept["shelf.png"]})
        ).status_code == 404


async def test_a_result_has_the_decisions_about_its_call(tmp_path: Path) -> None:
    model = script(calling(call("record", "a", text="theirs")), "Done.")
    write_agent(tmp_path, "middlewares: [approve]\n")
    async with serving(service_of(tmp_path, model)) as client:
        session, run = await begun(client, "go")
        await until(client, run, "waiting")
        (waits,) = (await client.get("/v1/approvals")).json()
        mine = {"changed": {"text": "mine"}}
        for slip in ({"decision": "approve", "reason": "no"}, {"decision": "reject", **mine}):
            answer = await client.post(f"/v1/approvals/{waits['id']}", json=slip)
            assert (answer.status_code, "cannot be decided so" in answer.text) == (422, True)
        body = {"decision": "approve", "reason": "", **mine}
        assert (await client.post(f"/v1/approvals/{waits['id']}", json=body)).status_code == 200
        await until(client, run, "complete")
        listed = (await client.get(f"/v1/sessions/{session}/messages")).json()
        told = {
            "kind": "call",
            "text": 'approved by the user, with changed arguments {"text": "mine"}',
            "changed": body["changed"],
        }
        assert [each.get("decisions") for each in listed] == [None, None, [told], None]
