"""Files over HTTP: uploaded for a prompt, and bound to their user."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.serving.test_http_keys import URL, bearer, keyed, made
from tests.support.agents import call, calling, script, write_agent
from tests.support.databases import storage
from tests.support.serving import begun, service_of, serving, until
from zeus_runtime.errors import LimitError, NotFoundError
from zeus_runtime.serving.http.settings import ServiceLimits, Settings
from zeus_runtime.serving.http.uploads import Uploads
from zeus_runtime.store.database import Database
from zeus_runtime.store.schema import ready
from zeus_runtime.tools.own_folders import LinkedFolderError

SHOWN = "middlewares: [resources]\n"


def address_of(data: bytes) -> str:
    """Where a file is uploaded."""
    return f"/v1/files/{hashlib.sha256(data).hexdigest()}"


async def test_a_model_sees_a_file_that_was_uploaded(tmp_path: Path) -> None:
    model = script("Seen.", "Again.")
    async with keyed(tmp_path, more=SHOWN, model=model) as (client, database):
        client.headers.update(bearer(await made(database)))
        data = b"The late orders are 17 and 23.\n"
        sent = await client.put(address_of(data), content=data)
        assert (sent.status_code, sent.json()["size_bytes"]) == (201, len(data)), sent.text
        assert (await client.put(address_of(data), content=data)).status_code == 200
        session = (await client.post("/v1/sessions", json={})).json()["session"]
        attached = {"sha256": sent.json()["sha256"], "name": "orders.txt"}
        run = await client.post(
            f"/v1/sessions/{session}/runs", json={"prompt": "Which?", "attachments": [attached]}
        )
        assert run.json()["attachments"] == [attached], run.text
        await until(client, run.json()["run"], "complete")
        seen = str(model.requests[0])
        assert "orders.txt" in seen
        assert "17 and 23" in seen
        assert (await client.delete(address_of(data))).status_code == 204
        missing = await client.post(
            f"/v1/sessions/{session}/runs", json={"prompt": "Which?", "attachments": [attached]}
        )
        assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
        other = bearer(await made(database, "bob"))
        await client.put(address_of(data), content=data)
        assert (await client.get(address_of(data), headers=other)).status_code == 404


def test_two_uploads_at_once_do_not_pass_the_limit_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploads = Uploads(tmp_path, ServiceLimits(files_bytes=1500))
    first, second = b"a" * 1000, b"b" * 1000
    refused: list[Exception] = []

    def put_second() -> None:
        try:
            uploads.put(None, hashlib.sha256(second).hexdigest(), second)
        except LimitError as error:
            refused.append(error)

    other = threading.Thread(target=put_second)

    renamed = os.rename

    def rename(*given: Any, **named: Any) -> None:
        monkeypatch.undo()
        # The second comes when the first has counted the files, and has written none. It may have to wait.
        other.start()
        other.join(0.2)
        renamed(*given, **named)

    monkeypatch.setattr(os, "rename", rename)
    uploads.put(None, hashlib.sha256(first).hexdigest(), first)
    other.join()
    assert len(refused) == 1
    assert uploads.size(None, hashlib.sha256(first).hexdigest()) == 1000


def test_no_link_is_followed_to_a_file_that_a_user_uploaded(tmp_path: Path) -> None:
    (tmp_path / "service").mkdir()
    uploads = Uploads(tmp_path / "service", ServiceLimits())
    data = b"elsewhere"
    digest = hashlib.sha256(data).hexdigest()
    uploads.put(None, digest, data)
    (kept,) = (tmp_path / "service/.zeus/uploads").glob("[!.]*")
    outside = tmp_path / "outside"
    kept.rename(outside)
    kept.symlink_to(outside)
    works = (uploads.size, uploads.read, uploads.delete)
    for work in works:
        with pytest.raises(NotFoundError):
            work(None, digest)
    assert (kept.is_symlink(), outside.read_bytes()) == (True, data)
    kept.unlink()
    outside.rename(kept)
    (tmp_path / "service/.zeus").rename(tmp_path / "state")
    for work in works:
        with pytest.raises(NotFoundError):
            work(None, digest)
    (tmp_path / "service/.zeus").symlink_to(tmp_path / "state")
    for work in works:
        with pytest.raises(LinkedFolderError):
            work(None, digest)
    assert [each.name for each in (tmp_path / "state/uploads").glob("[!.]*")] == [kept.name]


def test_a_file_that_goes_while_it_is_asked_for_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploads = Uploads(tmp_path, ServiceLimits())
    digest = hashlib.sha256(b"x").hexdigest()
    whole = os.stat

    def then_removed(name: Any, **named: Any) -> os.stat_result:
        found = whole(name, **named)
        if str(name).endswith(digest):
            os.unlink(name, dir_fd=named["dir_fd"])
        return found

    for work in (uploads.read, uploads.delete):
        uploads.put(None, digest, b"x")
        with monkeypatch.context() as patched:
            patched.setattr(os, "stat", then_removed)
            with pytest.raises(NotFoundError):
                work(None, digest)


async def test_a_file_has_its_content_and_its_limits(tmp_path: Path) -> None:
    limits = ServiceLimits(file_bytes=1000, files_bytes=1500, files_max_age_days=1.0)
    async with keyed(tmp_path, Settings(limits=limits)) as (client, database):
        client.headers.update(bearer(await made(database)))
        wrong = await client.put(address_of(b"a"), content=b"b")
        assert (wrong.status_code, wrong.json()["code"]) == (422, "usage")
        big = b"x" * 1001
        for content in (big, _pieces(big)):
            refused = await client.put(address_of(big), content=content)
            assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
        first, second = b"1" * 900, b"2" * 900
        assert (await client.put(address_of(first), content=first)).status_code == 201
        full = await client.put(address_of(second), content=second)
        assert (full.status_code, full.json()["code"]) == (429, "limit")
        assert (await client.get("/v1/files/nonsense")).status_code == 422
        (kept,) = (tmp_path / ".zeus" / "uploads").glob("[!.]*")
        long_ago = time.time() - 2 * 86_400
        os.utime(kept, (long_ago, long_ago))
        assert (await client.put(address_of(second), content=second)).status_code == 201
        assert (await client.get(address_of(first))).status_code == 404
        # An agent whose model sees no attachments refuses them before the turn.
        session = (await client.post("/v1/sessions", json={})).json()["session"]
        attached = {"sha256": address_of(second).rpartition("/")[2]}
        unseen = await client.post(
            f"/v1/sessions/{session}/runs", json={"prompt": "Which?", "attachments": [attached]}
        )
        assert (unseen.status_code, "resources" in unseen.text) == (422, True)


async def _pieces(data: bytes):  # type: ignore[no-untyped-def]
    yield data[:600]
    yield data[600:]


async def test_no_tool_reads_what_users_uploaded(tmp_path: Path) -> None:
    data = b"uploaded by a user"
    name = f"{hashlib.sha256(bytes(1)).hexdigest()[:32]}.{hashlib.sha256(data).hexdigest()}"
    path = f".zeus/uploads/{name}"
    model = script(calling(call("read_file", "a", path=path)), "Done.")
    write_agent(tmp_path, tools="[probe, filesystem]")
    async with serving(service_of(tmp_path, model)) as client:
        await client.put(address_of(data), content=data)
        assert (tmp_path / path).read_bytes() == data
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        messages = (await client.get(f"/v1/sessions/{session}/messages")).json()
        (read,) = (each for each in messages if each["role"] == "tool")
        assert read["is_error"] is True, read
        assert data.decode() not in str(messages)


async def test_the_files_that_a_session_wrote_are_listed_and_saved(tmp_path: Path) -> None:
    page = "<script>alert(1)</script>"
    model = script(
        calling(
            call("write_file", "a", path="out/seite ä.html", content=page),
            call("write_file", "b", path="gone.txt", content="x"),
            call("write_file", "c", path="closed.txt", content="x"),
            call("read_file", "d", path="old.txt"),
        ),
        "Done.",
    )
    (tmp_path / "old.txt").write_text("old")
    write_agent(tmp_path, tools="[probe, filesystem]")
    async with serving(service_of(tmp_path, model)) as client:
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        (tmp_path / "gone.txt").unlink()
        listed = (await client.get(f"/v1/sessions/{session}/artifacts")).json()
        assert {each["path"] for each in listed} == {"/out/seite ä.html", "/closed.txt"}
        content = f"/v1/sessions/{session}/artifacts/content"
        saved = await client.get(content, params={"path": "/out/seite ä.html"})
        assert saved.text == page
        assert saved.headers["content-type"] == "text/plain; charset=utf-8"
        assert saved.headers["content-disposition"] == "attachment; filename*=UTF-8''seite%20%C3%A4.html"
        assert saved.headers["x-content-type-options"] == "nosniff"
        for path in ("/old.txt", "/gone.txt", "/zeus.yaml", "/../../etc/passwd", ""):
            refused = await client.get(content, params={"path": path})
            assert (refused.status_code, refused.json()["code"]) == (404, "not_found"), path
    file = tmp_path / "zeus.yaml"
    text = file.read_text()
    denied = "middlewares: [{approve: {deny: [{TOOL: {path: closed.txt}}]}}]\n"
    # A rule for one tool is about the files that this tool reaches: here a person reads.
    for rule, status in (
        ("workspace: {access: {closed.txt: deny}}\n", 404),
        (denied.replace("TOOL", "'*'"), 404),
        (denied.replace("TOOL", "read_file"), 200),
    ):
        file.write_text(text + rule)
        async with serving(service_of(tmp_path, model)) as client:
            listed = (await client.get(f"/v1/sessions/{session}/artifacts")).json()
            closed = set() if status == 200 else {"/closed.txt"}
            assert {each["path"] for each in listed} == {"/out/seite ä.html", "/closed.txt"} - closed
            read = await client.get(content, params={"path": "/closed.txt"})
            assert read.status_code == status, rule


async def test_the_files_of_a_call_are_those_with_which_it_ran(tmp_path: Path) -> None:
    """A person changes the paths. An argument that no tool declares as a path may name a file for any reason."""
    model = script(
        calling(
            call("write_file", "a", path="/asked.txt", content="x"),
            call("record", "b", text="/asked.txt"),
            call("write_file", "c", path="/kept.txt", content="x"),
        ),
        "Done.",
    )
    changed = {"/asked.txt": {"path": "/mine.txt", "content": "x"}, None: {"text": "/also.txt"}}
    for name in ("asked", "also"):
        (tmp_path / f"{name}.txt").write_text("of another")
    write_agent(tmp_path, "middlewares: [{approve: {mode: ask}}]\n", tools="[probe, filesystem]")
    async with serving(service_of(tmp_path, model)) as client:
        session, run = await begun(client, "go")
        await until(client, run, "waiting")
        for each in (await client.get("/v1/approvals")).json():
            instead = changed.get(each["parameters"].get("path"))
            decision = {"decision": "approve"} | ({"changed": instead} if instead else {})
            decided = await client.post(f"/v1/approvals/{each['id']}", json=decision)
            assert decided.status_code == 200, decided.text
        await until(client, run, "complete")
        listed = (await client.get(f"/v1/sessions/{session}/artifacts")).json()
        assert {each["path"] for each in listed} == {"/mine.txt", "/kept.txt"}
        content = f"/v1/sessions/{session}/artifacts/content"
        assert (await client.get(content, params={"path": "/mine.txt"})).text == "x"
        assert (await client.get(content, params={"path": "/asked.txt"})).status_code == 404


NAMES = (
    "\u06af\u0632\u0627\u0631\u0634\u200c\u0647\u0627.txt",
    "Facture\u00a0n°12.txt",
    "invoice\u202efdp.exe",
    "👩\u200d💻.txt",
    "\u3000.txt",
    "\ue000.txt",
    "a  b.txt",
    "two\nlines.txt",
    f"{'long/' * 110}name.txt",
)
"""Persian, French, reversed, joined, a wide blank, a private character, two blanks, a line feed, deep."""


async def test_a_file_is_listed_whatever_its_name(tmp_path: Path) -> None:
    writes = [call("write_file", str(at), path=name, content="x") for at, name in enumerate(NAMES)]
    model = script(calling(*writes), "Done.")
    write_agent(tmp_path, tools="[probe, filesystem]")
    async with serving(service_of(tmp_path, model)) as client:
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        listed = (await client.get(f"/v1/sessions/{session}/artifacts")).json()
        assert sorted(each["path"] for each in listed) == sorted(f"/{name}" for name in NAMES)
        for name in NAMES:
            saved = await client.get(f"/v1/sessions/{session}/artifacts/content", params={"path": f"/{name}"})
            assert saved.text == "x", name
            kept = saved.headers["content-disposition"]
            assert kept == f"attachment; filename*=UTF-8''{quote(name.split('/')[-1])}"


async def test_no_session_gives_out_what_is_kept_for_another(tmp_path: Path) -> None:
    """A model that names such a file in a call that writes would make it one of the session's files."""
    kept = ["large_tool_results/call_1", "conversation_history/anns.md", "sandboxes/anns/notes.txt"]
    paths = [*(f"/{each}" for each in kept[:2]), *(f"/.zeus/{each}" for each in kept)]
    more = [call("write_file", str(at), path=f"{at}.txt", content=each) for at, each in enumerate(paths)]
    model = script(calling(*more), "Done.")
    write_agent(tmp_path, tools="[probe, filesystem]")
    async with serving(service_of(tmp_path, model)) as client:
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        for each in kept:
            file = tmp_path / ".zeus" / each
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("of ann")
        listed = (await client.get(f"/v1/sessions/{session}/artifacts")).json()
        assert sorted(each["path"] for each in listed) == [f"/{at}.txt" for at in range(len(paths))]
        for path in paths:
            address = f"/v1/sessions/{session}/artifacts/content"
            assert (await client.get(address, params={"path": path})).status_code == 404, path


async def test_a_user_names_only_kept_files_of_the_own_sessions(tmp_path: Path, database_url: str) -> None:
    data = b"the plan of ann"
    path = f"/attached_files/{hashlib.sha256(data).hexdigest()[:16]}/plan.txt"
    model = script(calling(call("read_file", "a", path=path)), "Done.")
    write_agent(tmp_path, storage(database_url) + SHOWN, tools="[probe, filesystem]")
    database = Database(URL, directory=tmp_path)
    await ready(database)
    service = replace(service_of(tmp_path, model), settings=Settings(), database=database)
    async with serving(service) as client:
        ann, bob = bearer(await made(database, "ann")), bearer(await made(database, "bob", user="bob"))
        client.headers.update(ann)
        await client.put(address_of(data), content=data)
        session = (await client.post("/v1/sessions", json={})).json()["session"]
        attached = {"sha256": hashlib.sha256(data).hexdigest(), "name": "plan.txt"}
        sent = await client.post(
            f"/v1/sessions/{session}/runs", json={"prompt": "Look.", "attachments": [attached]}
        )
        await until(client, sent.json()["run"], "complete")
        found = []
        for user in (bob, ann):
            client.headers.update(user)
            session, run = await begun(client, f"Read {path}.")
            await until(client, run, "complete")
            messages = (await client.get(f"/v1/sessions/{session}/messages")).json()
            found += [each["content"] for each in messages if each["role"] == "tool"]
        assert "kept no such file" in found[0], found
        assert data.decode() in found[1]


async def test_each_session_gives_out_the_files_of_its_own_workspace(tmp_path: Path) -> None:
    model = script(calling(call("write_file", "a", path="report.md", content="mine")), "Done.")
    write_agent(tmp_path, "workspace: {per: session, root: work}\n", tools="[probe, filesystem]")
    (tmp_path / "work").mkdir()
    async with serving(service_of(tmp_path, model)) as client:
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        (listed,) = (await client.get(f"/v1/sessions/{session}/artifacts")).json()
        assert listed["path"] == "/report.md"
        saved = await client.get(f"/v1/sessions/{session}/artifacts/content", params={"path": "/report.md"})
        assert saved.text == "mine"
        fork = (await client.post(f"/v1/sessions/{session}/fork", json={"step": 2})).json()["session"]
        assert (await client.get(f"/v1/sessions/{fork}/artifacts")).json() == []
