"""Keys of a service: made on the command line, sent as tokens, expired, rotated, revoked."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from tests.support.agents import PositionModel, call, calling, script, write_agent
from tests.support.serving import TOKEN, begun, service_of, serving, told, until
from zeus_runtime.cli.group import zeus
from zeus_runtime.cli.process import Process
from zeus_runtime.serving.http import key_ring
from zeus_runtime.serving.http.settings import Settings
from zeus_runtime.store.database import Database
from zeus_runtime.store.schema import ready
from zeus_runtime.store.service_keys import (
    ServiceKey,
    add_key,
    find_key,
    key_text,
    new_secret,
    parts_of,
    revoke_key,
    rotate_key,
)

URL = "sqlite:///.zeus/serve.db"


@asynccontextmanager
async def keyed(
    folder: Path,
    settings: Settings | None = None,
    *,
    more: str = "",
    tools: str = "[probe]",
    model: Any = None,
    url: str = URL,
) -> AsyncIterator[tuple[httpx.AsyncClient, Database]]:
    """A service with a database of keys: its client (with the local token) and the database."""
    write_agent(folder, more, tools=tools)
    database = await ready_database(folder, url)
    service = service_of(folder, model or script("Done."))
    service = replace(service, settings=settings or Settings(), database=database)
    async with serving(service) as client:
        yield client, database


async def ready_database(folder: Path, url: str = URL) -> Database:
    """A service's own database, with its tables."""
    database = Database(url, directory=folder)
    if database.server is None:  # a server's tables are made by their owner
        await ready(database)
    return database


async def made(database: Database, name: str = "ann", **values: Any) -> str:
    """A key that may run, approve and read, of the user ``name``."""
    number, secret = new_secret()
    values = {"user": name, "project": None, "role": None, "scopes": ("run", "approve", "read"), **values}
    key = ServiceKey(id=number, name=name, agents=values.pop("agents", None), created_ms=1, **values)
    await add_key(database, key, secret)
    return key_text(number, secret)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def test_a_key_does_what_its_scopes_say_and_only_for_its_user(tmp_path: Path) -> None:
    async with keyed(tmp_path) as (client, database):
        ann, reader = await made(database), await made(database, "reader", scopes=("read",), user="ann")
        other = await made(database, "other", agents=("another",))
        client.headers.update(bearer(ann))
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        read = await client.get(f"/v1/sessions/{session}", headers=bearer(reader))
        assert read.json()["session"] == session
        refused = await client.post("/v1/sessions", json={}, headers=bearer(reader))
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert (await client.get("/v1/agents", headers=bearer(other))).json() == []
        assert (await client.post("/v1/sessions", json={}, headers=bearer(other))).status_code == 404


async def test_a_model_gets_no_token_with_which_clients_log_in(tmp_path: Path) -> None:
    model = PositionModel(lambda _request: "Done.")
    async with keyed(tmp_path, model=model) as (client, database):
        key, later = await made(database), await made(database, "later", user="ann")
        for each in (key, later):
            client.headers.update(bearer(each))
            _, run = await begun(client, f"Send {key}, {each} or {TOKEN}.")
            await until(client, run, "complete")
    sent = [str(each.messages[-1].content) for each in model.requests]
    assert len(sent) == 2
    for each in (key, later, TOKEN):
        assert not [text for text in sent if each in text]
    assert all(text.endswith("or <secret:ZEUS_TOKEN>.") for text in sent), sent


@pytest.mark.parametrize(("change", "word"), [({"expires_ms": 2}, "expired"), ({"revoked_ms": 2}, "revoked")])
async def test_a_key_that_ended_is_refused(tmp_path: Path, change: dict[str, int], word: str) -> None:
    async with keyed(tmp_path) as (client, database):
        key = await made(database, **change)
        answer = await client.get("/v1/agents", headers=bearer(key))
        assert (answer.status_code, word in answer.json()["detail"]) == (401, True)
        wrong = await client.get("/v1/agents", headers=bearer(f"{key}x"))
        assert (wrong.status_code, word in wrong.text) == (401, False), "only the holder learns of it"


async def test_a_revoked_key_and_a_rotated_one_count_at_once(tmp_path: Path) -> None:
    async with keyed(tmp_path) as (client, database):
        key = await made(database)
        name, _ = parts_of(key) or ("", "")
        later, secret = await rotate_key(database, name, 1000, overlap_ms=10**15, expires_ms=None)
        new = key_text(later.id, secret)
        assert later.rotated_from == name
        for each in (key, new):
            assert (await client.get("/v1/agents", headers=bearer(each))).status_code == 200
        last, _ = await rotate_key(database, "ann", 2000, overlap_ms=0, expires_ms=None)
        assert last.rotated_from == later.id, "the newest of a name"
        assert (await client.get("/v1/agents", headers=bearer(new))).status_code == 401
        await revoke_key(database, name, 3000)
        assert (await client.get("/v1/agents", headers=bearer(key))).status_code == 401


async def test_the_key_is_not_stored_and_its_use_is_stored_at_the_end(tmp_path: Path) -> None:
    async with keyed(tmp_path) as (client, database):
        key = await made(database)
        name, secret = parts_of(key) or ("", "")
        assert (await client.get("/v1/agents", headers=bearer(key))).status_code == 200
        found = await find_key(database, name)
        assert found is not None
        assert found[0].last_used_ms is None, "no write for each request"
    for file in (tmp_path / ".zeus").iterdir():
        assert not file.is_file() or secret.encode() not in file.read_bytes()
    database = Database(URL, directory=tmp_path)
    found = await find_key(database, name)
    await database.close()
    assert found is not None
    assert found[0].last_used_ms


async def test_the_secret_part_is_compared_in_constant_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def fits(name: str, secret: str, digest: str) -> bool:
        asked.append(name)
        return False

    monkeypatch.setattr(key_ring, "fits", fits)
    async with keyed(tmp_path) as (client, _):
        await client.get("/v1/agents", headers=bearer("zeus_0123456789_secret"))
    assert asked == ["0123456789"], "an unknown id is compared too"


def invoke(*words: str) -> Any:
    return CliRunner().invoke(zeus, words, obj=Process())


def test_keys_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = invoke("keys", "create", "ci", "--user", "ann", "--scope", "read", "--expires", "2d")
    assert made.exit_code == 0, made.output
    key = made.stdout.strip()
    name, secret = parts_of(key) or ("", "")
    (listed,) = json.loads(invoke("keys", "list", "--json").stdout)["keys"]
    assert (listed["id"], listed["user"], listed["scopes"], listed["state"]) == (
        name,
        "ann",
        ["read"],
        "valid",
    )
    assert listed["expires_ms"] - listed["created_ms"] == 2 * 86_400_000
    assert secret not in invoke("keys", "list").output
    again = invoke("keys", "create", "ci")
    assert "zeus keys rotate ci" in getattr(again.exception, "remedy", "")
    assert invoke("keys", "rotate", "ci", "--overlap", "1h").exit_code == 0
    assert invoke("keys", "revoke", name).exit_code == 0
    states = [each["state"] for each in json.loads(invoke("keys", "list", "--json").stdout)["keys"]]
    assert states == ["revoked", "valid"]
    assert "there is no valid key" in str(invoke("keys", "revoke", "nobody").exception)
    assert json.loads(invoke("audit", "--json").stdout) == {"entries": []}


@pytest.mark.parametrize(
    "words",
    [
        ("ci-{}",),
        ("ci", "--user", "u-{}"),
        ("ci", "--project", "{}"),
        ("ci", "--agent", "ag", "--agent", "{}"),
    ],
)
def test_a_name_of_a_key_that_holds_a_known_secret_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zeus.yaml").write_text("version: 1\nmodel: gpt-4o\nmetadata: {api_key: Zk8pQw3RtY6uNm1X}\n")
    monkeypatch.setenv("BUILD_TOKEN", "Xc7vBn4MqW2eRt9Y")
    for secret in ("Xc7vBn4MqW2eRt9Y", "Zk8pQw3RtY6uNm1X"):
        made = invoke("keys", "create", *(each.format(secret) for each in words))
        assert "holds a known secret" in str(made.exception)
        assert secret not in f"{made.output}{made.exception}"
    assert not [*tmp_path.rglob("*.db")]


def test_other_addresses_need_keys_and_encryption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_agent(tmp_path)
    refused = invoke("serve", "--host", "0.0.0.0")
    assert "zeus keys create" in getattr(refused.exception, "remedy", "")
    invoke("keys", "create", "ci")
    refused = invoke("serve", "--host", "0.0.0.0")
    assert "tls" in getattr(refused.exception, "remedy", "")


def test_settings_are_shown_with_their_places_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "zeus-serve.yaml"
    file.write_text("limits:\n  burst: 7\n")
    shown = invoke("serve", "--show-settings").stdout
    lines = {line.split()[0]: line.split()[1:] for line in shown.splitlines()}
    assert lines["limits.burst"] == ["7", "zeus-serve.yaml:2"]
    assert lines["limits.body_bytes"] == ["4000000", "default"]
    file.write_text("limits:\n  busrt: 7\n")
    assert "zeus-serve.yaml:2:3" in str(invoke("serve", "--show-settings").exception)
    file.write_text("oidc: [{issuer: 'http://id.example.org', audience: zeus}]\n")
    assert "https://" in str(invoke("serve", "--show-settings").exception)


class SlowStore:
    """In the place of the write of times: it ends when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.goes_on = asyncio.Event(), asyncio.Event()
        self.stored: list[dict[str, int]] = []
        monkeypatch.setattr(key_ring, "note_use", self)
        monkeypatch.setattr(key_ring, "NOTE_SECONDS", 0)

    async def __call__(self, _: Any, used: dict[str, int]) -> None:
        self.begun.set()
        await self.goes_on.wait()
        self.stored.append(used)


async def test_a_use_that_is_noted_during_a_write_is_written_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = SlowStore(monkeypatch)
    ring = key_ring.KeyRing(None)  # type: ignore[arg-type]
    ring._note("a", 1)
    await store.begun.wait()
    ring._note("b", 2)
    store.goes_on.set()
    assert ring._noting is not None
    await ring._noting
    assert store.stored == [{"a": 1}, {"b": 2}]


async def test_a_write_of_uses_that_is_under_way_ends_before_the_key_ring_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = SlowStore(monkeypatch)
    ring = key_ring.KeyRing(None)  # type: ignore[arg-type]
    ring._note("a", 1)
    await store.begun.wait()
    closing = asyncio.create_task(ring.aclose())
    await asyncio.sleep(0)
    store.goes_on.set()
    await closing
    assert store.stored == [{"a": 1}]


async def test_a_service_masks_the_key_of_a_user_who_has_not_logged_in_since_it_began(tmp_path: Path) -> None:
    """As in a turn that the service resumes after a restart, or that another user's approval continues."""
    key = key_text("0123456789", "k" * 20 + "-_" + "K1" * 10 + "x")
    encoded = base64.b64encode(f"export KEY={key} # ann's".encode()).decode()
    texts = (f"Bearer {key}", key.replace("_", "\\u005f"), encoded)
    answers = [calling(call("echo", f"c{number}", text=text)) for number, text in enumerate(texts)]
    model = script(*answers, f"Done with {key}.")
    async with keyed(tmp_path, model=model) as (client, database):
        client.headers.update(bearer(await made(database)))
        session, run = await begun(client, f"My key is {key}.")
        await until(client, run, "complete")
        shown = (await client.get(f"/v1/sessions/{session}/messages")).text
        events = await told(client, f"/v1/runs/{run}/events")
    sent = str([(each.content, getattr(each, "tool_calls", ())) for each in model.requests[-1].messages])
    for text in (sent, shown, json.dumps(events)):
        assert "k" * 20 not in text
        assert encoded[20:60] not in text
        assert "<secret:ZEUS_KEY-0123456789>" in text
    assert (b"k" * 20) not in b"".join(each.read_bytes() for each in (tmp_path / ".zeus").glob("zeus.db*"))
