"""`zeus run` against a provider on the loopback, through the real litellm (issue 2, acceptance 2).

Where a whole process matters (streams, signals, recording) it is one; the errors go through the same command line in
this process, so that litellm is loaded once for all of them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from tests.cli.conftest import Project, Result, Zeus, spawn
from tests.support.hand_time import leaps
from tests.support.provider import Call, Provider, Reply

pytestmark = pytest.mark.xdist_group("litellm")

KEY = "sk-acceptance-0123456789"
KINDS = ["openai", "anthropic", "litellm"]
"""Both protocols without litellm, and one of them with it, for a model that litellm does not list."""
VARIABLES = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY", "litellm": "ANTHROPIC_API_KEY"}
MODELS = {
    "openai": "openai/acme-chat",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "litellm": "anthropic/acme-claude",
}
INWARD = ("input_cost_per_token", "cache_read_cost_per_token", "cache_write_cost_per_token")

Event = dict[str, Any]


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES.values():
        monkeypatch.setenv(variable, KEY)


def configured(
    project: Project, provider: Provider, kind: str = "openai", more: str = "", **options: Any
) -> None:
    """A config with the workspace in ``work/``, tiny waits, and prices of a dollar in and ten out."""
    model = {
        "model": MODELS[kind],
        "api_base": provider.openai if kind == "openai" else provider.anthropic,
        **options,
    }
    profile = {"max_input_tokens": 50_000, "output_cost_per_token": 10, **dict.fromkeys(INWARD, 1)}
    config = {
        "version": 1,
        "name": "acceptance",
        "model": {"litellm": model},
        "tools": ["filesystem", "todos"],
        "workspace": {"root": "work"},
        "retry": {"initial_seconds": 0.01, "max_seconds": 0.5},
        "profiles": {"models": {MODELS[kind]: profile}},
        **json.loads(more or "{}"),
    }
    (project.folder / "work").mkdir(exist_ok=True)
    project.write("zeus.yaml", json.dumps(config))


def write(path: str, content: str, call_id: str) -> Call:
    return Call("write_file", json.dumps({"path": path, "content": content}), call_id)


def read(path: str, call_id: str) -> Call:
    return Call("read_file", json.dumps({"path": path}), call_id)


def only(events: Sequence[Event], kind: str) -> list[Event]:
    return [event for event in events if event["type"] == kind]


def finished(process: subprocess.Popen[str]) -> Result:
    out, err = process.communicate(timeout=120)
    return Result(process.returncode, out, err)


def roles(provider: Provider, number: int) -> list[str]:
    return [message["role"] for message in provider.requests[number].body["messages"]]


def assert_no_key_anywhere(project: Project, *texts: str) -> None:
    """The key is in nothing that was printed and in no file of the project."""
    assert not any(KEY in text for text in texts)
    for path in project.folder.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


def test_tools_are_called_files_written_and_all_is_counted_recorded_and_replayed(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    poem = 'He said: "größer" 🌊\n\tand \\left.\n'
    replies = [
        Reply("slow down", status=429, headers={"retry-after": "0.02"}),
        Reply("oops", status=500),
        Reply(
            "I write.",
            calls=[write("/poem.txt", poem, "a"), write("/deep/er/notes.md", "# Notes\n", "b")],
            usage={"in": 100, "out": 20, "cached": 60, "reasoning": 5},
        ),
        Reply("Hello, wo", cut_after=4),
        Reply(
            calls=[read("/poem.txt", "c"), Call("ls", "{}", "d"), Call("nothing", "{}", "e")], repeat_ids=True
        ),
        Reply("All is written.", usage={"in": 200, "out": 30}),
    ]
    with Provider(*replies) as provider:
        configured(project, provider)
        words = ["run", "zeus.yaml", "Write a poem", "-o", "ndjson", "--record", "tape.jsonl"]
        result = finished(spawn(words, project.folder))
        assert len(provider.requests) == 6
        assert [roles(provider, number) for number in (2, 4, 5)] == [
            ["system", "user"],
            ["system", "user", "assistant", "tool", "tool"],
            ["system", "user", "assistant", "tool", "tool", "assistant", "tool", "tool", "tool"],
        ]
        assert provider.requests[0].headers["authorization"] == f"Bearer {KEY}"

    assert result.exit_code == 0, result.err
    events = result.lines
    assert (project.folder / "work/poem.txt").read_text() == poem
    assert (project.folder / "work/deep/er/notes.md").read_text() == "# Notes\n"
    assert [(each["call_id"], each["tool_name"]) for each in only(events, "tool_call")][:2] == [
        ("a", "write_file"),
        ("b", "write_file"),
    ]
    results = {each["call_id"]: each for each in only(events, "tool_call_result")}
    assert list(results) == list(dict.fromkeys(results))
    assert set(results) == {"a", "b", "c", "d", "e"}
    assert 'He said: "größer" 🌊' in results["c"]["content"]
    assert results["e"]["is_error"]
    assert "There is no tool 'nothing'" in results["e"]["content"]
    assert not any(results[call]["is_error"] for call in "abcd")
    waits = [(each["attempt"], each["wait_seconds"]) for each in only(events, "model_retry")]
    assert [attempt for attempt, _ in waits] == [2, 3, 2]
    assert waits[0][1] == 0.02, "what the provider asks for"
    assert 0.015 <= waits[1][1] <= 0.02
    used = [
        (each["prompt_tokens"], each["completion_tokens"], each["cached_tokens"])
        for each in only(events, "token_usage")
    ]
    assert used == [(100, 20, 60), (11, 7, 0), (200, 30, 0)]
    assert [each["type"] for each in events].count("complete") == 1
    ending = events[-1]
    assert ending["answer"] == "All is written."
    assert (ending["steps"], ending["prompt_tokens"], ending["completion_tokens"]) == (3, 311, 57)
    assert ending["cost_usd"] == 311 + 570
    assert_no_key_anywhere(project, result.out, result.err)

    # The recording plays the same run again, offline, and the tools work for real.
    for path in ("poem.txt", "deep/er/notes.md"):
        (project.folder / "work" / path).unlink()
    for variable in set(VARIABLES.values()):
        monkeypatch.delenv(variable)
    config = json.loads((project.folder / "zeus.yaml").read_text())
    project.write("replay.yaml", json.dumps({**config, "model": {"replay": {"cassette": "tape.jsonl"}}}))
    again = zeus("run", "replay.yaml", "Write a poem", "-o", "json")
    assert again.exit_code == 0, again.err
    assert again.json["answer"] == "All is written."
    assert again.json["usage"]["prompt_tokens"] == 311
    assert again.json["cost_usd"] == 311 + 570
    assert (project.folder / "work/poem.txt").read_text() == poem
    other = zeus("run", "replay.yaml", "Write a song", "-o", "json")
    assert (other.exit_code, other.json["error"]["code"]) == (1, "model_divergence")


@pytest.mark.parametrize("kind", ["anthropic", "litellm"])
def test_anthropic_is_spoken_as_well(project: Project, kind: str) -> None:
    replies = [
        Reply("busy", status=529),
        Reply(
            "I write.",
            reasoning="Two files.",
            calls=[write("/one.txt", "one", "toolu_1"), write("/two.txt", "two", "toolu_2")],
            usage={"in": 40, "out": 20, "cached": 50, "written": 10},
        ),
        Reply("Both are there.", usage={"in": 7, "out": 3}),
    ]
    with Provider(*replies) as provider:
        configured(project, provider, kind, max_tokens=512)
        result = finished(spawn(["run", "zeus.yaml", "go", "-o", "json"], project.folder))
        assert [request.path for request in provider.requests] == ["/v1/messages"] * 3
        last = provider.requests[2].body
        assert provider.requests[2].headers["x-api-key"] == KEY
    assert result.exit_code == 0, result.err
    assert [block["tool_use_id"] for block in last["messages"][2]["content"]] == ["toolu_1", "toolu_2"]
    assert last["max_tokens"] == 512
    found = result.json
    assert found["answer"] == "Both are there."
    assert found["usage"] == {
        "prompt_tokens": 107,
        "completion_tokens": 23,
        "cached_tokens": 50,
        "cache_write_tokens": 10,
    }
    assert found["cost_usd"] == 107 + 230
    assert (project.folder / "work/two.txt").read_text() == "two"
    assert_no_key_anywhere(project, result.out, result.err)


def test_interrupted_in_the_middle_of_a_stream_it_goes_on_and_the_log_is_whole(
    project: Project, zeus: Zeus
) -> None:
    hanging = Reply("The answer is taking its time", hang_after=3)
    with Provider(Reply(calls=[write("/a.txt", "a", "a")]), hanging) as provider:
        configured(project, provider)
        first = spawn(["run", "zeus.yaml", "go", "-o", "ndjson"], project.folder)
        seen = until_text(first)
        first.send_signal(signal.SIGINT)
        interrupted = finished(first)
        assert provider.wait_for_hangup(), "the connection stays open"
        assert interrupted.exit_code == 130, interrupted.err
        assert [event["type"] for event in interrupted.lines][-1] == "error"
        assert interrupted.lines[-1]["code"] == "cancelled"
        session = seen[0]["session"]

    with Provider(hanging) as provider:
        configured(project, provider)
        second = spawn(["run", "zeus.yaml", "--continue", "-o", "ndjson"], project.folder)
        seen = until_text(second)
        assert (seen[0]["session"], seen[0]["resumed"]) == (session, True)
        second.send_signal(signal.SIGTERM)
        terminated = finished(second)
        assert provider.wait_for_hangup()
        assert terminated.exit_code == 130, terminated.err

    with Provider(Reply("It is 42.")) as provider:
        configured(project, provider)
        last = zeus("run", "zeus.yaml", "--continue", "-o", "ndjson")
        assert last.exit_code == 0, last.err
        assert roles(provider, 0) == ["system", "user", "assistant", "tool"]
    assert last.lines[-1]["answer"] == "It is 42."
    assert not only(last.lines, "tool_call"), "the finished call was repeated"
    shown = zeus("sessions", "show", session, "--json").json["messages"]
    assert [message["role"] for message in shown] == ["user", "assistant", "tool", "assistant"]
    assert [message["content"] for message in shown][-1] == "It is 42."
    for process in (interrupted, terminated):
        assert "Traceback" not in process.err


def until_text(process: subprocess.Popen[str]) -> list[Event]:
    """The events up to the last piece of text before the provider falls silent."""
    assert process.stdout is not None
    seen: list[Event] = []
    for line in process.stdout:
        seen.append(json.loads(line))
        if seen[-1]["type"] == "text":
            return seen
    raise AssertionError(f"no text came: {seen}")


WITHOUT_LITELLM = """
import sys
from zeus_runtime.cli import main
for config in sys.argv[1:] or ["zeus.yaml"]:
    print(main(["run", config, "What is there?"]), "litellm" in sys.modules, file=sys.stderr)
"""


def test_only_a_run_that_needs_litellm_imports_it(project: Project) -> None:
    """One process runs all, those that need it last: a module that is imported stays."""
    runs = [(kind, stream) for kind in KINDS for stream in (True, False)]
    assert KINDS[-1] == "litellm"
    replies = [Reply("Reading.", calls=[Call("ls", "{}", "a")]), Reply("Nothing there.")] * len(runs)
    configs = []
    with Provider(*replies) as provider:
        for kind, stream in runs:
            configured(project, provider, kind, stream=stream)
            configs.append(f"{kind}-{stream}.yaml")
            (project.folder / "zeus.yaml").rename(project.folder / configs[-1])
        words = [sys.executable, "-c", WITHOUT_LITELLM, *configs]
        done = subprocess.run(words, cwd=project.folder, capture_output=True, text=True, check=False)
    assert done.stdout == "Nothing there.\n" * len(runs)
    said = [line for line in done.stderr.splitlines() if line.startswith(("0 ", "1 "))]
    assert said == [f"0 {kind == 'litellm'}" for kind, _ in runs]


def test_a_deployment_of_azure_is_called_without_litellm(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All three variables from the environment, as docs/start/providers.md has it."""
    with Provider(Reply("Reading.", calls=[Call("ls", "{}", "a")]), Reply("Nothing there.")) as provider:
        monkeypatch.setenv("AZURE_API_KEY", KEY)
        monkeypatch.setenv("AZURE_API_BASE", provider.openai.removesuffix("/v1"))
        monkeypatch.setenv("AZURE_API_VERSION", "2025-04-01-preview")
        project.write("zeus.yaml", "version: 1\nmodel: azure/my-deployment\ntools: [filesystem]\n")
        words = [sys.executable, "-c", WITHOUT_LITELLM]
        done = subprocess.run(words, cwd=project.folder, capture_output=True, text=True, check=False)
        paths = {each.path for each in provider.requests}
        keys = {each.headers.get("api-key") for each in provider.requests}
    assert (done.stdout, done.stderr.splitlines()[-1]) == ("Nothing there.\n", "0 False")
    assert paths == {"/openai/deployments/my-deployment/chat/completions?api-version=2025-04-01-preview"}
    assert keys == {KEY}
    assert_no_key_anywhere(project, done.stdout, done.stderr)


@pytest.mark.parametrize("missing", ["AZURE_API_KEY", "AZURE_API_BASE", "AZURE_API_VERSION"])
def test_a_variable_of_azure_that_is_missing_is_named(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    for name, value in (("KEY", KEY), ("BASE", "http://127.0.0.1:9"), ("VERSION", "2025-04-01-preview")):
        monkeypatch.setenv(f"AZURE_API_{name}", value)
    monkeypatch.delenv(missing)
    project.write("zeus.yaml", "version: 1\nmodel: azure/my-deployment\n")
    result = zeus("run", "zeus.yaml", "go")
    assert (result.exit_code, missing in result.err) == (4, True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stream", [True, False])
def test_text_is_the_answer_alone_on_standard_output(
    project: Project, zeus: Zeus, kind: str, stream: bool
) -> None:
    with Provider(Reply("Reading.", calls=[Call("ls", "{}", "a")]), Reply("Nothing there.")) as provider:
        configured(project, provider, kind, stream=stream)
        result = zeus("run", "zeus.yaml", "What is there?")
    assert (result.exit_code, result.out) == (0, "Nothing there.\n")
    assert "→ ls" in result.err
    assert "2 steps · 22 tokens in · 14 out · $162.0000" in result.err


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_exits_4_and_names_its_variable_and_is_not_tried_again(
    project: Project, zeus: Zeus, kind: str, status: int
) -> None:
    with Provider(Reply(f"bad key {KEY}", status=status)) as provider:
        configured(project, provider, kind)
        result = zeus("run", "zeus.yaml", "go")
        assert len(provider.requests) == 1
    assert result.exit_code == 4
    assert VARIABLES[kind] in result.err
    assert_no_key_anywhere(project, result.out, result.err)


def test_a_refused_key_of_the_yaml_is_named(project: Project, zeus: Zeus) -> None:
    with Provider(Reply("bad key", status=401)) as provider:
        configured(project, provider, api_key="sk-of-the-yaml")
        result = zeus("run", "zeus.yaml", "go")
    assert result.exit_code == 4
    assert "model.litellm.api_key" in result.err
    assert "sk-of-the-yaml" not in result.err


def test_a_server_that_wants_a_key_and_got_none_is_told_apart(
    project: Project, zeus: Zeus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with Provider(Reply("who are you?", status=401)) as provider:
        configured(project, provider)
        result = zeus("run", "zeus.yaml", "go")
    assert result.exit_code == 4
    assert "set OPENAI_API_KEY" in result.err


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_key_exits_4_before_anything_is_sent(
    project: Project, zeus: Zeus, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLES[kind])
    project.write("zeus.yaml", json.dumps({"version": 1, "model": MODELS[kind]}))
    result = zeus("run", "zeus.yaml", "go")
    assert result.exit_code == 4
    assert f"{VARIABLES[kind]} is not set" in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("kind", "text", "counts"),
    [
        (
            "openai",
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 141318 tokens"
            " (141259 in the messages, 59 in the functions). Please reduce the length of the messages or functions.",
            ("128000", "141318"),
        ),
        (
            "openai",
            "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 289650 tokens."
            " Please reduce the length of the messages.",
            ("272000", "289650"),
        ),
        ("anthropic", "prompt is too long: 219898 tokens > 200000 maximum", ("219898", "200000")),
    ],
)
def test_an_overflow_says_the_counts_and_is_not_tried_again(
    project: Project, zeus: Zeus, kind: str, text: str, counts: tuple[str, str]
) -> None:
    with Provider(Reply(text, status=400)) as provider:
        configured(project, provider, kind)
        result = zeus("run", "zeus.yaml", "go", "-o", "json")
        assert len(provider.requests) == 1
    assert result.exit_code == 1
    error = result.json["error"]
    assert error["code"] == "model_context_overflow"
    assert all(count in error["message"] for count in counts)
    assert "shorten the prompt files" in error["message"]
    assert "Traceback" not in result.err


GARBAGE = [
    Reply(body="<html>502 Bad Gateway</html>"),
    Reply(body="data: {garbage\n\n"),
    Reply("Hello, world", cut_after=3),
    Reply("Hello, world", reset_after=3),
    Reply("Hello, world", finish_reason="missing"),
]
GARBAGE_NAMES = ["html", "garbage", "cut", "reset", "no end"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reply", GARBAGE, ids=GARBAGE_NAMES)
def test_a_broken_answer_is_tried_again_and_its_pieces_are_void(
    project: Project, zeus: Zeus, kind: str, reply: Reply
) -> None:
    with Provider(reply, Reply("Whole.")) as provider:
        configured(project, provider, kind)
        result = zeus("run", "zeus.yaml", "go", "-o", "json")
        assert len(provider.requests) == 2
        assert roles(provider, 1) == roles(provider, 0), "a broken answer is in the conversation"
    assert result.exit_code == 0, result.err
    assert result.json["answer"] == "Whole."


@pytest.mark.parametrize(
    ("reply", "code", "said"),
    [
        (Reply("slow down", status=429), "model_rate_limit", "slow down"),
        (Reply("oops", status=500), "model_server", "oops"),
        (Reply(body="<html>502 Bad Gateway</html>"), "model_network", "before the answer was complete"),
        (Reply("Hello, world", cut_after=3), "model_network", "before the answer was complete"),
    ],
    ids=["429", "500", "html", "cut"],
)
def test_what_does_not_heal_is_given_up_after_three_tries_with_a_clear_error(
    project: Project, zeus: Zeus, reply: Reply, code: str, said: str
) -> None:
    with Provider(*[reply] * 4) as provider:
        configured(project, provider)
        result = zeus("run", "zeus.yaml", "go", "-o", "json")
        assert len(provider.requests) == 3
    assert result.exit_code == 1
    error = result.json["error"]
    assert error["code"] == code
    assert said in error["message"]
    assert "given up after 3 tries" in error["message"]
    assert "Traceback" not in result.err


def test_a_wait_longer_than_allowed_is_not_waited(project: Project, zeus: Zeus) -> None:
    with Provider(Reply("slow down", status=429, headers={"retry-after": "60"})) as provider:
        configured(project, provider)
        result = zeus("run", "zeus.yaml", "go")
        assert len(provider.requests) == 1
    assert result.exit_code == 1
    assert "asks to wait 60 s, longer than retry.max_seconds (0.5 s)" in result.err


def silence(provider: Provider, leap: Callable[[float], None]) -> None:
    """Let time pass while the provider is silent, until its client has gone away twice."""
    for number in (1, 2):
        assert provider.wait_for_requests(number)
        while not provider.wait_for_hangup(0.02, count=number):
            leap(11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("after", [0, 3])
def test_a_silent_provider_is_tried_again_and_then_given_up(
    project: Project, zeus: Zeus, kind: str, after: int
) -> None:
    silent = Reply("Hello, world", hang_after=after)
    with Provider(silent, silent) as provider:
        more = json.dumps({"retry": {"attempts": 2, "initial_seconds": 0.01}})
        configured(project, provider, kind, more, idle_seconds=10)
        with leaps() as leap:
            passing = threading.Thread(target=silence, args=(provider, leap))
            passing.start()
            result = zeus("run", "zeus.yaml", "go", "-o", "json")
            passing.join()
        assert len(provider.requests) == 2
    assert result.exit_code == 1
    assert result.json["error"]["code"] == "model_timeout"
    assert "idle_seconds" in result.json["error"]["message"]


def test_a_provider_that_is_not_there_is_a_clear_error(project: Project, zeus: Zeus) -> None:
    with Provider() as provider:
        configured(project, provider)
    result = zeus("run", "zeus.yaml", "go", "-o", "json")
    assert result.exit_code == 1
    assert result.json["error"]["code"] == "model_network"
    assert "Traceback" not in result.err


ANSWERS_COST = json.dumps(
    {"profiles": {"models": {MODELS["openai"]: {"input_cost_per_token": 0, "output_cost_per_token": 10}}}}
)


def test_the_money_limit_ends_the_turn_and_a_higher_one_goes_on(project: Project, zeus: Zeus) -> None:
    with Provider(Reply(calls=[Call("ls", "{}", "a")]), Reply("Done.")) as provider:
        configured(project, provider, more=ANSWERS_COST)
        limited = zeus("run", "zeus.yaml", "go", "--max-cost", "50", "-o", "json")
        same = zeus("run", "zeus.yaml", "--continue", "--max-cost", "50", "-o", "json")
        assert len(provider.requests) == 1
        resumed = zeus("run", "zeus.yaml", "--continue", "--max-cost", "90", "-o", "json")
    assert (limited.exit_code, limited.json["cost_usd"]) == (6, 70)
    assert same.exit_code == 6
    assert "this turn cost $70.0000" in same.json["error"]["message"]
    assert (resumed.exit_code, resumed.json["answer"]) == (0, "Done.")


def test_a_call_that_may_exceed_the_money_limit_is_not_made(project: Project, zeus: Zeus) -> None:
    with Provider() as provider:
        configured(project, provider)
        limited = zeus("run", "zeus.yaml", "go", "--max-cost", "50", "-o", "json")
        assert provider.requests == []
    assert limited.exit_code == 6
    assert "the next model call may cost $" in limited.json["error"]["message"]


def test_the_money_limit_holds_by_estimate_where_nothing_is_reported(project: Project, zeus: Zeus) -> None:
    with Provider(Reply(calls=[Call("ls", "{}", "a")], usage=None), Reply("Done.")) as provider:
        configured(project, provider, more=ANSWERS_COST)
        limited = zeus("run", "zeus.yaml", "go", "--max-cost", "50", "-o", "json")
        assert len(provider.requests) == 1
    assert limited.exit_code == 6
    assert limited.json["cost_usd"] > 50
    assert [notice["code"] for notice in limited.json["notices"]] == ["usage_unknown"]


@pytest.mark.parametrize("stream", [True, False])
def test_a_filtered_answer_exits_1_with_its_text_and_a_sentence(
    project: Project, zeus: Zeus, *, stream: bool
) -> None:
    with Provider(Reply("The first half", finish_reason="content_filter")) as provider:
        configured(project, provider, stream=stream)
        result = zeus("run", "zeus.yaml", "go")
        again = zeus("run", "zeus.yaml", "--continue", "-o", "json")
        assert len(provider.requests) == 1
    assert (result.exit_code, result.out) == (1, "The first half\n")
    assert "the provider's content filter stopped the answer" in result.err
    assert again.exit_code == 1
    assert (again.json["error"]["code"], again.json["answer"]) == ("answer_filtered", "The first half")


@pytest.mark.parametrize("stream", [True, False])
def test_an_empty_answer_exits_1_and_continue_asks_again(
    project: Project, zeus: Zeus, *, stream: bool
) -> None:
    with Provider(Reply(""), Reply("Here.")) as provider:
        configured(project, provider, stream=stream)
        result = zeus("run", "zeus.yaml", "go")
        again = zeus("run", "zeus.yaml", "--continue")
    assert (result.exit_code, result.out) == (1, "")
    assert "the model's answer is empty" in result.err
    assert (again.exit_code, again.out) == (0, "Here.\n")


def test_what_the_model_gets_wrong_is_told_to_it(project: Project, zeus: Zeus) -> None:
    bad: Sequence[Call] = [
        Call("read_file", '{"path": ', "a"),
        Call("read_file", '{"file": "/x"}', "b"),
        Call("write_file", json.dumps({"path": "/../../escape.txt", "content": "x"}), "c"),
    ]
    with Provider(Reply(calls=bad), Reply("Sorry.")) as provider:
        configured(project, provider)
        result = zeus("run", "zeus.yaml", "go", "-o", "ndjson")
        told: Sequence[Mapping[str, Any]] = provider.requests[1].body["messages"][3:]
    assert result.exit_code == 0
    assert {message["tool_call_id"] for message in told} == {"a", "b", "c"}
    assert all(each["is_error"] for each in only(result.lines, "tool_call_result"))
    assert not (project.folder.parent / "escape.txt").exists()
    assert not os.path.exists("/escape.txt")  # noqa: PTH110


def test_another_model_is_asked_at_the_configs_own_server(zeus: Zeus, project: Project) -> None:
    with Provider(Reply("Hello.")) as provider:
        configured(project, provider, temperature=0.25)
        result = zeus("run", "zeus.yaml", "hi", "--model", "openai/acme-other")
        (request,) = provider.requests
    assert result.exit_code == 0, result.err
    assert (request.body["model"], request.body["temperature"]) == ("acme-other", 0.25)
