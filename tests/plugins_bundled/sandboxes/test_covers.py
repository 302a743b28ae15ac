"""Of a folder that programs see, such as ``/usr``, they see the workspace in it and nothing around the workspace."""

from __future__ import annotations

import pwd
import subprocess
from pathlib import Path
from tempfile import TemporaryFile
from types import SimpleNamespace

import pytest
from zeus_plugins.sandboxes.bubblewrap.command import SandboxRoot, system_mounts, workspace_mounts
from zeus_plugins.sandboxes.bubblewrap.host import host_root
from zeus_plugins.sandboxes.bubblewrap.mounts import MOST_WORDS, too_many

from tests.support.shells import need_bubblewrap
from zeus_runtime.plugin.files import ProgramMount


def run(root: SandboxRoot, mounts: list[ProgramMount], script: str) -> str:
    need_bubblewrap()
    base = ("--proc", "/proc", "--dev", "/dev")
    words = ["bwrap", *base, *system_mounts(root), *workspace_mounts(root, mounts)]
    found = subprocess.run(
        [*words, "/bin/sh", "-c", script], capture_output=True, text=True, check=False, timeout=30
    )
    return found.stdout + found.stderr


def test_a_workspace_within_a_cover_is_seen_and_nothing_beside_it(tmp_path: Path) -> None:
    # The prefix of a Python is shown, as `/usr` is.
    (tmp_path / "app/work/session_1").mkdir(parents=True)
    for name in (".env", "work/other", "work/session_1/mine"):
        (tmp_path / "app" / name).write_text(f"text of {name}")
    (tmp_path / "app/work").chmod(0o700)
    root = SandboxRoot(None, None, tmp_path, (tmp_path / "app",))
    mounts = [ProgramMount(str(tmp_path / "app/work/session_1"), "write", True)]
    app = f"{tmp_path}/app"
    said = run(
        root,
        mounts,
        f"cd {app}/work/session_1 && cat mine ../other ../../.env; touch new ../x ../../x; stat -c %a ..",
    )
    assert "text of work/session_1/mine" in said
    assert "text of work/other" not in said
    assert "text of .env" not in said
    assert (tmp_path / "app/work/session_1/new").exists()
    assert not (tmp_path / "app/work/x").exists()
    assert "cannot touch '../../x': Read-only file system" in said
    assert "755" in said


def test_a_cover_that_is_the_workspace_itself_does_not_close_it(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/mine").write_text("mine")
    root = SandboxRoot(None, None, tmp_path, (tmp_path / "work",))
    said = run(
        root,
        [ProgramMount(str(tmp_path / "work"), "write", True)],
        f"cat {tmp_path}/work/mine > {tmp_path}/work/new",
    )
    assert said == ""
    assert (tmp_path / "work/new").read_text() == "mine"


def test_a_config_in_etc_hides_no_file_of_the_system() -> None:
    """Without the cache of the linker, names of users and links such as `awk`, most commands fail."""
    unseen = host_root(None, (), [Path("/etc"), Path("/usr/src/app")]).unseen
    assert set(unseen) - {Path.home().resolve()} == {Path("/usr/src/app")}


@pytest.mark.parametrize(
    ("unseen", "prefix"),
    [
        ((), None),
        (("/usr/src/app",), "/usr/src/app/env"),
        (("/usr/src/app", "/usr/src/app/env/lib/of_app"), "/usr/src/app/env"),
        (("/usr/src/app/env/lib/of_app",), None),
        (("/usr",), None),
        (("/usr/src/app/env",), "not shown"),
        (("/usr/src/app/env/bin",), "not shown"),
    ],
)
def test_a_python_in_a_folder_to_hide_is_shown_with_its_prefix_alone(
    monkeypatch: pytest.MonkeyPatch, unseen: tuple[str, ...], prefix: str | None
) -> None:
    """The whole folder was shown, such as the working directory with its `.env`."""
    own = "/usr/src/app/env/bin/python3.11"
    monkeypatch.setattr(Path, "is_file", lambda _path: True)
    found = host_root(own, (), [Path(each) for each in unseen])
    if prefix == "not shown":
        assert (found.prefix, found.python != own) == (None, True)
    else:
        assert (found.prefix, found.python) == (None if prefix is None else Path(prefix), own)
    assert set(map(Path, unseen)) - set(found.unseen) == {Path("/usr")} & set(map(Path, unseen))


def test_the_usual_python_is_not_shown_where_it_is_hidden() -> None:
    usual = Path("/usr/bin/python3").resolve()
    assert host_root("/nowhere", [usual]).python is host_root("/nowhere", (), [usual]).python is None


def test_a_prefix_within_a_cover_is_seen_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("app/env/bin/tool", "app/env/lib/key", "app/.env", "app/work/a", "beside"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"text of {name};")
    monkeypatch.setattr("zeus_plugins.sandboxes.bubblewrap.command._ETC", (str(tmp_path),))
    app = tmp_path / "app"
    root = SandboxRoot(None, None, app / "env", (app, app / "env/lib"))
    mounts = [ProgramMount(str(app / "work"), "read", True)]
    said = run(root, mounts, f"cd {tmp_path}; cat $(find . -type f); touch app/new app/env/lib/new")
    assert {each for each in said.split(";") if each.startswith("text of")} == {
        "text of app/env/bin/tool",
        "text of app/work/a",
        "text of beside",
    }
    assert said.count("Read-only file system") == 2


@pytest.mark.parametrize(
    ("home", "is_hidden"),
    [("/usr/local/svc", True), ("/usr/sbin", False), ("/bin", False), ("/usr", False), ("/", False)],
)
def test_the_home_folder_is_hidden_unless_programs_need_it(
    monkeypatch: pytest.MonkeyPatch, home: str, is_hidden: bool
) -> None:
    """The user `daemon` has the home folder `/usr/sbin`."""
    monkeypatch.setenv("HOME", home)
    assert (Path(home).resolve() in host_root(None).unseen) == is_hidden


@pytest.mark.parametrize("variable", [None, "/srv/elsewhere"])
def test_the_home_folder_of_the_account_is_hidden_whatever_the_variable_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str | None
) -> None:
    monkeypatch.setattr(pwd, "getpwuid", lambda number: SimpleNamespace(pw_dir=str(tmp_path)))
    if variable is None:
        monkeypatch.delenv("HOME")
    else:
        monkeypatch.setenv("HOME", variable)
    assert tmp_path in host_root(None).unseen


def test_bubblewrap_takes_as_many_words_as_are_counted() -> None:
    need_bubblewrap()
    for more, said in ((0, "Unknown option --nonsense"), (1, "Exceeded maximum number of arguments")):
        with TemporaryFile() as file:
            outside = ["--args", str(file.fileno()), "--nonsense"]
            file.write(b"--unshare-net\0" * (MOST_WORDS - len(outside) + more))
            file.seek(0)
            found = subprocess.run(
                ["bwrap", *outside], pass_fds=[file.fileno()], capture_output=True, text=True, check=False
            )
        assert said in found.stderr
    assert too_many((), [""] * (MOST_WORDS - 100)) is None
    assert too_many((), [""] * (MOST_WORDS - 99)) is not None
