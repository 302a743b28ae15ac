"""The first hour of a new user, on a terminal with a provider on the loopback."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.cli.conftest import command
from tests.cli.pseudo_terminal import PseudoTerminal
from tests.support import forked
from tests.support.provider import Call, Provider, Received, Reply

SCRIPT = "#!/bin/sh\necho hello\n: '\x1b]0;'\nrm -rf build\n: '\x07'\n"
NOTES = "milk\neggs </stdin>\n"


def answered(request: Received) -> Reply:
    """What a model would say to each of the user's messages."""
    last = request.body["messages"][-1]
    said = json.dumps(last["content"])
    if last["role"] == "tool":
        return Reply("I wrote it.")
    if "write" in said:
        return Reply(calls=[Call("write_file", json.dumps({"path": "run.sh", "content": SCRIPT}))])
    if "<stdin>" in said:
        return Reply("You need milk and eggs.")
    if "again" in said:
        return Reply("We wrote run.sh.")
    return Reply("I can read and write **files**.")


def test_init_a_question_a_pipe_an_approval_and_going_on(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("Scripts are for a POSIX shell.\n")
    with Provider(answer=answered) as provider:
        home = {
            "HOME": str(tmp_path / "home"),
            "OPENAI_API_KEY": "sk-x",
            "OPENAI_API_BASE": provider.openai,
        }
        with PseudoTerminal(["init", "--yes", "--model", "openai/gpt-5.2"], folder, home) as terminal:
            assert terminal.end() == 0
        assert "\nextends: default\n" in (folder / "zeus.yaml").read_text()

        with PseudoTerminal(["run", "What can you do?"], folder, home) as terminal:
            assert terminal.end() == 0
            assert "I can read and write files." in terminal.screen
        asked = provider.requests[-1].body
        assert "Scripts are for a POSIX shell." in asked["messages"][0]["content"]
        assert "task" in {each["function"]["name"] for each in asked["tools"]}

        piped = forked.run(
            command("run", "What do I need?"),
            cwd=folder,
            input=NOTES,
            capture_output=True,
            text=True,
            env={**os.environ, **home},
        )
        assert (piped.returncode, piped.stdout) == (0, "You need milk and eggs.\n"), piped.stderr
        (sent,) = [each for each in provider.requests if "What do I need?" in json.dumps(each.body)]
        assert "<stdin>\nmilk\neggs &lt;/stdin>\n</stdin>" in sent.body["messages"][-1]["content"]

        with PseudoTerminal(["run", "Please write a script"], folder, home) as terminal:
            question = terminal.until("approve write_file? ")
            assert "/run.sh: new file, 5 lines" in question
            for line in ("echo hello", ": '\\x1b]0;'", "rm -rf build", ": '\\x07'"):
                assert f"    + {line}\n" in question
            assert not (folder / "run.sh").exists()
            terminal.press("y\r")
            assert terminal.end() == 0
            assert "I wrote it." in terminal.screen
        assert (folder / "run.sh").read_text() == SCRIPT

        (folder / "run.sh").unlink()
        unasked = forked.run(
            command("run", "Please write a script"),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**os.environ, **home},
        )
        assert (unasked.returncode, unasked.stdout) == (7, "")
        assert not (folder / "run.sh").exists()
        freely = forked.run(
            command("run", "--yes", "Please write a script"),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**os.environ, **home},
        )
        assert (freely.returncode, freely.stdout) == (0, "I wrote it.\n"), freely.stderr
        assert (folder / "run.sh").read_text() == SCRIPT

        with PseudoTerminal(["run", "--continue", "-p", "Say again, please"], folder, home) as terminal:
            assert terminal.end() == 0
            assert "We wrote run.sh." in terminal.screen
        assert "Please write a script" in json.dumps(provider.requests[-1].body)

        with PseudoTerminal(["chat", "Hello"], folder, home) as terminal:
            terminal.until("I can read and write files.")
            terminal.until("agent> ")
            terminal.press("\x1b[200~one\ntwo\nthree\x1b[201~\r")
            terminal.until("I can read and write files.")
            terminal.until("agent> ")
            terminal.press("/exit\r")
            assert terminal.end() == 0
        asked = provider.requests[-1].body["messages"]
        assert [each["content"] for each in asked if each["role"] == "user"] == ["Hello", "one\ntwo\nthree"]
