"""Ctrl-C, SIGTERM and readers that go away, in processes of their own."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest

from tests.cli.conftest import Project, Result, spawn

CALL = {"call": "echo", "args": {"text": "ahoy"}}


def started(process: subprocess.Popen[str], event: str) -> list[dict[str, object]]:
    """The events up to the first of a type."""
    assert process.stdout is not None
    seen: list[dict[str, object]] = []
    for line in process.stdout:
        seen.append(json.loads(line))
        if seen[-1]["type"] == event:
            return seen
    raise AssertionError(f"no {event} came: {seen} {process.stderr and process.stderr.read()}")


def ended(process: subprocess.Popen[str]) -> Result:
    out, err = process.communicate(timeout=60)
    return Result(process.returncode, out, err)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_stream_with_its_terminal_event(project: Project, number: signal.Signals) -> None:
    project.agent(CALL, {"hang": "thinking"})
    process = spawn(["run", "zeus.yaml", "go", "-o", "ndjson"], project.folder)
    started(process, "text")
    process.send_signal(number)
    result = ended(process)
    assert result.exit_code == 130
    assert [event["type"] for event in result.lines] == ["model_call_ended", "error"]
    assert [event.get("error", event.get("code")) for event in result.lines] == ["cancelled", "cancelled"]
    assert "Traceback" not in result.err


def test_an_interrupted_run_says_how_to_go_on_and_does(project: Project) -> None:
    project.agent(CALL, {"hang": "thinking"})
    process = spawn(["run", "zeus.yaml", "go"], project.folder)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("← echo"):
            break
    process.send_signal(signal.SIGINT)
    result = ended(process)
    assert result.exit_code == 130
    assert "continue with: zeus run zeus.yaml --continue" in result.err

    project.agent(CALL, "at last")
    again = ended(spawn(["run", "zeus.yaml", "--continue", "-o", "ndjson"], project.folder))
    assert again.exit_code == 0
    assert again.lines[0]["resumed"] is True
    assert not any(event["type"] == "tool_call" for event in again.lines), "the finished call was repeated"
    assert again.lines[-1]["answer"] == "at last"


def test_a_second_signal_kills(project: Project) -> None:
    project.agent({"call": "stubborn", "args": {}}, "done", more="")
    plugin = (project.folder / "scripted.py").read_text()
    stubborn = '''
@tool(access="read")
async def stubborn() -> str:
    """Does not stop when told to."""
    import asyncio
    try:
        print("begun", flush=True)
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        print("told", flush=True)
        await asyncio.Event().wait()
    return ""
'''
    plugin = plugin.replace("\n@hookimpl\ndef register_models", stubborn + "\n@hookimpl\ndef register_models")
    (project.folder / "scripted.py").write_text(plugin.replace("[echo, shout]", "[echo, shout, stubborn]"))
    process = spawn(["run", "zeus.yaml", "go", "-o", "ndjson"], project.folder)
    assert process.stdout is not None
    for line in process.stdout:
        if line == "begun\n":  # among the events: the command prints them meanwhile
            break
    process.send_signal(signal.SIGINT)
    for line in process.stdout:
        if line == "told\n":
            break
    process.send_signal(signal.SIGINT)
    result = ended(process)
    assert result.exit_code == -signal.SIGINT
    assert "killed" in result.err


def test_a_reader_that_goes_away_ends_the_command_quietly(project: Project) -> None:
    project.agent(CALL, {"hang": "thinking"})
    process = spawn(["run", "zeus.yaml", "go", "-o", "ndjson"], project.folder)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    assert process.wait(timeout=60) == 141
    assert err == ""


def test_a_list_into_a_closed_pipe_is_no_error(project: Project) -> None:
    process = spawn(["models", "list"], project.folder)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("MODEL")
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    assert process.wait(timeout=60) in (0, 141)
    assert err == ""
