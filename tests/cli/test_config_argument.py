"""Which word of a command line is the config, and which is the prompt."""

from __future__ import annotations

import io
from contextvars import copy_context
from pathlib import Path

import pytest

from tests.cli.conftest import Project, Zeus
from zeus_runtime.cli.config_argument import config_and_prompt
from zeus_runtime.cli.options import ConfigArgs
from zeus_runtime.command_lines import name_config, zeus_command

CONFIGS = (
    "-",
    "",
    "quickstart",
    "prod.yaml",
    "prod.yml",
    "configs/prod",
    "./review",
    "tests/",
    "./my agent.yaml",
    "../my agents/zeus.yml",
    "/srv/my agents/zeus.yaml",
)
PROMPTS = (
    "hello",
    "review",
    "tests",
    "go.",
    "hello there",
    "my agent.yaml",
    "read configs/prod.yaml",
    "/review the tests",
    "./gradlew test fails",
    "x" * 5_000,
    "a\0b",
)


@pytest.fixture(autouse=True)
def presets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zeus_runtime.cli.config_argument.presets", lambda: ["quickstart"], raising=False)


def meaning(word: str | None, prompt: str | None, folder: Path) -> tuple[str | None, str | None]:
    which, said = config_and_prompt(ConfigArgs(word), prompt, folder, quiet=False)
    return which.config, said


def test_two_words_are_both(tmp_path: Path) -> None:
    assert meaning("hello", "you", tmp_path) == ("hello", "you")
    assert meaning(None, None, tmp_path) == (None, None)


@pytest.mark.parametrize("word", [*CONFIGS, *PROMPTS])
@pytest.mark.parametrize("made", ["nothing", "a file", "a folder"])
def test_beside_a_zeus_yaml_no_file_decides_what_a_word_means(tmp_path: Path, word: str, made: str) -> None:
    """An agent may make any file that is not protected, also one with the name of the user's next prompt."""
    (tmp_path / "zeus.yaml").touch()
    if made != "nothing" and word.strip("-") and "\0" not in word and len(word) < 100:
        place = tmp_path / "project" / word if word.startswith("..") else tmp_path / word.lstrip("/")
        file = place / "zeus.yaml" if made == "a folder" else place
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.is_dir():
            file.touch()
    assert meaning(word, None, tmp_path) == ((word, None) if word in CONFIGS else (None, word))


def test_without_a_zeus_yaml_one_word_without_spaces_is_a_config(tmp_path: Path) -> None:
    assert meaning("hello", None, tmp_path) == ("hello", None)
    assert meaning("hello there", None, tmp_path) == (None, "hello there")
    (tmp_path / "hello there").touch()
    assert meaning("hello there", None, tmp_path) == ("hello there", None)


@pytest.mark.parametrize("verb", ["run", "chat"])
def test_a_file_that_an_agent_made_is_not_the_config_of_the_next_command(
    zeus: Zeus, project: Project, verb: str
) -> None:
    project.agent("reviewed")
    (project.folder / "review").write_text("no: config\n")
    result = zeus(verb, "review", "-q", stdin="the diff")
    assert (result.exit_code, result.err) == (0, "")
    assert "reviewed" in result.out


def test_a_note_tells_a_person_how_the_config_of_the_prompts_name_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("zeus.yaml", "review", "my agent.yaml", "notes for you"):
        (tmp_path / name).touch()
    (tmp_path / "tests").mkdir()

    def told(word: str, *, at_terminal: bool = True, quiet: bool = False) -> str:
        stream = io.StringIO()
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setattr(stream, "isatty", lambda: at_terminal)
        config_and_prompt(ConfigArgs(word), None, tmp_path, quiet=quiet)
        return stream.getvalue()

    assert "the config of this name is `./review`" in told("review")
    assert "the config of this name is `'./my agent.yaml'`" in told("my agent.yaml")
    assert not told("review", at_terminal=False)
    assert not told("review", quiet=True)
    for word in ("hello", "tests", "notes for you", "./review"):
        assert not told(word), word


def test_commands_to_copy_do_not_take_the_prompt_for_the_config(tmp_path: Path) -> None:
    (tmp_path / "zeus.yaml").touch()

    def told() -> str:
        name_config("hello", ["--env", "prod"])
        config_and_prompt(ConfigArgs("hello", "prod"), None, tmp_path, quiet=True)
        return zeus_command("resume")

    assert copy_context().run(told) == "zeus resume --env prod"
