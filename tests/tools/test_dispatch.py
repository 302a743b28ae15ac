"""Arguments checked before a call, and whatever a call does made a result the model can read."""

from __future__ import annotations

import asyncio
import threading
from collections import UserDict
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from zeus_runtime import ZeusError
from zeus_runtime.plugin import Redactor
from zeus_runtime.plugin.tool import Preview, Tool, ToolCall, ToolResult, tool
from zeus_runtime.tools import check_tools, fitted_arguments, invoke, validate_arguments
from zeus_runtime.tools.preview import preview_of


class FakeRun:
    session = "session_0123456789ab"
    call_id = "call_1"
    mode = "agent"
    secrets = Redactor()

    def state(self, name: str) -> Any:
        return None


RUN = FakeRun()


def with_schema(parameters: dict[str, Any]) -> Tool:
    return tool(name="t", description="T.", parameters=parameters)(_nothing)


async def _nothing(**arguments: Any) -> str:
    return "done"


def raising(error: BaseException) -> Tool:
    @tool(name="t", description="T.")
    async def function() -> str:
        raise error

    return function


def returning(value: Any) -> Tool:
    @tool(name="t", description="T.")
    async def function() -> Any:
        return value

    return function


FORGED = "ok\n  path: /harmless\u202e"

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1},
        "kind": {"enum": ["a", "b"]},
        "items": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    },
    "required": ["path"],
    "additionalProperties": False,
}


# Arguments


def test_the_arguments_of_a_call_are_fitted_once_and_those_of_a_copy_anew() -> None:
    which, call = with_schema(SCHEMA), ToolCall("call_1", "t", {"path": "/a", "limit": "2"})
    fitted = fitted_arguments(which, call)
    assert fitted == {"path": "/a", "limit": 2}
    assert fitted_arguments(which, call) is fitted
    assert fitted_arguments(which, replace(call, arguments={"path": "/b"})) == {"path": "/b"}
    assert "unknown: path" in str(
        fitted_arguments(with_schema({"type": "object", "additionalProperties": False}), call)
    )


def test_valid_arguments_pass_unchanged() -> None:
    assert validate_arguments(with_schema(SCHEMA), {"path": "/a", "limit": 2}) == {"path": "/a", "limit": 2}


def test_what_models_send_is_repaired_before_it_is_judged() -> None:
    sent = {"path": "/a", "limit": "2", "items": '[{"n": "1"}]', "kind": None}
    assert validate_arguments(with_schema(SCHEMA), sent) == {"path": "/a", "limit": 2, "items": [{"n": 1}]}


def test_every_problem_is_listed_with_the_parameter_names() -> None:
    text = validate_arguments(
        with_schema(SCHEMA), {"limt": 0, "limit": 0, "kind": "c", "items": [{"n": "x"}]}
    )
    assert text == (
        "The arguments of t do not fit; nothing was done.\n"
        "- missing: path\n"
        "- unknown: limt (did you mean limit?)\n"
        '- items[0].n: must be integer, not "x"\n'
        '- kind: must be one of "a", "b", not "c"\n'
        "- limit: 0 is less than the minimum of 1\n"
        "Its parameters: path (required), limit, kind, items."
    )


def test_arguments_of_a_union_are_explained_by_the_closest_form() -> None:
    union = {"anyOf": [{"type": "object", "properties": {"n": {"type": "integer"}}}, {"type": "null"}]}
    text = validate_arguments(
        with_schema({"type": "object", "properties": {"x": union}}), {"x": {"n": "many"}}
    )
    assert isinstance(text, str)
    assert 'closest: x.n: must be integer, not "many"' in text


@pytest.mark.parametrize("arguments", [[], "x", None, 5])
def test_arguments_that_are_no_object_are_explained(arguments: Any) -> None:
    text = validate_arguments(with_schema(SCHEMA), arguments)
    assert isinstance(text, str)
    assert "must be object" in text


def test_a_tool_without_parameters_says_so() -> None:
    empty = with_schema({"type": "object", "properties": {}, "additionalProperties": False})
    text = validate_arguments(empty, {"x": 1})
    assert isinstance(text, str)
    assert text.endswith("t takes no arguments.")


def test_a_huge_argument_is_not_repeated_in_the_explanation() -> None:
    text = validate_arguments(with_schema(SCHEMA), {"path": ["x" * 100_000]})
    assert isinstance(text, str)
    assert len(text) < 1_000


def test_a_tools_broken_schema_is_an_answer_not_a_crash() -> None:
    for broken in (
        {"type": "object", "properties": {"x": {"type": "strin"}}},
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/nowhere"}}},
    ):
        text = validate_arguments(with_schema(broken), {"x": 1})
        assert isinstance(text, str)
        assert "its own schema is broken" in text


def test_a_remote_reference_in_a_schema_is_not_fetched() -> None:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *arguments: Any) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            reference = f"http://127.0.0.1:{server.server_port}/schema.json"
            remote = with_schema({"type": "object", "properties": {"x": {"$ref": reference}}})
            text = validate_arguments(remote, {"x": 1})
        finally:
            server.shutdown()
            serving.join()
    assert isinstance(text, str)
    assert "its own schema is broken" in text
    assert asked == []


def test_an_older_draft_is_validated_by_its_own_rules() -> None:
    draft4 = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1, "exclusiveMinimum": True}},
    }
    assert validate_arguments(with_schema(draft4), {"n": 2}) == {"n": 2}
    assert "1" in str(validate_arguments(with_schema(draft4), {"n": 1}))


def test_the_schema_is_compiled_once_per_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    import jsonschema

    compiled = []
    check = jsonschema.Draft202012Validator.check_schema
    monkeypatch.setattr(
        jsonschema.Draft202012Validator,
        "check_schema",
        lambda schema: (compiled.append(schema), check(schema)),
    )
    which = with_schema(SCHEMA)
    for _ in range(3):
        validate_arguments(which, {"path": "/a"})
    assert len(compiled) == 1


# Results


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", "text"),
        (ToolResult("text"), "text"),
        ("", ""),
        (None, "(no output)"),
        (ToolResult(""), ""),
        ({"a": ["ä", 1]}, '{"a": ["ä", 1]}'),
        (3, "3"),
    ],
)
async def test_what_a_tool_returns_becomes_text(value: Any, content: str) -> None:
    result = await invoke(returning(value), {}, RUN)
    assert (result.content, result.is_error) == (content, False)


async def test_a_result_that_is_neither_text_nor_json_is_an_error() -> None:
    result = await invoke(returning(object()), {}, RUN)
    assert result.is_error
    assert "object, which is not text or JSON" in result.content


@pytest.mark.parametrize("content", [Path("a"), b"a", {"a": 1}, None])
async def test_content_that_is_no_text_is_an_error(content: Any) -> None:
    result = await invoke(returning(ToolResult(content)), {}, RUN)
    assert result.is_error
    assert result.content == f"t returned a {type(content).__name__} as the content, which is not text"


@pytest.mark.parametrize("made", [MappingProxyType, UserDict])
async def test_every_mapping_is_json(made: Any) -> None:
    result = await invoke(returning(made({"a": [made({"b": 1})]})), {}, RUN)
    assert (result.content, result.is_error) == ('{"a": [{"b": 1}]}', False)


async def test_state_that_cannot_be_stored_is_an_error_before_it_reaches_the_log() -> None:
    result = await invoke(returning(ToolResult("ok", state={"x": object()})), {}, RUN)
    assert result.is_error
    assert not result.state


async def test_state_is_kept_as_it_is() -> None:
    result = await invoke(returning(ToolResult("", state={"x": [1]}, artifact={"y": 2})), {}, RUN)
    assert (result.content, result.state, result.artifact) == ("", {"x": [1]}, {"y": 2})


@pytest.mark.parametrize(
    ("error", "content"),
    [
        (ValueError("bad value"), "t failed: ValueError: bad value"),
        (KeyError(), "t failed: KeyError"),
        (TimeoutError("upstream"), "t failed: TimeoutError: upstream"),
        (SystemExit(3), "t failed: SystemExit: 3"),
        (ZeusError("No such page.", remedy="Search first."), "No such page.\n  Search first."),
    ],
)
async def test_an_exception_becomes_an_error_result_with_its_type_and_message(
    error: Any, content: str
) -> None:
    result = await invoke(raising(error), {}, RUN)
    assert (result.content, result.is_error) == (content, True)


async def test_a_very_long_error_is_cut() -> None:
    result = await invoke(raising(ValueError("x" * 1_000_000)), {}, RUN)
    assert len(result.content) < 2_100
    assert "1,000,000 characters" in result.content


@pytest.mark.parametrize("error", [ValueError("bad"), StopIteration("end"), SystemExit(1)])
async def test_an_exception_in_a_sync_tool_is_an_error_result_too(error: BaseException) -> None:
    @tool
    def work() -> str:
        """Work."""
        raise error

    result = await invoke(work, {}, RUN)
    assert result.is_error
    assert type(error).__name__ in result.content


async def test_a_tool_that_takes_too_long_is_an_error_result() -> None:
    @tool(timeout_seconds=0.01)
    async def wait() -> str:
        """Wait."""
        await asyncio.Event().wait()
        return "never"

    result = await invoke(wait, {}, RUN)
    assert result.is_error
    assert result.content.startswith("wait did not finish within 0.01 seconds.")


async def test_a_sync_tool_that_hangs_is_left_behind_and_keeps_nobody_waiting() -> None:
    release = threading.Event()

    @tool(timeout_seconds=0.01)
    def hang() -> str:
        """Hang."""
        release.wait()
        return "late"

    results = await asyncio.gather(*(invoke(hang, {}, RUN) for _ in range(40)))
    hanging = [thread for thread in threading.enumerate() if thread.name == "zeus-tool-hang"]
    daemons = [thread.daemon for thread in hanging]
    release.set()
    for thread in hanging:
        thread.join()
    assert all(result.is_error for result in results)
    assert daemons == [True] * 40


async def test_cancelling_the_caller_cancels_the_tool() -> None:
    started = asyncio.Event()
    ended: list[str] = []

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")
        return "never"

    task = asyncio.create_task(invoke(wait, {}, RUN))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["cleaned up"]


async def test_a_tool_that_cancels_itself_has_failed_and_the_run_goes_on() -> None:
    result = await invoke(raising(asyncio.CancelledError()), {}, RUN)
    assert result.is_error
    assert "cancelled itself" in result.content


# A set of tools


async def _function() -> str:
    return ""


def changed(**changes: Any) -> Callable[[], Tool]:
    fields: dict[str, Any] = {
        "name": "t",
        "description": "T.",
        "parameters": {"type": "object"},
        "function": _function,
    }
    return lambda: Tool(**{**fields, **changes})


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (changed(name="has space"), "1 to 64 letters"),
        (changed(name="x" * 65), "1 to 64 letters"),
        (changed(name="newline\n"), "1 to 64 letters"),
        (changed(category="magic"), "not a category"),
        (changed(access="execute"), "'read' or 'write'"),
        (changed(parameters={"type": "string"}), "object schema"),
    ],
)
def test_a_malformed_tool_is_found_before_a_run(make: Callable[[], Tool], problem: str) -> None:
    [found] = check_tools([make()])
    assert problem in found


def test_two_tools_of_one_name_are_found() -> None:
    assert ["twice" in problem for problem in check_tools([changed()(), changed()()])] == [True]
    assert check_tools([changed()(), changed(name="u")()]) == []


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({"required": [FORGED]}, {}),
        ({"additionalProperties": False}, {FORGED: 1}),
        ({"properties": {FORGED: {"type": "integer"}}}, {FORGED: "x"}),
        ({"properties": {"a": {"type": "object", "required": [FORGED]}}}, {"a": {}}),
        ({"properties": {"a": {"enum": [FORGED]}}}, {"a": FORGED + "!"}),
        ({"properties": {FORGED + "s": {}}, "additionalProperties": False}, {FORGED: 1}),
        ({"properties": {FORGED: {"pattern": "("}}}, {FORGED: "x"}),
        ({"properties": {"a": {"$ref": "#/" + FORGED}}}, {"a": "x"}),
        ({"properties": {"a": {"const": FORGED}}}, {"a": "x"}),
    ],
    ids=["missing", "unknown", "type", "place", "enum", "hint", "pattern", "reference", "const"],
)
def test_no_name_or_value_makes_a_line_of_a_message(
    schema: dict[str, Any], arguments: dict[str, Any]
) -> None:
    text = validate_arguments(with_schema({"type": "object", **schema}), arguments)
    assert isinstance(text, str)
    assert "\u202e" not in text
    for line in text.split("\n"):
        assert line.startswith(
            ("The arguments of t ", "- ", "Its parameters: ", "t takes no", "t cannot be called")
        )


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [150, 5_000])
async def test_values_nested_too_deeply_are_a_result_for_the_model(levels: int) -> None:
    for value in (
        nested(levels),
        ToolResult("", artifact=nested(levels)),
        ToolResult("", state={"a": nested(levels)}),
    ):
        result = await invoke(returning(value), {}, RUN)
        assert result.is_error
        assert "nested too deeply" in result.content


def test_arguments_too_deep_for_their_schema_are_told_to_the_model() -> None:
    item: dict[str, Any] = {"allOf": [{"anyOf": [{"oneOf": [{"$ref": "#/$defs/item"}]}]}]}
    whole = {
        "type": "object",
        "properties": {"a": item},
        "$defs": {
            "item": {"not": {"not": {"anyOf": [{"type": "string"}, {"type": "array", "items": item}]}}}
        },
    }
    fitted = validate_arguments(with_schema(whole), {"a": nested(98)})
    assert isinstance(fitted, str)
    assert "nested too deeply for its schema" in fitted


def test_a_text_that_is_read_as_json_makes_arguments_no_deeper() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "array"}}}}
    fitted = validate_arguments(with_schema(schema), {"a": ["[" * 99 + "]" * 99]})
    assert isinstance(fitted, str)
    assert "nested too deeply" in fitted


async def test_neither_a_tool_nor_its_preview_changes_the_arguments_of_a_call() -> None:
    """They are what a person approved, what is compared with it after a resume, and what is stored."""

    def show(orders: dict[str, Any]) -> Preview:
        return Preview(facts=(orders["where"].pop("scope"),))

    @tool(access="write", preview=show)
    async def clean(orders: dict[str, Any]) -> str:
        """Clean."""
        return str(orders["where"].pop("scope", "everywhere"))

    arguments = {"orders": {"where": {"scope": "build"}}}
    for _ in range(2):
        shown = await preview_of(clean, arguments, Redactor())
        assert shown is not None
        assert shown.facts == ("build",)
        assert (await invoke(clean, arguments, RUN)).content == "build"
    assert arguments == {"orders": {"where": {"scope": "build"}}}
