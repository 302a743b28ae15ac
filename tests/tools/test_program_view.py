"""The mounts for programs follow the access policy, also after files have changed since the last look."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from zeus_runtime import Agent
from zeus_runtime.tools import WorkspaceFiles, program_view
from zeus_runtime.tools.gate import calling
from zeus_runtime.tools.paths import WorkspaceError
from zeus_runtime.tools.program_view import JudgedFolders

_TICKS = itertools.count(1)


def workspace(folder: Path, access: Mapping[str, Any]) -> WorkspaceFiles:
    config = {"version": 1, "model": "gpt-4o", "tools": ["filesystem"], "workspace": {"access": access}}
    (folder / "zeus.yaml").write_text(json.dumps(config))
    return Agent.from_config(directory=folder, environ={}).plan.context.workspace


def write(file: Path, text: str = "x") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def view(files: WorkspaceFiles, **limits: int) -> dict[str, str]:
    """Path in the workspace to right, of a look that may use earlier ones."""
    with calling("run_command"):
        mounts = files.program_view(max_files=limits.get("max_files", 1_000))
    return {f"/{os.path.relpath(each.host, files.root)}": each.right for each in mounts}


def test_only_what_differs_from_its_folder_is_a_mount(tmp_path: Path) -> None:
    for name in ("src/a.py", "src/.env", "fixed/a", "fixed/open/b", "secrets/c", "k.pem", ".git/config"):
        write(tmp_path / name)
    (tmp_path / "link").symlink_to("secrets")
    access = {"fixed/**": "read", "fixed/open/**": "write", "secrets/**": "deny", "*.pem": "deny"}
    assert view(workspace(tmp_path, access)) == {
        "/.": "write",
        "/.git": "read",
        "/fixed": "read",
        "/fixed/open": "write",
        "/k.pem": "none",
        "/secrets": "none",
        "/src/.env": "none",
        "/zeus.yaml": "read",
    }


def test_a_read_only_folder_of_mostly_closed_files_shows_the_others_alone(tmp_path: Path) -> None:
    for name in ("a.pem", "b.pem", "c"):
        write(tmp_path / "keys" / name)
    found = view(workspace(tmp_path, {"keys/**": "read", "*.pem": "deny"}))
    assert {path: right for path, right in found.items() if "keys" in path} == {
        "/keys": "none",
        "/keys/c": "read",
    }


def test_another_name_of_a_key_and_a_socket_are_closed(tmp_path: Path) -> None:
    import socket

    write(tmp_path / ".env", "A=b")
    os.link(tmp_path / ".env", tmp_path / "copy")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "door"))
        found = view(workspace(tmp_path, {}))
    assert (found["/copy"], found["/door"]) == ("none", "none")


def test_too_many_files_are_an_error_that_names_the_limit(tmp_path: Path) -> None:
    write(tmp_path / "a")
    with pytest.raises(WorkspaceError, match="more than 1 files"):
        view(workspace(tmp_path, {}), max_files=1)


def test_a_look_after_changes_equals_a_first_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_view, "_SETTLED_NANOSECONDS", -(10**20))
    kept: list[str] = []
    keep = JudgedFolders.keep

    def noted(self: JudgedFolders, host: str, *rest: Any) -> None:
        kept.append(host)
        keep(self, host, *rest)

    monkeypatch.setattr(JudgedFolders, "keep", noted)
    for name in ("a/b/c", "a/d", "hooks/run", "shut/e"):
        write(tmp_path / name)
    files = workspace(tmp_path, {"shut/**": "deny", "link/**": "deny"})

    def changed(*folders: Path) -> None:
        # Two changes in one tick of the file system's clock have the same time.
        for each in folders:
            os.utime(each, ns=(0, 4_000_000_000_000_000_000 + next(_TICKS)))
        del kept[:]
        found = view(files)
        assert found == view(workspace(tmp_path, {"shut/**": "deny", "link/**": "deny"}))

    changed(tmp_path, tmp_path / "a")
    del kept[:]
    view(files)
    assert kept == [], "an unchanged workspace is not judged again"
    write(tmp_path / "a/.env")
    changed(tmp_path / "a")
    assert view(files)["/a/.env"] == "none"
    for name in ("HEAD", "refs/x", "objects/x"):
        write(tmp_path / name)
    changed(tmp_path)
    assert "/hooks/run" not in view(files)
    assert view(files)["/."] == "read" or view(files)["/hooks"] == "read"
    (tmp_path / "link").symlink_to("a")
    changed(tmp_path)
    assert view(files)["/a"] == "none"
