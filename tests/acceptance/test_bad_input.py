"""What a hostile or hurried user gives to ``zeus run``, ``plan`` and ``validate``: never a traceback, always the
documented exit code and a remedy."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Project, Result, Zeus, command

Prepare = Callable[[Path], object]


def assert_told(result: Result, exit_code: int, *said: str) -> None:
    assert result.exit_code == exit_code, result.err
    for text in (result.out, result.err):
        assert "Traceback" not in text
        assert "this is a bug" not in text
    for each in said:
        assert each in result.out + result.err


def link_to_nowhere(folder: Path) -> None:
    (folder / "broken.yaml").symlink_to("nowhere.yaml")


def link_to_itself(folder: Path) -> None:
    (folder / "broken.yaml").symlink_to("broken.yaml")


def nothing(_folder: Path) -> None:
    """The folder is as it is."""


@pytest.mark.parametrize("verb", ["validate", "plan", "run"])
@pytest.mark.parametrize(
    ("prepare", "name", "said"),
    [
        (lambda folder: (folder / "sub").mkdir(), "sub", "there is no file sub/zeus.yaml"),
        (lambda folder: (folder / "b.yaml").write_bytes(b"\xfe\x00\xff"), "b.yaml", "save the file as UTF-8"),
        (
            lambda folder: (folder / "b.yaml").write_bytes(b"# \xc3\xbc\n" * 1_000_000),
            "b.yaml",
            "larger than 4,000,000 bytes",
        ),
        (nothing, "/dev/null", "the file holds no configuration"),
        (nothing, "", "the config's name is empty"),
        (nothing, "x" * 5_000, "File name too long"),
        (nothing, "zeus.yaml/inside", "there is no file zeus.yaml/inside"),
        (nothing, "nul\0.yaml", "there is no file"),
        (link_to_nowhere, "broken.yaml", "link to a file that is not there"),
        (link_to_itself, "broken.yaml", "link to a file that is not there"),
        (nothing, "zeus.yml", "did you mean 'zeus.yaml'?"),
    ],
    ids=[
        "folder",
        "binary",
        "8 MB",
        "empty",
        "no name",
        "long name",
        "below a file",
        "nul",
        "dangling link",
        "circular link",
        "misspelt",
    ],
)
def test_a_config_that_cannot_be_read_exits_3(
    zeus: Zeus, project: Project, verb: str, prepare: Prepare, name: str, said: str
) -> None:
    project.agent("never")
    prepare(project.folder)
    assert_told(zeus(verb, name, *(["go"] if verb == "run" else [])), 3, said, "help: ")


def test_an_unreadable_config_exits_3(zeus: Zeus, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    config = project.agent("never")
    opened = os.open

    def refuse(path: Any, *args: Any, **kwargs: Any) -> int:
        if os.fspath(path) == str(config):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", refuse)
    assert_told(zeus("validate"), 3, "zeus.yaml cannot be read: Permission denied")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (b"A=1\nthis is 'broken\n", ".env:2:1: bad-dotenv"),
        (b"\xff\xfe\x00A", ".env:1:1: not-utf8"),
    ],
)
def test_a_corrupted_env_file_exits_3_and_is_not_shown(
    zeus: Zeus, project: Project, written: bytes, said: str
) -> None:
    project.agent("never")
    (project.folder / ".env").write_bytes(written)
    result = zeus("run", "zeus.yaml", "go")
    assert_told(result, 3, said)
    assert "broken" not in result.err


@pytest.mark.parametrize("verb", ["validate", "plan", "run"])
@pytest.mark.parametrize(
    ("workspace", "place", "said"),
    [
        ("{root: gone}", "6:19", "create the folder, or change workspace.root"),
        ("{root: scripted.py}", "6:19", "Not a directory"),
        ("{routes: {/kept/: scripted.py}}", "6:30", "which is not a folder"),
        ("{routes: {kept: .}}", "6:28", "a route is a prefix such as /memory/"),
        ("{routes: {/a: ., /a/: sub}}", "6:34", "the route /a/ is given twice"),
    ],
)
def test_a_workspace_that_cannot_be_used_exits_3_with_its_place(
    zeus: Zeus, project: Project, verb: str, workspace: str, place: str, said: str
) -> None:
    project.agent("never", more=f"workspace: {workspace}\n")
    result = zeus(verb, "zeus.yaml", *(["go"] if verb == "run" else []))
    assert_told(result, 3, f"zeus.yaml:{place}", said)


@pytest.mark.parametrize("verb", ["validate", "plan", "run"])
@pytest.mark.parametrize(
    "url",
    [
        "zeus.db",
        "",
        "/var/lib/zeus.db",
        "sqlite://zeus.db",
        "mysql://iris:hunter2secret@host/zeus",
        "no://host/z",
        "postgresql+psycopg2://z:hunter2secret@host/z",
    ],
)
def test_a_database_url_that_is_none_exits_3_with_its_place(
    zeus: Zeus, project: Project, verb: str, url: str
) -> None:
    project.agent("never", more=f"storage: {{url: '{url}'}}\n")
    result = zeus(verb, "zeus.yaml", *(["go"] if verb == "run" else []))
    assert_told(result, 3, "zeus.yaml:6:16", "sqlite:///.zeus/zeus.db, postgresql://user@host/name")
    assert "hunter2secret" not in result.out + result.err


@pytest.mark.parametrize(
    ("url", "exit_code", "said"),
    [
        ("sqlite:////proc/nowhere/zeus.db", 4, "set storage.url to another place"),
        ("sqlite:///scripted.py/zeus.db", 4, "set storage.url to another place"),
        ("sqlite:///scripted.py", 4, "file is not a database"),
        ("sqlite:///.", 4, "cannot be opened: it is a folder"),
    ],
)
def test_a_database_that_cannot_be_used_says_so(
    zeus: Zeus, project: Project, url: str, exit_code: int, said: str
) -> None:
    project.agent("never", more=f"storage: {{url: '{url}'}}\n")
    for words in (["run", "zeus.yaml", "go"], ["run", "zeus.yaml", "--continue"], ["sessions", "list"]):
        result = zeus(*words)
        if words[0] == "sessions" and "zeus.db" in url and url.startswith("sqlite"):
            assert_told(result, 0, "no session yet")
            continue
        assert_told(result, exit_code, said)


def test_a_database_of_another_program_is_left_alone(zeus: Zeus, project: Project) -> None:
    project.agent("never", more="storage: {url: 'sqlite:///theirs.db'}\n")
    with sqlite3.connect(project.folder / "theirs.db") as theirs:
        theirs.execute("CREATE TABLE thread (title TEXT)")
        theirs.execute("INSERT INTO thread VALUES ('ours')")
    assert_told(zeus("run", "zeus.yaml", "go"), 4, "theirs.db' has a table 'thread'", "of its own")
    with sqlite3.connect(project.folder / "theirs.db") as theirs:
        assert theirs.execute("SELECT * FROM thread").fetchall() == [("ours",)]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("scripted.py", "is not a database"),
        ("/proc/nowhere/check.db", "cannot be made"),
        (".", "cannot be opened: it is a folder"),
    ],
)
def test_a_checkpoint_file_that_cannot_be_used_says_so(
    zeus: Zeus, project: Project, path: str, said: str
) -> None:
    project.agent("never", more=f"checkpointer: {{sqlite: {{path: {path}}}}}\n")
    done = zeus("run", "zeus.yaml", "go")
    assert_told(done, 4, "checkpoints' database", said, "or set the checkpointer's path to another place.")


@pytest.mark.parametrize(
    "session",
    [
        "session_000000000000",
        "../../etc/passwd",
        "/etc/passwd",
        "",
        "a\0b",
        "\udcff",
        "'; DROP TABLE thread; --",
    ],
)
def test_a_session_that_is_not_there_exits_2(zeus: Zeus, project: Project, session: str) -> None:
    project.agent("first", "second")
    assert zeus("run", "zeus.yaml", "go").exit_code == 0
    for words in (
        ["run", "zeus.yaml", "go", "--session", session],
        ["run", "zeus.yaml", "--continue", "--session", session],
        ["sessions", "show", session],
        ["sessions", "delete", session, "--yes"],
    ):
        assert_told(zeus(*words), 2, "there is no session")
    assert len(zeus("sessions", "list", "--json").json) == 1


@pytest.mark.parametrize("words", [["go \udcff"], ["-p", "\udcff"]])
def test_a_prompt_that_is_no_text_exits_2(zeus: Zeus, project: Project, words: Sequence[str]) -> None:
    project.agent("never")
    assert_told(zeus("run", "zeus.yaml", *words), 2, "not UTF-8 text")
    assert not (project.folder / ".zeus").exists(), "a session was begun"


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (nothing, "Record one with `zeus run --record FILE`"),
        (lambda folder: (folder / "tape.jsonl").mkdir(), "is not a file"),
        (lambda folder: (folder / "tape.jsonl").write_text("{}\n"), "the file is not a cassette"),
        (lambda folder: (folder / "tape.jsonl").write_bytes(b"\xff\x00"), "cannot be read"),
        (lambda folder: (folder / "tape.jsonl").write_text(""), "the file is not a cassette"),
    ],
    ids=["missing", "folder", "other JSON", "binary", "empty"],
)
def test_a_cassette_that_cannot_be_played_exits_3(
    zeus: Zeus, project: Project, prepare: Prepare, said: str
) -> None:
    project.write("zeus.yaml", "version: 1\nmodel: {replay: {cassette: tape.jsonl}}\n")
    prepare(project.folder)
    assert_told(zeus("run", "zeus.yaml", "go"), 3, said)


@pytest.mark.parametrize(
    "file", ["scripted.py", "/proc/nowhere/tape.jsonl", "scripted.py/tape.jsonl", "/dev/full"]
)
def test_a_cassette_that_cannot_be_written_exits_3_and_destroys_nothing(
    zeus: Zeus, project: Project, file: str
) -> None:
    project.agent("never")
    before = (project.folder / "scripted.py").read_text()
    assert_told(zeus("run", "zeus.yaml", "go", "--record", file), 3, "cassette")
    assert (project.folder / "scripted.py").read_text() == before


@pytest.mark.parametrize("verb", ["validate", "plan", "run"])
@pytest.mark.parametrize(
    ("source", "said"),
    [
        (b"def broken(:\n", "SyntaxError"),
        (b"1 / 0\n", "ZeroDivisionError"),
        (b"raise SystemExit(0)\n", "SystemExit"),
        (b"import a_module_that_nobody_has\n", "install the distribution"),
        (b"\xff\xfe\x00", "bad.py"),
    ],
    ids=["syntax", "raises", "exits", "import", "binary"],
)
def test_a_plugin_file_that_does_not_load_exits_4_with_its_place(
    zeus: Zeus, project: Project, verb: str, source: bytes, said: str
) -> None:
    (project.folder / "bad.py").write_bytes(source)
    project.write("zeus.yaml", "version: 1\nmodel: gpt-4o\nplugins:\n  files: [bad.py]\n")
    result = zeus(verb, "zeus.yaml", *(["go"] if verb == "run" else []))
    assert_told(result, 4, "zeus.yaml:4:11", said)


def test_a_component_written_as_a_models_name_is_pointed_out(zeus: Zeus, project: Project) -> None:
    project.write("scripted.py", (project.agent("never").parent / "scripted.py").read_text())
    project.write("zeus.yaml", "version: 1\nmodel: scripted\nplugins: {files: [scripted.py]}\n")
    result = zeus("validate", "--strict")
    assert_told(result, 3, "zeus.yaml:2:8", "did you mean '{scripted: {}}'?")


@pytest.mark.parametrize("output", ["json", "ndjson"])
def test_a_program_gets_its_json_for_all_of_it(zeus: Zeus, project: Project, output: str) -> None:
    project.agent("never", more="workspace: {root: gone}\n")
    result = zeus("run", "zeus.yaml", "go", "-o", output)
    assert_told(result, 3)
    assert result.lines[-1]["exit_code"] == 3 if output == "ndjson" else result.json["exit_code"] == 3


def test_a_full_disk_is_said_and_the_session_goes_on_when_there_is_room(zeus: Zeus, project: Project) -> None:
    project.agent("first", "second")
    assert zeus("run", "zeus.yaml", "go").exit_code == 0

    def little_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (48_000, 48_000))

    full = subprocess.run(
        [*command("run", "zeus.yaml", "--continue"), "-p", "x" * 60_000],
        cwd=project.folder,
        capture_output=True,
        text=True,
        preexec_fn=little_room,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )
    assert_told(Result(full.returncode, full.stdout, full.stderr), 1, "writable and not full")
    assert "Traceback" not in full.stderr
    again = zeus("run", "zeus.yaml", "again", "--continue", "-o", "json")
    assert (again.exit_code, again.json["answer"]) == (0, "second")
