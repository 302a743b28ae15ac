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
"""Tells the user something: ``tell(code, message)`` becomes a ``Notice`` in the stream of every run, or of the next."""


@dataclass(frozen=True)
class Connection:
    """One thing outside that a toolset's tools come from, and how it is with it.

    Args:
        name: as the config names it.
        category: the row of the mode table that rules its tools.
        state: how it is.
        why: why it is not connected, and what to do; empty when it is.
        tools: how many tools it gives now.
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
        name: as the config names what it belongs to.
        address: where it is used.
        authorised: whether a right is kept.
        detail: what for and how long, or what is wrong.
    """

    name: str
    address: str
    authorised: bool
    detail: str = ""


class Toolset:
    """What a tool component's ``create`` may return instead of a sequence of tools.

    It lives as long as its Agent: opened before the agent's first run, shared by its runs, closed with the agent.
    Planning creates one too and never opens it. Nothing it is asked for may wait, but for ``open`` and ``aclose``.
    """

    async def open(self, tell: Tell, count: Callable[[str], int]) -> None:
        """Open what the tools come from; return when all is open, has failed, or has had its time to start.

        What could not be opened is told and shows in ``status``; it is no exception.

        Args:
            tell: for what the user should know, now and as long as the toolset lives.
            count: counts the tokens of a text as the model's provider does.
        """

    async def aclose(self) -> None:
        """Close everything; also after the event loop that ``open`` ran in has ended."""

    def tools(self) -> Sequence[Tool]:
        """What is there now: the same object as long as nothing has changed."""
        return ()

    def may_have(self, name: str) -> bool:
        """Whether a tool of this name may be among them when it is open: what the config says of it is no mistake."""
        return True

    def may_have_like(self, pattern: str) -> bool:
        """Whether a tool whose name fits this glob pattern may be among them when it is open."""
        return True

    async def awaited(self, name: str) -> str:
        """Wait for what may bring a tool of this name, as long as a run waits for it at its start.

        Returns:
            why the tool is not there, for the model; empty if it is, or if nothing of this would bring it.
        """
        return ""

    async def settled(self) -> None:
        """Wait for what is still being opened, as long as a call of its tools would: for whoever lists all there is."""

    async def resume(self) -> None:
        """Before each further run: open what could not be opened and now can, such as after a login."""

    def sections(self) -> Mapping[str, str]:
        """What it adds to the prompt now: section 9 (``connector``) or 10 (``mcp_prompts``) to text."""
        return {}

    def status(self) -> Sequence[Connection]:
        """What it is connected to, and what not; all is ``closed`` before it is opened."""
        return ()

    def accounts(self) -> Sequence[Account]:
        """The accounts that its tools need; it need not be open for this and the next two."""
        return ()

    async def log_in(self, account: str, show: Callable[[str], None]) -> int:
        """Let a person authorise an account.

        Args:
            account: its name.
            show: gives them the address to open.

        Returns:
            how many tools it brings.

        Raises:
            RunError: it was not authorised.
        """
        raise NotImplementedError

    async def log_out(self, account: str) -> bool:
        """Take an account's right back and forget it; False if there was none."""
        raise NotImplementedError
