"""Answers with a form: judged, asked for again, typed, streamed; in every mode, after a resume, in sub-agents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from tests.support.agents import (
    TOOLS,
    Answer,
    PositionModel,
    assert_paired,
    call,
    calling,
    events_of,
    play,
    script,
    write_agent,
)
from zeus_runtime import Agent, ConfigError, UsageError
from zeus_runtime.agent.result import FailedRunError
from zeus_runtime.context.items import source_of
from zeus_runtime.events import (
    Notice,
    OutputPartial,
    RunCompleted,
    RunFailed,
    Text,
    ToolCallChunk,
    ToolCallStarted,
)
from zeus_runtime.models.content import FROM_RUNTIME, is_users
from zeus_runtime.models.interface import TextDelta, ToolCallDelta
from zeus_runtime.models.messages import to_payload
from zeus_runtime.plan.output import PlannedOutput
from zeus_runtime.run.growing_output import GrowingOutput
from zeus_runtime.run.output import judged
from zeus_runtime.run.session_files import SessionFiles

FINAL = "final_answer"
STRICT = """
output:
  schema:
    type: object
    properties: {title: {type: string}, stars: {type: integer, minimum: 1}}
    required: [title, stars]
    additionalProperties: false
  strategy: STRATEGY
"""
GOOD = {"title": "Waves", "stars": 4}
BAD = {"title": "Waves", "stars": 0}
STRATEGIES = ["response_format", "tool", "prompt"]


def agent(
    folder: Path, model: Any, strategy: str = "tool", more: str = "", plugin: str = TOOLS, **how: Any
) -> Agent:
    config = write_agent(folder, STRICT.replace("STRATEGY", strategy) + more, plugin=plugin)
    return Agent.from_config(config, directory=folder, model=model, **how)


def gives(strategy: str, value: dict[str, Any], call_id: str = "f") -> Answer:
    return calling(call(FINAL, call_id, **value)) if strategy == "tool" else json.dumps(value)


def refusals(events: list[Any]) -> list[str]:
    return [each.message for each in events if isinstance(each, Notice) and each.code == "output_refused"]


@pytest.mark.parametrize("mode", ["agent", "ask", "plan"])
@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_an_answer_that_does_not_fit_is_asked_for_again_with_its_errors(
    tmp_path: Path, strategy: str, mode: Any
) -> None:
    model = script(
        calling(call("echo", "c1", text="a")), gives(strategy, BAD, "f1"), gives(strategy, GOOD, "f2")
    )
    async with agent(tmp_path, model, strategy, mode=mode) as living:
        events = await play(living, "Rate it")
        ending = events[-1]
        assert isinstance(ending, RunCompleted), ending
        history = await living.history(ending.session)
    assert ending.output == GOOD
    assert json.loads(ending.answer) == GOOD
    assert refusals(events) == [
        "The answer does not fit output.schema: $.stars: 0 is less than the minimum of 1."
    ]
    assert [each.tool_name for each in events if isinstance(each, ToolCallStarted)] == ["echo"]
    assert (FINAL in [each.name for each in model.requests[0].tools]) is (strategy == "tool")
    assert ("response_format" in model.requests[0].settings) is (strategy == "response_format")
    asked = str(model.requests[-1].messages[-1].content)
    assert "- $.stars: 0 is less than the minimum of 1" in asked
    assert_paired(history)
    assert [each.content for each in history if is_users(each)] == ["Rate it"]


async def test_an_answer_in_a_code_fence_or_as_text_instead_of_a_call_is_taken(tmp_path: Path) -> None:
    fenced = f"```json\n{json.dumps(GOOD)}\n```"
    async with agent(tmp_path, script(fenced)) as living:
        assert (await living.run("Rate it")).output == GOOD


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("It is good.", "$: the text is not one JSON value"),
        (json.dumps(GOOD) + " so", "the text is not one JSON value"),
        ("[1", "the text is not one JSON value"),
        ('{"title": "a", "stars": NaN}', "NaN"),
        ('"a"', "$: 'a' is not of type 'object'"),
        (json.dumps({**GOOD, "more": 1}), "$: Additional properties are not allowed ('more' was unexpected)"),
    ],
)
async def test_other_texts_are_refused_and_the_last_one_is_in_the_error(
    tmp_path: Path, said: str, why: str
) -> None:
    async with agent(tmp_path, script(said), "prompt", "  repairs: 0\n") as living:
        with pytest.raises(FailedRunError) as failed:
            await living.run("Rate it")
    assert failed.value.exit_code == 5
    assert failed.value.code == "output_invalid"
    assert why.removeprefix("$: the ") in str(failed.value)


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_a_number_that_is_a_secret_is_a_text_in_the_answer(tmp_path: Path, strategy: str) -> None:
    number = 4539578763621486
    answer = gives(strategy, {"title": f'"{number}", \\ {number}', "stars": number})
    environ = {"CARD_TOKEN": str(number)}
    async with agent(tmp_path, script(answer), strategy, "  repairs: 0\n", environ=environ) as living:
        with pytest.raises(FailedRunError, match="is not of type 'integer'") as failed:
            await living.run("Pay")
    assert "$.stars: <secret:CARD_TOKEN> stands for a secret that Zeus masks" in str(failed.value)
    assert "give its variable or its key a name that does not say secret" in str(failed.value)
    allowed = "secrets: {to_model: allow}\n"
    async with agent(tmp_path, script(answer), strategy, allowed, environ=environ) as living:
        assert (await living.run("Pay")).output is not None
    config = tmp_path / "zeus.yaml"
    text = config.read_text().replace(allowed, "")
    config.write_text(text.replace("type: integer, minimum: 1", "type: [integer, string]"))
    async with Agent.from_config(config, directory=tmp_path, model=script(answer), environ=environ) as living:
        output = (await living.run("Pay")).output
    title = '"<secret:CARD_TOKEN>", \\ <secret:CARD_TOKEN>'
    assert output == {"title": title, "stars": "<secret:CARD_TOKEN>"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<secret:A>", "<secret:A>"),
        ("[-<secret:A>,<secret:a.b[0]>e5\n]", ["-<secret:A>", "<secret:a.b[0]>e5"]),
        ('{"a": "<secret:A>", "<secret:A>":<secret:A>}', {"a": "<secret:A>", "<secret:A>": "<secret:A>"}),
        ('["\\\\", <secret:A>, "\\"<secret:A>"]', ["\\", "<secret:A>", '"<secret:A>']),
        ("It is <secret:A>.", None),
    ],
)
def test_a_placeholder_in_the_place_of_a_number_is_a_text(text: str, value: Any) -> None:
    judgement = judged(PlannedOutput({}, "prompt", "", 0), AIMessage(text))
    assert judgement is not None
    assert judgement.value == value
    assert bool(judgement.problems) is (value is None)


async def test_a_turn_asks_again_so_often_and_the_next_turn_anew(tmp_path: Path) -> None:
    bad = [gives("tool", BAD, f"f{number}") for number in range(4)]
    model = script(*bad, gives("tool", GOOD, "g"))
    async with agent(tmp_path, model, more="  repairs: 1\n") as living:
        events = await play(living, "Rate it")
        assert isinstance(events[-1], RunFailed)
        assert (events[-1].code, events[-1].exit_code) == ("output_invalid", 5)
        assert events[-1].details["refused_answer"] == json.dumps(BAD)
        assert "partial_answer" not in events[-1].details
        assert len(model.requests) == 2
        session = events[-1].session
        again = await events_of(living.resume(session))
        assert isinstance(again[-1], RunFailed)
        assert again[-1].code == "output_invalid"
        assert len(model.requests) == 2, "a resume pays for no further answer"
        more = await play(living, "Once more", session)
        assert isinstance(more[-1], RunFailed)
        assert len(model.requests) == 4
    async with agent(tmp_path, model, more="  repairs: 2\n") as living:
        resumed = await events_of(living.resume(session))
    assert isinstance(resumed[-1], RunCompleted), resumed[-1]
    assert resumed[-1].output == GOOD


async def test_a_final_call_beside_others_is_refused_and_the_others_run(tmp_path: Path) -> None:
    both = calling(call("echo", "c1", text="a"), call(FINAL, "f1", **GOOD))
    model = script(both, gives("tool", GOOD, "f2"))
    async with agent(tmp_path, model) as living:
        events = await play(living, "Rate it")
        assert_paired(await living.history(events[-1].session))  # type: ignore[union-attr]
    assert "was called beside other calls" in refusals(events)[0]
    results = [str(each.content) for each in model.requests[-1].messages if each.type == "tool"]
    assert results[0] == "echo: a"
    assert results[1].startswith("Your answer does not have the form")


async def test_a_final_call_with_broken_arguments_is_refused(tmp_path: Path) -> None:
    broken = AIMessage(
        "",
        invalid_tool_calls=[
            {"name": FINAL, "args": "{", "id": "f1", "error": "cut", "type": "invalid_tool_call"}
        ],
    )
    async with agent(tmp_path, script(broken, gives("tool", GOOD, "f2"))) as living:
        events = await play(living, "Rate it")
    assert isinstance(events[-1], RunCompleted)
    assert refusals(events) == ["The answer does not fit output.schema: the arguments are not JSON: cut."]


async def test_no_middleware_no_approval_and_no_limit_of_repetitions_concerns_the_final_call(
    tmp_path: Path,
) -> None:
    more = "middlewares: [{approve: {mode: ask}}]\nlimits: {repeated_calls: 2}\n"
    bad = [gives("tool", BAD, f"f{number}") for number in range(4)]
    async with agent(
        tmp_path, script(*bad, gives("tool", GOOD, "g")), more="  repairs: 9\n" + more
    ) as living:
        assert (await living.run("Rate it")).output == GOOD


MODEL = """
from pydantic import BaseModel, field_validator

class Rating(BaseModel):
    title: str
    stars: int

    @field_validator("stars")
    @classmethod
    def few(cls, value: int) -> int:
        if value > 5:
            raise ValueError("there are five stars")
        return value
"""


async def test_a_named_model_judges_too_and_types_the_result(tmp_path: Path) -> None:
    (tmp_path / "answers.py").write_text(MODEL)
    config = write_agent(tmp_path, "output: {schema: 'answers:Rating'}\n")
    config.write_text(config.read_text().replace("[probe.py]", "[probe.py, answers.py]"))
    model = script(
        calling(call(FINAL, "f1", title="a", stars=9)), calling(call(FINAL, "f2", title="a", stars=5))
    )
    async with Agent.from_config(config, directory=tmp_path, model=model) as living:
        result = await living.run("Rate it")
    assert type(result.output).__name__ == "Rating"
    assert (result.output.title, result.output.stars) == ("a", 5)
    (refused,) = [each for each in model.requests[-1].messages if each.type == "tool"]
    assert "$.stars: Value error, there are five stars" in str(refused.content)


async def test_the_answer_grows_while_it_is_written(tmp_path: Path) -> None:
    long = {"title": "Waves " * 40, "stars": 4}

    class Piecemeal(PositionModel):
        async def stream(self, request: Any) -> Any:
            async for piece in super().stream(request):
                if isinstance(piece, ToolCallDelta):
                    yield piece
                    text = json.dumps(long)
                    for start in range(0, len(text), 7):
                        yield ToolCallDelta(0, "", "", text[start : start + 7])
                else:
                    yield piece

    async with agent(tmp_path, Piecemeal(lambda _: calling(call(FINAL, "f", **long)))) as living:
        events = await play(living, "Rate it")
    grown = [each.value for each in events if isinstance(each, OutputPartial)]
    assert len(grown) > 3
    assert all(long["title"].startswith(each.get("title", "")) for each in grown)  # type: ignore[attr-defined]
    assert not any(isinstance(each, ToolCallChunk | Text) for each in events)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def is_part(part: Any, whole: Any) -> bool:
    """Whether a value is the beginning of another: texts and lists may end early, keys may lack."""
    if isinstance(part, str) and isinstance(whole, str):
        return whole.startswith(part)
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(map(is_part, part, whole))
    if isinstance(part, dict) and isinstance(whole, dict):
        return part.keys() <= whole.keys() and all(is_part(each, whole[key]) for key, each in part.items())
    return type(part) is type(whole) and part == whole


@given(value=st.dictionaries(st.text(), VALUES) | st.lists(VALUES), size=st.integers(1, 40))
def test_each_partial_value_is_the_beginning_of_the_whole(value: Any, size: int) -> None:
    text = json.dumps(value, ensure_ascii=False)
    growing = GrowingOutput()
    found = [growing.with_piece(TextDelta(text[start : start + size])) for start in range(0, len(text), size)]
    assert all(is_part(each.value, value) for each in found if each is not None)


@pytest.mark.parametrize("number", ["1" * 5000, "NaN", "1e999", "[" * 150, '"\\ud800"', "{" * 5000])
def test_a_value_that_no_program_could_read_does_not_grow(number: str) -> None:
    growing = GrowingOutput()
    texts = [
        '{"padding": "long enough to be read", "n": ',
        number,
        ', "more": "and more, and yet more of it"',
    ]
    found = [growing.with_piece(TextDelta(each)) for each in texts]
    assert found[0] is not None
    for each in found:
        assert each is None or json.dumps(each.value, allow_nan=False).encode()


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "number", "multipleOf": 0.1}, "1" + "0" * 400),
        (
            {"$ref": "#/$defs/A", "$defs": {"A": {"items": {"anyOf": [{"$ref": "#/$defs/A"}]}}}},
            "[" * 99 + "]" * 99,
        ),
    ],
)
async def test_a_value_that_the_validator_cannot_take_ends_no_run(
    tmp_path: Path, schema: dict[str, Any], said: str
) -> None:
    config = write_agent(tmp_path, f"output: {json.dumps({'schema': schema, 'repairs': 0})}\n")
    async with Agent.from_config(config, directory=tmp_path, model=script(said)) as living:
        ending = (await play(living, "Rate it"))[-1]
    assert isinstance(ending, RunCompleted) or (
        isinstance(ending, RunFailed) and ending.code == "output_invalid"
    )


async def test_a_validator_that_breaks_is_told_like_an_answer_that_does_not_fit(tmp_path: Path) -> None:
    (tmp_path / "answers.py").write_text(MODEL.replace("raise ValueError(", "raise KeyError("))
    config = write_agent(tmp_path, "output: {schema: 'answers:Rating', repairs: 0}\n")
    config.write_text(config.read_text().replace("[probe.py]", "[probe.py, answers.py]"))
    model = script(calling(call(FINAL, "f1", title="a", stars=9)))
    async with Agent.from_config(config, directory=tmp_path, model=model) as living:
        with pytest.raises(FailedRunError, match="answers:Rating failed: KeyError") as failed:
            await living.run("Rate it")
    assert failed.value.exit_code == 5


async def test_a_sub_agent_has_the_form_of_its_entry_and_not_its_parents(tmp_path: Path) -> None:
    yaml = """
agents:
  plain: {description: Helps.}
  counter:
    description: Counts.
    output: {schema: {file: count.json}}
"""
    (tmp_path / "count.json").write_text(
        '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'
    )

    def answer(request: Any) -> Answer:
        asked = next(str(each.content) for each in request.messages if each.type == "human")
        since = sum(each.type == "ai" for each in request.messages)
        tasks = [
            call("task", each, description="d", prompt=each, agent=each) for each in ("plain", "counter")
        ]
        return {
            "go": [calling(*tasks), gives("tool", GOOD)],
            "plain": ["just text"],
            "counter": [calling(call(FINAL, "c1", n="x")), calling(call(FINAL, "c2", n=3))],
        }[asked][since]

    config = write_agent(tmp_path, STRICT.replace("STRATEGY", "tool") + yaml, tools="[probe, subagents]")
    model = PositionModel(answer)
    async with Agent.from_config(config, directory=tmp_path, model=model) as living:
        assert living.plan.agents["plain"].plan.output is None
        assert (await living.run("go")).output == GOOD
    results = [str(each.content) for each in model.requests[-1].messages if each.type == "tool"]
    assert results[0].startswith("just text\n\n[plain")
    assert results[1].startswith('{\n  "n": 3\n}\n\n[counter')


async def test_a_rollback_leads_to_messages_of_the_user_alone(tmp_path: Path) -> None:
    model = script("no JSON", json.dumps(GOOD))
    async with agent(tmp_path, model, "prompt") as living:
        session = (await living.run("Rate it")).session
        history = await living.history(session)
        assert [each.type for each in history] == ["human", "ai", "human", "ai"]
        with pytest.raises(UsageError, match="is not a message of the user"):
            await living.rollback(session, to=3)


def test_the_runtime_names_no_files_for_the_user() -> None:
    """It quotes the model, which may not read what only the user may name."""
    text = "$: '/sandboxes/other/key.txt' is not of type 'object'"
    for message, readable in (
        (HumanMessage(text), True),
        (HumanMessage(text, additional_kwargs={FROM_RUNTIME: True}), False),
    ):
        assert source_of(message) == ("user" if readable else "runtime")
        kept = SessionFiles()
        kept.note_message(json.dumps(to_payload(message)), is_given=False)
        assert ("/sandboxes/other/key.txt" in kept.asked_for) is readable


SUMMARIZED = """
middlewares: [{summarization: {trigger: {tokens: 3000}, keep: {messages: 2}}}]
profiles: {models: {gpt-4o: {max_input_tokens: 20000}}}
"""


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_a_compaction_keeps_the_request_the_form_and_the_count_of_refusals(
    tmp_path: Path, strategy: str
) -> None:
    def answer(request: Any) -> Answer:
        if request.purpose != "turn":
            return "A summary."
        return answers.pop(0)

    long = {"title": "wide words " * 2500, "stars": 0}
    answers = [gives(strategy, long, f"f{number}") for number in range(3)] + [gives(strategy, GOOD, "g")]
    model = PositionModel(answer)
    async with agent(tmp_path, model, strategy, "  repairs: 3\n" + SUMMARIZED) as living:
        events = await play(living, "Rate the poem about waves")
    assert isinstance(events[-1], RunCompleted), events[-1]
    assert events[-1].output == GOOD
    turns = [each for each in model.requests if each.purpose == "turn"]
    assert len(turns) < len(model.requests), "nothing was summarized"
    shown = str([each.content for each in turns[-1].messages])
    assert "Rate the poem about waves" in shown
    assert "<last_request" in shown, "what the runtime asks was taken for the user's request"
    assert turns[-1].settings == turns[0].settings
    assert [each.name for each in turns[-1].tools] == [each.name for each in turns[0].tools]
    assert turns[-1].system == turns[0].system


def test_a_tool_of_that_name_is_named_before_the_run(tmp_path: Path) -> None:
    plugin = TOOLS.replace("async def fail(", f"async def {FINAL}(").replace(
        "record, fail", f"record, {FINAL}"
    )
    with pytest.raises(
        ConfigError, match=r"zeus.yaml:\d+:\d+: tool-conflict: a tool is named 'final_answer'"
    ):
        agent(tmp_path, script(), plugin=plugin)


async def test_a_refused_answer_before_a_rollback_is_not_asked_for_again(tmp_path: Path) -> None:
    """It is another run's: a new answer in its place would be paid for and could not be stored."""
    model = script(*(gives("prompt", each) for each in (BAD, GOOD, GOOD)))
    async with agent(tmp_path, model, "prompt", "  repairs: 0\n") as living:
        session = (await play(living, "Rate it"))[-1].session
        assert isinstance((await play(living, "Again", session))[-1], RunCompleted)
        await living.rollback(session, to=3, before=True)
        asked = len(model.requests)
        ending = (await events_of(living.resume(session)))[-1]
        assert isinstance(ending, RunFailed)
        assert (ending.code, len(model.requests) - asked) == ("usage", 0)
        assert "nothing to resume" in ending.message
