"""A recorded run plays back, and a run that differs says where."""

from __future__ import annotations

import asyncio
import json
import os
import re
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from zeus_plugins.models.replay.model import ReplayModel, create
from zeus_plugins.models.replay.options import Options

from zeus_runtime.config.secrets.masking import MASK, Redactor
from zeus_runtime.errors import RunError
from zeus_runtime.models.cassette import CassetteError, same
from zeus_runtime.plugin import PlanContext
from zeus_runtime.plugin.model import (
    Model,
    ModelError,
    ModelPiece,
    ModelRequest,
    ModelResponse,
    Recorder,
    Retrying,
    Tape,
    TextDelta,
    ToolSchema,
    Usage,
    read_cassette,
)
from zeus_runtime.testing import ScriptedModel, calling

LS = ToolSchema("ls", "Lists.", {"type": "object"})
Match = Literal["messages", "strict", "order", "turn"]

KEEP = Redactor()


def asking(*messages: BaseMessage | str, system: str = "sys", **changes: Any) -> ModelRequest:
    turns = [HumanMessage(message) if isinstance(message, str) else message for message in messages]
    return ModelRequest(system, turns, **{"tools": (LS,), **changes})


def ask(model: Model, request: ModelRequest) -> list[ModelPiece]:
    async def collect() -> list[ModelPiece]:
        return [piece async for piece in model.stream(request)]

    return asyncio.run(collect())


def converse(model: Model, turns: int, system: str = "sys") -> list[ModelPiece]:
    """A conversation of so many tool steps and a last word; its pieces."""
    messages: list[BaseMessage] = [HumanMessage("go", id="h")]
    pieces: list[ModelPiece] = []
    for step in range(turns):
        pieces += ask(model, asking(*messages, system=system))
        response = pieces[-1]
        assert isinstance(response, ModelResponse)
        messages += [response.message]
        messages += [
            ToolMessage(f"result {step}", tool_call_id=call["id"]) for call in response.message.tool_calls
        ]
    return pieces


def steps(count: int) -> list[AIMessage | str]:
    return [
        *(calling(("ls", {"path": f"/{step}"}), text=f"step {step} now") for step in range(count - 1)),
        "done",
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "run.jsonl"


def record(path: Path, turns: int = 4) -> list[ModelPiece]:
    return converse(Recorder(ScriptedModel(steps(turns), name="openai/gpt-5.2"), Tape(path, KEEP)), turns)


def replay(path: Path, match: Match = "messages", pause_seconds: float = 0.0) -> ReplayModel:
    context = cast(PlanContext, SimpleNamespace(directory=path.parent))
    return create(Options(path.name, match, pause_seconds), context)


def test_a_run_plays_back_piece_by_piece(path: Path) -> None:
    recorded = record(path)
    assert converse(replay(path), 4) == recorded
    assert replay(path).name == "openai/gpt-5.2"


def test_a_resumed_run_goes_on_at_its_place(path: Path) -> None:
    recorded = record(path)
    responses = [piece for piece in recorded if isinstance(piece, ModelResponse)]
    first, second = responses[0].message, responses[1].message
    asked = asking(
        HumanMessage("go"),
        first,
        ToolMessage("result 0", tool_call_id=first.tool_calls[0]["id"]),
        second,
        ToolMessage("result 1", tool_call_id=second.tool_calls[0]["id"]),
    )
    assert ask(replay(path), asked)[-1] == responses[2]


def test_a_call_may_be_made_again(path: Path) -> None:
    record(path)
    model = replay(path)
    assert ask(model, asking("go")) == ask(model, asking("go"))


def test_ids_of_our_own_and_reasoning_do_not_matter(path: Path) -> None:
    model = Recorder(ScriptedModel(["x"]), Tape(path, KEEP))
    ask(
        model,
        asking(HumanMessage("go", id="one"), AIMessage("hm", additional_kwargs={"reasoning_content": "a"})),
    )
    ask(replay(path), asking(HumanMessage("go", id="two"), AIMessage("hm", id="three")))


def test_a_cassette_grows_with_the_conversation_and_not_with_its_square(tmp_path: Path) -> None:
    sizes = []
    for turns in (20, 80):
        path = tmp_path / f"{turns}.jsonl"
        record(path, turns)
        sizes.append(path.stat().st_size)
    assert sizes[1] < 5 * sizes[0]


def test_each_call_is_in_the_file_when_its_response_arrives(path: Path) -> None:
    recorder = Recorder(ScriptedModel(["x"]), Tape(path, KEEP))

    async def first_response() -> int:
        async for piece in recorder.stream(asking("go")):
            if isinstance(piece, ModelResponse):
                return len(read_cassette(path).calls)
        raise AssertionError

    assert asyncio.run(first_response()) == 1


def test_usage_and_cost_are_kept(path: Path) -> None:
    response = ModelResponse(AIMessage("x"), Usage(1, 2, 3, 4, 5), "length", "served", 0.5)
    ask(Recorder(ScriptedModel([response]), Tape(path, KEEP)), asking("go"))
    assert ask(replay(path), asking("go"))[-1] == response


def test_what_a_repeated_call_streamed_before_is_not_recorded(path: Path) -> None:
    class Repeating:
        name = "m"

        async def stream(self, request: ModelRequest):  # type: ignore[no-untyped-def]
            for piece in (TextDelta("void"), Retrying(2, "x", 0.0), TextDelta("kept")):
                yield piece
            yield ModelResponse(AIMessage("kept"))

    ask(Recorder(Repeating(), Tape(path, KEEP)), asking("go"))
    assert ask(replay(path), asking("go"))[:-1] == [TextDelta("kept")]


def test_a_failed_call_is_not_recorded(path: Path) -> None:
    recorder = Recorder(ScriptedModel([ModelError("down", kind="server"), "up"]), Tape(path, KEEP))
    with pytest.raises(ModelError):
        ask(recorder, asking("go"))
    ask(recorder, asking("go"))
    assert len(read_cassette(path).calls) == 1


def test_a_recording_is_continued_and_a_torn_last_line_dropped(path: Path) -> None:
    record(path, 2)
    with path.open("ab") as file:
        file.write('{"request": {"torn\u00e9'.encode()[:-1])  # also within a character
    assert len(read_cassette(path).calls) == 2
    ask(Recorder(ScriptedModel(["more"]), Tape(path, KEEP)), asking("another"))
    assert len(read_cassette(path).calls) == 3
    assert isinstance(ask(replay(path), asking("another"))[-1], ModelResponse)


def test_secrets_are_removed_and_fit_when_played(path: Path) -> None:
    secret = "sk-live-12345678"
    model = Recorder(
        ScriptedModel([calling(("ls", {"path": secret}), text=f"see {secret}")], name=f"of {secret}"),
        Tape(path, Redactor().adding({secret: "KEY"})),
    )
    ask(model, asking(f"the key is {secret}."))
    assert secret not in path.read_text()
    assert isinstance(ask(replay(path), asking("the key is another-one."))[-1], ModelResponse)
    with pytest.raises(ModelError):
        ask(replay(path), asking("no key."))


def test_a_secret_that_streams_in_pieces_is_not_recorded(path: Path) -> None:
    secret = "sk-live-12345678"
    known = Redactor().adding({secret: "KEY"})
    ask(Recorder(ScriptedModel([f"the key is {secret}, yes"]), Tape(path, known)), asking("go"))
    pieces = json.loads(path.read_text().splitlines()[-1])["pieces"]
    assert "".join(each[1] for each in pieces if each[0] == "text") == "the key is <secret:KEY>, yes"


def test_a_secret_that_is_a_key_is_not_recorded_and_both_keys_stay(path: Path) -> None:
    secret = "sk-live-12345678"
    known = Redactor().adding({secret: "KEY"})
    answer = calling(("ls", {secret: "v", "<secret:KEY>": "w"}))
    ask(Recorder(ScriptedModel([answer]), Tape(path, known)), asking("go"))
    assert secret not in path.read_text()
    (played,) = [each for each in ask(replay(path), asking("go")) if isinstance(each, ModelResponse)]
    assert played.message.tool_calls[0]["args"] == {"<secret:KEY> (2)": "v", "<secret:KEY>": "w"}


def test_a_masked_key_fits_any_key() -> None:
    assert same({"<secret:KEY>": "v", "b": 1}, {"sk-live-12345678": "v", "b": 1})
    assert not same({"<secret:KEY>": "v", "b": 1}, {"sk-live-12345678": "v", "c": 1})
    assert not same({"<secret:KEY>": "v"}, {"sk-live-12345678": "w"})


@pytest.mark.parametrize(
    "masked", [MASK, "<secret:KEY>", "<secret:model.litellm.api_key>", "<secret:KEY:base64-1>"]
)
def test_a_masked_part_fits_any_text(masked: str) -> None:
    assert same(f"the key is {masked}.", "the key is another-one.")
    assert same(f"the key is {masked}.", "the key is <secret:OTHER>.")
    assert not same(f"the key is {masked}.", "no key.")


def diverging(path: Path, request: ModelRequest, match: Match = "messages") -> str:
    with pytest.raises(ModelError) as caught:
        ask(replay(path, match), request)
    assert caught.value.kind == "divergence"
    return str(caught.value)


def test_a_diverging_conversation_names_line_place_and_difference(path: Path) -> None:
    recorded = record(path)
    first = next(piece for piece in recorded if isinstance(piece, ModelResponse)).message
    text = diverging(
        path, asking("go", first, ToolMessage("result X", tool_call_id=first.tool_calls[0]["id"]))
    )
    assert text.startswith(f"{path}:3: ")
    assert "message 3 differs: its content: recorded 'result 0'; now 'result X'" in text
    assert "--record" in text


def test_a_longer_conversation_than_recorded_says_what_came_more(path: Path) -> None:
    record(path, 1)
    text = diverging(path, asking("go", AIMessage("done"), HumanMessage("and now?")))
    assert "message 2 differs: recorded nothing more; now a message of the assistant: 'done'" in text


def test_other_tools_diverge(path: Path) -> None:
    record(path, 1)
    text = diverging(path, asking("go", tools=(LS, ToolSchema("rm", "Removes.", {}))))
    assert "the tools differ: recorded ls; now ls, rm" in text


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"system": "other"}, "the system prompt differs"),
        ({"tools": (ToolSchema("ls", "Other.", {}),)}, "the tools' descriptions or parameters differ"),
        ({"settings": {"temperature": 1}}, "the settings differ: recorded {}, now {'temperature': 1}"),
    ],
)
def test_strict_compares_what_messages_does_not(path: Path, changes: dict[str, Any], part: str) -> None:
    record(path, 1)
    assert ask(replay(path), asking("go", **changes))
    assert ask(replay(path, "strict"), asking("go"))
    assert part in diverging(path, asking("go", **changes), "strict")


def test_order_looks_only_at_how_many_answers_came(path: Path) -> None:
    record(path, 2)
    pieces = ask(replay(path, "order"), asking("something", AIMessage("else"), HumanMessage("entirely")))
    assert isinstance(pieces[-1], ModelResponse)
    assert pieces[-1].message.content == "done"
    assert "after 2 answers (it holds 2 calls)" in diverging(
        path, asking("x", AIMessage(""), AIMessage("")), "order"
    )


def test_a_call_for_another_purpose_is_another_call(path: Path) -> None:
    model = Recorder(ScriptedModel(["turn", "summary"]), Tape(path, KEEP))
    ask(model, asking("go"))
    ask(model, asking("go", purpose="summary"))
    last = ask(replay(path), asking("go", purpose="summary"))[-1]
    assert isinstance(last, ModelResponse)
    assert last.message.content == "summary"
    assert "no call with the purpose 'other'" in diverging(path, asking("go", purpose="other"))


def test_a_turn_is_found_by_its_prompt_wherever_it_stands(path: Path) -> None:
    tape = Tape(path, KEEP)
    first = calling(("ls", {"path": "/"}), text="looking")
    for prompt, answers in {"one": [first, "done one"], "two": ["done two"]}.items():
        model, messages = Recorder(ScriptedModel(answers), tape), [HumanMessage(prompt)]
        for _ in answers:
            response = ask(model, asking(*messages))[-1]
            assert isinstance(response, ModelResponse)
            messages = [*messages, response.message, ToolMessage("r", tool_call_id="c")]

    def said(*messages: BaseMessage | str) -> str:
        response = ask(replay(path, "turn"), asking(*messages))[-1]
        assert isinstance(response, ModelResponse)
        return str(response.message.text)

    before = [HumanMessage("a summary"), AIMessage("x"), AIMessage("y")]
    assert said(*before, "two") == "done two"
    assert said(*before, "one") == "looking"
    assert said("one", AIMessage("looking"), ToolMessage("r", tool_call_id="c")) == "done one"
    assert said(*before, "never recorded") == "looking"
    with pytest.raises(ModelError, match="after 1 answers to this prompt"):
        said("two", AIMessage("done two"))


def test_a_pause_comes_before_each_piece(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(path, 1)
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    pieces = ask(replay(path, pause_seconds=0.5), asking("go"))
    assert waits == [0.5] * len(pieces)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (None, "cannot be read"),
        ("", "not a cassette"),
        ("hello\n", "not a cassette"),
        ('{"other": 1}\n', "not a cassette"),
        ('{"zeus_cassette": 99, "model": "m"}\n', "version 99"),
    ],
)
def test_what_is_no_cassette_is_refused_before_the_run(path: Path, text: str | None, part: str) -> None:
    path.parent.mkdir()
    if text is not None:
        path.write_text(text)
    with pytest.raises(CassetteError, match=part) as caught:
        replay(path)
    assert caught.value.exit_code == 3


def test_a_damaged_line_is_named(path: Path) -> None:
    record(path, 2)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + "{}\n" + lines[2])
    with pytest.raises(CassetteError) as caught:
        ask(replay(path), asking("go"))
    assert caught.value.where == f"{path}:2"


def written(path: Path, requests: Sequence[tuple[int, Sequence[str]]]) -> Path:
    """A cassette whose lines have these numbers of messages in common with the line before, and these further ones."""
    path.parent.mkdir(exist_ok=True)
    asked = {"purpose": "turn", "tools": []}
    lines: list[Any] = [{"zeus_cassette": 1, "model": "m"}]
    for count, texts in requests:
        messages = [{"role": "user", "content": text} for text in texts]
        lines.append(
            {"request": {**asked, "same": count, "messages": messages}, "pieces": [], "response": {}}
        )
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


@pytest.mark.parametrize(
    "changed",
    [
        {"request": "text"},
        {"request": ["text"]},
        {"request": {"same": 0, "messages": "text"}},
        {"request": {"same": 0, "messages": ["text"]}},
        {"request": {"same": 5, "messages": []}},
        {"request": {"same": -1, "messages": []}},
        {"request": {"same": "0", "messages": []}},
        {"pieces": "text"},
        {"response": "text"},
    ],
    ids=repr,
)
def test_a_line_of_another_form_is_named(path: Path, changed: dict[str, Any]) -> None:
    header, line, *_ = written(path, [(0, "a")]).read_text().splitlines()
    path.write_text(f"{header}\n{line}\n{json.dumps({**json.loads(line), **changed})}\n")
    with pytest.raises(CassetteError, match="not a recorded call") as caught:
        read_cassette(path)
    assert caught.value.where == f"{path}:3"


REQUESTS = st.lists(st.tuples(st.floats(0, 1), st.lists(st.sampled_from("abc"), max_size=3)), max_size=12)


@given(REQUESTS)
def test_the_messages_of_each_request_are_read(
    tmp_path_factory: pytest.TempPathFactory, given: Sequence[tuple[float, list[str]]]
) -> None:
    expected: list[list[str]] = []
    requests: list[tuple[int, list[str]]] = []
    for share, texts in given:
        before = expected[-1] if expected else []
        requests.append((round(share * len(before)), texts))
        expected.append([*before[: requests[-1][0]], *texts])
    calls = read_cassette(written(tmp_path_factory.getbasetemp() / "all" / "c.jsonl", requests)).calls
    for call, texts in zip(calls, expected, strict=True):
        messages = call.request["messages"]
        assert [each["content"] for each in messages] == texts
        assert [messages[place]["content"] for place in range(-len(texts), len(texts))] == texts * 2
        assert [each["content"] for each in messages[1:]] == texts[1:]
        assert same(messages, [{"role": "user", "content": text} for text in texts])
        assert not same(messages, [*messages, {}])


@pytest.mark.parametrize("volatile", [0, 1])
def test_a_long_conversation_takes_memory_by_its_length(path: Path, volatile: int) -> None:
    """Complete lists of 3,000 requests would take 36 MB. The last message may be another one in each request."""
    written(path, [(number, "ab"[: 1 + volatile]) for number in range(3_000)])
    tracemalloc.start()
    try:
        cassette = read_cassette(path)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(cassette.calls[-1].request["messages"]) == 3_000 + volatile
    assert kept < 18_000_000


def test_a_file_that_is_no_cassette_is_not_overwritten(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("precious\n")
    with pytest.raises(CassetteError):
        Recorder(ScriptedModel(["x"]), Tape(path, KEEP))
    assert path.read_text() == "precious\n"


@pytest.mark.parametrize("place", ["file", "folder"])
def test_a_link_that_takes_the_cassettes_place_during_a_run_is_not_followed(
    path: Path, tmp_path: Path, place: str
) -> None:
    """A command of the agent may put it there, and the file that it leads to may be closed to the agent."""
    precious = tmp_path / "precious" / path.name
    precious.parent.mkdir()
    precious.write_text("precious\n")
    recorder = Recorder(ScriptedModel(["x", "y"]), Tape(path, KEEP))
    ask(recorder, asking("go"))
    if place == "file":
        path.unlink()
        path.symlink_to(precious)
    else:
        path.parent.rename(tmp_path / "moved")
        path.parent.symlink_to(precious.parent)
    with pytest.raises(RunError, match="is another file now"):
        ask(recorder, asking("go on"))
    assert precious.read_text() == "precious\n"


def test_a_tape_that_ends_holds_no_file(path: Path) -> None:
    tape = Tape(path, KEEP)
    ask(Recorder(ScriptedModel(["x"]), tape), asking("go"))
    tape.close()
    tape.close()
    open_files = {os.path.realpath(each) for each in Path("/dev/fd").iterdir()}
    assert str(path.resolve()) not in open_files
    ask(Recorder(ScriptedModel(["y"]), tape), asking("go on"))
    assert len(read_cassette(path).calls) == 2


scalars = st.text(max_size=5) | st.integers() | st.none()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
plain = st.text(st.characters(exclude_characters="*#", exclude_categories=("Cs",)), min_size=1, max_size=5)


@given(values)
def test_every_value_fits_itself(value: Any) -> None:
    assert same(value, json.loads(json.dumps(value)))


@given(plain, plain, st.text(max_size=9))
def test_a_masked_part_fits_any_text_and_the_rest_only_itself(before: str, after: str, hidden: str) -> None:
    recorded = f"{before}{MASK}{after}"
    assert same(recorded, f"{before}{hidden}{after}")
    assert not same(recorded, f"#{before}{hidden}{after}")
    assert not same(recorded, f"{before}{hidden}{after}#")


@given(st.lists(st.text("ab", max_size=2), min_size=1, max_size=5), st.text("ab", max_size=8))
def test_masked_parts_fit_as_a_pattern_for_any_text_does(parts: list[str], live: str) -> None:
    assert same(MASK.join(parts), live) == (re.fullmatch(".*".join(parts), live) is not None)


@pytest.mark.timeout(20)
def test_many_masked_parts_are_compared_in_one_pass() -> None:
    """A pattern with ``.*`` tries each part at all of its places again, and never ends here."""
    assert not same(MASK.join("a" * 50) + "b", "a" * 300)
    assert same(MASK.join("a" * 50), "a" * 300)


def test_the_documented_example_is_a_cassette(path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "how-to" / "cassettes.md").read_text("utf-8")
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]
    path.parent.mkdir()
    path.write_text("".join(json.dumps(block) + "\n" for block in blocks))
    asked = ModelRequest("", [HumanMessage("List the files.")], tools=(LS,))
    last = ask(replay(path), asked)[-1]
    assert isinstance(last, ModelResponse)
    assert last.message.tool_calls[0]["name"] == "ls"


def test_models_that_take_turns_on_one_tape_are_both_played(path: Path) -> None:
    tape = Tape(path, KEEP)
    parent, child = (Recorder(ScriptedModel([f"{name} one", f"{name} two"]), tape) for name in ("p", "c"))
    first, second = asking("the parent's task"), asking("the child's task")
    longer = asking("the parent's task", "p one", "and then?")
    ask(parent, first)
    ask(child, second)
    ask(parent, longer)
    cassette = read_cassette(path)
    assert [len(call.request["messages"]) for call in cassette.calls] == [1, 1, 3]
    response = ask(replay(path), longer)[-1]
    assert isinstance(response, ModelResponse)
    assert response.message.content == "p two"


def test_the_id_of_a_session_in_a_text_may_be_another() -> None:
    one, other = "[helper · session_0123456789ab · 2 steps]", "[helper · session_ba9876543210 · 2 steps]"
    assert same(one, other)
    assert same([{"content": f"{MASK} {one}"}], [{"content": f"key {other}"}])
    assert not same(one, other.replace("2 steps", "3 steps"))
    assert not same(one, other.replace("session_ba9876543210", "session_none"))
