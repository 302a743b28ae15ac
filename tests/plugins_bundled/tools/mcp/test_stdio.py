"""MCP servers in processes of their own, through the public door: runs of an agent with a scripted model."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.client.stdio import StdioServerParameters
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCRequest
from zeus_plugins.tools.mcp.pipes import piped
from zeus_plugins.tools.mcp.rate_limit import Pace

from tests.support import mcp_server
from tests.support.agents import (
    Answering,
    PositionModel,
    call,
    calling,
    events_of,
    play,
    script,
    write_agent,
)
from tests.support.hand_time import moved_by_hand
from zeus_runtime import Agent, ConfigError
from zeus_runtime.events import Event, Notice, RunFailed
from zeus_runtime.plugin.model import ModelPiece, ModelRequest
from zeus_runtime.tools.approval import Decision, PendingApproval

SCRIPT = str(Path(mcp_server.__file__))
QUICK = "{mcp: {restart_seconds: 0.01, max_restarts: 2}}"


def server(*behaviour: str, **keys: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [SCRIPT, *behaviour], "start_timeout_seconds": 60, **keys}


def agent(folder: Path, model: Any, servers: Mapping[str, Any], yaml: str = "", **more: Any) -> Agent:
    config = write_agent(folder, f"mcpServers: {json.dumps(servers)}\n{yaml}", tools=f"[{QUICK}, probe]")
    return Agent.from_config(config, directory=folder, model=model, **more)


async def until(look: Callable[[], Awaitable[Any]], fits: Callable[[Any], bool]) -> None:
    """Wait for what another process does."""
    while not fits(await look()):  # noqa: ASYNC110 - no event of this process tells
        await asyncio.sleep(0)


async def states(running: Agent) -> list[str]:
    return [each.state for each in await running.connections()]


async def calls_of(folder: Path, method: str) -> list[dict[str, Any]]:
    return seen(folder, method)


async def started() -> list[str]:
    return _children()


class Patient:
    """A scripted model that waits for something before its second answer."""

    name = "patient"

    def __init__(self, model: PositionModel, before: Callable[[], Awaitable[None]]) -> None:
        self._model = model
        self._before = before
        self.requests = model.requests

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        if len(self.requests) == 1:
            await self._before()
        async for piece in self._model.stream(request):
            yield piece


def results(events: Sequence[Event]) -> dict[str, str]:
    return {event.call_id: event.content for event in events if event.type == "tool_call_result"}


def notices(events: Sequence[Event]) -> list[str]:
    return [event.code for event in events if isinstance(event, Notice)]


def seen(folder: Path, method: str) -> list[dict[str, Any]]:
    """The messages of a method that the server got."""
    lines = (folder / "seen.jsonl").read_text().splitlines()
    return [message for message in map(json.loads, lines) if message.get("method") == method]


async def test_a_servers_tools_are_listed_offered_and_called(tmp_path: Path) -> None:
    model = script(calling(call("small__say", "1", text="hello")), "done")
    async with agent(tmp_path, model, {"small": server()}) as running:
        events = await play(running, "go")
    assert results(events) == {"1": "said: hello"}
    names = [tool.name for tool in model.requests[0].tools]
    assert names[0] == "small__say", "MCP comes before the tools that the YAML lists"
    assert names.index("mcp_read_resource") < names.index("echo")
    assert "### small__say\nSay it back.\n- text (string, required)" in model.requests[0].system


async def test_planning_starts_no_server(tmp_path: Path) -> None:
    running = agent(tmp_path, script("done"), {"small": server()})
    assert next(tool.tool.name for tool in running.plan.tools) == "echo"
    assert not (tmp_path / "seen.jsonl").exists()
    await running.aclose()


async def test_the_prefix_of_a_run_is_the_same_at_every_call(tmp_path: Path) -> None:
    model = script(
        calling(call("small__grow", "1")), calling(call("small__say", "2", text="a")), "done", "again"
    )
    async with agent(tmp_path, model, {"small": server()}) as running:
        events = await play(running, "go")
        session = events[-1].session  # type: ignore[union-attr]
        await play(running, "more", session)
    first, second, third, later = model.requests
    assert first.system == second.system == third.system
    assert "small__new_12" in {tool.name for tool in third.tools}, "it can be called at once"
    assert "### small__new_12" in later.system, "and is listed from the next run on"
    assert "mcp_tools_changed" in notices(events)


async def test_five_servers_start_together(tmp_path: Path) -> None:
    """Each answers only when all five run: one after the other would never come to an end."""
    gate = tmp_path / "gate"
    gate.mkdir()
    servers = {f"s{number}": server(f"gate={gate}:5") for number in range(5)}
    async with agent(tmp_path, script("done"), servers) as running:
        await play(running, "go")
        assert [each.state for each in await running.connections()] == ["connected"] * 5


async def test_a_server_that_hangs_delays_nothing_but_its_own_tools(tmp_path: Path) -> None:
    late = tmp_path / "late"

    async def joined() -> None:
        late.touch()
        await until(lambda: states(running), lambda found: found[0] == "connected")

    model = Patient(
        script(calling(call("small__say", "1", text="a")), calling(call("slow__say", "2", text="b")), "done"),
        joined,
    )
    servers = {"slow": server(f"wait={late}", start_timeout_seconds=0.01), "small": server()}
    async with agent(tmp_path, model, servers) as running:
        events = await play(running, "go")
    assert results(events) == {"1": "said: a", "2": "said: b"}
    assert not any(tool.name.startswith("slow__") for tool in model.requests[0].tools)
    assert "mcp_late" in notices(events)


async def test_a_server_may_start_in_a_folder_of_the_users_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "servers").mkdir()
    async with agent(tmp_path, script("done"), {"a": server(cwd="~/servers")}) as running:
        await play(running, "go")
        (found,) = await running.connections()
    assert found.state == "connected", found.why


async def test_a_server_that_does_not_start_takes_nothing_along(tmp_path: Path) -> None:
    model = script(calling(call("small__say", "1", text="a")), "done")
    servers = {"dead": server("die_at_start"), "nowhere": {"command": "no-such-command"}, "small": server()}
    servers |= {"gone": {"command": "true", "cwd": "gone"}, "folder": {"command": str(tmp_path)}}
    async with agent(tmp_path, model, servers) as running:
        events = await play(running, "go")
        by_name = {each.name: each for each in await running.connections()}
    assert results(events) == {"1": "said: a"}
    assert by_name["nowhere"].state == "failed"
    assert "'no-such-command' was not found" in by_name["nowhere"].why
    assert f"its folder (cwd) '{tmp_path / 'gone'}' does not exist" in by_name["gone"].why
    assert f"no permission to run '{tmp_path}'" in by_name["folder"].why
    told = [each.message for each in events if isinstance(each, Notice) and each.code == "mcp_lost"]
    assert "the licence has expired" in told[0]
    assert "restart 1 of 2" in told[0]
    assert events[-1].type == "complete"


async def test_a_server_that_died_is_started_again(tmp_path: Path) -> None:

    model = script(calling(call("small__die", "1")), calling(call("small__say", "2", text="back")), "done")
    async with agent(tmp_path, model, {"small": server()}) as running:
        events = await play(running, "go")
    assert "Whether the call took effect is unknown" in results(events)["1"]
    assert results(events)["2"] == "said: back", "the call waited for it"
    assert len(seen(tmp_path, "initialize")) == 2
    first, *_, last = model.requests
    assert first.tools == last.tools, "a restart changes nothing of the prefix"
    assert {"mcp_lost", "mcp_restarted"} <= set(notices(events))


async def test_what_the_user_interrupts_is_cancelled_at_the_server(tmp_path: Path) -> None:
    model = script(calling(call("small__never", "1")))
    async with agent(tmp_path, model, {"small": server()}) as running:
        async for event in running.stream("go"):
            if event.type == "run_started":
                session = event.session
            if event.type == "tool_call":
                await until(lambda: calls_of(tmp_path, "tools/call"), bool)
                running.cancel(session)
        await until(lambda: calls_of(tmp_path, "notifications/cancelled"), bool)
    assert event.type == "error"
    (asked,), (cancelled,) = seen(tmp_path, "tools/call"), seen(tmp_path, "notifications/cancelled")
    assert cancelled["params"]["requestId"] == asked["id"]


async def test_a_call_has_its_time_limit(tmp_path: Path) -> None:
    model = script(calling(call("small__never", "1")), "done")
    async with agent(tmp_path, model, {"small": server(timeout_seconds=30)}) as running:
        await running.connections()
        with moved_by_hand() as time:
            playing = asyncio.create_task(play(running, "go"))
            await until(lambda: calls_of(tmp_path, "tools/call"), bool)
            await time.passes(30)
            events = await playing
        await until(lambda: calls_of(tmp_path, "notifications/cancelled"), bool)
    assert "did not finish within 30 seconds" in results(events)["1"]
    assert len(seen(tmp_path, "notifications/cancelled")) == 1


async def test_the_environment_is_what_the_yaml_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVIDER_API_KEY", "sk-do-not-pass-on")
    model = script(calling(call("small__environment", "1")), "done")
    monkeypatch.setenv("PATH", "/bin")
    environ = {"PATH": "/evil", "HOME": "/home/x", "TOKEN_OF_MINE": "hidden-value"}
    servers = {"small": server(env={"GIVEN": "${TOKEN_OF_MINE}!"})}
    async with agent(tmp_path, model, servers, environ=environ) as running:
        events = await play(running, "go")
    environment = results(events)["1"]
    assert "sk-do-not-pass-on" not in environment
    assert '"TOKEN_OF_MINE"' not in environment
    assert '"GIVEN": "' in environment
    assert '"PATH": "/bin"' in environment
    assert '"PYTHONPYCACHEPREFIX": "' in environment


async def test_a_secret_that_only_a_file_of_servers_has_is_masked_in_what_a_run_tells(tmp_path: Path) -> None:
    model = script(calling(call("small__environment", "1")), "it is ghp_0123456789")
    servers = {"small": server(env={"GITHUB_TOKEN": "ghp_0123456789", "COLOUR": "green-as-grass"})}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    config = write_agent(tmp_path, tools="[{mcp: {files: [.mcp.json]}}]")
    async with Agent.from_config(config, directory=tmp_path, model=model) as running:
        events = await play(running, "go")
    assert "green-as-grass" in results(events)["1"]
    assert "ghp_0123456789" not in str(events)


async def test_progress_reaches_the_stream_with_its_call(tmp_path: Path) -> None:
    model = script(calling(call("small__count", "c1")), "done")
    async with agent(tmp_path, model, {"small": server()}) as running:
        events = await play(running, "go")
    told = [(e.call_id, e.message, e.done, e.total) for e in events if e.type == "tool_progress"]
    assert told == [("c1", "at 1", 1, 3), ("c1", "at 2", 2, 3), ("c1", "at 3", 3, 3)]


async def test_pictures_are_saved_and_structured_content_is_read(tmp_path: Path) -> None:
    model = script(calling(call("small__shapes", "1")), "done")
    async with agent(tmp_path, model, {"small": server()}) as running:
        events = await play(running, "go")
    shown, picture, data = results(events)["1"].split("\n\n")
    assert (shown, data) == ("a picture:", '{"sides": 4}')
    assert picture.startswith("[image image/png, ")
    path = picture.partition("saved as /")[2].removesuffix("]")
    assert (tmp_path / ".zeus" / path).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("said", "sent"), [("green", "green"), ("half an emoji \ud83d", "half an emoji ?")])
async def test_a_server_may_ask_the_user(tmp_path: Path, said: str, sent: str) -> None:
    user = Answering(colour=said)
    model = script(calling(call("small__ask", "1")), "done")
    async with agent(tmp_path, model, {"small": server()}) as running:
        events = await events_of(running.stream("go", approvals=user))
    assert json.loads(results(events)["1"]) == {"action": "accept", "content": {"colour": sent}}
    assert [each.reason for each in user.asked] == ["The MCP server 'small' asks: Colour?"]


async def test_the_time_that_the_user_thinks_is_not_the_calls(tmp_path: Path) -> None:
    class Slow(Answering):
        async def ask(self, pending: PendingApproval) -> Decision:
            await time.passes(1_000)
            return await super().ask(pending)

    model = script(calling(call("small__ask", "1")), "done")
    async with agent(tmp_path, model, {"small": server(timeout_seconds=5)}) as running:
        await running.connections()
        with moved_by_hand() as time:
            events = await events_of(running.stream("go", approvals=Slow(colour="green")))
    assert json.loads(results(events)["1"])["action"] == "accept"


async def test_where_nobody_can_answer_the_question_waits_and_the_call_is_made_again_with_its_answer(
    tmp_path: Path,
) -> None:
    model = script(calling(call("small__ask", "1")), "done")
    async with agent(tmp_path, model, {"small": server()}) as running:
        ending = (await play(running, "go"))[-1]
        assert isinstance(ending, RunFailed)
        assert (ending.code, ending.exit_code) == ("approval_needed", 7)
        (pending,) = await running.pending_approvals(ending.session)
        assert pending.arguments == {"question": "The MCP server 'small' asks: Colour?"}
        await running.decide(ending.session, {pending.id: Decision("approve", arguments={"colour": "red"})})
        events = await events_of(running.resume(ending.session))
    assert json.loads(results(events)["1"]) == {"action": "accept", "content": {"colour": "red"}}


async def test_what_the_user_declines_the_server_hears(tmp_path: Path) -> None:
    class No:
        async def ask(self, pending: PendingApproval) -> Decision:
            return Decision("reject")

    model = script(calling(call("small__ask", "1")), "done")
    async with agent(tmp_path, model, {"small": server()}) as running:
        events = await events_of(running.stream("go", approvals=No()))
    assert json.loads(results(events)["1"])["action"] == "decline"
    assert "mcp_declined" in notices(events)


async def test_a_server_that_chats_on_its_standard_output_works(tmp_path: Path) -> None:
    model = script(calling(call("small__say", "1", text="a")), "done")
    async with agent(tmp_path, model, {"small": server("chatty")}) as running:
        events = await play(running, "go")
    assert results(events) == {"1": "said: a"}


RESULT = '{"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "text", "text": "%s"}]}}'


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (RESULT % "half an emoji \\ud83d", "half an emoji ?"),
        (RESULT % "a whole one \\ud83d\\ude00", "a whole one \U0001f600"),
        ('{"jsonrpc": "2.0", "id": ID, "result": %s' % ("[" * 100_000), "its answer cannot be read"),
        (
            '{"jsonrpc": "2.0", "id": ID, "result": {"content": "text"}}',
            "content: Input should be a valid list",
        ),
        ('{"jsonrpc": "2.0", "id": 99999, "result": {}}\n' + RESULT % "this one", "this one"),
        (f"[{RESULT}]" % "of a batch", "of a batch"),
    ],
)
async def test_an_answer_that_does_not_hold_to_the_protocol_ends_its_call(
    tmp_path: Path, line: str, said: str
) -> None:
    model = script(
        calling(call("small__raw", "1", line=line)), calling(call("small__say", "2", text="a")), "done"
    )
    async with agent(tmp_path, model, {"small": server()}) as running:
        events = await play(running, "go")
    assert said in results(events)["1"]
    assert results(events)["2"] == "said: a", "the connection is as good as before"


async def test_a_long_answer_is_read_whole(tmp_path: Path) -> None:
    line = RESULT % ("0123456789" * 1_000_000)
    model = script(calling(call("small__raw", "1", line=line)), "done")
    async with agent(tmp_path, model, {"small": server()}) as running:
        events = await play(running, "go")
    assert len(results(events)["1"]) == 10_000_000


@pytest.mark.parametrize(
    ("line", "times", "why"),
    [("{" + "x" * 999, 65_000, "more than 64 MB"), ("what a day\n", 100_001, "not a message")],
)
async def test_a_server_that_floods_is_left_and_started_again(
    tmp_path: Path, line: str, times: int, why: str
) -> None:
    model = script(
        calling(call("small__raw", "1", line=line, times=times)),
        calling(call("small__say", "2", text="a")),
        "done",
    )
    async with agent(tmp_path, model, {"small": server()}) as running:
        events = await play(running, "go")
    assert "Whether the call took effect is unknown" in results(events)["1"]
    assert results(events)["2"] == "said: a"
    lost = [each.message for each in events if isinstance(each, Notice) and each.code == "mcp_lost"]
    assert why in lost[0]


async def test_a_server_whose_tools_change_all_the_time_is_looked_at_now_and_then(tmp_path: Path) -> None:
    model = script(*[calling(call("small__say", str(n), text="a")) for n in range(20)], "done")
    async with agent(tmp_path, model, {"small": server("restless")}) as running:
        events = await play(running, "go")
    assert len(seen(tmp_path, "tools/list")) <= 1 + 5
    assert notices(events).count("mcp_tools_changed") <= 5


async def test_what_a_server_says_of_itself_fills_no_window(tmp_path: Path) -> None:
    model = script(calling(call("small__say", "1", text="a")), "done")
    wordy = server("wordy", prompts={"review": {}}, discoverable=False)
    async with agent(tmp_path, model, {"small": wordy}) as running:
        events = await play(running, "go")
    request = model.requests[0]
    assert len(request.system) + len(str(request.tools)) < 200_000
    assert "small__write" not in {tool.name for tool in request.tools}
    told = [each.message for each in events if isinstance(each, Notice) and each.code == "mcp_setting"]
    for what in (
        "the description of its tool 'say'",
        "its prompt 'review'",
        "its tool 'write' is not offered",
    ):
        assert any(what in each for each in told), what
    assert results(events) == {"1": "said: a"}


async def test_what_is_cut_of_a_tool_that_joins_is_told_as_well(tmp_path: Path) -> None:
    model = script(
        calling(call("small__grow", "1", times=10_000)), calling(call("small__say", "2", text="a")), "done"
    )
    async with agent(tmp_path, model, {"small": server()}) as running:
        events = await play(running, "go")
    told = [each.message for each in events if isinstance(each, Notice) and each.code == "mcp_setting"]
    assert len(told) == 1
    assert "the description of its tool 'new_12' has 40,000 characters" in told[0]


async def test_progress_without_end_is_told_now_and_then(tmp_path: Path) -> None:
    model = script(calling(call("small__count", "1", to=2_000)), "done")
    async with agent(tmp_path, model, {"small": server()}) as running:
        events = await play(running, "go")
    assert 20 <= sum(event.type == "tool_progress" for event in events) < 1_000


@given(st.lists(st.floats(0, 3), max_size=60))
def test_no_pace_grants_more_than_its_burst_and_one_for_each_of_its_seconds(gaps: list[float]) -> None:
    pace, now, granted = Pace(3, 1.0), 0.0, 0
    for gap in gaps:
        now += gap
        granted += pace.wait_seconds(now) == 0
    assert granted <= 3 + now + 1e-6
    assert granted >= min(3, len(gaps))


async def test_resources_are_listed_and_read(tmp_path: Path) -> None:
    model = script(
        calling(
            call("mcp_list_resources", "1"),
            call("mcp_read_resource", "2", server="small", uri="small://note"),
        ),
        "done",
    )
    async with agent(tmp_path, model, {"small": server()}) as running:
        events = await play(running, "go")
    assert results(events) == {
        "1": "small:\n- small://note: A note.",
        "2": "[resource small://note]\nwhat small://note says",
    }


async def test_selected_prompts_stand_in_section_10(tmp_path: Path) -> None:
    model = script("done")
    servers = {"small": server(prompts={"review": {"style": "briefly"}})}
    async with agent(tmp_path, model, servers) as running:
        await play(running, "go")
    assert (
        "\n\n# Prompts\n\n## review (from the MCP server small)\n\nReview, briefly."
        in model.requests[0].system
    )


async def test_arguments_may_have_any_name(tmp_path: Path) -> None:
    model = script(calling(call("small__odd", "1", run="a", self="b")), "done")
    async with agent(tmp_path, model, {"small": server()}) as running:
        events = await play(running, "go")
    assert json.loads(results(events)["1"]) == {"run": "a", "self": "b"}


async def test_ask_mode_lets_only_reading_tools_be_called(tmp_path: Path) -> None:
    model = script(
        calling(
            call("small__write", "1", text="x"), call("small__say", "2", text="y"), call("small__odd", "3")
        ),
        "done",
    )
    servers = {"small": server(access={"odd": "read"})}
    async with agent(tmp_path, model, servers, "mode: ask") as running:
        events = await play(running, "go")
    found = results(events)
    assert "cannot be called in ask mode" in found["1"]
    assert (found["2"], found["3"]) == ("said: y", "{}")
    assert not (tmp_path / "written.txt").exists()


async def test_tools_are_chosen_by_allow_and_deny_and_a_wrong_name_is_told(tmp_path: Path) -> None:
    servers = {"small": server(allow=["say", "write", "sya"], deny=["write"], prefix="")}
    async with agent(tmp_path, script("done"), servers) as running:
        events = await play(running, "go")
        names = [tool.name for tool in await running.tools() if tool.category == "mcp"]
    assert names == ["say", "mcp_list_resources", "mcp_read_resource"]
    assert any(
        "'sya', but this server has no such tool" in each.message
        for each in events
        if isinstance(each, Notice)
    )


async def test_a_name_that_is_taken_is_refused_and_both_are_named(tmp_path: Path) -> None:
    plugin = (
        "from zeus_runtime.plugin import Component, hookimpl\nfrom zeus_runtime.plugin.tool import tool\n"
        "@tool\nasync def say() -> str:\n    'Mine.'\n    return 'mine'\n"
        "@hookimpl\ndef register_tools():\n    return [Component('probe', create=lambda o, b: [say])]\n"
    )
    model = script(calling(call("say", "1")), "done")
    config = write_agent(
        tmp_path, f"mcpServers: {json.dumps({'small': server(prefix='')})}", plugin=plugin, tools="[probe]"
    )
    async with Agent.from_config(config, directory=tmp_path, model=model) as running:
        events = await play(running, "go")
    assert results(events) == {"1": "mine"}
    assert any("two tools are named 'say'" in each.message for each in events if isinstance(each, Notice))


async def test_two_servers_with_one_prefix_are_named_once(tmp_path: Path) -> None:
    servers = {"acme/small": server(), "other/small": server()}
    async with agent(tmp_path, script("done"), servers) as running:
        events = await play(running, "go")
    (told,) = [each.message for each in events if isinstance(each, Notice) and "two tools" in each.message]
    assert re.search(
        r"two tools each are named ('small__\w+'(, )?){3} and \d+ more, so the mcp ones are left out", told
    )
    left_out = (
        "(of the MCP server other/small), the other stays (of the MCP server acme/small); give its server"
    )
    assert left_out in told


async def test_policies_may_name_tools_that_join_when_it_runs(tmp_path: Path) -> None:
    policy = "middlewares: [{eviction: {exclude: [%s]}}]"
    running = agent(tmp_path, script("done"), {"small": server()}, policy % "small__say")
    await running.aclose()
    with pytest.raises(ConfigError, match="'smal__say' is not a tool of this agent"):
        agent(tmp_path, script("done"), {"small": server()}, policy % "smal__say")


async def test_an_agent_that_is_closed_while_it_opens_leaves_nothing_behind(tmp_path: Path) -> None:
    running = agent(tmp_path, script("done"), {"small": server("hang")})
    beginning = asyncio.create_task(play(running, "go"))
    await until(lambda: started(), bool)
    beginning.cancel()
    await asyncio.wait([beginning])
    await running.aclose()
    assert not _children()


async def test_a_server_that_knows_only_the_newest_protocol_is_spoken_to_in_it(tmp_path: Path) -> None:
    model = script(calling(call("small__say", "1", text="new")), "done")
    async with agent(tmp_path, model, {"small": server("modern")}) as running:
        events = await play(running, "go")
    assert results(events) == {"1": "said: new"}
    assert len(seen(tmp_path, "initialize")) == 1
    assert (
        seen(tmp_path, "tools/call")[0]["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"]
        == "2026-07-28"
    )


async def test_large_schemas_are_listed_by_name_and_loaded_on_demand(tmp_path: Path) -> None:
    model = script(
        calling(call("load_tool_schema", "1", names=["small__large_7"])),
        calling(call("small__large_7", "2", value="x"), call("small__large_8", "3", value="x")),
        "done",
        "again",
    )
    async with agent(
        tmp_path,
        model,
        {"small": server("many=60")},
        "profiles: {models: {gpt-4o: {max_input_tokens: 16000}}}",
    ) as running:
        events = await play(running, "go")
        await play(running, "more", events[-1].session)  # type: ignore[union-attr]
    first, second, third, later = ({tool.name for tool in request.tools} for request in model.requests)
    assert "small__large_7" not in first
    assert "- small__large_7: Large tool 7.\n" in model.requests[0].system
    assert "long words" not in model.requests[0].system
    assert second - first == {"small__large_7"}
    assert "long words" in results(events)["1"]
    assert results(events)["2"] == "large_7 does nothing"
    assert results(events)["3"].startswith("Nothing was done: here are the parameters")
    assert third - second == {"small__large_8"}
    assert later == third, "another run, and another process, knows it from the log"


async def test_what_a_server_writes_to_standard_error_goes_to_its_log(tmp_path: Path) -> None:
    async with agent(tmp_path, script("done"), {"small": server()}) as running:
        await play(running, "go")
    assert (tmp_path / ".zeus/mcp/small.log").read_text() == "small server is up\n"


async def test_servers_end_with_the_agent(tmp_path: Path) -> None:
    model = script(calling(call("small__environment", "1")), "done")
    async with agent(tmp_path, model, {"small": server()}) as running:
        await play(running, "go")
        before = _children()
    assert before
    assert not _children()


def test_an_agent_outlives_its_event_loop_with_its_servers(tmp_path: Path) -> None:
    model = script(calling(call("small__say", "1", text="a")), "done")
    running = agent(tmp_path, model, {"small": server()})

    async def once() -> dict[str, str]:
        return results(await play(running, "go"))

    assert asyncio.run(once()) == {"1": "said: a"}
    assert asyncio.run(once()) == {"1": "said: a"}
    asyncio.run(running.aclose())
    assert not _children()


def _children() -> list[str]:
    """The processes of the small server that this one started."""
    import os

    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                line = (folder / "cmdline").read_text()
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            if "mcp_server.py" in line and parent == str(os.getpid()):
                found.append(folder.name)
    return found


@pytest.mark.parametrize("loop", ["asyncio.SelectorEventLoop", "uvloop.Loop"])
def test_a_message_to_a_server_that_has_ended_is_an_end_and_no_error(loop: str) -> None:
    # uvloop, which `zeus serve` uses where it is installed, raises where asyncio loses the message.
    package, _, name = loop.partition(".")
    kind: Any = getattr(pytest.importorskip(package), name)
    message = SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method="ping"))

    async def talk() -> list[object]:
        async with piped(StdioServerParameters(command="true"), asyncio.subprocess.DEVNULL) as (heard, said):
            await asyncio.sleep(0.1)  # it has ended
            await said.send(message)
            return [each async for each in heard]

    with asyncio.Runner(loop_factory=kind) as runner:
        assert runner.run(talk()) == []
