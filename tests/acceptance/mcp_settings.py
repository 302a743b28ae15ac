"""What each key of MCP servers and connectors does, seen through a small server and a port that only listens."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.acceptance.settings import Flip, Scene, See
from tests.support import mcp_server
from tests.support.mcp_http import Authority, serving
from tests.support.ports import unused_port
from zeus_runtime import RunError
from zeus_runtime.plan.validated import examine_config
from zeus_runtime.plugin.tool import LoginPage
from zeus_runtime.testing import calling

SCRIPT = str(Path(mcp_server.__file__))
NAME = "gpt-4o"
"""``*`` in a key stands for the model's name, so the server has that name too."""
PREFIX = f"{NAME}__"


def small(*behaviour: str, **keys: Any) -> dict[str, Any]:
    server = {"command": sys.executable, "args": [SCRIPT, *behaviour], "start_timeout_seconds": 60, **keys}
    return {"mcpServers": {NAME: server}}


def remote(**keys: Any) -> dict[str, Any]:
    return {"mcpServers": {NAME: {"url": "http://127.0.0.1:1/mcp", **keys}}}


async def problems(scene: Scene) -> tuple[str, ...]:
    """The codes of the diagnostics."""
    return scene.problems()


def tools(*wanted: str) -> See:
    """Which of some tools the model is given."""

    async def see(scene: Scene) -> list[str]:
        played = await scene.play("done")
        given = [tool.name for tool in played.requests[0].tools]
        return [name for name in wanted if name in given]

    return see


def result(name: str, part: str) -> See:
    """Whether what a tool answers holds ``part``."""

    async def see(scene: Scene) -> bool:
        return part in (await scene.play(calling((PREFIX + name, {})), "done")).results[0]

    return see


def prompted(part: str) -> See:
    async def see(scene: Scene) -> bool:
        return part in (await scene.play("done")).requests[0].system

    return see


def notices(part: str) -> See:
    """The notices of a run that hold ``part``."""

    async def see(scene: Scene) -> bool:
        return any(part in each.message for each in (await scene.play("done")).all("notice"))

    return see


async def where_it_ran(scene: Scene) -> list[str]:
    (scene.folder / "elsewhere").mkdir(exist_ok=True)
    await scene.play("done")
    return sorted(name for name in scene.files() if name.endswith("seen.jsonl"))


async def asks_again(scene: Scene) -> bool:
    """Whether a server needs permission again when a file that its arguments name has changed."""
    digests = set()
    scene.write("zeus.yaml", json.dumps(scene.config))
    for content in ("one", "two"):
        scene.write("notes.db", content)
        found = examine_config(None, directory=scene.folder, environ={})
        digests |= {part.digest for part in found.parts}
    return len(digests) > 1


def of_tool(name: str, attribute: str) -> See:
    async def see(scene: Scene) -> Any:
        async with scene.agent() as agent:
            return {tool.name: getattr(tool, attribute) for tool in await agent.tools()}[name]

    return see


def toolset(scene: Scene) -> Any:
    plan = scene.agent().plan
    return plan.opens[0].create(plan.context)


async def accounts(scene: Scene) -> list[str]:
    return [each.name for each in toolset(scene).accounts()]


async def categories(scene: Scene) -> list[str]:
    return [server.category for server in toolset(scene).servers]


async def instructions(scene: Scene) -> list[str]:
    scene.write("own.md", "My own.")
    return [server.instructions.partition("\n")[0] for server in toolset(scene).servers]


async def client(scene: Scene) -> tuple[str | None, str | None]:
    """The OAuth client that Zeus is to the server."""
    from zeus_plugins.tools.mcp.oauth import provider_of

    (server,) = toolset(scene).servers
    found = await provider_of(server, {"HOME": str(scene.folder)}, learn=lambda *_: None).get_client_info()
    return (None, None) if found is None else (found.client_id, found.client_secret)


async def header(scene: Scene) -> str:
    """The header ``X-Team`` of the first request to a remote server."""
    seen: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        text = (await reader.readuntil(b"\r\n\r\n")).decode()
        if not seen.done():
            seen.set_result(
                next((line for line in text.splitlines() if line.lower().startswith("x-team")), "")
            )
        writer.close()

    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        entry = {**scene.config["mcpServers"][NAME], "url": f"http://127.0.0.1:{port}/mcp"}
        scene.config = {**scene.config, "mcpServers": {NAME: entry}, "tools": [{"mcp": {"max_restarts": 0}}]}
        await scene.play("done")
        return await seen


def asked_for(name: str) -> See:
    """A parameter of the address that a person is to open."""

    async def see(scene: Scene) -> str:
        shown: list[str] = []

        def show(page: LoginPage) -> None:
            shown.append(page.url)
            raise RunError("seen enough")

        async with serving(Authority(), valid_scopes=("notes", "more")) as served:
            entry = {**scene.config["mcpServers"][NAME], "url": served.url}
            scene.config = {**scene.config, "mcpServers": {NAME: entry}}
            scene.environ["HOME"] = str(scene.folder)
            with suppress(RunError):
                await toolset(scene).log_in(NAME, show)
        found = parse_qs(urlsplit(shown[0]).query)[name][0]
        return "the port" if f":{PORT}/" in found else "any port" if name == "redirect_uri" else found

    return see


async def log_size(scene: Scene) -> bool:
    await scene.play("done")
    return (scene.folder / f".zeus/mcp/{NAME}.log").stat().st_size > 1_000


async def from_file(scene: Scene) -> list[str]:
    scene.write(".mcp.json", json.dumps({"mcpServers": {"filed": {"command": "x"}}}))
    return [server.name for server in toolset(scene).servers]


PORT = unused_port()


def of_server(key: str, value: Any, see: See, before: Any, after: Any, given: Mapping[str, Any]) -> Flip:
    return Flip(f"mcpServers.*.{key}", value, see, before, after, given)


def of_mcp(key: str, value: Any, see: See, before: Any, after: Any, given: Mapping[str, Any]) -> Flip:
    return Flip(f"tool:mcp.{key}", value, see, before, after, {"tools": [{"mcp": {}}], **given})


EMPTY: dict[str, Any] = {"mcpServers": {NAME: {}}}
WRONG, RIGHT = ("mcp-server",), ()
SAY, WRITE = f"{PREFIX}say", f"{PREFIX}write"
OAUTH = remote(auth="oauth")
DRIVEN = {**small(), "connectors": {"browser": {"server": NAME}}}
DESKTOP = {**small(), "connectors": {"desktop": {"server": NAME}}}

SERVERS = (
    of_server("command", "x", problems, WRONG, RIGHT, EMPTY),
    of_server("url", "http://127.0.0.1:1/mcp", problems, WRONG, RIGHT, EMPTY),
    of_server("serverUrl", "http://127.0.0.1:1/mcp", problems, WRONG, RIGHT, EMPTY),
    of_server("httpUrl", "http://127.0.0.1:1/mcp", problems, WRONG, RIGHT, EMPTY),
    of_server("preset", "github", problems, WRONG, RIGHT, EMPTY),
    of_server("args", [SCRIPT, "many=1"], tools(f"{PREFIX}large_0"), [], [f"{PREFIX}large_0"], small()),
    of_server("env", {"GIVEN": "to you"}, result("environment", "to you"), False, True, small()),
    of_server("cwd", "elsewhere", where_it_ran, ["seen.jsonl"], ["elsewhere/seen.jsonl"], small()),
    of_server("data", ["notes.db"], asks_again, True, False, small("--db=notes.db")),
    of_server("type", "stdio", problems, RIGHT, WRONG, remote()),
    of_server("headers", {"X-Team": "blue"}, header, "", "X-Team: blue", remote()),
    of_server("disabled", True, tools(SAY), [SAY], [], small()),
    of_server("auth", "oauth", accounts, [], [NAME], remote()),
    of_server("oauth.client_id", "mine", client, (None, None), ("mine", None), OAUTH),
    of_server(
        "oauth.client_secret",
        "hush-hush",
        client,
        ("mine", None),
        ("mine", "hush-hush"),
        remote(auth="oauth", oauth={"client_id": "mine", "issuer": "https://corp.example"}),
    ),
    of_server(
        "oauth.issuer",
        "https://corp.example",
        problems,
        WRONG,
        RIGHT,
        remote(auth="oauth", oauth={"client_secret": "hush-hush"}),
    ),
    of_server("oauth.scopes", ["notes", "more"], asked_for("scope"), "notes", "notes more", OAUTH),
    of_server("oauth.redirect_port", PORT, asked_for("redirect_uri"), "any port", "the port", OAUTH),
    of_server("prefix", "s", tools(SAY, "s__say"), [SAY], ["s__say"], small()),
    of_server("allow", ["say"], tools(SAY, WRITE), [SAY, WRITE], [SAY], small()),
    of_server("includeTools", ["say"], tools(SAY, WRITE), [SAY, WRITE], [SAY], small()),
    of_server("deny", ["say"], tools(SAY, WRITE), [SAY, WRITE], [WRITE], small()),
    of_server("excludeTools", ["say"], tools(SAY, WRITE), [SAY, WRITE], [WRITE], small()),
    of_server("disabledTools", ["say"], tools(SAY, WRITE), [SAY, WRITE], [WRITE], small()),
    of_server("access", {"say": "write"}, of_tool(SAY, "access"), "read", "write", small()),
    of_server("prompts", {"review": {}}, prompted("Review, plain."), False, True, small()),
    of_server("discoverable", True, tools(SAY), [SAY], [], small()),
    of_server("timeout_seconds", 7, of_tool(SAY, "timeout_seconds"), 1_800, 7, small()),
    of_server("start_timeout_seconds", 0, notices("has not started within 0 seconds"), False, True, small()),
    of_server("autoApprove", ["say"], problems, RIGHT, WRONG, small()),
    of_server("alwaysAllow", ["say"], problems, RIGHT, WRONG, small()),
    of_server("trust", True, problems, RIGHT, WRONG, small()),
    of_server("timeout", 60, problems, RIGHT, WRONG, small()),
    of_server("envFile", ".env", problems, RIGHT, WRONG, small()),
    Flip(
        "connectors.browser.server",
        NAME,
        categories,
        ["mcp", "browser"],
        ["browser"],
        {**small(), "connectors": {"browser": {}}},
    ),
    Flip("connectors.browser.prompt", "own.md", instructions, ["# Browser"], ["My own."], DRIVEN),
    Flip(
        "connectors.desktop.server", NAME, problems, WRONG, RIGHT, {**small(), "connectors": {"desktop": {}}}
    ),
    Flip("connectors.desktop.prompt", "own.md", instructions, ["# Desktop"], ["My own."], DESKTOP),
)

OPTIONS = (
    of_mcp("files", [".mcp.json"], from_file, [NAME], [NAME, "filed"], small()),
    of_mcp("schema_share", 0, tools(SAY), [SAY], [], small()),
    of_mcp("max_restarts", 2, notices("restart 1 of 2"), False, True, small("die_at_start")),
    of_mcp("restart_seconds", 0.25, notices("restarted in 0.25 seconds"), False, True, small("die_at_start")),
    of_mcp("log_kilobytes", 1, log_size, True, False, small("noise=3000")),
)
