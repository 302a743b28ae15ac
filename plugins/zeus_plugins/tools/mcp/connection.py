"""The connection to one server: opened, kept while the agent lives, and opened again when the server dies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from zeus_plugins.tools.mcp.capabilities import Offer, read_offer
from zeus_plugins.tools.mcp.failures import (
    REFUSED_BY_HTTP,
    Failure,
    UnauthorizedError,
    explained,
    is_permanent,
    is_too_new,
)
from zeus_plugins.tools.mcp.rate_limit import RefreshLimit
from zeus_plugins.tools.mcp.requests import Calls
from zeus_plugins.tools.mcp.sdk import client_info, quieten
from zeus_plugins.tools.mcp.start_times import LONGEST_SECONDS, Starts, longest_wait
from zeus_plugins.tools.mcp.tool_filter import ToolFilter
from zeus_plugins.tools.mcp.transports import StartPlace, address, process, quiet
from zeus_runtime.plugin import zeus_command

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import ListRootsResult

    from zeus_plugins.tools.mcp.options import Options
    from zeus_plugins.tools.mcp.servers import PlannedServer
    from zeus_plugins.tools.mcp.stderr import ErrorLog
    from zeus_runtime.plugin.files import WorkspaceFiles
    from zeus_runtime.plugin.tool import ConnectionState, Tell

_LONGEST_WAIT_SECONDS: Final = 60.0
_STEADY_SECONDS: Final = 300.0
"""After a connection of this length, the count of restarts in a row starts at zero again."""
_SURE_SECONDS: Final = 5.0
_CLOSING_SECONDS: Final = 10.0


@dataclass(frozen=True)
class SharedParts:
    """The values that all links of an agent share.

    Args:
        options: the component's options.
        place: the directory and environment in which servers are started.
        files: the workspace, where binary data from servers is saved.
        auth: returns a server's OAuth provider, or None for a server without OAuth.
        written: returns the time at which a server's account was last written, in seconds since the epoch, or None if
            the server has no account.
    """

    options: Options
    place: StartPlace
    files: WorkspaceFiles
    auth: Callable[[PlannedServer], Any] = field(repr=False)
    written: Callable[[PlannedServer], float | None] = field(repr=False)

    def authorised_since(self, server: PlannedServer, moment: float | None) -> bool:
        """Whether a server's account has been authorised since the account written at ``moment``."""
        now = self.written(server)
        return now is not None and now != moment


class Link:
    """The link to one server for the lifetime of the agent; it reconnects when the connection is lost.

    One task opens and closes the connection, because the SDK's task groups belong to the task that opened them. Calls
    come from the tasks of the runs.

    Args:
        server: the server to connect to.
        ground: the values that all links of the agent share.
        changed: called when the server's tools or prompts have changed.

    Attributes:
        calls: the calls that runs make to the server.
        state, why: the connection's state, and the reason if it is not connected.
        offer: the server's tools, prompts and resources. During a restart it keeps its old value, so that the model's
            list of tools does not change with every restart.
    """

    def __init__(self, server: PlannedServer, ground: SharedParts, changed: Callable[[], None]) -> None:
        self.server = server
        self.state: ConnectionState = "closed"
        self.why = ""
        self.offer = Offer()
        self._ground = ground
        self._changed = changed
        self._tell: Tell = lambda code, message: None
        self._task: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._settled = asyncio.Event()
        self._up = asyncio.Event()
        self._woken = asyncio.Event()
        self._scope: Any = None
        self._closing = asyncio.Event()
        self._gone = False
        self._stale = False
        self._doubted = False
        self._failures = 0
        self._was_connected = False
        self._is_late = False
        self._begun = 0.0
        self._status: int | None = None
        self._starts = Starts(ground.place.directory, server.name)
        self._sieve = ToolFilter()
        self._log: ErrorLog | None = None
        self._auth: Any = None
        self._refused_at: float | None = None
        self.calls = Calls(self, ground.files)
        self._looks = RefreshLimit(self._woken.set)
        # Many servers never answer the first request of the newest protocol; the SDK would wait ten seconds for it.
        self._mode = "auto" if server.remote and server.spec.type != "sse" else "legacy"

    async def start(self, tell: Tell) -> None:
        """Begin to connect; return when it is connected, when it has failed, or when the time limit has passed.

        The config sets the time limit; without one, it follows from the duration of the last start (``longest_wait``).
        A server that hangs must not delay the tools of the others, but a server that joins later costs the run its
        cached prefix.

        Args:
            tell: reports to the user.
        """
        self._tell = tell
        self._settled.clear()
        self._set("connecting")
        self._task = asyncio.create_task(self._live(), name=f"mcp {self.server.name}")
        given = self.server.spec.start_timeout_seconds
        seconds = longest_wait(self._starts.last_seconds()) if given is None else given
        await quiet(seconds, self._settled)
        if not self._settled.is_set():
            self._is_late = True
            self._starts.missed()
            self._tell(
                "mcp_late",
                f"The MCP server {self.server.name!r} has not started within {seconds:g} seconds, so the run begins"
                " without its tools; they are added when it has started. Set"
                f" mcpServers.{self.server.name}.start_timeout_seconds to wait longer.",
            )

    async def resume(self) -> None:
        """Connect again if the server's account was not authorised and has been authorised since."""
        task = self._task
        if self.state != "unauthorized" or task is None or not task.done():
            return
        # No await comes between the look at `state` and `start`, which changes it, so of two runs only one connects.
        if self._ground.authorised_since(self.server, self._refused_at):
            self._failures = 0
            await self.start(self._tell)

    async def aclose(self) -> None:
        """End the connection and the server's process."""
        task, self._task = self._task, None
        # A task of another event loop cannot be awaited here.
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            return
        # In this order: `_live` looks at `_closing` after whatever the two lines below wake.
        self._closing.set()
        self._woken.set()
        if self._scope is not None:
            self._scope.cancel()
        _, pending = await asyncio.wait([task], timeout=_CLOSING_SECONDS)
        if pending:
            task.cancel()
            await asyncio.wait([task], timeout=_CLOSING_SECONDS)

    @property
    def _refusal(self) -> UnauthorizedError | None:
        """The error that says that the server's account is not authorised, if that was the failure."""
        return None if self._auth is None else self._auth.refusal

    def why_of(self, failure: Failure) -> str:
        """The failure in words; the SDK does not report that the account lacks a scope, so this does."""
        lacks = "" if self._auth is None else self._auth.lacks
        if not lacks or failure.message != REFUSED_BY_HTTP:
            return failure.message
        name = self.server.name
        return (
            f"its account lacks the scope {lacks!r}. List the needed scopes under mcpServers.{name}.oauth.scopes and"
            f" authorise the account again: {zeus_command('auth', 'login', name, is_argument=True)}"
        )

    def _why_not_started(self, failure: Failure) -> str:
        words = self.why_of(failure)
        return f"it answered HTTP {self._status}" if words == REFUSED_BY_HTTP and self._status else words

    def _refused(self, status: int) -> None:
        self._status = status

    async def connected(self) -> Client | None:
        """The client if the server is connected; first waits while the server is being started."""
        if self.state == "connecting":
            given = self.server.spec.start_timeout_seconds
            await quiet(LONGEST_SECONDS if given is None else given, self._up)
        return self._client

    def absent(self, more: str = "") -> str:
        """A text for the model that says that the server is not connected, and why."""
        why = f": {self.why}" if self.why else ""
        return f"The MCP server {self.server.name!r} is not connected{why}. {more}".strip()

    def noticed(self, failure: Failure) -> UnauthorizedError | None:
        """Record how a call failed: the connection was lost, or the account is no longer authorised.

        Returns:
            the error, if the account is no longer authorised.
        """
        unauthorized = failure.unauthorized or self._refusal
        if unauthorized is not None:
            self._lost(unauthorized)
        elif failure.connection_lost:
            self._wake(gone=True)
        return unauthorized

    def answered(self) -> None:
        """Record that a call was answered: the next restart is the first in a row again."""
        self._failures = 0

    def doubt(self) -> None:
        """Record that a call was cancelled before it was answered."""
        self._wake(doubted=True)

    def tell(self, code: str, message: str) -> None:
        """Report something to the user."""
        self._tell(code, message)

    def _lost(self, error: UnauthorizedError) -> None:
        """Remove the tools because the account is no longer authorised; the run continues."""
        self._set("unauthorized", str(error))
        self._tell("mcp_unauthorized", str(error))
        self._wake(gone=True)

    def _wake(self, *, gone: bool = False, stale: bool = False, doubted: bool = False) -> None:
        if gone and self.state == "connected":
            # New calls wait for the next connection, not for the slow end of this one.
            self._client = None
            self._set("connecting", "its process ended")
        self._gone = self._gone or gone
        self._stale = self._stale or stale
        self._doubted = self._doubted or doubted
        self._woken.set()

    def _set(self, state: ConnectionState, why: str = "", offer: Offer | None = None) -> None:
        self.state, self.why = state, why
        if state == "connecting":
            self._up.clear()
            return
        self.offer = offer or Offer()
        if state == "unauthorized":
            self._refused_at = self._ground.written(self.server)
        self._settled.set()
        self._up.set()
        self._changed()

    async def _live(self) -> None:
        import anyio

        quieten()
        while not self._closing.is_set():
            self._set("connecting", self.why)
            begun = self._begun = asyncio.get_running_loop().time()
            self._status = None
            # A sign of the previous connection must not end this one.
            self._gone = self._stale = self._doubted = False
            self._looks.begin()
            self._woken.clear()
            failure: BaseException | None = None
            with anyio.CancelScope() as self._scope:
                try:
                    await self._hold()
                except Exception as error:  # noqa: BLE001 - a server may fail in any way; nothing else may fail with it
                    failure = error
            # A call must not take the client of a connection that has ended.
            self._client = None
            if asyncio.get_running_loop().time() - begun > _STEADY_SECONDS:
                self._failures = 0
            if self._closing.is_set() or self.state == "unauthorized":
                break
            if not await self._again(failure):
                return
        if self.state != "unauthorized":
            self._set("closed")

    async def _hold(self) -> None:
        """Connect, and stay connected until the server ends or the link is closed."""
        from mcp import Client

        spec = self.server.spec
        late = asyncio.timeout(max(spec.timeout_seconds, spec.start_timeout_seconds or 0))
        async with late:
            client = Client(
                self._sieve.over(self._transport()),
                message_handler=self._heard,
                elicitation_callback=self.calls.elicit,
                list_roots_callback=None if self.server.root is None else self._roots,
                logging_callback=None,
                cache=None,
                mode=self._mode,
                client_info=client_info(),
            )
            async with client:
                offer = await read_offer(client, self.server, self._sieve)
                # The limit is for the start only; the connection lasts as long as the server.
                late.reschedule(None)
                self._starts.took(asyncio.get_running_loop().time() - self._begun)
                # Before `_set`, which wakes the calls that wait for a client.
                self._client = client
                was_lost, was_late = self._failures > 0, self._is_late
                self._was_connected, self._is_late = True, False
                self._set("connected", offer=offer)
                if was_lost:
                    self._tell("mcp_restarted", f"The MCP server {self.server.name!r} is connected again.")
                elif was_late:
                    self._tell(
                        "mcp_joined",
                        f"The MCP server {self.server.name!r} has started; its tools are available from now on.",
                    )
                self._tell_problems(offer.problems)
                await self._stay(client)

    async def _roots(self, context: Any) -> ListRootsResult:
        from mcp.types import ListRootsResult

        assert self.server.root is not None, "only a server with a root may ask for it"
        return ListRootsResult.model_validate({"roots": [{"uri": self.server.root.resolve().as_uri()}]})

    async def _stay(self, client: Client) -> None:
        from zeus_plugins.tools.mcp.listening import listening

        async with listening(client, lambda: self._wake(stale=True)):
            while not self._ended:
                await self._woken.wait()
                self._woken.clear()
                # `_woken` is cleared before the flags are read: a flag set during an await below causes one more round.
                if self._doubted and not self._ended:
                    self._doubted = False
                    await self._make_sure(client)
                if self._stale and self._looks.now() and not self._ended:
                    self._stale = False
                    await self._refresh(client)

    async def _make_sure(self, client: Client) -> None:
        """Check the one stream of SSE after a call that did not end: nothing else reports that the stream is lost."""
        if self.server.spec.type != "sse":
            return
        try:
            async with asyncio.timeout(_SURE_SECONDS):
                await client.list_tools()
        except Exception:  # noqa: BLE001 - any error means that there is no answer
            self._wake(gone=True)

    @property
    def _ended(self) -> bool:
        return self._gone or self._closing.is_set()

    async def _refresh(self, client: Client) -> None:
        async with asyncio.timeout(self.server.spec.timeout_seconds):
            offer = await read_offer(client, self.server, self._sieve)
        if offer == self.offer:
            return
        known = self.offer.problems
        before, now = {tool.name for tool in self.offer.tools}, {tool.name for tool in offer.tools}
        self._set("connected", offer=offer)
        changes = [
            f"{word} {', '.join(sorted(names))}"
            for word, names in (("new:", now - before), ("gone:", before - now))
            if names
        ]
        self._tell(
            "mcp_tools_changed",
            f"The MCP server {self.server.name!r} offers other tools now"
            f" ({'; '.join(changes) or 'descriptions or prompts changed'}).",
        )
        self._tell_problems(problem for problem in offer.problems if problem not in known)

    def _tell_problems(self, problems: Iterable[str]) -> None:
        for problem in problems:
            self._tell("mcp_setting", f"mcpServers.{self.server.name}: {problem}.")

    async def _again(self, failure: BaseException | None) -> bool:
        """Whether to connect once more; waits first. If not, the state has the reason."""
        name, options = self.server.name, self._ground.options
        if self._mode == "legacy" and failure is not None and is_too_new(failure):
            self._mode = "auto"
            return True
        why = "its process ended" if failure is None else self._why_not_started(explained(failure))
        # Asked of the provider and not of the failure: the SDK's task groups may lose the exception itself.
        unauthorized = self._refusal
        if unauthorized is not None:
            self._set("unauthorized", str(unauthorized))
            self._tell("mcp_unauthorized", str(unauthorized))
            return False
        if self._log is not None and self._log.last_words:
            why = f"{why}; it wrote: {self._log.last_words}"
        self._failures += 1
        # A server that was connected before may come back: an update may be replacing its command, or a proxy answers.
        is_over = failure is not None and not self._was_connected and is_permanent(failure, self._status)
        if self._failures > options.max_restarts or is_over:
            self._set("failed", why)
            self._tell(
                "mcp_failed",
                f"The MCP server {name!r} is not available: {why}. The run continues without its tools.",
            )
            return False
        wait = min(_LONGEST_WAIT_SECONDS, options.restart_seconds * 2 ** (self._failures - 1))
        self._set("connecting", why)
        self._settled.set()
        self._tell(
            "mcp_lost",
            f"The MCP server {name!r} is not available: {why}. It is restarted in {wait:g} seconds"
            f" (restart {self._failures} of {options.max_restarts}).",
        )
        self._woken.clear()
        # There was no await since `_live` looked at `_closing`, so the line above cannot clear the wake-up of `aclose`.
        await quiet(wait, self._woken)
        return True

    def _transport(self) -> AbstractAsyncContextManager[Any]:
        if self.server.remote:
            self._auth = self._ground.auth(self.server)
            return address(self.server, self._ground.place.permit, self._auth, self._refused)

        def heard(log: ErrorLog) -> None:
            self._log = log

        return process(self.server, self._ground.place, lambda: self._wake(gone=True), heard)

    async def _heard(self, message: Any) -> None:
        from mcp.types import PromptListChangedNotification, ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification | PromptListChangedNotification):
            self._wake(stale=True)
