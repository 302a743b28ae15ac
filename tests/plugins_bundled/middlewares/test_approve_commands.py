"""Approvals judge each command of a command line, and ask about what the parser cannot judge."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zeus_plugins.middlewares.approve.commands import command_line
from zeus_plugins.middlewares.approve.options import Options
from zeus_plugins.middlewares.approve.policy import Policy

from zeus_runtime.plugin.tool import Tool


async def nothing() -> str:
    return ""


PARAMETERS = {"type": "object", "properties": {"command": {}, "cwd": {"default": "/"}}}
RUN = Tool("run_command", "Runs.", PARAMETERS, nothing, "shell", commands=frozenset({"command"}))


def action(command: str | list[str], **rules: Any) -> str | None:
    written = {
        key: tuple({"run_command": {"command": each}} for each in value) for key, value in rules.items()
    }
    verdict = Policy(Options(**written), lambda path: [{path}]).ruled(RUN, {"command": command})
    return None if verdict is None else verdict.action


ALLOWED = ["git status *", "ls *", "pytest *", "wc -l", "python -m pytest *", "echo *"]


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git status --short",
        "git status && ls -l src",
        "git status | wc -l",
        "(ls; ls) || ls",
        "if ls a; then ls b; else git status; fi",
        "ls 2>/dev/null >&2",
        "ls 2>&1 | wc -l",
        "! ls a",
        'ls "a b" c\\ d',
        "ls $HOME *.py",
        'echo $(git status) "$(ls)"',
        "ls # and a comment",
        "ls \\\n  -l",
        "[ -f a ] && ls",
        ["git", "status", "; rm -rf /"],
    ],
)
def test_a_line_whose_commands_are_all_allowed_runs(command: str | list[str]) -> None:
    assert action(command, allow=ALLOWED) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "git  statusx",
        "git status; rm -rf /",
        "git status & rm -rf /",
        "git status | sh",
        "git status\nrm -rf /",
        "ls $(rm -rf /)",
        'ls "`rm -rf /`"',
        "ls <(rm -rf /)",
        "ls ${x:-$(rm -rf /)}",
        "ls > src/a.py",
        "ls >> ~/.bashrc",
        "PATH=/tmp/evil ls",
        "PATH=/tmp/evil; ls",
        "export PATH=/tmp/evil; ls",
        "for PATH in /tmp/evil; do ls; done",
        "ls() { rm -rf /; }; ls",
        "$(echo rm) -rf /",
        "eval ls",
        "l\\s; \\rm a",
        "wc -l $FILES",
        "ls 'a",
        "ls &&",
        "cat <<E | sh\nrm\nE",
        "ls <<E && rm a\nx\nE",
        "(ls) > a",
        "[ $(rm a) ]",
        "ls\rrm a",
        "ls; coproc rm a",
        "(( x[$(rm a)] ))",
        "",
        "# nothing",
        [],
    ],
)
def test_any_other_line_is_not_allowed(command: str | list[str]) -> None:
    assert action(command, allow=ALLOWED) is None


@pytest.mark.parametrize(
    "command", ["rm a", "ls; rm -rf a", "/bin/rm a", "ls $(rm a)", "'r'm a", "x=1 rm a", "rm a > b"]
)
def test_a_denied_command_never_runs(command: str) -> None:
    assert action(command, allow=["*"], deny=["rm *"]) == "deny"


@pytest.mark.parametrize(
    "command",
    ["env rm a", "xargs rm", "find . -exec rm {} +", "sh -c 'ls; rm a'", "sudo sh -c \"env rm a\"", "r$X a", "$X a",
     "eval \"$X\"", "ls 'a", "cat <<E | sh\nrm a\nE", "f() { rm a; }"],
)  # fmt: skip
def test_what_may_run_a_denied_command_is_asked_about(command: str) -> None:
    assert action(command, allow=["*", "cat *", "ls *", "env *"], deny=["rm *"]) in ("ask", "deny")
    assert action(command, ask=["rm *"]) == "ask"


def test_rules_that_only_allow_leave_the_rest_to_the_mode() -> None:
    assert action("eval $x", allow=["ls *"]) is None
    assert action("ls -l", ask=["rm *"]) is None


def test_a_rule_for_the_tool_alone_allows_every_command() -> None:
    policy = Policy(Options(allow=("run_command",)), lambda path: [{path}])
    for command in ("ls", "eval $x", "ls 'a"):
        verdict = policy.ruled(RUN, {"command": command})
        assert verdict is not None
        assert verdict.action == "allow"


def test_a_sub_agents_command_is_denied_by_its_parents_rule() -> None:
    policy = Policy(Options(deny=({"run_command": {"command": "rm *"}},)), lambda path: [{path}])
    for command, denied in (("ls; rm a", True), ("ls", False), ("$x", True)):
        assert (policy.denied(RUN, {"command": command}, lambda path: [{path}]) is not None) == denied


WORDS = st.text("ab $'\"\\*;|&<>(){}#\n~!=`-", max_size=12)


@given(st.lists(WORDS.filter(bool), min_size=1, max_size=4))
def test_words_that_are_quoted_are_read_back(words: list[str]) -> None:
    import shlex

    line = command_line(shlex.join(["ls", *words]))
    assert line.is_clear
    (found,) = line.commands
    assert found.words == ("ls", *words)


@given(WORDS)
def test_an_allowed_line_runs_nothing_else(text: str) -> None:
    """Bash itself says which programs a line names: none but the allowed one may be found."""
    import shutil
    import subprocess

    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    if action(f"ls {text}", allow=["ls *"]) != "allow":
        return
    # `ls` is a function that prints nothing, and any other command prints its name. Nothing is on the path.
    script = 'command_not_found_handle() { echo "ran $1"; }; ls() { :; }\n' + f"ls {text}"
    done = subprocess.run(
        [bash, "-c", script], env={"PATH": ""}, capture_output=True, cwd="/proc/self/fdinfo", check=False
    )
    assert b"ran " not in done.stdout
