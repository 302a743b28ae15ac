"""The composed schema, and the quick yes that spares jsonschema's import."""

from __future__ import annotations

import json
import random
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from zeus_runtime.config.schema.acceptance import fits
from zeus_runtime.config.schema.composed import compose, core_schema, render
from zeus_runtime.plugin import Ref, RefTo

from . import conftest as fakes

WHOLE = {"version": 1, "model": "gpt-5.2"}


def valid(schema: dict[str, Any], **more: Any) -> bool:
    return Draft202012Validator(schema).is_valid({**WHOLE, **more})


def test_the_composed_schema_is_a_schema(schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"].endswith("2020-12/schema")


def test_the_same_components_in_any_order_render_the_same(schema: dict[str, Any]) -> None:
    shuffled = list(fakes.COMPONENTS)
    random.Random(7).shuffle(shuffled)
    assert render(compose(core_schema(), shuffled)) == render(schema)
    assert render(schema).endswith("}\n")
    assert json.loads(render(schema)) == schema


def test_composing_changes_nothing_it_is_given() -> None:
    core = core_schema()
    before = json.dumps(core)
    compose(core, fakes.COMPONENTS)
    assert json.dumps(core) == before


def test_refs_are_a_name_or_one_name_with_its_options(schema: dict[str, Any]) -> None:
    assert valid(
        schema, tools=["filesystem", {"filesystem": {"read_only": True}}, {"todos": None}, {"todos": {}}]
    )
    for wrong in ("shell", {"shell": {}}, {"filesystem": {}, "todos": {}}, {}, 5, None, {"todos": {"a": 1}}):
        assert not valid(schema, tools=[wrong]), wrong


def test_a_component_that_needs_options_cannot_stand_alone(schema: dict[str, Any]) -> None:
    assert not valid(schema, middlewares=["summary"])
    assert not valid(schema, model={"replay": None})
    assert valid(schema, model={"replay": {"cassette": "c"}})


def test_a_plain_model_is_any_name_even_a_components(schema: dict[str, Any]) -> None:
    assert valid(schema, model="replay")
    assert valid(schema, model="any/name:at-all")
    assert not valid(schema, model="")


def test_a_ref_in_a_components_options_is_checked_too(schema: dict[str, Any]) -> None:
    assert valid(
        schema, middlewares=[{"summary": {"trigger": {"tokens": 1}, "model": {"litellm": {"model": "x"}}}}]
    )
    assert not valid(schema, middlewares=[{"summary": {"trigger": {"tokens": 1}, "model": {"litelm": {}}}}])


def test_the_users_own_keys_are_free(schema: dict[str, Any]) -> None:
    assert valid(schema, **{"x-anything": [1], "metadata": {"a": {"b": 1}}})
    assert not valid(schema, **{"y-anything": 1})
    assert not valid(schema, limits={"x-inner": 1})


def test_editors_accept_a_part_that_extends_a_whole(schema: dict[str, Any]) -> None:
    validator = Draft202012Validator(schema)
    assert validator.is_valid({"extends": "default", "name": "mine"})
    assert not validator.is_valid({"name": "mine"})


def test_editors_are_told_what_each_name_is(schema: dict[str, Any]) -> None:
    arms = schema["$defs"]["ref.tool"]["anyOf"]
    assert {"type": "string", "const": "todos", "description": "A todo list."} in arms
    assert "filesystem" in arms[-1]["properties"]


def test_a_kind_without_components_accepts_none() -> None:
    schema = compose(core_schema(), [])
    Draft202012Validator.check_schema(schema)
    assert not Draft202012Validator(schema).is_valid(WHOLE)


def test_definitions_of_two_components_do_not_meet() -> None:
    one = {"type": "object", "properties": {"a": {"$ref": "#/$defs/T"}}, "$defs": {"T": {"type": "integer"}}}
    two = {"type": "object", "properties": {"a": {"$ref": "#/$defs/T"}}, "$defs": {"T": {"type": "string"}}}

    class Given(fakes.FakeComponent):
        @property
        def options_schema(self) -> dict[str, Any] | None:
            return self.options

    others = [entry for entry in fakes.COMPONENTS if entry.kind != "tool"]
    schema = compose(core_schema(), [*others, Given("tool", "one", "", one), Given("tool", "two", "", two)])
    assert valid(schema, tools=[{"one": {"a": 1}}, {"two": {"a": "x"}}])
    assert not valid(schema, tools=[{"one": {"a": "x"}}])
    assert not valid(schema, tools=[{"two": {"a": 1}}])


def test_a_ref_field_that_names_no_kind_is_a_mistake_of_its_author() -> None:
    from zeus_runtime.config.schema.annotations import schema_of

    assert schema_of(Annotated[Ref, RefTo("tool")])["x-zeus-ref"] == "tool"
    with pytest.raises(TypeError, match="RefTo"):
        schema_of(Ref)


LEAVES = st.one_of(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number", "string", "boolean", "null", "array", "object"])}
    ),
    st.fixed_dictionaries(
        {"enum": st.lists(st.sampled_from([1, 1.0, True, "a", None, 0, False]), min_size=1)}
    ),
    st.fixed_dictionaries({"const": st.sampled_from([1, True, "a", None, 0.0])}),
    st.fixed_dictionaries({"minimum": st.integers(0, 2)}),
    st.fixed_dictionaries({"exclusiveMaximum": st.integers(0, 2)}),
    st.fixed_dictionaries({"minLength": st.integers(0, 2)}),
    st.fixed_dictionaries({"pattern": st.sampled_from(["^a", "b$", "[ab]"])}),
    st.fixed_dictionaries({"required": st.lists(st.sampled_from("ab"), unique=True)}),
    st.fixed_dictionaries({"maxItems": st.integers(0, 2)}),
    st.fixed_dictionaries({"minProperties": st.integers(0, 2)}),
    st.fixed_dictionaries({"uniqueItems": st.just(True)}),
    st.fixed_dictionaries({"multipleOf": st.just(2)}),
    st.just({"$ref": "#/$defs/leaf"}),
    st.booleans(),
)
PARTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"properties": st.dictionaries(st.sampled_from("ab"), inner)},
            optional={
                "additionalProperties": inner,
                "patternProperties": st.dictionaries(st.just("^x"), inner),
            },
        ),
        st.fixed_dictionaries(
            {"items": inner}, optional={"prefixItems": st.lists(inner, min_size=1, max_size=2)}
        ),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"allOf": st.lists(inner, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"oneOf": st.lists(inner, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"if": inner}, optional={"then": inner, "else": inner}),
        st.fixed_dictionaries({"propertyNames": inner}),
        st.fixed_dictionaries({"not": inner}),
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 2, -1, 0.0, 1.0, 1.5, "", "a", "ab", "xb"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "x1"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(PARTS, VALUES)
def test_the_quick_yes_is_never_a_yes_where_jsonschema_says_no(part: Any, value: Any) -> None:
    schema = {"allOf": [part], "$defs": {"leaf": {"type": "integer"}}}
    if fits(schema, value):
        assert Draft202012Validator(schema).is_valid(value)


def test_the_quick_yes_knows_every_keyword_of_our_own_schemas(schema: dict[str, Any]) -> None:
    value = {
        **WHOLE,
        "model": {"litellm": {"model": "m", "temperature": 1, "headers": {"a": "b"}}},
        "tools": [
            "filesystem",
            {"filesystem": {"prefix": "/a", "ignore": ["x"], "max_lines": 5}},
            {"todos": None},
        ],
        "middlewares": ["history", {"summary": {"trigger": {"fraction": 0.5}, "model": "x"}}],
        "prompt": {"files": {"core": "c.md"}, "variables": {"a": "b"}, "time": {"precision": "date"}},
        "profiles": {"strict": True, "models": {"m": {"max_input_tokens": 5}}},
        "plugins": {"disable": ["a"], "only": None, "files": []},
        "x-own": 1,
    }
    assert fits(schema, value)
    assert Draft202012Validator(schema).is_valid(value)


def test_the_quick_yes_gives_up_on_what_it_does_not_know() -> None:
    assert not fits({"contentEncoding": "base64"}, "x")
    assert not fits({"$ref": "#/$defs/nowhere"}, "x")
    assert not fits({"$ref": "https://example.invalid/schema"}, "x")
    assert not fits({"properties": {"a": {"$id": "urn:x", "type": "integer"}}}, {"a": 1})
    assert not fits({"pattern": "("}, "x")
    assert not fits({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, "x")
