"""Libraries in the process of ``zeus`` start no program of the project; those that the user chose are found there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Project, command
from tests.cli.pseudo_terminal import PseudoTerminal
from tests.support.provider import Provider, Reply

_LOOKED_UP = "uname sensible-editor vim nano vi bash sh gcc cc ld ldconfig objdump git docker bwrap stty"


@pytest.fixture
def executed(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The names of the programs of the project's ``bin`` that were started, a line each; its folder is on ``PATH``."""
    file = project.folder.parent / "executed"
    file.touch()
    for name in _LOOKED_UP.split():
        project.write(f"bin/{name}", f"#!/bin/sh\necho {name} >> {file}\n").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(project.folder / "bin"), "bin", os.environ["PATH"]]))
    return file


def _done(*words: str, **environ: str) -> str:
    done = subprocess.run(
        command(*words), capture_output=True, text=True, timeout=120, env={**os.environ, **environ}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "workspace", ["", "bin"], ids=["in the working directory", "in a workspace elsewhere"]
)
def test_a_provider_s_library_starts_no_program_of_the_project(
    project: Project, executed: Path, workspace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenAI's library starts `uname -p`."""
    if workspace:
        elsewhere = project.folder.parent / "elsewhere"
        (project.folder / workspace).rename(elsewhere)
        monkeypatch.setenv("PATH", f"{elsewhere}{os.pathsep}{os.environ['PATH']}")
        workspace = f"workspace: {{root: {elsewhere}}}\n"
    with Provider(answer=lambda _: Reply("done")) as provider:
        options = f"wire: litellm, stream: false, api_base: '{provider.openai}', api_key: sk-no-key"
        model = f"model: {{litellm: {{model: openai/gpt-4o-mini, {options}}}}}\n"
        project.write("zeus.yaml", f"version: 1\nname: app\n{model}{workspace}")
        assert "done" in _done("run", "zeus.yaml", "hi", ZEUS_TRUST="all")
        assert provider.requests
    assert executed.read_text() == ""


def test_the_library_of_an_embedding_starts_no_program_of_the_project(
    project: Project, executed: Path
) -> None:
    with Provider() as provider:
        options = f"model: openai/text-embedding-3-small, api_base: '{provider.openai}', api_key: sk-no-key"
        memory = f"memory: {{user: local, embeddings: {{litellm: {{{options}}}}}}}\n"
        project.write("zeus.yaml", f"version: 1\nname: app\nmodel: openai/gpt-4o-mini\n{memory}")
        # Whether this server can embed is all the same: the library is loaded, and it has tried.
        _done("memory", "add", "I like tea", ZEUS_TRUST="all", OPENAI_API_KEY="sk-no-key")
        assert provider.requests
    assert executed.read_text() == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_starts_no_program_of_the_project(project: Project, executed: Path, shell: str) -> None:
    assert "_ZEUS_COMPLETE" in _done(_ZEUS_COMPLETE=f"{shell}_source")
    assert executed.read_text() == ""


@pytest.mark.parametrize("named", [True, False])
def test_only_an_editor_that_the_user_named_is_looked_up_in_the_project(
    project: Project, executed: Path, named: bool
) -> None:
    project.agent(more="memory: {user: local}\n")
    mine = {"EDITOR": "vim -u NONE", "VISUAL": ""} if named else {"EDITOR": "", "VISUAL": ""}
    if not named:
        # The first outside: the machine of a test may have no editor, or one that waits for keys.
        outside = project.folder.parent / "outside/sensible-editor"
        outside.parent.mkdir()
        outside.write_text(f"#!/bin/sh\necho outside >> {executed}\n")
        outside.chmod(0o755)
        mine["PATH"] = os.pathsep.join([str(project.folder / "bin"), str(outside.parent), os.environ["PATH"]])
    words = ["memory", "profile", "edit"]
    with PseudoTerminal(words, project.folder, {"ZEUS_TRUST": "all", **mine}) as terminal:
        terminal.end()
    assert executed.read_text() == ("vim\n" if named else "outside\n"), terminal.screen


def test_a_server_and_a_hook_are_found_on_the_whole_path(project: Project, executed: Path) -> None:
    hook = "middlewares: [{hooks: {before_run: [{command: [git]}]}}]\n"
    project.agent(more=f"mcpServers: {{mine: {{command: docker}}}}\n{hook}")
    subprocess.run(
        command("run", "zeus.yaml", "hi"), check=False, timeout=120, env={**os.environ, "ZEUS_TRUST": "all"}
    )
    assert set(executed.read_text().split()) == {"git", "docker"}


def test_a_value_of_a_config_has_the_whole_path(project: Project, executed: Path) -> None:
    project.agent(more="instructions: ${PATH}\n")
    shown = _done("plan", "--explain", "instructions", ZEUS_TRUST="all", COLUMNS="9999")
    assert os.environ["PATH"] in shown
