"""What decides is closed by each path of this machine that leads to it: a folder or file may be mounted twice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from zeus_runtime import Agent
from zeus_runtime.mount_table import MountTable
from zeus_runtime.tools import WorkspaceFiles, second_mounts
from zeus_runtime.tools.calling_tool import calling
from zeus_runtime.tools.paths import WorkspaceError

CONFIG = "version: 1\nmodel: gpt-4o\ntools: [filesystem]\nextends: base.yaml\ninstructions: {file: p.md}\n"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with a second mount of the config's folder, and one of a key file under another name."""
    second = {tmp_path / "work/agents": tmp_path / "etc", tmp_path / "work/token": tmp_path / "etc/t"}
    texts = {
        "prod.yaml": CONFIG,
        "base.yaml": "version: 1\n",
        "p.md": "Help.\n",
        "notes.md": "",
        "sub/a.md": "",
    }
    for name, text in texts.items():
        for folder in ("etc", "work/agents"):
            (tmp_path / folder / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / folder / name).write_text(text)
    (tmp_path / "etc/t").write_text("zt_1\n")
    (tmp_path / "work/token").write_text("zt_1\n")
    identity_of = second_mounts.identity_of

    def mounted(path: str) -> tuple[int, int] | None:
        for at, source in second.items():
            if Path(path).is_relative_to(at):
                return identity_of(str(source / Path(path).relative_to(at)))
        return identity_of(path)

    monkeypatch.setattr(second_mounts, "identity_of", mounted)
    monkeypatch.setattr(second_mounts, "mount_table", lambda: MountTable(""))
    monkeypatch.setenv("ZEUS_TOKEN_FILE", str(tmp_path / "etc/t"))
    return tmp_path / "work"


def files_of(work: Path, more: str = "", *, trust: str | None = None) -> WorkspaceFiles:
    (work.parent / "etc/prod.yaml").write_text(CONFIG + more)
    config = work.parent / "etc/prod.yaml"
    agent = Agent.from_config(config, directory=work, environ=dict(os.environ), trust=trust)
    return agent.plan.context.workspace


def refusals(files: WorkspaceFiles, *names: str) -> list[bool]:
    return [files.write_refusal(each) is not None for each in names]


def test_no_tool_changes_by_another_path_what_decides(work: Path) -> None:
    files = files_of(work)
    closed = ("agents/prod.yaml", "agents/base.yaml", "agents/p.md", "agents/prod.new.yaml", "token")
    with calling("write_file"):
        assert refusals(files, *closed) == [True] * len(closed)
        for each in closed[:3]:
            with pytest.raises(WorkspaceError, match="it decides about this agent"):
                files.write(each, b"evil")
        assert refusals(files, "agents/notes.md", "agents/sub/a.md", "agents/new.md", "a.md") == [False] * 4


def test_no_tool_reads_a_key_by_another_path(work: Path) -> None:
    files = files_of(work)
    with calling("read_file"):
        with pytest.raises(WorkspaceError, match="ZEUS_TOKEN_FILE"):
            files.read("token", max_bytes=9)
        assert files.read("agents/p.md", max_bytes=9) == b"Help.\n"
        assert "token" not in [Path(each.path).name for each in files.entries("/")]
    assert files.refusal_of(work / "token") is not None


def test_a_rule_that_names_the_other_path_lifts_the_protection(work: Path) -> None:
    access = "workspace: {access: {agents/p.md: write}}\n"
    files = files_of(work, access, trust="all")
    with calling("write_file"):
        assert refusals(files, "agents/p.md", "agents/base.yaml") == [False, True]


def test_a_link_is_no_second_mount(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/p.md").write_text("")
    (tmp_path / "link").symlink_to("real")
    found = second_mounts.SecondMounts([str(tmp_path / "link/p.md"), str(tmp_path / "real/p.md")])
    assert found.of(str(tmp_path / "real/p.md")) == ()


def test_a_file_with_several_names_is_judged_when_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "p.md").write_text("")
    (tmp_path / "other.md").hardlink_to(tmp_path / "p.md")
    assert second_mounts.SecondMounts([str(tmp_path / "p.md")]).of(str(tmp_path / "other.md")) == ()


def test_of_a_missing_place_the_folder_counts_in_which_it_would_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers: dict[str, tuple[int, int]] = {"/a": (1, 1), "/w/x": (1, 1)}
    identity_of: Callable[[str], tuple[int, int] | None] = numbers.get
    monkeypatch.setattr(second_mounts, "identity_of", identity_of)
    monkeypatch.setattr(second_mounts, "mount_table", lambda: MountTable(""))
    found = second_mounts.SecondMounts(["/a/b/c/p.md"])
    assert found.of("/w/x/b/c/p.md") == ("/a/b/c/p.md",)
    assert found.of("/a/b/c/p.md") == found.of("/w/p.md") == ()


BOUND = """
import pathlib, subprocess, sys
from zeus_runtime.tools.second_mounts import SecondMounts

one, two = f"{sys.argv[1]}/one", f"{sys.argv[1]}/two"

def seen():
    return [*SecondMounts([f"{one}/p.md"]).of(f"{two}/p.md")] == [f"{one}/p.md"]

said = [seen()]
subprocess.run(["mount", "--bind", one, two], check=True)
said.append(seen())
pathlib.Path(one, "p.md").unlink()
pathlib.Path(one, "p.md").write_text("new")
said.append(seen())
subprocess.run(["umount", two], check=True)
said.append(seen())
print(said)
"""


def test_a_second_mount_counts_from_its_first_moment_to_its_last(tmp_path: Path) -> None:
    apart = ["unshare", "--user", "--map-root-user", "--mount"]
    for each in ("one", "two"):
        (tmp_path / each).mkdir()
    (tmp_path / "one/p.md").write_text("")
    trial = [*apart, "mount", "--bind", str(tmp_path), str(tmp_path)]
    if shutil.which("unshare") is None or subprocess.run(trial, capture_output=True).returncode:
        pytest.skip("this machine does not let a user mount a folder")
    done = subprocess.run(
        [*apart, sys.executable, "-c", BOUND, str(tmp_path)], capture_output=True, text=True
    )
    assert done.stdout == "[False, True, True, False]\n", done.stderr


def test_no_file_is_looked_at_where_nothing_is_mounted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    monkeypatch.setattr(second_mounts, "identity_of", looked.append)
    monkeypatch.setattr(second_mounts, "mount_table", lambda: MountTable("1 0 8:1 / / rw - ext4 /dev/a rw\n"))
    assert second_mounts.SecondMounts(["/etc/p.md"]).of("/w/p.md") == ()
    assert looked == []
