"""`zeus --remote`: what a service sends that holds a secret of the user, which the service does not know."""

from __future__ import annotations

import json
import re
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest

from tests.cli.conftest import Zeus
from tests.cli.pseudo_terminal import PseudoTerminal
from zeus_runtime.cli.group import REMOTE
from zeus_runtime.cli.process import Process
from zeus_runtime.cli.remote.masked_client import MaskedAsyncServiceClient, MaskedServiceClient
from zeus_runtime.cli.remote.masked_events import MaskedEvents
from zeus_runtime.client.calls import ServiceAnswer, ServiceCall, as_it_is
from zeus_runtime.client.results import ServiceEvent, event_of
from zeus_runtime.config.secrets.masking import Redactor, secrets_of_environment
from zeus_runtime.cutting import mask_known
from zeus_runtime.errors import UsageError

SECRETS = ("Ev7Kx02LmPq81Zt", "Dv3Tn55WbRc90Yh")
BASE64 = b64encode(f"user:{SECRETS[0]}".encode()).decode()
TEXT = f"token {SECRETS[0]} and {SECRETS[1]} and {BASE64} end"


def _pieces(kind: str, name: str = "text", **more: Any) -> list[dict[str, Any]]:
    return [{"type": kind, name: TEXT[at : at + 5], **more} for at in range(0, len(TEXT), 5)]


def _wrapped(told: dict[str, Any]) -> dict[str, Any]:
    return {"type": "subagent", "session": "s2", "agent": "helper", "call_id": "c9", "event": told}


CALL = {"call_id": "c1", "tool_name": "read_file"}
EVENTS: list[dict[str, Any]] = [
    {"type": "run_started", "session": "s", "model": "m", "mode": "agent"},
    *_pieces("reasoning"),
    # What comes between two pieces ends no text.
    *(
        each
        for piece in _pieces("text")
        for each in (piece, {"type": "notice", "code": "n", "message": TEXT})
    ),
    {"type": "tool_call_chunk", "index": 0, **CALL, "arguments": ""},
    *_pieces("tool_call_chunk", "arguments", index=0, call_id=None, tool_name=None),
    {"type": "model_call_ended", "call": "m1", "purpose": "turn", "model": "m", "seconds": 0.1},
    {"type": "tool_call", **CALL, "parameters": {"path": TEXT}},
    {"type": "tool_progress", **CALL, "message": TEXT},
    *map(_wrapped, [*_pieces("text"), {"type": "complete", "session": "s2", "answer": TEXT, "steps": 1}]),
    {"type": "tool_call_result", **CALL, "content": TEXT},
    *({"type": "output_partial", "value": {"a": [TEXT[:at]]}} for at in (19, 20, 21)),
    {"type": "model_retry", "attempt": 2, "reason": TEXT, "wait_seconds": 0.0},
    {"type": "complete", "session": "s", "answer": TEXT, "steps": 1, "output": {TEXT: TEXT}},
]
SESSION = {"session": "s", "agent": "a", "title": TEXT, "messages": 1, "updated_ms": 1, "created_ms": 1}
MEMORY = {"id": "mem_1", "content": TEXT, "subject": TEXT}
APPROVAL = {
    "id": "p",
    "session": "s",
    "tool_name": "write_file",
    "parameters": {"path": "n.txt", "content": TEXT},
    "changes": [{"path": "n.txt", "before": None, "after": TEXT}],
    "reason": TEXT,
}
SENT = {"part": "message", "name": TEXT, "source": TEXT, "tokens": 1, "text": TEXT}
CHANGED = {"change": "left", "what": "m", "name": TEXT, "tokens": 1, "by": TEXT, "excerpt": TEXT}
FATE = {"what": "m", "name": TEXT, "status": "x", "fate": {"reason": TEXT}, "note": "", "excerpt": TEXT}
HISTORY = {"version": 1, "action": "add", "at": "x", "by": TEXT, "content": TEXT}
ANSWERS: dict[str, Any] = {
    "/agents": [{"name": "a", "description": TEXT}],
    "/runs": {"run": "r", "session": "s", "state": "running"},
    "/sessions": [SESSION],
    "/sessions/s": SESSION,
    "/sessions/s/fork": SESSION,
    "/sessions/s/archive": SESSION,
    "/sessions/s/restore": SESSION,
    "/sessions/s/rollback": {"set_aside": 1},
    "/sessions/s/messages": [{"role": "assistant", "content": TEXT}],
    "/sessions/search": [{"session": "s", "number": 1, "role": "user", "excerpt": TEXT, "title": TEXT}],
    "/sessions/s/context": {"sent": [SENT], "session": TEXT},
    "/sessions/s/context/diff": {"changes": [CHANGED]},
    "/sessions/s/context/why": {"found": [FATE]},
    "/approvals": [APPROVAL],
    "/approvals/p": APPROVAL,
    "/memories": {"memories": [MEMORY]},
    "/memories/search": [MEMORY],
    "/memories/mem_1": MEMORY,
    "/memories/mem_1/history": [HISTORY],
    "/knowledge": [{"name": "b", "scope": TEXT}],
}
VERBS: dict[str, list[str]] = {
    "run": ["run look", "run look -o json", "run look -o ndjson"],
    "chat": ["chat look"],
    "sessions list": ["sessions list", "sessions list --json"],
    "sessions search": ["sessions search token", "sessions search token --json"],
    "sessions show": ["sessions show s", "sessions show s --json"],
    "sessions rollback": ["sessions rollback s --to 1"],
    "sessions fork": ["sessions fork s --step 1"],
    "sessions archive": ["sessions archive s"],
    "sessions restore": ["sessions restore s"],
    "sessions export": [
        f"sessions export s --format {form}{file}" for form in ("json", "markdown") for file in ("", " -o x")
    ],
    "sessions delete": ["sessions delete s -y"],
    "approvals pending": ["approvals pending", "approvals pending --json"],
    "approvals show": ["approvals show p"],
    "approvals decide": ["approvals decide p approve"],
    "memory list": ["memory list", "memory list --json"],
    "memory search": ["memory search token", "memory search token --json"],
    "memory show": ["memory show mem_1", "memory show mem_1 --json"],
    "memory add": ["memory add x"],
    "memory delete": ["memory delete mem_1 -y"],
    "memory history": ["memory history mem_1", "memory history mem_1 --json"],
    "kb list": ["kb list", "kb list --json"],
    "kb search": ["kb search b token", "kb search b token --json"],
    "context show": ["context show --session s", "context show --session s --json"],
    "context diff": ["context diff 1 2 --session s", "context diff 1 2 --session s --json"],
    "context why-missing": [f"context why-missing x --session s{form}" for form in ("", " --json")],
}


WRITES = "Write into .env: "
"""Begins a prompt that the service obeys."""


@pytest.fixture(scope="module")
def received() -> list[str]:
    """The bodies of the requests."""
    return []


@pytest.fixture(scope="module")
def url(received: list[str]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            received.append(self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode())
            if WRITES in received[-1]:
                Path(".env").write_text(json.loads(received[-1])["prompt"].removeprefix(WRITES))
            path = self.path.partition("?")[0].removeprefix("/v1")
            told = ANSWERS.get(path)
            body = json.dumps(told).encode()
            if path == "/approvals/p" and self.command == "POST":
                body = json.dumps({"session": "s", "decision": "approve", "allowlist_of": TEXT}).encode()
            elif path == "/memories" and self.command == "POST":
                body = json.dumps({"outcome": "duplicate", "message": TEXT, "memory": MEMORY}).encode()
            elif path.endswith("/events"):
                lines = (f"id: {at}\ndata: {json.dumps(each)}\n\n" for at, each in enumerate(EVENTS, 1))
                body = "".join(lines).encode()
            elif path.endswith("/export"):
                body = TEXT.encode() if "markdown" in self.path else json.dumps({TEXT: [TEXT]}).encode()
            elif path.startswith("/knowledge/"):
                body = json.dumps({"hits": [{"content": TEXT, "citation": TEXT}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - a name of the base class
        do_DELETE = do_GET  # noqa: N815 - a name of the base class

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That of a user whose environment and ``.env`` have the secrets."""
    monkeypatch.setenv("ZEUS_TOKEN", "a-token-of-the-service-0123")
    monkeypatch.setenv("BUILD_TOKEN", SECRETS[0])
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text(f"SHOP_API_KEY={SECRETS[1]}\n")
    return tmp_path


def _known(text: str) -> list[str]:
    """The secrets in a text, also in pieces of it that nothing but JSON's frame parts."""
    joined = "".join(re.findall(r'"(?:text|arguments)": ?"((?:[^"\\]|\\.)*)"', text))
    return [each for each in (*SECRETS, BASE64, SECRETS[1][:-1]) if each in text or each in joined]


def test_the_table_has_every_verb_that_works_with_a_service() -> None:
    found: set[str] = set()
    for name in REMOTE:
        command = import_module(f"zeus_runtime.cli.remote.{name}").command
        found |= (
            {f"{name} {each}" for each in command.commands} if isinstance(command, click.Group) else {name}
        )
    assert found == set(VERBS)


@pytest.mark.parametrize("line", [each for lines in VERBS.values() for each in lines])
def test_no_secret_of_the_user_is_shown_or_written(line: str, url: str, zeus: Zeus, folder: Path) -> None:
    ran = zeus("--remote", url, *line.split())
    assert ran.exit_code == 0, ran.err
    written = "".join(each.read_text() for each in folder.iterdir() if each.is_file() and each.name != ".env")
    assert _known(ran.out) == _known(ran.err) == _known(written) == []
    if line.startswith(("run", "sessions export")):
        # The words around them are there.
        assert re.search(r"token <secret:BUILD_TOKEN> and <secret:SHOP_API_KEY> and ", ran.out + written)
    if "--json" in line or "json" in line.split():
        json.loads(written or ran.out.splitlines()[-1] if "ndjson" in line else written or ran.out)


def test_no_secret_of_the_user_is_shown_at_a_terminal(url: str, folder: Path) -> None:
    with PseudoTerminal(["--remote", url, "run", "look"], folder) as terminal:
        assert terminal.end() == 0
    assert _known(terminal.screen) == []
    assert "<secret:SHOP_API_KEY>" in terminal.screen


def test_a_chat_knows_what_came_into_env_files_since_it_began(
    url: str, received: list[str], zeus: Zeus, folder: Path
) -> None:
    (folder / ".env").unlink()
    sound, broken = (WRITES + each for each in (f"SHOP_API_KEY={SECRETS[1]}", "SHOP_API_KEY 'half"))
    lines = [sound, f"look at {SECRETS[1]}", broken, "go"]
    ran = zeus("--remote", url, "chat", stdin="\n/new\n".join(lines))
    assert _known(ran.out) == []
    assert ran.out.count("<secret:SHOP_API_KEY>") == 3
    told = [json.loads(each)["prompt"] for each in received if WRITES in each or "look at" in each]
    assert told == [sound, "look at <secret:SHOP_API_KEY>", broken]
    # As at its beginning: nothing is sent that Zeus cannot mask.
    assert ran.exit_code == 3
    assert ".env:1:1" in ran.err
    assert '"go"' not in received[-1]


def test_what_a_look_finds_is_masked_before_a_text_is_cut(folder: Path) -> None:
    process = Process()
    known = process.secrets
    (folder / ".env.local").write_text("A_TOKEN=Qx7Kp02LmZz81Rt\n")
    assert process.look() is known is process.secrets
    assert mask_known("of Qx7Kp02LmZz81Rt") == "of <secret:.env.local/A_TOKEN>"


KNOWN = secrets_of_environment({"BUILD_TOKEN": SECRETS[0], "SHOP_API_KEY": SECRETS[1]})


def _told(*events: dict[str, Any], known: Redactor = KNOWN) -> list[dict[str, Any]]:
    masked = MaskedEvents(known)
    passed = [told for at, each in enumerate(events) for told in masked.passed(event_of(at, each))]
    return [dict(each.data) for each in (*passed, *masked.rest())]


def _text(told: list[dict[str, Any]]) -> str:
    return "".join(each["text"] for each in told if each["type"] == "text")


def test_pieces_come_whole_and_in_order() -> None:
    told = _told(*EVENTS)
    kinds = [each["type"] for each in told]
    masked = KNOWN.text(TEXT)
    assert _text(told) == masked
    assert "".join(each["arguments"] for each in told if each["type"] == "tool_call_chunk") == masked
    assert "".join(each["event"].get("text", "") for each in told if each["type"] == "subagent") == masked
    assert max(at for at, each in enumerate(kinds) if each == "text") < kinds.index("model_call_ended")
    assert [each["call_id"] for each in told if each["type"] == "tool_call_chunk"].count("c1") == 1
    partial = json.dumps([each["value"] for each in told if each["type"] == "output_partial"])
    assert (SECRETS[0][:6] in partial, partial.count("token ")) == (False, 3)
    # Without a secret, nothing is held or changed.
    assert _told(*EVENTS, known=Redactor()) == [dict(event_of(0, each).data) for each in EVENTS]


def test_void_pieces_are_not_told_later_and_a_lost_end_is() -> None:
    retry = {"type": "model_retry", "attempt": 2, "reason": "", "wait_seconds": 0.0}
    piece = {"type": "text", "text": "half"}
    assert _text(_told(piece, retry, {"type": "text", "text": "whole"})) == "whole"
    other = {"type": "model_call_ended", "call": "p", "purpose": "summary", "model": "m", "seconds": 0.1}
    parts = ({"type": "text", "text": each} for each in (SECRETS[0][:6], SECRETS[0][6:]))
    first, second = parts
    assert _text(_told(first, other, _wrapped(retry), second)) == "<secret:BUILD_TOKEN>"


def test_a_file_stays_what_it_was_but_for_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    client = MaskedServiceClient("http://127.0.0.1:1", "a-token", lambda: KNOWN)
    call = ServiceCall("GET", "/v1/x", as_it_is, is_file=True)
    for given, masked in (
        (b"\x89PNG\xff\x00", b"\x89PNG\xff\x00"),
        (b'{"a":1}', b'{"a":1}'),
        (f'["{SECRETS[0]}"]'.encode(), b'[\n  "<secret:BUILD_TOKEN>"\n]'),
        (f"\xe9 {SECRETS[0]}".encode("latin-1"), b"\xe9 <secret:BUILD_TOKEN>"),
    ):
        monkeypatch.setattr(
            "zeus_runtime.client.clients.ServiceClient.send",
            lambda _, call, given=given: call.read(ServiceAnswer(given)),
        )
        assert client.send(call) == masked
    client.close()


WAITING = {
    "id": "p",
    "session": "s",
    "tool_name": "write_file",
    "parameters": {
        "path": "prod.env",
        "content": f"TOKEN={SECRETS[0]}\nTHEIRS=<secret:THEIRS>\n",
        "text": f"<secret:SHOP_API_KEY> {SECRETS[1]}",
        "auth": KNOWN.text(BASE64),
        "<secret:SHOP_API_KEY>": f"{SECRETS[0]}{SECRETS[0]}",
    },
    "parameters_told": {"text": "<not the secret:SHOP_API_KEY>", "auth": KNOWN.text(BASE64)},
}
OURS, SHOP = "<secret:BUILD_TOKEN>", "<secret:SHOP_API_KEY>"
SENT_FOR_CHANGED: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
    # Of the arguments that the question showed, one is changed.
    (
        {"path": "a.env", "content": f"TOKEN={OURS}\nTHEIRS=<secret:THEIRS>\n", "text": f"{SHOP} {SHOP}"},
        {"path": "a.env", **{name: WAITING["parameters"][name] for name in ("content", "text")}},
    ),
    # Within a changed argument: what the service has as a text, and no placeholder of the service's own.
    ({"content": [f"{OURS} <secret:THEIRS>"]}, {"content": [f"{SECRETS[0]} <secret:THEIRS>"]}),
    ({"content": f"echo {SECRETS[0]} > x"}, {"content": f"echo {SECRETS[0]} > x"}),
    # A typed secret that the service masks alike.
    ({"content": BASE64}, {"content": KNOWN.text(BASE64)}),
    # The call has it as a text too.
    ({"text": f"a {SHOP}"}, {"text": f"a {SHOP}"}),
    # A secret that was typed, and that the call does not have so: the service would get another text.
    ({"content": f"echo {SECRETS[1]} > x"}, None),
    ({SECRETS[0]: 1}, None),
    # A placeholder that stands for nothing in the question is a text.
    ({"content": "<secret:OTHER>"}, {"content": "<secret:OTHER>"}),
]


@pytest.mark.parametrize(("changed", "sent"), SENT_FOR_CHANGED)
@pytest.mark.parametrize("seen", ["d1", None])
async def test_a_changed_argument_is_sent_as_the_question_meant_it(
    changed: dict[str, Any], sent: Any, seen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []

    def send(_: Any, call: ServiceCall[Any]) -> Any:
        if call.method == "POST":
            told.append((call.body or {})["changed"])
            return call.read(ServiceAnswer({"session": "s", "decision": "approve"}))
        # To ask for the call alone would note its change as shown.
        return call.read(ServiceAnswer(WAITING if call.path.endswith("/p") and seen else [WAITING]))

    async def send_async(_: Any, call: ServiceCall[Any]) -> Any:
        return send(_, call)

    monkeypatch.setattr("zeus_runtime.client.clients.ServiceClient.send", send)
    monkeypatch.setattr("zeus_runtime.client.clients.AsyncServiceClient.send", send_async)
    client = MaskedServiceClient("http://127.0.0.1:1", "a-token", lambda: KNOWN)
    async_client = MaskedAsyncServiceClient("http://127.0.0.1:1", "a-token", lambda: KNOWN)
    with client, nullcontext() if sent else pytest.raises(UsageError, match="a secret of this machine, <sec"):
        client.decide("p", "approve", changed=changed, seen=seen)
    async with async_client:
        with nullcontext() if sent else pytest.raises(UsageError, match="which the call does not have"):
            await async_client.decide("p", "approve", changed=changed, seen=seen)
    assert told == ([sent, sent] if sent else [])


def test_a_placeholder_stands_for_what_the_diff_or_the_form_of_the_question_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change = {"path": "a.env", "before": f"OLD={SECRETS[0]}\n", "after": "1\n"}
    form = {"type": "object", "properties": {"host": {"enum": [f"{SECRETS[1]}.example", "b"]}}}
    question = {**WAITING, "parameters": {"pin": SECRETS[0]}, "changes": [change], "answer_schema": form}
    decided = {"session": "s", "decision": "approve"}
    changed = {"new": f"KEPT={OURS}", "host": f"{SHOP}.example", "pin": OURS}
    told: list[Any] = []

    def send(_: Any, call: ServiceCall[Any]) -> Any:
        told.append(call.body)
        return call.read(ServiceAnswer(decided if call.method == "POST" else question))

    monkeypatch.setattr("zeus_runtime.client.clients.ServiceClient.send", send)
    with MaskedServiceClient("http://127.0.0.1:1", "a-token", lambda: KNOWN) as client:
        client.decide("p", "approve", changed=changed, seen="d1")
        assert told[1]["changed"] == {
            "new": f"KEPT={SECRETS[0]}",
            "host": f"{SECRETS[1]}.example",
            "pin": SECRETS[0],
        }
        # Nothing is asked for without a placeholder or a secret, nor under a name that is one.
        told.clear()
        client.decide("p", "approve", changed={"new": "x"}, seen="d1")
        with pytest.raises(UsageError, match="a name holds a secret of this machine"):
            client.decide(SECRETS[0], "approve", changed={"new": OURS}, seen="d1")
    assert [each["changed"] for each in told] == [{"new": "x"}]


def test_events_without_asyncio_are_masked_too(url: str) -> None:
    with MaskedServiceClient(url, "a-token", lambda: KNOWN) as client:
        found: list[ServiceEvent] = list(client.events(run="r"))
    assert _known(json.dumps([dict(each.data) for each in found])) == []
    assert found[-1].ends
