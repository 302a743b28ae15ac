"""The plans of sessions with their own workspace or policies: made when one runs, a few of them kept."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields, is_dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.errors import MissingError, UsageError
from zeus_runtime.middleware.chain import overrides
from zeus_runtime.middleware.protocol import METHODS
from zeus_runtime.plan.parts_with_subagents import all_parts
from zeus_runtime.plan.plan import make_plan
from zeus_runtime.plan.workspace_secrets import WorkspaceSecrets, at_session, family_of
from zeus_runtime.run.connections import differs_by_session, plans, sandboxes_of
from zeus_runtime.tools.routes import WorkspaceConfigError
from zeus_runtime.tools.run_to_completion import all_tried

if TYPE_CHECKING:
    from pathlib import Path

    from zeus_runtime.middleware.protocol import Middleware
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.run.connections import Connections
    from zeus_runtime.store.threads import Owner

KEPT: Final = 16
"""Plans of sessions that do not run now. What such a plan opened, such as MCP servers, stays open until it goes.

Of as many others that somebody asked for, the secrets are known.
"""


class SessionPlans:
    """Gives each session its plan: that of the agent, unless the session has its own workspace or policies.

    Args:
        checked: the agent's config.
        plan: the agent's own plan.
    """

    def __init__(self, checked: Checked, plan: Plan) -> None:
        self._checked = replace(checked, lender=plan.context)
        self._plan = plan
        self._family = family_of(checked, plan)
        self._secrets = WorkspaceSecrets(self._family)
        # How many blocks of `lent` a session is in; before its run has a task, and after it, its plan is in use too.
        self._lent: Counter[str] = Counter()
        # By the session alone: its workspace and its own policies are settled when it begins, and never change.
        self._made: dict[str, Plan] = {}
        self._secrets_of: dict[str, WorkspaceSecrets] = {}
        # Held over the planning too: two callers for one session must not make two plans, of which one would never be
        # closed.
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def lent(
        self, session: str, connections: Connections, policies: str | None = None
    ) -> AsyncIterator[Plan]:
        """The plan of a session, which stays open inside the block; its workspace need not exist yet.

        Args:
            policies: its own middlewares as YAML; None for those of the config.

        Raises:
            ConfigError: a file that the config needs is not valid any more, or the session's policies are not.
            UntrustedError: the session's policies would execute something that the user has not allowed.
        """
        self._lent[session] += 1
        try:
            yield await self._of(session, connections, policies)
        finally:
            self._lent[session] -= 1
            if not self._lent[session]:
                del self._lent[session]

    async def _of(self, session: str, connections: Connections, policies: str | None) -> Plan:
        if policies is None and not differs_by_session(self._plan):
            return self._plan
        async with self._lock:
            # Taken out and put back at the end, so that the dict is in the order of last use.
            plan = self._made.pop(session, None)
            if plan is None:
                plan = (await asyncio.to_thread(self._planned, session, policies))[1]
                connections.share(self._plan, plan)
            self._made[session] = plan
            closed = [self._made.pop(each) for each in self._idle(self._made, session)]
            self.look(session)
            for each in closed:
                await self._close(each, connections)
            return plan

    def _idle(self, kept: Iterable[str], session: str) -> Sequence[str]:
        """Those of the sessions, the longest unused first, that are too many: they do not run, nor is it this one."""
        idle = [each for each in kept if each != session and each not in self._lent]
        return idle[: max(0, len(idle) - KEPT)]

    def look(self, session: str = "", owner: Owner | None = None) -> None:
        """Mask what is new in the folders in which the agent and a session of it work; the session needs no plan.

        Args:
            session: an outermost one; empty for the agent's own folders alone.
            owner: the user of a service to whom it belongs, if that is not the agent's own user.
        """
        if session and (owner is not None or differs_by_session(self._plan)):
            # Not with the session's policies: they are read with another redactor than the one that masks.
            own = self._secrets_of.pop(session, None)
            self._secrets_of[session] = own or WorkspaceSecrets(at_session(self._family, session, owner))
        for each in self._looks(session):
            each.look()
        for gone in self._idle([each for each in self._secrets_of if each not in self._made], session):
            self._secrets_of.pop(gone).forget()

    def unread(self, session: str) -> Mapping[Path, str]:
        """The files of variables there whose secrets of now are perhaps not known, each with the reason."""
        return dict(chain.from_iterable(each.unread.items() for each in self._looks(session)))

    def _looks(self, session: str) -> Sequence[WorkspaceSecrets]:
        own = self._secrets_of.get(session)
        return [self._secrets] if own is None else [self._secrets, own]

    async def check(self, policies: str) -> None:
        """Check policies for a session.

        Raises:
            ConfigError: they are not valid.
            UsageError: they hold a secret or a variable, bring sub-agents, or change a middleware of the
                config that judges what the agent does.
            UntrustedError: they would execute something that the user has not allowed.
        """
        if "${" in policies:
            raise UsageError(
                "the policies of a session hold a variable, and they would be stored",
                remedy="Write plain values.",
            )
        _, plan = await asyncio.to_thread(self._planned, "", policies, are_new=True)
        await _close(plan)

    @asynccontextmanager
    async def shown(self, session: str, policies: str | None) -> AsyncIterator[tuple[Checked, Plan]]:
        """The config and the plan of a session, to be looked at: what the plan opened is closed at the end.

        Args:
            session: empty for none yet.
            policies: its own middlewares as YAML; None for those of the config.

        Raises:
            ConfigError, UntrustedError: as for ``lent``.
        """
        found = await asyncio.to_thread(self._planned, session, policies)
        try:
            yield found
        finally:
            await _close(found[1])

    def _planned(self, session: str, policies: str | None, *, are_new: bool = False) -> tuple[Checked, Plan]:
        """The config and the plan of a session.

        Args:
            session: empty for none yet.
            policies: its own middlewares as YAML; None for those of the config.
            are_new: they may hold no secret.
        """
        own = self._checked
        if policies is not None:
            own = own.with_middlewares(policies, all_parts(own), are_new=are_new)
            own.trust.require(all_parts(own))
        own = replace(own, session=session or own.session)
        plan = make_plan(own, mode=self._plan.mode)
        if [each.config.name for each in plans(plan)] != [each.config.name for each in plans(self._plan)]:
            # They would share no models with the agent's plan (`Connections.share`).
            raise UsageError(
                "the policies of a session bring other sub-agents than the config has",
                remedy="Write the sub-agents under `agents` in the config.",
            )
        if policies is not None and _judging(plan) != _judging(self._plan):
            # Else a fork would be a way around the approvals and hooks that its config asks for.
            raise UsageError(
                "the middlewares of a session must keep those of its config that judge calls or files, such as approve,"
                f" hooks and plugins' own, with the same options: {_named(self._plan)}",
                remedy="Copy their lines from the config, in the same order; change context policies only.",
            )
        return own, plan

    async def aclose(self, connections: Connections) -> None:
        """Close what the plans opened."""
        made, self._made, self._secrets_of = list(self._made.values()), {}, {}
        await all_tried(*(partial(self._close, each, connections) for each in made))

    async def _close(self, plan: Plan, connections: Connections) -> None:
        closing: list[Callable[[], Awaitable[object]]] = [partial(connections.unshare, plan)]
        closing += [each.aclose for each in sandboxes_of(plan)]
        for part in plans(plan):
            closing.append(part.context.closing.aclose)
            for service, lent in (
                (part.context.memory, self._plan.context.memory),
                (part.context.knowledge, self._plan.context.knowledge),
            ):
                if service is not None and service is not lent:
                    closing.append(service.aclose)
        await all_tried(*closing)


async def _close(plan: Plan) -> None:
    await all_tried(*(part.context.closing.aclose for part in plans(plan)))


async def make_roots(plan: Plan) -> None:
    """Make the workspace of a plan and of its sub-agents, if a session or a user has its own.

    Raises:
        MissingError: it cannot be made.
    """

    made = [
        each.context.workspace
        for each in plans(plan)
        if each.config.workspace.per is not None or each.context.workspace.quota is not None
    ]

    def make() -> None:
        for each in made:
            each.make_root()

    if not made:
        return
    try:
        await asyncio.to_thread(make)
    except WorkspaceConfigError as error:
        raise MissingError(error.message, remedy=error.remedy) from None


def _named(plan: Plan) -> str:
    return ", ".join(dict.fromkeys(name for one in _judging(plan) for name, _ in one)) or "none"


def _judging(plan: Plan) -> list[list[tuple[str, Any]]]:
    """The middlewares that judge what the agent does, with their options, of a plan and of each sub-agent's.

    One whose options have rules for files judges too, whatever its methods do.
    """
    return [
        [
            (each.name, _plain(each.value))
            for each in one.middlewares
            if _judges(each.loaded) or hasattr(each.value, "access_layer")
        ]
        for one in plans(plan)
    ]


def _plain(value: Any) -> Any:
    """Options as plain values: the classes of a plugin file are new ones whenever a config is read."""
    if hasattr(value, "model_dump"):
        return _plain(value.model_dump())
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, tuple | list) else value


def _judges(middleware: type[Middleware]) -> bool:
    """Whether a middleware judges: it says so, or wraps something and does not say that it judges nothing."""
    if middleware.judges is not None:
        return middleware.judges
    return any(overrides(middleware, each) for each in METHODS if each.startswith("wrap_"))
