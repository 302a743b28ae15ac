"""`output`: which strategy a plan chooses, which schemas it refuses and where, and what a named model may execute."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.agents import script, write_agent
from zeus_runtime import Agent, ConfigError, UntrustedError
from zeus_runtime.errors import MissingError
from zeus_runtime.plan.answer_schema import unenforced
from zeus_runtime.plan.output import PlannedOutput
from zeus_runtime.prompt import Section

STRICT: dict[str, Any] = {
    "type": "object",
    "properties": {"title": {"type": "string"}},
    "required": ["title"],
    "additionalProperties": False,
}
OPEN: dict[str, Any] = {"type": "object", "properties": {"title": {"type": "string"}}}
LISTED = {"type": "array", "items": {"type": "string"}}
NO_FORMATS = "profiles: {models: {gpt-4o: {response_schema: false}}}\n"


def planned(folder: Path, schema: Any, more: str = "", **output: Any) -> PlannedOutput:
    yaml = f"output: {json.dumps({'schema': schema, **output})}\n{more}"
    found = Agent.from_config(write_agent(folder, yaml), directory=folder).plan.output
    assert found is not None
    return found


def refused(folder: Path, schema: Any, more: str = "", **output: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        planned(folder, schema, more, **output)
    assert caught.value.exit_code == 3
    return str(caught.value)


@pytest.mark.parametrize(
    ("schema", "more", "strategy", "why"),
    [
        (STRICT, "", "response_format", "gpt-4o holds answers to it"),
        (OPEN, "", "tool", "an object needs `additionalProperties: false`"),
        (STRICT, NO_FORMATS, "tool", "no table says that gpt-4o holds answers to a schema"),
        (LISTED, "", "prompt", "its top level is not `type: object`"),
        ({"anyOf": [STRICT]}, "", "prompt", "its top level is not `type: object`"),
        ({**STRICT, "anyOf": [{}]}, "", "prompt", "its top level has `anyOf`"),
    ],
)
def test_the_strategy_follows_from_profile_and_schema(
    tmp_path: Path, schema: Any, more: str, strategy: str, why: str
) -> None:
    form = planned(tmp_path, schema, more)
    assert form.strategy == strategy
    assert why in form.why
    assert (form.tool is not None) is (strategy == "tool")
    assert bool(form.settings) is (strategy == "response_format")


def test_a_model_that_no_table_knows_is_called_and_the_user_may_know_better(tmp_path: Path) -> None:
    yaml = f"output: {{schema: {json.dumps(STRICT)}}}\nprofiles: {{models: {{acme-1: MORE}}}}\n"
    strategies = []
    for more in ("{max_input_tokens: 9000}", "{max_input_tokens: 9000, response_schema: true}"):
        config = write_agent(tmp_path, yaml.replace("MORE", more))
        config.write_text(config.read_text().replace("gpt-4o", "acme-1"))
        output = Agent.from_config(config, directory=tmp_path).plan.output
        strategies.append(output.strategy if output else None)
    assert strategies == ["tool", "response_format"]


def test_a_strategy_is_taken_or_refused_and_never_replaced(tmp_path: Path) -> None:
    assert planned(tmp_path, STRICT, strategy="tool").strategy == "tool"
    assert planned(tmp_path, LISTED, strategy="prompt").strategy == "prompt"
    assert "zeus.yaml:6:" in refused(tmp_path, LISTED, strategy="tool")
    assert "additionalProperties" in refused(tmp_path, OPEN, strategy="response_format")
    unknown = refused(tmp_path, STRICT, NO_FORMATS, strategy="response_format")
    assert "no table says that gpt-4o holds answers to a schema" in unknown
    assert "write `response_schema: true` under profiles.models.gpt-4o" in unknown


def test_the_prompt_and_the_plan_tell_the_form(tmp_path: Path) -> None:
    yaml = f"output: {{schema: {json.dumps(LISTED)}}}\n"
    plan = Agent.from_config(write_agent(tmp_path, yaml), directory=tmp_path).plan
    assert plan.stable[Section.MODE].endswith(json.dumps(LISTED))


def test_every_change_of_the_form_changes_the_digest(tmp_path: Path) -> None:
    forms: list[dict[str, Any]] = [
        {"schema": OPEN},
        {"schema": {**OPEN, "required": ["title"]}},
        {"schema": OPEN, "repairs": 7},
        {"schema": OPEN, "strategy": "prompt"},
    ]
    digests = [
        Agent.from_config(
            write_agent(tmp_path, f"output: {json.dumps(each)}\n"), directory=tmp_path
        ).plan.digest
        for each in forms
    ]
    digests.append(Agent.from_config(write_agent(tmp_path), directory=tmp_path).plan.digest)
    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "strnig"}, "'strnig' is not valid"),
        ({"type": "object", "properties": {"a": {"minimum": "1"}}}, "'1' is not of type 'number'"),
        ({"$schema": "https://json-schema.org/draft/2099/schema"}, "is not a known version of JSON Schema"),
        ({"$ref": "#/$defs/Gone"}, "'#/$defs/Gone' is not in this schema"),
        ({"$ref": "https://host.example/s.json"}, "'https://host.example/s.json' is not in this schema"),
        ({"$ref": "#"}, "refers to itself without end"),
        ({"properties": {"a": {"$ref": "#/properties/a"}}}, "refers to itself without end"),
        ({"properties": {"a": {"$dynamicRef": "#gone"}}}, "'#gone' is not in this schema"),
        ({"type": "string", "pattern": "("}, "is not a 'regex'"),
        ({"enum": ["x" * 210_000]}, "200,000 are the most"),
    ],
)
def test_a_schema_that_is_none_is_refused_at_its_place(tmp_path: Path, schema: Any, said: str) -> None:
    told = refused(tmp_path, schema)
    assert said in told
    assert "zeus.yaml:6:" in told
    assert "help: " in told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"type": "object",\n "properties": {"a": {"type": 7}}}', "answer.json:2:"),
        ("{", "answer.json:2:1: yaml-syntax"),
        ("[]", "answer.json"),
        (None, "zeus.yaml:6:29: missing-file: the schema answer.json cannot be read: No such file"),
    ],
)
def test_a_fault_of_a_file_has_its_place(tmp_path: Path, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / "answer.json").write_text(text)
    assert said in refused(tmp_path, {"file": "answer.json"})


@pytest.mark.timeout(20)  # a pipe is waited for without end
def test_a_pipe_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "answer.json")
    said = refused(tmp_path, {"file": "answer.json"})
    assert "missing-file: the schema answer.json cannot be read: it is not a regular file" in said


def test_a_file_is_found_beside_the_layer_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base/answer.yaml").write_text("type: object\nproperties: {title: {type: string}}\n")
    (tmp_path / "base/zeus.yaml").write_text("output: {schema: {file: answer.yaml}}\n")
    plan = Agent.from_config(write_agent(tmp_path, "extends: ./base/zeus.yaml\n"), directory=tmp_path).plan
    assert plan.output is not None
    assert plan.output.schema == OPEN


def a(node: Any, **defs: Any) -> dict[str, Any]:
    return {**STRICT, "properties": {"title": node}, **({"$defs": defs} if defs else {})}


DEEP: Any = {"type": "string"}
for _ in range(11):
    DEEP = {"type": "object", "properties": {"a": DEEP}, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (a({"type": "string", "default": "x"}), "it does not take `default` (properties/title)"),
        (a({"oneOf": [{"type": "string"}]}), "it does not take `oneOf`"),
        (a({}), "it needs a `type`"),
        (a({"enum": [1]}), "it needs a `type`"),
        (a({"type": "array"}), "an array needs `items`"),
        (a({"type": ["array", "null"]}), "an array needs `items`"),
        (a({"type": "string", "format": "iri"}), "it does not take the format 'iri'"),
        (a({"type": "string", "pattern": "^(?!a)"}), "its patterns have no `(?`"),
        (a({"$ref": "#/$defs/A", "description": "x"}, A={"type": "string"}), "other keys beside `$ref`"),
        (a({"$ref": "#/properties/title"}), "a `$ref` leads to `#/$defs/NAME`"),
        (
            a({"$ref": "#/$defs/A"}, A={"anyOf": [{"type": "null"}, {"$ref": "#/$defs/A"}]}),
            "it refers to itself",
        ),
        (a(OPEN), "an object needs `additionalProperties: false` (properties/title)"),
        (a({**STRICT, "required": []}), "`title` is not required (properties/title)"),
        (a(DEEP), "it has 12 levels of objects, and 10 are the most"),
        (a({"type": "string", "enum": [*map(str, range(1001))]}), "it has 1,001 values in enums"),
        (
            a({"type": "string", "enum": ["x" * 100 + str(n) for n in range(251)]}),
            "more than 15,000 characters",
        ),
        (a({"type": "string", "enum": ["x" * 120_001]}), "characters in names and values"),
    ],
)
def test_a_schema_that_a_response_format_does_not_take_is_known_before_the_run(schema: Any, why: str) -> None:
    assert any(why in each for each in unenforced(schema)), list(unenforced(schema))


@pytest.mark.parametrize(
    "schema",
    [
        STRICT,
        a({"type": ["string", "null"], "pattern": "^(?:a|b)$", "format": "date"}),
        a({"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 1}),
        a({"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}, A=STRICT),
        {**STRICT, "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "T"},
    ],
)
def test_a_schema_that_it_takes_is_sent(schema: Any) -> None:
    assert not list(unenforced(schema))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["object", "string", "#", "#/$defs/a", "("]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "properties",
                    "required",
                    "items",
                    "$ref",
                    "$defs",
                    "a",
                    "enum",
                    "anyOf",
                    "format",
                    "pattern",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(
    schema=st.dictionaries(st.sampled_from(["type", "properties", "$ref", "$defs", "anyOf", "items"]), JSON)
)
@example(schema={"items": {"a": {"$ref": None}}})
@example(schema={"$ref": "#/items/a", "items": {"a": {"$ref": None}}})
def test_any_mapping_is_planned_or_refused_with_its_place(
    tmp_path_factory: pytest.TempPathFactory, schema: dict[str, Any]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "any"
    places = []
    try:
        planned(folder, schema)
    except ConfigError as error:
        places = [each.position for each in error.diagnostics]
    assert all(each is not None and each.line == 6 for each in places)


MODEL = """
from pathlib import Path
from pydantic import BaseModel
Path(__file__).with_name("ran").touch()
class Rating(BaseModel):
    title: str
count = 1
"""


def with_model(folder: Path, reference: str, files: str = "[probe.py, answers.py]") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "answers.py").write_text(MODEL)
    config = write_agent(folder, f"output: {{schema: '{reference}'}}\n")
    config.write_text(config.read_text().replace("[probe.py]", files))
    return config


def test_a_model_of_a_plugin_file_gives_the_schema(tmp_path: Path) -> None:
    output = Agent.from_config(with_model(tmp_path, "answers:Rating"), directory=tmp_path).plan.output
    assert output is not None
    assert output.schema["properties"]["title"]["type"] == "string"
    assert type(output.typed({"title": "a"})).__name__ == "Rating"


@pytest.mark.parametrize(
    ("reference", "files", "said"),
    [
        ("answers:Gone", "[probe.py, answers.py]", "answers:Gone is not a pydantic model"),
        ("answers:count", "[probe.py, answers.py]", "answers:count is not a pydantic model"),
        ("answers:Rating", "[probe.py]", "list its file under plugins.files"),
        ("not_there.at_all:Rating", "[probe.py]", "no installed distribution has the module"),
        ("json:JSONDecoder", "[probe.py]", "json:JSONDecoder is not a pydantic model"),
    ],
)
def test_a_model_that_is_none_is_refused_at_its_place(
    tmp_path: Path, reference: str, files: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=r"zeus\.yaml:6:18: output-model: ") as caught:
        Agent.from_config(with_model(tmp_path, reference, files), directory=tmp_path)
    assert said in str(caught.value)


def test_a_module_of_the_working_directory_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match="no installed distribution has the module 'answers'"):
        Agent.from_config(with_model(tmp_path, "answers:Rating", "[probe.py]"), directory=tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("key", ["output", "agents"])
def test_an_installed_module_is_imported_only_if_the_user_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.delenv("ZEUS_TRUST")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delitem(sys.modules, "antigravity", raising=False)
    output = "output: {schema: 'antigravity:Model'}"
    config = tmp_path / "zeus.yaml"
    agents = f"tools: [subagents]\nagents: {{x: {{description: X., {output}}}}}"
    config.write_text(f"version: 1\nmodel: gpt-4o\n{output if key == 'output' else agents}\n")
    with pytest.raises(UntrustedError, match=r"option '.*output\.schema' is not trusted") as refusal:
        Agent.from_config(config, directory=tmp_path)
    assert refusal.value.exit_code == 4
    assert "antigravity" not in sys.modules


def test_permission_for_one_model_is_none_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZEUS_TRUST")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    config = tmp_path / "zeus.yaml"
    text = "version: 1\nmodel: gpt-4o\noutput: {schema: 'mcp.types:Tool'}\n"
    config.write_text(text)
    with pytest.raises(UntrustedError) as refusal:
        Agent.from_config(config, directory=tmp_path)
    (part,) = refusal.value.parts
    monkeypatch.setenv("ZEUS_TRUST", part.digest)
    Agent.from_config(config, directory=tmp_path, model=script())
    config.write_text(text.replace("Tool'", "Prompt'"))
    with pytest.raises(UntrustedError):
        Agent.from_config(config, directory=tmp_path)


def test_a_form_in_two_places_and_a_fault_of_a_sub_agents_form_are_named(tmp_path: Path) -> None:
    def told(spec: str) -> str:
        yaml = f"agents: {{x: {{description: X., {spec}}}}}\n"
        with pytest.raises(ConfigError) as caught:
            Agent.from_config(write_agent(tmp_path, yaml, tools="[probe, subagents]"), directory=tmp_path)
        return str(caught.value)

    form = "output: {schema: {type: object}}"
    assert "the agent 'x' has output in two places" in told(f"{form}, overrides: {{{form}}}")
    faulty = told("output: {schema: {type: strnig}}")
    assert "'strnig' is not valid" in faulty
    assert "zeus.yaml:6:" in faulty


def test_a_plugin_file_with_neither_a_hook_nor_a_model_of_its_own_is_refused(tmp_path: Path) -> None:
    config = with_model(tmp_path, "answers:BaseModel")
    (tmp_path / "answers.py").write_text("from pydantic import BaseModel\n")
    with pytest.raises(MissingError, match=r"answers\.py has no hook"):
        Agent.from_config(config, directory=tmp_path)
