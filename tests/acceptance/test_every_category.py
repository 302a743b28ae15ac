"""One session that uses every category of tools, killed twice and taken up, and decided by a person at its end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support import forked, mcp_server

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")

STEPS: Sequence[tuple[str, dict[str, Any]]] = (
    ("load_skill", {"name": "naming"}),
    ("small__say", {"text": "hello"}),
    ("task", {"description": "a look", "prompt": "Look.", "agent": "helper"}),
    ("execute_code", {"code": "print(6 * 7)"}),
    ("search_knowledge_base", {"query": "When does the library open?"}),
    ("record", {"text": "it opens at nine"}),
)

PLUGIN = '''
"""A model that calls one tool after another, and a tool that leaves a trace."""
import json
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.model import ModelResponse
from zeus_runtime.plugin.tool import tool

STEPS = json.loads({steps!r})


class Scripted:
    name = "scripted"

    async def stream(self, request):
        from langchain_core.messages import AIMessage

        said = sum(message.type == "ai" for message in request.messages)
        asked = next(str(each.content) for each in request.messages if each.type == "human")
        if asked == "Look.":
            yield ModelResponse(AIMessage("I looked."))
        elif said < len(STEPS):
            name, arguments = STEPS[said]
            call = dict(name=name, args=arguments, id=f"call_{{said}}", type="tool_call")
            yield ModelResponse(AIMessage("", tool_calls=[call]))
        else:
            yield ModelResponse(AIMessage("All done."))


@tool(access="write")
async def record(text: str) -> str:
    """Leave a trace.

    Args:
        text: of the trace.
    """
    with open("traces.txt", "a") as file:
        file.write(text + "\\n")
    return "recorded"


@hookimpl
def register_models():
    return [Component("scripted", create=lambda options, context: Scripted())]


@hookimpl
def register_tools():
    return [Component("traces", create=lambda options, context: [record])]
'''

CONFIG = """
version: 1
name: everything
model: {{scripted: {{}}}}
plugins: {{files: [parts.py]}}
tools: [traces, subagents, sandbox, knowledge]
mcpServers:
  small: {{command: {python}, args: [{server}], access: {{say: read}}, start_timeout_seconds: 60}}
agents:
  helper: {{description: Looks.}}
knowledge: [opening]
memory: {{embeddings: static}}
middlewares:
  - skills: {{trust_project: true}}
  - approve: {{mode: run_everything, ask: [record]}}
"""


def zeus(folder: Path, *words: str) -> subprocess.Popen[str]:
    environ = {
        name: value
        for name, value in os.environ.items()
        if name == "ZEUS_TRUST" or not name.startswith("ZEUS_")
    }
    return forked.Forked(
        [sys.executable, "-m", "zeus_runtime", *words],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def events(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


def killed_after(process: subprocess.Popen[str], tool: str) -> list[dict[str, Any]]:
    """What a run told until the result of ``tool``, at which it was killed."""
    told = []
    for event in events(process):
        told.append(event)
        if event["type"] == "tool_call_result" and event["tool_name"] == tool:
            os.kill(process.pid, signal.SIGKILL)
            break
    assert process.wait() == -signal.SIGKILL, process.communicate()
    return told


def ended(process: subprocess.Popen[str]) -> tuple[int, list[dict[str, Any]]]:
    told = list(events(process))
    return process.wait(), told


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    skill = tmp_path / ".agents/skills/naming"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(
        "---\nname: naming\ndescription: How things are named here.\n---\nUse nouns.\n"
    )
    (tmp_path / "opening.md").write_text("# Library\n\nThe library opens at nine in the morning.\n")
    (tmp_path / "parts.py").write_text(PLUGIN.format(steps=json.dumps(STEPS)))
    server = json.dumps(str(Path(mcp_server.__file__)))
    config = CONFIG.format(python=json.dumps(sys.executable), server=server)
    (tmp_path / "zeus.yaml").write_text(config)
    done = zeus(tmp_path, "kb", "add", "opening", "opening.md")
    _, said = done.communicate()
    assert done.returncode == 0, said
    return tmp_path


def test_a_run_through_every_category_is_killed_twice_and_ends_as_if_it_had_not_been(folder: Path) -> None:
    first = killed_after(zeus(folder, "run", "-p", "Do it all.", "-o", "ndjson"), "small__say")
    session = next(each["session"] for each in first if each["type"] == "run_started")
    killed_after(zeus(folder, "resume", session, "-o", "ndjson"), "execute_code")
    code, told = ended(zeus(folder, "resume", session, "-o", "ndjson"))
    assert (code, told[-1]["type"], told[-1]["code"]) == (7, "error", "approval_needed")
    (pending,) = told[-1]["details"]["pending"]
    assert (pending["tool_name"], pending["parameters"]) == ("record", {"text": "it opens at nine"})
    assert not (folder / "traces.txt").exists()

    code, told = ended(
        zeus(folder, "resume", session, "--decide", f"{pending['id']}=approve", "-o", "ndjson")
    )
    assert (code, told[-1]["type"], told[-1]["answer"]) == (0, "complete", "All done.")
    assert (folder / "traces.txt").read_text() == "it opens at nine\n"

    shown = zeus(folder, "sessions", "export", session, "--format", "json")
    out, err = shown.communicate()
    assert shown.returncode == 0, err
    results = {each["tool_call_id"]: each["content"] for each in messages(out) if each["role"] == "tool"}
    assert "Use nouns." in results["call_0"]
    assert results["call_1"] == "said: hello"
    assert results["call_2"].startswith("I looked.")
    assert "42" in results["call_3"]
    assert "opens at nine" in results["call_4"]
    assert results["call_5"] == "recorded"


def messages(exported: str) -> list[dict[str, Any]]:
    return [each["payload"] for each in json.loads(exported)["messages"]]
