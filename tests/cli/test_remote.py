"""`zeus --remote URL`: the agents of a real `zeus serve`, shown and decided as those of this machine."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import fields, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from tests.cli.conftest import Zeus, spawn
from tests.cli.pseudo_terminal import PseudoTerminal
from tests.support.pictures import png
from tests.support.scripted_service import TOKEN, ScriptedService
from zeus_runtime.cli.approval_prompt import TerminalApprovals
from zeus_runtime.cli.process import Process
from zeus_runtime.cli.remote.masked_client import masked_call
from zeus_runtime.cli.remote.service import token_of
from zeus_runtime.cli.remote.turns import RemoteTurn, pending_of
from zeus_runtime.client import (
    ServiceApproval,
    ServiceNotFoundError,
    ServiceRequestError,
    calls,
    data_calls,
)
from zeus_runtime.client.results import ServiceEvent, ServiceFile, result_of
from zeus_runtime.config.secrets.masking import secrets_of_environment
from zeus_runtime.errors import UsageError
from zeus_runtime.events import (
    ApprovalDecided,
    ApprovalRequested,
    Notice,
    RunCompleted,
    RunFailed,
    RunStarted,
    ToolCallResult,
    ToolCallStarted,
)
from zeus_runtime.serving.http.routes.approvals import waiting_call
from zeus_runtime.tools.approval import Decision, PendingApproval
from zeus_runtime.tools.preview import Change, Preview
from zeus_runtime.tools.question import deadline, question_lines

pytestmark = pytest.mark.xdist_group("scripted_service")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedService]:
    found = ScriptedService(tmp_path_factory.mktemp("service"))
    found.start()
    yield found
    found.kill()


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZEUS_TOKEN", TOKEN)


@pytest.fixture
def impostor() -> Iterator[tuple[str, dict[str, Any]]]:
    """Its address, and the answers that it gives: a path to JSON."""
    answers: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answers[self.path]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - a name of the base class

        def do_DELETE(self) -> None:
            answers["deleted"] = self.path
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", answers
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_answer_that_is_not_valid_is_an_error_of_the_service_and_not_of_zeus(
    impostor: tuple[str, dict[str, Any]], zeus: Zeus
) -> None:
    url, answers = impostor
    call = {"id": "a", "session": "s", "tool_name": "t", "parameters": {}}
    for wrong, place in (
        ({"changes": ["p"]}, "changes.0"),
        ({"expires_ms": 10**30}, "expires_ms"),
        ({"parameters": ["rm"]}, "parameters"),
    ):
        answers["/v1/approvals/a"] = call | wrong
        answers["/v1/approvals"] = [call | wrong]
        for words in (("show", "a"), ("pending",)):
            ran = zeus("--remote", url, "approvals", *words)
            assert (ran.exit_code, ran.out) == (1, "")
            assert f"/v1/approvals{'/a' if 'show' in words else ''} is not valid: {place}: " in ran.err
            assert "Traceback" not in ran.err
            assert "bug in Zeus" not in ran.err
    answers["/v1/approvals"] = {"not": "a list"}
    assert "is not valid: Input should be a valid list" in zeus("--remote", url, "approvals", "pending").err
    answers["/v1/sessions/s"] = {"session": "s", "agent": "a"}
    for message in (
        {"role": "prophet", "content": "x"},
        {"role": "user"},
        {"role": "assistant", "tool_calls": [1]},
    ):
        answers["/v1/sessions/s/messages"] = [message]
        ran = zeus("--remote", url, "sessions", "show", "s")
        assert (ran.exit_code, ran.out) == (1, "")
        assert "a kind that this version does not know" in ran.err
        assert zeus("--remote", url, "sessions", "show", "s", "--json").json["messages"] == [message]
    change = {"version": 1, "action": "add", "at": "the ides", "by": "ann", "content": "x"}
    answers["/v1/memories/m/history"] = [change]
    assert "the ides" in zeus("--remote", url, "memory", "history", "m").out


def test_the_list_of_what_waits_says_until_when_and_what_happens_then(
    impostor: tuple[str, dict[str, Any]], zeus: Zeus
) -> None:
    url, answers = impostor
    call = {"id": "a", "session": "s", "tool_name": "t", "parameters": {}, "on_timeout": "approve"}
    answers["/v1/approvals"] = [call | {"expires_ms": 1_796_010_866_000}, call]
    first, last = zeus("--remote", url, "approvals", "pending").out.splitlines()[1:]
    assert f"  {deadline(1_796_010_866_000, 'approve')}  " in first
    assert "then" not in last


def test_a_call_whose_approval_will_not_hold_says_so_elsewhere_and_offers_none(
    impostor: tuple[str, dict[str, Any]], zeus: Zeus
) -> None:
    url, answers = impostor
    call = {"id": "a", "session": "s", "tool_name": "t", "parameters": {}, "seen": "digest"}
    for is_outdated in (False, True):
        answers["/v1/approvals/a"] = call | {"outdated": is_outdated}
        answers["/v1/approvals"] = [answers["/v1/approvals/a"]]
        assert ("(it was asked under" in zeus("--remote", url, "approvals", "pending").out) == is_outdated
        shown = zeus("--remote", url, "approvals", "show", "a")
        assert ("its approval will not hold" in shown.out) == is_outdated
        assert ("approve this change with" in shown.err) != is_outdated


@pytest.mark.parametrize("more", [{}, {"outdated": True}])
def test_an_approval_that_does_not_hold_is_told_as_it_is_here(
    impostor: tuple[str, dict[str, Any]], zeus: Zeus, more: dict[str, Any]
) -> None:
    url, answers = impostor
    answers["/v1/approvals/a"] = {"session": "s", "decision": "approve", "allowlist_of": "ann", **more}
    told = zeus("--remote", url, "approvals", "decide", "a", "approve", "--always").err
    assert told.startswith("a: approve; its tool goes on the allowlist of ann\n")
    assert told.endswith(
        "a: It was asked under other settings of the tool, or in another workspace: its approval does not hold.\n"
    ) == bool(more)


def test_a_run_prints_the_answer_alone(service: ScriptedService, zeus: Zeus) -> None:
    ran = zeus("--remote", service.url, "run", "hello")
    assert (ran.exit_code, ran.out) == (0, "You said: hello\n")
    piped = zeus("--remote", service.url, "run", "-p", "read", stdin="this")
    assert "this" in piped.out
    as_json = zeus("--remote", service.url, "run", "hello", "--output", "json")
    assert as_json.json["answer"] == "You said: hello"
    lines = zeus("--remote", service.url, "run", "hello", "--output", "ndjson").lines
    assert lines[-1]["type"] == "complete"
    went_on = zeus("--remote", service.url, "run", "more", "-c", "--output", "json")
    assert went_on.json["session"] == lines[-1]["session"]
    assert TOKEN not in ran.out + ran.err + piped.err


def test_no_secret_of_this_machine_is_sent_to_the_service(
    service: ScriptedService, zeus: Zeus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = ("Ev7Kx02LmPq81Zt", "Dv3Tn55WbRc90Yh")
    monkeypatch.setenv("BUILD_TOKEN", secrets[0])
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text(f"SHOP_API_KEY={secrets[1]}\n")
    words = f"review {secrets[0]} and {secrets[1]}"
    session = zeus("--remote", service.url, "run", words, "--output", "json").json["session"]
    piped = zeus("--remote", service.url, "run", "read", stdin=words)
    chat = zeus("--remote", service.url, "chat", stdin=words)
    assert (piped.exit_code, chat.exit_code) == (0, 0)
    found = zeus("--remote", service.url, "sessions", "search", f"review {secrets[0]}", "--json").json
    assert session in {each["session"] for each in found}
    answer = httpx.get(
        f"{service.url}/v1/sessions/{session}/messages", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    assert "review <secret:BUILD_TOKEN> and <secret:SHOP_API_KEY>" in answer.text
    stored = [each.read_bytes() for each in (service.folder / ".zeus").rglob("*") if each.is_file()]
    assert not [each for each in secrets if any(each.encode() in data for data in stored)]


@pytest.mark.parametrize("kind", ["a pipe", "not sound"])
def test_nothing_is_sent_beside_variables_whose_secrets_cannot_be_read(
    impostor: tuple[str, dict[str, Any]],
    zeus: Zeus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    url, answers = impostor
    answers["/v1/approvals"] = []
    monkeypatch.chdir(tmp_path)
    assert zeus("--remote", url, "approvals", "pending").exit_code == 0
    if kind == "a pipe":
        os.mkfifo(".env")
    else:
        (tmp_path / ".env").write_text("this is no variable\n")
    refused = zeus("--remote", url, "approvals", "pending")
    assert refused.exit_code == 3
    assert (".env cannot be read: it is a pipe" if kind == "a pipe" else ".env:1:1") in refused.err


def test_what_is_sent_is_masked_and_what_names_something_is_not() -> None:
    known = secrets_of_environment({"A_KEY": "zeus-1a2b3c4d5e6f", "ZEUS_TOKEN": TOKEN})
    given, shown = "zeus-1a2b3c4d5e6f", "<secret:A_KEY>"
    changed = {"text": f"{given} <secret:THEIRS>", "agent": given}
    decided = masked_call(
        calls.decide("c1", "approve", changed=changed, seen="d1", reason=given, instruction=given), known
    )
    assert decided.path.endswith("c1")
    body = decided.body or {}
    assert (body["seen"], body["reason"], body["instruction"]) == ("d1", shown, shown)
    assert body["changed"] == {"text": f"{shown} <secret:THEIRS>", "agent": shown}
    added = masked_call(data_calls.add_memory(given, agent="a", subject=given, replaces=["m1"]), known)
    assert {"content": shown, "subject": shown, "replaces": ["m1"]}.items() <= (added.body or {}).items()
    assert added.query["agent"] == "a"
    assert masked_call(calls.search_sessions(given, agent="a"), known).query["query"] == shown
    file = ServiceFile("5a1b", "a.txt", 1)
    begun = masked_call(calls.begin_in_new_session("a", title=given, attachments=[file]), known)
    assert {"title": shown}.items() <= (begun.body or {}).items()
    assert (begun.body or {})["attachments"] == [{"sha256": "5a1b", "name": "a.txt"}]
    assert masked_call(calls.agents(), known).body is None


@pytest.mark.parametrize(
    "call",
    [
        lambda name: calls.session(name),
        lambda name: calls.plan(name),
        lambda name: calls.begin_session(name),
        lambda name: calls.sessions(name),
        lambda name: data_calls.add_memory("x", replaces=["m1", name]),
    ],
)
@pytest.mark.parametrize("name", ["Ev7/x 1a2b3c4d5e6f", "of-Ev7/x 1a2b3c4d5e6f-2"])
def test_a_name_that_holds_a_secret_is_not_sent(call: Callable[[str], Any], name: str) -> None:
    known = secrets_of_environment({"A_KEY": "Ev7/x 1a2b3c4d5e6f"})
    with pytest.raises(UsageError, match="a name holds a secret of this machine, <secret:A_KEY>"):
        masked_call(call(name), known)
    masked_call(call("a1b2"), known)


def test_a_file_is_sent_as_its_masked_copy() -> None:
    known = secrets_of_environment({"A_KEY": "zeus-1a2b3c4d5e6f"})
    sent = masked_call(data_calls.upload(b"+ zeus-1a2b3c4d5e6f", "zeus-1a2b3c4d5e6f.diff"), known)
    digest = hashlib.sha256(b"+ <secret:A_KEY>").hexdigest()
    assert (sent.content, sent.path) == (b"+ <secret:A_KEY>", f"/v1/files/{digest}")
    assert sent.read(calls.ServiceAnswer(None)) == ServiceFile(digest, "<secret:A_KEY>.diff", 16)
    picture = png(2, 2)
    assert masked_call(data_calls.upload(picture, "a.png"), known).content == picture
    with pytest.raises(UsageError, match=r"a\.png cannot be attached: .* a known secret"):
        masked_call(data_calls.upload(picture + b"zeus-1a2b3c4d5e6f", "a.png"), known)


def test_a_call_without_a_terminal_ends_with_7_and_is_decided_later(
    service: ScriptedService, zeus: Zeus
) -> None:
    ran = zeus("--remote", service.url, "run", "record it")
    assert ran.exit_code == 7
    (waits,) = zeus("--remote", service.url, "approvals", "pending", "--json").json
    assert f"zeus --remote {service.url} approvals decide {waits['id']} approve" in ran.err
    shown = zeus("--remote", service.url, "approvals", "show", waits["id"])
    assert "draft" in shown.out
    bad = zeus("--remote", service.url, "approvals", "decide", waits["id"], "approve", "--arguments", "[1]")
    assert bad.exit_code == 2
    decided = zeus("--remote", service.url, "approvals", "decide", waits["id"], "reject", "--reason", "no")
    assert decided.exit_code == 0
    again = zeus("--remote", service.url, "approvals", "decide", waits["id"], "approve")
    assert again.exit_code == 2
    assert "was rejected already" in again.err
    assert zeus("--remote", service.url, "approvals", "pending").err.strip() == "nothing waits for a decision"
    yes = zeus("--remote", service.url, "run", "record it", "--yes")
    assert (yes.exit_code, yes.out) == (0, "It said: recorded: draft\n")
    latest = zeus("--remote", service.url, "sessions", "list", "--json").json[0]["session"]
    shown = zeus("--remote", service.url, "sessions", "show", latest)
    assert "── tool record · 3 · approved automatically\n" in shown.out
    assert yes.err.count("record") >= 1


def test_what_a_session_was_sent_and_what_becomes_of_it(
    service: ScriptedService, zeus: Zeus, tmp_path: Path
) -> None:
    def remote(*words: str, **more: Any) -> Any:
        return zeus("--remote", service.url, *words, **more)

    session = remote("run", "hello there", "--output", "json").json["session"]
    found = remote("sessions", "search", "HELLO THERE", "--json").json
    assert (found[0]["session"], found[0]["number"]) == (session, 2)
    assert session in remote("sessions", "search", "hello there").out
    assert "hello there" in remote("context", "show", "--session", session).out
    assert remote("context", "show", "--session", session, "--json").json["session"] == session
    assert "shown" in remote("context", "why-missing", "hello there", "--session", session).out
    assert remote("context", "diff", "1", "1", "--session", session).exit_code == 0
    fork = remote("sessions", "fork", session, "--step", "1").out.strip()
    assert fork != session
    own = "[approve, {eviction: {max_tokens: 100}}]"
    other = remote("sessions", "fork", session, "--step", "1", "--middlewares", own)
    assert other.exit_code == 0, other.err
    told = httpx.get(
        f"{service.url}/v1/sessions/{other.out.strip()}/what-if", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    assert told.json() == {"middlewares": own, "own": True}
    refused = remote("sessions", "fork", session, "--step", "1", "--middlewares", "[]")
    assert (refused.exit_code, "judge calls" in refused.err, "Copy their lines" in refused.err) == (
        2,
        True,
        True,
    )
    assert remote("sessions", "rollback", session, "--to", "1").exit_code == 0
    assert remote("sessions", "archive", session).exit_code == 0
    assert session in remote("sessions", "list", "--archived").out
    partly = remote("sessions", "restore", "session_0", session, "session_1")
    assert (partly.exit_code, f"restored {session}" in partly.err) == (2, True)
    assert re.search(r"error: .*'session_0'(?s:.*)Also failed: .*'session_1'", partly.err)
    written = tmp_path / "session.md"
    assert remote("sessions", "export", session, "--format", "markdown", "-o", str(written)).exit_code == 0
    assert "> hello there" in written.read_text()
    missing = remote("run", "look", "--attach", "nowhere.txt")
    assert (missing.exit_code, "nowhere.txt cannot be attached" in missing.err) == (2, True)
    (tmp_path / "notes.txt").write_text("some notes")
    unseen = remote("run", "look", "--attach", str(tmp_path / "notes.txt"))
    assert (unseen.exit_code, "resources" in unseen.err) == (2, True)


def test_a_memory_is_deleted_in_the_version_that_was_shown(
    impostor: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    url, answers = impostor
    answers["/v1/memories/mem_1"] = {"id": "mem_1", "content": "tea\nor coffee", "version": 3}
    with PseudoTerminal(["--remote", url, "memory", "delete", "mem_1"], tmp_path) as terminal:
        shown = terminal.until("[y/N]")
        terminal.press("y\r")
        assert terminal.end() == 0
    assert "mem_1\n  content: tea\\nor coffee\n" in shown
    assert answers["deleted"] == "/v1/memories/mem_1?version=3"


def test_a_service_without_memory_or_bases_says_so(service: ScriptedService, zeus: Zeus) -> None:
    none = zeus("--remote", service.url, "memory", "list")
    assert (none.exit_code, "has no memory" in none.err) == (2, True)
    assert zeus("--remote", service.url, "kb", "list").err.strip() == "no knowledge base"


def test_sessions_are_listed_shown_and_deleted(service: ScriptedService, zeus: Zeus, tmp_path: Path) -> None:
    session = zeus("--remote", service.url, "run", "hello", "--output", "json").json["session"]
    listed = zeus("--remote", service.url, "sessions", "list", "--json").json
    assert listed[0]["session"] == session
    assert session in zeus("--remote", service.url, "sessions", "list").out
    shown = zeus("--remote", service.url, "sessions", "show", session)
    assert "You said: hello" in shown.out
    with PseudoTerminal(["--remote", service.url, "sessions", "delete", session], tmp_path) as terminal:
        asked = terminal.until("[y/N]")
        terminal.press("n\r")
        terminal.end()
    assert "hello" in asked
    assert "the files and memories that it has alone?" in " ".join(asked.split())
    with PseudoTerminal(["--remote", service.url, "sessions", "delete", session], tmp_path) as terminal:
        terminal.until("[y/N]")
        assert zeus("--remote", service.url, "run", "since", "--session", session).exit_code == 0
        terminal.press("y\r")
        terminal.until("was not deleted: it changed after it was shown")
        terminal.end()
    assert zeus("--remote", service.url, "sessions", "delete", session, "--yes").exit_code == 0
    gone = zeus("--remote", service.url, "sessions", "show", session)
    assert gone.exit_code == 2
    assert "there is no session" in gone.err


def test_lines_of_a_conversation_are_turns_of_one_session(service: ScriptedService, zeus: Zeus) -> None:
    talked = zeus("--remote", service.url, "chat", stdin="/agents\nhello\nmore\n/session\n/nonsense\n")
    assert talked.exit_code == 0
    assert talked.out.split("\n")[:2] == ["You said: hello", "You said: more"]
    assert "there is no /nonsense" in talked.err
    (latest, *_) = zeus("--remote", service.url, "sessions", "list", "--json").json
    assert latest["messages"] == 4
    went_on = zeus("--remote", service.url, "chat", "-c", stdin="again\n")
    assert went_on.exit_code == 0
    assert zeus("--remote", service.url, "sessions", "list", "--json").json[0]["messages"] == 6


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--remote", "localhost", "run", "x"], 2, "is not an address"),
        (["--remote", "http://[::1", "run", "x"], 2, "is not an address"),
        (["--remote", "http://a:b:c", "sessions", "list"], 2, "is not an address"),
        (["--remote", "URL/?token=abc", "run", "x"], 2, "ZEUS_TOKEN"),
        (["--remote", "http://:secret@localhost", "run", "x"], 2, "ZEUS_TOKEN"),
        (["--remote", "http://127.0.0.1:9", "run", "x"], 4, "does not answer"),
        (["--remote", "URL", "plan"], 2, "not with 'plan'"),
        (["--remote", "URL", "nonsense"], 2, "not with 'nonsense'"),
        (["--remote", "URL", "run", "x", "--agent", "other"], 2, "there is no agent 'other'"),
        (["--remote", "URL", "run", "x", "--session", "session_0"], 2, "there is no session"),
        (["--remote", "URL", "chat", "--agent", "other"], 2, "Name one with --agent: test."),
        (["--remote", "URL", "run"], 2, "there is no prompt"),
        (["--remote", "URL", "approvals", "show", "a"], 2, "waits for a decision"),
        (
            [
                "--remote",
                "URL",
                "approvals",
                "decide",
                "a",
                "approve",
                "--arguments",
                '{"p": "safe", "p": "evil"}',
            ],
            2,
            "--arguments is not JSON: a key is there twice",
        ),
    ],
)
def test_wrong_command_lines_are_told(
    service: ScriptedService, zeus: Zeus, words: list[str], code: int, said: str
) -> None:
    told = zeus(*(each.replace("URL", service.url) for each in words))
    assert told.exit_code == code, told.err
    assert said in told.err
    assert "Traceback" not in told.err


def test_a_token_that_no_service_makes_is_refused_without_being_printed(
    zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZEUS_TOKEN", "a-tok\u00e9n-of-nobody")
    told = zeus("--remote", "http://127.0.0.1:9", "sessions", "list")
    assert (told.exit_code, "Traceback" in told.err) == (4, False)
    assert "characters that no token has" in told.err
    assert "of-nobody" not in told.err


def test_a_token_comes_from_a_file_and_a_missing_one_is_told(
    service: ScriptedService, zeus: Zeus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ZEUS_TOKEN")
    missing = zeus("--remote", service.url, "run", "hello")
    assert missing.exit_code == 4
    assert "ZEUS_TOKEN" in missing.err
    monkeypatch.setenv("ZEUS_TOKEN_FILE", str(tmp_path / "token"))
    assert zeus("--remote", service.url, "run", "hello").exit_code == 4
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert zeus("--remote", service.url, "run", "hello").exit_code == 0
    (tmp_path / "token").write_text("wrong")
    assert "unauthorized" in zeus("--remote", service.url, "run", "hello", "--output", "json").out


@pytest.mark.parametrize("source", ["environment", "file", "typed"])
def test_the_token_is_masked_wherever_it_is_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str
) -> None:
    """Only that of the environment was known."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("SHOP_PASSWORD=hunter2-hunter2\n")
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    if source != "environment":
        monkeypatch.delenv("ZEUS_TOKEN")
    if source == "file":
        monkeypatch.setenv("ZEUS_TOKEN_FILE", "token")
    monkeypatch.setattr("zeus_runtime.cli.remote.service.can_ask", lambda: True)
    monkeypatch.setattr("zeus_runtime.cli.remote.service.ask_secret", lambda _: f" {TOKEN} ")
    process = Process()
    assert token_of(process) == TOKEN
    assert process.redact(f"It is {TOKEN}.") == "It is <secret:ZEUS_TOKEN>."
    assert process.redact("Not hunter2-hunter2.") == "Not <secret:SHOP_PASSWORD>.", "what was known stays"


def test_ctrl_c_cancels_the_turn(service: ScriptedService, zeus: Zeus, tmp_path: Path) -> None:
    running = spawn(
        ["--remote", service.url, "run", "hang", "--output", "ndjson"], tmp_path, env=dict(os.environ)
    )
    assert running.stdout is not None
    assert any("Think" in line for line in running.stdout)
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=20)
    assert running.returncode == 130
    assert '"code": "cancelled"' in out
    state = zeus("--remote", service.url, "sessions", "list", "--json").json[0]["state"]
    assert state == "interrupted"


def test_a_user_at_a_terminal_decides_in_the_run(service: ScriptedService, tmp_path: Path) -> None:
    before = (service.folder / "effects.txt").read_text() if (service.folder / "effects.txt").exists() else ""
    with PseudoTerminal(["--remote", service.url, "run", "record it"], tmp_path) as terminal:
        terminal.until("approve record?")
        terminal.press('c {"text": "final"}\r')
        terminal.until("It said: The user changed the arguments")
        assert terminal.end() == 0
    assert (service.folder / "effects.txt").read_text() == before + "final\n"


async def test_a_decision_is_about_the_change_that_the_terminal_showed() -> None:
    """Somebody else may look at the call meanwhile, and see another change."""
    waiting = ServiceApproval("a1", "s", "write_file", {}, seen="digest", subagent="test/helper")
    decided: list[Any] = []
    asked: list[PendingApproval] = []

    class Client:
        async def approval(self, name: str) -> ServiceApproval:
            return waiting

        async def approvals(self) -> list[ServiceApproval]:
            return [waiting]

        async def decide(self, name: str, decision: str, **more: Any) -> None:
            decided.append((name, decision, more["seen"]))

    class Approving:
        async def ask(self, pending: PendingApproval) -> Decision:
            asked.append(pending)
            return Decision("approve")

    turn = RemoteTurn(cast(Any, Client()), "run", cast(Any, Approving()))
    await turn._ask("a1")
    assert await turn._decided()
    assert decided == [("a1", "approve", "digest")]
    assert "; the sub-agent test/helper calls it" in question_lines(asked[0])[0].text


class _WaitingCalls:
    """A service's client as far as calls are read that wait for a decision."""

    def __init__(self, *names: str) -> None:
        self.waiting = [ServiceApproval(name, "s", "t", {}) for name in names]

    async def approval(self, name: str) -> ServiceApproval:
        return next(each for each in self.waiting if each.id == name)

    async def approvals(self) -> list[ServiceApproval]:
        return self.waiting


async def test_a_refused_decision_keeps_the_service_from_no_other() -> None:
    decided: list[str] = []

    class Client(_WaitingCalls):
        async def decide(self, name: str, *_: Any, **__: Any) -> None:
            decided.append(name)
            if name == "a1":
                raise ServiceNotFoundError("somebody decided meanwhile")

    class Approving:
        async def ask(self, pending: PendingApproval) -> Decision:
            return Decision("approve")

    client = Client("a1", "a2", "a3")
    client.waiting[0] = replace(client.waiting[0], expires_ms=253_000_000_000_000)
    turn = RemoteTurn(cast(Any, client), "run", cast(Any, Approving()))
    for name in ("a1", "a2", "a3"):
        await turn._ask(name)
    with pytest.raises(ServiceNotFoundError, match="meanwhile"):
        await turn._decided()
    assert decided == ["a1", "a2", "a3"]


async def test_a_decision_is_sent_before_the_user_answers_the_next_question() -> None:
    sent, answered = asyncio.Event(), asyncio.Event()
    decided: list[str] = []

    class Client(_WaitingCalls):
        async def decide(self, name: str, *_: Any, **__: Any) -> None:
            decided.append(name)
            sent.set()

    class Thinking:
        async def ask(self, pending: PendingApproval) -> Decision | None:
            if pending.id == "a2":
                await answered.wait()
                return None
            return Decision("approve")

    turn = RemoteTurn(cast(Any, Client("a1", "a2")), "run", cast(Any, Thinking()))
    for name in ("a1", "a2"):
        await turn._ask(name)
    await asyncio.wait_for(sent.wait(), 10)
    assert decided == ["a1"]
    answered.set()
    assert not await turn._decided(), "the second call still waits"
    assert decided == ["a1"]


UNTOLD = {
    *("run_id", "digest", "workspace", "remembered_as", "decision", "decided_ms", "withdrawn"),
    *("written", "made_beside"),
}
"""Fields that a person who decides is not shown, and that the service keeps for itself."""


def test_a_terminal_elsewhere_shows_and_offers_what_one_beside_the_service_does() -> None:
    """Also each field that is added later."""
    given = PendingApproval(
        *("a1", "s", "r", "0", "d", "write_file", {"path": "a.md"}),
        call_id="c1",
        reason="the rule `ask: write_file`",
        schema={"type": "object"},
        may_remember=False,
        needs_person=True,
        on_timeout="approve",
        created_ms=1_000,
        expires_ms=2_000,
        shown="digest",
        outdated=True,
        preview=Preview(
            (Change("/a.md", "one\n", "two\n"),),
            stands_for=("path",),
            problem="there is a problem",
            facts=("memory of the project shop",),
        ),
        agent="lead/helper",
        session_agent="test",
        user="ann",
        project="argo",
        told={"path": "<not the secret:KEY>"},
        interrupted=True,
        begun_with=({"path": "b.md"},),
        facts=("of the MCP server acme/files",),
        approved_before=True,
        approved_with={"path": "c.md"},
    )
    told = waiting_call(given)
    here = pending_of(result_of(ServiceApproval, json.loads(json.dumps(told))))
    for each in fields(PendingApproval):
        if each.name not in UNTOLD:
            assert getattr(given, each.name) != each.default, (
                f"give {each.name} a value, so that its loss is seen"
            )
            assert getattr(here, each.name) == getattr(given, each.name), each.name
    for each in fields(Preview):
        assert getattr(given.preview, each.name) != each.default, f"give {each.name} a value"
    for whole in (True, False):
        there, here_too = ([line.text for line in question_lines(one, whole=whole)] for one in (given, here))
        assert here_too == there


COMMANDS = '''
from pathlib import Path
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool

@tool(access="write", commands=["command"])
async def runner(command: str) -> str:
    """Run a command.

    Args:
        command: the line.
    """
    Path("ran.txt").write_text(command)
    return "ran"

@hookimpl
def register_tools():
    return [Component("runner", create=lambda options, context: [runner])]
'''


def test_yes_leaves_to_a_person_elsewhere_what_only_a_person_may_approve(zeus: Zeus, tmp_path: Path) -> None:
    service = ScriptedService(tmp_path)
    (tmp_path / "commands.py").write_text(COMMANDS)
    model, config = tmp_path / "slow.py", tmp_path / "zeus.yaml"
    call = '"name": "record", "args": {"text": "draft"}'
    text = model.read_text()
    assert call in text
    model.write_text(text.replace(call, '"name": "runner", "args": {"command": "env rm x"}'))
    approve = "middlewares:\n  - approve: {deny: [{runner: {command: 'rm *'}}]}\n"
    text = (
        config.read_text().replace("slow.py]", "slow.py, commands.py]").replace("[probe]", "[probe, runner]")
    )
    config.write_text(text.replace("middlewares: [approve]\n", approve))
    service.start()
    try:
        ran = zeus("--remote", service.url, "run", "record it", "--yes")
        assert ran.exit_code == 0, ran.err
        assert "runner was rejected because only a person may approve it" in ran.err
        assert not (tmp_path / "ran.txt").exists()
        with PseudoTerminal(["--remote", service.url, "run", "record it", "--yes"], tmp_path) as terminal:
            terminal.until("approve runner?")
            terminal.press("y\r")
            assert terminal.end() == 0
        assert (tmp_path / "ran.txt").read_text() == "env rm x"
    finally:
        service.kill()


def test_a_decision_elsewhere_is_about_the_change_that_was_shown(zeus: Zeus, tmp_path: Path) -> None:
    service = ScriptedService(tmp_path)
    model, config = tmp_path / "slow.py", tmp_path / "zeus.yaml"
    call = '"name": "record", "args": {"text": "draft"}'
    model.write_text(
        model.read_text().replace(
            call, '"name": "write_file", "args": {"path": "/a.md", "content": "new\\n"}'
        )
    )
    config.write_text(config.read_text().replace("[probe]", "[probe, filesystem]"))
    (tmp_path / "a.md").write_text("old\n")
    service.start()
    try:
        assert zeus("--remote", service.url, "run", "record it").exit_code == 7
        (waits,) = zeus("--remote", service.url, "approvals", "pending", "--json").json
        words = ("--remote", service.url, "approvals")
        shown = zeus(*words, "show", waits["id"])
        assert "- old" in shown.out
        sealed = re.search(r"decide (\S+@[0-9a-f]{16}) approve", shown.err)
        assert sealed is not None, shown.err
        (tmp_path / "a.md").write_text("newer\n")
        assert "- newer" in zeus(*words, "show", waits["id"]).out
        refused = zeus(*words, "decide", sealed[1], "approve")
        assert refused.exit_code == 2
        assert "another change now than the one that you saw" in refused.err
        always = zeus(*words, "decide", waits["id"], "reject", "--always")
        assert "`always` goes with an approval" in always.err
        (tmp_path / "a.md").write_text("old\n")
        zeus(*words, "show", waits["id"])
        assert zeus(*words, "decide", sealed[1], "approve").exit_code == 0
    finally:
        service.kill()


def test_a_call_whose_id_comes_again_is_shown_and_a_waiting_one_only_once() -> None:
    turn = RemoteTurn(cast(Any, None), "run", None)
    turn._asked["a1"] = cast(Any, None)  # something was asked, so the run may be resumed
    made, result = ToolCallStarted("0", "t", {}), ToolCallResult("0", "t", "done", False, 3)
    told = [made, made, result, made, result]
    assert [turn._is_repeated(each) for each in told] == [False, True, False, False, False]


def test_a_decision_of_this_terminal_is_not_told_as_a_former_one() -> None:
    turn = RemoteTurn(cast(Any, None), "run", None)
    turn._asked["a1"] = cast(Any, None)
    own, other = (
        ApprovalDecided(name, "s", "c", "t", {}, "approve", "user", former=True) for name in ("a1", "a2")
    )
    assert [turn._as_here(each) for each in (own, other)] == [replace(own, former=False), other]


DELEGATING = """
        if "SUBTASK" in prompt or "delegate" in prompt:
            text, calls = "", []
            tool, args = ("record", {"text": "of the helper"}) if "SUBTASK" in prompt else (
                "task", {"agent": "helper", "description": "d", "prompt": "SUBTASK"}
            )
            if last.type == "tool":
                text = f"It said: {last.content}"
            else:
                calls = [{"name": tool, "args": args, "id": "c1", "type": "tool_call"}]
"""


def test_a_terminal_elsewhere_asks_about_the_calls_of_sub_agents(zeus: Zeus, tmp_path: Path) -> None:
    service = ScriptedService(tmp_path)
    model, config = tmp_path / "slow.py", tmp_path / "zeus.yaml"
    place = '        if "hang" in prompt:'
    text = model.read_text()
    assert place in text
    model.write_text(text.replace(place, DELEGATING.removeprefix("\n") + place))
    helper = "{description: Helps., overrides: {tools: [probe], middlewares: [approve]}}"
    config.write_text(
        config.read_text()
        .replace("[probe]", "[probe, subagents]")
        .replace("middlewares: [approve]\n", "middlewares: [{approve: {allow: [task]}}]\n")
        + f"agents:\n  helper: {helper}\n"
    )
    service.start()
    try:
        with PseudoTerminal(["--remote", service.url, "run", "delegate"], tmp_path) as terminal:
            terminal.until("approve record?")
            assert "the sub-agent test/helper calls it" in terminal.screen
            assert "of the helper" in terminal.screen
            terminal.press("y\r")
            terminal.until("It said:")
            assert terminal.end() == 0
        shown = terminal.screen
        assert (shown.count("helper → record"), shown.count("→ task("), "needs approval" in shown) == (
            1,
            1,
            False,
        )
        assert "decide with" not in shown
        assert "approval_needed" not in shown
        assert (tmp_path / "effects.txt").read_text() == "of the helper\n"
        # Without a terminal it waits, and the lines are those of `zeus run`.
        waits = zeus("--remote", service.url, "run", "delegate")
        assert (waits.exit_code, "? test/helper → record needs approval" in waits.err) == (7, True)
        assert "1 call waits for approval: test/helper → record (" in waits.err
        assert "in a service with `zeus --remote URL approvals decide ID approve`" in waits.err
        listed = zeus("--remote", service.url, "approvals", "pending")
        assert "test/helper → record(" in listed.out
    finally:
        service.kill()


class _Turn(_WaitingCalls):
    """A service's client with one turn: ``tell`` adds events, ``then`` has those of decisions by calls' ids."""

    def __init__(self, *names: str) -> None:
        super().__init__(*names)
        self.decided: list[tuple[str, str]] = []
        self.then: dict[str, Sequence[Any]] = {}
        self._came: asyncio.Queue[ServiceEvent] = asyncio.Queue()

    def tell(self, *events: Any) -> None:
        for each in events:
            self._came.put_nowait(ServiceEvent(1, type(each).type, each, each.to_wire()))

    def end(self, name: str) -> None:
        self.waiting = [each for each in self.waiting if each.id != name]

    async def approval(self, name: str) -> ServiceApproval:
        for each in self.waiting:
            if each.id == name:
                return each
        raise ServiceNotFoundError(f"no call with the id {name!r} waits for a decision")

    async def decide(self, name: str, decision: str, **_: Any) -> None:
        await self.approval(name)
        self.end(name)
        self.decided.append((name, decision))
        self.tell(*self.then.get(name, ()))

    async def events(self, **_: Any) -> AsyncGenerator[ServiceEvent, None]:
        while True:
            event = await self._came.get()
            yield event
            if event.ends:
                return


class _Shown:
    """A view that remembers events."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.decided = asyncio.Event()

    def show(self, event: Any) -> None:
        self.events.append(event)
        if isinstance(event, ApprovalDecided):
            self.decided.set()

    def close(self) -> None:
        return


def _requested(name: str) -> ApprovalRequested:
    return ApprovalRequested(name, "s", f"c-{name}", "t", {})


def _said(name: str, answer: str, by: str) -> ApprovalDecided:
    return ApprovalDecided(name, "s", f"c-{name}", "t", {}, answer, by)


_STARTED = RunStarted("s", "m", "write")
_DONE = RunCompleted("s", "done", 1)
_ELSEWHERE = "t (a1) was decided elsewhere"


@pytest.mark.parametrize("by", ["user", "timeout"])
async def test_a_question_that_is_over_is_taken_back_and_says_what_was_decided(by: str) -> None:
    client, view, typing = _Turn("a1"), _Shown(), asyncio.Event()

    async def read(_: str) -> str | None:
        typing.set()
        await asyncio.Event().wait()
        return "y"

    turn = RemoteTurn(cast(Any, client), "run", TerminalApprovals(read))
    client.tell(_STARTED, _requested("a1"))
    shown = asyncio.create_task(turn.shown(cast(Any, view)))
    await asyncio.wait_for(typing.wait(), 10)
    client.end("a1")
    client.tell(_said("a1", "reject", by))
    # The turn goes on, and the decision is told at once.
    await asyncio.wait_for(view.decided.wait(), 10)
    client.tell(_DONE)
    assert await asyncio.wait_for(shown, 2) == _DONE
    notices = [Notice("decided_elsewhere", f"{_ELSEWHERE}.")] if by == "user" else []
    assert view.events == [_STARTED, *notices, _said("a1", "reject", by), _DONE]
    assert client.decided == []


async def test_an_answer_that_comes_too_late_says_so_before_the_next_question() -> None:
    """Of two calls in one answer, nothing tells of the first decision before the second: the run still waits."""
    client, view, prompts = _Turn("a1", "a2"), _Shown(), list[int]()

    async def read(_: str) -> str | None:
        prompts.append(len(view.events))
        if len(prompts) == 1:
            client.end("a1")
        return "y"

    client.then["a2"] = (_said("a1", "reject", "user"), _said("a2", "approve", "user"), _DONE)

    client.tell(_STARTED, _requested("a1"), _requested("a2"))
    turn = RemoteTurn(cast(Any, client), "run", TerminalApprovals(read))
    assert await asyncio.wait_for(turn.shown(cast(Any, view)), 2) == _DONE
    told = Notice("decided_elsewhere", f"{_ELSEWHERE} first: this answer does not count.")
    assert view.events == [
        _STARTED,
        told,
        _said("a1", "reject", "user"),
        _said("a2", "approve", "user"),
        _DONE,
    ]
    assert prompts == [1, 2]
    assert client.decided == [("a2", "approve")]


async def test_an_answer_after_the_time_is_no_error_of_the_turn() -> None:
    client, view = _Turn("a1"), _Shown()
    client.waiting = [replace(client.waiting[0], expires_ms=1_000)]

    # The service has not decided it yet if the turn waits for another call too.
    async def refuse(*_: Any, **__: Any) -> None:
        client.tell(_said("a1", "approve", "timeout"), _DONE)
        raise ServiceRequestError("the time to decide a1 is over: it counts as approve")

    cast(Any, client).decide = refuse

    async def read(_: str) -> str | None:
        return "n stop"

    client.tell(_STARTED, _requested("a1"))
    turn = RemoteTurn(cast(Any, client), "run", TerminalApprovals(read))
    assert await asyncio.wait_for(turn.shown(cast(Any, view)), 2) == _DONE
    assert [each.code for each in view.events if isinstance(each, Notice)] == ["decided_elsewhere"]


async def test_an_answer_to_a_change_that_is_another_one_now_is_asked_for_again() -> None:
    client, view, prompts = _Turn("a1"), _Shown(), list[int]()
    client.waiting = [replace(client.waiting[0], seen="one")]
    decide = client.decide

    async def decided(name: str, answer: str, *, seen: str, **more: Any) -> None:
        if seen != client.waiting[0].seen:
            raise ServiceRequestError("a1 would make another change now than the one that you saw")
        await decide(name, answer, seen=seen, **more)

    cast(Any, client).decide = decided

    async def read(_: str) -> str | None:
        prompts.append(len(view.events))
        if len(prompts) == 1:
            client.waiting = [replace(client.waiting[0], seen="two")]
        return "y"

    client.then["a1"] = (_said("a1", "approve", "user"), _DONE)
    client.tell(_STARTED, _requested("a1"))
    turn = RemoteTurn(cast(Any, client), "run", TerminalApprovals(read))
    assert await asyncio.wait_for(turn.shown(cast(Any, view)), 2) == _DONE
    told = [each.message for each in view.events if isinstance(each, Notice)]
    assert told == [
        "t (a1) would make another change now than the one that you saw: this answer does not count."
    ]
    assert prompts == [1, 2]
    assert client.decided == [("a1", "approve")]


async def test_an_answer_that_is_not_sent_is_asked_for_again() -> None:
    client, view = _Turn("a1"), _Shown()
    answers = iter(("c {}", "y"))
    decide = client.decide

    async def decided(name: str, answer: str, *, changed: Any, **more: Any) -> None:
        if changed is not None:
            raise UsageError("a changed argument holds a secret", remedy="Write it without.")
        await decide(name, answer, **more)

    async def read(_: str) -> str | None:
        return next(answers)

    cast(Any, client).decide = decided
    client.waiting = [replace(client.waiting[0], may_change=True)]
    client.then["a1"] = (_said("a1", "approve", "user"), _DONE)
    client.tell(_STARTED, _requested("a1"))
    turn = RemoteTurn(cast(Any, client), "run", TerminalApprovals(read))
    assert await asyncio.wait_for(turn.shown(cast(Any, view)), 2) == _DONE
    told = [each.message for each in view.events if isinstance(each, Notice)]
    assert told == ["t (a1) stays open: a changed argument holds a secret. Write it without."]
    assert client.decided == [("a1", "approve")]


async def test_a_call_that_was_decided_before_its_question_came_is_not_asked_about() -> None:
    client, view = _Turn(), _Shown()

    async def read(_: str) -> str | None:
        raise AssertionError("nothing is asked")

    said = _said("a1", "approve", "user")
    client.tell(_STARTED, _requested("a1"), RunFailed("s", "approval_needed", "wait", 7), said, _DONE)
    turn = RemoteTurn(cast(Any, client), "run", TerminalApprovals(read))
    assert await asyncio.wait_for(turn.shown(cast(Any, view)), 2) == _DONE
    assert view.events == [_STARTED, _requested("a1"), said, _DONE]


async def test_each_call_that_the_turn_waits_for_is_asked_about() -> None:
    """Also one whose request no event told."""
    asked: list[str] = []
    first = ApprovalRequested("a1", "s", "c", "t", {})
    waits = RunFailed("s", "approval_needed", "wait", 7, {"pending": [{"id": "a1"}, {"id": "a2"}]})

    class Client(_WaitingCalls):
        async def events(self, **_: Any) -> AsyncGenerator[ServiceEvent, None]:
            for each in (first, waits):
                yield ServiceEvent(1, "another", each, each.to_wire())
            await asyncio.Event().wait()

    class Asking:
        async def ask(self, pending: PendingApproval) -> Decision | None:
            asked.append(pending.id)
            return None

    client = Client("a1", "a2")
    turn = RemoteTurn(cast(Any, client), "run", cast(Any, Asking()))
    told = [each async for each in turn._events()]
    assert [each.id for each in told if isinstance(each, ApprovalRequested)] == ["a1", "a2"]
    assert asked == ["a1", "a2"]
    assert told[-1] == waits
    nobody = RemoteTurn(cast(Any, client), "run", None)
    assert [each async for each in nobody._events()] == [first, waits]
