"""A database that this user's Zeus did not make is used only after the user has allowed it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.cli.conftest import Project, Zeus
from zeus_runtime.plan.validated import check
from zeus_runtime.store.database import Database, make_private
from zeus_runtime.trust import databases
from zeus_runtime.trust.databases import adopt, adopt_given, database_part, give, is_database, is_made
from zeus_runtime.trust.decision import UntrustedError, recorded_trust

RUN = ("run", "quickstart", "hi")
FOREIGN = "database '.zeus/zeus.db' is not trusted"


@pytest.fixture(autouse=True)
def _nothing_is_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ZEUS_TRUST")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def shipped(project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A database in the project that another user's Zeus made."""
    with monkeypatch.context() as other:
        other.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
        assert zeus(*RUN).exit_code == 0
    return project.folder / ".zeus" / "zeus.db"


def test_a_database_of_ones_own_is_never_asked_for(project: Project, zeus: Zeus) -> None:
    assert [zeus(*RUN).exit_code for _ in range(3)] == [0, 0, 0]
    assert zeus("plan", "quickstart", "--format", "json").json["executes"] == []
    assert "database" in zeus("trust", "--list").out


@pytest.mark.parametrize(
    "words",
    [
        RUN,
        ("chat", "quickstart"),
        ("resume", "session_0", "--config", "quickstart"),
        ("mcp", "quickstart"),
        ("validate", "quickstart"),
        ("plan", "quickstart"),
        ("sessions", "list"),
        ("memory", "list"),
        ("kb", "list"),
        ("db", "current", "quickstart"),
        ("context", "show"),
        ("approvals", "pending"),
        ("doctor",),
    ],
    ids=" ".join,
)
def test_no_verb_opens_a_database_that_was_shipped(shipped: Path, zeus: Zeus, words: tuple[str, ...]) -> None:
    before = shipped.read_bytes()
    result = zeus(*words)
    assert result.exit_code == 4, result.err
    assert FOREIGN in result.err + result.out
    assert "zeus trust" in result.err + result.out
    assert "print it anew" not in result.err + result.out
    assert shipped.read_bytes() == before
    assert not list(shipped.parent.glob("*-wal"))


def test_a_shipped_database_is_allowed_once(shipped: Path, zeus: Zeus) -> None:
    shown = zeus("trust", "quickstart")
    assert shown.exit_code == 0
    assert "not your Zeus" in shown.err
    assert [zeus(*RUN).exit_code for _ in range(2)] == [0, 0]
    assert zeus("trust", "--revoke", str(shipped)).exit_code == 0
    assert zeus(*RUN).exit_code == 4


def test_the_next_version_of_a_shipped_database_is_asked_for(shipped: Path, zeus: Zeus) -> None:
    """It has the mark that the first one had."""
    first = shipped.read_bytes()
    zeus("trust", "quickstart")
    shipped.write_bytes(first)
    assert zeus(*RUN).exit_code == 4


def printed(zeus: Zeus, *words: str) -> str:
    return zeus("trust", "--print", *words).out.strip()


def replaced(file: Path, content: bytes) -> None:
    for each in file.parent.glob(f"{file.name}*"):
        each.unlink()
    file.write_bytes(content)


def test_a_digest_allows_one_version_of_a_database(
    shipped: Path, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was the digest of the mark alone, which the next version may have too."""
    monkeypatch.setenv("ZEUS_TRUST", printed(zeus, "quickstart"))
    with closing(sqlite3.connect(shipped)) as connection:
        mark = connection.execute("PRAGMA user_version").fetchone()
        connection.execute("CREATE TABLE later (x)")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    replaced(shipped, shipped.read_bytes())
    result = zeus(*RUN)
    assert result.exit_code == 4
    assert "print it anew, or name the config by its path in ZEUS_TRUST" in result.err
    with closing(sqlite3.connect(shipped)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == mark


def test_a_digest_of_a_database_is_for_its_path_and_its_use(
    shipped: Path, project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest, content = printed(zeus, "quickstart"), shipped.read_bytes()
    shipped.with_name("serve.db").write_bytes(content)
    project.write("zeus-serve.yaml", "storage: {url: 'sqlite:///.zeus/zeus.db'}\n")
    assert printed(zeus, "--serve") != digest
    monkeypatch.setenv("ZEUS_TRUST", digest)
    assert zeus("keys", "list").exit_code == 4
    (project.folder / "zeus-serve.yaml").unlink()
    assert zeus("keys", "list").exit_code == 4
    assert zeus(*RUN).exit_code == 0


def test_a_database_that_a_digest_allowed_is_recorded(
    shipped: Path, zeus: Zeus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first run writes to it, so the digest does not fit afterwards."""
    content, digest = shipped.read_bytes(), printed(zeus, "quickstart")
    monkeypatch.setenv("ZEUS_TRUST", digest)
    assert zeus("plan", "quickstart").exit_code == 0
    assert shipped.read_bytes() == content
    assert [zeus(*RUN).exit_code for _ in range(2)] == [0, 0]
    monkeypatch.delenv("ZEUS_TRUST")
    assert zeus(*RUN).exit_code == 0
    replaced(shipped, content)
    assert zeus(*RUN).exit_code == 4
    # As in a container that gets the same database from its image each time, and keeps no record.
    shutil.rmtree(tmp_path / "state")
    monkeypatch.setenv("ZEUS_TRUST", digest)
    assert zeus(*RUN).exit_code == 0
    shutil.rmtree(tmp_path / "state")
    assert zeus(*RUN).exit_code == 4


@pytest.mark.parametrize("given", ["all", "{digest},all"])
def test_what_allows_everything_records_no_database(
    shipped: Path, zeus: Zeus, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("ZEUS_TRUST", given.format(digest=printed(zeus, "quickstart")))
    assert zeus(*RUN).exit_code == 0
    monkeypatch.delenv("ZEUS_TRUST")
    assert zeus(*RUN).exit_code == 4


def test_a_digest_whose_use_cannot_be_recorded_opens_no_database(
    shipped: Path, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZEUS_TRUST", printed(zeus, "quickstart"))
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.delenv("HOME")
    content = shipped.read_bytes()
    for _ in range(2):
        result = zeus(*RUN)
        assert result.exit_code == 4
        assert "set one of them, or name the config by its path in ZEUS_TRUST" in result.err
    assert shipped.read_bytes() == content


def test_a_database_that_changes_before_it_is_opened_stays_closed(tmp_path: Path) -> None:
    """Also when it is opened again."""
    file = tmp_path / "zeus.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE t (x)")
    part = database_part(file, "zeus.db", "agents")
    assert part.digest != database_part(file, "other.db", "agents").digest
    give(part, "/zeus.yaml")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE u (x)")
    for _ in range(2):
        with pytest.raises(UntrustedError, match="has changed since Zeus looked at it"):
            adopt_given(tmp_path / "records", file)
    assert not is_made(tmp_path / "records", file)


def test_a_database_that_another_process_recorded_is_opened(tmp_path: Path) -> None:
    file = tmp_path / "zeus.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE t (x)")
    part = database_part(file, "zeus.db", "agents")
    give(part, "/zeus.yaml")
    adopt(tmp_path / "records", part, "/zeus.yaml")
    content = file.read_bytes()
    adopt_given(tmp_path / "records", file)
    assert file.read_bytes() == content


def test_a_check_of_a_config_keeps_the_locks_of_a_database_in_use(project: Project) -> None:
    """Without them, another process that ends is the last one for SQLite, and deletes the log."""
    config = project.agent(more="storage: {url: 'sqlite:///used.db'}")
    file = project.folder / "used.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (x)")
        for _ in range(2):
            check(config, directory=project.folder, environ={}, trust=recorded_trust({}, "all"))
        assert is_database(file)
        assert database_part(file, file.name, "agents").held
        other = f"import sqlite3; c = sqlite3.connect({str(file)!r}); c.execute('SELECT * FROM t'); c.close()"
        subprocess.run([sys.executable, "-c", other], check=True)
        assert file.with_name(f"{file.name}-wal").exists()
    assert not file.with_name(f"{file.name}-wal").exists(), "its last user deletes it"


def test_deleted_files_and_the_longest_unused_ones_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "_kept", {})
    monkeypatch.setattr(databases, "_MOST_KEPT", 2)
    files = [tmp_path / name for name in "abcd"]
    for each in files:
        each.write_text("x")
    before = open_files()
    assert [is_made(None, each) for each in files] == [False] * 4
    assert open_files() - before == {str(each) for each in files[2:]}
    files[2].unlink()
    assert not is_made(None, files[0])
    assert open_files() - before == {str(files[0]), str(files[3])}
    files[3].write_text("")
    assert is_made(None, files[3]), "the content of now counts"
    files[3].unlink()
    files[3].write_text("another file")
    assert not is_made(None, files[3])


def open_files() -> set[str]:
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(str(each.readlink()))
    return found


def test_a_database_and_its_log_are_apart_in_its_digest(tmp_path: Path) -> None:
    """Bytes that move from one to the other make another database."""
    digests = set()
    for index, (main, wal, journal) in enumerate([("ab", "c", ""), ("a", "bc", ""), ("ab", "", "c")]):
        file = tmp_path / f"{index}/zeus.db"
        file.parent.mkdir()
        for end, text in (("", main), ("-wal", wal), ("-journal", journal)):
            file.with_name(f"zeus.db{end}").write_text(text)
        digests.add(database_part(file, "zeus.db", "agents").digest)
    assert len(digests) == 3


def test_a_vector_store_is_recorded_with_the_database_beside_it(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("zeus.db", "zeus.db-chroma/chroma.sqlite3", "other/zeus.db")]
    for each in files:
        each.parent.mkdir(exist_ok=True)
        with closing(sqlite3.connect(each)) as connection:
            connection.execute("CREATE TABLE t (x)")
        give(database_part(each, each.name, "agents"), "/zeus.yaml")
    records = tmp_path / "records"
    adopt_given(records, files[1])
    assert [is_made(records, each) for each in files] == [False, True, False]
    adopt_given(records, files[0])
    assert [is_made(records, each) for each in files] == [True, True, True]


def test_a_database_that_replaces_ones_own_is_asked_for(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert zeus(*RUN).exit_code == 0
    own = project.folder / ".zeus"
    own.rename(tmp_path / "mine")
    with monkeypatch.context() as other:
        other.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
        assert zeus(*RUN).exit_code == 0
    assert zeus(*RUN).exit_code == 4
    shutil.rmtree(own)
    (tmp_path / "mine").rename(own)
    assert zeus(*RUN).exit_code == 0


def test_a_database_without_a_mark_gets_one(shipped: Path, zeus: Zeus) -> None:
    """Such as one from before databases had marks."""
    with closing(sqlite3.connect(shipped, isolation_level=None)) as connection:
        connection.execute("PRAGMA user_version=0")
        connection.execute("PRAGMA application_id=0")
    unmarked = shipped.read_bytes()
    assert zeus(*RUN).exit_code == 4
    zeus("trust", "quickstart")
    assert zeus(*RUN).exit_code == 0
    shipped.write_bytes(unmarked)
    assert zeus(*RUN).exit_code == 4


def test_a_moved_database_is_asked_for(project: Project, zeus: Zeus) -> None:
    zeus(*RUN)
    (project.folder / "there").mkdir()
    (project.folder / ".zeus/zeus.db").rename(project.folder / "there/zeus.db")
    result = zeus(*RUN, "--set", "storage.url=sqlite:///there/zeus.db")
    assert "database 'there/zeus.db' is not trusted" in result.err


@pytest.mark.parametrize("value", ["all", "config", "digest"])
def test_a_container_with_a_volume_and_no_record_is_told_by_its_environment(
    shipped: Path, project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    project.write("zeus.yaml", "version: 1\nextends: quickstart\n")
    value = {
        "all": "all",
        "config": str(project.folder / "zeus.yaml"),
        "digest": zeus("trust", "--print").out.strip(),
    }[value]
    assert zeus("run", "zeus.yaml", "hi").exit_code == 4
    monkeypatch.setenv("ZEUS_TRUST", value)
    assert [zeus("run", "zeus.yaml", "hi").exit_code for _ in range(2)] == [0, 0]


def test_a_user_without_a_place_for_records_is_told_at_the_next_start(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert zeus(*RUN).exit_code == 0
    assert FOREIGN in zeus(*RUN).err


def test_another_projects_database_is_asked_for(project: Project, zeus: Zeus, tmp_path: Path) -> None:
    zeus(*RUN)
    (project.folder / ".zeus").rename(tmp_path / "other")
    project.write(
        "zeus.yaml", "version: 1\nextends: quickstart\nstorage: {url: 'sqlite:///../other/zeus.db'}\n"
    )
    told = zeus("run", "zeus.yaml", "hi")
    assert f"database '{tmp_path / 'other/zeus.db'}', file 'storage.url' are not trusted" in told.err
    zeus("trust", "zeus.yaml")
    assert zeus("run", "zeus.yaml", "hi").exit_code == 0


def test_a_vector_store_beside_no_file_is_asked_for(shipped: Path, project: Project, zeus: Zeus) -> None:
    vectors = project.folder / ".zeus/chroma/chroma.sqlite3"
    vectors.parent.mkdir()
    shipped.rename(vectors)
    more = ("--set", "storage.url=sqlite://")
    assert "database '.zeus/chroma/chroma.sqlite3' is not trusted" in zeus(*RUN, *more).err


def test_the_databases_of_checkpointers_and_vector_stores_are_asked_for(
    shipped: Path, project: Project, zeus: Zeus
) -> None:
    checkpoints = project.folder / "checkpoints.db"
    shipped.rename(checkpoints)
    more = ("--set", "checkpointer={sqlite: {path: checkpoints.db}}")
    assert "database 'checkpoints.db' is not trusted" in zeus(*RUN, *more).err
    vectors = project.folder / ".zeus/zeus.db-chroma/chroma.sqlite3"
    vectors.parent.mkdir()
    checkpoints.rename(vectors)
    assert "database '.zeus/zeus.db-chroma/chroma.sqlite3' is not trusted" in zeus(*RUN).err


@pytest.mark.parametrize("end", ["-wal", "-journal"])
def test_a_log_beside_a_file_without_a_header_makes_it_a_database(
    project: Project, zeus: Zeus, end: str
) -> None:
    project.write("zeus.yaml", "version: 1\nextends: quickstart\ncheckpointer: {sqlite: {path: cp.bin}}\n")
    (project.folder / "cp.bin").write_bytes(bytes(4096))
    assert zeus("trust").exit_code == 0
    assert zeus("plan").exit_code == 0
    (project.folder / f"cp.bin{end}").write_bytes(b"x")
    assert "database 'cp.bin' is not trusted" in zeus("plan").err


def test_a_password_does_not_hide_which_file_a_url_names(shipped: Path, zeus: Zeus) -> None:
    assert zeus(*RUN, "--set", "storage.url=sqlite://u:p/a@/.zeus/zeus.db").exit_code == 3


@pytest.mark.parametrize("path", ["data/shipped%2Edb", "data%2Fshipped.db", "data/link/../shipped%2Edb"])
def test_an_encoded_path_does_not_hide_which_file_a_url_names(
    shipped: Path, project: Project, zeus: Zeus, path: str
) -> None:
    (project.folder / "data/deep").mkdir(parents=True)
    (project.folder / "data/link").symlink_to("deep")
    shipped.rename(project.folder / "data/shipped.db")
    result = zeus(*RUN, "--set", f"storage.url=sqlite:///{path}")
    assert result.exit_code == 4
    assert "database 'data/shipped.db' is not trusted" in result.err


def test_an_encoded_path_does_not_hide_that_a_file_is_elsewhere(
    shipped: Path, zeus: Zeus, tmp_path: Path
) -> None:
    shipped.rename(tmp_path / "other.db")
    told = zeus(*RUN, "--set", f"storage.url=sqlite:///%2E.%2F{'..%2F' * 9}{str(tmp_path)[1:]}%2Fother.db")
    assert f"database '{tmp_path / 'other.db'}', file 'storage.url' are not trusted" in told.err


OF_SERVICE = [("keys", "list"), ("keys", "create", "ann"), ("audit",), ("serve", "quickstart")]


@pytest.fixture
def shipped_keys(project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A service's database in the project, with a key of another user."""
    with monkeypatch.context() as other:
        other.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
        assert zeus("keys", "create", "mallory").exit_code == 0
    return project.folder / ".zeus" / "serve.db"


@pytest.mark.parametrize("words", OF_SERVICE, ids=" ".join)
@pytest.mark.parametrize("file", [".zeus/serve.db", "keys.db"])
def test_no_verb_of_a_service_opens_a_database_that_was_shipped(
    shipped_keys: Path, project: Project, zeus: Zeus, words: tuple[str, ...], file: str
) -> None:
    if file == "keys.db":
        shipped_keys.rename(project.folder / file)
        project.write("zeus-serve.yaml", f"storage: {{url: 'sqlite:///{file}'}}\n")
    before = (project.folder / file).read_bytes()
    result = zeus(*words)
    assert result.exit_code == 4, result.err
    assert f"database '{file}' is not trusted" in result.err
    assert "zeus trust --serve" in result.err
    assert (project.folder / file).read_bytes() == before


def test_the_database_of_a_service_is_allowed_once(shipped_keys: Path, zeus: Zeus) -> None:
    asked = zeus("trust", "--serve", "--print")
    assert asked.out.startswith("sha256:")
    assert "not your Zeus" in asked.err
    assert zeus("keys", "list").exit_code == 4
    assert zeus("serve", "--show-settings").exit_code == 0
    assert zeus("trust", "--serve").exit_code == 0
    assert "mallory" in zeus("keys", "list").out
    assert "nothing to allow" in zeus("trust", "--serve").err


def test_a_demonstration_opens_no_database_that_was_shipped(shipped_keys: Path, zeus: Zeus) -> None:
    result = zeus("serve", "--demo", str(shipped_keys.parent.parent), "--port", "0")
    assert result.exit_code == 4
    assert "database '.zeus/serve.db' is not trusted" in result.err


@pytest.mark.parametrize(
    ("name", "words"), [("zeus.db", ("doctor",)), ("serve.db", ("keys", "list"))], ids=["doctor", "keys"]
)
def test_no_journal_beside_a_shipped_database_is_played_back(
    project: Project, zeus: Zeus, tmp_path: Path, name: str, words: tuple[str, ...]
) -> None:
    """SQLite removes the file that a journal names as its super-journal."""
    victim = tmp_path / "notes.txt"
    victim.write_text("precious")
    file = project.write(f".zeus/{name}", "")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.commit()
    magic, place = bytes.fromhex("d9d505f920a163d7"), os.fsencode(victim)
    head = magic + struct.pack(">5I", 0, 1, file.stat().st_size // 4096, 512, 4096)
    end = struct.pack(">I", 0x4000_0000 // 4096 + 1) + place + struct.pack(">2I", len(place), sum(place))
    file.with_name(f"{name}-journal").write_bytes(head.ljust(512, b"\0") + end + magic)
    assert zeus(*words).exit_code == 4
    assert victim.read_text() == "precious"


def test_a_database_that_nobody_opens_again_is_not_recorded(tmp_path: Path) -> None:
    Database("sqlite:///scratch.db", directory=tmp_path, is_scratch=True)
    assert (tmp_path / "scratch.db").exists()
    assert not (tmp_path / "state").exists()


def test_what_is_no_database_cannot_be_allowed(project: Project, zeus: Zeus) -> None:
    project.write(".zeus/zeus.db", "not a database")
    assert FOREIGN in zeus(*RUN).err
    result = zeus("trust", "quickstart")
    assert result.exit_code == 4
    assert "cannot be marked as yours: file is not a database" in result.err


def test_a_shell_completes_no_session_of_a_shipped_database(shipped: Path) -> None:
    from zeus_runtime.cli.completion import complete_session

    assert complete_session(None, None, "") == []  # type: ignore[arg-type]


def test_a_new_database_can_give_freed_space_back(tmp_path: Path) -> None:
    make_private(tmp_path / "new.db")
    with closing(sqlite3.connect(tmp_path / "new.db")) as connection:
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)


def test_processes_that_make_a_database_at_once_make_one(project: Project, zeus: Zeus) -> None:
    code = (
        "from zeus_runtime.plugin.checkpointer import make_private; from pathlib import Path;"
        " make_private(Path('.zeus/zeus.db'))"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code], cwd=project.folder, env=dict(os.environ))
        for _ in range(4)
    ]
    assert [each.wait() for each in started] == [0] * 4
    assert zeus(*RUN).exit_code == 0


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_leaves_out_a_projects_sessions_and_keeps_its_home(tmp_path: Path) -> None:
    for name in ("configs/prod.yaml", "prompts/SOUL.md", "plugins/mine.py", "skills/tidy/SKILL.md"):
        file = tmp_path / ".zeus" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    make_private(tmp_path / ".zeus/zeus.db")
    (tmp_path / ".zeus/sandboxes").mkdir()
    (tmp_path / ".zeus/sandboxes/copy").write_text("private")
    subprocess.run(["git", "init", "--quiet", "."], cwd=tmp_path, check=True)
    added = subprocess.run(
        ["git", "add", "--dry-run", ".zeus"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    names = {line.split("'")[1].removeprefix(".zeus/") for line in added.splitlines()}
    assert names == {
        ".gitignore",
        "configs/prod.yaml",
        "prompts/SOUL.md",
        "plugins/mine.py",
        "skills/tidy/SKILL.md",
    }


def test_a_list_of_ignored_files_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / ".zeus").mkdir()
    (tmp_path / ".zeus/.gitignore").write_text("mine\n")
    make_private(tmp_path / ".zeus/zeus.db")
    make_private(tmp_path / "elsewhere.db")
    assert (tmp_path / ".zeus/.gitignore").read_text() == "mine\n"
    assert not (tmp_path / ".gitignore").exists()


@pytest.mark.parametrize("named", ["config", "database"])
def test_a_database_that_was_allowed_for_a_config_is_listed_and_forgotten_with_it(
    project: Project, zeus: Zeus, shipped: Path, named: str
) -> None:
    config, other = project.agent(), project.agent(name="other.yaml")
    assert zeus("trust", str(config)).exit_code == 0
    assert zeus("trust", str(other)).exit_code == 0
    file = str(config if named == "config" else shipped)
    mine = zeus("trust", "--list", file, "--json").json
    kinds = ["database", "plugin"] if named == "config" else ["database"]
    assert [each["kind"] for each in mine] == kinds
    (database,) = [each for each in mine if each["kind"] == "database"]
    assert database["file"] == str(shipped)
    assert ["allowed for", str(config)] in database["lines"]
    assert [each["kind"] for each in zeus("trust", "--list", str(other), "--json").json] == ["plugin"]
    assert zeus("trust", "--revoke", file).err == f"forgotten: {len(kinds)}\n"
    assert FOREIGN in zeus("run", str(other), "hi").err
    assert zeus("trust", "--list", file).out == "nothing is allowed\n"


def test_a_database_of_ones_own_stays_so_when_its_config_is_forgotten(project: Project, zeus: Zeus) -> None:
    config = project.agent()
    assert zeus("trust", str(config)).exit_code == 0
    assert zeus("run", str(config), "hi").exit_code == 0
    assert zeus("trust", "--revoke", str(config)).err == "forgotten: 1\n"
    assert zeus("trust", str(config)).exit_code == 0
    assert zeus("run", str(config), "hi").exit_code == 0


@pytest.mark.skipif(not Path("/proc/version").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("name", [".zeus/zeus.db", "data.db"])
def test_a_link_to_a_file_that_may_have_no_end_is_asked_for_unread(
    project: Project, zeus: Zeus, name: str
) -> None:
    project.write("zeus.yaml", f"version: 1\nmodel: gpt-4o\nstorage: {{url: 'sqlite:///{name}'}}\n")
    file = project.folder / name
    file.parent.mkdir(exist_ok=True)
    file.symlink_to("/proc/version")
    plan = zeus("plan", "--format", "json")
    assert plan.exit_code == 4
    assert [each["kind"] for each in plan.json["executes"]] == ["file"]
