"""No compiled file beside a source runs unless the digest of its command holds it."""

from __future__ import annotations

import importlib.util
import marshal
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import run

import pytest

from zeus_runtime.trust.compiled import are_compiled_apart, compiled_apart
from zeus_runtime.trust.parts import Command, Project, command_part

PYTHON = sys.executable
LOAD = (
    "from importlib.util import *; s = spec_from_file_location('x', 'tools/server.py');"
    " s.loader.exec_module(module_from_spec(s))"
)
APART: tuple[tuple[str, ...], ...] = (
    (PYTHON, "-m", "tools.server"),
    (PYTHON, "-mtools.server"),
    (PYTHON, "-B", "-u", "-m", "tools"),
    (PYTHON, "-c", LOAD),
    (PYTHON, "tools"),
)
COUNTED: tuple[tuple[tuple[str, ...], Mapping[str, str]], ...] = (
    ((PYTHON, "-E", "-m", "tools.server"), {}),
    ((PYTHON, "-sEm", "tools.server"), {}),
    ((PYTHON, "-I", "-c", LOAD), {}),
    ((PYTHON, "-X", "pycache_prefix=", "-m", "tools.server"), {}),
    ((PYTHON, "-Xpycache_prefix=", "-m", "tools.server"), {}),
    ((PYTHON, "-m", "tools.server"), {"PYTHONPYCACHEPREFIX": ""}),
    (("/usr/bin/env", "-i", PYTHON, "-m", "tools.server"), {}),
    (("/bin/sh", "-c", f"unset PYTHONPYCACHEPREFIX; exec {PYTHON} -m tools.server"), {}),
    (("/bin/sh", "-c", f"exec {PYTHON} -E tools"), {}),
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    tools = folder / "tools"
    tools.mkdir(parents=True)
    (tools / "__init__.py").write_text("")
    (tools / "server.py").write_text("print('honest')\n")
    (tools / "__main__.py").write_text("import sys; sys.path.insert(0, '.'); import tools.server\n")
    return folder


def forge(source: Path) -> None:
    """Make a compiled file that Python takes for that of the source."""
    status = source.stat()
    file = Path(importlib.util.cache_from_source(str(source)))
    file.parent.mkdir(exist_ok=True)
    numbers = (0, int(status.st_mtime), status.st_size)
    head = importlib.util.MAGIC_NUMBER + b"".join(each.to_bytes(4, "little") for each in numbers)
    file.write_bytes(head + marshal.dumps(compile("print('forged')", str(source), "exec")))


def digest(project: Path, words: tuple[str, ...], env: Mapping[str, str]) -> str:
    return command_part(Command("s", words, env), Project(project, (project,))).digest


def said(project: Path, words: tuple[str, ...], env: Mapping[str, str]) -> str:
    """The output of a command that is started as Zeus starts programs."""
    given = {"PATH": os.defpath, **compiled_apart({"HOME": str(project.parent)}), **env}
    return run(words, cwd=project, env=given, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("words", APART)
def test_a_python_that_zeus_starts_uses_no_forged_file_and_keeps_its_digest(
    project: Path, words: tuple[str, ...]
) -> None:
    before = digest(project, words, {})
    assert said(project, words, {}) == "honest"
    assert not list(project.rglob("*.pyc"))
    assert list((project.parent / ".local/state/zeus/pycache").rglob("*.pyc")) or "-B" in words
    forge(project / "tools/server.py")
    assert said(project, words, {}) == "honest"
    assert digest(project, words, {}) == before, "the user's own Python writes such files"


@pytest.mark.parametrize(("words", "env"), COUNTED)
def test_a_forged_file_that_runs_is_in_the_digest(
    project: Path, words: tuple[str, ...], env: Mapping[str, str]
) -> None:
    before = digest(project, words, env)
    forge(project / "tools/server.py")
    forged = digest(project, words, env)
    assert forged != before
    assert said(project, words, env) == "forged"
    (file,) = project.rglob("server.*.pyc")
    file.write_bytes(file.read_bytes() + b"\0")
    assert digest(project, words, env) not in (before, forged)


@pytest.mark.parametrize("words", [("uvx", "mcp", "run", "tools/server.py"), ("tools/x", "tools")])
def test_a_program_that_only_may_be_a_python_counts_compiled_files(
    project: Path, words: tuple[str, ...]
) -> None:
    assert not are_compiled_apart(words, {})
    if words[-1] != "tools":
        before = digest(project, words, {})
        (project / "tools/server.js").write_text("")
        assert digest(project, words, {}) == before, "only the source's compiled files join it"
    before = digest(project, words, {})
    forge(project / "tools/server.py")
    assert digest(project, words, {}) != before


def test_without_a_private_folder_no_compiled_file_is_used(project: Path) -> None:
    state = project.parent / ".local/state"
    folder = state / "zeus/pycache"
    home = {"HOME": str(project.parent)}
    assert compiled_apart(home) == {"PYTHONPYCACHEPREFIX": str(folder)}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert compiled_apart({**home, "XDG_STATE_HOME": str(state)}) == compiled_apart(home)
    nowhere = {"PYTHONPYCACHEPREFIX": os.devnull}
    assert compiled_apart({}) == compiled_apart({"HOME": "here"}) == nowhere
    for open_mode in (0o770, 0o755):  # the second as in a checkout, where the home folder is a clone
        folder.chmod(open_mode)
        assert compiled_apart(home) == nowhere
    folder.rmdir()
    folder.write_text("")
    assert compiled_apart(home) == nowhere
    forge(project / "tools/server.py")
    assert said(project, APART[0], {}) == "honest"
