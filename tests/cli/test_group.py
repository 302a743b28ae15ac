"""``zeus`` itself: its help, its verbs, plugins' commands and what is no command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Project, Zeus
from zeus_runtime.cli.group import VERBS
from zeus_runtime.cli.group import zeus as group
from zeus_runtime.registry import Plugin, discover

HEAVY = (
    "pydantic", "asyncio", "rich", "langchain_core", "langgraph", "litellm", "chromadb", "sqlmodel", "sqlalchemy",
    "tiktoken", "jsonschema", "yaml", "pluggy",
)  # fmt: skip
"""What a command that runs nothing must not import; validation may use the last three."""

GREETING = '''
import click
from zeus_runtime.plugin import hookimpl

@hookimpl
def register_commands(cli):
    @click.command("hello")
    @click.option("--name", default="you")
    def hello(name):
        """Greet."""
        click.echo(f"hello {name}")
        return 7

    @click.command("run")
    def run():
        click.echo("not me")

    return [hello, run]
'''


def imported(*words: str, folder: Path) -> set[str]:
    code = (
        "import sys; from zeus_runtime.cli import main; code = main(sys.argv[1:]);"
        "print('\\n'.join(sorted(sys.modules)), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in done.stderr.splitlines()}


def test_help_imports_no_plugin_and_nothing_heavy(project: Project) -> None:
    modules = imported("--help", folder=project.folder)
    assert modules.isdisjoint({*HEAVY, "zeus_plugins"})
    assert "click" in modules


@pytest.mark.parametrize("words", [["validate"], ["plan"], ["plan", "--prompt"], ["tools", "list"]])
def test_commands_that_run_nothing_import_nothing_heavy(project: Project, words: list[str]) -> None:
    project.write(
        "zeus.yaml",
        """
        version: 1
        model: gpt-5.2
        tools: [filesystem, todos]
        middlewares: [history]
        """,
    )
    modules = imported(*words, folder=project.folder)
    counting = {"tiktoken"} if words[0] == "tools" else set()
    assert modules.isdisjoint({*HEAVY} - {"jsonschema", "yaml", "pluggy"} - counting)
    assert "zeus_plugins" in modules


def test_the_table_of_verbs_says_what_each_verb_says(zeus: Zeus) -> None:
    for verb, line in VERBS.items():
        first = zeus(verb, "--help").out.split("\n\n")[1]
        assert first.split("\n")[0].strip() == line


def test_every_verb_has_help_for_all_it_takes(zeus: Zeus) -> None:
    import click

    for verb in VERBS:
        command = group.get_command(click.Context(group), verb)
        assert command is not None
        every = [command, *(command.commands.values() if isinstance(command, click.Group) else ())]
        for each in every:
            for option in each.params:
                assert not isinstance(option, click.Option) or option.help, f"{verb}: {option.name}"


def test_no_command_prints_the_help_and_fails(zeus: Zeus) -> None:
    result = zeus()
    assert result.exit_code == 2
    assert "Commands:" in result.err


def test_the_version_is_the_packages(zeus: Zeus) -> None:
    from zeus_runtime import __version__

    assert zeus("--version").out == f"zeus {__version__}\n"


def test_an_unknown_command_is_told_with_the_nearest_one(zeus: Zeus) -> None:
    result = zeus("validte")
    assert result.exit_code == 2
    assert "there is no command 'validte'; did you mean 'validate'?" in result.err


def test_an_unknown_option_is_a_usage_error(zeus: Zeus) -> None:
    result = zeus("validate", "--formt", "json")
    assert result.exit_code == 2
    assert "No such option" in result.err


@pytest.fixture
def greeting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    info = site / "greeting-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "greeting.py").write_text(GREETING)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[zeus.plugins]\ngreeting = greeting\n")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(group, "commands", {})


@pytest.mark.usefixtures("greeting")
def test_a_plugins_command_runs_and_its_return_value_is_no_exit_code(zeus: Zeus, project: Project) -> None:
    result = zeus("hello", "--name", "Ada")
    assert (result.exit_code, result.out) == (0, "hello Ada\n")


@pytest.mark.usefixtures("greeting")
def test_a_plugin_cannot_take_a_verb(zeus: Zeus, project: Project) -> None:
    assert "Run an agent" in zeus("run", "--help").out
    assert "the command name 'run' is taken by Zeus itself" in zeus("plugins").err


@pytest.mark.usefixtures("greeting")
def test_a_broken_plugin_is_named_when_a_command_is_missing(
    zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "site" / "greeting.py").write_text("raise RuntimeError('out of order')")
    monkeypatch.delitem(sys.modules, "greeting", raising=False)
    result = zeus("hello")
    assert result.exit_code == 2
    assert "greeting (greeting 1.0)" in result.err
    assert "out of order" in result.err
    assert "Traceback" not in result.err


def test_no_bundled_plugin_fails(project: Project) -> None:
    import os

    registry = discover(environ=os.environ)
    failed: list[Plugin] = [plugin for plugin in registry.plugins if plugin.status == "failed"]
    assert failed == []


def test_python_dash_m_is_zeus(project: Project) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "zeus_runtime", "--version"],
        capture_output=True,
        text=True,
        cwd=project.folder,
    )
    assert done.stdout.startswith("zeus ")


def test_a_group_without_a_command_shows_its_help_once(zeus: Zeus) -> None:
    result = zeus("sessions")
    assert result.exit_code == 2
    assert result.err.count("Usage: zeus sessions") == 1
    assert "rollback" in result.err
    assert "Error" not in result.err
