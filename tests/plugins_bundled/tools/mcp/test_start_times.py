"""How long a run waits for a server, and what it does about a server that cannot start."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared._context_streams import create_context_streams
from mcp.shared.exceptions import MCPError
from zeus_plugins.tools.mcp.failures import is_permanent
from zeus_plugins.tools.mcp.start_times import LONGEST_SECONDS, SHORTEST_SECONDS, Starts, longest_wait
from zeus_plugins.tools.mcp.stderr import error_log
from zeus_plugins.tools.mcp.tool_filter import ToolFilter

from tests.plugins_bundled.tools.mcp.test_stdio import (
    Patient,
    agent,
    notices,
    results,
    seen,
    server,
    states,
    until,
)
from tests.support.agents import call, calling, events_of, play, script
from tests.support.hand_time import moved_by_hand
from zeus_runtime import MissingError, OptionsError
from zeus_runtime.events import Event, Notice
from zeus_runtime.tools.own_folders import LinkedFolderError

SECONDS = st.floats(min_value=0, max_value=1e6)


def unhurried(*behaviour: str, **keys: Any) -> dict[str, Any]:
    """A server whose entry says nothing of how long to wait."""
    return server(*behaviour, **{"start_timeout_seconds": None, **keys})


def told(events: list[Event], code: str) -> list[str]:
    return [each.message for each in events if isinstance(each, Notice) and each.code == code]


@given(SECONDS, SECONDS)
def test_a_run_waits_twice_the_last_start_within_bounds(one: float, other: float) -> None:
    assert longest_wait(None) == SHORTEST_SECONDS == 2
    assert SHORTEST_SECONDS <= longest_wait(one) <= LONGEST_SECONDS == 10
    assert longest_wait(one) <= longest_wait(max(one, other))
    if longest_wait(one) not in (SHORTEST_SECONDS, LONGEST_SECONDS):
        assert longest_wait(one) == 2 * one


@given(st.floats(min_value=0, max_value=3_600))
def test_a_start_is_remembered_until_one_is_missed(seconds: float) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        starts = Starts(Path(folder), "my server/1")
        assert starts.last_seconds() is None
        starts.took(seconds)
        assert Starts(Path(folder), "my server/1").last_seconds() == pytest.approx(seconds, abs=0.01)
        assert Starts(Path(folder), "another").last_seconds() is None
        starts.missed()
        starts.missed()
        assert starts.last_seconds() is None


@pytest.mark.parametrize("content", [b"", b"soon", b"nan", b"inf", b"-1", b"\xff\xfe", b"1" * 5_000])
def test_what_somebody_wrote_in_place_of_a_start_is_no_start(tmp_path: Path, content: bytes) -> None:
    starts = Starts(tmp_path, "s")
    starts.took(1)
    (file,) = (tmp_path / ".zeus" / "mcp").iterdir()
    file.write_bytes(content)
    assert starts.last_seconds() is None


def test_where_nothing_can_be_written_nothing_is_remembered(tmp_path: Path) -> None:
    (tmp_path / ".zeus").write_text("a file where the folder should be")
    starts = Starts(tmp_path, "s")
    starts.took(1)
    starts.missed()
    assert starts.last_seconds() is None


@pytest.mark.parametrize("link", [".zeus/mcp", ".zeus/mcp/small.start", ".zeus/mcp/small.log"])
async def test_no_link_leads_to_what_is_kept_of_a_server(link: str, tmp_path: Path) -> None:
    keys, project = tmp_path / "keys", tmp_path / "project"
    keys.mkdir()
    for name in ("small.start", "small.log"):
        (keys / name).write_text("mine")
    (project / link).parent.mkdir(parents=True)
    (project / link).symlink_to(keys / (Path(link).name if "small" in link else ""))
    running = agent(project, script("done"), {"small": server()})
    if link.endswith(".log"):
        assert "is a link" in str(await events_of(running.stream("go")))
    else:
        with pytest.raises(LinkedFolderError):
            await events_of(running.stream("go"))
    assert {each.read_text() for each in keys.iterdir()} == {"mine"}
    assert len(list(keys.iterdir())) == 2


@pytest.mark.parametrize("link", [".zeus", ".zeus/mcp", ".zeus/mcp/s.start"])
def test_no_link_that_is_made_later_leads_to_the_time_of_a_start(link: str, tmp_path: Path) -> None:
    keys, project = tmp_path / "keys", tmp_path / "project"
    (keys / "mcp").mkdir(parents=True)
    (keys / "s.start").write_text("7.5")
    (keys / "mcp/s.start").write_text("7.5")
    starts = Starts(project, "s")
    (project / link).parent.mkdir(parents=True)
    (project / link).symlink_to(keys / (Path(link).name if "s.start" in link else ""))
    starts.took(3.0)
    starts.missed()
    assert starts.last_seconds() is None
    assert [each.read_text() for each in (keys / "s.start", keys / "mcp/s.start")] == ["7.5", "7.5"]


@pytest.mark.parametrize("link", [".zeus", ".zeus/mcp", ".zeus/mcp/s.log"])
async def test_no_link_that_is_made_later_leads_to_the_log_of_a_server(link: str, tmp_path: Path) -> None:
    """The log is made when the server writes its first line, which may be long after its start."""
    keys, project = tmp_path / "keys", tmp_path / "project"
    (keys / "mcp").mkdir(parents=True)
    (keys / "s.log").write_text("mine")
    async with error_log(project / ".zeus/mcp/s.log", 1_000) as (log, writer):
        (project / link).parent.mkdir(parents=True)
        (project / link).symlink_to(keys / (Path(link).name if "s.log" in link else ""))
        with pytest.raises(LinkedFolderError):
            log.data_received(b"one line\n")
        assert log.last_words == "one line"
        writer.close()
    assert (keys / "s.log").read_text() == "mine"
    assert not list((keys / "mcp").iterdir())


async def test_the_first_call_is_made_when_the_quick_ones_are_there(tmp_path: Path) -> None:
    model = script("done")
    running = agent(tmp_path, model, {"hung": unhurried("hang"), "small": server()})
    with moved_by_hand() as hand:
        playing = asyncio.create_task(play(running, "go"))
        while not (tmp_path / ".zeus/mcp/small.start").exists():  # noqa: ASYNC110 - another process is at work
            await asyncio.sleep(0)
        await hand.passes(1.9)
        assert not model.requests, (
            "most servers start in that time, and one that joins later breaks the prefix"
        )
        await hand.passes(0.2)
        events = await playing
    found = await running.connections()
    await running.aclose()
    assert {tool.name.partition("__")[0] for tool in model.requests[0].tools} >= {"small"}
    assert not any(tool.name.startswith("hung__") for tool in model.requests[0].tools)
    assert [(each.name, each.state) for each in found] == [("hung", "connecting"), ("small", "connected")]
    (late,) = told(events, "mcp_late")
    assert "'hung' has not started within 2 seconds" in late
    assert "mcpServers.hung.start_timeout_seconds" in late


async def test_a_server_that_needed_long_is_waited_for_so_that_the_prefix_stays(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    Starts(tmp_path, "slow").took(3.0)
    model = script(calling(call("slow__say", "1", text="a")), "done")
    running = agent(tmp_path, model, {"slow": unhurried(f"wait={gate}")})
    with moved_by_hand() as hand:
        playing = asyncio.create_task(play(running, "go"))
        await until(lambda: asyncio.sleep(0, len(seen_if_any(tmp_path))), lambda found: True)
        await hand.passes(5.5)
        assert not model.requests
        gate.touch()
        events = await playing
    first, second = model.requests
    assert first.tools == second.tools
    assert first.system == second.system
    assert results(events) == {"1": "said: a"}
    assert "mcp_late" not in notices(events)
    await running.aclose()


def seen_if_any(folder: Path) -> list[dict[str, Any]]:
    return seen(folder, "initialize") if (folder / "seen.jsonl").exists() else []


async def test_a_server_that_is_late_joins_and_says_so_and_its_time_is_remembered(tmp_path: Path) -> None:
    late = tmp_path / "late"

    async def joined() -> None:
        hand.now += 5
        late.touch()
        await until(lambda: states(running), lambda found: found[0] == "connected")

    model = Patient(
        script(calling(call("small__say", "1", text="a")), calling(call("slow__say", "2", text="b")), "done"),
        joined,
    )
    running = agent(tmp_path, model, {"slow": unhurried(f"wait={late}"), "small": server()})
    with moved_by_hand() as hand:
        playing = asyncio.create_task(play(running, "go"))
        passing = asyncio.create_task(hand.goes_on())
        events = await playing
        passing.cancel()
    await running.aclose()
    assert results(events) == {"1": "said: a", "2": "said: b"}
    codes = notices(events)
    assert codes.index("mcp_late") < codes.index("mcp_joined")
    assert told(events, "mcp_joined") == [
        "The MCP server 'slow' has started; its tools are available from now on."
    ]
    took = Starts(tmp_path, "slow").last_seconds()
    assert took is not None
    assert took >= 7, "the two seconds that the run waited, and five more"


async def test_a_server_that_hangs_is_waited_for_no_longer_the_next_time(tmp_path: Path) -> None:
    Starts(tmp_path, "hung").took(4.0)
    running = agent(tmp_path, script("done"), {"hung": unhurried("hang")})
    with moved_by_hand() as hand:
        passing = asyncio.create_task(hand.goes_on())
        events = await play(running, "go")
        passing.cancel()
    await running.aclose()
    assert "has not started within 8 seconds" in told(events, "mcp_late")[0]
    assert Starts(tmp_path, "hung").last_seconds() is None


async def test_what_the_yaml_says_holds_whatever_was_learned(tmp_path: Path) -> None:
    Starts(tmp_path, "hung").took(4.0)
    running = agent(tmp_path, script("done"), {"hung": unhurried("hang", start_timeout_seconds=0.5)})
    with moved_by_hand() as hand:
        passing = asyncio.create_task(hand.goes_on())
        events = await play(running, "go")
        passing.cancel()
    await running.aclose()
    assert "has not started within 0.5 seconds" in told(events, "mcp_late")[0]


BROKEN: dict[str, tuple[Any, str]] = {
    "no_schema": ({}, "inputSchema: Field required"),
    "null": ({"inputSchema": None}, "inputSchema: Input should be a valid dictionary"),
    "array": ({"inputSchema": {"type": "array"}}, "inputSchema.type: Input should be 'object'"),
    "text": ({"inputSchema": "object"}, "inputSchema: "),
    "number": ({"description": 3, "inputSchema": {"type": "object"}}, "description: "),
    "no_type": (
        {"inputSchema": {"type": "object", "properties": {"x": {"type": "strin"}}}},
        "its parameters are not a JSON Schema: properties.x.type: 'strin' is not valid",
    ),
    "lost": (
        {"inputSchema": {"type": "object", "properties": {"x": {"$ref": "#/$defs/X"}}}},
        "its parameters refer to '#/$defs/X', which does not exist",
    ),
    "far": (
        {"inputSchema": {"type": "object", "properties": {"x": {"$ref": "https://example.com/x"}}}},
        "its parameters refer to 'https://example.com/x'",
    ),
    "index": (
        {"inputSchema": {"type": "object", "properties": {"x": {"$ref": "#/anyOf/²"}}, "anyOf": [{}]}},
        "its parameters refer to '#/anyOf/²'",
    ),
    "digits": (
        {
            "inputSchema": {
                "type": "object",
                "properties": {"x": {"$ref": f"#/anyOf/{'1' * 5000}"}},
                "anyOf": [{}],
            }
        },
        "its parameters refer to '… (5,008 characters)'",
    ),
    "pattern": ({"inputSchema": {"type": "object", "required": "x"}}, "required: "),
}


@pytest.mark.parametrize("modern", [(), ("modern",)])
@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_tool_loses_only_itself(tmp_path: Path, name: str, modern: tuple[str, ...]) -> None:
    tool, why = BROKEN[name]
    model = script(calling(call("small__say", "1", text="a")), "done")
    given = server(f"tools={json.dumps({name: tool})}", *modern)
    async with agent(tmp_path, model, {"small": given}) as running:
        events = await play(running, "go")
        (found,) = await running.connections()
    assert results(events) == {"1": "said: a"}
    assert found.state == "connected"
    names = {tool.name for tool in model.requests[0].tools}
    assert f"small__{name}" not in names
    assert {"small__say", "small__write", "small__shapes"} <= names, "the others are there"
    (problem,) = told(events, "mcp_setting")
    assert problem.startswith(f"mcpServers.small: its tool {name!r} is not offered: ")
    if not modern:
        assert why in problem


async def test_a_tool_without_a_name_is_named_by_its_place(tmp_path: Path) -> None:
    given = server(
        f"tools={json.dumps({'x': {'name': None, 'inputSchema': {'type': 'object'}}, 'y': 'a tool'})}"
    )
    async with agent(tmp_path, script("done"), {"small": given}) as running:
        events = await play(running, "go")
        (found,) = await running.connections()
    assert found.state == "connected"
    problems = told(events, "mcp_setting")
    assert ["its tool 'number 13'" in problems[0], "its tool 'number 14'" in problems[1]] == [True, True]


async def test_references_that_lead_somewhere_are_no_problem(tmp_path: Path) -> None:
    tree = {
        "type": "object",
        "properties": {
            "x": {"$ref": "#/$defs/a~1b"},
            "y": {"$ref": "#/$defs/with%20space"},
            "z": {"$ref": "#"},
        },
        "$defs": {"a/b": {"type": "string"}, "with space": {"anyOf": [{"$ref": "#/$defs/a~1b"}]}},
        "default": {"$ref": "data"},
    }
    given = server(f"tools={json.dumps({'tree': {'inputSchema': tree}})}")
    model = script("done")
    async with agent(tmp_path, model, {"small": given}) as running:
        events = await play(running, "go")
    assert "small__tree" in {tool.name for tool in model.requests[0].tools}
    assert told(events, "mcp_setting") == []


async def test_a_server_of_another_protocol_is_not_started_again(tmp_path: Path) -> None:
    async with agent(tmp_path, script("done"), {"old": server("version=1999-01-01")}) as running:
        events = await play(running, "go")
        (found,) = await running.connections()
    assert found.state == "failed"
    assert "1999-01-01" in found.why
    assert len(seen(tmp_path, "initialize")) == 1
    assert "mcp_lost" not in notices(events)
    assert len(told(events, "mcp_failed")) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405])
async def test_a_refusal_by_http_is_final_and_named(tmp_path: Path, status: int) -> None:
    events, asked = await answered_with(tmp_path, status)
    assert "mcp_lost" not in notices(events)
    (failed,) = told(events, "mcp_failed")
    assert str(status) in failed or "Not Found" in failed or "terminated" in failed
    assert len([each for each in asked if b"initialize" in each]) <= 1


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_server_that_is_overloaded_is_tried_again(tmp_path: Path, status: int) -> None:
    events, _ = await answered_with(tmp_path, status)
    assert notices(events).count("mcp_lost") == 2
    assert notices(events).count("mcp_failed") == 1


async def answered_with(folder: Path, status: int) -> tuple[list[Event], list[bytes]]:
    """A run's events with a remote server that answers everything with ``status``; and what it was sent."""
    asked: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (
                int(line.split(b":")[1])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length")
            ),
            0,
        )
        asked.append(await reader.readexactly(length))
        writer.write(b"HTTP/1.1 %d Odd\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % status)
        writer.close()

    listening = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    far = {"url": f"http://127.0.0.1:{port}/mcp", "start_timeout_seconds": 60}
    async with agent(folder, script("done"), {"far": far}) as running:
        events = await play(running, "go")
        await until(lambda: states(running), lambda found: found[0] != "connecting")
        events += await play(running, "again")
    listening.close()
    return events, asked


def status_error(status: int) -> Exception:
    request = httpx2.Request("POST", "http://127.0.0.1/")
    return httpx2.HTTPStatusError("x", request=request, response=httpx2.Response(status, request=request))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (FileNotFoundError(2, "no such file"), True),
        (PermissionError(13, "denied"), True),
        (ssl.SSLCertVerificationError(1, "certificate verify failed"), True),
        (OptionsError("wrong", remedy="Repair it."), True),
        (MissingError("not there", remedy="Install it."), True),
        (httpx2.UnsupportedProtocol("ftp"), True),
        (status_error(401), True),
        (status_error(308), True),
        (MCPError(-32601, "Method not found"), True),
        (RuntimeError("Unsupported protocol version from the server: 1"), True),
        (RuntimeError("something else"), False),
        (MCPError(-32000, "Connection closed"), False),
        (MCPError(-32603, "Internal error"), False),
        (status_error(429), False),
        (status_error(503), False),
        (ConnectionRefusedError(111, "refused"), False),
        (TimeoutError(), False),
        (OSError(28, "no space left"), False),
        (httpx2.ConnectError("x"), False),
        (ValueError("x"), False),
    ],
)
def test_what_cannot_change_is_told_from_what_may(error: Exception, *, expected: bool) -> None:
    assert is_permanent(error) is expected
    assert is_permanent(ExceptionGroup("within", [ValueError("x"), error])) is expected


async def test_a_real_server_that_hangs_is_not_waited_for_longer_than_two_seconds(tmp_path: Path) -> None:
    """With the clock on the wall, as a user has it, beside a server that never answers and never reads."""
    hung = {"command": sys.executable, "args": ["-c", "import time; time.sleep(600)"]}
    model = script("done")
    async with agent(tmp_path, model, {"hung": hung, "small": server()}) as running:
        events = await play(running, "go")
        found = [(each.name, each.state) for each in await running.connections()]
    assert events[-1].type == "complete"
    assert found == [("hung", "connecting"), ("small", "connected")]
    assert [each.partition(", so")[0] for each in told(events, "mcp_late")] == [
        "The MCP server 'hung' has not started within 2 seconds"
    ]
    assert any(tool.name == "small__say" for tool in model.requests[0].tools)


async def test_what_a_message_came_with_is_known_behind_the_sieve() -> None:
    """By it a question over HTTP is asked of the call that it belongs to, and of nobody else."""
    call_of: ContextVar[str] = ContextVar("call_of", default="none")
    sending, receiving = create_context_streams[Any](2)

    @asynccontextmanager
    async def transport() -> AsyncIterator[Any]:
        yield receiving, None

    async with ToolFilter().over(transport()) as (read, _):
        for each in ("ann", "bob"):
            call_of.set(each)
            await sending.send(SimpleNamespace(message=None))
        found = []
        async with sending, read:
            async for _message in read:
                found.append(read.last_context[call_of])
                if len(found) == 2:
                    break
    assert found == ["ann", "bob"]


async def test_a_broken_tool_that_the_config_leaves_out_is_nobodys_trouble(tmp_path: Path) -> None:
    given = server(f"tools={json.dumps({'bad': {}})}", deny=["bad"])
    async with agent(tmp_path, script("done"), {"small": given}) as running:
        events = await play(running, "go")
    assert told(events, "mcp_setting") == []
