"""The example plugins, installed from their wheels into a clean environment beside Zeus's own wheel."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "zeus-wiki"
MEMORY = ROOT / "examples" / "zeus-langgraph-memory"

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheels")]


def run(*command: str | Path, cwd: Path, exit_code: int | None = 0) -> str:
    """A command's output; PYTHONPATH and ZEUS_* of the caller do not reach it. What it executes is trusted."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ZEUS_"))}
    environ |= {"HOME": str(cwd), "XDG_CONFIG_HOME": str(cwd / "config"), "ZEUS_TRUST": "all"}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environ, capture_output=True, text=True
    )
    assert exit_code in (None, done.returncode), f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels, built from copies of what version control would hold."""
    folder = tmp_path_factory.mktemp("wheels")
    built: dict[str, Path] = {}
    for name, source in (("zeus_runtime", ROOT), ("zeus_wiki", EXAMPLE), ("zeus_langgraph_memory", MEMORY)):
        copy = folder / name
        skipped = shutil.ignore_patterns(
            ".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "tests", "examples"
        )
        shutil.copytree(source, copy, ignore=skipped)
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=copy)
        (built[name],) = folder.glob(f"{name}-*.whl")
    return built


@pytest.fixture(scope="module")
def clean(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment's python with the wheels. Third-party libraries are seen through a path file.

    The path file adds a folder without processing the path files inside it, so an editable Zeus is not seen.
    """
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder / "env", with_pip=False)
    (python,) = (folder / "env").glob("bin/python")
    packages = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    )
    for wheel in wheels.values():
        pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
        run(*pip, "install", "--quiet", "--no-deps", "--no-index", "--no-compile", wheel, cwd=folder)
    (packages / "third_party.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def ask(python: Path, code: str, cwd: Path) -> object:
    """What ``code`` prints as JSON, run in the clean environment."""
    return json.loads(run(python, "-c", code, cwd=cwd))


def test_zeus_wheel_carries_its_home_and_its_entry_points(wheels: dict[str, Path]) -> None:
    with ZipFile(wheels["zeus_runtime"]) as archive:
        names = set(archive.namelist())
    for folder in ("configs", "prompts", "schemas"):
        files = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*") if path.is_file()}
        assert files, f"{folder}/ is empty"
        assert {f"zeus_runtime/_home/{name}" for name in files} <= names
    assert "zeus_runtime/py.typed" in names
    assert "zeus_plugins/tools/filesystem/__init__.py" in names
    assert not [name for name in names if name.startswith(("tests/", "examples/", "docs/", "configs/"))]


def test_nothing_is_found_from_the_checkout(clean: Path, tmp_path: Path) -> None:
    code = """
import json, sys, zeus_runtime, zeus_plugins, zeus_wiki
from zeus_runtime.registry import bundled_home, discover
registry = discover(environ={})
files = [module.__file__ for module in sys.modules.values() if getattr(module, "__file__", None)]
files += sys.path + [str(bundled_home()), *(str(home) for _, home in registry.homes)]
print(json.dumps(files))
"""
    files = ask(clean, code, tmp_path)
    assert isinstance(files, list)
    environment = clean.parents[1]
    ours = [file for file in files if "zeus" in Path(file).name or "/zeus_" in file]
    assert len(ours) > 10
    assert [file for file in ours if not Path(file).is_relative_to(environment)] == []
    assert [file for file in files if file == str(ROOT) or Path(file).is_relative_to(ROOT / "plugins")] == []


def test_the_plugin_is_found_beside_the_bundled_ones(clean: Path, tmp_path: Path) -> None:
    code = """
import json
from zeus_runtime.registry import discover
registry = discover(environ={})
print(json.dumps({
    "plugins": {str(plugin): plugin.status for plugin in registry.plugins},
    "components": [f"{found.kind} {found.name}" for found in registry.all()],
    "problems": [str(problem) for problem in registry.problems],
}))
"""
    found = ask(clean, code, tmp_path)
    assert isinstance(found, dict)
    assert found["plugins"]["wiki (zeus-wiki 0.1.0)"] == "loaded"
    assert set(found["plugins"].values()) == {"loaded"}
    assert {"tool wiki", "middleware glossary", "tool filesystem"} <= set(found["components"])
    assert found["problems"] == []


def test_its_options_are_in_the_schema_and_its_profile_is_in_a_home(clean: Path, tmp_path: Path) -> None:
    code = """
import json
from pathlib import Path
from zeus_runtime.models.profiles import lookup
from zeus_runtime.registry import discover, search_path
from zeus_runtime.registry.schema import installed_schema
registry = discover(environ={})
schema, problems = installed_schema(registry)
homes = search_path(directory=Path(), environ={}, homes=["plugin:wiki"], homes_of=registry.homes_of)
print(json.dumps({
    "options": sorted(schema["$defs"]["tool.wiki"]["properties"]),
    "glossary": sorted(schema["$defs"]["middleware.glossary"]["properties"]),
    "window": lookup("openai/harbour-scholar-8k", homes=homes).max_input_tokens,
}))
"""
    assert ask(clean, code, tmp_path) == {
        "options": ["max_characters", "max_results"],
        "glossary": ["in_results", "max_terms", "terms"],
        "window": 8192,
    }


SCRIPTED = """
from langchain_core.messages import AIMessage

from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.model import ModelResponse, TextDelta


class Scripted:
    name = "openai/harbour-scholar-8k"

    async def stream(self, request):
        last = request.messages[-1]
        if last.type == "human":
            call = {"id": "call_1", "name": "wiki_search", "args": {"query": last.text}}
            yield ModelResponse(AIMessage("", tool_calls=[call]), finish_reason="tool_calls")
        else:
            yield TextDelta(last.text)
            yield ModelResponse(AIMessage(last.text))


@hookimpl
def register_models():
    return [Component("scripted", create=lambda options, context: Scripted(), summary="Searches, then reads aloud.")]
"""


def zeus(clean: Path, *arguments: str, cwd: Path, exit_code: int | None = 0) -> str:
    return run(clean.parent / "zeus", *arguments, cwd=cwd, exit_code=exit_code)


def test_zeus_plugins_lists_it(clean: Path, tmp_path: Path) -> None:
    assert re.search(r"^wiki\b.*zeus-wiki.*0\.1\.0", zeus(clean, "plugins", cwd=tmp_path), re.MULTILINE)


def test_its_yaml_is_valid_and_a_wrong_option_is_not(clean: Path, tmp_path: Path) -> None:
    shutil.copy(EXAMPLE / "wiki.yaml", tmp_path / "zeus.yaml")
    assert zeus(clean, "validate", cwd=tmp_path) == "zeus.yaml: ok\n"
    said = zeus(clean, "validate", "--set", "tools.0.wiki.max_results=99", cwd=tmp_path, exit_code=3)
    assert "out-of-range" in said


def test_the_plan_counts_with_its_profile(clean: Path, tmp_path: Path) -> None:
    shutil.copy(EXAMPLE / "wiki.yaml", tmp_path / "zeus.yaml")
    plan = zeus(clean, "plan", "--all", cwd=tmp_path)
    assert "8,192" in plan
    assert "o200k_base" in plan


def test_its_home_changes_only_the_configs_that_name_it(clean: Path, tmp_path: Path) -> None:
    (tmp_path / "zeus.yaml").write_text("version: 1\nmodel: openai/gpt-5.2\n")
    plain = json.loads(zeus(clean, "plan", "--format", "json", cwd=tmp_path))
    assert "house's own words" not in plain["prompt"]["soul"]
    assert {each["plugin"] for each in plain["prompt_sources"].values()} == {None}
    shutil.copy(EXAMPLE / "wiki.yaml", tmp_path / "zeus.yaml")
    named = json.loads(zeus(clean, "plan", "--format", "json", cwd=tmp_path))
    assert "house's own words" in named["prompt"]["soul"]
    assert named["prompt_sources"]["soul"]["plugin"] == "wiki"
    assert named["prompt_sources"]["core"]["plugin"] is None


def test_its_preset_is_extended_by_name_and_brings_its_home(clean: Path, tmp_path: Path) -> None:
    (tmp_path / "zeus.yaml").write_text("extends: harbour\nname: porter\n")
    plan = json.loads(zeus(clean, "plan", "--format", "json", cwd=tmp_path))
    assert (plan["agent"], plan["profile"]["max_input_tokens"]) == ("porter", 8192)
    assert "house's own words" in plan["prompt"]["soul"]
    assert zeus(clean, "validate", "harbour", cwd=tmp_path).endswith("harbour.yaml: ok\n")
    zeus(clean, "init", "own.yaml", "--preset", "harbour", cwd=tmp_path)
    assert zeus(clean, "validate", "own.yaml", cwd=tmp_path) == "own.yaml: ok\n"


def test_a_run_uses_its_tool_and_its_middleware_by_name(clean: Path, tmp_path: Path) -> None:
    (tmp_path / "scripted.py").write_text(SCRIPTED, encoding="utf-8")
    config = (EXAMPLE / "wiki.yaml").read_text(encoding="utf-8")
    (tmp_path / "zeus.yaml").write_text(config, encoding="utf-8")
    own = "model={scripted: {}}", "plugins.files=[scripted.py]", "middlewares.0.glossary.in_results=true"
    sets = [part for value in own for part in ("--set", value)]
    answer = zeus(clean, "run", "zeus.yaml", "When does a release leave?", *sets, cwd=tmp_path)
    assert "A release leaves the harbour on Wednesday." in answer
    assert "- Pilot: the person on call who answers first" in answer


def test_its_own_tests_pass_there(clean: Path, tmp_path: Path) -> None:
    without_package = shutil.ignore_patterns("__pycache__", "zeus_wiki", "dist")
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True, ignore=without_package)
    output = run(clean, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", cwd=tmp_path)
    assert " passed" in output


def test_the_memory_backend_is_used_from_its_wheel(clean: Path, tmp_path: Path) -> None:
    pytest.importorskip("langgraph.store.sqlite")
    shutil.copy(MEMORY / "graph.yaml", tmp_path / "zeus.yaml")
    assert "memory:" in (tmp_path / "zeus.yaml").read_text()
    added = zeus(clean, "memory", "add", "The user plays the cello", cwd=tmp_path).strip()
    found = json.loads(zeus(clean, "memory", "search", "cello", "--format", "json", cwd=tmp_path))
    assert [each["id"] for each in found["memories"]] == [added]
    assert list(tmp_path.glob("*.db")), "the engine has a file of its own"
    said = zeus(clean, "doctor", cwd=tmp_path, exit_code=None)
    assert "the backend langgraph answers" in said
