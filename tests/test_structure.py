"""The floor plan: no module imports one that imports it, not even inside a function."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache

import pytest

from benchmarks import structure
from benchmarks.structure import Module, circles, imports

# One worker parses all files, and once.
pytestmark = pytest.mark.xdist_group("structure")


@cache
def modules() -> Mapping[str, Module]:
    return structure.modules()


def test_no_modules_import_each_other() -> None:
    known = modules()
    edges = {name: {each.target for each in imports(module, known)} for name, module in known.items()}
    assert circles(edges) == []


def test_langgraph_is_named_in_one_module_of_the_core() -> None:
    naming = {name for name, module in modules().items() if "langgraph" in _roots(module.tree)}
    core = {name for name in naming if not name.startswith(("zeus_plugins", "zeus_runtime.bridges"))}
    assert core == {"zeus_runtime.run.graph"}


def test_no_class_name_means_two_things() -> None:
    homes: dict[str, list[str]] = {}
    for name, module in modules().items():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(name)
    # Each component calls its options so: the schema and the docs name them by their component.
    assert {name: found for name, found in homes.items() if len(found) > 1 and name != "Options"} == {}


def test_the_decisions_of_one_request_are_made_at_once() -> None:
    """One by one, a request that is refused would have decided some of its calls."""
    alone = {
        f"{name}.{function.name}"
        for name, module in modules().items()
        for function in ast.walk(module.tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "decide"
        if any(isinstance(each, ast.Dict) for each in (*node.args, *(each.value for each in node.keywords)))
    }
    of_one_call = "zeus_runtime.serving.http.routes.approvals.decide"
    of_one_answer = {f"zeus_plugins.protocols.mcp.calls.{name}" for name in ("_left_by", "ask")}
    assert alone == {of_one_call, *of_one_answer}


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def _roots(tree: ast.Module) -> set[str]:
    """The top-level packages that a module imports, in functions and for type checkers too."""
    names = [
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
        )
    ]
    return {name.partition(".")[0] for name in names}
