"""The mounts for programs follow the access policy, also after files have changed since the last look."""

from __future__ import annotations

import errno
import itertools
import json
import os
import sqlite3
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from zeus_runtime import Agent
from zeus_runtime.plan.plan import make_plan
from zeus_runtime.plan.protected_files import _FILES_OF_PROGRAMS, _FOLDERS_OF_PROGRAMS
from zeus_runtime.plan.validated import check
from zeus_runtime.store.database import make_private
from zeus_runtime.tools import WorkspaceFiles, program_view
from zeus_runtime.tools.access import Deciding, Protected
from zeus_runtime.tools.calling_tool import calling, reading_kept
from zeus_runtime.tools.gate import Gate
from zeus_runtime.tools.paths import WorkspaceError
from zeus_runtime.tools.program_view import Look

_TICKS = itertools.count(1)


def workspace(
    folder: Path,
    access: Mapping[str, Any],
    *,
    root: str = ".",
    routes: Mapping[str, str] | None = None,
    trust: Any = None,
    **more: Any,
) -> WorkspaceFiles:
    config = {
        "version": 1,
        "model": "gpt-4o",
        "tools": ["filesystem"],
        "workspace": {"access": access, "root": root, "routes": routes or {}},
        **more,
    }
    (folder / "zeus.yaml").write_text(json.dumps(config))
    return Agent.from_config(directory=folder, environ={}, trust=trust).plan.context.workspace


def write(file: Path, text: str = "x") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def view(files: WorkspaceFiles, **limits: int) -> dict[str, str]:
    """Path in the workspace to right, of a look that may use earlier ones."""
    with calling("run_command"):
        mounts = files.program_view(max_files=limits.get("max_files", 1_000))
    return {f"/{os.path.relpath(each.host, files.root)}": each.right for each in mounts}


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES])
def test_a_folder_that_nobody_can_make_stops_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    files = workspace(tmp_path, {})

    def refused(*_args: object, **_keywords: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(Path, "mkdir", refused)
    assert view(files) == {"/.": "write", "/zeus.yaml": "read"}


def test_only_what_differs_from_its_folder_is_a_mount(tmp_path: Path) -> None:
    for name in ("src/a.py", "src/.env", "fixed/a", "fixed/open/b", "secrets/c", "k.pem", ".git/config"):
        write(tmp_path / name)
    (tmp_path / "link").symlink_to("secrets")
    access = {"fixed/**": "read", "fixed/open/**": "write", "secrets/**": "deny", "*.pem": "deny"}
    assert view(workspace(tmp_path, access)) == {
        "/.": "write",
        "/.git": "read",
        "/.zeus": "none",  # made, so that no program makes it
        "/fixed": "read",
        "/fixed/open": "write",
        "/k.pem": "none",
        "/secrets": "none",
        "/src": "write",
        "/src/.env": "none",
        "/zeus.yaml": "read",
    }


@pytest.mark.parametrize(
    ("access", "right"),
    [
        # A rule that spells a name says nothing about others.
        ({"**": "read", "new/**": "write"}, {"/.": "read", "/new": "write"}),
        ({"**": "read", "new": "write"}, {"/.": "read", "/new": "write"}),
        ({"new/**": "read"}, {"/.": "write", "/new": "read"}),
        ({"new": "deny"}, {"/.": "write", "/new": "none"}),
        ({"**": "read", "*": "write"}, {"/.": "read"}),  # of equal patterns the stricter one counts
        ({"/*": "ask", "src/*/**": "write"}, {"/.": "read"}),
        # One that fits any name holds for what a command makes.
        ({"src/*": "ask"}, {"/.": "write", "/src": "read"}),
        ({"src/?*": "read"}, {"/src": "read"}),
        ({"**/src/*": "deny"}, {"/src": "none"}),
        ({"src/*": "read", "src/gen/**": "write"}, {"/src": "read", "/src/gen": "write"}),
        # One that fits some names does not: else `*.pem` would close each folder.
        ({"*.pem": "deny", "src/*.py": "read", "src/[a-z]*": "ask"}, {"/.": "write", "/src": "write"}),
        ({"src/?": "read", "src/??????*": "read"}, {"/.": "write", "/src": "read"}),
        ({"src/?": "read"}, {"/.": "write", "/src": ""}),
        # A folder that no command may change stays so.
        ({"**": "read", "src/*": "write"}, {"/.": "read", "/src": ""}),
        ({}, {"/.": "write"}),
    ],
)
def test_a_folder_is_writable_if_an_entry_of_any_name_is(
    tmp_path: Path, access: Mapping[str, str], right: Mapping[str, str]
) -> None:
    """The root was judged by the name `new`, and other folders by their own name alone."""
    for name in ("new/a", "src/a.py", "src/gen/b"):
        write(tmp_path / name)
    found = view(workspace(tmp_path, access))
    assert {path: found.get(path, "") for path in right} == right


def test_a_rule_of_approve_for_any_name_closes_a_folder_to_new_files(tmp_path: Path) -> None:
    write(tmp_path / "migrations/1.sql")
    rule = {"ask": [{"*": {"path": "migrations/*"}}]}
    found = view(workspace(tmp_path, {}, middlewares=[{"approve": rule}]))
    assert found["/migrations"] != "write"


def test_each_writable_folder_above_a_mount_is_a_mount(tmp_path: Path) -> None:
    for name in ("a/b/secret", "a/c/d", "fixed/e/secret"):
        write(tmp_path / name)
    found = view(workspace(tmp_path, {"a/b/secret": "deny", "fixed/**": "read", "fixed/e/secret": "deny"}))
    # In a read-only folder nothing can be renamed.
    assert {path: right for path, right in found.items() if path.startswith(("/a", "/fixed"))} == {
        "/a": "write",
        "/a/b": "write",
        "/a/b/secret": "none",
        "/fixed": "read",
        "/fixed/e": "none",
    }


@pytest.mark.parametrize(
    ("link", "target", "access"),
    [
        ("in/.env", "other/keys", {}),
        ("in/k.pem", "other/k", {"*.pem": "deny"}),
        ("in/now", "../releases/42", {"in/now/secrets/**": "deny"}),
        ("in/now", "../releases/42", {"in/*/secrets/**": "deny"}),
        ("in/now", "../releases/42", {"hop/secrets/**": "deny"}),  # a link to a link
        ("in/notes.md", "other/notes.md", {"*.md": "ask"}),
        ("in/cur", "../v1", {}),  # on the way to a file that the config names
    ],
)
def test_a_folder_is_read_only_if_one_of_its_links_decides_about_files(
    tmp_path: Path, link: str, target: str, access: Mapping[str, Any]
) -> None:
    """A command could remove or replace the link, and what it leads to would not be protected any more."""
    for name in ("in/a", "in/other/b", "releases/42/secrets/c", "v1/soul.md"):
        write(tmp_path / name)
    (tmp_path / link).symlink_to(target)
    if "hop/secrets/**" in access:
        (tmp_path / "hop").symlink_to("in/now")
    more = {"prompt": {"files": {"soul": "in/cur/soul.md"}}} if link == "in/cur" else {}
    found = view(workspace(tmp_path, access, **more))
    assert (found["/in"], found["/in/a"], found["/in/other"]) == ("read", "write", "write")


def test_no_command_can_make_folders_whose_contents_are_executed_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    packages = tmp_path / ".local/lib/packages/site-packages"
    monkeypatch.setattr("site.getusersitepackages", lambda: str(packages))
    found = view(workspace(tmp_path, {}))
    # No tool makes anything in these, so no program does either.
    assert {path: right for path, right in found.items() if path.startswith(("/.config", "/.local"))} == {
        "/.config": "read",
        "/.local": "read",
    }
    for made in (tmp_path / ".config/zeus", tmp_path / ".local/state/zeus/trust", packages):
        assert made.is_dir()


def test_commands_only_read_folders_from_which_a_variable_makes_zeus_load_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.pycache_prefix", ".cache/pyc")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/usr/lib:{tmp_path / 'lib'}")
    found = view(workspace(tmp_path, {}))
    assert (found["/."], found["/.cache/pyc"], found["/lib"]) == ("write", "read", "read")


def at_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(folder))


def require_empty(*made: Path) -> None:
    for each in made:
        assert not (list(each.iterdir()) if each.is_dir() else each.read_bytes()), each
        assert each.stat().st_mode & 0o777 == (0o700 if each.is_dir() else 0o600), each


@pytest.mark.parametrize("home", [".", "ann"])
def test_no_command_can_make_what_libraries_read_in_a_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    """A command made `~/.aws/config` with a `credential_process`, which the next run executed uncontained."""
    folder = tmp_path / home
    at_home(folder, monkeypatch)
    (folder / ".ssh").write_text("no folder")
    (folder / ".npmrc").write_text("kept")
    os.utime(folder / ".npmrc", (1, 1))
    found = view(workspace(tmp_path, {}))
    made = (".aws", ".docker", ".cache", ".netrc", ".databrickscfg")
    for each in (*made, ".ssh"):
        assert found["/" + os.path.normpath(f"{home}/{each}")] == "none", each
    require_empty(*(folder / each for each in made))
    assert [(folder / each).is_dir() for each in made] == [True, True, True, False, False]
    assert ((folder / ".npmrc").read_text(), (folder / ".npmrc").stat().st_mtime) == ("kept", 1)
    assert "/ann" not in found or found["/ann"] == "write"


def test_no_command_can_make_a_log_that_sqlite_applies_to_a_database(tmp_path: Path) -> None:
    """A command made the journal of a database, and the next Zeus took over the rows that it contained."""
    databases = ("data/zeus.db", "data/cp.db", "data/service.db")
    for each in databases:
        make_private(tmp_path / each)
    write(tmp_path / "zeus-serve.yaml", "storage: {url: 'sqlite:///data/service.db'}")
    write(tmp_path / "data/other.db", "no database")
    paths = [{"sqlite": {"path": path}} for path in ("data/cp.db", "data/other.db", "data/new.db")]
    for number, each in enumerate(paths[1:]):
        write(tmp_path / f".zeus/configs/p{number}.yaml", json.dumps({"version": 1, "checkpointer": each}))
    files = workspace(tmp_path, {}, storage={"url": "sqlite:///data/zeus.db"}, checkpointer=paths[0])
    found = view(files)
    logs = [f"{each}-{end}" for each in databases for end in ("journal", "wal")]
    assert [found.get(f"/{each}") for each in logs] == ["none"] * len(logs)
    require_empty(*(tmp_path / each for each in logs))
    beside = {each.name for each in (tmp_path / "data").iterdir()}
    assert beside == {Path(each).name for each in (*databases, *logs)} | {"other.db"}
    for each in databases:
        with closing(sqlite3.connect(tmp_path / each)) as connection:
            assert connection.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)


@pytest.mark.parametrize("root", [".", "agents"])
def test_no_command_adds_a_config_to_a_folder_that_a_service_runs(tmp_path: Path, root: str) -> None:
    """A command made `agents/evil.yaml`, and the next start of the service ran it for all users."""
    write(tmp_path / "agents/note.md")
    write(tmp_path / "agents/prompts/a.md")
    workspace(tmp_path, {}, root=root)
    checked = check(tmp_path / "zeus.yaml", directory=tmp_path, environ={})
    served = replace(checked, service_folders=(tmp_path / "agents",))
    found = view(make_plan(served).context.workspace)
    if root == ".":
        assert [found[f"/agents{each}"] for each in ("", "/note.md", "/prompts")] == [
            "read",
            "write",
            "write",
        ]
        assert found["/."] == "write"
    else:
        # Else no command could make anything in the workspace.
        assert found["/."] == "write"


RUN = "the package runner or the Python of a server or hook executes it or what it names"


@pytest.mark.parametrize("kind", ["server", "hook"])
def test_file_tools_change_nothing_that_a_package_runner_finds_and_programs_still_install(
    tmp_path: Path, kind: str
) -> None:
    """`.npmrc` with `node-options=--require=./notes.js` was executed by the next start of an `npx` server."""
    above = (".npmrc", "node_modules/.bin/a", "store/packages/.bin/a")
    there = ("app/.npmrc", "set/npmrc", "app/node_modules/a/i.js")
    more = ("other/node_modules/a.js", "app/package.json", "uv.toml")
    for name in (above[0], above[2], *there[1:], *more):
        write(tmp_path / name)
    (tmp_path / "app/.npmrc").symlink_to("../set/npmrc")
    (tmp_path / "node_modules").symlink_to("store/packages")
    used: dict[str, Any] = {
        "server": {
            "mcpServers": {"s": {"command": "/usr/bin/npx", "args": ["-y", "some-mcp"], "cwd": "app"}}
        },
        "hook": {"middlewares": [{"hooks": {"before_run": [{"command": ["sh", "-c", "true&&npx some"]}]}}]},
    }[kind]
    files = workspace(tmp_path, {}, **used)
    for name in (*above, *there):
        assert (RUN in str(files.write_refusal(name))) is (name in above or kind == "server"), name
    assert [name for name in more if files.write_refusal(name) is not None] == []
    files.read(".npmrc", max_bytes=9)
    found = view(files)
    assert (found["/."], found["/.npmrc"]) == ("write", "read")
    if kind == "server":
        assert (found["/app"], found["/set/npmrc"]) == ("read", "read")
        (tmp_path / "set/npmrc").unlink()
        assert RUN in str(workspace(tmp_path, {}, **used).write_refusal("set/npmrc"))
    assert not [name for name in found if "packages" in name]


NPX = '{"mcpServers": {"s": {"command": "npx", "args": ["x"]}}}'
SERVER = "mcpServers: {{s: {{command: {}, args: [{}]}}}}"


@pytest.mark.parametrize(
    ("config", "files"),
    [
        (SERVER.format("./mcp.ts", ""), {"mcp.ts": "#!/usr/bin/env -S npx -y tsx@4\n"}),
        (SERVER.format("./mcp.ts", ""), {"mcp.ts": "#!/usr/bin/env -Snpx\n"}),
        (SERVER.format("node", "mcp.ts"), {"mcp.ts": "#!/usr/local/bin/npx tsx\n"}),
        (SERVER.format("./mcp.sh", ""), {"mcp.sh": "#!/bin/sh\nexec npx -y x@1.2.3\n"}),
        (SERVER.format("sh", "mcp.sh"), {"mcp.sh": "cd app\nPORT=1 npx -y x@1.2.3 && true"}),
        (SERVER.format("sh", "-c, 'cd app && npx x'"), {"app/x": ""}),
        (
            "middlewares: [{hooks: {before_run: [{command: [./hook.ts]}]}}]",
            {"hook.ts": "#!/usr/bin/env npx\n"},
        ),
        # Of what this run does not load.
        ("", {"zeus.prod.yaml": SERVER.format("npx", "x")}),
        ("", {"zeus.prod.yaml": "middlewares: [{hooks: {before_run: [{command: [npx, x]}]}}]"}),
        ("", {"zeus.prod.yaml": "tools: [{mcp: {files: [servers.json]}}]", "servers.json": NPX}),
        ("", {"zeus.prod.yaml": SERVER.format("./mcp.sh", ""), "mcp.sh": "exec npx x"}),
        ("", {"zeus.prod.yaml": "<<<<<<< HEAD\n" + SERVER.format("npx", "x")}),
    ],
)
def test_a_package_runner_is_found_that_no_word_of_a_loaded_command_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, files: Mapping[str, str]
) -> None:
    """A script's first line or text, or a config that the next run loads, had `npx` execute what `.npmrc` named."""
    for name, text in files.items():
        write(tmp_path / name, text)
    # A folder with as many files as `node_modules` has is not covered.
    monkeypatch.setattr("zeus_runtime.trust.command_files.MOST_ENTRIES", 0)
    found = workspace(tmp_path, {}, **(yaml.safe_load(config) or {}))
    for name in (".npmrc", "node_modules/x/i.js", *(("app/.npmrc",) if "app/x" in files else ())):
        assert RUN in str(found.write_refusal(name)), name
    assert found.write_refusal("uv.toml") is None


def test_the_default_browser_starts_in_a_folder_of_its_own_and_closes_no_settings_of_the_project(
    tmp_path: Path,
) -> None:
    write(tmp_path / "zeus.prod.yaml", "connectors: {browser: {}}")
    assert workspace(tmp_path, {}).write_refusal(".npmrc") is None


@pytest.mark.parametrize(
    ("command", "files"),
    [
        (["python3", "-I", "mcp.py"], {"mcp.py": "#!/usr/bin/env python3\n# It replaces npx-server."}),
        (["./mcp"], {"mcp": "\0 npx "}),
        (["./mcp"], {"mcp": f"{'#' * (1 << 18)} npx "}),
    ],
)
def test_what_a_script_does_not_start_stays_open(
    tmp_path: Path, command: list[str], files: Mapping[str, str]
) -> None:
    for name, text in files.items():
        write(tmp_path / name, text)
    server = {"command": command[0], "args": command[1:]}
    assert workspace(tmp_path, {}, mcpServers={"s": server}).write_refusal(".npmrc") is None


def test_a_covered_program_among_installed_packages_stays_closed_to_programs(tmp_path: Path) -> None:
    write(tmp_path / "node_modules/x/i.js")
    write(tmp_path / "node_modules/y.js")
    server = {"command": "npx", "args": ["-y", "node", "node_modules/x/i.js"]}
    files = workspace(tmp_path, {}, mcpServers={"s": server})
    found = view(files)
    assert found["/node_modules/x/i.js"] == "read"
    assert "/node_modules/y.js" not in found
    assert RUN in str(files.write_refusal("node_modules/y.js"))
    named = workspace(tmp_path, {}, mcpServers={"s": {**server, "env": {"NODE_PATH": "node_modules"}}})
    assert view(named)["/node_modules"] == "read"
    lifted = workspace(tmp_path, {"node_modules": "write"}, trust="all", mcpServers={"s": server})
    assert lifted.write_refusal("node_modules/y.js") is None
    assert lifted.write_refusal("node_modules/x/i.js") is not None


@pytest.mark.parametrize("is_first", [True, False])
def test_what_decides_for_another_reason_too_is_closed_to_programs(*, is_first: bool) -> None:
    deciding = Deciding()
    for is_installed in (is_first, not is_first):
        deciding.add_names("/w", "node_modules", str(is_installed), is_installed=is_installed)
    assert deciding.find("/w/node_modules") == (Protected("False"), 0)
    assert deciding.installed == set()
    deciding.add_names("/w", ".yarn", is_installed=True)
    deciding.add("/w/.yarn")
    assert deciding.installed == set()


@pytest.mark.parametrize(
    "server", [{"command": "node", "args": ["x"]}, {"command": "npx", "cwd": "/"}, {"command": "uvx"}]
)
def test_what_package_runners_find_is_open_where_none_starts(tmp_path: Path, server: dict[str, Any]) -> None:
    files = workspace(tmp_path, {}, mcpServers={"s": server})
    for name in (".npmrc", "node_modules/x.js", "uv.toml"):
        assert files.write_refusal(name) is None, name


def test_what_a_package_runner_finds_in_a_home_folder_stays_closed_to_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home(tmp_path, monkeypatch)
    write(tmp_path / ".npmrc")
    files = workspace(tmp_path, {}, mcpServers={"s": {"command": "npx"}})
    with pytest.raises(WorkspaceError, match="no tool may read or change it"):
        files.read(".npmrc", max_bytes=9)


def test_the_guide_names_what_is_made_in_a_home_folder() -> None:
    guide = (Path(__file__).parents[2] / "docs/how-to/shell.md").read_text()
    for kind, names in (("folders", _FOLDERS_OF_PROGRAMS), ("files", _FILES_OF_PROGRAMS)):
        assert f"- {kind}: {', '.join(f'`{each}`' for each in names)}" in guide


def test_what_a_link_of_a_home_folder_leads_to_is_made_where_a_command_could(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home(tmp_path, monkeypatch)
    (tmp_path / ".azure").symlink_to("dotfiles/azure")
    (tmp_path / ".pgpass").symlink_to("files/pgpass")
    (tmp_path / ".oci").symlink_to("/elsewhere/oci")
    (tmp_path / ".kube").symlink_to(".kube")
    found = view(workspace(tmp_path, {}))
    require_empty(tmp_path / "dotfiles/azure", tmp_path / "files/pgpass")
    assert (found["/dotfiles/azure"], found["/files/pgpass"]) == ("none", "none")
    assert not os.path.lexists("/elsewhere")


def test_a_file_where_zeus_looks_for_a_folder_is_written_by_no_tool_and_stops_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home(tmp_path, monkeypatch)
    (tmp_path / ".pgpass").symlink_to("files/pgpass")
    files = workspace(tmp_path, {})
    for name in (".config", ".local", ".local/state", "files"):
        assert "so it can be no file" in str(files.write_refusal(name)), name
    assert files.write_refusal("files/other") is None
    with pytest.raises(WorkspaceError, match="so it can be no file"):
        files.write(".config", b"x")
    write(tmp_path / ".config")
    write(tmp_path / "files")
    found = view(files)
    assert (found["/.config"], found["/files"]) == ("read", "read")
    files.write("notes/a", b"x")
    files.write("notes/a", b"y")


def test_nothing_is_made_in_a_home_folder_around_or_beside_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    view(workspace(work, {}))
    assert list(tmp_path.iterdir()) == [work]


def test_a_link_that_decides_nothing_leaves_its_folder_writable(tmp_path: Path) -> None:
    write(tmp_path / "in/other/b")
    (tmp_path / "in/link").symlink_to("other")
    (tmp_path / "in/away").symlink_to("/")
    assert "/in" not in view(workspace(tmp_path, {"**/secrets/**": "deny"}))


@pytest.mark.parametrize("reason", ["mode", "depth", "length"])
def test_a_folder_that_cannot_be_looked_through_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    write(tmp_path / "a/shut/.env", "A=b")
    files = workspace(tmp_path, {})
    assert view(files)["/a/shut/.env"] == "none"
    shut = tmp_path / "a/shut"
    if reason == "mode":
        scandir = os.scandir

        def refusing(descriptor: int) -> Any:
            if os.path.samestat(os.fstat(descriptor), shut.stat()):
                raise PermissionError(shut)
            return scandir(descriptor)

        monkeypatch.setattr(os, "scandir", refusing)
    elif reason == "depth":
        monkeypatch.setattr(program_view, "_MOST_LEVELS", 1)
    else:
        monkeypatch.setattr(program_view, "LONGEST_PATH", len(str(shut)) - 1)
    found = view(files)
    assert {path: found[path] for path in found if path.startswith("/a")} == {
        "/a": "write",
        "/a/shut": "none",
    }


def test_a_folder_that_is_replaced_while_it_is_judged_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a/.env", "A=b")
    (tmp_path / "other").mkdir()
    listed = os.open

    def replacing(path: Any, *rest: Any, **more: Any) -> int:
        if path == str(tmp_path / "a") and (tmp_path / "other").exists():
            (tmp_path / "a").rename(tmp_path / "third")
            (tmp_path / "other").rename(tmp_path / "a")
        return listed(path, *rest, **more)

    files = workspace(tmp_path, {})
    monkeypatch.setattr(os, "open", replacing)
    assert view(files)["/a"] == "none"


def test_a_folder_deeper_than_the_stack_is_closed(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1_200):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    try:
        found = view(workspace(tmp_path, {}), max_files=2_000)
        assert [path for path, right in found.items() if right == "none" and "/d/d" in path] == ["/d" * 201]
    finally:
        # `shutil.rmtree` of Python recurses.
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)


def test_a_route_in_the_workspace_cannot_be_made_to_lead_elsewhere(tmp_path: Path) -> None:
    write(tmp_path / "notes/notes/a")
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    def routed(target: str) -> WorkspaceFiles:
        config = {"version": 1, "model": "gpt-4o", "tools": [], "workspace": {"routes": {"/notes/": target}}}
        (tmp_path / "zeus.yaml").write_text(json.dumps(config))
        return Agent.from_config(directory=tmp_path, environ={}, trust="all").plan.context.workspace

    found = view(routed("notes"))
    assert (found["/notes"], found.get("/notes/notes")) == ("write", None)
    found = view(routed("to/come"))
    assert (found["/to"], found["/to/come"]) == ("write", "write")
    assert (tmp_path / "to/come").is_dir()
    with pytest.raises(WorkspaceError, match="link in the workspace"):
        view(routed("link"))
    gone = routed("gone")
    write(tmp_path / "gone")
    with pytest.raises(WorkspaceError, match="cannot be made: File exists"):
        view(gone)


def test_a_read_only_folder_of_mostly_closed_files_shows_the_others_alone(tmp_path: Path) -> None:
    for name in ("a.pem", "b.pem", "c"):
        write(tmp_path / "keys" / name)
    found = view(workspace(tmp_path, {"keys/**": "read", "*.pem": "deny"}))
    assert {path: right for path, right in found.items() if "keys" in path} == {
        "/keys": "none",
        "/keys/c": "read",
    }


def kept(*own: str) -> Any:
    """While inside, the session has these files of the archive."""
    return reading_kept({str(each) for path in own for each in (path, *Path(path).parents)}.__contains__)


@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("root", [".", "work"])
def test_no_folder_is_mounted_in_which_zeus_keeps_files_of_sessions(
    tmp_path: Path, writable: bool, root: str
) -> None:
    """What another session keeps there while a program runs would be seen too."""
    (tmp_path / "work").mkdir()
    mine = ("/large_tool_results/r1", "/attached_files/ab12/mine.txt")
    for path in (*mine, "/large_tool_results/r2", "/conversation_history/s2.md", "/skills/a/SKILL.md"):
        write(tmp_path / ".zeus" / path[1:])
    files = workspace(tmp_path, {}, root=root)
    with calling("run_command"), kept(*mine):
        mounts = files.program_view(max_files=100, writable=writable)
    found = {
        os.path.relpath(each.host, tmp_path / ".zeus"): each.right for each in mounts if "/.zeus" in each.host
    }
    if root == ".":
        assert found == {
            ".": "none",
            "large_tool_results/r1": "read",
            "attached_files/ab12/mine.txt": "read",
            "skills": "read",
        }
    else:
        assert found == {
            "large_tool_results": "none",
            "large_tool_results/r1": "read",
            "attached_files": "none",
            "attached_files/ab12/mine.txt": "read",
            "conversation_history": "none",
        }


def test_a_rule_that_opens_the_folders_of_sessions_lets_no_program_see_what_comes_into_them(
    tmp_path: Path,
) -> None:
    write(tmp_path / ".zeus/large_tool_results/r1")
    files = workspace(tmp_path, {".zeus": "write", "large_tool_results": "write"}, trust="all")
    with kept("/large_tool_results/r1"):
        found = view(files)
    assert (found["/.zeus"], found["/.zeus/large_tool_results/r1"]) == ("none", "write")


@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("of", ["route", "other config", "elsewhere"])
def test_a_folder_in_the_workspace_that_zeus_will_fill_with_files_of_sessions_is_made(
    tmp_path: Path, writable: bool, of: str
) -> None:
    routes = {"/large_tool_results/": "results"}
    if of == "elsewhere":  # what users upload is in `.zeus` nevertheless
        routes |= {
            f"/{each}/": f"../{tmp_path.name}_{each}" for each in ("conversation_history", "attached_files")
        }
    if of != "other config":
        files = workspace(tmp_path, {}, routes=routes)
    else:
        workspace(tmp_path, {}, routes=routes)
        (tmp_path / "zeus.yaml").rename(tmp_path / "zeus.prod.yaml")
        files = workspace(tmp_path, {})
    with calling("run_command"):
        mounts = {each.host: each.right for each in files.program_view(max_files=100, writable=writable)}
    assert [mounts[str(tmp_path / each)] for each in ("results", ".zeus")] == ["none", "none"]


def test_a_sub_agent_in_a_folder_of_sessions_sees_the_files_of_its_session_alone(tmp_path: Path) -> None:
    """Only its parent's workspace names the folder so."""
    for name in ("s1/a", "s2/b"):
        write(tmp_path / ".zeus/sandboxes" / name)
    child = {
        "description": "x",
        "overrides": {"tools": ["filesystem"], "workspace": {"root": ".zeus/sandboxes"}},
    }
    config = {"version": 1, "model": "gpt-4o", "tools": ["filesystem", "subagents"], "agents": {"one": child}}
    (tmp_path / "zeus.yaml").write_text(json.dumps(config))
    plan = Agent.from_config(directory=tmp_path, environ={}).plan
    with kept("/sandboxes/s1/a"):
        assert view(plan.agents["one"].plan.context.workspace) == {"/.": "none", "/s1/a": "read"}


def test_a_sub_agent_whose_folder_is_named_so_above_it_sees_no_later_file(tmp_path: Path) -> None:
    """By this name its files are those of sessions, which it may not read."""
    (tmp_path / "data").mkdir()
    (tmp_path / "attached_files").symlink_to("data")
    child = {
        "description": "x",
        "overrides": {"tools": ["filesystem"], "workspace": {"root": "attached_files"}},
    }
    config = {"version": 1, "model": "gpt-4o", "tools": ["filesystem", "subagents"], "agents": {"one": child}}
    (tmp_path / "zeus.yaml").write_text(json.dumps(config))
    plan = Agent.from_config(directory=tmp_path, environ={}).plan
    with calling("run_command"):
        files = plan.agents["one"].plan.context.workspace
        assert [each.right for each in files.program_view(max_files=9, writable=False)] == ["none"]


def test_programs_see_the_newest_files_of_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long session has thousands, and each is a mount."""
    monkeypatch.setattr(program_view, "_MOST_OF_SESSION", 2)
    names = [f"/large_tool_results/{each}" for each in "dcab"]
    for at, path in enumerate(names):
        write(tmp_path / ".zeus" / path[1:])
        os.utime(tmp_path / ".zeus" / path[1:], ns=(0, 1_000 * at))
    write(tmp_path / ".zeus/large_tool_results/of_another")
    for each in "xyz":
        write(tmp_path / "src/fixed" / each)
    with kept(*names):
        found = view(workspace(tmp_path, {"src/fixed/[xyz]": "read"}))
    assert [each for each in found if "tool_results" in each] == [f"/.zeus{each}" for each in names[2:]]
    assert [each for each in found if "fixed/" in each] == ["/src/fixed/x", "/src/fixed/y", "/src/fixed/z"]


def test_another_name_of_a_key_and_a_socket_are_closed(tmp_path: Path) -> None:
    import socket

    write(tmp_path / ".env", "A=b")
    os.link(tmp_path / ".env", tmp_path / "copy")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "door"))
        found = view(workspace(tmp_path, {}))
    assert (found["/copy"], found["/door"]) == ("none", "none")


def test_a_read_only_view_has_mounts_for_what_is_closed_alone(tmp_path: Path) -> None:
    for name in ("a/b/c", "a/b/k.pem", "a/b/open/d"):
        write(tmp_path / name)
    files = workspace(tmp_path, {"*.pem": "deny"})
    with calling("run_command"):
        mounts = files.program_view(max_files=100, writable=False)
    found = [(os.path.relpath(each.host, files.root), each.right) for each in mounts]
    assert found == [(".", "read"), (".zeus", "none"), ("a/b/k.pem", "none")]


@pytest.fixture
def ignoring(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """A file system that ignores case: the folders whose names were tried in the other case, with these names."""
    tried: list[tuple[str, list[str]]] = []

    def other_spelling(folder: str, names: Sequence[str]) -> str | None:
        tried.append((Path(folder).name, sorted(names)))
        return names[0].swapcase() if names else None

    monkeypatch.setattr(program_view, "other_spelling", other_spelling)
    monkeypatch.setattr("zeus_runtime.tools.mounts.are_one_folder", lambda _one, _other: True)
    return tried


@pytest.mark.parametrize(
    ("access", "name"),
    [
        ({"in/key": "deny"}, "key"),
        ({"in/key": "ask"}, "key"),
        ({"in/key": "read"}, "key"),
        ({"**": "read", "in/key": "write", "in/sub/c": "deny"}, None),
        ({"in/sub/c": "ask"}, "c"),
        ({}, None),
    ],
)
def test_no_program_writes_where_another_spelling_reaches_a_file(
    tmp_path: Path, ignoring: list[tuple[str, list[str]]], access: Mapping[str, Any], name: str | None
) -> None:
    """A mount covers one spelling."""
    root = tmp_path / "root"
    for each in ("in/key", "in/other", "in/sub/c", "in/sub/d"):
        write(root / each)
    files = workspace(tmp_path, access, root="root")
    if name is None:
        view(files)
    else:
        with pytest.raises(WorkspaceError, match=f"by the name {name.upper()}, so a command"):
            view(files)
    assert ("sub", ["c"]) in ignoring or "in/sub/c" not in access


def test_a_read_only_folder_shows_the_listed_spellings_alone(
    tmp_path: Path, ignoring: list[tuple[str, list[str]]]
) -> None:
    for name in ("a/b/secret", "a/b/c/d", "a/e", "open/f", "k.pem"):
        write(tmp_path / name)
    files = workspace(tmp_path, {"a/b/secret": "deny", "*.pem": "deny"})
    with calling("run_command"):
        mounts = files.program_view(max_files=100, writable=False)
    found = [(os.path.relpath(each.host, files.root), each.right) for each in mounts]
    assert found == [
        (".", "read"),
        (".", "none"),
        ("a", "read"),
        ("a", "none"),
        ("a/b", "read"),
        ("a/b", "none"),
        ("a/b/c", "read"),
        ("a/e", "read"),
        ("open", "read"),
        ("zeus.yaml", "read"),
    ]
    assert ("c", []) in ignoring


def test_a_folder_that_cannot_be_asked_for_spellings_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "root/in/key")

    def gone(_folder: str, _names: Sequence[str]) -> str | None:
        raise FileNotFoundError

    monkeypatch.setattr(program_view, "other_spelling", gone)
    assert view(workspace(tmp_path, {"in/key": "deny"}, root="root"))["/in"] == "none"


@pytest.mark.parametrize("folder", ["Build", "build"])
def test_the_folder_of_a_route_is_kept_by_each_spelling(
    tmp_path: Path, ignoring: object, folder: str
) -> None:
    write(tmp_path / "root/build/a")
    files = workspace(tmp_path, {}, root="root", routes={"/out/": f"root/{folder}"})
    with pytest.raises(WorkspaceError, match=r"by the name (bUILD|BUILD), "):
        view(files)


def test_a_route_by_another_spelling_of_the_workspace_is_made(
    tmp_path: Path, ignoring: list[tuple[str, list[str]]]
) -> None:
    (tmp_path / "root").mkdir()
    files = workspace(tmp_path, {}, root="root", routes={"/out/": "ROOT/out"})
    view(files)
    assert (tmp_path / "ROOT/out").is_dir()


def test_a_link_that_a_rule_names_by_another_spelling_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("in/a", "releases/42/secrets/c", "else/now"):
        write(tmp_path / name)
    (tmp_path / "in/now").symlink_to("../releases/42")
    files = workspace(tmp_path, {})
    spelled = frozenset({str(tmp_path / "In/Now")})
    monkeypatch.setattr(Gate, "deciding_links", lambda _gate: spelled)
    assert "/in" not in view(files)
    monkeypatch.setattr("zeus_runtime.tools.mounts.are_one_folder", lambda _one, _other: True)
    assert view(workspace(tmp_path, {}))["/in"] == "read"


def test_too_many_files_are_an_error_that_names_the_limit(tmp_path: Path) -> None:
    write(tmp_path / "a")
    with pytest.raises(WorkspaceError, match="more than 1 files"):
        view(workspace(tmp_path, {}), max_files=1)


ACCESS: Final = {"shut/**": "deny", "link/**": "deny", "fixed/**": "read", "fixed/open/**": "write"}


class Looks:
    """A look that uses earlier ones, beside one that does not."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(program_view, "SETTLED_NANOSECONDS", -(10**20))
        self.kept: list[str] = []
        keep = Look.keep

        def noted(look: Look, host: str, *rest: Any) -> None:
            self.kept.append(host)
            keep(look, host, *rest)

        monkeypatch.setattr(Look, "keep", noted)
        self.folder = folder
        self.files = workspace(folder, ACCESS)

    def changed(self, *folders: str) -> dict[str, str]:
        """Return the rights after changes in some folders; both looks have the same ones."""
        # Two changes in one tick of the file system's clock have the same time.
        for each in folders:
            os.utime(self.folder / each, ns=(0, 4_000_000_000_000_000_000 + next(_TICKS)))
        self.kept.clear()
        found = view(self.files)
        judged = list(self.kept)
        assert found == view(workspace(self.folder, ACCESS))
        self.kept[:] = judged
        return found


@pytest.fixture
def looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Looks:
    for name in ("a/b/c", "a/d", "hooks/run", "shut/e", "fixed/open/f"):
        write(tmp_path / name)
    found = Looks(tmp_path, monkeypatch)
    found.changed(".", "a")
    return found


def test_an_unchanged_workspace_is_not_judged_again(looks: Looks) -> None:
    looks.changed()
    assert looks.kept == []


def test_the_looks_of_two_tools_by_turns_judge_nothing_again(looks: Looks) -> None:
    looks.files.program_view(max_files=1_000, writable=False)
    for _ in range(3):
        looks.changed()
        assert looks.kept == []
    looks.files.program_view(max_files=1_000, writable=False)
    assert looks.kept == []


def test_a_look_that_begins_during_another_one_has_its_own_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tools of one answer run at the same time, and one may only read."""
    monkeypatch.setattr(program_view, "SETTLED_NANOSECONDS", -(10**20))
    write(tmp_path / "src/a")
    write(tmp_path / "out/b")
    files = workspace(tmp_path, {"**": "read", "out/**": "write"})
    keep, begun = Look.keep, list[bool]()

    def amid(look: Look, *judged: Any) -> None:
        if not begun:
            begun.append(True)
            look_of(writable=not first)
        keep(look, *judged)

    def look_of(*, writable: bool) -> str:
        with calling("run_command"):
            mounts = files.program_view(max_files=1_000, writable=writable)
        rights = {os.path.relpath(each.host, tmp_path): each.right for each in mounts}
        return rights.get("out", rights["."])

    monkeypatch.setattr(Look, "keep", amid)
    for first in (True, False):
        begun.clear()
        os.utime(tmp_path, ns=(0, next(_TICKS)))
        for writable in (first, not first, first):
            assert look_of(writable=writable) == ("write" if writable else "read")


def test_a_new_file_and_a_new_link_are_judged(looks: Looks, tmp_path: Path) -> None:
    write(tmp_path / "a/.env")
    assert looks.changed("a")["/a/.env"] == "none"
    (tmp_path / "link").symlink_to("a")
    assert looks.changed(".")["/a"] == "none"


def test_a_folder_that_becomes_a_git_folder_protects_what_is_below(looks: Looks, tmp_path: Path) -> None:
    assert looks.changed("fixed")["/fixed/open"] == "write"
    for name in ("HEAD", "refs/x", "objects/x"):
        write(tmp_path / name)
    # Neither the folder `fixed` has changed, nor its right.
    found = looks.changed(".")
    assert (found["/."], found.get("/fixed/open")) == ("read", None)


@pytest.mark.parametrize("linked", ["a/d", "node_modules/d"])
def test_a_hard_link_made_anywhere_closes_the_file_in_an_unchanged_folder(
    looks: Looks, tmp_path: Path, linked: str
) -> None:
    """By its number of names alone, or where package managers link files, because a key is among its names."""
    write(tmp_path / linked)
    (tmp_path / "store/node_modules").mkdir(parents=True)
    parent = str(Path(linked).parent)
    assert f"/{linked}" not in looks.changed(".", parent, "store")
    os.link(tmp_path / linked, tmp_path / "store/node_modules/copy")
    found = looks.changed("store/node_modules")
    assert (f"/{linked}" in found) == (parent == "a")
    # Its other name becomes one of a key; the number of names is as before.
    (tmp_path / "store/node_modules/copy").rename(tmp_path / "store/.env")
    assert looks.changed("store/node_modules", "store")[f"/{linked}"] == "none"
    (tmp_path / "store/.env").unlink()
    assert f"/{linked}" not in looks.changed("store")


def test_a_time_that_is_set_back_hides_no_change(looks: Looks, tmp_path: Path) -> None:
    before = (tmp_path / "a").stat()
    while True:  # until the file system's clock has moved on
        write(tmp_path / "a/.env")
        os.utime(tmp_path / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
        if (tmp_path / "a").stat().st_ctime_ns != before.st_ctime_ns:
            break
    assert looks.changed()["/a/.env"] == "none"


def test_no_command_can_make_the_folder_of_compiled_files_beside_a_program(tmp_path: Path) -> None:
    for name in ("tools/__init__.py", "tools/server.py", "plain/run.sh"):
        write(tmp_path / name)
    servers = {"s": {"command": "python3", "args": ["-I", "-m", "tools.server", "plain/run.sh"]}}
    files = workspace(tmp_path, {}, mcpServers=servers)
    found = view(files)
    assert found["/tools/__pycache__"] == "read"
    assert "/plain/__pycache__" not in found


def test_no_command_reaches_the_folder_of_compiled_files_that_zeus_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert view(workspace(tmp_path, {}))["/state/zeus/pycache"] == "read"
