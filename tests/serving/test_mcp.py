"""An agent as an MCP server, asked by the SDK's client."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp.types import ElicitRequestParams, ElicitResult, JSONRPCRequest

from tests.support import mcp_server
from tests.support.agents import PositionModel, call, calling, script, write_agent
from zeus_runtime import Agent
from zeus_runtime.errors import RunError
from zeus_runtime.serving.mcp import serve, server_of
from zeus_runtime.tools.approval_form import visible

SMALL = {"command": sys.executable, "args": [str(Path(mcp_server.__file__))], "start_timeout_seconds": 60}


def show(name: str) -> str:
    return f"cd x && zeus approvals show {name}"


def agent(folder: Path, model: Any) -> Agent:
    config = write_agent(folder, f"description: It says things.\nmcpServers: {json.dumps({'small': SMALL})}")
    return Agent.from_config(config, directory=folder, model=model)


@asynccontextmanager
async def served(running: Agent) -> AsyncIterator[Any]:
    """The streams of a client, to and from an agent that is served on messages."""
    async with create_client_server_memory_streams() as (client, server):
        serving = asyncio.create_task(serve(running, *server))
        try:
            yield client
        finally:
            await client[1].aclose()
            await serving


def facts(answer: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = answer.structured_content
    return found


async def test_a_client_runs_the_agent_and_goes_on_with_its_session(tmp_path: Path) -> None:
    model = script(calling(call("small__count", "1")), "counted", "and again")
    told: list[str] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    async with agent(tmp_path, model) as running, Client(server_of(running)) as client:
        (tool,) = (await client.list_tools()).tools
        first = await client.call_tool("run", {"prompt": "count"}, progress_callback=progress)
        session = facts(first)["session"]
        second = await client.call_tool("run", {"prompt": "more", "session": session})
        listed = await client.read_resource("zeus://sessions")
        shown = await client.read_resource(f"zeus://sessions/{session}")
    assert tool.description is not None
    assert tool.description.startswith("It says things.")
    assert facts(first)["answer"] == "counted"
    assert facts(second)["answer"] == "and again"
    assert told == ["small__count", "small__count: at 1", "small__count: at 2", "small__count: at 3"]
    assert [each["session"] for each in json.loads(listed.contents[0].text)] == [session]  # type: ignore[union-attr]
    messages = json.loads(shown.contents[0].text)  # type: ignore[union-attr]
    assert [each["role"] for each in messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]


async def test_a_client_gets_the_value_of_an_answer_with_a_form(tmp_path: Path) -> None:
    form = "output: {schema: {type: object, properties: {n: {type: integer}}, required: [n]}}"
    model = script(calling(call("final_answer", "f1", n="x")), calling(call("final_answer", "f2", n=3)))
    living = Agent.from_config(write_agent(tmp_path, form), directory=tmp_path, model=model)
    async with living as running, Client(server_of(running)) as client:
        found = facts(await client.call_tool("run", {"prompt": "count"}))
    assert found["output"] == json.loads(found["answer"]) == {"n": 3}


async def test_what_a_tool_asks_reaches_the_clients_user(tmp_path: Path) -> None:
    async def elicit(context: Any, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"colour": "green"})

    model = script(calling(call("small__ask", "1")), "asked")
    async with (
        agent(tmp_path, model) as running,
        Client(server_of(running), elicitation_callback=elicit, mode="legacy") as client,
    ):
        answer = await client.call_tool("run", {"prompt": "ask"})
        session = facts(answer)["session"]
        history = await running.history(session)
    assert '"colour": "green"' in str(history[2].content)


@pytest.mark.parametrize(
    ("action", "content", "end"),
    [
        ("accept", {"approve": True}, "done"),
        ("accept", {"approve": "false"}, "was rejected"),
        ("accept", {}, "was rejected"),
        ("decline", None, "was rejected"),
        ("cancel", None, "approval_needed"),
    ],
)
async def test_only_a_yes_of_the_clients_user_approves(
    tmp_path: Path, action: Any, content: Any, end: str
) -> None:
    async def elicit(context: Any, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action=action, content=content)

    model = PositionModel(
        lambda request: (
            calling(call("record", "1", text="x"))
            if request.messages[-1].type != "tool"
            else "was rejected"
            if "rejected" in str(request.messages[-1].content)
            else "done"
        )
    )
    config = write_agent(tmp_path, "middlewares: [{approve: {mode: ask}}]")
    running = Agent.from_config(config, directory=tmp_path, model=model)
    async with running, Client(server_of(running), elicitation_callback=elicit, mode="legacy") as client:
        answer = await client.call_tool("run", {"prompt": "go"})
        waiting = await running.pending_approvals()
    assert facts(answer).get("answer", facts(answer).get("error")) == end
    assert len(waiting) == (end == "approval_needed")


async def test_the_clients_user_sees_what_would_run(tmp_path: Path) -> None:
    asked: list[str] = []

    async def elicit(context: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="decline")

    model = script(calling(call("record", "1", text="a\u202eb\x1b[8m\u200b")), "done")
    config = write_agent(tmp_path, "middlewares: [{approve: {mode: ask}}]")
    running = Agent.from_config(config, directory=tmp_path, model=model)
    async with running, Client(server_of(running), elicitation_callback=elicit, mode="legacy") as client:
        await client.call_tool("run", {"prompt": "go"})
    (message,) = asked
    head, text, reason = message.split("\n")
    assert head.startswith("record waits for approval (")
    assert text == "  text: a\\u202eb\\x1b[8m\\u200b"
    assert reason.startswith("  because: ")


async def test_the_clients_user_sees_a_diff_and_long_values_cut_with_how_to_see_them(tmp_path: Path) -> None:
    asked: list[str] = []

    async def elicit(context: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="decline")

    (tmp_path / "a.txt").write_text("old\n")
    write = call("write_file", "1", path="a.txt", content="new\n")
    model = script(calling(write, call("record", "2", text="x" * 200_000)), "done")
    config = write_agent(tmp_path, "middlewares: [{approve: {mode: ask}}]", tools="[probe, filesystem]")
    running = Agent.from_config(config, directory=tmp_path, model=model)
    async with (
        running,
        Client(server_of(running, whole=show), elicitation_callback=elicit, mode="legacy") as client,
    ):
        await client.call_tool("run", {"prompt": "go"})
    change, long = sorted(asked, key=len)
    assert "    - old\n    + new\n" in change
    name = long.partition("(")[2].partition(")")[0]
    assert f"    … 196,000 more characters; `cd x && zeus approvals show {name}` shows all" in long
    assert len(long) < 5_000


async def test_without_a_command_that_shows_the_whole_the_question_is_not_cut(tmp_path: Path) -> None:
    asked: list[str] = []

    async def elicit(context: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="decline")

    config = write_agent(tmp_path, "middlewares: [{approve: {mode: ask}}]")
    model = script(calling(call("record", "2", text="x" * 20_000)), "done")
    running = Agent.from_config(config, directory=tmp_path, model=model)
    async with running, Client(server_of(running), elicitation_callback=elicit, mode="legacy") as client:
        await client.call_tool("run", {"prompt": "go"})
    assert "x" * 20_000 in asked[0]


def test_a_form_shows_what_cannot_be_seen_and_keeps_its_values() -> None:
    odd = "keep\u202e"
    form = {
        "type": "object",
        "properties": {
            "which\u200b": {"enum": ["wipe", odd], "default": odd, "title": "T\u001b"},
            "how": {"oneOf": [{"const": odd}, {"const": "b", "title": "B\u200b"}]},
            "labelled": {"enum": ["a", "b"], "enumNames": ["A\u202e", "B"]},
            "a\u200b": {"type": "string"},
            "default": {"title": "t\u202e", "description": "d\u001b"},
            "const": {"title": "t\u202e"},
            "title": {"type": "string"},
        },
    }
    assert visible(form)["properties"] == {
        "which\u200b": {
            "enum": ["wipe", odd],
            "default": odd,
            "title": "T\\x1b",
            "enumNames": ["wipe", "keep\\u202e"],
        },
        "how": {"oneOf": [{"title": "keep\\u202e", "const": odd}, {"const": "b", "title": "B\\u200b"}]},
        "labelled": {"enum": ["a", "b"], "enumNames": ["A\\u202e", "B"]},
        "a\u200b": {"title": "a\\u200b", "type": "string"},
        "default": {"title": "t\\u202e", "description": "d\\x1b"},
        "const": {"title": "t\\u202e"},
        "title": {"type": "string"},
    }


async def test_a_run_that_fails_and_an_unknown_session_are_errors_the_client_reads(tmp_path: Path) -> None:
    async with agent(tmp_path, script(RuntimeError("no"))) as running, Client(server_of(running)) as client:
        failed = await client.call_tool("run", {"prompt": "go"})
        unknown = await client.call_tool("run", {"prompt": "go", "session": "session_000000000000"})
    assert failed.is_error
    assert facts(failed)["session"].startswith("session_")
    assert unknown.is_error
    assert "session_000000000000" in unknown.content[0].text  # type: ignore[union-attr]


HIDING = "a\u202eb\u200bc\x1b[8md\U000e0041"
SEEN = "a\\u202eb\\u200bc\\x1b[8md\\U000e0041"


async def test_a_client_that_shows_the_texts_of_a_run_shows_no_unseen_character(tmp_path: Path) -> None:
    config = write_agent(tmp_path, f'description: "{SEEN}"')
    model = script(HIDING, RunError(HIDING))
    async with (
        Agent.from_config(config, directory=tmp_path, model=model) as running,
        Client(served(running)) as client,
    ):
        instructions = client.instructions
        (tool,) = (await client.list_tools()).tools
        answered = await client.call_tool("run", {"prompt": HIDING})
        failed = await client.call_tool("run", {"prompt": "go", "session": facts(answered)["session"]})
        unknown = await client.call_tool("run", {"prompt": "go", "session": HIDING})
        wrong = await client.call_tool("run", {"prompt": {"a": HIDING}})
        listed = await client.read_resource("zeus://sessions")
        shown = await client.read_resource(f"zeus://sessions/{facts(answered)['session']}")
        with pytest.raises(MCPError) as caught:
            await client.read_resource(f"zeus://{HIDING}")
    assert instructions == SEEN
    assert str(tool.description).startswith(SEEN)
    assert answered.content[0].text == SEEN  # type: ignore[union-attr]
    assert facts(answered)["answer"] == HIDING, "a value for programs"
    assert SEEN in failed.content[0].text  # type: ignore[union-attr]
    assert SEEN in facts(failed)["message"]
    resources = [each.contents[0].text for each in (listed, shown)]  # type: ignore[union-attr]
    assert json.loads(resources[0])[0]["title"] == HIDING
    assert HIDING in json.dumps(json.loads(resources[1]), ensure_ascii=False).replace("\\u001b", "\x1b")
    told = [
        *(each.content[0].text for each in (answered, failed, unknown, wrong)),  # type: ignore[union-attr]
        *resources,
        caught.value.message,
        str(caught.value.data),
    ]
    for each in told:
        assert not set(each) & set(HIDING) - set("abcd[8m"), each


async def test_an_answer_that_is_json_keeps_its_value(tmp_path: Path) -> None:
    form = "output: {schema: {type: object, properties: {text: {type: string}}, required: [text]}}"
    value = {"text": "a\u202eb\u009bc\U000e0041"}
    model = script(calling(call("final_answer", "f1", **value)))
    living = Agent.from_config(write_agent(tmp_path, form), directory=tmp_path, model=model)
    async with living as running, Client(server_of(running)) as client:
        answer = await client.call_tool("run", {"prompt": "count"})
    text = answer.content[0].text  # type: ignore[union-attr]
    assert text.isascii()
    assert json.loads(text) == facts(answer)["output"] == value


async def test_the_resource_of_an_unknown_session_is_an_error_with_its_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with agent(tmp_path, script("hi")) as running, Client(server_of(running)) as client:
        with pytest.raises(MCPError, match="there is no session 'session_000000000000'"):
            await client.read_resource("zeus://sessions/session_000000000000")
    assert "Traceback" not in caplog.text


async def test_no_answer_or_error_repeats_a_secret(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    secret = "Zq7Xw9Lm3Pf5Rt8Vb2Nc"
    (tmp_path / ".env").write_text(f"API_KEY={secret}\n")
    async with agent(tmp_path, script(f"it is {secret}")) as running, Client(served(running)) as client:
        calls: list[tuple[str, dict[str, Any]]] = [
            ("run", {"prompt": f"say {secret}"}),
            ("run", {"prompt": "x", "session": secret}),
            ("run", {"prompt": {"a": secret}}),
            ("run", {secret: 1}),
            (secret, {}),
        ]
        answers = [await client.call_tool(name, given) for name, given in calls]
        for each in answers:
            assert secret not in each.model_dump_json()
        errors = []
        for asked in (
            client.read_resource(f"zeus://sessions/{secret}"),
            client.get_prompt(f"\u202e {secret}"),
        ):
            with pytest.raises(MCPError) as caught:
                await asked
            errors.append(caught.value)
    for error in errors:
        assert secret not in f"{error.message} {error.data}"
        assert "<secret:API_KEY>" in error.message
    assert errors[1].message == "Unknown prompt: \\u202e <secret:API_KEY>"
    assert secret not in caplog.text
    assert "\u202e" not in caplog.text
    assert facts(answers[0])["answer"] == "it is <secret:API_KEY>"
    assert [each.is_error for each in answers] == [False, True, True, True, True]


async def test_an_error_before_any_method_repeats_no_secret_and_no_unseen_character(tmp_path: Path) -> None:
    secret = "Zq7Xw9Lm3Pf5Rt8Vb2Nc"
    (tmp_path / ".env").write_text(f"API_KEY={secret}\n")
    envelope = {f"io.modelcontextprotocol/{name}": {} for name in ("protocolVersion", "clientCapabilities")}
    wrong = {**envelope, "io.modelcontextprotocol/protocolVersion": f"\u202e {secret}"}
    asked = JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/list", params={"_meta": wrong})
    async with agent(tmp_path, script()) as running, served(running) as (read, write):
        await write.send(SessionMessage(asked))
        error = (await read.receive()).message.error
    assert error.message == "Unsupported protocol version"
    assert error.data["requested"] == "\\u202e <secret:API_KEY>"


async def test_sessions_of_other_agents_are_not_served(tmp_path: Path) -> None:
    """They may hold what this agent's rules deny."""
    async with agent(tmp_path, script("hidden")) as other:
        session = (await other.run("go")).session
    config = tmp_path / "zeus.yaml"
    config.write_text(config.read_text().replace("name: test", "name: strict"))
    model = script("no")
    async with (
        Agent.from_config(config, directory=tmp_path, model=model) as strict,
        Client(server_of(strict)) as client,
    ):
        listed = await client.read_resource("zeus://sessions")
        assert json.loads(listed.contents[0].text) == []  # type: ignore[union-attr]
        with pytest.raises(MCPError, match="there is no session"):
            await client.read_resource(f"zeus://sessions/{session}")
        answer = await client.call_tool("run", {"prompt": "go", "session": session})
    assert answer.is_error
    assert not model.requests


async def test_an_empty_prompt_is_refused_and_withdraws_nothing_and_an_empty_session_is_a_new_one(
    tmp_path: Path,
) -> None:
    yaml = "middlewares: [{approve: {mode: ask}}]"
    model = script(calling(call("record", "1", text="x")))
    running = Agent.from_config(write_agent(tmp_path, yaml), directory=tmp_path, model=model)
    async with running, Client(server_of(running)) as client:
        first = await client.call_tool("run", {"prompt": "go", "session": ""})
        session = facts(first)["session"]
        assert facts(first)["error"] == "approval_needed"
        for empty in ("", " \n"):
            refused = await client.call_tool("run", {"prompt": empty, "session": session})
            assert refused.is_error
            assert refused.content[0].text.startswith("the prompt is empty")  # type: ignore[union-attr]
        assert len(await running.pending_approvals(session)) == 1
