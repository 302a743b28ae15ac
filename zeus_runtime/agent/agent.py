"""The Agent: a config that runs. This is the Python API."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, contextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from zeus_runtime.agent.result import RunResult, result_of
from zeus_runtime.agent.runner import Runner
from zeus_runtime.config.secrets.masking import secrets_of_environment
from zeus_runtime.errors import masking_errors
from zeus_runtime.events import Event
from zeus_runtime.plan.plan import Plan, make_plan
from zeus_runtime.plan.validated import check
from zeus_runtime.run.approvals import masked_decision, masked_pending
from zeus_runtime.run.assembly import run_resources
from zeus_runtime.run.connections import Connections
from zeus_runtime.run.stored_thread import history_of, mode_of
from zeus_runtime.run.turn import Compaction, new_session_id
from zeus_runtime.sessions.retention import Pruned, Pruner
from zeus_runtime.trust.decision import recorded_trust

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from zeus_runtime.config.model import Mode, Retention
    from zeus_runtime.models.interface import Model
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.store.listing import SessionInfo
    from zeus_runtime.store.masked_log import MaskedLog
    from zeus_runtime.tools import Connection, Tool, Toolset
    from zeus_runtime.tools.approval import ApprovalChannel, Decision, PendingApproval


P = ParamSpec("P")
T = TypeVar("T")


def _masking(
    method: Callable[Concatenate[Agent, P], Awaitable[T]],
) -> Callable[Concatenate[Agent, P], Coroutine[Any, Any, T]]:
    """A method whose errors are masked: its arguments may hold a secret, and errors say what was asked for."""

    @wraps(method)
    async def masked(self: Agent, /, *args: P.args, **named: P.kwargs) -> T:
        with self._masked_errors():
            return await method(self, *args, **named)

    return masked


class Agent:
    """An agent as its YAML says. Use it as an async context manager, or call ``aclose`` when done.

    Several sessions may run at the same time; one session runs one thing at a time.
    """

    def __init__(self, checked: Checked, plan: Plan, *, model: Model | None = None) -> None:
        self._checked = checked
        self._plan = plan
        self._runner = Runner(checked, plan, model)

    @classmethod
    def from_config(
        cls,
        config: str | Path | None = None,
        *,
        env: str | None = None,
        sets: Sequence[str] = (),
        directory: str | Path | None = None,
        environ: Mapping[str, str] | None = None,
        mode: Mode | None = None,
        model: Model | None = None,
        trust: str | None = None,
    ) -> Self:
        """Read and check a config; nothing is opened yet.

        Args:
            config: a YAML file, a preset's name, or None for ``zeus.yaml`` in the directory.
            env: overlay name: ``prod`` for ``zeus.prod.yaml`` beside ``zeus.yaml``.
            sets: overrides such as ``limits.max_steps=5``.
            directory: the working directory; the process's own by default.
            environ: the environment variables; the process's own by default.
            mode: instead of the config's.
            model: instead of the config's; for tests.
            trust: what the config may execute besides what this process's user has allowed, as ``ZEUS_TRUST`` writes
                it; ``all`` where the program itself vouches for the config (docs/explanation/trust.md).

        Raises:
            ConfigError: with every problem and its position.
            MissingError: a plugin, dependency or file is not there.
            UntrustedError: a plugin file or an option would be executed, and nobody allowed it. What only a run
                executes (MCP servers) is refused when the run begins.
        """
        environ = os.environ if environ is None else environ
        with masking_errors(secrets_of_environment(environ)):
            checked = check(
                config,
                env=env,
                sets=sets,
                directory=Path(directory) if directory is not None else Path.cwd(),
                environ=environ,
                trust=recorded_trust(os.environ, trust),
            )
        with masking_errors(checked.secrets):
            return cls(checked, make_plan(checked, mode=mode), model=model)

    @property
    def plan(self) -> Plan:
        """Exactly what runs."""
        return self._plan

    @_masking
    async def run(
        self,
        prompt: str,
        *,
        session: str | None = None,
        approvals: ApprovalChannel | None = None,
        attachments: Sequence[str | Path] = (),
    ) -> RunResult:
        """One run from prompt to answer.

        Args:
            prompt: what the user says.
            session: an existing session to go on with; a new one by default.
            approvals: who is asked what needs approval, as in ``stream``.
            attachments: files that go with the prompt, relative to the working directory.

        Raises:
            FailedRunError: the run failed, reached a limit, needs approval or was cancelled.
            UsageError: there is no such session, or it is running.
        """
        ending: Event | None = None
        given = self.stream(prompt, session=session, approvals=approvals, attachments=attachments)
        async for event in given:
            ending = event
        return result_of(ending)

    def stream(
        self,
        prompt: str,
        *,
        session: str | None = None,
        approvals: ApprovalChannel | None = None,
        attachments: Sequence[str | Path] = (),
    ) -> AsyncGenerator[Event, None]:
        """One run as its events; exactly one is terminal (``RunCompleted`` or ``RunFailed``) and it is the last.

        Closing the iterator early cancels the run; the session can go on.

        Args:
            prompt, session, attachments: as in ``run``.
            approvals: who is asked what needs approval. Without anybody, or where that gives no answer, the run ends
                with the code ``approval_needed``; ``decide`` and ``resume`` go on.
        """
        return self._masked(self._runner.events(prompt, session, approvals, attachments))

    def resume(
        self, session: str, *, approvals: ApprovalChannel | None = None
    ) -> AsyncGenerator[Event, None]:
        """Take up the session's run that was cut off: no finished tool call repeats, no paid answer is asked again.

        Args:
            approvals: who is asked what still needs approval.

        Raises:
            UsageError: there is no such session. (That nothing is left to take up comes as a ``RunFailed``.)
        """
        return self._masked(self._runner.events(None, session, approvals))

    @_masking
    async def pending_approvals(self, session: str | None = None) -> Sequence[PendingApproval]:
        """What nobody has decided yet, the oldest first: of a session and its sub-agents, or of the whole database."""
        from zeus_runtime.store.approvals import open_approvals

        known = self._runner.redactor.masked
        return [
            masked_pending(each, known) for each in await open_approvals((await self._open()).log, session)
        ]

    @_masking
    async def decide(self, session: str, decisions: Mapping[str, Decision]) -> None:
        """Decide what a session waits for, all of it or none; ``resume`` then goes on.

        Args:
            decisions: ``PendingApproval.id`` to what is decided; what is not named stays open.

        Raises:
            UsageError: there is no such session or question, it is decided already or out of time, or changed
                arguments do not fit.
        """
        from zeus_runtime.store.approvals import allow, decide

        log = (await self._open()).log
        await log.find(session)
        given = {name: masked_decision(each, self._runner.secrets) for name, each in decisions.items()}
        for pending in await decide(log, session, given):
            if pending.decision is not None and pending.decision.always and pending.may_remember:
                await allow(log, self._plan.config.user, pending.tool)

    def cancel(self, session: str) -> bool:
        """Stop what runs on ``session``; its stream ends with a ``RunFailed`` of code ``cancelled``.

        Returns:
            whether something ran.
        """
        return self._runner.running.cancel(session)

    @contextmanager
    def record(self, path: str | Path) -> Iterator[None]:
        """While inside, every finished model call is appended to the cassette ``path``, secrets removed.

        Replay it with ``model: {replay: {cassette: PATH}}``.
        """
        former, self._runner.cassette = self._runner.cassette, self._plan.build.directory / path
        try:
            yield
        finally:
            self._runner.cassette = former

    @_masking
    async def sessions(self, *, limit: int | None = None, every_agent: bool = True) -> Sequence[SessionInfo]:
        """The sessions of this agent's database, last used first.

        Args:
            limit: at most so many.
            every_agent: those of all agents that use the database, not of this one alone.
        """
        agent = None if every_agent else self._plan.config.name
        return await (await self._masked_log()).sessions(agent=agent, limit=limit)

    async def _masked_log(self) -> MaskedLog:
        from zeus_runtime.store.masked_log import MaskedLog

        return MaskedLog((await self._open()).database, self._runner.secrets)

    @_masking
    async def latest_session(self) -> str | None:
        """The session that this agent used last; None if it has none."""
        connections = await self._open()
        found = await connections.log.sessions(agent=self._plan.config.name, limit=1)
        return found[0].session if found else None

    @_masking
    async def outermost(self, session: str) -> str:
        """The session that ``session`` works for in the end, which ``resume`` takes up; itself where it works for none.

        Raises:
            UsageError: there is no such session.
        """
        from zeus_runtime.store.session_tree import parent_of

        log = (await self._open()).log
        while (parent := await parent_of(log, await log.find(session))) is not None:
            session = parent
        return session

    @_masking
    async def history(self, session: str, *, whole: bool = False) -> Sequence[BaseMessage]:
        """Every message of a session's conversation, untouched by any context policy.

        Args:
            whole: those that a rollback set aside too.

        Raises:
            UsageError: there is no such session, or it is archived.
        """
        log = await self._masked_log()
        return await history_of(log, await log.find(session), whole=whole)

    @_masking
    async def chosen_mode(self, session: str) -> Mode | None:
        """The mode of a session's last run, which ``resume`` needs an agent in; None where that was agent mode, as the
        config says.

        Raises:
            UsageError: there is no such session, or it is archived.
        """
        return mode_of(await self.history(session))

    @_masking
    async def compact(self, session: str) -> Compaction:
        """Let every context policy shed what it can now, as if the next request did not fit.

        Raises:
            UsageError: there is no such session, it has no messages, or it is running.
        """
        return await self._runner.compact(session)

    @_masking
    async def rollback(self, session: str, *, to: int, before: bool = False) -> int:
        """Go back to an earlier message of the user's; what came after it is set aside, and stays in the database.

        ``resume`` answers the message again; ``run`` and ``stream`` go on after it.

        Args:
            to: the message's number, as ``zeus sessions show`` prints it.
            before: set the message itself aside too, to word it anew.

        Returns:
            how many messages were set aside.

        Raises:
            UsageError: there is no such session or message, or nothing after it, or the session is running.
        """
        return await (await self._runner.lifecycle()).roll_back(session, to, before=before)

    @_masking
    async def archive(self, session: str) -> bool:
        """Pack a session's messages, edits and ledger away; its checkpoints go. False if it was archived already.

        Raises:
            UsageError: there is no such session, or it is running.
        """
        lifecycle = await self._runner.lifecycle()
        done = await lifecycle.archive(session)
        await lifecycle.log.database.compact()
        return done

    @_masking
    async def restore(self, session: str) -> bool:
        """Bring an archived session back as it was; False if it was not archived.

        Raises:
            UsageError: there is no such session, or it is running.
            RunError: its archive is damaged.
        """
        lifecycle = await self._runner.lifecycle()
        done = await lifecycle.restore(session)
        await lifecycle.log.database.compact()
        return done

    @_masking
    async def prune(
        self, retention: Retention | None = None, *, every_agent: bool = False, dry_run: bool = False
    ) -> Pruned:
        """Archive or delete the sessions that are beyond a retention; none that runs.

        Args:
            retention: the config's by default.
            every_agent: of every agent that uses the database, not of this one alone.
            dry_run: only say which.
        """
        config = self._plan.config
        agent = None if every_agent else config.name
        lifecycle = await self._runner.lifecycle()
        return await Pruner(lifecycle, retention or config.retention, agent, dry_run).run()

    @_masking
    async def delete_session(self, session: str) -> None:
        """Remove a session with all its messages and checkpoints, archived or not.

        Raises:
            UsageError: there is no such session, or it is running.
        """
        lifecycle = await self._runner.lifecycle()
        await lifecycle.delete(session)
        await lifecycle.log.database.compact()

    async def aclose(self) -> None:
        """Cancel what runs and close the stores."""
        await self._runner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()

    @_masking
    async def connections(self) -> Sequence[Connection]:
        """What the agent's toolsets are connected to, and what not; they are opened if they are not yet."""
        known = self._runner.redactor
        found = [each for toolset in (await self.toolsets()).values() for each in toolset.status()]
        return [replace(each, why=known(each.why)) for each in found]

    @_masking
    async def toolsets(self) -> Mapping[str, Toolset]:
        """The agent's toolsets by component name; they are opened if they are not yet."""
        return await (await self._open()).toolsets_of(self._plan).opened()

    @_masking
    async def tools(self) -> Sequence[Tool]:
        """Every tool the agent has now, the toolsets' too, in the order the model sees them."""
        connections = await self._open()
        opened = await connections.toolsets_of(self._plan).opened()
        model = connections.model_of(self._plan)
        return run_resources(self._plan, model, new_session_id(), opened=opened).toolbox.tools

    async def _masked(self, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        with self._masked_errors():
            async with aclosing(events) as source:
                async for event in source:
                    yield event

    def _masked_errors(self) -> AbstractContextManager[None]:
        return masking_errors(self._runner.redactor)

    async def _open(self) -> Connections:
        return await self._runner.connections()
