"""``zeus chat`` with its lines piped in."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest

from tests.cli.conftest import Project, Zeus
from tests.cli.pseudo_terminal import PseudoTerminal
from zeus_runtime.agent.agent import Agent
from zeus_runtime.cli.chat import Chat
from zeus_runtime.cli.options import ConfigArgs
from zeus_runtime.cli.process import Process
from zeus_runtime.cli.trusting import read_trusted
from zeus_runtime.errors import RunError


def sessions(zeus: Zeus) -> list[tuple[str, int]]:
    return [(each["title"], each["messages"]) for each in zeus("sessions", "list", "--json").json]


def test_lines_are_prompts_of_one_session(zeus: Zeus, project: Project) -> None:
    project.agent("first", "second")
    result = zeus("chat", "zeus.yaml", "--quiet", stdin="hello\n\nand you?\n")
    assert (result.exit_code, result.out, result.err) == (0, "first\nsecond\n", "")
    assert sessions(zeus) == [("hello", 4)]


def test_a_line_that_ends_with_a_backslash_goes_on(zeus: Zeus, project: Project) -> None:
    project.agent("one")
    zeus("chat", stdin="a\\\nb\\\nc\n")
    assert sessions(zeus) == [("a\nb\nc", 2)]


def test_new_begins_another_session_and_session_goes_back(zeus: Zeus, project: Project) -> None:
    project.agent("one", "two")
    zeus("chat", stdin="a\n/new\nb\n/exit\nnever read\n")
    assert sorted(sessions(zeus)) == [("a", 2), ("b", 2)]
    old = zeus("sessions", "list", "--json").json[1]["session"]
    result = zeus("chat", stdin=f"/session {old}\nc\n/session\n")
    assert "you: a" in result.err
    assert result.err.rstrip().endswith(old)
    assert sorted(sessions(zeus)) == [("a", 4), ("b", 2)]


def test_continue_goes_on_with_the_latest(zeus: Zeus, project: Project) -> None:
    project.agent("one", "two")
    zeus("chat", stdin="a\n")
    zeus("chat", "--continue", stdin="b\n")
    assert sessions(zeus) == [("a", 4)]
    assert zeus("chat", "--session", "session_000000000000", stdin="c\n").exit_code == 2


def test_a_session_of_a_services_user_is_refused_before_it_is_shown(zeus: Zeus, project: Project) -> None:
    project.agent("one", "two")
    zeus("chat", stdin="a secret of ann\n")
    (hers,) = zeus("sessions", "list", "--json").json
    with sqlite3.connect(project.folder / ".zeus/zeus.db") as database:
        database.execute("UPDATE thread SET owner = 'ann'")
    for words, lines in ((("--session", hers["session"]), "b\n"), ((), f"/session {hers['session']}\nb\n")):
        refused = zeus("chat", *words, stdin=lines)
        assert refused.exit_code == 2
        assert f"{hers['session']} is a session of ann, a user of `zeus serve`" in refused.err
        assert (refused.out, "a secret of ann" in refused.err) == ("", False)


def test_a_refused_attachment_is_refused_once(zeus: Zeus, project: Project) -> None:
    project.agent("one", "two")
    project.write("movie.bin", "\0\1")
    asked = zeus("chat", "--attach", "movie.bin", "--attach", "zeus.yaml", stdin="a\nb\n")
    assert (asked.exit_code, asked.out) == (2, ""), "piped prompts end with the first that fails"
    assert "not sent: movie.bin, zeus.yaml; /attach attaches a file again" in asked.err
    with PseudoTerminal(["chat", "--attach", "movie.bin"], project.folder) as terminal:
        terminal.until("> ")
        terminal.press("a\r")
        terminal.until("attaches a file again")
        terminal.press("b\r")
        terminal.until("one")
        terminal.press("/exit\r")
        terminal.end()
    assert sessions(zeus) == [("b", 2)]


def test_an_agent_that_cannot_be_closed_is_not_asked_again(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project.agent("one", "two")
    close, closed = Agent.aclose, list[Agent]()

    async def fails_once(self: Agent) -> None:
        closed.append(self)
        await close(self)
        if len(closed) == 1:
            raise RunError("the disk is on fire")

    monkeypatch.setattr(Agent, "aclose", fails_once)
    checked = read_trusted(Process(), ConfigArgs("zeus.yaml", None, ()))
    with asyncio.Runner() as runner:
        chat = Chat(checked, runner, mode=None, quiet=True)
        codes = [chat.take(line) for line in ("a", "/mode ask", "b")]
        chat.close()
    assert codes == [0, 1, 0]
    assert capsys.readouterr().err.endswith("the disk is on fire\n")
    assert [each.plan.mode for each in closed] == ["agent", "ask"]
    assert sessions(zeus) == [("a", 4)]


def test_the_mode_changes_and_the_session_stays(zeus: Zeus, project: Project) -> None:
    call = {"call": "shout", "args": {"text": "hey"}}
    project.agent("one", call, "two", call, "three")
    result = zeus("chat", stdin="a\n/mode ask\nb\n/mode\n/mode agent\nc\n/mode chef\n")
    assert result.exit_code == 0
    assert "shout cannot be called in ask mode" in result.err
    assert "← shout: HEY (+1 lines)" in result.err
    assert "there is no mode 'chef'" in result.err
    assert len(sessions(zeus)) == 1


def test_a_session_in_memory_does_not_outlive_a_change_of_mode(zeus: Zeus, project: Project) -> None:
    project.agent("one", "two", more="storage: {url: 'sqlite://'}\ncheckpointer: memory\n")
    result = zeus("chat", stdin="a\n/mode ask\nb\n")
    assert (result.exit_code, result.out) == (0, "one\none\n")
    assert "the session was in memory only" in result.err


def test_resume_takes_up_the_interrupted_run(zeus: Zeus, project: Project) -> None:
    project.agent({"call": "echo", "args": {"text": "ahoy"}}, "done")
    assert zeus("run", "zeus.yaml", "go", "--max-steps", "1").exit_code == 6
    result = zeus("chat", "--continue", stdin="/resume\n")
    assert (result.exit_code, result.out) == (0, "done\n")
    assert "no session yet" in zeus("chat", stdin="/resume\n").err


def test_commands_explain_themselves(zeus: Zeus, project: Project) -> None:
    project.agent("one")
    result = zeus("chat", stdin="/help\n/tools\n/sessions\n/hepl\n//not a command\n")
    for word in ("/mode", "/resume", "echo", "shout", "no session yet"):
        assert word in result.err
    assert "there is no /hepl; did you mean '/help'?" in result.err
    assert sessions(zeus) == [("/not a command", 2)]


def test_a_failed_run_ends_a_piped_conversation_with_its_exit_code(zeus: Zeus, project: Project) -> None:
    project.agent({"raise": "auth"})
    result = zeus("chat", stdin="a\nb\n")
    assert result.exit_code == 4
    assert sessions(zeus)[0][0] == "a"
    assert len(sessions(zeus)) == 1


def test_an_error_of_a_command_does_not_end_a_traceback(zeus: Zeus, project: Project) -> None:
    project.agent("one")
    result = zeus("chat", stdin="/session session_000000000000\n")
    assert result.exit_code == 2
    assert "there is no session" in result.err
    assert "Traceback" not in result.err


def test_a_conversation_has_no_json_and_no_cassette(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.agent("one")
    monkeypatch.setattr("zeus_runtime.cli.run.is_terminal", lambda _stream: True)
    for words in (["-o", "json"], ["--record", "tape.jsonl"]):
        result = zeus("run", "zeus.yaml", *words, stdin="a\n")
        assert result.exit_code == 2
        assert "need a prompt" in result.err


def test_the_config_of_a_conversation_is_a_file(zeus: Zeus, project: Project) -> None:
    assert zeus("chat", "-", stdin="a\n").exit_code == 2
