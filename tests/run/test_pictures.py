"""Pictures on their way to the model: what goes over the wire through the real litellm, and what stays where."""

from __future__ import annotations

import base64
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import imagesize
import pytest

from tests.support import forked, mcp_server
from tests.support.agents import events_of, play
from tests.support.pictures import picture_with, png
from tests.support.provider import Call, Provider, Reply
from zeus_runtime import Agent
from zeus_runtime.cli.transcript import transcript
from zeus_runtime.errors import NotFoundError
from zeus_runtime.events import Event, Notice, RunCompleted, ToolCallResult
from zeus_runtime.plugin.model import MAX_PICTURE_BYTES

pytestmark = pytest.mark.xdist_group("litellm")

MODELS = {
    "openai": "openai/gpt-4o",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "blind": "openai/gpt-3.5-turbo",
}
HARBOUR = png(640, 480, seed=1)
PLUGIN = '''
from pathlib import Path
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.model import keep_picture
from zeus_runtime.plugin.tool import ToolResult, ToolRun, tool

def create(options, context):
    @tool(access="read")
    async def look(name: str, run: ToolRun) -> ToolResult:
        """Look.

        Args:
            name: where.
        """
        data = (context.directory / name).read_bytes()
        picture = keep_picture(data, name, context.workspace, run.secrets)
        return ToolResult(f"this is {name}", pictures=(picture,))

    return [look]

@hookimpl
def register_tools():
    return [Component("looking", create=create)]
'''


def write(folder: Path, provider: Provider, kind: str, yaml: str = "") -> Path:
    (folder / "harbour.png").write_bytes(HARBOUR)
    (folder / "looking.py").write_text(PLUGIN)
    base = provider.anthropic if kind == "anthropic" else provider.openai
    path = folder / "zeus.yaml"
    path.write_text(
        "version: 1\nname: test\nretry: {attempts: 1}\n"
        f"model: {{litellm: {{model: {MODELS[kind]}, api_base: '{base}', api_key: sk-test}}}}\n"
        "plugins: {files: [looking.py]}\ntools: [looking, filesystem, mcp: {}]\n"
        + (yaml or "middlewares: [resources, caching]\n")
    )
    return path


def opened(folder: Path, provider: Provider, kind: str, yaml: str = "") -> Agent:
    return Agent.from_config(write(folder, provider, kind, yaml), directory=folder, environ={})


def walk(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from walk(each)


def seen(messages: Any) -> list[bytes]:
    """The pictures in messages as they went over the wire, decoded."""
    urls = [each["image_url"]["url"] for each in walk(messages) if each.get("type") == "image_url"]
    found = [url.partition(";base64,")[2] for url in urls]
    found += [each["source"]["data"] for each in walk(messages) if each.get("type") == "image"]
    return [base64.b64decode(each) for each in found]


def killed_at(request: int, provider: Provider, folder: Path, *words: str) -> None:
    """``zeus`` in a process of its own, killed while it waits for the answer to a request."""
    command = [sys.executable, "-m", "zeus_runtime", *words]
    running = forked.Forked(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert provider.wait_for_requests(request, 60), running.communicate()
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()


def said(folder: Path, *words: str) -> str:
    """What ``zeus`` says on its standard output."""
    command = [sys.executable, "-m", "zeus_runtime", *words]
    return forked.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def notices(events: list[Event]) -> list[str]:
    return [each.message for each in events if isinstance(each, Notice) and each.code == "picture_not_shown"]


async def test_an_attached_and_a_named_picture_stand_in_the_users_message(tmp_path: Path) -> None:
    for kind in ("openai", "anthropic"):
        with Provider(Reply("a harbour"), Reply("still one")) as provider:
            (tmp_path / "map.png").write_bytes(png(32, 32))
            async with opened(tmp_path, provider, kind) as agent:
                events = await events_of(agent.stream("what is @map.png?", attachments=["harbour.png"]))
                await play(agent, "and now?", events[-1].session)  # type: ignore[union-attr]
        first, second = (request.body["messages"] for request in provider.requests)
        users = [each for each in first if each["role"] == "user"]
        assert seen(users) == [png(32, 32), HARBOUR]
        assert users[0]["content"][0]["text"] == "what is @map.png?"
        assert seen(second) == seen(first)
        assert notices(events) == []
        everything = json.dumps(provider.requests[0].body)
        assert "640x480" in everything
        assert "/attached_files/" in everything


async def test_what_was_sent_can_be_looked_at_with_its_pictures(tmp_path: Path) -> None:
    calls = [Call("look", '{"name": "harbour.png"}', "c1")]
    with Provider(Reply(calls=calls), Reply("a harbour")) as provider:
        async with opened(tmp_path, provider, "openai") as agent:
            events = await events_of(agent.stream("see", attachments=["harbour.png"]))
            history = await agent.history(events[-1].session)  # type: ignore[union-attr]
    rows = json.loads(said(tmp_path, "context", "show", "--format", "json"))["rows"]
    pictures = {(row["name"], row["count"], row["tokens"]) for row in rows if row["part"] == "pictures"}
    assert pictures == {("user", 1, 85 + 170 * 2), ("tool:look", 1, 85 + 170 * 2)}
    messages = {row["name"]: row["tokens"] for row in rows if row["part"] == "messages"}
    assert messages["user"] < 20
    assert "[picture harbour.png: PNG, 640x480" in transcript(history)


async def test_the_bytes_are_kept_once_and_the_log_only_names_them(tmp_path: Path) -> None:
    with Provider(Reply("one"), Reply("two")) as provider:
        async with opened(tmp_path, provider, "openai") as agent:
            events = await events_of(agent.stream("see", attachments=["harbour.png"]))
            await events_of(agent.stream("again", session=events[-1].session, attachments=["harbour.png"]))  # type: ignore[union-attr]
    copies = [
        path for path in (tmp_path / ".zeus").rglob("*") if path.is_file() and path.read_bytes() == HARBOUR
    ]
    assert len(copies) == 1
    encoded = base64.b64encode(HARBOUR)
    for path in (tmp_path / ".zeus").rglob("*"):
        assert not path.is_file() or encoded[100:200] not in path.read_bytes(), path


async def test_a_model_that_does_not_see_is_told_of_it_and_the_user_too(tmp_path: Path) -> None:
    with Provider(Reply(calls=[Call("look", '{"name": "harbour.png"}')]), Reply("I cannot see")) as provider:
        async with opened(tmp_path, provider, "blind") as agent:
            events = await events_of(agent.stream("see", attachments=["harbour.png"]))
    body = provider.requests[1].body
    assert seen(body["messages"]) == []
    assert "its content is not shown" in json.dumps(body)
    assert [each["content"] for each in body["messages"] if each["role"] in ("user", "tool")] == [
        "see",
        "this is harbour.png",
    ]
    assert len(notices(events)) == 2
    assert "no table says that openai/gpt-3.5-turbo takes pictures" in notices(events)[0]


async def test_the_yaml_may_say_that_a_model_sees(tmp_path: Path) -> None:
    yaml = "middlewares: [resources]\nprofiles: {models: {openai/gpt-3.5-turbo: {vision: true}}}\n"
    with Provider(Reply("a harbour")) as provider:
        async with opened(tmp_path, provider, "blind", yaml) as agent:
            await events_of(agent.stream("see", attachments=["harbour.png"]))
    assert seen(provider.requests[0].body["messages"]) == [HARBOUR]


async def test_pictures_of_parallel_calls_follow_all_results_where_results_are_text(tmp_path: Path) -> None:
    calls = [
        Call("look", '{"name": "harbour.png"}', "c1"),
        Call("ls", "{}", "c2"),
        Call("look", '{"name": "map.png"}', "c3"),
    ]
    with Provider(Reply(calls=calls), Reply("seen")) as provider:
        (tmp_path / "map.png").write_bytes(png(32, 32))
        async with opened(tmp_path, provider, "openai") as agent:
            await play(agent, "look around")
    messages = provider.requests[1].body["messages"]
    assert [each["role"] for each in messages[-5:]] == ["assistant", "tool", "tool", "tool", "user"]
    assert seen(messages[:-1]) == []
    assert seen(messages[-1]) == [HARBOUR, png(32, 32)]
    said = [each["text"] for each in messages[-1]["content"] if each["type"] == "text"]
    assert said == ["Pictures in the result of look (call c1):", "Pictures in the result of look (call c3):"]


async def test_where_results_may_have_pictures_they_stand_in_them(tmp_path: Path) -> None:
    calls = [Call("look", '{"name": "harbour.png"}', "c1"), Call("ls", "{}", "c2")]
    with Provider(Reply(calls=calls), Reply("seen")) as provider:
        async with opened(tmp_path, provider, "anthropic") as agent:
            await play(agent, "look around")
    results = {
        each["tool_use_id"]: each
        for each in walk(provider.requests[1].body)
        if each.get("type") == "tool_result"
    }
    assert seen(results["c1"]) == [HARBOUR]
    assert seen(results["c2"]) == []
    (last,) = [each for each in walk(provider.requests[1].body["messages"]) if "cache_control" in each][-1:]
    assert last.get("tool_use_id") == "c2"


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_picture_from_an_mcp_server_is_seen(tmp_path: Path, kind: str) -> None:
    server = {
        "command": sys.executable,
        "args": [str(Path(mcp_server.__file__))],
        "start_timeout_seconds": 60,
    }
    yaml = f"mcpServers: {json.dumps({'small': server})}\nmiddlewares: [resources]\n"
    with Provider(Reply(calls=[Call("small__shapes")]), Reply("a dot")) as provider:
        async with opened(tmp_path, provider, kind, yaml) as agent:
            events = await play(agent, "draw")
    (result,) = [each for each in events if isinstance(each, ToolCallResult)]
    pixel = base64.b64decode(mcp_server.PIXEL)
    assert "saved as /attached_files/" in result.content
    assert seen(provider.requests[1].body["messages"]) == [pixel]


async def test_read_file_looks_at_a_picture(tmp_path: Path) -> None:
    with Provider(
        Reply(calls=[Call("read_file", '{"path": "/harbour.png"}')]), Reply("a harbour")
    ) as provider:
        async with opened(tmp_path, provider, "openai") as agent:
            events = await play(agent, "look")
    (result,) = [each for each in events if isinstance(each, ToolCallResult)]
    assert result.content.startswith("[picture /harbour.png: PNG, 640x480, ")
    assert seen(provider.requests[1].body["messages"]) == [HARBOUR]


async def test_a_killed_run_that_is_taken_up_shows_the_same_pictures(tmp_path: Path) -> None:
    with Provider(Reply(calls=[Call("look", '{"name": "map.png"}')]), Reply("x", hang_after=0)) as provider:
        (tmp_path / "map.png").write_bytes(png(32, 32))
        config = write(tmp_path, provider, "openai")
        killed_at(2, provider, tmp_path, "run", str(config), "see", "--attach", "harbour.png")
        (tmp_path / "map.png").unlink()
        (tmp_path / "harbour.png").unlink()
        provider.add(Reply("seen"))
        async with Agent.from_config(config, directory=tmp_path, environ={}) as agent:
            (session,) = [each.session for each in await agent.sessions()]
            ending = (await events_of(agent.resume(session)))[-1]
    assert isinstance(ending, RunCompleted)
    assert provider.requests[2].body["messages"] == provider.requests[1].body["messages"]
    assert seen(provider.requests[2].body["messages"]) == [HARBOUR, png(32, 32)]


async def test_a_picture_whose_file_is_gone_is_named_in_its_place(tmp_path: Path) -> None:
    with Provider(Reply("one"), Reply("two")) as provider:
        async with opened(tmp_path, provider, "openai") as agent:
            events = await events_of(agent.stream("see", attachments=["harbour.png"]))
        for path in (tmp_path / ".zeus" / "attached_files").rglob("*.png"):
            path.unlink()
        async with opened(tmp_path, provider, "openai") as agent:
            await play(agent, "and now?", events[-1].session)  # type: ignore[union-attr]
    (part,) = [
        each
        for each in walk(provider.requests[1].body["messages"])
        if "its file is gone" in each.get("text", "")
    ]
    assert part["text"].startswith("[picture harbour.png: PNG, 640x480")


async def test_what_no_provider_takes_is_described_and_told(tmp_path: Path) -> None:
    (tmp_path / "wide.png").write_bytes(png(20_000, 5_001))
    (tmp_path / "odd.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
    with Provider(Reply("a line")) as provider:
        async with opened(tmp_path, provider, "openai") as agent:
            events = await events_of(agent.stream("see", attachments=["wide.png", "odd.png"]))
    assert seen(provider.requests[0].body["messages"]) == []
    assert len(notices(events)) == 1
    assert (
        "20000x5001 pixels, more than 8,000 on a side, and too many to make it smaller" in notices(events)[0]
    )


@pytest.mark.parametrize(
    ("provider_name", "size", "sent"),
    [
        ("openai", (9_000, 90), (8_000, 80)),
        ("openai", (3_000, 2_000), (3_000, 2_000)),
        ("anthropic", (3_000, 1_500), (1_568, 784)),
        ("anthropic", (1_900, 1_200), (1_900, 1_200)),
    ],
)
async def test_a_picture_is_made_as_small_as_its_provider_wants(
    tmp_path: Path, provider_name: str, size: tuple[int, int], sent: tuple[int, int]
) -> None:
    (tmp_path / "large.png").write_bytes(data := png(*size))
    with Provider(Reply("a line")) as provider:
        async with opened(tmp_path, provider, provider_name) as agent:
            events = await events_of(agent.stream("see", attachments=["large.png"]))
    (shown,) = seen(provider.requests[0].body["messages"])
    assert imagesize.get(io.BytesIO(shown)) == sent
    assert (shown == data) == (sent == size), "what fits is sent as it is"
    assert notices(events) == []


async def test_a_smaller_picture_is_made_once_for_all_runs_and_goes_with_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "large.png").write_bytes(png(3_000, 1_500))
    with Provider(Reply("a line"), Reply("again")) as provider:
        async with opened(tmp_path, provider, "anthropic") as agent:
            events = await events_of(agent.stream("see", attachments=["large.png"]))
        session = events[-1].session  # type: ignore[union-attr]
        monkeypatch.setattr("zeus_runtime.models.image_resize.can_scale", lambda: False)
        async with opened(tmp_path, provider, "anthropic") as agent:
            await events_of(agent.stream("and now?", session=session))
            first, second = (seen(each.body["messages"]) for each in provider.requests)
            assert imagesize.get(io.BytesIO(first[0])) == (1_568, 784)
            assert first == second
            await agent.delete_session(session)
    assert list((tmp_path / ".zeus" / "attached_files").iterdir()) == []


async def test_a_large_picture_that_is_damaged_is_named_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "large.png").write_bytes(png(9_000, 90)[:60])
    with Provider(Reply("a line")) as provider:
        async with opened(tmp_path, provider, "openai") as agent:
            await events_of(agent.stream("see", attachments=["large.png"]))
    assert seen(provider.requests[0].body["messages"]) == []
    assert "gone or damaged" in str(provider.requests[0].body["messages"])


@pytest.mark.parametrize("to_model", ["mask", "allow"])
async def test_a_picture_that_was_kept_before_its_secret_was_known(tmp_path: Path, to_model: str) -> None:
    secret = "argo-Secret-4711"
    (tmp_path / "chart.png").write_bytes(data := picture_with(secret))
    with Provider(Reply("a chart"), Reply("still a chart")) as provider:
        async with opened(tmp_path, provider, "openai") as agent:
            (ending,) = (await events_of(agent.stream("see", attachments=["chart.png"])))[-1:]
            path = (await agent.history(ending.session))[0].additional_kwargs["pictures"][0]["path"]
            assert (await agent.message_file(ending.session, 1, path)).data == data
        assert seen(provider.requests[0].body["messages"]) == [data]
        (tmp_path / ".env").write_text(f"SHIP_TOKEN={secret}\n")
        async with opened(tmp_path, provider, "openai", f"secrets: {{to_model: {to_model}}}\n") as agent:
            assert isinstance((await play(agent, "and now?", session=ending.session))[-1], RunCompleted)
            with pytest.raises(NotFoundError, match="holds a secret"):
                await agent.message_file(ending.session, 1, path)
        sent = provider.requests[1].body["messages"]
    assert seen(sent) == ([] if to_model == "mask" else [data])
    assert ("holds a secret" in str(sent)) == (to_model == "mask")


async def test_a_picture_of_too_many_bytes_is_sent_with_fewer_attached_or_read(tmp_path: Path) -> None:
    (tmp_path / "heavy.png").write_bytes(data := png(2_000, 2_000, seed=1))
    assert len(data) > MAX_PICTURE_BYTES
    read = Reply(calls=(Call("read_file", '{"path": "/heavy.png"}'),))
    with Provider(read, Reply("a line")) as provider:
        async with opened(tmp_path, provider, "openai") as agent:
            events = await events_of(agent.stream("see", attachments=["heavy.png"]))
    shown = seen(provider.requests[-1].body["messages"])
    assert [imagesize.get(io.BytesIO(each)) for each in shown] == [(2_000, 2_000)] * 2
    assert all(len(each) <= MAX_PICTURE_BYTES for each in shown)
    assert notices(events) == []
