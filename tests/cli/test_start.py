"""What `zeus --help`, `validate` and `plan` import, and which classes they have compiled: that is what they cost."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
import zeus_plugins

import zeus_runtime

NEVER = {
    "asyncio", "chromadb", "importlib.metadata", "jsonschema", "langchain_core", "langgraph", "litellm", "numpy",
    "pydantic", "random", "rich", "secrets", "sqlalchemy", "sqlite3", "sqlmodel", "tempfile", "tiktoken",
    "zeus_runtime.agent.agent", "zeus_runtime.run.run", "zeus_runtime.context.archive", "zeus_runtime.context.view",
    "zeus_runtime.config.secrets.secret_texts", "zeus_runtime.events", "zeus_runtime.memory.operations",
    "zeus_runtime.models.messages", "zeus_runtime.store",
}  # fmt: skip
"""What no Plan needs: libraries, the rooms of ours that only a run enters, and the reader of files with secrets."""

PROGRAM = """
import contextlib, io, json, sys
from zeus_runtime.cli import main
with contextlib.redirect_stdout(io.StringIO()):
    code = main(sys.argv[1:])
ours = {name: vars(module) for name, module in list(sys.modules.items()) if name.startswith("zeus_")}
compiled = [
    f"{name}.{each.__name__}" for name, held in ours.items() for each in held.values()
    if isinstance(each, type) and each.__module__ == name
    and "__dataclass_fields__" in vars(each) and "__frozen_shape__" not in vars(each)
]
print(json.dumps([code, sorted(sys.modules), sorted(compiled)]))
"""


def started(words: list[str], folder: Path) -> tuple[set[str], set[str]]:
    """The modules a command imported, and the dataclasses among them that the standard library compiled."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    code, modules, compiled = json.loads(done.stdout)
    assert code == 0, done.stderr
    return set(modules), set(compiled)


@pytest.mark.parametrize("preset", ["quickstart", "default", "zeus"])
@pytest.mark.parametrize("verb", ["validate", "plan"])
def test_a_preset_is_checked_and_planned_without_what_only_a_run_needs(
    verb: str, preset: str, tmp_path: Path
) -> None:
    modules, compiled = started([verb, preset], tmp_path)
    assert modules & NEVER == set()
    # These two change while they are filled; every other class has the shared methods of ``zeus_runtime.frozen``.
    assert compiled == {
        "zeus_runtime.config.layers.files.Layers",
        "zeus_runtime.config.yaml.reader._Composer",
    }


NOT_IN_A_RUN = {
    "chromadb", "langgraph_sdk.client", "langsmith.types", "litellm", "numpy", "rich", "sqlalchemy.dialects.postgresql",
    "sqlalchemy.orm", "tiktoken",
}  # fmt: skip
"""What a run without tools does not use; LangGraph imports some of it where nothing postpones that."""


def test_a_run_imports_no_library_that_it_does_not_use(tmp_path: Path) -> None:
    modules, _ = started(["run", "quickstart", "Show me", "-o", "json"], tmp_path)
    assert "langgraph.graph" in modules
    assert modules & NOT_IN_A_RUN == set()


def test_help_imports_no_config_and_no_dataclass(tmp_path: Path) -> None:
    modules, compiled = started(["--help"], tmp_path)
    assert not modules & {
        *NEVER,
        "dataclasses",
        "pluggy",
        "yaml",
        "zeus_runtime.config",
        "zeus_runtime.registry",
    }
    assert not any(name.startswith("zeus_plugins") for name in modules)
    assert not compiled


FROZEN_ALL_THE_SAME = {"zeus_runtime.events", "zeus_runtime.context.ledger"}
"""Small classes that every `zeus run` imports first, and the entry of the ledger, which each step copies."""


def dataclasses_of(file: Path) -> set[str]:
    """Which ``dataclass`` a module takes: the standard library's, or the one whose methods all classes share."""
    text = file.read_text(encoding="utf-8")
    imports = [
        node
        for node in ast.walk(ast.parse(text if "dataclass" in text else ""))
        if isinstance(node, ast.ImportFrom) and any(each.name == "dataclass" for each in node.names)
    ]
    return {"stdlib" if node.module == "dataclasses" else "frozen" for node in imports}


def test_a_class_takes_the_dataclass_of_its_place(tmp_path: Path) -> None:
    """The rule of ARCHITECTURE.md, in both directions: whoever moves onto the way to a Plan, or off it, is told."""
    way = set[str]().union(*(started(["plan", preset], tmp_path)[0] for preset in ("default", "zeus")))
    taken = {
        ".".join(file.relative_to(root.parent).with_suffix("").parts): dataclasses_of(file)
        for root in (Path(zeus_runtime.__path__[0]), Path(zeus_plugins.__path__[0]))
        for file in root.rglob("[!_]*.py")
    }
    frozen = {module for module, kinds in taken.items() if "frozen" in kinds}
    options = {module for module, kinds in taken.items() if module.endswith(".options") and kinds}
    assert options <= frozen
    assert frozen - way - options == FROZEN_ALL_THE_SAME
