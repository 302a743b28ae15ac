"""Framing: which family a model belongs to, and what is counted of messages, tools and settings."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from zeus_runtime.context.tokens import Counter, counter_for, framing_for, request_tokens
from zeus_runtime.context.tokens.framing import framings
from zeus_runtime.context.tokens.terms import TERMS, declaration, typescript
from zeus_runtime.models.interface import ModelRequest, ToolSchema
from zeus_runtime.models.profile_tables import MappingTable, litellm_table
from zeus_runtime.models.profiles import ModelProfile, lookup

WEATHER = ToolSchema(
    "get_weather",
    "Look up the weather.\nNow, not later.",
    {
        "type": "object",
        "title": "Weather",
        "additionalProperties": False,
        "properties": {
            "city": {"type": "string", "description": "Where.", "title": "City"},
            "unit": {"enum": ["celsius", "kelvin"], "default": "celsius"},
            "days": {"type": "array", "items": {"type": "integer"}},
            "place": {"$ref": "#/$defs/Place"},
        },
        "required": ["city"],
        "$defs": {"Place": {"type": "object", "properties": {"latitude": {"type": "number"}}}},
    },
)
CLAUDE = ModelProfile("claude-sonnet-4-5", provider="anthropic")
GEMINI = ModelProfile("gemini/gemini-3-flash-preview", provider="gemini")
GPT = ModelProfile("openai/gpt-5-mini", provider="openai", tokenizer="o200k_base", mode="chat")


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("gpt-4o", "openai"),
        ("azure/gpt-4o", "openai"),
        ("ft:gpt-4o-2024-08-06:acme::1", "openai"),
        ("openai/gpt-5.2", "openai reasoning, chat"),
        ("openai/gpt-11-mini", "openai reasoning, chat"),
        ("openrouter/openai/gpt-5-mini", "openai reasoning, chat"),
        ("o3-mini", "openai reasoning, chat"),
        ("gpt-5-pro", "openai reasoning, responses"),
        ("groq/openai/gpt-oss-120b", "openai gpt-oss"),
        ("claude-3-5-sonnet", "claude 3"),
        ("openrouter/anthropic/claude-3.7-sonnet:thinking", "claude 3"),
        ("bedrock/anthropic.claude-v2:1", "claude 3"),
        ("anthropic/claude-sonnet-4-20250514", "claude 4"),
        ("vertex_ai/claude-opus-4@20250514", "claude 4"),
        ("claude-4-sonnet-20250514", "claude 4"),
        ("anthropic/claude-opus-4-1-20250805", "claude 4"),
        ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude 4.5 and 4.6"),
        ("openrouter/anthropic/claude-sonnet-4.5", "claude 4.5 and 4.6"),
        ("databricks/databricks-claude-haiku-4-5", "claude 4.5 and 4.6"),
        ("claude-opus-4-7", "claude opus 4.7"),
        ("claude-opus-4-8", "claude opus 4.8 and 5"),
        ("anthropic/claude-fable-5", "claude opus 4.8 and 5"),
        ("anthropic/claude-sonnet-5", "claude"),
        ("anthropic/claude-next-9", "claude"),
        ("gemini/gemini-2.0-flash", "gemini 2.0"),
        ("gemini/gemini-2.5-pro", "gemini 2.5"),
        ("gemini/gemini-3-flash-preview", "gemini"),
        ("gemini/gemini-12-ultra", "gemini"),
        ("gemini/gemini-flash-latest", "gemini"),
        ("vertex_ai/gemini-3-flash-preview", "gemini on vertex"),
        ("groq/llama-3.3-70b-versatile", "llama"),
        ("mistral/mistral-large-latest", "mistral"),
        ("mistral/codestral-latest", "mistral"),
        ("deepseek/deepseek-chat", "deepseek 4"),
        ("deepseek/deepseek-v4-flash", "deepseek 4"),
        ("openrouter/deepseek/deepseek-r1", "deepseek"),
        ("groq/qwen/qwen3-32b", "qwen"),
        ("xai/grok-4", "grok 4"),
        ("xai/grok-4-fast-reasoning", "grok"),
        ("zai/glm-5", "glm, kimi, minimax"),
        ("ollama/llama3", "llama"),
        ("ollama/gemma3", "any"),
        ("azure/our-deployment", "openai, deployed by another name"),
        ("nobody/has-heard-of-it", "any"),
    ],
)
def test_a_model_belongs_to_the_family_that_frames_as_its_provider_does(name: str, family: str) -> None:
    table = MappingTable(litellm_table().rows())
    assert framing_for(lookup(name, table=table)).name == family


def test_every_cost_has_a_meaning_and_none_is_negative() -> None:
    for framing in framings():
        assert set(framing.costs) <= set(TERMS), framing.name
        assert min(framing.costs.values()) >= 0, framing.name
        assert 0.9 <= framing.costs["text"] <= 1.7, framing.name


CHINESE = "昨天下午我们讨论了新的预算，大家都同意先修好屋顶，然后再考虑买一台新机器。" * 20
ARABIC = "اجتمعنا أمس بعد الظهر لمناقشة الميزانية الجديدة واتفق الجميع على إصلاح السقف أولا. " * 20
PROSE = "She closed the shop early, because the river had risen again and nobody came to buy bread. " * 20
MANY = [
    ToolSchema(
        f"tool_{number}",
        "Reads a file and returns its lines from an offset on.",
        {"type": "object", "properties": {"path": {"type": "string", "description": "Which file."}}},
    )
    for number in range(60)
]


@pytest.mark.parametrize("name", ["nobody/has-heard-of-it", "openai/omni", "bedrock/amazon.nova-9-v1:0"])
def test_a_model_that_nobody_knows_is_rather_counted_too_high(name: str) -> None:
    unknown, known = counter_for(ModelProfile(name, provider=name.partition("/")[0])), counter_for(GPT)
    assert known.text(PROSE) * 0.95 < unknown.text(PROSE) < known.text(PROSE) * 1.15
    for text in (CHINESE, ARABIC, "1834,22.5,991\n" * 50):
        assert known.text(text) * 1.1 < unknown.text(text) < known.text(text) * 3
    assert known.tools(MANY) * 1.1 < unknown.tools(MANY) < known.tools(MANY) * 2.5


def test_a_claude_to_come_is_counted_like_the_costliest_claude() -> None:
    def claude(name: str) -> Counter:
        return counter_for(ModelProfile(name, provider="anthropic"))

    new, old = claude("claude-epic-7"), claude("claude-sonnet-4-5")
    assert new.text(PROSE) > 1.3 * old.text(PROSE)
    assert new.tools(MANY) > 1.1 * old.tools(MANY)


def test_claude_takes_more_tokens_than_others_for_other_scripts() -> None:
    claude, gpt = counter_for(CLAUDE), counter_for(GPT)
    assert claude.text(CHINESE) > 1.25 * gpt.text(CHINESE)
    assert claude.text(ARABIC) > 2 * gpt.text(ARABIC)
    assert claude.text(PROSE) < 1.2 * gpt.text(PROSE)


@pytest.mark.parametrize(
    ("name", "may", "must"),
    [
        ("claude-3-5-sonnet", 346, 346),
        ("claude-sonnet-4-20250514", 313, 315),
        ("claude-sonnet-4-5", 496, 588),
        ("claude-opus-4-7", 675, 804),
        ("claude-opus-4-8", 290, 410),
        ("claude-sonnet-5", 354, 474),
    ],
)
def test_tools_cost_claude_what_anthropics_manual_says(name: str, may: int, must: int) -> None:
    costs = framing_for(ModelProfile(name, provider="anthropic")).costs
    assert costs["tools"] == pytest.approx(may, abs=12)
    assert costs["tools"] + costs.get("forced", 0) == pytest.approx(must, abs=15)


def test_a_request_is_its_fixed_part_and_its_messages() -> None:
    messages = [
        HumanMessage("What is the weather in Turin?"),
        AIMessage("", tool_calls=[{"id": "1", "name": "get_weather", "args": {"city": "Turin"}}]),
        ToolMessage("Rain.", tool_call_id="1"),
    ]
    request = ModelRequest(system="Be brief.", messages=messages, tools=[WEATHER])
    for profile in (CLAUDE, GEMINI, GPT):
        counter = counter_for(profile)
        parts = counter.fixed("Be brief.", [WEATHER]) + sum(map(counter.message, messages))
        assert request_tokens(counter, request) == parts > counter.fixed()


@pytest.mark.parametrize("profile", [CLAUDE, GEMINI, GPT], ids=lambda profile: profile.name)
def test_a_call_counts_its_arguments_also_where_they_are_no_json(profile: ModelProfile) -> None:
    counter = counter_for(profile)
    script = "print('rain and wind')\n" * 40

    def calling(arguments: str) -> AIMessage:
        return AIMessage("", tool_calls=[{"id": "1", "name": "run", "args": {"code": arguments}}])

    def broken(arguments: str) -> AIMessage:
        call = {"id": "1", "name": "run", "args": f'{{"code": "{arguments}', "error": "cut off"}
        return AIMessage("", invalid_tool_calls=[call])

    assert counter.message(calling(script)) - counter.message(calling("")) > 0.8 * counter.text(script)
    assert counter.message(broken(script)) - counter.message(broken("")) > 0.8 * counter.text(script)


@pytest.mark.parametrize("profile", [CLAUDE, GEMINI, GPT], ids=lambda profile: profile.name)
def test_texts_count_wherever_they_stand(profile: ModelProfile) -> None:
    counter = counter_for(profile)
    text = "The harbour freezes in January, and the ferries stop. " * 30
    tokens = counter.text(text)
    described = ToolSchema("look", text, {"type": "object", "properties": {"a": {"type": "string"}}})
    bare = ToolSchema("look", "", {"type": "object", "properties": {"a": {"type": "string"}}})
    assert counter.fixed(text) - counter.fixed("x") == pytest.approx(tokens, rel=0.05)
    for message, empty in (
        (HumanMessage(text), HumanMessage("")),
        (AIMessage(text), AIMessage("")),
        (ToolMessage(text, tool_call_id="1"), ToolMessage("", tool_call_id="1")),
    ):
        assert counter.message(message) - counter.message(empty) == pytest.approx(tokens, rel=0.05)
    assert counter.tools([described]) - counter.tools([bare]) == pytest.approx(tokens, rel=0.25)


def test_a_requirement_to_call_and_a_schema_for_the_answer_take_tokens() -> None:
    counter = counter_for(CLAUDE)
    plain = counter.fixed("", [WEATHER])
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": {"type": "object"}}}
    assert counter.fixed("", [WEATHER], {"tool_choice": "required"}) > plain
    assert counter.fixed("", [WEATHER], {"tool_choice": "auto", "temperature": 0}) == plain
    assert counter.fixed("", [WEATHER], {"response_format": form}) > plain


def test_a_budget_for_thinking_takes_tokens_of_claude() -> None:
    counter = counter_for(CLAUDE)
    budget = {"thinking": {"type": "enabled", "budget_tokens": 2048}}
    assert counter.fixed("Be brief.", (), budget) == counter.fixed("Be brief.") + 28
    assert counter.fixed("Be brief.", (), {"reasoning_effort": "low"}) == counter.fixed("Be brief.") + 28
    assert counter.fixed("Be brief.", (), {"thinking": {"type": "adaptive"}}) == counter.fixed("Be brief.")
    assert counter.fixed("Be brief.", (), {"reasoning_effort": "none"}) == counter.fixed("Be brief.")


def test_openai_is_shown_what_the_parameters_are_for() -> None:
    about = ToolSchema("t", "", {"description": "All of it.", "properties": {"a": {"type": "string"}}})
    assert typescript(about) == "type t = (_: // All of it.\n{\na?: string,\n}) => any;\n\n"


def test_reasoning_goes_back_with_a_call_and_not_with_a_plain_answer() -> None:
    counter = counter_for(CLAUDE)
    thought = {
        "thinking_blocks": [{"type": "thinking", "thinking": "Rain is likely. " * 20, "signature": "x" * 900}]
    }
    call = [{"id": "1", "name": "get_weather", "args": {}}]
    plain, thoughtful = AIMessage("Rain."), AIMessage("Rain.", additional_kwargs=thought)
    assert counter.message(thoughtful) == counter.message(plain)
    calling, thinking = (
        AIMessage("", tool_calls=call),
        AIMessage("", tool_calls=call, additional_kwargs=thought),
    )
    assert counter.message(thinking) > counter.message(calling) + 60


def test_signed_reasoning_counts_as_the_provider_counted_it() -> None:
    counter = counter_for(GEMINI)
    call = [{"id": "1", "name": "get_weather", "args": {"city": "Turin"}}]
    signed = {"tool_call_fields": {"1": {"thought_signature": "A" * 4000}}}
    bare = counter.message(AIMessage("", tool_calls=call))
    usage = {"input_tokens": 50, "output_tokens": 640, "total_tokens": 690}
    guessed = counter.message(AIMessage("", tool_calls=call, additional_kwargs=signed))
    known = counter.message(AIMessage("", tool_calls=call, additional_kwargs=signed, usage_metadata=usage))
    assert 400 < guessed - bare < 1200
    assert 600 <= known - bare <= 640
    vertex = counter_for(ModelProfile("vertex_ai/gemini-3-flash-preview", provider="vertex_ai"))
    assert vertex.message(AIMessage("", tool_calls=call, additional_kwargs=signed)) == vertex.message(
        AIMessage("", tool_calls=call)
    )


def test_an_image_counts_as_an_image_and_not_as_the_letters_it_is_sent_as() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0KGgo" * 10_000}}
    for profile in (CLAUDE, GEMINI, GPT):
        counter = counter_for(profile)
        seen = counter.message(HumanMessage([{"type": "text", "text": "What is this?"}, image]))
        assert 200 < seen - counter.message(HumanMessage("What is this?")) < 2000


def test_the_users_tokenizer_counts_text_as_it_is() -> None:
    chosen = counter_for(ModelProfile("dashscope/qwen3-max", provider="dashscope", tokenizer="o200k_base"))
    assert chosen.exact
    assert chosen.text("hello world") == 2
    assert not counter_for(CLAUDE).exact


def test_openai_is_shown_a_tool_as_a_type() -> None:
    assert typescript(WEATHER) == (
        "// Look up the weather.\n// Now, not later.\n"
        "type get_weather = (_: {\n"
        "// Where.\n"
        "city: string,\n"
        'unit?: "celsius" | "kelvin", // default: "celsius"\n'
        "days?: number[],\n"
        "place?: {\nlatitude?: number,\n},\n"
        "}) => any;\n\n"
    )


def _tree(branches: int) -> ToolSchema:
    names = [f"branch_{number}" for number in range(branches)]
    node = {"type": "object", "properties": {name: {"$ref": "#/$defs/Node"} for name in names}}
    return ToolSchema(
        "walk",
        "",
        {"type": "object", "properties": {"start": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}},
    )


@pytest.mark.parametrize("profile", [CLAUDE, GEMINI, GPT], ids=lambda profile: profile.name)
def test_a_schema_that_refers_to_itself_is_counted_and_does_not_grow_without_end(
    profile: ModelProfile,
) -> None:
    assert 0 < counter_for(profile).tools([_tree(1)]) < 2000
    assert 0 < counter_for(profile).tools([_tree(9)]) < 40_000


def test_google_is_shown_a_schema_that_refers_to_itself_several_times_inside_itself() -> None:
    assert declaration(_tree(1)).count('"branch_0"') == 7
    assert typescript(_tree(1)).count("branch_0") == 1
    assert "$ref" not in declaration(WEATHER)
    assert '"latitude"' in declaration(WEATHER)


def test_a_whole_schema_behind_a_reference_is_counted() -> None:
    node = {
        "type": "object",
        "properties": {"place": {"type": "string", "description": "Where it is. " * 50}},
    }
    tool = ToolSchema("look", "", {"$ref": "#/$defs/Node", "$defs": {"Node": node}})
    plain = ToolSchema("look", "", node)
    for profile in (GEMINI, GPT):
        counter = counter_for(profile)
        assert counter.tools([tool]) == counter.tools([plain]) > 100


def test_objects_inside_parameters_cost_google_more_than_their_text() -> None:
    counter = counter_for(ModelProfile("gemini/gemini-2.5-pro", provider="gemini"))
    inner = {"type": "object", "properties": {"a": {"type": "string"}}}
    nested = ToolSchema("t", "", {"type": "object", "properties": {"b": inner, "c": inner}})
    more = counter.tools([nested]) - counter.tools([ToolSchema("t", "", inner)])
    assert (
        more > counter.text(declaration(nested)) - counter.text(declaration(ToolSchema("t", "", inner))) + 20
    )


def test_a_schema_no_provider_would_take_is_counted_all_the_same() -> None:
    odd = ToolSchema(
        "odd", "", {"properties": {"a": True, "b": {"type": ["string", "null"]}, "c": {"$ref": "#/x/y"}}}
    )
    for profile in (CLAUDE, GEMINI, GPT):
        assert counter_for(profile).tools([odd]) > 0


def test_google_is_shown_only_what_its_declarations_hold() -> None:
    text = declaration(WEATHER)
    assert "additionalProperties" not in text
    assert '"title"' not in text
    assert '"required":["city"]' in text
    titled = ToolSchema("t", "", {"properties": {"title": {"type": "string"}}})
    assert '"title":{"type":"string"}' in declaration(titled)
