"""The bundled plugins go through the public door: entry points, public names, light modules."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from zeus_plugins import catalogue

from zeus_runtime.registry import discover, load_create, load_options

ROOT = Path(__file__).parents[2]
PLUGINS = ROOT / "plugins"
SOURCES = sorted((PLUGINS / "zeus_plugins").rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(PLUGINS).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path) -> set[str]:
    """The modules and names a source imports, also inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{'.' * node.level}{node.module or ''}:{alias.name}" for alias in node.names}
    return names


def test_the_catalogue_has_every_plugin_and_every_plugin_is_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["zeus.plugins"]
    with_hooks = {module_name(path) for path in SOURCES if "zeus_runtime.plugin:hookimpl" in imported(path)}
    assert with_hooks == {catalogue.__name__}
    listed = {
        f"{catalogue.__name__}:{kind}.{name}"
        for kind, plugins in vars(catalogue).items()
        if isinstance(plugins, SimpleNamespace)
        for name in vars(plugins)
    }
    assert sorted(declared.values()) == sorted(listed)
    for plugin, reference in declared.items():
        kind, name = reference.partition(":")[2].split(".")
        # Two kinds may have a component of one name; a plugin has a name of its own.
        assert plugin == name or plugin.startswith(f"{name}_")
        (component,) = getattr(getattr(getattr(catalogue, kind), name), f"register_{kind}")()
        assert component.create.startswith(f"zeus_plugins.{kind}.")


def test_the_declared_plugins_are_installed_and_load_without_a_problem() -> None:
    registry = discover(environ={})
    bundled = {
        plugin.name: plugin.status for plugin in registry.plugins if plugin.distribution == "zeus-runtime"
    }
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["zeus.plugins"]
    assert bundled == dict.fromkeys(declared, "loaded")
    assert not [problem for problem in registry.problems if problem.plugin and problem.plugin.name in bundled]


@pytest.mark.parametrize("path", SOURCES, ids=[module_name(path) for path in SOURCES])
def test_bundled_plugins_use_only_public_names(path: Path) -> None:
    for name in imported(path):
        module = name.partition(":")[0]
        assert not module.startswith("."), f"{name}: write absolute imports"
        if module.partition(".")[0] == "zeus_runtime":
            assert f"{module}.".startswith("zeus_runtime.plugin.") or name == "zeus_runtime:__version__", (
                f"{name} is not for plugins"
            )


def test_discovery_imports_nothing_heavy_and_no_code_behind_the_components() -> None:
    code = """
import sys
from zeus_runtime.registry import discover
registry = discover(environ={})
assert len(registry.all()) >= 7, registry.problems
heavy = {"pydantic", "asyncio", "rich", "langchain_core", "langgraph", "litellm", "sqlmodel", "sqlalchemy",
         "tiktoken", "chromadb", "importlib.metadata", "jsonschema", "click"}
behind = {reference.partition(":")[0] for registered in registry.all()
          for reference in (registered.component.create, registered.component.options) if isinstance(reference, str)}
print(sorted((heavy | behind) & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "registered", discover(environ={}).all(), ids=lambda registered: f"{registered.kind}-{registered.name}"
)
def test_every_bundled_component_resolves(registered: object) -> None:
    from zeus_runtime.registry import Registered, options_schema

    assert isinstance(registered, Registered)
    assert callable(load_create(registered))
    options = load_options(registered)
    schema = options_schema(registered)
    assert (options is None) == (schema is None)
    assert schema is None or schema["additionalProperties"] is False
    assert registered.summary
