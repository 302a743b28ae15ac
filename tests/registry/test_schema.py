"""The schema of what is installed comes from the committed file as far as it can."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.registry.conftest import WIKI, Discover, Install
from zeus_runtime.config.model import Plugins
from zeus_runtime.config.schema.composed import compose, core_schema, render
from zeus_runtime.errors import MissingError
from zeus_runtime.registry import Plugin, discover
from zeus_runtime.registry.schema import (
    SchemaEntry,
    bundled_schema,
    installed_schema,
    read_schema,
    schema_file,
    shipped_options,
)

WITH_OPTIONS = """
from dataclasses import dataclass
from zeus_runtime.plugin import Component, hookimpl

@dataclass(frozen=True)
class Options:
    depth: int = 2

@hookimpl
def register_tools():
    return [Component("deep", create=print, options=Options, summary="Digs.")]
"""

RECURSIVE = {
    "type": "object",
    "properties": {
        "leaf": {"$ref": "#/$defs/Leaf"},
        "ref": {"type": "string"},
        "default_ref": {"type": "object", "default": {"$ref": "kept"}},
        "fallback": {
            "x-zeus-ref": "model",
            "x-zeus-plain": ["litellm", "model"],
            "description": "The next model.",
        },
    },
    "additionalProperties": False,
    "$defs": {"Leaf": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Leaf"}}}},
}


def own_plugins(*, without: str = "") -> list[Plugin]:
    registry = discover(environ={})
    own = [plugin for plugin in registry.plugins if plugin.distribution == "zeus-runtime"]
    return [
        Plugin(plugin.name, plugin.source, plugin.distribution, plugin.version)
        for plugin in own
        if plugin.name != without
    ]


def names(schema: Mapping[str, Any]) -> set[str]:
    return {key for key in schema["$defs"] if key.count(".") == 1 and not key.startswith("ref.")}


def test_the_committed_schema_is_fresh() -> None:
    written = schema_file().read_text(encoding="utf-8")
    assert written == render(bundled_schema(discover(environ={}, installed=own_plugins()))), (
        "run `make schema`"
    )


def test_with_the_bundled_plugins_alone_the_committed_file_is_the_schema() -> None:
    registry = discover(environ={}, installed=own_plugins())
    schema, problems = installed_schema(registry)
    assert schema == json.loads(schema_file().read_text(encoding="utf-8"))
    assert problems == ()


def test_composing_from_the_committed_parts_gives_the_committed_schema() -> None:
    shipped = read_schema(schema_file())
    entries = [
        SchemaEntry(kind, name, "", shipped_options(shipped, kind, name))  # type: ignore[arg-type]
        for kind, name in (key.split(".") for key in names(shipped))
    ]
    schema = compose(core_schema(), entries)
    assert schema["$defs"].keys() == shipped["$defs"].keys()
    for name in names(shipped):
        assert schema["$defs"][name] == shipped["$defs"][name]


def test_options_taken_out_of_a_composed_schema_compose_to_the_same() -> None:
    whole = [
        SchemaEntry("model", "litellm", "", None),
        SchemaEntry("tool", "tree", "", RECURSIVE),
        SchemaEntry("tool", "tree_of_trees", "", RECURSIVE),
    ]
    shipped = compose(core_schema(), whole)
    again = [
        SchemaEntry(entry.kind, entry.name, "", shipped_options(shipped, entry.kind, entry.name))
        for entry in whole
    ]
    assert again[1].options_schema == RECURSIVE
    assert compose(core_schema(), again) == shipped


def test_another_plugins_options_are_composed_in(
    install: Install, find_plugins: Discover, installed: list[Plugin]
) -> None:
    installed += own_plugins()
    install("deep", WITH_OPTIONS)
    schema, problems = installed_schema(find_plugins())
    assert problems == ()
    assert schema["$defs"]["tool.deep"]["properties"]["depth"]["default"] == 2
    assert names(schema) == names(read_schema(schema_file())) | {"tool.deep"}


def test_a_pydantic_model_types_options_as_well(
    install: Install, find_plugins: Discover, installed: list[Plugin]
) -> None:
    installed += own_plugins()
    code = WITH_OPTIONS.replace("@dataclass(frozen=True)\nclass Options:", "class Options(BaseModel):")
    install("deep", code.replace("from dataclasses import dataclass", "from pydantic import BaseModel"))
    schema, problems = installed_schema(find_plugins())
    assert problems == ()
    assert schema["$defs"]["tool.deep"]["properties"]["depth"]["type"] == "integer"
    assert schema["$defs"]["tool.deep"]["additionalProperties"] is False


def test_a_blocked_bundled_plugin_is_not_in_the_schema(
    installed: list[Plugin], find_plugins: Discover
) -> None:
    installed += own_plugins()
    schema, _ = installed_schema(find_plugins(Plugins(disable=("filesystem",))))
    assert names(schema) == names(read_schema(schema_file())) - {"tool.filesystem"}


def test_a_plugin_that_takes_a_bundled_ones_place_brings_its_own_options(
    install: Install, find_plugins: Discover, installed: list[Plugin]
) -> None:
    installed += own_plugins(without="filesystem")
    install("deep", WITH_OPTIONS.replace('"deep"', '"filesystem"'))
    schema, _ = installed_schema(find_plugins())
    assert list(schema["$defs"]["tool.filesystem"]["properties"]) == ["depth"]


def test_options_that_cannot_be_imported_are_reported_and_take_nothing_else_down(
    install: Install, find_plugins: Discover, installed: list[Plugin]
) -> None:
    installed += own_plugins()
    install("wiki", WIKI.replace("summary", 'options="no_such_module:Options", summary'))
    schema, (problem,) = installed_schema(find_plugins())
    assert "plugin wiki (wiki-dist 1.2.3) needs no_such_module:Options" in problem.message
    assert schema["$defs"]["tool.wiki_search"]["type"] == "object"
    assert "tool.filesystem" in schema["$defs"]


def test_options_without_a_json_form_are_the_plugins_fault(
    install: Install, find_plugins: Discover, installed: list[Plugin]
) -> None:
    installed += own_plugins()
    install("deep", WITH_OPTIONS.replace("depth: int = 2", "depth: complex = 2j"))
    _, (problem,) = installed_schema(find_plugins())
    assert (
        "the tool 'deep' of plugin deep (deep-dist 1.2.3): its Options have no schema: TypeError"
        in problem.message
    )


def test_the_committed_file_is_not_written_from_a_part_of_the_plugins() -> None:
    with pytest.raises(MissingError, match=r"filesystem .* is blocked"):
        bundled_schema(discover(environ={"ZEUS_DISABLE_PLUGINS": "filesystem"}, installed=own_plugins()))


@pytest.mark.parametrize("text", [None, "{", "[]"])
def test_a_schema_file_that_is_no_schema_is_an_error(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "zeus.schema.json").write_text(text)
    with pytest.raises(MissingError, match=r"zeus\.schema\.json"):
        read_schema(tmp_path / "zeus.schema.json")


def test_no_options_are_imported_for_the_bundled_plugins() -> None:
    code = """
import sys
from zeus_runtime.registry import discover
from zeus_runtime.registry.schema import installed_schema
own = [plugin for plugin in discover(environ={}).plugins if plugin.distribution == "zeus-runtime"]
registry = discover(environ={}, installed=own)
installed_schema(registry)
print([name for name in sys.modules if name.endswith((".options", "jsonschema")) or name in ("pydantic", "asyncio")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
