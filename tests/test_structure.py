"""The floor plan: no module imports one that imports it, not even inside a function."""

from __future__ import annotations

from benchmarks.structure import circles, imports, modules


def test_no_modules_import_each_other() -> None:
    known = modules()
    edges = {name: {each.target for each in imports(module, known)} for name, module in known.items()}
    assert circles(edges) == []


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
