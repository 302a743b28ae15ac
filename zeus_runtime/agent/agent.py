"""The Agent: a config that runs. This is the Python API."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from zeus_runtime.agent.result import RunResult, result_of
from zeus_runtime.agent.runner import Runner
from zeus_runtime.config.secrets.masking import secrets_of_environment
from zeus_runtime.errors import ErrorsMasked, UsageError, masking_errors
from zeus_runtime.events import Event
from zeus_runtime.plan.plan import Plan, make_plan
from zeus_runtime.plan.validated import check
from zeus_runtime.process_path import given_environ
from zeus_runtime.run.approvals import masked_decision, masked_pending
from zeus_runtime.run.assembly import run_resources
from zeus_runtime.run.connections import Connections
from zeus_runtime.run.stored_thread import history_of, mode_of
from zeus_runtime.run.turn import Compaction, new_session_id
from zeus_runtime.sessions.retention import Pruned, Pruner
from zeus_runtime.strict_json import plain_json
from zeus_runtime.tools.run_to_completion import all_tried
from zeus_runtime.trust.decision import recorded_trust

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from zeus_runtime.agent.artifacts import Artifact
    from zeus_runtime.agent.message_files import MessageFile
    from zeus_runtime.config.model import Mode, Retention
    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.context.inspection import Trace
    from zeus_runtime.context.replay.recordings import Recording
    from zeus_runtime.knowledge.service import KnowledgeService
    from zeus_runtime.memory.document_facts import DocumentPart
    from zeus_runtime.memory.service import MemoryService
    from zeus_runtime.models.interface import Model
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.sessions.message_search import FoundMessage
    from zeus_runtime.sessions.stored import StoredSession
    from zeus_runtime.store.event_log import AtEnd, StoredEvent
    from zeus_runtime.store.listing import SessionInfo, SessionPlace
    from zeus_runtime.store.masked_log import MaskedLog
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Owner
    from zeus_runtime.tools import Connection, Tool, Toolset
    from zeus_runtime.tools.approval import ApprovalChannel, Decision, PendingApproval
    from zeus_runtime.tools.attachments import GivenFile
    from zeus_runtime.tools.client_tool import ClientTool


class Agent(ErrorsMasked):
    """An agent, made from its YAML. Use it as an async context manager, or call ``aclose`` when done.

    Several sessions may run at the same time; each session has at most one run at a time.
    """

    def __init__(
        self,
        checked: Checked,
        plan: Plan,
        *,
        model: Model | None = None,
        owner: Owner | None = None,
        is_hosted: bool = False,
    ) -> None:
        self._checked = checked
        self._plan = plan
        self._owner = owner
        self._bases: KnowledgeService | None = None
        self._runner = Runner(checked, plan, model, owner, is_hosted=is_hosted)

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
            env: the overlay's name: ``prod`` for ``zeus.prod.yaml`` beside ``zeus.yaml``.
            sets: overrides such as ``limits.max_steps=5``.
            directory: the working directory; the process's by default.
            environ: the environment variables; the process's by default.
            mode: replaces the config's mode.
            model: replaces the config's model; for tests.
            trust: what the config may execute besides what this process's user has allowed, in the format of
                ``ZEUS_TRUST``; ``all`` where the program itself vouches for the config (docs/explanation/trust.md).

        Raises:
            ConfigError: the config is not valid; it lists every problem with its position.
            MissingError: a plugin, dependency or file is missing.
            UntrustedError: a plugin file or an option would be executed, and the user has not allowed it. Parts that
                only a run executes (MCP servers) are refused when the run begins.
        """
        environ = given_environ() if environ is None else environ
        with masking_errors(secrets_of_environment(environ)):
            checked = check(
                config,
                env=env,
                sets=sets,
                # Of this moment: a program may change its own working directory later.
                directory=Path.cwd() / (directory or ""),
                environ=environ,
                # The process's own environment: `environ` may have values of a project, which must not vouch for
                # itself.
                trust=recorded_trust(os.environ, trust),
            )
        with masking_errors(checked.secrets):
            return cls(checked, make_plan(checked, mode=mode), model=model)

    @property
    def plan(self) -> Plan:
        """Exactly what runs."""
        return self._plan

    async def run(
        self,
        prompt: str,
        *,
        session: str | None = None,
        approvals: ApprovalChannel | None = None,
        attachments: Sequence[str | Path | GivenFile] = (),
    ) -> RunResult:
        """Do one run and return its answer.

        Args:
            prompt: the user's prompt.
            session: an existing session to continue; a new one by default.
            approvals: asks for approvals, as in ``stream``.
            attachments: files that go with the prompt: paths relative to the working directory, or their bytes.

        Raises:
            FailedRunError: the run failed, reached a limit, needs approval or was cancelled.
            UsageError: the session does not exist, or it is running.
        """
        ending: Event | None = None
        given = self.stream(prompt, session=session, approvals=approvals, attachments=attachments)
        async for event in given:
            ending = event
        return result_of(ending, self._plan.output)

    def stream(
        self,
        prompt: str,
        *,
        session: str | None = None,
        approvals: ApprovalChannel | None = None,
        attachments: Sequence[str | Path | GivenFile] = (),
        run_id: str | None = None,
        tools: Sequence[ClientTool] = (),
        at_end: AtEnd | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Do one run and yield its events; exactly one, the last, is terminal (``RunCompleted`` or ``RunFailed``).

        Closing the iterator early cancels the run; the session can be continued later.

        Args:
            prompt, session, attachments: as in ``run``.
            approvals: asks the user for approvals. Without it, or if it gives no answer, the run ends with the code
                ``approval_needed``; ``decide`` and ``resume`` continue the run.
            run_id: the run's id, hex digits that no other run of the session has; a new one by default.
            tools: further tools of this run, which the caller runs itself. Their calls wait as questions do: the
                decision that approves one has the arguments ``result`` and ``is_error``.
            at_end: changes something in the transaction of the terminal event, if the run's events are stored.
        """
        return self._masked(
            self._runner.events(prompt, session, approvals, attachments, run_id, tools, at_end)
        )

    def resume(
        self,
        session: str,
        *,
        approvals: ApprovalChannel | None = None,
        run_id: str | None = None,
        tools: Sequence[ClientTool] = (),
        at_end: AtEnd | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Resume the session's interrupted run: finished tool calls and paid answers are not repeated.

        Args:
            approvals: asks for approvals that are still open.
            run_id: the id of the run after a rollback or a fork, which is a new one; hex digits that no other run of
                the session has. An interrupted run keeps its own.
            tools: those that the run was begun with.
            at_end: as in ``stream``.

        Raises:
            UsageError: the session does not exist. (If there is nothing to resume, the stream ends with a
                ``RunFailed``.)
        """
        return self._masked(
            self._runner.events(None, session, approvals, run_id=run_id, tools=tools, at_end=at_end)
        )

    async def pending_approvals(self, session: str | None = None) -> Sequence[PendingApproval]:
        """The undecided approval requests, oldest first: of a session and its sub-agents, or of the whole database."""
        from zeus_runtime.agent.approval_preview import at_present
        from zeus_runtime.store.approvals import open_approvals

        known, log = self._runner.redactor.masked, (await self._open(session or "")).log
        found = await at_present(self._checked, log, await open_approvals(log, session))
        shown = []
        for each in found:
            # One by one: of many sessions, not all are known at once.
            await self.look_at(each.session)
            shown.append(masked_pending(each, known))
        return shown

    async def asking_session(self, approval: str) -> str | None:
        """The session of a request, which may be decided or withdrawn; None if there is none."""
        from zeus_runtime.store.approvals import asking_session

        return await asking_session((await self._open()).log, approval)

    async def previewed(self, approval: str) -> PendingApproval:
        """A waiting call with the change that it would make now, if its tool can tell; a decision is bound to that.

        Raises:
            NotFoundError: no call with that id waits for a decision; of one that was decided or withdrawn, the error
                says so.
        """
        from zeus_runtime.agent.approval_preview import previewed
        from zeus_runtime.store.approvals import waiting_approval

        log = (await self._open()).log
        found = await waiting_approval(log, approval)
        shown = await previewed(self._checked, log, found)
        await self.look_at(found.session)
        return masked_pending(shown, self._runner.redactor.masked)

    async def decide(
        self,
        session: str,
        decisions: Mapping[str, Decision],
        *,
        seen: Mapping[str, str | None] | None = None,
        unless_running: bool = False,
    ) -> Sequence[PendingApproval]:
        """Decide open requests of a session, all of the given ones or none; ``resume`` then continues the run.

        Args:
            decisions: decisions by ``PendingApproval.id``; requests without one stay open.
            seen: by id, ``PendingApproval.shown`` of the requests as the user saw them (``previewed``), or the end of
                its ``seal``. Without it, an approval counts for the change that was shown last, to whomever.
            unless_running: decide nothing while the session runs, because its user may be answering the same question.

        Returns:
            the approved requests whose approval will not hold (``PendingApproval.outdated``): ``resume`` asks again.

        Raises:
            BusyError: the session is running, and ``unless_running`` is set.
            UsageError: the session or request does not exist, the request is already decided or has expired, changed
                arguments do not fit, ``always`` cannot be remembered, another change was shown since, or the config's
                present rules refuse the call or leave it to a person.
        """
        from zeus_runtime.agent.approval_preview import refuse_decided
        from zeus_runtime.store.allowlist import allow
        from zeus_runtime.store.approvals import decide, open_approvals
        from zeus_runtime.tools.approval import required_decision

        decisions = {name: required_decision(each) for name, each in decisions.items()}
        connections = await self._open(session)
        log = connections.log
        await log.find(session)
        await self._runner.require_own(session)
        give_back = await connections.database.claim(session) if unless_running else None
        try:
            given = {name: masked_decision(each, self._runner.secrets) for name, each in decisions.items()}
            waiting = await open_approvals(log, session)
            outdated = await refuse_decided(self._checked, log, waiting, decisions)
            for pending in await decide(log, session, given, seen=seen):
                if pending.decision is not None and pending.decision.always:
                    await allow(log, self._runner.user, pending.tool, pending.remembered_as)
            return outdated
        finally:
            if give_back is not None:
                give_back()

    def cancel(self, session: str) -> bool:
        """Cancel the run on ``session``; its stream ends with a ``RunFailed`` of code ``cancelled``.

        Returns:
            whether a run was active.
        """
        return self._runner.running.cancel(session)

    @property
    def name(self) -> str:
        """The config's name."""
        return self._plan.config.name

    @property
    def is_running(self) -> bool:
        """Whether a session runs now."""
        return bool(self._runner.running)

    def suspend(self, session: str) -> bool:
        """Interrupt the run on ``session`` so that another process can resume it: its stored events get no end.

        A run that ends by itself before it is interrupted has its end stored.

        Returns:
            whether a run was active.
        """
        return self._runner.suspend(session)

    @contextmanager
    def record(self, path: str | Path) -> Iterator[None]:
        """Inside the block, every finished model call is appended to the cassette ``path``, without secrets.

        Replay it with ``model: {replay: {cassette: PATH}}``.
        """
        from zeus_runtime.models.recorder import Tape

        tape = Tape(self._plan.context.directory / path, self._runner.redactor)
        former, self._runner.tape = self._runner.tape, tape
        try:
            yield
        finally:
            self._runner.tape = former
            tape.close()

    def keep_events(self, stored: Callable[[str, Sequence[StoredEvent]], None]) -> None:
        """Store the events of every run from now on, numbered by session, so that none is lost or sent twice.

        An event that tells of a message is stored in that message's transaction, any other within 50 ms; pieces of a
        text are joined. ``stream`` and ``resume`` yield each event once it is stored, and a resumed run does not repeat
        those that are. Later runs of a session that has stored events store theirs too, in any process.

        Args:
            stored: called with a session and its new events after each commit.
        """
        self._runner.stored = stored

    async def stored_events(
        self, session: str, after: int = 0, *, at_most: int = 1000
    ) -> Sequence[StoredEvent]:
        """The stored events of a session with a greater number than ``after``, in order, those of sub-agents included.

        Known secrets are masked, also one that lies in several pieces of a text, unless ``after`` divides it.

        Args:
            at_most: the most events to return.

        Raises:
            UsageError: the session does not exist, or it is archived.
        """
        from zeus_runtime.store.event_log import events_after

        return await events_after(await self.masked_log(), session, after, at_most=at_most)

    async def sessions(
        self,
        *,
        limit: int | None = None,
        every_agent: bool = True,
        archived: bool = False,
        after: SessionPlace | None = None,
    ) -> Sequence[SessionInfo]:
        """The sessions of this agent's database, last used first.

        Args:
            limit: the most sessions to return.
            every_agent: whether to include the sessions of other agents that use the database.
            archived: the archived ones instead of the others.
            after: only those after this place of a list that is read in parts, the first from ``BEFORE_ALL``.
        """
        agent = None if every_agent else self._plan.config.name
        return await (await self.masked_log()).sessions(
            agent=agent, limit=limit, archived=archived, after=after
        )

    async def search_messages(self, text: str, *, limit: int = 20) -> Sequence[FoundMessage]:
        """The messages of this agent's sessions that contain a text, in any case of its letters; the newest first.

        Archived sessions and messages that a rollback set aside are not searched.

        Args:
            limit: the most messages to return.
        """
        from zeus_runtime.sessions.message_search import search_messages

        return await search_messages(
            await self.masked_log(), self.masked(text), agent=self._plan.config.name, limit=limit
        )

    async def artifacts(self, session: str) -> Sequence[Artifact]:
        """The files that tools wrote in a session and that are still there, the last changed first.

        Raises:
            UsageError: the session does not exist, or it is archived.
        """
        from zeus_runtime.agent.artifacts import artifacts

        async with self._runner.lent_plan(session) as plan:
            return await artifacts(await self.log(), plan, session)

    async def artifact(self, session: str, path: str) -> bytes:
        """The content of one of ``artifacts``, with known secrets masked in text.

        Raises:
            NotFoundError: it is not one of them.
            UsageError: the session does not exist, it is archived, or the file has more than 50 MB.
        """
        from zeus_runtime.agent.artifacts import content

        async with self._runner.lent_plan(session) as plan:
            return await content(await self.log(), plan, self._runner.redactor, session, path)

    async def message_file(self, session: str, number: int, path: str) -> MessageFile:
        """A file or picture that a message brought along.

        Args:
            number: the message's place in the conversation, from 1.
            path: of the kept bytes, as the message names it.

        Raises:
            NotFoundError: there is no such message, it names no such file, or the file is gone.
            UsageError: the session does not exist, or it is archived.
        """
        from zeus_runtime.agent.message_files import message_file

        async with self._runner.lent_plan(session) as plan:
            return await message_file(await self.log(), plan, self._runner.redactor, session, number, path)

    async def stored_session(self, session: str) -> StoredSession:
        """All that is stored of a session and of its sub-agents' sessions but the ledger, with known secrets masked.

        Raises:
            UsageError: the session does not exist, or it is archived.
        """
        from zeus_runtime.sessions.stored import read

        return await read(await self.masked_log(), session, whole=True)

    async def masked_log(self) -> MaskedLog:
        """``log`` with known secrets masked in everything that is read."""
        from zeus_runtime.store.masked_log import MaskedLog

        database, look_at = (await self._open()).database, self._runner.look_at
        return MaskedLog(database, self._runner.redactor, owner=self._owner, look_at=look_at)

    async def look_at(self, session: str) -> None:
        """Mask from now on what the folders of a session hold now, before something of it is stored or shown."""
        if self._runner.has_folders_of_sessions:
            await self._runner.connections(session)

    async def log(self) -> ThreadLog:
        """The stored sessions that this agent may use, for a service that shows them."""
        return (await self._open()).log

    async def latest_session(self) -> str | None:
        """The session that this agent used last, and can continue; None if it has none."""
        connections = await self._open()
        found = await connections.log.sessions(agent=self._plan.config.name, limit=1, only_own=True)
        return found[0].session if found else None

    async def outermost(self, session: str) -> str:
        """The outermost session above a sub-agent's session, which ``resume`` accepts; any other session itself.

        Raises:
            UsageError: the session does not exist.
        """
        from zeus_runtime.store.session_tree import parent_of

        log = (await self._open()).log
        while (parent := await parent_of(log, await log.find(session))) is not None:
            session = parent
        return session

    async def history(self, session: str, *, whole: bool = False) -> Sequence[BaseMessage]:
        """Every message of a session's conversation, unchanged by any context policy.

        Args:
            whole: whether to include messages that a rollback set aside.

        Raises:
            UsageError: the session does not exist, or it is archived.
        """
        log = await self.masked_log()
        return await history_of(log, await log.find(session), whole=whole)

    async def require_own(self, session: str) -> None:
        """Check that the agent may continue a session, which exists: one of a service's user only if it works for one.

        Raises:
            UsageError: it may not.
        """
        await self._runner.require_own(session)

    async def context_trace(self, session: str) -> Trace:
        """What a session's model calls were sent and why, for the functions of ``zeus_runtime.context.inspection``.

        Raises:
            UsageError: the session does not exist, or it is archived.
        """
        from zeus_runtime.sessions.context_trace import context_trace

        return await context_trace(await self.masked_log(), self._checked, session)

    async def recording(self, session: str) -> Recording:
        """A stored session to play again under other context policies (``zeus_runtime.agent.backtest``).

        Raises:
            UsageError: the session does not exist, or it is archived.
        """
        from zeus_runtime.sessions.session_recording import session_recording

        return await session_recording(await self.masked_log(), session)

    async def chosen_mode(self, session: str) -> Mode | None:
        """The mode of a session's last run, in which ``resume`` must continue it.

        None where it was agent mode under a config with agent mode.

        Raises:
            UsageError: the session does not exist, or it is archived.
        """
        return mode_of(await self.history(session))

    async def compact(self, session: str) -> Compaction:
        """Let every context policy remove what it can now, as if the next request did not fit.

        Raises:
            UsageError: the session does not exist, it has no messages, or it is running.
        """
        return await self._runner.compact(session)

    @property
    def memory(self) -> MemoryService:
        """The long-term memory of the config's user; it opens at first use and closes with the agent.

        Raises:
            UsageError: the config has no ``memory:``.
        """
        memory = self._plan.context.memory
        if memory is None:
            raise UsageError("the config has no memory", remedy="Add `memory: {user: NAME}`.")
        self._runner.look()
        return memory

    @property
    def knowledge(self) -> KnowledgeService:
        """The knowledge bases of the config's user and project, also those that the config does not link.

        They open at first use and close with the agent.
        """
        from zeus_runtime.plan.services import knowledge_service

        self._runner.look()
        if self._bases is None:
            linked = self._plan.context.knowledge
            self._bases = linked or knowledge_service(self._checked, lambda: self._plan.context)
        return self._bases

    def plan_json(self) -> Mapping[str, Any]:
        """The plan with the source of each value, as `zeus plan --format json` prints it."""
        from zeus_runtime.plan.shown import plan_object

        shown: Mapping[str, Any] = self.masked(plain_json(plan_object(self._checked, self._plan)))
        return shown

    async def session_plan_json(self, session: str) -> Mapping[str, Any]:
        """As ``plan_json``, for a session that may have middlewares and a workspace of its own.

        Raises:
            UsageError: the session does not exist, is archived, or is a sub-agent's.
            ConfigError: its middlewares are not valid any more.
            UntrustedError: they would execute something that the user has not allowed.
        """
        from zeus_runtime.plan.shown import plan_object

        async with self._runner.shown_plan(session) as (checked, plan):
            found = await asyncio.to_thread(plan_object, checked, plan)  # it may look into a database
        shown: Mapping[str, Any] = self.masked(plain_json(found))
        return shown

    async def consolidate_memories(self) -> str | None:
        """Let a model merge, date and retire the memories of the config's user, and draw the profiles anew.

        Returns:
            the batch, for `zeus memory undo`; None if there are no memories.

        Raises:
            UsageError: the config has no ``memory:``.
            UntrustedError: the config would execute something that the user has not allowed.
            ModelError: the model failed.
        """
        return await self._runner.consolidate_memories()

    async def document_parts(
        self,
        paths: Sequence[Path] = (),
        bases: Sequence[str] = (),
        *,
        unread: Callable[[str, str], None] = lambda _path, _why: None,
    ) -> list[DocumentPart]:
        """The text of files, folders and knowledge bases in parts, for ``extract_from_documents``.

        Args:
            bases: names of knowledge bases.
            unread: called with each file that is not read, and the reason.

        Raises:
            UsageError: there is no such path or base.
        """
        from zeus_runtime.agent.documents import document_parts

        context = self._plan.context
        return await document_parts(
            paths,
            bases,
            context.knowledge,
            context.workspace,
            context.directory,
            self._runner.secrets,
            unread=unread,
        )

    async def extract_from_documents(
        self,
        parts: Sequence[DocumentPart],
        *,
        progress: Callable[[int, int], None] = lambda _done, _all: None,
    ) -> list[str]:
        """Let a model extract facts from documents, which are stored as untrusted memories.

        Args:
            progress: called with (done, in all) after each part.

        Returns:
            the batches, for `zeus memory undo`; none for parts that were read before.

        Raises:
            UsageError: the config has no ``memory:``.
            UntrustedError: the config would execute something that the user has not allowed.
            ModelError: the model failed; the parts before are done.
            LimitError: the calls cost more than ``limits.max_cost_usd``; the parts before are done.
        """
        return await self._runner.extract_from_documents(parts, progress)

    async def rollback(self, session: str, *, to: int, before: bool = False) -> int:
        """Go back to an earlier message of the user; later messages are set aside, and stay in the database.

        ``resume`` answers the message again; ``run`` and ``stream`` continue after it.

        Args:
            to: the message's number, as ``zeus sessions show`` prints it.
            before: whether to set the message itself aside too, to rephrase it.

        Returns:
            the number of messages that were set aside.

        Raises:
            UsageError: the session or message does not exist, nothing comes after it, or the session is running.
        """
        return await (await self._runner.lifecycle(session)).roll_back(session, to, before=before)

    async def fork(
        self, session: str, *, step: int, name: str | None = None, middlewares: str | None = None
    ) -> str:
        """Begin a new session as this one was when a step of it was asked; ``resume`` asks that step again.

        Args:
            step: its number, as ``zeus context steps`` prints it; also one that a rollback set aside.
            name: the new session's id; if there is one, it was forked before, and nothing is done.
            middlewares: the new session's own middlewares, as YAML; they replace those of the config in that session,
                in later runs too, and in its forks. None for those of this session.

        Returns:
            the new session.

        Raises:
            UsageError: the session or step does not exist, the session is archived, or ``middlewares`` hold a secret.
            ConfigError: ``middlewares`` are not valid.
            UntrustedError: they would execute something that the user has not allowed.
        """
        lifecycle = await self._runner.lifecycle(session)
        if middlewares is not None:
            await self._runner.check_policies(middlewares)
        return await lifecycle.fork(session, step, name=name, policies=middlewares)

    async def own_middlewares(self, session: str) -> str | None:
        """The middlewares that a session has in place of the config's, as YAML; None for those of the config.

        A secret in those of a session from before is masked.

        Raises:
            UsageError: the session does not exist, or it is archived.
        """
        policies = await self._runner.policies_of(session)
        # In a thread, because their YAML is read.
        return policies and await asyncio.to_thread(self._checked.shown_middlewares, policies)

    async def archive(self, session: str) -> bool:
        """Pack a session's messages, edits and ledger, and delete its checkpoints. False if it was already archived.

        Raises:
            UsageError: the session does not exist, or it is running.
        """
        lifecycle = await self._runner.lifecycle(session)
        done = await lifecycle.archive(session)
        await lifecycle.log.database.compact()
        return done

    async def restore(self, session: str) -> bool:
        """Restore an archived session completely; False if it was not archived.

        Raises:
            UsageError: the session does not exist, or it is running.
            RunError: its archive is damaged.
        """
        lifecycle = await self._runner.lifecycle(session)
        done = await lifecycle.restore(session)
        await lifecycle.log.database.compact()
        return done

    async def prune(
        self, retention: Retention | None = None, *, every_agent: bool = False, dry_run: bool = False
    ) -> Pruned:
        """Archive or delete the sessions that exceed a retention; running sessions are left alone.

        Args:
            retention: the config's by default.
            every_agent: whether to include the sessions of other agents that use the database.
            dry_run: only return the sessions, and change nothing.
        """
        config = self._plan.config
        agent = None if every_agent else config.name
        lifecycle = await self._runner.lifecycle()
        return await Pruner(lifecycle, retention or config.retention, agent, dry_run).run()

    async def delete_session(
        self, session: str, *, messages: int | None = None, updated_ms: int | None = None
    ) -> None:
        """Delete a session, archived or not, with all its messages and checkpoints.

        Args:
            messages, updated_ms: of the session, as it was read.

        Raises:
            UsageError: the session does not exist, or it is running.
            ChangedError: it changed since it was read.
        """
        lifecycle = await self._runner.lifecycle(session)
        await lifecycle.delete(session, messages=messages, updated_ms=updated_ms)
        await lifecycle.log.database.compact()

    async def aclose(self) -> None:
        """Cancel all runs and close all connections."""
        # A program may have used memory and knowledge without a run.
        used = (self._plan.context.memory, self._bases or self._plan.context.knowledge)
        await all_tried(self._runner.aclose, *(each.aclose for each in used if each is not None))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()

    async def connections(self) -> Sequence[Connection]:
        """The connections of the agent's toolsets, with failed ones; toolsets that are not open yet are opened."""
        known = self._runner.redactor
        found = [each for toolset in (await self.toolsets()).values() for each in toolset.status()]
        return [replace(each, why=known(each.why)) for each in found]

    async def toolsets(self) -> Mapping[str, Toolset]:
        """The agent's toolsets by component name; those that are not open yet are opened."""
        return await (await self._open()).toolsets_of(self._plan).opened()

    async def tools(self) -> Sequence[Tool]:
        """Every current tool of the agent, including toolsets' tools, in the order in which the model sees them."""
        connections = await self._open()
        opened = await connections.toolsets_of(self._plan).opened()
        model = connections.model_of(self._plan)
        return run_resources(self._plan, model, new_session_id(), opened=opened).toolbox.tools

    def masked(self, value: Any) -> Any:
        """A text or JSON value with the secrets masked that the config and its tools brought so far."""
        return self._runner.redactor.json(value)

    async def _masked(self, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        with masking_errors(self._error_mask()):
            async with aclosing(events) as source:
                async for event in source:
                    yield event

    def _error_mask(self) -> Redactor:
        return self._runner.redactor

    async def _open(self, session: str = "") -> Connections:
        return await self._runner.connections(session)
