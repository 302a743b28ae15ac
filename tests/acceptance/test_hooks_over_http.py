"""Hooks in real processes, on both wires, with a kill between a hook and its call."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.acceptance.test_run_over_http import VARIABLES, configured, finished, only, write
from tests.cli.conftest import Project, Zeus, spawn
from tests.support.provider import Call, Provider, Reply

pytestmark = pytest.mark.xdist_group("litellm")

TOOLS = '''
import os, signal
from pathlib import Path
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool

@tool(access="write")
async def deploy(place: str) -> str:
    """Deploy.

    Args:
        place: where to.
    """
    with Path("deployed.txt").open("a") as file:
        file.write(place + "\\n")
    if Path("deployed.txt").read_text().count("\\n") == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"deployed to {place}"

@hookimpl
def register_tools():
    return [Component("deploying", create=lambda options, context: [deploy])]
'''
CHECK = """
import json, os, sys
call = json.load(sys.stdin)
with open("started.txt", "a") as file:
    file.write(call["event"] + " " + call.get("call", "") + "\\n")
if call["event"] == "before_model_call":
    print(json.dumps({"context": "Be brief."}))
elif call["event"] == "after_tool_call":
    print(json.dumps({"result": call["result"]["content"] + ", and checked"}))
elif call["arguments"].get("path"):
    print(json.dumps({"decision": "deny", "reason": "src is frozen"}))
else:
    # Another answer each time: a resume must not ask again.
    print(json.dumps({"arguments": {"place": f"staging {os.getpid()}"}, "context": "Only staging is open."}))
"""


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES.values():
        monkeypatch.setenv(variable, "sk-acceptance-0123456789")


def hooked(project: Project, provider: Provider, kind: str, wire: str) -> None:
    frozen = {"match": {"tool": "write_file", "path": "src/**"}, "command": ["python3", "check.py"]}
    deploys = {"match": {"tool": "deploy"}, "command": ["python3", "check.py"]}
    brief = {"command": ["python3", "check.py"]}
    hooks = {
        "before_model_call": [brief],
        "before_tool_call": [frozen, deploys],
        "after_tool_call": [deploys],
    }
    more: dict[str, Any] = {
        "tools": ["filesystem", "deploying"],
        "plugins": {"files": ["deploying.py"]},
        "middlewares": [{"hooks": hooks}],
    }
    configured(project, provider, kind, json.dumps(more), wire=wire)
    project.write("deploying.py", TOOLS)
    project.write("check.py", CHECK)


def sent_results(body: dict[str, Any]) -> str:
    """The messages of a request, as text."""
    return json.dumps(body["messages"])


@pytest.mark.parametrize(("kind", "wire"), [("openai", "native"), ("anthropic", "litellm")])
def test_a_completed_hook_is_not_started_again_after_a_kill_and_its_decision_holds(
    project: Project, zeus: Zeus, kind: str, wire: str
) -> None:
    calls = [
        write("/src/a.py", "x", "a"),
        Call("deploy", json.dumps({"place": "production"}), "b"),
    ]
    with Provider(Reply("I deploy.", calls=calls)) as provider:
        hooked(project, provider, kind, wire)
        killed = finished(spawn(["run", "zeus.yaml", "Deploy it", "-o", "ndjson"], project.folder))
        assert killed.exit_code == -signal.SIGKILL
    first = (project.folder / "started.txt").read_text().splitlines()
    assert "before_tool_call b" in first
    (place,) = (project.folder / "deployed.txt").read_text().splitlines()

    with Provider(Reply("Done.")) as provider:
        hooked(project, provider, kind, wire)
        resumed = zeus("run", "zeus.yaml", "--continue", "-o", "ndjson")
        assert resumed.exit_code == 0, resumed.err
        (last,) = (received.body for received in provider.requests)
    began = (project.folder / "started.txt").read_text().splitlines()
    assert began.count("before_tool_call b") == 1
    assert began.count("after_tool_call b") == 1
    assert (project.folder / "deployed.txt").read_text().splitlines() == [place, place]
    assert began.count("before_model_call ") == 2
    told = sent_results(last)
    assert last["messages"][-1]["role"] == "user"
    assert "A hook of the config adds: Be brief." in json.dumps(last["messages"][-1])
    assert f"deployed to {place}, and checked" in told
    assert "A hook of the config changed the arguments of this call to: " in told
    assert "A hook of the config adds: Only staging is open." in told
    assert "write_file was not run: a hook of the config denied this call (src is frozen)" in told
    assert not (project.folder / "work/src").exists()
    codes = [each["code"] for each in only(resumed.lines, "notice")]
    assert codes.count("hook_changed") == 2
