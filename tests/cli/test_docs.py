"""docs/reference/cli.md says what the command line says. ``ZEUS_GOLDEN=1`` writes its help texts and exit codes."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.cli.conftest import Zeus
from zeus_runtime.cli.chat import HELP
from zeus_runtime.cli.entry import EXIT_CODES
from zeus_runtime.cli.group import VERBS
from zeus_runtime.cli.group import zeus as group

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
ROOT = DOCS.parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*.md")),
]
_SHELL = re.compile(r"```(?:sh|console)\n(.*?)```", re.DOTALL)
_HELP = re.compile(r"```console\n\$ (zeus[^\n]*) --help\n(.*?)\n```", re.DOTALL)
_CODES = re.compile(r"(\| code \| meaning \|\n\|---\|---\|\n)((?:\|[^\n]*\|\n)+)")
_SLASHES = re.compile(r"(\| line \| what it does \|\n\|---\|---\|\n)((?:\|[^\n]*\|\n)+)")


def commands() -> list[str]:
    found = ["zeus"]
    for verb in VERBS:
        command = group.get_command(click.Context(group), verb)
        assert command is not None
        found += _named(f"zeus {verb}", command)
    return found


def _named(name: str, command: click.Command) -> list[str]:
    inner = command.commands if isinstance(command, click.Group) else {}
    return [name, *(each for under, sub in inner.items() for each in _named(f"{name} {under}", sub))]


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def test_the_help_texts_are_the_real_ones(zeus: Zeus) -> None:
    text = DOCS.read_text("utf-8")

    def real(command: str) -> str:
        return zeus(*command.split()[1:], "--help").out.rstrip()

    if os.environ.get("ZEUS_GOLDEN"):
        written = _HELP.sub(lambda match: f"```console\n$ {match[1]} --help\n{real(match[1])}\n```", text)
        DOCS.write_text(written, "utf-8")
        text = written
    shown = dict(_HELP.findall(text))
    assert list(shown) == commands()
    for command, help_text in shown.items():
        assert help_text == real(command), f"`ZEUS_GOLDEN=1` writes the help of {command} anew"


def test_the_commands_of_a_conversation_are_the_real_ones() -> None:
    text = DOCS.read_text("utf-8")
    rows = "".join(f"| `{name.replace('|', ', ')}` | {meaning} |\n" for name, meaning in HELP.items())
    if os.environ.get("ZEUS_GOLDEN"):
        text = _SLASHES.sub(lambda match: match[1] + rows, text)
        DOCS.write_text(text, "utf-8")
    match = _SLASHES.search(text)
    assert match is not None
    assert match[2] == rows


def test_the_exit_codes_are_the_real_ones() -> None:
    text = DOCS.read_text("utf-8")
    rows = "".join(f"| {code} | {meaning} |\n" for code, meaning in EXIT_CODES.items())
    if os.environ.get("ZEUS_GOLDEN"):
        text = _CODES.sub(lambda match: match[1] + rows, text)
        DOCS.write_text(text, "utf-8")
    match = _CODES.search(text)
    assert match is not None
    assert match[2] == rows


def written_commands(page: Path, program: str = "zeus") -> Iterator[list[str]]:
    """The words after ``program`` of each of its command lines in a page's shell blocks."""
    for block in _SHELL.findall(page.read_text("utf-8")):
        # A console block holds output too; its command lines begin with a dollar.
        prompted = any(line.startswith("$ ") for line in block.splitlines())
        for line in block.replace("\\\n", " ").splitlines():
            if prompted and not line.startswith("$ "):
                continue
            lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars="|;&<>")
            lexer.whitespace_split = True
            words: list[str] = []
            for word in [*lexer, ";"]:
                if word[0] not in "|;&<>":
                    words.append(word)
                    continue
                while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                    words.pop(0)
                if words[:1] == [program]:
                    yield words[1:]
                words = []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_command_in_the_docs_is_one_that_the_command_line_takes(page: Path) -> None:
    for words in written_commands(page):
        if any(word.startswith("[") for word in words):
            continue  # a synopsis
        command: click.Command = group
        context = click.Context(group, info_name="zeus")
        rest = list(words)
        while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
            name, found, rest = command.resolve_command(context, rest)
            assert found is not None, f"zeus {' '.join(words)}"
            command, context = found, click.Context(found, info_name=name, parent=context)
        try:
            command.make_context(context.info_name, rest, parent=context.parent)
        except click.exceptions.Exit:
            continue  # --help, --version
        except click.exceptions.NoArgsIsHelpError:
            continue  # a group alone shows its help
        except click.UsageError as error:
            pytest.fail(f"zeus {' '.join(words)}: {error.format_message()}")


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", ROOT / "docs/start/tutorial.md"], ids=lambda page: page.name
)
def test_the_first_install_command_takes_the_checkout_that_it_is_written_in(page: Path) -> None:
    """Until the first release, no registry has the package."""
    command, what = next(written_commands(page, "pip"))
    project = tomllib.loads((ROOT / what / "pyproject.toml").read_text("utf-8"))["project"]
    assert (command, project["name"], list(project["scripts"])) == ("install", "zeus-runtime", ["zeus"])
