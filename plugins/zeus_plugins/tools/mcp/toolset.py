"""The toolset of all MCP servers of an agent; its tools change while servers connect and disconnect."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zeus_plugins.tools.mcp.names import tool_name
from zeus_plugins.tools.mcp.oauth import provider_of, uses_oauth, written_at
from zeus_plugins.tools.mcp.options import Options
from zeus_plugins.tools.mcp.resources import RESOURCE_TOOLS, resource_tools
from zeus_plugins.tools.mcp.servers import PlannedServer, servers_of
from zeus_runtime.plugin import MissingError
from zeus_runtime.plugin.middleware import Section
from zeus_runtime.plugin.tool import (
    Account,
    Connection,
    LoginPage,
    Tool,
    ToolResult,
    ToolRun,
    Toolset,
    all_tried,
)

if TYPE_CHECKING:
    from zeus_plugins.tools.mcp.capabilities import Offered
    from zeus_plugins.tools.mcp.connection import Link
    from zeus_runtime.plugin import PlanContext
    from zeus_runtime.plugin.tool import Tell


def create(options: Options | None, context: PlanContext) -> McpToolset:
    """The toolset of the servers; no server is started before the toolset is opened.

    Raises:
        MissingError: the SDK is not installed.
        OptionsError: a file that lists servers is wrong.
    """
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        raise MissingError(
            "MCP servers need the package mcp", remedy="Install it: pip install 'zeus-runtime[mcp]'."
        )
    options = options or Options()
    servers, disabled = servers_of(options, context)
    return McpToolset(servers, disabled, options, context)


class McpToolset(Toolset):
    """The tools of the given servers.

    Args:
        servers: the servers, in the order of their tools.
        disabled: servers that are only listed in the status.
        options: the component's options.
        context: the agent's context.
    """

    def __init__(
        self,
        servers: Sequence[PlannedServer],
        disabled: Sequence[PlannedServer],
        options: Options,
        context: PlanContext,
    ) -> None:
        self._options = options
        self._context = context
        self._servers = servers
        self._disabled = disabled
        # `open` sets both: there is nothing to count without a link.
        self._links: Sequence[Link] = ()
        self._count: Callable[[str], int]
        self._tools: Sequence[Tool] | None = None

    @property
    def servers(self) -> Sequence[PlannedServer]:
        """The servers, started or not."""
        return self._servers

    @property
    def setting(self) -> str:
        # Not only of those that are connected: an approval must hold when a server joins late.
        return json.dumps(sorted((server.name, server.setting) for server in self._servers))

    async def open(self, tell: Tell, count: Callable[[str], int]) -> None:
        import asyncio

        from zeus_plugins.tools.mcp.connection import Link, SharedParts
        from zeus_plugins.tools.mcp.transports import StartPlace

        context = self._context
        ground = SharedParts(
            self._options,
            StartPlace(
                context.directory,
                context.process_environ,
                self._options.log_kilobytes * 1_000,
                context.permit,
            ),
            context.workspace,
            lambda server: provider_of(server, context.process_environ, context.learn),
            lambda server: written_at(server, context.process_environ),
        )
        self._links = [Link(server, ground, self._changed) for server in self._servers]
        self._count = count
        await asyncio.gather(*(link.start(tell) for link in self._links))

    async def aclose(self) -> None:
        await all_tried(*(link.aclose for link in self._links), at_once=True)

    def tools(self) -> Sequence[Tool]:
        # Kept until a link calls `_changed`: making them counts the tokens of all schemas.
        if self._tools is None:
            self._tools = self._made()
        return self._tools

    def may_have(self, name: str) -> bool:
        return any(_may_have(server, name) for server in self._absent())

    def may_have_like(self, pattern: str) -> bool:
        # The text before the first wildcard and the prefix of the names must agree as far as both are given.
        head = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
        begins = [f"{server.prefix}__" if server.prefix else "" for server in self._absent()]
        known = (*begins, *RESOURCE_TOOLS) if begins else ()
        return any(each.startswith(head) or head.startswith(each) for each in known)

    def foreseen(self, name: str) -> Tool | None:
        servers = [server for server in self._servers if _may_have(server, name)]
        if name in RESOURCE_TOOLS and servers and all(server.prefix for server in servers):
            return Tool(name, "", {}, _unopened, category="mcp", setting=self.setting)
        # A name without a prefix may be any server's.
        if len(servers) != 1 or name in RESOURCE_TOOLS:
            return None
        (server,) = servers
        return Tool(name, "", {}, _unopened, category=server.category, setting=server.setting)

    async def awaited(self, name: str) -> str:
        import asyncio

        links = [link for link in self._links if _may_have(link.server, name)]
        await asyncio.gather(*(link.connected() for link in links))
        return " ".join(link.absent("Nothing was done.") for link in links if link.state != "connected")

    async def settled(self) -> None:
        import asyncio

        await asyncio.gather(*(link.connected() for link in self._links))

    async def resume(self) -> None:
        import asyncio

        await asyncio.gather(*(link.resume() for link in self._links))

    def sections(self) -> Mapping[str, str]:
        connected = [link for link in self._links if link.state == "connected"]
        prompts = [
            f"## {name} (from the MCP server {link.server.name})\n\n{text}"
            for link in connected
            for name, text in link.offer.prompts.items()
        ]
        connectors = [link.server.instructions for link in connected if link.server.instructions]
        return {
            str(Section.CONNECTOR): "\n\n".join(connectors),
            str(Section.MCP_PROMPTS): "\n\n".join(["# Prompts", *prompts]) if prompts else "",
        }

    def status(self) -> Sequence[Connection]:
        links = {link.server.name: link for link in self._links}
        return [
            *(
                Connection(name, server.category, link.state, link.why, len(link.offer.tools))
                if (link := links.get(name)) is not None
                else Connection(name, server.category, "closed")
                for server in self._servers
                for name in (server.name,)
            ),
            *(
                Connection(server.name, server.category, "disabled", "disabled: true")
                for server in self._disabled
            ),
        ]

    def accounts(self) -> Sequence[Account]:
        from zeus_plugins.tools.mcp.oauth.account import account_of

        return [account_of(server, self._context) for server in self._servers if uses_oauth(server)]

    async def log_in(self, account: str, show: Callable[[LoginPage], None]) -> int:
        from zeus_plugins.tools.mcp.oauth.account import log_in
        from zeus_plugins.tools.mcp.sdk import quieten

        quieten()
        return await log_in(self._with_account(account), self._context, show)

    async def log_out(self, account: str) -> bool:
        from zeus_plugins.tools.mcp.oauth.account import log_out

        return await log_out(self._with_account(account), self._context)

    def _with_account(self, name: str) -> PlannedServer:
        return next(server for server in self._servers if server.name == name and uses_oauth(server))

    def _absent(self) -> Sequence[PlannedServer]:
        """The servers whose tools are not known yet."""
        present = {link.server.name for link in self._links if link.state == "connected"}
        return [server for server in self._servers if server.name not in present]

    def _changed(self) -> None:
        self._tools = None

    def _made(self) -> Sequence[Tool]:
        deferred = self._deferred()
        tools = [
            _tool(link, offered, deferred=link.server.name in deferred)
            for link in self._links
            for offered in link.offer.tools
        ]
        with_resources = [link for link in self._links if link.offer.resources]
        return (*tools, *(resource_tools(with_resources, self.setting) if with_resources else ()))

    def _deferred(self) -> frozenset[str]:
        """The servers whose tools are listed by name: those that are discoverable, and all undecided ones if their
        schemas together are too large."""
        asked = [link for link in self._links if link.server.spec.discoverable]
        undecided = [link for link in self._links if link.server.spec.discoverable is None]
        texts = [
            json.dumps([tool.name, tool.description, tool.parameters], ensure_ascii=False)
            for link in undecided
            for tool in link.offer.tools
        ]
        limit = self._options.schema_share * self._context.profile.max_input_tokens
        if texts and sum(map(self._count, texts)) > limit:
            asked += undecided
        return frozenset(link.server.name for link in asked)


def _may_have(server: PlannedServer, name: str) -> bool:
    return not server.prefix or name.startswith(f"{server.prefix}__") or name in RESOURCE_TOOLS


async def _unopened(_arguments: Mapping[str, Any]) -> str:
    raise AssertionError("a foreseen tool is not called")


def _tool(link: Link, offered: Offered, *, deferred: bool) -> Tool:
    async def call(arguments: Mapping[str, Any], run: ToolRun) -> ToolResult:
        return await link.calls.call(offered.name, arguments, run, repeatable=offered.repeatable)

    server = link.server
    return Tool(
        name=tool_name(server.prefix, offered.name),
        description=offered.description,
        parameters=offered.parameters,
        function=call,
        category=server.category,
        access=offered.access,
        takes_whole=True,
        timeout_seconds=server.spec.timeout_seconds,
        deferred=deferred,
        setting=server.setting,
        facts=(f"of the MCP server {server.name}",),
    )
