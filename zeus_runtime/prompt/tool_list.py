"""Section 3's list: every tool that the mode shows, as text. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from zeus_runtime.config.schema.walk import NOTHING, as_mapping
from zeus_runtime.cutting import first_line, unwrapped
from zeus_runtime.tools.deferred import LOADER

if TYPE_CHECKING:
    from zeus_runtime.tools.modes import ShownTool

_DEPTH = 4


def tools_description(shown: Sequence[ShownTool], style: Literal["full", "brief"]) -> str:
    """``{{tools_description}}``: the callable tools, the deferred ones, then those that only agent mode may call.

    Args:
        shown: the tools that the mode shows, in the order in which the model sees them.
        style: ``full`` gives description and parameters, ``brief`` the name and the description's first line.
    """
    callable_tools = [each for each in shown if each.callable and not each.tool.deferred]
    deferred = [each for each in shown if each.callable and each.tool.deferred]
    placeholders = [tool for tool in shown if not tool.callable]
    if style == "full":
        blocks = ["\n".join(_full(tool)) for tool in callable_tools]
    else:
        blocks = ["\n".join(_brief(tool) for tool in callable_tools)] if callable_tools else []
    if deferred:
        listed = "\n".join(_brief(tool) for tool in deferred)
        blocks.append(
            f"These tools are listed by name only. Before you use one, call {LOADER} with its name to get its"
            f" parameters:\n{listed}"
        )
    if not blocks:
        blocks = ["There are no tools you can call now."]
    if placeholders:
        mode = placeholders[0].mode
        listed = "\n".join(_brief(tool) for tool in placeholders)
        blocks.append(
            f"These tools exist and cannot be called in {mode} mode. When the user's request needs one, say so and "
            f"tell the user to switch to agent mode:\n{listed}"
        )
    return "\n\n".join(blocks)


def _brief(shown: ShownTool) -> str:
    return f"- {shown.name}: {first_line(shown.tool.description)}"


def _full(shown: ShownTool) -> Iterator[str]:
    yield f"### {shown.name}"
    yield shown.description.strip()
    schema = shown.parameters
    required = schema.get("required", ())
    for name, given in schema.get("properties", {}).items():
        parameter = as_mapping(given)
        facts = [_type(parameter, schema, _DEPTH)]
        if name in required:
            facts.append("required")
        elif parameter.get("default") is not None:
            facts.append(f"default {json.dumps(parameter['default'], ensure_ascii=False)}")
        text = unwrapped(_resolved(parameter, schema).get("description", ""))
        yield f"- {name} ({', '.join(facts)}){': ' if text else ''}{text}"


def _type(given: Any, root: Mapping[str, Any], depth: int) -> str:
    schema = _resolved(given, root)
    if depth == 0:
        return "..."
    if schema == NOTHING:
        return "nothing"
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if "enum" in schema:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " | ".join(dict.fromkeys(_type(branch, root, depth) for branch in schema[union]))
    kind = schema.get("type", "any")
    if not isinstance(kind, str):
        return " | ".join(_type({**schema, "type": each}, root, depth) for each in kind)
    if kind == "array":
        item = _type(schema.get("items", {}), root, depth - 1)
        # Items that `prefixItems` describes are left out here.
        return "list" if item in ("any", "nothing") else f"list of {item}"
    if kind == "object" and schema.get("properties"):
        inner = (f"{name}: {_type(value, root, depth - 1)}" for name, value in schema["properties"].items())
        return f"{{{', '.join(inner)}}}"
    return f"{kind}{_limits(schema)}"


def _limits(schema: Mapping[str, Any]) -> str:
    least = f" >= {schema['minimum']}" if "minimum" in schema else ""
    most = f" <= {schema['maximum']}" if "maximum" in schema else ""
    return least + most


def _resolved(given: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    seen: set[str] = set()
    schema = as_mapping(given)
    # A schema may refer to itself, directly or in a circle.
    while isinstance(reference := schema.get("$ref"), str) and reference not in seen:
        seen.add(reference)
        target: Any = root
        for step in reference.removeprefix("#/").split("/"):
            target = target.get(step, {}) if isinstance(target, Mapping) else {}
        schema = {**as_mapping(target), **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema
