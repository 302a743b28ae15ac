"""Plugins add commands; a faulty one costs the others nothing."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from tests.registry.conftest import Discover, Install
from tests.registry.test_hookspecs import example
from zeus_runtime.registry.commands import plugin_commands


@pytest.fixture
def cli() -> click.Group:
    return click.Group("zeus", commands=[click.Command("run")])


def test_the_example_command_says_hello(install: Install, find_plugins: Discover, cli: click.Group) -> None:
    install("greeter", example("register_commands"))
    ((plugin, command),), problems = plugin_commands(find_plugins(), cli)
    assert (plugin.name, command.name, problems) == ("greeter", "hello", ())
    assert CliRunner().invoke(command).output == "hello from zeus\n"
    assert list(cli.commands) == ["run"]


def test_a_command_name_that_is_taken_is_reported(
    install: Install, find_plugins: Discover, cli: click.Group
) -> None:
    install("greeter", example("register_commands"))
    install("second", example("register_commands"))
    install("usurper", example("register_commands").replace('"hello"', '"run"'))
    commands, problems = plugin_commands(find_plugins(), cli)
    assert [(plugin.name, command.name) for plugin, command in commands] == [("greeter", "hello")]
    assert [problem.message for problem in problems] == [
        "plugin second (second-dist 1.2.3): the command name 'hello' is taken by plugin greeter (greeter-dist 1.2.3)",
        "plugin usurper (usurper-dist 1.2.3): the command name 'run' is taken by Zeus itself",
    ]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("raise RuntimeError('no luck')", "register_commands raised RuntimeError: no luck"),
        ("return None", "register_commands returned None; return a list of Command"),
        ("return [print]", "register_commands returned builtin_function_or_method"),
        ("return [click.Command(None)]", "a command has no name"),
    ],
)
def test_a_hook_that_fails_costs_only_its_own_commands(
    install: Install, find_plugins: Discover, cli: click.Group, body: str, says: str
) -> None:
    install(
        "broken",
        f"import click\nfrom zeus_runtime.plugin import hookimpl\n@hookimpl\ndef register_commands():\n  {body}\n",
    )
    install("greeter", example("register_commands"))
    commands, (problem,) = plugin_commands(find_plugins(), cli)
    assert [command.name for _, command in commands] == ["hello"]
    assert says in problem.message
