"""Shell completion: what is offered for a word."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing

import pytest

from tests.cli.conftest import Project, Zeus


def offered(project: Project, *words: str) -> list[str]:
    written = completed(project, {"COMP_CWORD": str(len(words))}, "bash", *words)
    return [line.partition(",")[2] for line in written.splitlines() if line]


def completed(project: Project, environ: Mapping[str, str], shell: str, *words: str) -> str:
    """What the shell reads."""
    given = {
        **os.environ,
        "_ZEUS_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": " ".join(["zeus", *words]),
        **environ,
    }
    code = "import sys; from zeus_runtime.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=given, cwd=project.folder, capture_output=True, text=True
    )
    assert done.stderr == ""
    return done.stdout


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


EVIL = (
    "x\x1b]0;pwned\x07\u202e\nplain\nsession_forged\nclick\tsk-live-7Qz81mPq44xw "
    + "Z\u0338"
    + "\u0338" * 900
)


def test_a_title_cannot_write_to_the_terminal_or_forge_an_entry(zeus: Zeus, project: Project) -> None:
    project.agent("one", "two")
    sessions = [zeus("run", "zeus.yaml", "go", "-o", "json").json["session"] for _ in range(2)]
    with closing(sqlite3.connect(project.folder / ".zeus/zeus.db")) as connection, connection:
        connection.execute("UPDATE thread SET title = ? WHERE session = ?", (EVIL, sessions[0]))
        connection.execute(
            "UPDATE thread SET session = 'a;id', title = 't' WHERE session = ?", (sessions[1],)
        )
    secret = {"SERVICE_API_KEY": "sk-live-7Qz81mPq44xw"}
    zsh = completed(project, {**secret, "COMP_CWORD": "2"}, "zsh", "resume", "")
    kind, name, title, *rest = zsh.removesuffix("\n").split("\n")
    assert (kind, name, rest) == ("plain", sessions[0], [])
    assert title.startswith("x\\x1b]0;pwned\\x07\\u202e plain session_fo… (")
    assert title.endswith(" characters)")
    fish = completed(project, {**secret, "COMP_CWORD": ""}, "fish", "resume ")
    assert fish == f"plain,{sessions[0]}\t{title}\n"
    assert offered(project, "resume", "session") == [sessions[0]]


@pytest.mark.parametrize("where", ["environment", ".env", "other.yaml"])
def test_a_secret_in_a_title_is_masked(zeus: Zeus, project: Project, where: str) -> None:
    project.agent("one")
    zeus("run", "zeus.yaml", "key sk-live-7Qz81mPq44xw")
    given = {"SERVICE_API_KEY": "sk-live-7Qz81mPq44xw"}
    if where == ".env":
        project.write(".env", "SERVICE_API_KEY=sk-live-7Qz81mPq44xw\n")
        given = {}
    if where == "other.yaml":
        project.write(where, "version: 1\nmetadata: {api_key: sk-live-7Qz81mPq44xw}\n")
        given = {}
    title = completed(project, {**given, "COMP_CWORD": "2"}, "zsh", "resume", "").split("\n")[2]
    assert title.startswith("key ")
    assert "sk-live" not in title


def test_only_words_that_a_shell_takes_as_they_are_are_offered(project: Project) -> None:
    for name in ("mine", "größe-2", "mi ne", "mi;id", "mi\nplain", "mi\x1b[2J", "mi\u3164"):
        project.write(f".zeus/configs/{name}.yaml", "version: 1\n")
    found = completed(project, {"COMP_CWORD": "2"}, "zsh", "run", "").split("\n")
    assert {"mine", "größe-2"} <= set(found)
    assert not [each for each in found if each.startswith("mi") and each != "mine"]


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
