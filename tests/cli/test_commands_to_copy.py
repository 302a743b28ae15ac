"""Commands of ``zeus`` in its own messages: copied into a shell, they mean what the message means."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.cli.conftest import Project, Zeus
from zeus_runtime.cli.group import zeus as group
from zeus_runtime.columns import hanging
from zeus_runtime.command_lines import command_for
from zeus_runtime.trust.decision import Trust

ROOT = Path(__file__).parents[2]
SOURCES = [*ROOT.glob("zeus_runtime/**/*.py"), *ROOT.glob("plugins/zeus_plugins/**/*.py")]
OPEN = re.compile(r"\bzeus (?:--remote URL )?[a-z]+[^`.;\n]*$")
NO_COMMANDS = {"zeus memory "}
"""The name of a lock."""


def in_braces(source: str) -> Iterator[str]:
    """What stands before a value in a text, if it is the beginning of a command."""
    for text in ast.walk(ast.parse(source)) if "zeus " in source else ():
        if isinstance(text, ast.JoinedStr):
            for before, value in zip(text.values, text.values[1:], strict=False):
                written = isinstance(before, ast.Constant) and OPEN.search(str(before.value))
                if written and isinstance(value, ast.FormattedValue):
                    yield written[0]


def test_no_message_writes_a_value_into_a_command_by_itself() -> None:
    found = {each for file in SOURCES for each in in_braces(file.read_text())}
    assert found == NO_COMMANDS


def commands() -> Iterator[tuple[tuple[str, ...], bool]]:
    """The words of each command that a message names as `zeus_command` does, up to the first value."""
    for file in SOURCES:
        source = file.read_text()
        for made in ast.walk(ast.parse(source)) if "zeus_command(" in source else ():
            name = made.func if isinstance(made, ast.Call) else None
            if (
                isinstance(made, ast.Call)
                and getattr(name, "id", getattr(name, "attr", "")) == "zeus_command"
            ):
                # Options that may be there (`*options`) are left out.
                given = [each for each in made.args if not isinstance(each, ast.Starred)]
                words = [each.value if isinstance(each, ast.Constant) else __file__ for each in given]
                yield tuple(map(str, words)), bool(made.keywords)


@pytest.mark.parametrize(("words", "is_argument"), sorted(set(commands())))
def test_each_command_exists_and_takes_a_config_so(words: tuple[str, ...], is_argument: bool) -> None:
    asked = shlex.split(command_for("x.yaml", ["--env", "e"], *words, is_argument=is_argument))[1:]
    context = click.Context(group, **group.context_settings)
    while isinstance(context.command, click.Group):
        command = context.command.get_command(context, asked.pop(0))
        assert command is not None
        context = click.Context(command, parent=context)
    context.command.parse_args(context, asked)
    assert (context.params.get("config"), context.params["env"]) == ("x.yaml", "e")


STAGING = "--env staging"


@pytest.mark.parametrize(
    ("config", "named", "run"),
    [
        ("zeus.yaml", "", ""),
        ("a b.yaml", "--config 'a b.yaml'", "'a b.yaml'"),
        ("z\u202ey.yaml", r"--config $'z\xe2\x80\xaey.yaml'", r"$'z\xe2\x80\xaey.yaml'"),
    ],
)
def test_commands_name_the_config_of_the_command_line(
    zeus: Zeus, project: Project, config: str, named: str, run: str
) -> None:
    project.agent(
        {"call": "echo", "args": {"text": "ahoy"}},
        "done",
        more="middlewares: [{approve: {mode: ask, read_tools: ask}}]\n",
    )
    (project.folder / "zeus.yaml").rename(project.folder / config)
    overlay = config.replace(".yaml", ".staging.yaml")
    project.write(overlay, "limits: {max_steps: 9}\n")
    given = ["--env", "staging", *(["--config", config] if named else [])]
    waits = zeus("run", config, "go", "--env", "staging")
    assert waits.exit_code == 7
    session = re.search(r"session_\w+", waits.err)
    assert session is not None
    decide = f"zeus resume {session[0]} --decide ID=approve {named or '--config zeus.yaml'} {STAGING}"
    assert f"`{decide}`" in waits.err
    told = zeus("sessions", "show", session[0], *given).err
    assert (
        f"`{' '.join(f'zeus run {run} {STAGING} --session {session[0]} --continue'.split())}` continues it"
        in told
    )
    lost = zeus("sessions", "rollback", session[0], "--to", "77", *given).err
    assert f"`{' '.join(f'zeus sessions show {session[0]} {named} {STAGING}'.split())}` numbers" in lost


@pytest.mark.parametrize("name", ["x; touch PWNED #", "$(touch PWNED)", "a b"])
def test_the_name_of_a_server_is_one_word_of_the_command(zeus: Zeus, project: Project, name: str) -> None:
    project.agent(more=f"mcpServers: {{'{name}': {{url: 'https://x.example', auth: oauth}}}}\n")
    told = zeus("tools", "list", "--json").out
    assert f"zeus auth login {shlex.quote(name)}" in told


def test_the_command_of_a_permission_names_the_file() -> None:
    assert (
        Trust(frozenset(), None, words=("z\u202ey.yaml", "a b")).command
        == r"zeus trust $'z\xe2\x80\xaey.yaml' 'a b'"
    )


def test_a_command_is_divided_only_if_no_line_has_room_for_it() -> None:
    command = "`zeus resume session_72895b364720 --decide ID=approve`"
    told = f"  Decide and resume with {command} or otherwise, and so on."
    assert command in hanging(told, 60, "  ").split("\n")[1]
    assert hanging(told, 30, "  ").split("\n")[:2] == ["  Decide and resume with", "  `zeus resume"]
