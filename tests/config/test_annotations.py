"""Types to schemas, JSON to typed values, arguments to what the schema says."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ConfigDict, SecretStr
from pydantic import Field as PydanticField

from zeus_runtime.config.model import Config
from zeus_runtime.config.schema import forms as typeforms
from zeus_runtime.config.schema.annotations import BuildError, build, coerce, schema_of, schema_of_function
from zeus_runtime.config.schema.marked import marked_values
from zeus_runtime.config.yaml.reader import read_value
from zeus_runtime.plugin import (
    Alias,
    Destination,
    Doc,
    Executes,
    FileRelative,
    Maximum,
    MaxLength,
    Minimum,
    MinLength,
    Pattern,
    Ref,
    RefTo,
    Secret,
    WorkRelative,
)


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Point(TypedDict):
    x: Annotated[int, Doc("Across.")]
    y: NotRequired[int]


@dataclass(frozen=True)
class Tree:
    """A tree."""

    name: str
    children: tuple[Tree, ...] = ()


@dataclass(frozen=True)
class Options:
    """What it does.

    Args:
        count: how many,
            in all.
    """

    count: int
    ratio: Annotated[float, Minimum(0), Maximum(1)] = 0.5
    name: Annotated[str, MinLength(1), MaxLength(9), Pattern("^a")] = "a"
    class_: Annotated[str, Alias("class")] = "x"
    key: Secret | None = None
    file: Annotated[str | None, FileRelative()] = None
    tags: Annotated[list[str], MinLength(1)] = field(default_factory=lambda: ["t"])
    colour: Colour = Colour.RED
    mode: Literal["a", "b", None] = "a"
    point: Point | None = None
    pair: tuple[int, str] = (1, "x")
    tree: Tree | None = None
    model: Annotated[Ref | None, RefTo("model", ("litellm", "model"))] = None
    helpers: Annotated[Mapping[str, Ref], RefTo("tool")] = field(default_factory=dict)
    path: Path = Path("x")
    number_or_text: int | float | str = 1
    anything: Any = None


def test_a_dataclass_gives_a_closed_object_with_descriptions_limits_and_defaults() -> None:
    schema = schema_of(Options)
    Draft202012Validator.check_schema(schema)
    properties = schema["properties"]
    assert schema["description"] == "What it does."
    assert schema["required"] == ["count"]
    assert schema["additionalProperties"] is False
    assert properties["count"] == {"type": "integer", "description": "how many, in all."}
    assert properties["ratio"] == {"type": "number", "minimum": 0, "maximum": 1, "default": 0.5}
    assert properties["name"] == {
        "type": "string",
        "minLength": 1,
        "maxLength": 9,
        "pattern": "^a",
        "default": "a",
    }
    assert properties["class"] == {"type": "string", "default": "x"}
    assert properties["key"] == {
        "type": ["string", "null"],
        "format": "password",
        "writeOnly": True,
        "default": None,
    }
    assert properties["file"] == {"type": ["string", "null"], "x-zeus-file-relative": True, "default": None}
    assert properties["tags"] == {
        "type": "array",
        "items": {"type": "string"},
        "minItems": 1,
        "default": ["t"],
    }
    assert properties["colour"] == {"type": "string", "enum": ["red", "blue"], "default": "red"}
    assert properties["mode"] == {"enum": ["a", "b", None], "default": "a"}
    assert properties["pair"]["prefixItems"] == [{"type": "integer"}, {"type": "string"}]
    assert properties["model"]["anyOf"][0]["x-zeus-ref"] == "model"
    assert properties["helpers"]["additionalProperties"]["x-zeus-ref"] == "tool"
    assert properties["number_or_text"]["type"] == ["integer", "number", "string"]
    assert properties["anything"] == {"default": None}


def test_a_typed_dict_is_a_closed_object_with_optional_keys() -> None:
    assert schema_of(Point) == {
        "type": "object",
        "properties": {"x": {"type": "integer", "description": "Across."}, "y": {"type": "integer"}},
        "required": ["x"],
        "additionalProperties": False,
    }
    assert build(Point, {"x": 1}) == {"x": 1}
    with pytest.raises(BuildError, match="unknown key 'z'"):
        build(Point, {"x": 1, "z": 2})


def test_a_recursive_type_refers_to_itself() -> None:
    schema = schema_of(Tree)
    validator = Draft202012Validator(schema)
    value = {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}
    assert validator.is_valid(value)
    assert not validator.is_valid({"name": "a", "children": [{"name": "b", "children": [{"nam": "c"}]}]})
    assert build(Tree, value) == Tree("a", (Tree("b", (Tree("c"),)),))


@pytest.mark.parametrize("annotation", [bytes, complex, dict[int, str], object.__call__, Ref, set[bytes]])
def test_a_type_without_a_json_form_is_refused_by_name(annotation: Any) -> None:
    with pytest.raises(TypeError):
        schema_of(annotation)


def test_an_annotation_that_names_nothing_says_what() -> None:
    @dataclass
    class Broken:
        a: Nowhere  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(TypeError, match="'Nowhere'"):
        schema_of(Broken)


def test_values_are_built_typed_and_frozen() -> None:
    built = build(
        Options,
        {
            "count": 2.0,
            "ratio": 1,
            "class": "c",
            "key": "secret",
            "colour": "blue",
            "mode": None,
            "point": {"x": 1},
            "pair": [5, "y"],
            "tree": {"name": "t"},
            "model": "gpt-5.2",
            "helpers": {"a": "todos", "b": {"files": {"x": 1}}, "c": {"files": None}},
            "path": "a/b",
            "number_or_text": 2.0,
            "anything": {"x": [1]},
        },
    )
    assert built == Options(
        count=2,
        ratio=1.0,
        class_="c",
        key=Secret("secret"),
        colour=Colour.BLUE,
        mode=None,
        point={"x": 1},
        pair=(5, "y"),
        tree=Tree("t"),
        model=Ref("litellm", {"model": "gpt-5.2"}),
        helpers={"a": Ref("todos"), "b": Ref("files", {"x": 1}), "c": Ref("files")},
        path=Path("a/b"),
        number_or_text=2.0,
        anything={"x": [1]},
    )
    assert type(built.count) is int
    assert type(built.ratio) is float
    assert type(built.number_or_text) is float
    with pytest.raises(FrozenInstanceError):
        built.count = 3


def test_an_integer_of_any_size_is_an_integer() -> None:
    assert build(int, 10**400) == 10**400
    assert build(int | None, -(10**400)) == -(10**400)
    with pytest.raises(BuildError, match="too large"):
        build(float, 10**400)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "the key 'count' is missing"),
        ({"count": "5"}, "count: expected int, got '5'"),
        ({"count": True}, "count: expected int, got True"),
        ({"count": 1.5}, "count: expected int, got 1.5"),
        ({"count": float("inf")}, "count: expected int"),
        ({"count": 1, "ratio": 10**400}, "ratio: the number is too large"),
        ({"count": 1, "ratio": 2}, "ratio: 2.0 is more than 1"),
        ({"count": 1, "name": ""}, "name: shorter than 1"),
        ({"count": 1, "name": "b"}, "name: does not match"),
        ({"count": 1, "tags": "x"}, "tags: expected a list"),
        ({"count": 1, "colour": "green"}, "colour: expected one of 'red', 'blue'"),
        ({"count": 1, "pair": [1]}, "pair: expected 2 entries"),
        ({"count": 1, "coutn": 1}, "unknown key 'coutn'"),
        ({"count": 1, "tree": {"name": "a", "children": [{}]}}, "tree.children.0: the key 'name' is missing"),
        ({"count": 1, "model": {"a": {}, "b": {}}}, "model: expected `name`"),
        ([], "expected a mapping"),
    ],
)
def test_what_does_not_fit_says_where_and_why(value: Any, message: str) -> None:
    with pytest.raises(BuildError) as raised:
        build(Options, value)
    assert str(raised.value).startswith(message)


def test_a_secret_that_does_not_fit_is_not_shown() -> None:
    with pytest.raises(BuildError) as raised:
        build(Options, {"count": 1, "key": ["hunter2"]})
    assert "hunter2" not in str(raised.value)


def test_the_schema_and_build_agree_on_the_config() -> None:
    """Every default of the Config is valid by its own schema, and building the defaults gives the default."""
    smallest = {"version": 1, "model": "m"}
    schema = schema_of(Config)
    defaults = {key: part["default"] for key, part in schema["properties"].items() if "default" in part}
    assert Draft202012Validator(schema).is_valid({**defaults, **smallest})
    assert build(Config, {**defaults, **smallest}) == build(Config, smallest)


def every_field(record: Any, path: str = "") -> list[tuple[str, Any]]:
    schema = schema_of(record)
    keys = {each.name: each.key for each in typeforms.fields(record)}
    found = []
    for entry in fields(record):
        found.append((f"{path}{entry.name}", schema["properties"][keys[entry.name]]))
        if isinstance(entry.default_factory, type) and is_dataclass(entry.default_factory):
            found += every_field(entry.default_factory, f"{path}{entry.name}.")
    return found


@pytest.mark.parametrize(("name", "schema"), every_field(Config))
def test_every_key_of_the_config_is_described(name: str, schema: dict[str, Any]) -> None:
    assert schema.get("description"), name


class Model(BaseModel):
    name: str = PydanticField(description="Its name.")
    token: SecretStr | None = None
    inner: Inner | None = None


class Inner(BaseModel):
    size: int = PydanticField(ge=1)


class OpenModel(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int = 1


def test_a_pydantic_model_is_accepted_and_closed_against_typing_errors() -> None:
    schema = schema_of(Model)
    assert not Draft202012Validator(schema).is_valid({"name": "a", "nmae": "b"})
    assert not Draft202012Validator(schema).is_valid({"name": "a", "inner": {"size": 1, "x": 1}})
    assert Draft202012Validator(schema).is_valid({"name": "a", "token": "t", "inner": {"size": 1}})
    assert schema_of(OpenModel)["additionalProperties"] is True
    built = build(Model, {"name": "a", "token": Secret("hunter2"), "inner": {"size": 2}})
    assert built.token.get_secret_value() == "hunter2"
    assert build(OpenModel, {"b": 1}).model_extra == {"b": 1}


@pytest.mark.parametrize(
    "value", [{"name": "a", "nmae": 1}, {"name": ["hunter2"]}, {"name": "a", "inner": {"size": 0}}]
)
def test_a_pydantic_models_errors_are_ours_and_show_no_value(value: Any) -> None:
    with pytest.raises(BuildError) as raised:
        build(Model, value)
    assert "hunter2" not in str(raised.value)
    assert "pydantic" not in str(raised.value)


MARKERS = {
    "executes": Executes(),
    "sent": Destination(),
    "file": FileRelative(holds_secrets=True),
    "kept": WorkRelative(protected=True, holds_keys=True),
    "folder": WorkRelative(folder=True),
    "changed": Executes(folder=True),
    "shown": Executes(shown=True),
}


def options_of(form: str, kind: Any) -> type:
    """Options with one field for each marker, named like it."""
    hints = {name: Annotated[kind, marker] for name, marker in MARKERS.items()}
    if form == "pydantic":
        return type("Options", (BaseModel,), {"__annotations__": hints})
    return dataclass(frozen=True)(type("Options", (), {"__annotations__": hints}))


@pytest.mark.parametrize("form", ["dataclass", "pydantic"])
@pytest.mark.parametrize(
    ("kind", "value", "texts"),
    [
        (str, "tool", ["tool"]),
        (str | None, "tool", ["tool"]),
        (Path, "tool", ["tool"]),
        (Colour, "red", ["red"]),
        (str | bool, "tool", ["tool"]),
        (tuple[str, ...], "[one, two]", ["one", "two"]),
        (tuple[str, ...] | None, "[one, two]", ["one", "two"]),
        (str | list[str], "[one, two]", ["one", "two"]),
        (str | list[str], "tool", ["tool"]),
        (dict[str, str] | None, "{a: tool}", ["tool"]),
        (dict[str, list[str] | None], "{a: [tool]}", ["tool"]),
        (tuple[int, str], "[1, tool]", ["tool"]),
    ],
)
def test_a_marker_holds_for_each_text_of_an_option_however_it_is_typed(
    form: str, kind: Any, value: str, texts: list[str]
) -> None:
    """A pydantic model and a union of lists lost it: nothing was asked about a program, and no file was closed."""
    schema = schema_of(options_of(form, kind))
    tree = read_value("".join(f"{name}: {value}\n" for name in MARKERS), "zeus.yaml")
    assert tree is not None
    found = [each for each in marked_values(tree, schema) if isinstance(each.node.value, str)]

    def where(name: str) -> list[str]:
        return [each.text for each in found if each.path[0] == name]

    assert [each.text for each in found if each.executes == {"value"}] == where("executes") == texts
    assert [each.text for each in found if each.signs] == where("sent") == texts
    assert [each.text for each in found if each.is_file and each.holds_secrets] == where("file") == texts
    assert [each.text for each in found if each.kept_from == {"both"}] == where("kept") == texts
    assert [each.text for each in found if each.kept_from == {"write"}] == where("folder") == texts
    assert where("changed") == where("shown") == texts
    assert [each.text for each in found if each.executes == {"name"}] == [*texts, *texts]
    assert [each.text for each in found if each.is_shown] == where("shown")
    assert [each.text for each in found if each.is_folder] == where("folder") + where("changed")


class Program(BaseModel):
    words: Annotated[list[str], Executes(command=True)]
    servers: Annotated[str, Executes(servers=True)] = ""


class Nested(BaseModel):
    programs: list[Program]
    label: str = ""


def test_a_marker_in_a_nested_pydantic_model_holds_and_marks_nothing_else() -> None:
    tree = read_value("{programs: [{words: [node, a.js], servers: s.json}], label: free}", "zeus.yaml")
    assert tree is not None
    found = {each.path: each for each in marked_values(tree, schema_of(Nested))}
    assert {path: each.executes for path, each in found.items()} == {
        ("programs", 0, "words"): {"command"},
        ("programs", 0, "servers"): {"servers"},
    }
    assert found["programs", 0, "words"].words == ("node", "a.js")


def example(
    query: str,
    limit: Annotated[int, Doc("At most."), Minimum(1)] = 5,
    tags: list[str] | None = None,
    *,
    point: Point | None = None,
    exact: bool = False,
    run: object = None,
) -> str:
    """Search the articles.

    Gives titles, best first.

    Args:
        query: what to look for,
            in words.
        tags (list[str], optional): only these.
        exact: as it is: every letter.

    Returns:
        Lines of text.

    Raises:
        ValueError: never.
    """
    return query


def test_a_function_gives_its_description_and_its_parameters() -> None:
    description, schema = schema_of_function(example)
    Draft202012Validator.check_schema(schema)
    assert description == "Search the articles.\n\nGives titles, best first."
    assert list(schema["properties"]) == ["query", "limit", "tags", "point", "exact"]
    assert schema["required"] == ["query"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["query"] == {"type": "string", "description": "what to look for, in words."}
    assert schema["properties"]["limit"] == {
        "type": "integer",
        "minimum": 1,
        "description": "At most.",
        "default": 5,
    }
    assert schema["properties"]["tags"]["description"] == "only these."
    assert schema["properties"]["exact"]["description"] == "as it is: every letter."
    assert schema_of(example) == schema


def test_a_function_that_cannot_be_described_is_refused() -> None:
    def bare(a):  # type: ignore[no-untyped-def]
        return a

    def variadic(*words: str) -> None: ...

    def keywords(**words: str) -> None: ...

    for function in (bare, variadic, keywords):
        with pytest.raises(TypeError, match=function.__name__):
            schema_of_function(function)


SCHEMA = schema_of_function(example)[1]


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ({"query": "a", "limit": "5"}, {"query": "a", "limit": 5}),
        ({"query": "a", "limit": 5.0}, {"query": "a", "limit": 5}),
        ({"query": "a", "limit": " 7 "}, {"query": "a", "limit": 7}),
        ({"query": "5", "limit": None}, {"query": "5"}),
        ({"query": "a", "tags": '["x", "y"]'}, {"query": "a", "tags": ["x", "y"]}),
        ({"query": "a", "tags": "null"}, {"query": "a", "tags": None}),
        ({"query": "a", "tags": None}, {"query": "a", "tags": None}),
        ({"query": "a", "point": '{"x": "3"}'}, {"query": "a", "point": {"x": 3}}),
        ({"query": "a", "exact": "True"}, {"query": "a", "exact": True}),
        ({"query": 5}, {"query": "5"}),
        ({"query": "null"}, {"query": "null"}),
        ({"query": '{"a": 1}'}, {"query": '{"a": 1}'}),
    ],
)
def test_what_models_send_is_repaired_where_only_the_notation_differs(sent: Any, meant: Any) -> None:
    coerced = coerce(SCHEMA, sent)
    assert coerced == meant
    assert Draft202012Validator(SCHEMA).is_valid(coerced)


@pytest.mark.parametrize(
    "sent",
    [
        {"query": None},
        {"query": "a", "limit": "five"},
        {"query": "a", "limit": "5.5"},
        {"query": "a", "limit": "NaN"},
        {"query": "a", "limit": True},
        {"query": "a", "tags": "x"},
        {"query": "a", "tags": "[x"},
        {"query": "a", "exact": "maybe"},
        {"query": "a", "exact": 1},
        {"query": "a", "other": None},
    ],
)
def test_what_does_not_fit_is_left_for_validation_to_explain(sent: Any) -> None:
    assert coerce(SCHEMA, sent) == sent
    assert not Draft202012Validator(SCHEMA).is_valid(sent)


@pytest.mark.parametrize("text", ["1e400", "-1e999", '{"a": 1e400}', "[1e400]", "[" * 100_000])
def test_a_number_that_would_run_as_another_value_is_not_read(text: str) -> None:
    """`1e400` became infinity, which was shown, and a server got null."""
    for kind in ("number", "object", "array"):
        assert coerce({"properties": {"value": {"type": kind}}}, {"value": text}) == {"value": text}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (r'["\ud800", "\ud83d\ude00"]', ["\N{REPLACEMENT CHARACTER}", "\N{GRINNING FACE}"]),
        (r'["\ude00\ud83d"]', ["\N{REPLACEMENT CHARACTER}" * 2]),
        ('["a", NaN]', '["a", NaN]'),
        ("[" * 101 + "]" * 101, "[" * 101 + "]" * 101),
    ],
)
def test_json_text_is_read_as_strictly_as_the_arguments_around_it(text: str, meant: Any) -> None:
    """Half of an emoji was shown as such, and the server got `?`."""
    assert coerce({"properties": {"value": {"type": "array"}}}, {"value": text}) == {"value": meant}


ARGUMENTS = st.fixed_dictionaries(
    {"query": st.text()},
    optional={
        "limit": st.integers(1),
        "tags": st.none() | st.lists(st.text()),
        "point": st.none() | st.fixed_dictionaries({"x": st.integers()}, optional={"y": st.integers()}),
        "exact": st.booleans(),
    },
)


@given(ARGUMENTS)
def test_arguments_that_fit_are_not_touched(arguments: dict[str, Any]) -> None:
    assert coerce(SCHEMA, arguments) == arguments


def test_sequences_and_mappings_of_the_abstract_kind_are_known() -> None:
    assert schema_of(Sequence[int]) == {"type": "array", "items": {"type": "integer"}}
    assert build(Sequence[int], [1, 2]) == (1, 2)
    assert build(Mapping[str, float], {"a": 1}) == {"a": 1.0}
    assert build(frozenset[str], ["a", "a"]) == frozenset({"a"})
