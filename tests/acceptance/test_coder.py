"""The preset `coder` repairs a small repository: it edits, runs the tests, is killed, resumes, and ends green."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.support.provider import Call, Provider, Received, Reply
from tests.support.shells import need_bubblewrap, processes_of

pytestmark = pytest.mark.xdist_group("sandbox")

MODELS = {"openai": "openai/acme-chat", "anthropic": "anthropic/claude-sonnet-4-5"}
PROGRAM = "def mean(numbers):\n    return sum(numbers) / 2\n"
TESTS = """\
import unittest
from mean import mean

class Mean(unittest.TestCase):
    def test_three(self):
        self.assertEqual(mean([1, 2, 6]), 3)
    def test_none(self):
        self.assertEqual(mean([]), 0)
"""
RUN_TESTS = "python3 -m unittest 2>&1 | tail -n 20"
CODER = """
import asyncio, sys
from pathlib import Path
from zeus_runtime import Agent
from zeus_runtime.tools.approval import Decision

class User:
    async def ask(self, pending):
        with Path(sys.argv[1], "..", "asked.txt").open("a") as file:
            file.write(f"{pending.tool} {pending.arguments.get('command', '')}\\n")
        return Decision("approve")

async def main():
    folder = Path(sys.argv[1])
    async with Agent.from_config(directory=folder) as agent:
        session = await agent.latest_session()
        stream = agent.resume(session, approvals=User()) if session else agent.stream("Repair it", approvals=User())
        async for event in stream:
            last = event
        print(last.to_wire())

asyncio.run(main())
"""


def edit(old: str, new: str, number: int) -> Call:
    arguments = {"path": "/mean.py", "old": old, "new": new}
    return Call("edit_file", json.dumps(arguments), f"edit_{number}")


def run(command: str, number: int, **arguments: object) -> Call:
    return Call("run_command", json.dumps({"command": command, **arguments}), f"run_{number}")


@pytest.mark.parametrize("wire", sorted(MODELS))
def test_coder_repairs_a_repository_through_a_kill(
    tmp_path: Path, wire: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_bubblewrap()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-acceptance-0123456789")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-acceptance-0123456789")
    mark = f"30{secrets.randbelow(10**9)}"
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "mean.py").write_text(PROGRAM)
    (repository / "test_mean.py").write_text(TESTS)
    (repository / "AGENTS.md").write_text("Run the tests with unittest.\n")
    subprocess.run(["git", "init", "--quiet"], cwd=repository, check=True)
    replies = [
        Reply(calls=[edit("/ 2", "/ len(numbers)", 1)]),
        Reply(calls=[run(RUN_TESTS, 1), run(f"sleep {mark}", 2, background=True)]),
        Reply(calls=[edit("return", "return 0 if not numbers else", 2)]),
        Reply(calls=[run(RUN_TESTS, 3)]),
        Reply("The tests pass."),
    ]
    runtimes: list[subprocess.Popen[str]] = []

    def answer(request: Received) -> Reply:
        text = json.dumps(request.body["messages"])
        said = sum(message["role"] == "assistant" for message in request.body["messages"])
        if said == 2 and len(runtimes) == 1:
            assert "ZeroDivisionError" in text
            assert processes_of(mark)
            os.kill(runtimes[0].pid, signal.SIGKILL)
        return replies[said]

    with Provider(answer=answer) as provider:
        base = provider.openai if wire == "openai" else provider.anthropic
        config = {
            "version": 1,
            "extends": "coder",
            "model": {"litellm": {"model": MODELS[wire], "api_base": base}},
        }
        (repository / "zeus.yaml").write_text(yaml.safe_dump(config))
        words = [sys.executable, "-c", CODER, str(repository)]
        while not runtimes or runtimes[-1].returncode == -signal.SIGKILL:
            assert len(runtimes) < 2
            runtimes.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
            out, _ = runtimes[-1].communicate(timeout=120)
    assert [each.returncode for each in runtimes] == [-signal.SIGKILL, 0], out
    assert "The tests pass." in out
    assert (
        repository / "mean.py"
    ).read_text() == "def mean(numbers):\n    return 0 if not numbers else sum(numbers) / len(numbers)\n"
    last = json.dumps(provider.requests[-1].body["messages"][-1])
    assert "Ran 2 tests" in last
    assert "FAILED" not in last
    asked = (tmp_path / "asked.txt").read_text().splitlines()
    assert asked == [
        "edit_file ",
        f"run_command {RUN_TESTS}",
        f"run_command sleep {mark}",
        "edit_file ",
        f"run_command {RUN_TESTS}",
    ]
    assert "Run the tests with unittest." in json.dumps(provider.requests[0].body)
    while processes_of(mark):  # the kernel ends them; the test's time limit is the limit
        time.sleep(0.02)
