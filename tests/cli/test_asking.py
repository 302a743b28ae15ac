"""Short questions cannot control the terminal."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import click
import pytest

import zeus_runtime
from tests.cli.conftest import Project
from tests.cli.pseudo_terminal import PseudoTerminal
from zeus_runtime.cli import asking
from zeus_runtime.errors import UsageError

ROOT = Path(zeus_runtime.__file__).parent
HOSTILE = "a\u202ebc\x1b[31mX\u200by"
SHOWN = "a\\u202ebc\\x1b[31mX\\u200by"
ASKS = {"prompt", "confirm", "getchar", "pause", "confirmation_option", "password_option"}


def test_a_folders_name_is_shown_with_escapes_and_taken_as_it_is(project: Project) -> None:
    folder = project.folder / HOSTILE
    folder.mkdir()
    with PseudoTerminal(["init", "--model", "gpt-4o", "--preset", "default"], folder) as terminal:
        terminal.until(f"Name of the agent [{SHOWN}]: ")
        terminal.press("\r")
        terminal.end()
        assert "\u202e" not in terminal.raw
        assert "\x1b[31m" not in terminal.raw


def test_presets_that_cannot_be_typed_are_not_offered(project: Project) -> None:
    for name in ("bare", HOSTILE):
        project.write(f".zeus/configs/{name}.yaml", "version: 1\n")
    with PseudoTerminal(["init", "--name", "n", "--model", "gpt-4o"], project.folder) as terminal:
        offered = terminal.until("]: ")
        assert "bare" in offered
        assert "\u202e" not in terminal.raw
        terminal.press("\x04")


def test_a_name_is_confirmed_with_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    def typed(text: str, **_: object) -> str:
        shown.append(text)
        return "n"

    monkeypatch.setattr(asking, "typed_line", typed)
    monkeypatch.setattr(asking, "can_ask", lambda: True)
    with pytest.raises(click.Abort):
        asking.agree(f"Undo {HOSTILE}?", unasked="nothing is undone")
    assert shown == [f"Undo {SHOWN}? [y/N]: "]


@pytest.mark.parametrize(("sees", "answers"), [(False, True), (True, False), (False, False), (True, True)])
def test_an_answer_counts_only_of_a_person_who_sees_the_question(
    monkeypatch: pytest.MonkeyPatch, *, sees: bool, answers: bool
) -> None:
    monkeypatch.setattr(asking, "typed_line", lambda *_, **__: "y")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: answers, raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: sees, raising=False)
    if sees and answers:
        asking.agree("Delete it?", unasked="nothing is deleted unasked")
        return
    with pytest.raises(UsageError, match="nothing is deleted unasked") as refused:
        asking.agree("Delete it?", unasked="nothing is deleted unasked")
    assert refused.value.remedy == "Say --yes."


def test_no_module_that_asks_looks_at_standard_input_alone() -> None:
    asking_ones = [path for path in ROOT.rglob("*.py") if "cli.asking import" in path.read_text()]
    assert [path.name for path in asking_ones if "is_terminal(sys.stdin)" in path.read_text()] == []
    assert len(asking_ones) > 8


def test_only_one_module_reads_what_a_person_types() -> None:
    """Anything else reads lines that the terminal makes, which cuts them at 4,095 bytes."""
    found = {path.relative_to(ROOT).as_posix(): reading(path) for path in ROOT.rglob("*.py")}
    assert {name: calls for name, calls in found.items() if calls} == {
        "cli/typed_lines.py": {"getpass", "sys.stdin.readline"},
        "cli/prompt_input.py": {"input", "sys.stdin.readline"},
    }


def reading(path: Path) -> set[str]:
    """The calls of a module that read a line from a person."""
    calls = {
        ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
    }
    through_click = {call for call in calls if call.startswith("click.") and call.rpartition(".")[2] in ASKS}
    return (
        through_click
        | (calls & {"input", "getpass", "getpass.getpass"})
        | {call for call in calls if "stdin" in call and "readline" in call}
    )
