"""A toolset: tools that exist only while something outside is open, such as a server that offers them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from zeus_runtime.tools.tool import Category, Tool

ConnectionState: TypeAlias = Literal[
    "connecting", "connected", "failed", "unauthorized", "closed", "disabled"
]

Tell: TypeAlias = Callable[[str, str], None]
"""Notifies the user: ``tell(code, message)`` becomes a ``Notice`` in the stream of all current runs, or of the next."""


@dataclass(frozen=True)
class Connection:
    """The connection to an external source of a toolset's tools, and its state.

    Args:
        name: its name in the config.
        category: the row of the mode table for its tools.
        state: the state of the connection.
        why: why it is not connected, and the remedy; empty if it is connected.
        tools: the number of tools that it has now.
    """

    name: str
    category: Category
    state: ConnectionState
    why: str = ""
    tools: int = 0


@dataclass(frozen=True)
class Account:
    """An account that some of a toolset's tools need, and whether it is authorised.

    Args:
        name: the name in the config of the server that it belongs to.
        address: the URL where it is used.
        authorised: whether an authorisation is stored.
        detail: its scope and expiry, or the problem.
    """

    name: str
    address: str
    authorised: bool
    detail: str = ""


@dataclass(frozen=True)
class LoginPage:
    """The web page on which a person authorises an account.

    Args:
        url: its address.
        receivers: the hosts that get the person's answer, and later the account's tokens, besides the page's own.
        is_vouched: whether the config names who gives the account, so that the person allowed these hosts.
    """

    url: str
    receivers: Sequence[str] = ()
    is_vouched: bool = True


class Toolset:
    """A tool component's ``create`` may return this instead of a sequence of tools.

    It lives as long as its Agent: it is opened before the agent's first run, shared by its runs, and closed with the
    agent. Planning also creates one, but never opens it. The synchronous methods must not block.
    """

    @property
    def setting(self) -> str:
        """What its sources are, as in ``Tool.setting``, and known before it is opened; empty: its options say it.

        An approved call that starts an agent is bound to the settings of the agent's toolsets.
        """
        return ""

    async def open(self, tell: Tell, count: Callable[[str], int]) -> None:
        """Open the sources of the tools; return when each is open, has failed, or has used up its time to start.

        A source that could not be opened is reported with ``tell`` and in ``status``; it does not raise.

        Args:
            tell: notifies the user, now and as long as the toolset lives.
            count: counts the tokens of a text as the model's provider does.
        """

    async def aclose(self) -> None:
        """Close everything; also after the event loop that ``open`` ran in has ended."""

    def tools(self) -> Sequence[Tool]:
        """Return the current tools; the same object as long as nothing has changed."""
        return ()

    def may_have(self, name: str) -> bool:
        """Whether a tool of this name may join, so that the config may mention it.

        Once it is open, only a source that is not open yet counts: the tools of the others are there.
        """
        return True

    def may_have_like(self, pattern: str) -> bool:
        """Whether a tool whose name matches this glob pattern may join; as ``may_have``."""
        return True

    def foreseen(self, name: str) -> Tool | None:
        """Return what is known of a tool of this name before the toolset is opened: its category and setting.

        With it Zeus can say that a question was asked under another setting. None if that is not known.
        """
        return None

    async def awaited(self, name: str) -> str:
        """Wait for the source of a tool of this name, at most as long as a run waits for it at its start.

        Returns:
            why the tool is missing, for the model; empty if it is there, or if no source of this toolset would have it.
        """
        return ""

    async def settled(self) -> None:
        """Wait for sources that are still being opened, as long as a call of their tools would; for complete lists."""

    async def resume(self) -> None:
        """Called before each further run: open sources that failed before and may work now, such as after a login."""

    def sections(self) -> Mapping[str, str]:
        """Return its current text for the prompt: section 9 (``connector``) or 10 (``mcp_prompts``) to text."""
        return {}

    def status(self) -> Sequence[Connection]:
        """Return the state of each connection; all are ``closed`` before ``open``."""
        return ()

    def accounts(self) -> Sequence[Account]:
        """Return the accounts that its tools need; this and the next two methods also work before ``open``."""
        return ()

    async def log_in(self, account: str, show: Callable[[LoginPage], None]) -> int:
        """Let a person authorise an account.

        Args:
            account: its name.
            show: shows the person the page to open.

        Returns:
            the number of tools that the account adds.

        Raises:
            RunError: it was not authorised.
        """
        raise NotImplementedError

    async def log_out(self, account: str) -> bool:
        """Revoke and delete an account's authorisation; False if there was none."""
        raise NotImplementedError
