"""Whether a text that decides is sound: it parses and fits its schema, which then finds all that it names."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from zeus_runtime.config.schema.walk import type_name, types, walk_with
from zeus_runtime.config.secrets.unloaded_configs import agents_layers
from zeus_runtime.config.yaml.tree import Node, find
from zeus_runtime.strict_json import without_comments

if TYPE_CHECKING:
    from zeus_runtime.config.schema.walk import Schema
    from zeus_runtime.config.secrets.unloaded_configs import UnloadedConfig
    from zeus_runtime.config.yaml.tree import Path as NodePath

Searched: TypeAlias = Literal["text", "misfits", "values"]
"""What counts of a text that can be parsed: all, the values that the schema does not fit, or all values."""

SERVERS: Final = ("mcpServers", "servers")
"""The keys of servers in a file of MCP servers."""

_COMBINED: Final = frozenset(("anyOf", "oneOf", "allOf", "not"))
_ENTRIES: Final = {
    "object": _COMBINED | {"properties", "patternProperties", "additionalProperties"},
    "array": _COMBINED | {"items", "prefixItems"},
}
"""The keywords by which a schema says what is in a map or a list."""


def is_sound_config(layer: UnloadedConfig, schema: Schema) -> bool:
    """Whether a text is a config's."""
    found = (misfits(each, schema) for tree in layer.trees for each in agents_layers(tree))
    is_wrong = any(_is_fault(node, allowed) for _, node, allowed in chain.from_iterable(found))
    return bool(layer.trees) and not is_wrong


def are_sound_servers(layer: UnloadedConfig, schema: Schema) -> bool:
    """Whether a text is that of a file of MCP servers, whose other keys nobody reads."""
    # Its reader refuses comments, in which there may be further servers.
    is_read = bool(layer.trees) and layer.text == without_comments(layer.text or "")
    return is_read and all(_has_sound_servers(each, schema) for each in layer.trees)


def _has_sound_servers(tree: Node, schema: Schema) -> bool:
    servers = [each for key in SERVERS if (each := find(tree, (key,))) is not None]
    found = (misfits(tree._replace(value={SERVERS[0]: each}), schema) for each in servers)
    is_wrong = any(_is_fault(node, allowed) for _, node, allowed in chain.from_iterable(found))
    return any(each.is_map for each in servers) and not is_wrong


def misfits(tree: Node, schema: Schema) -> Iterator[tuple[NodePath, Node, frozenset[str]]]:
    """The nodes of a tree whose type the schema does not allow there, with the types that it allows."""
    free: set[NodePath] = set()
    for path, node, places in walk_with(tree, schema):
        kind = type_name(node.value)
        if path[:-1] in free or any(_is_free(each, kind) for each in places):
            free.add(path)
        elif kind not in (allowed := types(places)):
            yield path, node, allowed


def misfit_values(layer: UnloadedConfig, schema: Schema) -> Iterator[str]:
    """The texts that a layer has where its schema does not fit, with their keys: ``{file:./rules.md}`` is one."""
    for tree in chain.from_iterable(agents_layers(each) for each in layer.trees if each.is_map):
        for path, node, _ in misfits(tree, schema):
            yield from (each for each in (*path[-1:], node.value) if isinstance(each, str))


def _is_free(place: Schema, kind: str) -> bool:
    """Whether a place takes a map or a list with any content, as ``metadata`` does."""
    return kind in _ENTRIES and kind in types([place]) and _ENTRIES[kind].isdisjoint(place)


def _is_fault(node: Node, allowed: frozenset[str]) -> bool:
    # A number is filled in as a text, and `number` includes `integer`.
    is_number = "number" in allowed and type_name(node.value) == "integer"
    return not allowed or not (node.interpolated or is_number)
