"""One test, or a group, for every row of SPEC section 7, through real agents with a scripted model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from tests.support.agents import Answer, assert_paired, calling, play, write_agent
from tests.support.agents import call as named
from tests.support.planning import steps_of
from zeus_runtime import Agent, ConfigError
from zeus_runtime.context.archive import read_archive
from zeus_runtime.context.tokens import counter_for
from zeus_runtime.events import Event
from zeus_runtime.models.messages import to_payload
from zeus_runtime.models.profiles import lookup
from zeus_runtime.plugin.context import Size
from zeus_runtime.plugin.model import ModelError, ModelRequest, ModelResponse, Usage
from zeus_runtime.testing.evals import drift, evaluate

EXCLUDED = ("ls", "glob", "grep", "read_file", "write_file", "edit_file", "write_todos")

PLUGIN = '''
from zeus_runtime import Agent
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool

@tool(access="read")
async def give(lines: int, word: str = "row") -> str:
    """Give so many lines; a line of "a" takes two tokens.

    Args:
        lines: how many.
        word: each of them.
    """
    return "\\\\n".join([word] * lines)

@tool(access="write", replayable_arguments=("body",))
async def store(body: str, note: str = "") -> str:
    """Store a text.

    Args:
        body: the text.
        note: a remark.
    """
    return "stored"

@hookimpl
def register_tools():
    return [Component("probe", create=lambda options, context: [give, store])]
'''.replace("\\\\n", "\\n")

HUGE = """
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import tool

def huge(name):
    @tool(name=name, access="read", description="Give a large result.",
          parameters={"type": "object", "properties": {}})
    async def function():
        return "a\\\\n" * 25_000
    return function

@hookimpl
def register_tools():
    return [Component("probe", create=lambda options, context: [huge(name) for name in NAMES])]
""".replace("\\\\n", "\\n")

SUMMARY = "## Intent\nThe user wants rows.\n\n## Artifacts\n/none.md\n\n## Next steps\nMore rows."


class Model:
    """Answers turns by a function of the request's number from 0, and summaries by another text.

    Args:
        answer: gets the number and the request; a text ends the run.
        summary: what a policy's call gets.
        limit_tokens: a larger request is refused in a provider's words; None for any size.
    """

    name = "gpt-4o"

    def __init__(
        self,
        answer: Callable[[int, ModelRequest], Answer],
        summary: str | BaseException = SUMMARY,
        limit_tokens: int | None = None,
    ) -> None:
        self.turns: list[ModelRequest] = []
        self.summaries: list[ModelRequest] = []
        self.refused = 0
        self._answer = answer
        self._summary = summary
        self._limit = limit_tokens
        self._counter = counter_for(lookup("gpt-4o"))

    async def stream(self, request: ModelRequest) -> Any:
        used = self._counter.fixed(request.system, request.tools) + sum(
            map(self._counter.message, request.messages)
        )
        if self._limit is not None and used > self._limit:
            self.refused += 1
            text = f"This model's maximum context length is {self._limit} tokens. However, you requested {used} tokens."
            raise ModelError(text, kind="context_overflow", input_tokens=used, limit_tokens=self._limit)
        answer: Answer
        if request.purpose == "turn":
            self.turns.append(request)
            answer = self._answer(len(self.turns) - 1, request)
        else:
            self.summaries.append(request)
            answer = self._summary
        if isinstance(answer, BaseException):
            raise answer
        message = AIMessage(answer) if isinstance(answer, str) else answer
        yield ModelResponse(message, Usage(used, 10))


def giving(count: int, lines: int, word: str = "a") -> Callable[[int, ModelRequest], Answer]:
    """So many calls of ``give``, then the end."""
    return lambda number, _request: (
        calling(named("give", f"c{number}", lines=lines, word=word)) if number < count else "the end"
    )


def agent_in(
    folder: Path,
    yaml: str,
    model: Model,
    *,
    plugin: str = PLUGIN,
    tools: str = "[probe]",
    name: str = "gpt-4o",
) -> Agent:
    path = write_agent(folder, yaml, plugin=plugin, tools=tools)
    path.write_text(path.read_text().replace("model: gpt-4o\n", f"model: {name}\n", 1))
    return Agent.from_config(path, directory=folder, model=model)


async def run(agent: Agent, *prompts: str) -> tuple[str, list[Event], Sequence[BaseMessage]]:
    """The session, its events and its stored messages after ``prompts``."""
    session: str | None = None
    events: list[Event] = []
    async with agent:
        for prompt in prompts or ("Rows, please.",):
            events += await play(agent, prompt, session)
            session = events[-1].session  # type: ignore[union-attr]
            assert events[-1].type == "complete", events[-1]
        assert session is not None
        return session, events, list(await agent.history(session))


def window(tokens: int) -> str:
    return f"profiles: {{models: {{gpt-4o: {{max_input_tokens: {tokens}}}}}}}\n"


def preset(name: str) -> Mapping[str, Any]:
    """A shipped config's middlewares by name, with their typed options."""
    plan = Agent.from_config(name, directory=Path(__file__).parents[2], environ={}).plan
    return {planned.name: planned.value for planned in plan.middlewares}


def results(request: ModelRequest) -> list[str]:
    return [str(message.content) for message in request.messages if message.type == "tool"]


# Eviction


async def test_eviction_of_a_result_of_more_than_20000_tokens_on_arrival_to_its_path_with_ten_lines(
    tmp_path: Path,
) -> None:
    model = Model(giving(1, 10_100))
    _, _, history = await run(agent_in(tmp_path, "middlewares: [eviction]\n", model))
    (shown,) = results(model.turns[1])
    assert "/large_tool_results/c0" in shown
    assert shown.partition("\n")[2].split("\n") == ["a"] * 10
    assert (tmp_path / ".zeus/large_tool_results/c0").read_text() == str(history[2].content)


async def test_a_result_of_less_than_20000_tokens_is_not_evicted(tmp_path: Path) -> None:
    model = Model(giving(1, 9_900))
    _, _, history = await run(agent_in(tmp_path, "middlewares: [eviction]\n", model))
    counted = counter_for(lookup("gpt-4o")).message(history[2])
    assert 19_000 < counted <= 20_000
    assert results(model.turns[1]) == [history[2].content]


async def test_eviction_is_off_with_null(tmp_path: Path) -> None:
    model = Model(giving(1, 25_000))
    _, _, history = await run(agent_in(tmp_path, "middlewares: [eviction: {max_tokens: null}]\n", model))
    assert results(model.turns[1]) == [history[2].content]


@pytest.mark.parametrize("tool", [*EXCLUDED, "another"])
async def test_eviction_never_touches_the_seven_excluded_tools(tmp_path: Path, tool: str) -> None:
    model = Model(lambda number, _: calling(named(tool, "c0")) if number == 0 else "the end")
    plugin = f"NAMES = [{tool!r}]\n{HUGE}"
    await run(agent_in(tmp_path, "middlewares: [eviction]\n", model, plugin=plugin))
    assert (results(model.turns[1]) == ["a\n" * 25_000]) == (tool in EXCLUDED)


def test_the_zeus_preset_evicts_as_the_specification_says() -> None:
    eviction = preset("zeus")["eviction"]
    assert (eviction.max_tokens, eviction.preview_lines, tuple(eviction.exclude)) == (20_000, 10, EXCLUDED)


# Argument truncation

BODY = "0123456789" * 250
STORED = WRITTEN = 10


def storing(count: int, tool: str = "store", body: str = BODY) -> Callable[[int, ModelRequest], Answer]:
    def answer(number: int, _request: ModelRequest) -> Answer:
        if number >= count:
            return "the end"
        if tool == "write_file":
            return calling(named(tool, f"c{number}", path=f"/n{number}.txt", content=body))
        return calling(named(tool, f"c{number}", body=body, note=body))

    return answer


def bodies(request: ModelRequest, name: str = "body") -> list[str]:
    calls = [
        each for message in request.messages if isinstance(message, AIMessage) for each in message.tool_calls
    ]
    return [each["args"][name] for each in calls]


async def first_cut(folder: Path, yaml: str, model: Model, **more: Any) -> tuple[int, int]:
    """The number of the first turn that shows a cut argument, and how many calls it shows whole."""
    await run(agent_in(folder, yaml, model, **more))
    cut = [[("(argument truncated)" in each) for each in bodies(request)] for request in model.turns]
    first = next(number for number, each in enumerate(cut) if any(each))
    return first, cut[first].count(False)


async def test_truncation_triggers_at_085_and_keeps_010_of_the_window(tmp_path: Path) -> None:
    limit = 20_000
    model = Model(storing(16))
    first, whole = await first_cut(tmp_path, f"middlewares: [truncation]\n{window(limit)}", model)
    counter = counter_for(lookup("gpt-4o"))

    def size(number: int) -> int:
        messages = [
            AIMessage("", tool_calls=[named("store", f"c{each}", body=BODY, note=BODY)])
            for each in range(number)
        ]
        return counter.fixed(model.turns[0].system, model.turns[0].tools) + sum(
            map(counter.message, messages)
        )

    assert size(first - 1) < 0.85 * limit < size(first) + 12 * first + 20
    group = counter.message(AIMessage("", tool_calls=[named("store", "c0", body=BODY, note=BODY)]))
    assert whole == int(0.10 * limit) // (group + 10)


async def test_truncation_without_a_profile_triggers_at_20_messages_and_keeps_20(tmp_path: Path) -> None:
    model = Model(storing(16))
    yaml = "middlewares: [truncation: {min_saving_tokens: 0}]\n"
    first, whole = await first_cut(tmp_path, yaml, model, name="acme/unknown")
    assert len(model.turns[first].messages) >= 20
    assert len(model.turns[first].messages) - 2 * (first - whole) - 1 == 20
    assert not any(
        "(argument truncated)" in each for number in range(first) for each in bodies(model.turns[number])
    )


@pytest.mark.parametrize(("characters", "cut"), [(2_000, False), (2_001, True)])
async def test_truncation_cuts_strings_longer_than_2000_characters(
    tmp_path: Path, characters: int, cut: bool
) -> None:
    yaml = "middlewares: [truncation: {trigger: {messages: 3}, keep: {messages: 2}, min_saving_tokens: 0}]\n"
    model = Model(storing(3, body="0" * characters))
    await run(agent_in(tmp_path, yaml, model))
    assert ("(argument truncated)" in bodies(model.turns[-1])[0]) == cut


async def test_truncation_leaves_the_first_20_characters_the_marker_and_a_pointer_to_the_file(
    tmp_path: Path,
) -> None:
    yaml = "middlewares: [truncation: {trigger: {messages: 3}, keep: {messages: 2}, min_saving_tokens: 0}]\n"
    model = Model(storing(3, "write_file"))
    await run(agent_in(tmp_path, yaml, model, tools="[filesystem]"))
    shown = bodies(model.turns[-1], "content")[0]
    assert shown.startswith(BODY[:20] + "...(argument truncated)")
    assert "the file is /n0.txt" in shown
    assert (tmp_path / "n0.txt").read_text() == BODY


async def test_truncation_is_for_every_tool_that_says_its_arguments_are_replayable(tmp_path: Path) -> None:
    yaml = "middlewares: [truncation: {trigger: {messages: 3}, keep: {messages: 2}, min_saving_tokens: 0}]\n"
    model = Model(storing(3))
    await run(agent_in(tmp_path, yaml, model))
    assert "(argument truncated)" in bodies(model.turns[-1])[0]
    assert bodies(model.turns[-1], "note")[0] == BODY, "it does not say that of this one"
    path = re.search(r"/large_tool_results/\S+?(?=\])", bodies(model.turns[-1])[0])
    assert path is not None
    assert (tmp_path / ".zeus" / path[0].lstrip("/")).read_text() == BODY


# Summarization


def test_the_summarization_preset_zeus_is_fraction_085_and_5_messages() -> None:
    options = preset("zeus")["summarization"]
    trigger, keep = options.sizes(lookup("gpt-4o"))
    assert (trigger.share, keep) == (0.85, Size(messages=5))
    assert options.max_trigger_tokens is None


def test_the_summarization_preset_deepagents_known_is_fraction_085_and_fraction_010() -> None:
    trigger, keep = preset("deepagents")["summarization"].sizes(lookup("gpt-4o"))
    assert (trigger, keep) == (Size(fraction=0.85), Size(fraction=0.10))


SHIPPED = {
    "zeus": "{trigger: null, keep: {messages: 5}}",
    "deepagents known": "{trigger: {fraction: 0.85}, keep: {fraction: 0.10}}",
}


@pytest.mark.parametrize("name", SHIPPED)
async def test_a_summarization_preset_acts_at_085_and_keeps_what_it_says(tmp_path: Path, name: str) -> None:
    limit = 10_000
    model = Model(giving(20, 250))
    yaml = f"middlewares: [summarization: {SHIPPED[name]}]\n{window(limit)}"
    session, _, _ = await run(agent_in(tmp_path, yaml, model))
    steps = await steps_of(tmp_path, session)
    first = next(place for place, step in enumerate(steps) if step.decisions)
    before = steps[first - 1].usage
    assert before is not None
    assert before.input_tokens < 0.85 * limit
    assert before.input_tokens + 520 >= 0.85 * limit, "the step after the last one below the trigger"
    view = model.turns[first].messages
    assert "are summarized here" in str(view[0].content)
    kept = len(view) - 1
    if name == "zeus":
        assert kept in (5, 6), "5 messages, and the call that belongs to the first of them"
    else:
        counter = counter_for(lookup("gpt-4o"))
        tokens = sum(map(counter.message, list(view)[1:]))
        assert 0.10 * limit - 520 < tokens <= 0.10 * limit


async def test_the_summarization_preset_deepagents_unknown_is_170000_tokens_and_6_messages(
    tmp_path: Path,
) -> None:
    model = Model(giving(8, 15_000))
    options = "{trigger: {tokens: 170000}, keep: {messages: 6}}"
    yaml = f"middlewares: [summarization: {options}]\n"
    with pytest.raises(ConfigError) as caught:
        agent_in(tmp_path, yaml, model, name="acme/unknown")
    assert "more than the input limit" in caught.value.diagnostics[0].message, (
        "170,000 are never reached in 64,000"
    )
    known = "profiles: {models: {acme/unknown: {max_input_tokens: 400000, tokenizer: o200k_base}}}\n"
    session, _, _ = await run(agent_in(tmp_path, yaml + known, model, name="acme/unknown"))
    steps = await steps_of(tmp_path, session)
    first = next(place for place, step in enumerate(steps) if step.decisions)
    assert steps[first].decisions[0].tokens_before + steps[first].fixed_tokens >= 170_000
    assert steps[first - 1].expected_tokens < 170_000
    assert len(model.turns[first].messages) - 1 == 6


async def test_the_summary_model_is_the_main_model_unless_named(tmp_path: Path) -> None:
    options = "trigger: {messages: 9}, keep: {messages: 3}"
    model = Model(giving(8, 200))
    await run(agent_in(tmp_path / "own", f"middlewares: [summarization: {{{options}}}]\n", model))
    assert model.summaries
    scribe = """
from langchain_core.messages import AIMessage
from zeus_runtime.plugin.model import ModelResponse

class Scribe:
    name = "gpt-4o-mini"
    async def stream(self, request):
        yield ModelResponse(AIMessage("by the scribe"))

@hookimpl
def register_models():
    return [Component("scribe", create=lambda options, context: Scribe())]
"""
    other = Model(giving(8, 200))
    yaml = f"middlewares: [summarization: {{{options}, model: {{scribe: {{}}}}}}]\n"
    await run(agent_in(tmp_path / "other", yaml, other, plugin=PLUGIN + scribe))
    assert not other.summaries
    assert "by the scribe" in str(other.turns[-1].messages[0].content)


@pytest.mark.parametrize("trim", [4_000, None])
async def test_trim_tokens_to_summarize_is_4000_or_none(tmp_path: Path, trim: int | None) -> None:
    sizes = f"trigger: {{messages: 13}}, keep: {{messages: 1}}, trim_tokens_to_summarize: {trim or 'null'}"
    options = f"{{{sizes}, reuse_cache: false}}"
    model = Model(giving(7, 700))
    await run(agent_in(tmp_path, f"middlewares: [summarization: {options}]\n", model))
    read = counter_for(lookup("gpt-4o")).message(model.summaries[0].messages[0])
    assert (2_500 < read < 4_100) if trim else (read > 6_500)


async def test_the_summary_is_structured_intent_artifacts_next_steps(tmp_path: Path) -> None:
    model = Model(giving(8, 200))
    await run(
        agent_in(
            tmp_path, "middlewares: [summarization: {trigger: {messages: 9}, keep: {messages: 3}}]\n", model
        )
    )
    asked = model.summaries[0]
    told = f"{asked.system}\n{asked.messages[-1].content}".casefold()
    assert all(word in told for word in ("intent", "artifacts", "next steps"))
    shown = str(model.turns[-1].messages[0].content)
    assert SUMMARY in shown


async def test_originals_are_appended_untruncated_as_dated_sections_and_the_summary_names_the_path(
    tmp_path: Path,
) -> None:
    model = Model(giving(16, 900))
    yaml = "middlewares: [summarization: {trigger: {messages: 9}, keep: {messages: 3}}]\n"
    session, _, history = await run(agent_in(tmp_path, yaml, model))
    path = f"/conversation_history/{session}.md"
    assert path in str(model.turns[-1].messages[0].content)
    data = (tmp_path / ".zeus" / path.lstrip("/")).read_bytes()
    sections = re.findall(rb"^## \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", data, re.MULTILINE)
    assert len(sections) == len(model.summaries) > 1
    archived, problems = read_archive(data)
    assert not problems
    assert len(archived) > 20
    assert [to_payload(each.message) for each in archived] == [
        to_payload(history[each.seq - 1]) for each in archived
    ]


@pytest.mark.parametrize(
    ("policy", "option"),
    [
        ("summarization", "trigger"),
        ("summarization", "keep"),
        ("truncation", "trigger"),
        ("truncation", "keep"),
        ("dedupe", "trigger"),
    ],
)
def test_a_fraction_without_a_known_window_is_an_error_at_load(
    tmp_path: Path, policy: str, option: str
) -> None:
    other = {"trigger": "keep: {messages: 2}", "keep": "trigger: {messages: 9}"}[option]
    more = "" if policy == "dedupe" else f", {other}"
    yaml = f"middlewares:\n  - {policy}: {{{option}: {{fraction: 0.5}}{more}}}\n"
    with pytest.raises(ConfigError) as caught:
        agent_in(tmp_path, yaml, Model(giving(0, 0)), name="acme/unknown")
    (problem,) = caught.value.diagnostics
    assert "known window" in problem.message
    assert problem.position is not None
    assert (problem.position.line, option in problem.path) == (7, True)


# Overflow, caching, order


async def test_overflow_triggers_the_same_compaction_at_once_and_a_retry(tmp_path: Path) -> None:
    model = Model(giving(12, 400), limit_tokens=6_000)
    session, events, history = await run(agent_in(tmp_path, "middlewares: [summarization]\n", model))
    assert events[-1].answer == "the end"  # type: ignore[union-attr]
    assert model.refused >= 1
    steps = await steps_of(tmp_path, session)
    hit = next(step for step in steps if any(each.kind == "overflow" for each in step.decisions))
    assert [each.kind for each in hit.decisions if each.admitted] == ["summarize"]
    assert hit.usage is not None, "the retry is the same step, and was answered"
    assert [message.type for message in history].count("tool") == 12, "no message is lost"


async def test_caching_marks_the_stable_prefix_and_the_conversation_for_anthropic_only(
    tmp_path: Path,
) -> None:
    yaml = "prompt: {time: {precision: minute}}\nmiddlewares: [caching: {minimum_tokens: 0}]\n"
    marked = Model(giving(2, 10))
    await run(agent_in(tmp_path / "a", yaml, marked, name="anthropic/claude-sonnet-4-5"))
    for request in marked.turns:
        points = request.cache_points
        assert points is not None
        assert points.tools
        assert points.system
        assert max(points.messages) == len(request.messages) - 1
        assert points.tools + points.system + len(points.messages) <= 4
        assert 0 < request.stable_system_length < len(request.system), "the clock stands behind the point"
    bare = Model(giving(2, 10))
    await run(agent_in(tmp_path / "b", yaml, bare))
    assert all(request.cache_points is None for request in bare.turns)


async def test_other_providers_cache_by_a_stable_prefix(tmp_path: Path) -> None:
    model = Model(giving(8, 200))
    yaml = "middlewares: [eviction, dedupe, truncation, summarization, caching]\n"
    await run(agent_in(tmp_path, yaml, model))
    for before, after in zip(model.turns, model.turns[1:], strict=False):
        assert after.system == before.system
        assert after.tools == before.tools
        assert list(after.messages)[: len(before.messages)] == list(before.messages)


def test_the_order_of_the_reference_can_be_written_and_is_kept() -> None:
    plan = Agent.from_config("zeus", directory=Path(__file__).parents[2], environ={}).plan
    names = [planned.name for planned in plan.middlewares]
    assert names.index("summarization") < names.index("caching")
    assert [planned.name for planned in plan.toolsets] == [
        "filesystem",
        "todos",
        "subagents",
        "memory",
        "knowledge",
    ]
    turned = Agent.from_config(
        "zeus",
        directory=Path(__file__).parents[2],
        environ={},
        sets=["middlewares=[caching, summarization, eviction]"],
    ).plan
    assert [planned.name for planned in turned.middlewares] == ["caching", "summarization", "eviction"]


async def test_the_users_own_middlewares_stand_where_their_line_stands(tmp_path: Path) -> None:
    heard = """
from zeus_runtime.plugin.middleware import Middleware

class Heard(Middleware):
    async def wrap_model_call(self, request, call_next):
        with open("order.txt", "a") as file:
            file.write(self.name + ("+" if request.cache_points else "-") + " ")
        return await call_next(request)

@hookimpl
def register_middlewares():
    return [Component(name, create=type(name, (Heard,), {"name": name})) for name in ("before", "after")]
"""
    plugin = (PLUGIN + heard).replace('"order.txt"', repr(str(tmp_path / "order.txt")))
    yaml = "middlewares: [before, caching: {minimum_tokens: 0}, after]\n"
    model = Model(giving(0, 0))
    await run(agent_in(tmp_path, yaml, model, plugin=plugin, name="anthropic/claude-sonnet-4-5"))
    assert (tmp_path / "order.txt").read_text().split() == ["before-", "after+"]


# Sub-agents, stream, routing, targeted evaluations


async def test_each_plan_has_its_own_independent_set(tmp_path: Path) -> None:
    """A tool of the outer agent runs the inner one, on the same database and workspace, with the same call ids."""
    inner_model = Model(giving(14, 300))
    inner = agent_in(
        tmp_path, "middlewares: [summarization: {trigger: {messages: 9}, keep: {messages: 3}}]\n", inner_model
    )
    asked: list[str] = []

    def outer_answer(number: int, request: ModelRequest) -> Answer:
        if number == 1:
            return calling(named("ask", "c1", task="INNER task"))
        return calling(named("give", f"c{number}", lines=30, word="OUTER")) if number < 4 else "the end"

    outer_model = Model(outer_answer)
    import zeus_runtime

    plugin = PLUGIN.replace("[give, store]", "[give, store, ask]").replace(
        "@hookimpl",
        '''import builtins

@tool(access="read")
async def ask(task: str) -> str:
    """Ask the other agent.

    Args:
        task: what.
    """
    return await builtins.ask_inner(task)

@hookimpl''',
    )

    async def ask_inner(task: str) -> str:
        result = await inner.run(task)
        asked.append(result.session)
        return result.answer

    import builtins

    builtins.ask_inner = ask_inner  # type: ignore[attr-defined]
    (tmp_path / "outer").mkdir()
    path = tmp_path / "outer" / "zeus.yaml"
    (tmp_path / "outer" / "probe.py").write_text(plugin)
    path.write_text(
        "version: 1\nname: outer\nmodel: gpt-4o\ntools: [probe]\nplugins: {files: [probe.py]}\n"
        "middlewares: [summarization]\n"
    )
    try:
        async with inner:
            outer = Agent.from_config(path, directory=tmp_path, model=outer_model)
            session, _, history = await run(outer)
            inner_history = list(await inner.history(asked[0]))
    finally:
        del builtins.ask_inner  # type: ignore[attr-defined]
    assert zeus_runtime.__version__
    assert len(inner_model.summaries) > 1
    assert not outer_model.summaries
    for before, after in zip(outer_model.turns, outer_model.turns[1:], strict=False):
        assert list(after.messages)[: len(before.messages)] == list(before.messages), (
            "the inner one touched the outer"
        )
    assert "INNER" not in str([message.content for message in outer_model.turns[-1].messages])
    assert "OUTER" not in str([list(request.messages) for request in inner_model.turns])
    outer_steps, inner_steps = await steps_of(tmp_path, session), await steps_of(tmp_path, asked[0])
    assert (len(outer_steps), len(inner_steps)) == (len(outer_model.turns), len(inner_model.turns))
    assert [step.edits for step in outer_steps] == [0] * 5
    archive = tmp_path / ".zeus" / "conversation_history"
    assert [file.name for file in archive.iterdir() if file.suffix == ".md"] == [f"{asked[0]}.md"]
    archived, _ = read_archive((archive / f"{asked[0]}.md").read_bytes())
    assert all(to_payload(each.message) == to_payload(inner_history[each.seq - 1]) for each in archived)
    assert [message.type for message in history].count("tool") == 4


async def test_the_summarys_tokens_are_not_in_the_users_stream_and_count_in_its_totals(
    tmp_path: Path,
) -> None:
    model = Model(giving(8, 200), summary="a word that only the summary says: zanzibar")
    yaml = "middlewares: [summarization: {trigger: {messages: 9}, keep: {messages: 3}}]\n"
    _, events, _ = await run(agent_in(tmp_path, yaml, model))
    assert model.summaries
    assert "zanzibar" not in json.dumps([event.to_wire() for event in events])
    assert "zanzibar" in str(model.turns[-1].messages[0].content)
    counter = counter_for(lookup("gpt-4o"))
    sent = [*model.turns, *model.summaries]
    tokens = [
        counter.fixed(each.system, each.tools) + sum(map(counter.message, each.messages)) for each in sent
    ]
    assert events[-1].prompt_tokens == sum(tokens)  # type: ignore[union-attr]


async def test_large_results_and_history_may_live_in_other_stores_than_the_workspace(tmp_path: Path) -> None:
    def answer(number: int, request: ModelRequest) -> Answer:
        if number < 6:
            return calling(named("give", f"c{number}", lines=100 if number else 3_000))
        if number == 6:
            return calling(named("read_file", "r1", path="/large_tool_results/c0", limit=2))
        if number == 7:
            said = str(request.messages[0].content)
            path = re.search(r"/conversation_history/\S+\.md", said)
            assert path is not None
            return calling(named("grep", "r2", pattern="Rows, please", path=path[0]))
        return "the end"

    model = Model(answer)
    yaml = (
        "workspace: {root: files, routes: {/large_tool_results/: big, /conversation_history/: old}}\n"
        "middlewares: [eviction: {max_tokens: 1000}, summarization: {trigger: {messages: 9}, keep: {messages: 5}}]\n"
    )
    (tmp_path / "files").mkdir()
    session, _, history = await run(agent_in(tmp_path, yaml, model, tools="[probe, filesystem]"))
    assert (tmp_path / "big" / "c0").read_text() == str(history[2].content)
    assert (tmp_path / "old" / f"{session}.md").is_file()
    assert list((tmp_path / "files").iterdir()) == []
    read, found = (
        str(message.content) for message in history if message.type == "tool" and message.name != "give"
    )
    assert read.startswith("1\trow\n2\trow")
    assert "Rows, please" in found


@pytest.mark.parametrize("evaluation", ["goal", "needle", "stress"])
async def test_the_targeted_evaluations_pass(tmp_path: Path, evaluation: str) -> None:
    """Of summarization with the ways back; of the presets and every policy in tests/testing/evals."""
    report = await evaluate(
        "default",
        sets=("middlewares=[summarization, recall]", "model=gpt-4o"),
        directory=tmp_path,
        environ={},
        evaluations=[evaluation],
        window_tokens=8_000,
    )
    assert report.passed, str(report)


def test_goal_drift_asking_again_and_declaring_done_is_detected() -> None:
    asked = AIMessage("Which port does the staging server use?")
    open_list = [{"content": "deploy", "status": "pending"}]
    talk = [
        HumanMessage("Deploy it."),
        asked,
        HumanMessage("Port 8443."),
        AIMessage("", tool_calls=[named("write_todos", "t", todos=open_list)]),
        ToolMessage("Task list updated: 1 pending.", tool_call_id="t", name="write_todos"),
    ]
    assert drift([*talk, AIMessage("I am working on it.")]) == ()
    found = drift([*talk, asked, HumanMessage("8443!"), AIMessage("All done.")])
    assert [(each.kind, each.step) for each in found] == [("asked-again", 6), ("false-done", 8)]


async def test_the_goal_survives_a_forced_summary_in_the_middle_of_a_task(tmp_path: Path) -> None:
    def answer(number: int, _request: ModelRequest) -> Answer:
        return calling(named("give", f"c{number}", lines=150)) if number < 40 else "the end"

    model = Model(answer, summary="Some rows were given.")
    yaml = f"middlewares: [summarization]\n{window(6_000)}"
    goal = "Count all rows, and never say their number aloud."
    await run(agent_in(tmp_path, yaml, model), goal)
    assert len(model.summaries) > 1
    for request in model.turns:
        assert_paired(list(request.messages))
        assert goal in str([message.content for message in request.messages])
