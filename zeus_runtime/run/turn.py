"""One run on one session, from the user's prompt to the terminal event: begin or resume, drive, end."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from traceback import format_exception
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.context.ledger import PolicyDecision, StepRecord
from zeus_runtime.errors import CancelledRunError, LimitError, UsageError, ZeusError, ends_process
from zeus_runtime.events import AnswerReset, Event, Notice, RunCompleted, RunFailed, RunStarted
from zeus_runtime.middleware.chain import MiddlewareError, chain
from zeus_runtime.middleware.protocol import Sources, Turn
from zeus_runtime.models.answers import AnswerError
from zeus_runtime.models.content import calls_of
from zeus_runtime.models.errors import ModelError
from zeus_runtime.models.pictures import kept_with
from zeus_runtime.run.approvals import ApprovalNeededError
from zeus_runtime.run.attachments import KEY, pictures_shown
from zeus_runtime.run.cleanup import Cleanup
from zeus_runtime.run.cost_limit import spent_before
from zeus_runtime.run.graph import GraphContext, StepFailedError
from zeus_runtime.run.kept_placeholders import changed_names
from zeus_runtime.run.output import OutputError, judged
from zeus_runtime.run.resources import RunResources
from zeus_runtime.run.run import Run
from zeus_runtime.run.spans import note_ending, run_span
from zeus_runtime.run.stored_thread import mode_of, read_thread
from zeus_runtime.run.transcript import Transcript
from zeus_runtime.store.session_lock import EPOCH
from zeus_runtime.tools.attachments import Reference
from zeus_runtime.tools.calling_tool import reading_kept
from zeus_runtime.tools.pausable_timeout import Clock
from zeus_runtime.tools.run_to_completion import finished

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from zeus_runtime.config.model import Mode
    from zeus_runtime.context.archive import Archive
    from zeus_runtime.plan.output import PlannedOutput
    from zeus_runtime.run.connections import Connections
    from zeus_runtime.run.emitter import Emitter
    from zeus_runtime.run.graph import StateSnapshot
    from zeus_runtime.store.snapshots import Reason
    from zeus_runtime.store.threads import Thread

_log = logging.getLogger(__name__)

SESSION_PREFIX = "session_"

_ENDED: Final[Mapping[str, Any]] = {}
"""The start of a run whose steps have ended, and whose process was killed before it told."""


def new_session_id() -> str:
    """``session_`` and 12 hexadecimal digits (SPEC section 5)."""
    return SESSION_PREFIX + secrets.token_hex(6)


def new_run_id() -> str:
    """8 hexadecimal digits."""
    return secrets.token_hex(4)


@dataclass(frozen=True)
class Compaction:
    """The effect of a compaction: the view's tokens and messages before and after, and the decisions on edits."""

    tokens_before: int
    tokens_after: int
    messages_before: int
    messages_after: int
    decisions: tuple[PolicyDecision, ...]


class Session:
    """A stored session that one run at a time works on.

    Args:
        thread: its row in the log.
        connections: hold its messages and checkpoints, and the graph that runs its steps.
        maintenance: archives or deletes sessions that are due, after a run has ended.
    """

    def __init__(
        self,
        thread: Thread,
        connections: Connections,
        *,
        maintenance: Callable[[], Awaitable[None]],
    ) -> None:
        self._maintenance = maintenance
        self._thread = thread
        self._log = connections.log
        self._database = connections.database
        self._saver = connections.saver
        self._graph = connections.graph
        self._redact = connections.redactor
        self._branch = 0

    async def run(
        self,
        prompt: str | None,
        mode: Mode,
        resources: RunResources,
        emit: Emitter,
        *,
        references: Sequence[Reference] = (),
        noted: Mapping[str, Any] | None = None,
        run_id: str | None = None,
    ) -> None:
        """Do one run and emit its events, of which exactly one is a terminal event, the last.

        Args:
            prompt: the user's prompt; None resumes the interrupted run.
            mode: ``agent``, ``ask`` or ``plan``.
            resources: the resources of the run.
            emit: receives the events.
            references: the files of the prompt.
            noted: what a resume needs to know, stored with the prompt (``mode_note``).
            run_id: the run's id; a new one by default. An interrupted run keeps its own.
        """
        agent = resources.known.text(resources.agent)
        with run_span(agent, self._thread.session, mode, is_resumed=prompt is None) as span:
            ending = await self._ending(
                prompt, mode, resources, emit, references, noted, run_id or new_run_id()
            )
            note_ending(span, emit.run, ending)
        emit(ending)

    async def _ending(
        self,
        prompt: str | None,
        mode: Mode,
        resources: RunResources,
        emit: Emitter,
        references: Sequence[Reference],
        noted: Mapping[str, Any] | None,
        run_id: str,
    ) -> RunCompleted | RunFailed:
        """Do the run, whatever happens in it, and return its terminal event."""
        run: Run | None = None
        reason: Reason = "error"
        cleanup = self._cleanup(emit)
        prompt = None if prompt is None else resources.secrets.text(prompt)
        try:
            transcript = await self._transcript(resources)
            resources = await self._with_changed_names(resources)
            for problem in transcript.problems:
                emit(Notice("edit_unreadable", f"{problem}; what it took out is sent again."))
            for problem in resources.project.notices:
                emit(Notice("project_instructions", f"Project instructions: {problem}."))
            start = await (
                self._resume(transcript, run_id, mode, resources.output, emit)
                if prompt is None
                else self._begin(transcript, run_id, prompt, emit, references, noted)
            )
            # Each prompt has another limit, so only a resume needs the ledger. It is read as a whole here, and never
            # per step.
            if prompt is None and resources.meter.limit_usd is not None:
                resources.meter.before_usd = await spent_before(
                    self._log, self._thread, emit.run, memory=resources.memory
                )
            resources.approvals.begin(self._thread, emit.run, is_new=prompt is not None)
            # The middlewares exist already; from here on their notes belong to this run.
            resources.notes.begin(self._log, self._thread, emit.run)
            turn = await self._turn(transcript, emit.run, mode, prompt or "")
            # A function, because `run` needs the turn before it exists, and the answer exists only at the end.
            turn = turn.override(answer=lambda: "" if run is None else run.ending()[0])
            run = Run(turn, resources, transcript, emit)
            emit(RunStarted(self._thread.session, run.model_name, mode, resumed=prompt is None))
            # The steps of such a run are over; only its terminal event was not stored before the kill.
            if start != _ENDED:
                await self._drive(run, start)
            # Before `reason`: an answer that does not fit raises here, and the run must not count as complete.
            answer, output = run.ending()
            reason = "complete"
            ending: RunCompleted | RunFailed = RunCompleted(
                session=self._thread.session,
                answer=answer,
                finish_reason=run.finish_reason,
                steps=run.steps,
                prompt_tokens=run.totals.prompt_tokens,
                completion_tokens=run.totals.completion_tokens,
                cost_usd=run.totals.cost_usd,
                output=output,
            )
        except asyncio.CancelledError:
            # Not raised again: the run still has to emit its terminal event, and its task ends normally after that.
            reason = "interrupted"
            ending = interrupted(self._thread.session, _details(run))
        except ApprovalNeededError as error:
            # Before ZeusError, of which these are kinds.
            reason = "approval"
            pending = [each.as_json() for each in error.pending]
            ending = _failure(error, self._thread.session, {**_details(run), "pending": pending})
        except (AnswerError, OutputError) as error:
            # A refused answer is not shown as an answer: a program would read it as one.
            name = "partial_answer" if isinstance(error, AnswerError) else "refused_answer"
            said = {name: error.text} if error.text else {}
            ending = _failure(error, self._thread.session, {**_details(run), **said})
        except ZeusError as error:
            whole = error.whole if isinstance(error, ModelError) else ""
            said = {"provider_message": whole} if whole else {}
            ending = _failure(error, self._thread.session, {**_details(run), **said})
        except (Exception, SystemExit) as error:
            # The edge of a run: its stream must end with a terminal event.
            if ends_process(error):
                raise
            told = self._redact("".join(format_exception(error)))
            _log.error("the run of %s failed inside the runtime\n%s", self._thread.session, told)
            ending = RunFailed(
                self._thread.session, "internal", f"{type(error).__name__}: {error}", details=_details(run)
            )
        finally:
            if run is not None:
                # To completion, even if the run is cancelled again: the cleanup must not be left half done.
                with suppress(asyncio.CancelledError):
                    await finished(self._tidy(cleanup, resources.archive, run.turn.run_id, reason))
        return ending

    async def compact(self, mode: Mode, resources: RunResources, emit: Emitter) -> Compaction:
        """Remove from the view what the policies can remove now, with the same planner as before a model call.

        Raises:
            UsageError: the session has no messages yet.
        """
        transcript = await self._transcript(resources)
        cursor = transcript.last_whole
        if cursor == 0:
            raise UsageError(f"the session {self._thread.session} has no messages to compact")
        emit.begin(new_run_id())
        turn = await self._turn(transcript, emit.run, mode)
        run = Run(turn, resources, transcript, emit)
        before = transcript.view(cursor)
        planned = await run.compact(cursor)
        await self._log.touch(self._thread)
        return Compaction(
            before.tokens, planned.view.tokens, len(before), len(planned.view), planned.decisions
        )

    async def _turn(self, transcript: Transcript, run_id: str, mode: Mode, prompt: str = "") -> Turn:
        return Turn(
            session=self._thread.session,
            run_id=run_id,
            mode=mode,
            prompt=prompt,
            user_text=transcript.user_text,
            sources=await self._sources(transcript.last_step),
            references=transcript.references,
        )

    async def _sources(self, step: StepRecord | None) -> Mapping[str, Sources]:
        if step is None or not step.fixed:
            return {}
        whole = (await self._log.texts(self._thread, [step.fixed])).get(step.fixed)
        digests = {} if whole is None else json.loads(whole).get("sources", {})
        if not digests:
            return {}
        texts = await self._log.texts(self._thread, list(digests.values()))
        return {name: json.loads(texts[digest]) for name, digest in digests.items() if digest in texts}

    async def _transcript(self, resources: RunResources) -> Transcript:
        stored = await read_thread(self._log, self._thread)
        self._branch = stored.rollbacks
        transcript = Transcript(
            self._log,
            self._thread,
            stored,
            counter=resources.counter,
            replayable=[tool.name for tool in resources.toolbox.tools if tool.replayable_result],
            secrets=resources.secrets,
        )
        await transcript.give_files()
        return transcript

    async def _with_changed_names(self, resources: RunResources) -> RunResources:
        """The resources whose secrets tell which placeholders of the session's messages mean another value now."""
        changed = await changed_names(self._log, self._thread, resources.secrets.meant)
        if not changed:
            return resources
        secrets = resources.secrets.with_changed(changed)
        # One object where the model is sent no secrets, which `RunResources.known` says.
        known = secrets if resources.known is resources.secrets else resources.known
        return replace(resources, secrets=secrets, known=known)

    async def _begin(
        self,
        transcript: Transcript,
        run_id: str,
        prompt: str,
        emit: Emitter,
        references: Sequence[Reference],
        noted: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        from langchain_core.messages import HumanMessage

        from zeus_runtime.store.turns import give_up

        emit.begin(run_id)
        # A new prompt gives up the interrupted calls, and so the questions about them.
        if transcript.last_whole < transcript.last:
            # Withdrawn before the calls are closed: after a crash in between they are open, and this runs again.
            await give_up(self._log, self._thread)
        closed = await transcript.close_open_calls()
        if closed:
            emit(
                Notice(
                    "calls_closed", f"{closed} tool call(s) of the interrupted run were closed unanswered."
                )
            )
        seq = transcript.last + 1
        brought = {KEY: [each.as_json() for each in references]} if references else {}
        pictures = kept_with(pictures_shown(references))
        message = HumanMessage(prompt, additional_kwargs={**brought, **pictures, **(noted or {})})
        await transcript.append(seq, run_id, message, begins_turn=True)
        if self._branch:
            # Removes checkpoints from before the rollback, so that LangGraph does not merge them with the start.
            await self._state(run_id)
        return self._start(seq, run_id)

    async def _resume(
        self, transcript: Transcript, new_run: str, mode: Mode, form: PlannedOutput | None, emit: Emitter
    ) -> Mapping[str, Any] | None:
        """What the graph starts with; None to continue at its checkpoint.

        Raises:
            UsageError: there is nothing to resume, or the run was begun in another mode.
        """
        begun = mode_of(transcript.said)
        if begun not in (None, mode):
            # A mode's restrictions must also hold after an interruption.
            raise UsageError(
                f"the run of {self._thread.session} was begun in {begun} mode, not in {mode} mode",
                remedy=f"Resume it in {begun} mode, or give a prompt to continue in another mode.",
            )
        run_id = transcript.run_of_last if transcript.last else ""
        if transcript.is_rolled_back:
            # Messages set aside are another run's: its approvals and its sub-agents' answers do not apply here.
            run_id = new_run
        emit.begin(run_id)
        self._reset(run_id, emit)
        state, last = await self._state(run_id), transcript.last
        cursor = state.values.get("cursor", 0)
        if transcript.is_rolled_back and transcript.unanswered is not None:
            # A fork may begin after results of another run, which this one does not find again as its own.
            return self._start(transcript.last_whole, run_id)
        # A prompt that is not in any checkpoint yet is newer than the work that an earlier run left.
        if last > cursor and transcript[last].type == "human":
            return self._start(last, run_id)
        # `state.next` omits tasks with saved writes: all of them after a kill before the checkpoint.
        if state.tasks:
            transcript.has_waited = (await self._log.info(self._thread)).state == "approval"
            # A run stores its checkpoint when it ends, so after a kill the log is further than the checkpoint.
            if (logged := transcript.unanswered or 0) > cursor:
                return self._start(logged, run_id)
            return None
        if cursor and calls_of(transcript[cursor]):
            # From a Zeus whose graph had a node for each call: its cursor is at the answer, not after the results.
            await self._saver.adelete_thread(self._thread.session)
            # To before the answer: its step runs again, and finds the answer and the finished results in the log.
            return self._start(cursor - 1, run_id)
        place = await self._place_in_log(transcript, form, is_checkpointed=bool(state.values))
        if place is not None:
            if state.values:
                # The graph would merge its start with the checkpoint, which is further.
                await self._saver.adelete_thread(self._thread.session)
            return self._start(place, run_id)
        if (kept := self._log.events.get(self._thread.session)) is not None and kept.lacks_end(
            self._thread.session
        ):
            return _ENDED
        raise UsageError(
            f"the last run of {self._thread.session} ended; there is nothing to resume",
            remedy="Give a prompt to continue the conversation.",
        )

    async def _place_in_log(
        self, transcript: Transcript, form: PlannedOutput | None, *, is_checkpointed: bool
    ) -> int | None:
        """The ``seq`` after which a run without a checkpoint, or after its last one, continues; None if it is over.

        It was killed, or the session was archived: the log alone shows the remaining work.
        """
        # The snapshot of the turn's end is not written: the process was killed before.
        is_open = (await self._log.info(self._thread)).state == "open"
        if is_checkpointed and not is_open:
            return None
        if transcript.unanswered is not None:
            return transcript.unanswered
        if not transcript.last or transcript.is_rolled_back:
            return None
        # The last message is an answer. It is judged again; and a run that was killed after it has yet to end.
        judgement = None if form is None else judged(form, transcript[transcript.last])
        is_refused = judgement is not None and bool(judgement.problems)
        return transcript.last - 1 if is_refused or is_open else None

    def _reset(self, run_id: str, emit: Emitter) -> None:
        """Tell the readers of stored events which of them a resumed run replaces."""
        kept = self._log.events.get(self._thread.session)
        if kept is None:
            return
        kept.resume(self._thread.session, run_id)
        after = kept.cut_off(self._thread.session)
        if after is not None:
            emit(AnswerReset(after))

    def _start(self, cursor: int, run_id: str) -> dict[str, Any]:
        return {"cursor": cursor, "run_id": run_id, "branch": self._branch}

    async def _state(self, run_id: str) -> StateSnapshot:
        """The checkpointed state of a run; checkpoints that do not belong to it are removed, so that the log decides.

        Checkpoints from before a rollback count places along another branch. Checkpoints of a run other than the last
        writer come from a process that lost its claim and continued late; the log refuses such writes, but some savers
        do not.
        """
        state = await self._graph.aget_state(self._config)
        values = state.values
        if values and (values.get("branch", 0) != self._branch or values.get("run_id") != run_id):
            await self._saver.adelete_thread(self._thread.session)
            state = await self._graph.aget_state(self._config)
        return state

    async def _drive(self, run: Run, start: Mapping[str, Any] | None) -> None:
        limits = run.limits

        async def steps(turn: Turn) -> None:
            if turn != run.turn:
                raise MiddlewareError(
                    "a middleware's wrap_run passed on another turn than it was given",
                    remedy="A run's session, mode and prompt are settled before it begins: pass the same turn on.",
                )
            config: RunnableConfig = {
                **self._config,
                # One graph step for each model call, and some to spare: Zeus's own limit must be reached first.
                "recursion_limit": 2 * limits.max_steps + 3,
            }
            failure: BaseException | None = None
            try:
                # Durability "exit": the checkpoint is stored when the run ends or pauses. Each message is in the log
                # before the next one is asked for, so after a kill the log says where the run continues, and a
                # checkpoint for each step would say it again. The stream stays empty: Zeus emits its own events.
                async for _ in self._graph.astream(
                    start, config, context=GraphContext(run), durability="exit", stream_mode="custom"
                ):
                    pass
            except StepFailedError as error:
                failure = error.failure
            if failure is not None:
                raise failure
            # The graph has paused by an interrupt, which ends its stream without an error.
            if run.waiting:
                raise ApprovalNeededError(self._thread.session, run.waiting)

        call: Callable[[Turn], Awaitable[None]] = chain(run.middlewares, "wrap_run", steps)
        try:
            async with Clock(limits.timeout_seconds) as clock:
                with run.approvals.watching(clock), reading_kept(run.transcript.session_files):
                    await call(run.turn)
        except TimeoutError as error:
            # A tool's or a library's own TimeoutError is not the run's limit.
            if not clock.expired:
                raise
            raise LimitError(
                f"the run reached limits.timeout_seconds = {limits.timeout_seconds:g}",
                remedy="Resume with --continue, or raise limits.timeout_seconds.",
            ) from error

    @property
    def _config(self) -> RunnableConfig:
        session = self._thread.session
        return {"configurable": {"thread_id": session, EPOCH: self._database.epoch(session)}}

    def _cleanup(self, emit: Callable[[Event], None]) -> Cleanup:
        return Cleanup(self._thread.session, self._saver, self._database, emit)

    async def _tidy(self, cleanup: Cleanup, archive: Archive, run_id: str, reason: Reason) -> None:
        from zeus_runtime.store.turns import end_turn

        await cleanup.after(
            lambda: end_turn(self._log, self._thread, run_id, reason),
            self._maintenance,
            archive,
            is_complete=reason == "complete",
        )


def interrupted(session: str, details: Mapping[str, Any]) -> RunFailed:
    """The terminal event of a cancelled run."""
    return _failure(
        CancelledRunError("the run was interrupted", remedy="Resume with --continue."), session, details
    )


def _failure(error: ZeusError, session: str, details: Mapping[str, Any]) -> RunFailed:
    message = f"{error.message}. {error.remedy}" if error.remedy else error.message
    return RunFailed(session, error.code, message, error.exit_code, details)


def _details(run: Run | None) -> dict[str, Any]:
    if run is None:
        return {}
    return {
        "steps": run.steps,
        "prompt_tokens": run.totals.prompt_tokens,
        "completion_tokens": run.totals.completion_tokens,
        "cost_usd": run.totals.cost_usd,
    }
