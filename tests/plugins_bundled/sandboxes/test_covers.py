"""Of a folder that programs see, such as ``/usr``, they see the workspace in it and nothing around the workspace."""

from __future__ import annotations

import subprocess
from pathlib import Path

from zeus_plugins.sandboxes.bubblewrap.command import SandboxRoot, system_mounts, workspace_mounts
from zeus_plugins.sandboxes.bubblewrap.host import host_root

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
    assert list(unseen) == [Path("/usr/src/app")]
