"""Zeus starts no program of its own that an agent can write."""

from __future__ import annotations

import ast
import asyncio
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.shells import need_bubblewrap
from zeus_runtime import Agent
from zeus_runtime.plugin.sandbox import OwnPrograms, system_programs
from zeus_runtime.process_path import given_environ, narrow_process, pass_over
from zeus_runtime.testing import ScriptedModel, calling

ROOT = Path(__file__).parents[2]


def program(folder: Path, name: str = "tool", text: str = "#!/bin/sh\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    return folder / name


def test_a_program_of_a_folder_that_agents_write_is_passed_over(tmp_path: Path) -> None:
    project, system = tmp_path / "project", tmp_path / "system"
    for each in (project / "bin", system):
        program(each)
    (tmp_path / "link").symlink_to(project / "bin")
    for entry in (project / "bin", tmp_path / "link", tmp_path / "other/../project/bin"):
        programs = OwnPrograms({"PATH": f"{entry}:{system}"}, lambda: [project])
        assert programs.find("tool") == str(system / "tool")
        assert programs.environ()["PATH"] == str(system)


def test_a_link_to_a_program_of_the_project_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/tool").symlink_to(program(tmp_path / "project/bin"))
    (tmp_path / "linked").symlink_to(tmp_path / "project")
    mine = {"PATH": str(tmp_path / "mine")}
    assert OwnPrograms(mine, lambda: [tmp_path / "project"]).find("tool") is None
    assert OwnPrograms(mine, lambda: [tmp_path / "linked"]).find("tool") is None
    assert OwnPrograms(mine, lambda: [tmp_path / "elsewhere"]).find("tool") is not None


def test_the_folder_in_which_zeus_was_started_is_not_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path)
    monkeypatch.chdir(tmp_path)
    for path in (".", "", "./:"):
        assert OwnPrograms({"PATH": path}).find("tool") is None


def test_a_program_that_the_config_names_by_its_path_is_meant(tmp_path: Path) -> None:
    named = program(tmp_path)
    assert OwnPrograms({"PATH": ""}, lambda: [tmp_path]).find(str(named)) == str(named)
    assert OwnPrograms({"PATH": ""}).find(str(tmp_path / "absent")) is None


async def _run(project: Path, tools: str, *steps: str | object) -> None:
    (project / "zeus.yaml").write_text(f"version: 1\nmodel: gpt-4o\n{tools}\n")
    async with Agent.from_config(directory=project, model=ScriptedModel([*steps, "done"])) as agent:  # type: ignore[list-item]
        await agent.run("go")


async def test_a_git_that_an_agent_wrote_is_not_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, proof = tmp_path / "project", tmp_path / "executed"
    git = program(project / "node_modules/.bin", "git")
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q", project], check=True)
    monkeypatch.setenv("PATH", f"{git.parent}{os.pathsep}{os.environ['PATH']}")
    written = {"path": "/node_modules/.bin/git", "content": f"#!/bin/sh\ntouch {proof}\n"}
    with_context = "tools: [filesystem]\nmiddlewares: [local_context]"
    await _run(project, with_context, calling(("write_file", written)))
    assert "touch" in git.read_text()
    await _run(project, with_context)
    assert not proof.exists()


async def test_a_bubblewrap_that_a_command_wrote_is_not_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_bubblewrap()
    project, proof = tmp_path / "project", tmp_path / "executed"
    fake = program(project / ".venv/bin", "bwrap", f'#!/bin/sh\ntouch {proof}\nexec /usr/bin/bwrap "$@"\n')
    monkeypatch.setenv("PATH", f"{fake.parent}{os.pathsep}{os.environ['PATH']}")
    await _run(project, "tools: [shell]", calling(("run_command", {"command": "echo ran > file"})))
    assert (project / "file").read_text() == "ran\n"
    assert not proof.exists()


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("what", ["program", "folder"])
def test_a_link_that_leads_through_the_project_is_not_followed(
    tmp_path: Path, what: str, relative: bool
) -> None:
    """Its end is outside, but who changes the link in the project changes the end."""
    project, searched = tmp_path / "project", tmp_path / "bin"
    real = program(tmp_path / "real", "git", "#!/bin/sh\n")
    project.mkdir()
    within, end = (searched / "git", real) if what == "program" else (searched, real.parent)
    within.parent.mkdir(exist_ok=True)
    (project / "current").symlink_to(os.path.relpath(end, project) if relative else end)
    step = project / "current"
    within.symlink_to(os.path.relpath(step, within.parent) if relative else step)
    programs = OwnPrograms({"PATH": f"{searched}{os.pathsep}{tmp_path / 'none'}"}, lambda: [project])
    assert programs.find("git") is None
    other = OwnPrograms({"PATH": str(searched)}, lambda: [tmp_path / "elsewhere"])
    assert other.find("git") == str(searched / "git")


def test_the_path_of_the_process_is_the_former_one_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = f"{tmp_path}/bin{os.pathsep}bin{os.pathsep}{os.pathsep}/usr/bin{os.pathsep}/work/bin"
    monkeypatch.setenv("PATH", before)
    monkeypatch.chdir(tmp_path)
    pass_over(["/work"])
    assert os.environ["PATH"] == before, "the process is not Zeus's own"
    give_back = narrow_process()
    assert os.environ["PATH"] == f"/usr/bin{os.pathsep}/work/bin"
    with ExitStack() as stack:
        stack.enter_context(system_programs())
        pass_over(["/work"])
        assert os.environ["PATH"] == os.defpath
        assert given_environ()["PATH"] == before
    assert os.environ["PATH"] == "/usr/bin"
    inner = narrow_process()
    give_back()  # threads may end in another order
    assert os.environ["PATH"] == "/usr/bin"
    inner()
    assert os.environ["PATH"] == given_environ()["PATH"] == before


@pytest.mark.parametrize("before", [None, "", "."])
def test_a_path_of_which_nothing_is_left_is_not_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    """An empty ``PATH`` is: the system looks for a program there."""
    program(tmp_path)
    monkeypatch.chdir(tmp_path)
    if before is None:
        monkeypatch.delenv("PATH")
    else:
        monkeypatch.setenv("PATH", before)
    give_back = narrow_process()
    with pytest.raises((FileNotFoundError, NotADirectoryError)):
        subprocess.run(["tool"], check=True)
    with pytest.raises((FileNotFoundError, NotADirectoryError)):
        subprocess.run(["tool"], check=True, env=OwnPrograms({"PATH": "."}).environ())
    assert os.environ["PATH"] == (os.defpath if before is None else os.devnull)
    give_back()
    assert os.environ.get("PATH") == before == given_environ().get("PATH")


@pytest.mark.parametrize(
    "code",
    [
        "from zeus_plugins.tools.mcp.oauth.store import _from_keyring; _from_keyring()",
        "from pathlib import Path; from zeus_plugins.sandboxes.ssh.machine import Machine;"
        " from zeus_plugins.sandboxes.ssh.options import Options;"
        " Machine(Options(host='h'), Path(), {})._connection()",
    ],
)
def test_no_compiler_of_the_project_is_executed_where_libraries_are_imported(
    tmp_path: Path, code: str
) -> None:
    """`ctypes.util.find_library` starts `gcc` and `ld` from the whole `PATH`."""
    for name in ("gcc", "cc", "ld"):
        program(tmp_path / "bin", name, f"#!/bin/sh\necho $0 >> {tmp_path}/executed\n")
    environ = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environ, cwd=tmp_path, timeout=60)
    assert not (tmp_path / "executed").exists()
    subprocess.run(
        [sys.executable, "-c", "from ctypes.util import find_library; find_library('nothing-of-this-name')"],
        check=True,
        env=environ,
        timeout=60,
    )
    if sys.platform == "linux":
        assert (tmp_path / "executed").exists(), "the trap works"


def test_no_other_code_looks_programs_up() -> None:
    """``which`` would also find what an agent wrote. Where it is allowed, its result is not started here."""
    allowed = {
        "zeus_runtime/tools/own_programs.py",
        "zeus_runtime/trust/masking.py",  # only asks whether a word may be a program
        "plugins/zeus_plugins/sandboxes/ssh/remote_agent.py",  # runs on the other machine
    }
    found = {
        str(file.relative_to(ROOT))
        for folder in ("zeus_runtime", "plugins")
        for file in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if (isinstance(node, ast.Attribute) and node.attr == "which" and ast.unparse(node.value) == "shutil")
        or (
            isinstance(node, ast.ImportFrom)
            and node.module == "shutil"
            and "which" in [a.name for a in node.names]
        )
    }
    assert found == allowed
