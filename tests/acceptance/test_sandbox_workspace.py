"""The sandbox on the workspace in a session of real processes, on both wires, killed in the middle of a program."""

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
from zeus_plugins.sandboxes.bubblewrap.cgroups import delegated_group, older_group

from tests.support.provider import Call, Provider, Received, Reply
from tests.support.shells import need_bubblewrap, processes_of

pytestmark = pytest.mark.xdist_group("sandbox")

MODELS = {"openai": "openai/acme-chat", "anthropic": "anthropic/claude-sonnet-4-5"}


def program(code: str, number: int) -> Call:
    return Call("execute_code", json.dumps({"code": code, "language": "shell"}), f"program_{number}")


@pytest.mark.parametrize("wire", sorted(MODELS))
def test_programs_work_on_the_workspace_through_a_kill(
    tmp_path: Path, wire: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_bubblewrap()
    if os.geteuid() == 0 and delegated_group() is None and older_group() is None:
        pytest.skip("no control group limits the processes of root here")
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(variable, "sk-acceptance-0123456789")
    mark = f"30{secrets.randbelow(10**9)}"
    (tmp_path / ".env").write_text("A=CONTENT\n")
    (tmp_path / "fixed").mkdir()
    (tmp_path / "fixed/a").write_text("fixed\n")
    replies = [
        Reply(calls=[program("echo one >> log.txt; echo own > /workspace/own; cat fixed/a .env", 1)]),
        Reply(calls=[program(f"test -e begun || {{ touch begun; sleep {mark}; }}; echo two >> log.txt", 2)]),
        Reply(calls=[program("cat log.txt /workspace/own; echo x > fixed/a", 3)]),
        Reply("All is done."),
    ]

    def answer(request: Received) -> Reply:
        return replies[sum(message["role"] == "assistant" for message in request.body["messages"])]

    with Provider(answer=answer) as provider:
        config = {
            "version": 1,
            "model": {
                "litellm": {
                    "model": MODELS[wire],
                    "api_base": provider.openai if wire == "openai" else provider.anthropic,
                }
            },
            "tools": [{"sandbox": {"workspace": "write"}}],
            "workspace": {"access": {"fixed/**": "read"}},
        }
        (tmp_path / "zeus.yaml").write_text(yaml.safe_dump(config))
        zeus = [sys.executable, "-m", "zeus_runtime", "run", "zeus.yaml"]
        killed = subprocess.Popen([*zeus, "go"], cwd=tmp_path, env={**os.environ, "ZEUS_TRUST": "all"})
        while not (tmp_path / "begun").exists():
            assert killed.poll() is None
            time.sleep(0.02)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        while processes_of(mark):  # the kernel ends them; the test's time limit is the limit
            time.sleep(0.02)
        resumed = subprocess.run(
            [*zeus, "--continue", "-q"],
            cwd=tmp_path,
            env={**os.environ, "ZEUS_TRUST": "all"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert resumed.returncode == 0, resumed.stderr
    assert "All is done." in resumed.stdout
    assert (tmp_path / "log.txt").read_text() == "one\ntwo\n", "what was done is not done again"
    assert (tmp_path / "fixed/a").read_text() == "fixed\n"
    sent = json.dumps(provider.requests[-1].body["messages"])
    assert "fixed" in sent
    assert "own" in sent
    assert "CONTENT" not in sent
    assert "Read-only file system" in sent
