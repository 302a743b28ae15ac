"""Shell completion: what is offered for a word."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cli.conftest import Project, Zeus


def offered(project: Project, *words: str) -> list[str]:
    given = {
        **os.environ,
        "_ZEUS_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["zeus", *words]),
        "COMP_CWORD": str(len(words)),
    }
    code = "import sys; from zeus_runtime.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=given, cwd=project.folder, capture_output=True, text=True
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_verbs_presets_models_and_sessions_are_offered(zeus: Zeus, project: Project) -> None:
    project.write(".zeus/configs/mine.yaml", "version: 1\n")
    project.agent("one")
    session = zeus("run", "zeus.yaml", "go", "-o", "json").json["session"]
    assert offered(project, "va") == ["validate"]
    assert "mine" in offered(project, "run", "mi")
    assert "gpt-5.2" in offered(project, "models", "show", "gpt-5.")
    assert offered(project, "sessions", "show", "session_") == [session]
    assert "--explain" in offered(project, "plan", "--ex")
    assert offered(project, "run", "zeus.yaml", "--mode", "a") == ["agent", "ask"]


def test_nothing_is_offered_where_there_is_nothing(project: Project) -> None:
    assert offered(project, "sessions", "show", "session_") == []
    assert offered(project, "nonsense", "x") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_each_shell_is_printed(project: Project, shell: str) -> None:
    if shell == "bash" and subprocess.run(["bash", "--version"], capture_output=True).returncode:
        pytest.skip("no bash")
    given = {**os.environ, "_ZEUS_COMPLETE": f"{shell}_source"}
    code = "import sys; from zeus_runtime.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=given, cwd=project.folder, capture_output=True, text=True
    )
    assert "_ZEUS_COMPLETE" in done.stdout
