"""An agent's runs: each gets its resources, begins on its session, and yields its events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from zeus_runtime.agent.background_memory import BackgroundMemory
from zeus_runtime.agent.running import Running
from zeus_runtime.agent.session_plans import SessionPlans, make_roots
from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.delegation.dispatcher import Dispatcher
from zeus_runtime.errors import UsageError
from zeus_runtime.escaping import printable, shell_line
from zeus_runtime.events import Event, Notice
from zeus_runtime.plan.edited_configs import EditedConfigs
from zeus_runtime.plan.parts_with_subagents import all_parts
from zeus_runtime.plan.redaction import masked_for
from zeus_runtime.plan.workspace_secrets import agents_of
from zeus_runtime.registry import Observers
from zeus_runtime.run.approvals import ApprovalBroker
from zeus_runtime.run.attachments import brought_along, pictures_left_out
from zeus_runtime.run.connections import ConnectionPool, Connections, plans
from zeus_runtime.run.emitter import Emitter
from zeus_runtime.run.stored_thread import mode_note
from zeus_runtime.run.turn import Compaction, Session, new_session_id
from zeus_runtime.sessions.deletion import forgetting
from zeus_runtime.sessions.lifecycle import SessionLifecycle
from zeus_runtime.sessions.retention import prune_daily
from zeus_runtime.store.forks import with_policies
from zeus_runtime.store.session_tree import agents_to, outermost_of
from zeus_runtime.tools.attachments import GivenFile, Reference
from zeus_runtime.tools.run_to_completion import all_tried, finished

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.secret_files import SecretFiles
    from zeus_runtime.memory.document_facts import DocumentPart
    from zeus_runtime.models.interface import Model
    from zeus_runtime.models.recorder import Tape
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.run.resources import RunResources
    from zeus_runtime.store.event_log import AtEnd, EventLog, StoredEvent
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Owner, Thread
    from zeus_runtime.tools.approval import ApprovalChannel
    from zeus_runtime.tools.client_tool import ClientTool


class Runner:
    """Runs one agent's plan on its sessions.

    Args:
        checked: the agent's config.
        plan: exactly what runs.
        model: replaces the plan's model.
        owner: the user of a service; None for the config's user, who may read every session, and writes only to those
            that no such user began.
        is_hosted: a service closes what edited texts of the config name.

    Attributes:
        user: whose allowlist counts.
        running: the current runs.
        redactor: the secrets of the agent and its sub-agents.
        tape: the cassette that finished model calls are appended to; None records nothing.
        stored: receives the stored events of each run after each commit, with the session; None stores the events only
            of sessions that have stored ones already.
    """

    def __init__(
        self,
        checked: Checked,
        plan: Plan,
        model: Model | None,
        owner: Owner | None = None,
        *,
        is_hosted: bool = False,
    ) -> None:
        self._checked = checked
        self._plan = plan
        self.user = plan.config.user if owner is None else owner.user
        self.redactor = checked.secrets
        self._owner = owner
        self._pool = ConnectionPool(plan, model, self.redactor, self._recorded, owner)
        self.running = Running()
        self._memory = BackgroundMemory(
            plan,
            self._pool,
            lambda session: self._emitter(lambda _event: None, session),
            self.running.__contains__,
        )
        self._plans = SessionPlans(checked, plan)
        # The look is this agent's own: another one, which shares the config, masks by another redactor.
        self._files = {each: each.copy() for each in _secret_files(checked, plan)}
        below = [each.checked for each in agents_of(plan)]
        self._edited = None if is_hosted else EditedConfigs(checked, below, self._files)
        self._is_trusted = False
        self.tape: Tape | None = None
        self.stored: Callable[[str, Sequence[StoredEvent]], None] | None = None

    @property
    def secrets(self) -> Redactor:
        """The secrets that are masked in everything that the agent's model is sent and its log keeps."""
        return masked_for(self._plan, self.redactor)

    async def events(
        self,
        prompt: str | None,
        session: str | None,
        approvals: ApprovalChannel | None,
        attachments: Sequence[str | Path | GivenFile] = (),
        run_id: str | None = None,
        tools: Sequence[ClientTool] = (),
        at_end: AtEnd | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Do one run and yield its events.

        Args:
            prompt: the user's prompt; None resumes the session's interrupted run.
            session: an existing session; None begins a new one.
            approvals: asks the user for approvals.
            attachments: files that go with the prompt.
            run_id: the run's id; a new one by default.
            tools: further tools, which the caller runs itself.
            at_end: changes something together with the stored terminal event.

        Raises:
            UsageError: the session does not exist, is running or is a sub-agent's, the prompt is empty or not valid
                text, or one of ``tools`` is not possible.
            UntrustedError: the config would execute something that the user has not allowed.
        """
        if prompt is not None:
            _refuse_bad_text(prompt, is_all=not attachments)
        self._require_trust()
        connections = await self.connections()
        if self._edited is not None:
            await self._edited.close()
        name = session or new_session_id()
        thread, policies = None, None
        if session is not None:
            thread, policies = await with_policies(connections.log, session, inner=False)
            await self.require_own(session)
        async with self._plans.lent(name, connections, policies) as plan:
            # Before the session is made: a prompt whose files cannot be read leaves no empty session behind.
            references = await brought_along(plan, prompt, attachments, self.secrets)
            events: asyncio.Queue[Event | None] = asyncio.Queue()
            outlet = _Outlet(events.put_nowait)
            emit = self._emitter(outlet, name)
            resources = await self._resources(connections, plan, name, emit, approvals)
            if tools:
                resources = _with(plan, resources, tools)
            if thread is None:
                thread = await connections.log.open(
                    name, agent=self._plan.config.name, title=self.secrets.text(prompt or "")
                )
            self.running.refuse(name)
            await make_roots(plan)
            # A folder that had an earlier name has its files only now.
            self._plans.look(name)
            # The claim is held until `ended` of the run: from here on no other process may write to the session.
            give_back = await connections.database.claim(name)
            try:
                outlet.keeper = await self._keeper(
                    connections, thread, events.put_nowait, at_end, is_new=session is None
                )
            except BaseException:
                give_back()
                raise
            for notice in (*self._unread(name), *_notices(plan, references)):
                emit(notice)

            async def work() -> None:
                try:
                    with _untraced(), connections.toolsets_of(plan).telling(emit):
                        await self._memory.begin(name)
                        started = self._session(connections, thread)
                        await started.run(
                            prompt,
                            self._plan.mode,
                            resources,
                            emit,
                            references=references,
                            noted=mode_note(self._plan.mode, self._checked.config.mode),
                            run_id=run_id,
                        )
                finally:
                    # In the run's task: the last events are stored while the session is still claimed.
                    await outlet.aclose()

            def ended() -> None:
                # The claim is given back, so what a run emits that was cancelled before its first step is not stored.
                outlet.keeper = None
                # Before the claim is given back: the next run brings another writer.
                connections.log.events.pop(name, None)
                give_back()
                self._memory.ended(name)

            # From the keeper to the first event nothing is awaited, so the run's task always exists to give the claim
            # back.
            running = self.running.events(name, work, events, emit=emit, ended=ended)
            async with aclosing(running):
                async for event in running:
                    yield event

    def suspend(self, session: str) -> bool:
        """Interrupt the run on ``session``; its stored events get no end. False if there is none."""
        if self._pool.is_open and (keeper := self._pool.log.events.get(session)) is not None:
            keeper.suspend()
        return self.running.cancel(session)

    async def compact(self, session: str) -> Compaction:
        """Let every context policy remove what it can now.

        Raises:
            UsageError: the session does not exist, it has no messages, or it is running.
            UntrustedError: the config would execute something that the user has not allowed.
        """
        self._require_trust()
        connections = await self.connections()
        thread, policies = await with_policies(connections.log, session)
        await self.require_own(session)
        self.running.refuse(session)
        emit = self._emitter(lambda _event: None, session)
        async with self._plans.lent(session, connections, policies) as plan:
            await make_roots(plan)
            self._plans.look(session)
            resources = await self._resources(connections, plan, session, emit, None)
            give_back = await connections.database.claim(session)
            try:
                with _untraced():
                    return await self._session(connections, thread).compact(self._plan.mode, resources, emit)
            finally:
                give_back()

    async def consolidate_memories(self) -> str | None:
        """Merge, date and retire memories; ``Agent.consolidate_memories`` has the details.

        Raises:
            UsageError: the config has no memory.
            UntrustedError: the config would execute something that the user has not allowed.
        """
        self._require_memory()
        with _untraced():
            return await self._memory.consolidate()

    async def extract_from_documents(
        self, parts: Sequence[DocumentPart], progress: Callable[[int, int], None]
    ) -> list[str]:
        """Extract facts from documents; ``Agent.extract_from_documents`` has the details.

        Raises:
            UsageError: the config has no memory.
            UntrustedError: the config would execute something that the user has not allowed.
        """
        self._require_memory()
        with _untraced():
            return await self._memory.documents(parts, progress)

    def _require_memory(self) -> None:
        if self._plan.context.memory is None:
            raise UsageError("the config has no memory", remedy="Add `memory: {user: NAME}`.")
        self._require_trust()

    async def _keeper(
        self,
        connections: Connections,
        thread: Thread,
        deliver: Callable[[Event], None],
        at_end: AtEnd | None,
        *,
        is_new: bool,
    ) -> EventLog | None:
        """The writer of the events of a claimed session; None if they are not stored."""
        from zeus_runtime.store.event_log import EventLog, has_events

        # A session that has stored events continues to store them, so that its readers miss none.
        if self.stored is None and (is_new or not await has_events(connections.database, thread)):
            return None
        stored = self.stored or (lambda *_: None)
        keeper = EventLog(connections.database, thread, deliver, stored, at_end)
        # Reads in the claim's first transaction, which raises the epoch: no other process adds events afterwards.
        await keeper.begin()
        connections.log.events[thread.session] = keeper
        return keeper

    async def require_own(self, session: str) -> None:
        """Check that a session, which exists, is not one of a service's user where this agent works for none.

        Raises:
            UsageError: it is; the agent has neither the workspace nor the memories and the allowlist of that user.
        """
        log = (await self.connections(session)).log
        if self._owner is None and (owner := await log.owner_of(session)) is not None:
            asking = shell_line("zeus", "--remote", "URL", "run", "--session", session, "PROMPT")
            raise UsageError(
                f"{session} is a session of {owner.user}, a user of `zeus serve`: only the service works for its users",
                remedy=f"Ask the service: `{asking}` continues it,"
                " `zeus --remote URL approvals` decides what waits.",
            )

    async def lifecycle(self, session: str = "") -> SessionLifecycle:
        """Archives, deletes and rolls back the sessions of the agent's database.

        Args:
            session: as for ``connections``.
        """
        return self._lifecycle_of(await self.connections(session))

    async def connections(self, session: str = "") -> Connections:
        """The agent's open connections.

        Args:
            session: what its folders hold is masked too, before anything is stored or shown; any name.
        """
        self.look()
        opened = await self._pool.open()
        if session:
            await self.look_at(opened.log, session)
        return opened

    @property
    def has_folders_of_sessions(self) -> bool:
        """Whether a session may have other folders than the agent: its own, or those of another user."""
        whose = {each.config.workspace.per for each in plans(self._plan)}
        return "session" in whose or (self._owner is None and "user" in whose)

    async def look_at(self, log: ThreadLog, session: str) -> None:
        """Mask what changed in the folders of a session, or of that for which it works; of none where there is none."""
        if self.has_folders_of_sessions and (found := await outermost_of(log, session)) is not None:
            # An agent of no user shows the sessions of all users.
            self._plans.look(found, await log.owner_of(found) if self._owner is None else None)

    def look(self) -> None:
        """Mask what changed in the files whose text makes secrets, before anything is stored or shown."""
        for each in self._files.values():
            self.redactor.learn_all(Redactor().adding(each.changed()))
        self._plans.look()

    def _unread(self, session: str) -> Iterator[Notice]:
        unread = dict(chain.from_iterable(each.unread.items() for each in self._files.values()))
        for file, why in {**unread, **self._plans.unread(session)}.items():
            yield Notice(
                "dotenv_unread",
                f"{printable(str(file))}: {why}. Make it a text in UTF-8 with one NAME=value in a line."
                " `zeus validate` says what is wrong with the `.env` of the config.",
            )

    @asynccontextmanager
    async def lent_plan(self, session: str) -> AsyncIterator[Plan]:
        """The plan of a session's agent, open inside the block: with a workspace of its own, if sessions have one.

        Raises:
            UsageError: the session does not exist, is archived, is a user's (``require_own``), or is one of a sub-agent
                that the config does not have any more.
        """
        connections = await self.connections(session)
        names, outermost = await agents_to(connections.log, session)
        await self.require_own(session)
        async with self._plans.lent(outermost, connections, await self.policies_of(outermost)) as plan:
            for name in names:
                if name not in plan.agents:
                    raise UsageError(
                        f"the config has no agent {name!r} there, which worked in {session}",
                        remedy="Write it under `agents` again to see its files.",
                    )
                plan = plan.agents[name].plan
            yield plan

    async def policies_of(self, session: str) -> str | None:
        """A session's own middlewares as YAML; None for those of the config.

        Raises:
            UsageError: the session does not exist, or it is archived.
        """
        return (await with_policies((await self.connections(session)).log, session))[1]

    @asynccontextmanager
    async def shown_plan(self, session: str) -> AsyncIterator[tuple[Checked, Plan]]:
        """The config and the plan of a session, to be looked at; ``SessionPlans.shown`` has the details.

        Raises:
            UsageError: the session does not exist, is archived, or is a sub-agent's.
        """
        log = (await self.connections(session)).log
        info = await log.info(await log.find(session))
        if info.parent:
            raise UsageError(
                f"{session} is a session of the sub-agent {info.agent}",
                remedy=f"Its plan is part of that of {info.parent}, under `agents`.",
            )
        async with self._plans.shown(session, await self.policies_of(session)) as found:
            yield found

    async def check_policies(self, policies: str) -> None:
        """Check policies for a session; ``SessionPlans.check`` has the errors."""
        await self._plans.check(policies)

    async def aclose(self) -> None:
        """Cancel all runs and close all connections."""
        # The runs first: they use all that is closed after them.
        await all_tried(self.running.aclose, self._memory.aclose, self._close_plans, self._pool.aclose)

    async def _close_plans(self) -> None:
        if self._pool.is_open:
            await self._plans.aclose(await self._pool.open())

    def _require_trust(self) -> None:
        """Raise unless everything that the agent and its sub-agents execute is allowed; checked once, before a run."""
        if self._is_trusted:
            return
        self._checked.trust.require(all_parts(self._checked))
        self._is_trusted = True

    def _session(self, connections: Connections, thread: Thread) -> Session:
        config = self._plan.config

        async def maintenance() -> None:
            from zeus_runtime.store.thread_log import ThreadLog

            # A retention is about the sessions of all users of the agent.
            everyones = ThreadLog(connections.database.for_everyone(), now_ms=connections.log.now_ms)
            lifecycle = replace(self._lifecycle_of(connections), log=everyones)
            await prune_daily(lifecycle, config.retention, agent=config.name, spare=thread.session)

        return Session(thread, connections, maintenance=maintenance)

    async def _resources(
        self,
        connections: Connections,
        plan: Plan,
        session: str,
        emit: Callable[[Event], None],
        channel: ApprovalChannel | None,
    ) -> RunResources:
        redactor = self.redactor
        broker = ApprovalBroker(
            connections.log,
            user=self.user,
            workspace=plan.context.workspace.folders_identity(),
            known=redactor,
            secrets=self.secrets,
            emit=emit,
            channel=channel,
        )
        return await Dispatcher(connections, plan, session, broker).resources()

    def _lifecycle_of(self, connections: Connections) -> SessionLifecycle:
        context = self._plan.context
        return SessionLifecycle(
            connections.log,
            connections.saver,
            self.running.__contains__,
            context.workspace,
            forgetting(self._plan),
            context.memory,
        )

    def _recorded(self, model: Model) -> Model:
        if self.tape is None:
            return model
        from zeus_runtime.models.recorder import Recorder

        return Recorder(model, self.tape)

    def _emitter(self, put: Callable[[Event], None], session: str) -> Emitter:
        return Emitter(put, self.redactor, session, observers=Observers(self._checked.registry.observers))


class _Outlet:
    """Where a run's events go: to their reader, through the log of the session's events if they are stored.

    Attributes:
        keeper: that log; None if they are not stored.
    """

    def __init__(self, deliver: Callable[[Event], None]) -> None:
        self.keeper: EventLog | None = None
        self._deliver = deliver

    def __call__(self, event: Event) -> None:
        (self._deliver if self.keeper is None else self.keeper.put)(event)

    async def aclose(self) -> None:
        """Store what waits, also if the run is cancelled meanwhile."""
        if self.keeper is not None:
            await finished(self.keeper.aclose())


def _secret_files(checked: Checked, plan: Plan) -> Iterable[SecretFiles]:
    """The files that make secrets: the agent's, its sub-agents', and those of the agents of the same service."""
    below = (each.checked for each in agents_of(plan))
    return dict.fromkeys(each.secret_files for each in (checked, *below, *checked.beside))


@contextmanager
def _untraced() -> Iterator[None]:
    """Keep LangSmith from tracing the run because of an environment variable, since no config asks for it.

    Raises:
        UsageError: a variable is set with which LangChain no longer works.
    """
    from langchain_core.utils.env import env_var_is_set
    from langsmith import tracing_context

    for name in ("LANGCHAIN_TRACING", "LANGCHAIN_HANDLER"):
        if env_var_is_set(name):
            raise UsageError(
                f"{name} is set, with which LangChain does not work any more", remedy=f"Unset {name}."
            )
    with tracing_context(enabled=False):
        yield


def _with(plan: Plan, resources: RunResources, tools: Sequence[ClientTool]) -> RunResources:
    """The resources of a run with further tools, also in the part of the prompt that lists the tools."""
    from zeus_runtime.tools.client_tool import tools_of_client

    toolbox = resources.toolbox
    toolbox.add(tools_of_client(tools, list(toolbox.by_name)))
    return replace(resources, stable=plan.stable_with(toolbox.tools))


def _notices(plan: Plan, references: Sequence[Reference]) -> Iterator[Notice]:
    """What the user should know before a run: the plan's notices, and problems with the prompt's files."""
    yield from plan.notices
    for each in references:
        if each.problem:
            yield Notice("reference", f"@{each.path}: {each.problem}")
    for picture, why in pictures_left_out(references, plan.picture_profile):
        yield Notice("picture_not_shown", f"{picture.label} is not shown to the model: {why}.")


def _refuse_bad_text(prompt: str, *, is_all: bool) -> None:
    if is_all and not prompt.strip():
        # Providers refuse an empty message, and it would be part of every later request.
        raise UsageError("the prompt is empty", remedy="Say what is to be done.")
    try:
        prompt.encode()
    except UnicodeEncodeError:
        raise UsageError(
            "the prompt is not UTF-8 text: it holds a lone surrogate",
            remedy="Decode what it was read from as UTF-8.",
        ) from None
