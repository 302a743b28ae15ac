"""The plans of an agent whose sessions have a workspace each: made when a session runs, a few of them kept."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zeus_runtime.config.model import WorkspaceQuota
from zeus_runtime.errors import MissingError
from zeus_runtime.plan.plan import make_plan
from zeus_runtime.run.connections import plans, sandboxes_of
from zeus_runtime.tools.routes import WorkspaceConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.run.connections import Connections

KEPT: Final = 16
"""Plans of sessions that do not run now. What such a plan opened, such as MCP servers, stays open until it goes."""


class SessionPlans:
    """Gives each session its plan; without workspaces of sessions, that of the agent.

    Args:
        checked: the agent's config.
        plan: the agent's own plan.
        is_running: whether a session runs now.
    """

    def __init__(self, checked: Checked, plan: Plan, is_running: Callable[[str], bool]) -> None:
        self._checked = replace(checked, lender=plan.context)
        self._plan = plan
        self._is_running = is_running
        self._made: dict[str, Plan] = {}
        self._lock = asyncio.Lock()

    async def of(self, session: str, connections: Connections) -> Plan:
        """The plan of a session; its workspace need not exist yet.

        Raises:
            ConfigError: a file that the config needs is not valid any more.
        """
        if self._plan.config.workspace.per != "session":
            return self._plan
        async with self._lock:
            plan = self._made.pop(session, None)
            if plan is None:
                own = replace(self._checked, session=session)
                plan = await asyncio.to_thread(make_plan, own, mode=self._plan.mode)
                connections.share(self._plan, plan)
            self._made[session] = plan
            idle = [each for each in self._made if each != session and not self._is_running(each)]
            for each in idle[: max(0, len(idle) - KEPT)]:
                await self._close(self._made.pop(each), connections)
            return plan

    async def aclose(self, connections: Connections) -> None:
        """Close what the plans opened."""
        while self._made:
            await self._close(self._made.popitem()[1], connections)

    async def _close(self, plan: Plan, connections: Connections) -> None:
        await connections.unshare(plan)
        for each in sandboxes_of(plan):
            await each.aclose()
        for part in plans(plan):
            await part.context.closing.aclose()
            for service, lent in (
                (part.context.memory, self._plan.context.memory),
                (part.context.knowledge, self._plan.context.knowledge),
            ):
                if service is not None and service is not lent:
                    await service.aclose()


async def make_roots(plan: Plan) -> None:
    """Make the workspace of a plan and of its sub-agents, if a session or a user has its own.

    Raises:
        MissingError: it cannot be made.
    """

    def make() -> None:
        for each in plans(plan):
            each.context.workspace.make_root()

    workspace = plan.config.workspace
    if workspace.per is None and workspace.quota == WorkspaceQuota():
        return
    try:
        await asyncio.to_thread(make)
    except WorkspaceConfigError as error:
        raise MissingError(error.message, remedy=error.remedy) from None
