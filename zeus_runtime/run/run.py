"""One run: the work of the graph's two nodes, their events, and the limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.cutting import cut_text
from zeus_runtime.errors import LimitError
from zeus_runtime.events import Event, Notice, Text, ToolCallResult, ToolCallStarted, ToolProgress
from zeus_runtime.middleware.chain import chain
from zeus_runtime.middleware.protocol import Middleware, Turn
from zeus_runtime.models.answers import as_logged, ended_early, no_answer
from zeus_runtime.models.content import calls_of, text_of
from zeus_runtime.models.interface import ModelResponse
from zeus_runtime.models.messages import CUT, given_by
from zeus_runtime.models.pictures import MOST_PICTURES, Picture, not_seen, too_large
from zeus_runtime.run.approvals import CallApprovals
from zeus_runtime.run.context_planner import PlannedContext
from zeus_runtime.run.delegated_task import DelegatedTask
from zeus_runtime.run.model_chain import RunModels
from zeus_runtime.run.output import (
    Judgement,
    OutputError,
    accepted,
    final_result,
    is_final,
    judged,
    refusals,
    repair_message,
    repair_notice,
    written,
)
from zeus_runtime.run.picture_descriptions import PictureDescriptions
from zeus_runtime.run.repeated_calls import DIGEST, WARN_AT, Repeats, digest_of, named, warning
from zeus_runtime.run.resources import RunResources
from zeus_runtime.run.spans import traced_call
from zeus_runtime.run.tool_run_view import ToolRunView
from zeus_runtime.run.transcript import Transcript, tool_message
from zeus_runtime.run.usage import Totals
from zeus_runtime.strict_json import well_formed
from zeus_runtime.tools import ToolCall, ToolResult, fitted_arguments, invoke, permitted
from zeus_runtime.tools.approval import ApprovalRequest
from zeus_runtime.tools.calling_tool import calling
from zeus_runtime.tools.changed_arguments import is_same
from zeus_runtime.tools.deferred import LOADER, is_loaded, not_called, schema_result
from zeus_runtime.tools.gate import AccessAsked
from zeus_runtime.tools.kept_changes import CHANGES, kept
from zeus_runtime.tools.masked_text import masked_result, passed_on_as_text, placeholder_refusal
from zeus_runtime.tools.paths import WorkspaceError, join, split
from zeus_runtime.tools.pausable_timeout import Clock, all_standing_still
from zeus_runtime.tools.preview import Preview, masked_changes, preview_of
from zeus_runtime.tools.question import MOST_LINES, shown_texts
from zeus_runtime.tools.quota import COUNTED, PROGRAMS
from zeus_runtime.tools.written_paths import WROTE, written_paths

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

    from zeus_runtime.config import Limits
    from zeus_runtime.run.approvals import ApprovalBroker
    from zeus_runtime.tools import Tool
    from zeus_runtime.tools.approval import Decision, PendingApproval


_LONGEST_NAME: Final = 80
"""Characters of an unknown tool's name that the model is shown."""


class Run:
    """One run of an agent on one session: the state that its steps share.

    Args:
        turn: the session, the run and the prompt.
        resources: the resources of the run.
        transcript: the session's messages.
        emit: receives the events.

    Attributes:
        waiting: the requests that need a decision before the run can continue.
    """

    def __init__(
        self,
        turn: Turn,
        resources: RunResources,
        transcript: Transcript,
        emit: Callable[[Event], None],
    ) -> None:
        self.turn = turn
        self.transcript = transcript
        self.emit = emit
        self.steps = 0
        self._resources = resources
        self._form = resources.output
        resources.meter.emit = emit
        self._models = RunModels(turn, resources, transcript, emit)
        self._call_tool = chain(resources.middlewares, "wrap_tool_call", self._dispatch, ToolResult)
        self._absent: dict[str, str] = {}
        self._ran: dict[int, Mapping[str, Any]] = {}
        self.waiting: list[PendingApproval] = []
        self._repeats: Repeats | None = None
        self._noted = 0
        self._pictures = (
            None if resources.describes is None else PictureDescriptions(resources.describes, transcript)
        )

    @property
    def model_name(self) -> str:
        """The name of the model that is asked now."""
        return self._models.resources.model.name

    @property
    def totals(self) -> Totals:
        """The run's usage so far."""
        return self._resources.meter.totals

    @property
    def approvals(self) -> ApprovalBroker:
        """Asks the run's user."""
        return self._resources.approvals

    @property
    def limits(self) -> Limits:
        """Steps, seconds, cost and repetitions after which the run stops."""
        return self._resources.limits

    @property
    def middlewares(self) -> Sequence[tuple[str, Middleware]]:
        """(name, instance) in YAML order."""
        return self._resources.middlewares

    @property
    def answer_text(self) -> str:
        """The text of the session's last message, the run's answer once it has ended; empty without a model call."""
        last = self.transcript[self.transcript.last]
        return text_of(last) if last.type == "ai" else ""

    def ending(self) -> tuple[str, Any]:
        """The text of the answer of a run whose steps have ended, and its JSON value if the config has ``output``.

        Raises:
            OutputError: the run ended without an answer that fits.
        """
        if self._form is None:
            return self.answer_text, None
        value = accepted(self._form, self.transcript.said)
        return written(value), value

    def is_answered(self, cursor: int) -> bool:
        """Whether a call whose result is at or before ``cursor`` gave the answer.

        Raises:
            OutputError: the answer does not fit, and the model was asked again often enough.
        """
        if self._form is None or cursor == 0 or self.transcript[cursor].type != "tool":
            return False
        judgement = judged(self._form, self.transcript[self.transcript.answer_of(cursor)])
        if judgement is not None and judgement.problems:
            self._count_refusals(cursor, judgement)
        return judgement is not None and not judgement.problems

    async def asked_again(self, seq: int, run_id: str) -> int | None:
        """If the text at ``seq`` does not fit, write the errors for the model, and return their place.

        Raises:
            OutputError: the model was asked again often enough.
        """
        judgement = None if self._form is None else judged(self._form, self.transcript[seq])
        if self._form is None or judgement is None or not judgement.problems:
            return None
        if self.transcript.kept(seq + 1, run_id) is None:
            self._count_refusals(seq, judgement)
            self.emit(repair_notice(judgement))
            await self.transcript.append(seq + 1, run_id, repair_message(self._form, judgement))
        return seq + 1

    def _count_refusals(self, seq: int, judgement: Judgement) -> None:
        assert self._form is not None
        if refusals(self._form, self.transcript.said[:seq]) > self._form.repairs:
            raise OutputError(self._form, judgement)

    @property
    def finish_reason(self) -> str:
        """How that answer ended: ``stop``, or ``length`` where it was cut."""
        return ended_early(self.transcript[self.transcript.last])

    async def pictures_described(self, cursor: int, run_id: str) -> int:
        """The last message's place, after new pictures are described in a message for a model that takes none."""
        if self._pictures is None:
            return cursor
        return await self._pictures.add(cursor, run_id, self.turn.user_text, self.emit)

    async def answer(self, seq: int, run_id: str) -> BaseMessage:
        """The model's answer at ``seq``: from the log if this run wrote it before a resume, else by a model call."""
        kept = self.transcript.kept(seq, run_id)
        if kept is not None:
            # After a kill, the reader of a resumed run may not have seen this text.
            if (text := text_of(kept)) and not self.transcript.is_told:
                self.emit(Text(text))
            return self._accepted(kept, ended_early(kept))
        # After the look into the log: an answer that is there already costs no step of the limit.
        self._keep_limits()
        self._refuse_circles(seq)
        asked = await self._models.ask(seq - 1, run_id, self.steps)
        # Only calls of this process count: a resumed run has all of `limits.max_steps` again.
        self.steps += 1
        reason = asked.response.finish_reason
        message = as_logged(_with_usage(asked.response), reason)
        message = given_by(message, self._models.resources.profile.provider)
        failure = no_answer(message, reason)
        if failure is not None and not failure.text:
            # Providers refuse a message without content, so it is not logged; the ledger keeps the call.
            await self.transcript.append_step(asked.step.override(error=failure.code), asked.texts)
            raise failure
        # The message and its entry of the ledger in one transaction: a paid answer is never without its cost.
        await self.transcript.append(seq, run_id, message, step=asked.step, texts=asked.texts)
        return self._accepted(message, reason)

    def _accepted(self, message: BaseMessage, finish_reason: str) -> BaseMessage:
        """The answer, with a notice if it was cut.

        Raises:
            AnswerError: the message is not an answer.
        """
        failure = no_answer(message, finish_reason)
        if failure is not None:
            raise failure
        if finish_reason == "length":
            self.emit(
                Notice(
                    "answer_cut",
                    "The model stopped at its output limit; the answer is not complete. Raise the model's max_tokens,"
                    " or ask it to continue.",
                )
            )
        return message

    def _refuse_circles(self, seq: int) -> None:
        """Stop a model that repeats itself.

        Raises:
            LimitError: the same calls gave the same results ``limits.repeated_calls`` times.
        """
        limit = self.limits.repeated_calls
        # Only results can continue a circle; any other message is new input.
        if limit is None or seq == 1 or self.transcript[seq - 1].type != "tool":
            return
        answer = self.transcript.answer_of(seq - 1)
        if self._form is not None and judged(self._form, self.transcript[answer]) is not None:
            return  # `output.repairs` limits these
        repeats = self._circles(limit, seq)
        # `_circles` may have read this answer from the log just now.
        if answer > self._noted:
            repeats.add(self.transcript[answer], [self.transcript[each] for each in range(answer + 1, seq)])
            self._noted = answer
        if repeats.count >= limit:
            raise LimitError(
                f"the model repeated the same call {repeats.count} times with the same result"
                f" (limits.repeated_calls): {named(self.transcript[answer])}",
                remedy="Give a prompt that leads it elsewhere, or raise limits.repeated_calls and use --continue.",
            )
        if repeats.count >= WARN_AT:
            self.emit(
                Notice(
                    "repeated_call",
                    f"The model made the same call {repeats.count} times with the same result, and was warned:"
                    f" {named(self.transcript[answer])}.",
                )
            )

    def _circles(self, limit: int, seq: int) -> Repeats:
        """The model's calls before ``seq``, read from the log once per run."""
        if self._repeats is None:
            self._repeats = Repeats(limit, self.transcript.said[: seq - 1])
            # All answers before `seq` are in `Repeats` now; `_refuse_circles` must not add them again.
            self._noted = seq - 1
        return self._repeats

    async def compact(self, cursor: int) -> PlannedContext:
        """Let every policy remove what it can, as after an overflow, and write an entry of the ledger."""
        return await self._models.step.compact(cursor, self.steps)

    async def result(self, answer: int, index: int, seq: int, run_id: str) -> None:
        """Run call ``index`` of the answer at ``answer`` and write its result at ``seq``."""
        message = self.transcript[answer]
        call = calls_of(message)[index]
        kept = self.transcript.kept(seq, run_id)
        if self._form is not None and is_final(self._form, call):
            judgement = judged(self._form, message)
            if kept is None and judgement is not None:
                if judgement.problems:
                    self.emit(repair_notice(judgement))
                await self.transcript.append(seq, run_id, final_result(call, judgement))
            return
        if kept is not None:
            if not self.transcript.is_told:
                self._emit_result(call, seq, text_of(kept), is_error=getattr(kept, "status", "") == "error")
            return
        result = await traced_call(
            call,
            self.turn.session,
            self._resources.known,
            self._run_call(call, seq),
            lambda: self._resources.toolbox.find(call["name"] or "") is not None,
        )
        # Before the digest: the log keeps this form, and a resumed run compares with the log.
        content = well_formed(result.content)
        artifact = {
            **({"state": dict(result.state)} if result.state else {}),
            **({"artifact": result.artifact} if result.artifact is not None else {}),
            **(await self._kept_changes(result)),
            **self._written_elsewhere(call, seq),
        }
        limit = self.limits.repeated_calls
        count = 1 if limit is None else self._circles(limit, answer).expected(message, index, content)
        if limit is not None and WARN_AT <= count < limit:
            # Without the warning, whose number changes each time.
            artifact[DIGEST] = digest_of(content)
            content = warning(count, limit) + content
        await self.transcript.append(
            seq,
            run_id,
            tool_message(
                call,
                content,
                is_error=result.is_error,
                artifact=artifact or None,
                pictures=self._shown(result),
                # A picture that is not shown is saved too.
                files=tuple(dict.fromkeys((*result.files, *(each.path for each in result.pictures)))),
            ),
            tell=lambda: self._emit_result(call, seq, content, is_error=result.is_error),
        )

    def _written_elsewhere(self, call: Mapping[str, Any], place: int) -> Mapping[str, Any]:
        """The part of the result's artifact with the files that the call wrote, if they are not those that it names."""
        tool, ran = self._resources.toolbox.find(call["name"] or ""), self._ran.get(place)
        if tool is None or ran is None:
            return {}
        named, wrote = (written_paths(tool, each) for each in (call["args"], ran))
        return {} if wrote == named else {WROTE: [self._resources.known.text(each) for each in wrote]}

    async def _kept_changes(self, result: ToolResult) -> Mapping[str, Any]:
        """The part of the result's artifact with the changes that the call made."""
        if not result.changes:
            return {}
        # Masked before they are compared: the lines of a diff may divide a secret. A middleware may have made these.
        text = self._resources.known.text
        shown = masked_changes(result.changes, text, path=text)
        found = await asyncio.to_thread(kept, shown)
        return {CHANGES: [each.as_json() for each in found]} if found else {}

    def _shown(self, result: ToolResult) -> list[Picture]:
        """The pictures of a result that the model is shown; a notice names those that it is not shown."""
        shown = [each for each in result.pictures if too_large(each) is None][:MOST_PICTURES]
        profile, describes = self._models.resources.profile, self._resources.describes
        seeing = profile if describes is None or profile.vision else describes.profile
        for each in result.pictures:
            why = not_seen(each, seeing)
            if why is None and each not in shown:
                why = f"of one result {MOST_PICTURES} are shown"
            if why is not None:
                self.emit(Notice("picture_not_shown", f"{each.label} is not shown to the model: {why}."))
        return shown

    async def _run_call(self, call: Mapping[str, Any], place: int) -> ToolResult:
        name, arguments = call["name"] or "", call["args"]
        is_whole = isinstance(arguments, dict)
        asked = ToolCall(str(call["id"]), name, arguments if is_whole else {}, self.turn.session, place)
        # Before the user is asked: whether the call would run, and its effect, depend on it.
        self._absent[name] = await self._resources.toolbox.awaited(name)
        made = self._loading(asked) or asked
        self.emit(
            ToolCallStarted(
                call_id=asked.id,
                tool_name=name,
                parameters=arguments if is_whole else {"_invalid": arguments},
                requires_approval=is_whole and await self._resources.approvals.requires(made),
            )
        )
        if not is_whole:
            return ToolResult(self._unusable(name, str(call.get("error") or "unreadable")), is_error=True)
        with self._resources.approvals.making(asked, self._resources.toolbox.find):
            result = await self._call_tool(made)
        # Whatever refused it, if it did not run: a middleware, the mode, its tool or a person.
        ran = self._ran.get(place) if made is asked else None
        if begun := await self._resources.approvals.begun_before(place, asked.arguments, ran):
            result = replace(result, content=f"{begun} This time:\n\n{result.content}")
        return result if made is asked or result.is_error else not_called(result)

    def _unusable(self, name: str, problem: str) -> str:
        """The result for a call that cannot be made."""
        if not name:
            return f"This call was not run: it names no tool. {self._known_tools()}"
        if problem.startswith(CUT):
            return f"This call was not run: {problem}. Write less at a time, in several calls."
        return f"This call was not run: {problem}. Call the tool again with a JSON object."

    def _known_tools(self) -> str:
        return f"The tools are: {', '.join(schema.name for schema in self._models.step.schemas) or 'none'}."

    def _loading(self, call: ToolCall) -> ToolCall | None:
        """The call of the loader that replaces a call of a tool whose parameters the model has not seen yet."""
        tool = self._resources.toolbox.find(call.name)
        if tool is None or permitted(tool, self.turn.mode) or is_loaded(tool, self.transcript.state.get):
            return None
        return replace(call, name=LOADER, arguments={"names": [call.name]})

    async def _dispatch(self, call: ToolCall) -> ToolResult:
        # Looked up anew: a middleware may have changed the name, and a toolset its tools while the user was asked.
        tool = self._resources.toolbox.find(call.name)
        if tool is None and (why := self._absent.get(call.name)):
            return ToolResult(f"{call.name} is not there now. {why}", is_error=True)
        if tool is None:
            shown = cut_text(call.name, _LONGEST_NAME)
            return ToolResult(f"There is no tool {shown!r}. {self._known_tools()}", is_error=True)
        # After the middlewares, so that none of them can lead a call around the mode.
        refusal = permitted(tool, self.turn.mode)
        if refusal is not None:
            return ToolResult(refusal, is_error=True)
        if not is_loaded(tool, self.transcript.state.get):
            return not_called(schema_result([tool]))
        # As `approve` fits them, so that the digest below is that of the arguments which the user saw.
        arguments = fitted_arguments(tool, call)
        if isinstance(arguments, str):
            return ToolResult(arguments, is_error=True)
        request = ApprovalRequest(
            tool.name,
            arguments,
            str(call.place),
            call.id,
            schema=tool.parameters,
            setting=tool.setting,
            facts=tool.facts_of(arguments),
        )
        decision = await self._resources.approvals.held(tool, request)
        if decision is None:
            return self._masked(await self._run_request(tool, call, request, is_changed=False))
        if decision.answer == "reject":
            return self._masked(_rejected(tool.name, decision))
        given = decision.arguments
        changed = None if given is None or is_same(given, arguments) else given
        if changed is not None:
            # Anew: the tool may take other arguments now than when the user changed them.
            arguments = fitted_arguments(tool, replace(call, arguments=changed))
        if isinstance(arguments, str):
            result = ToolResult(arguments, is_error=True)
        else:
            request = replace(request, arguments=arguments)
            result = await self._run_request(tool, call, request, is_changed=changed is not None)
        return self._masked(replace(result, content=decision.in_result(result.content, changed)))

    def _masked(self, result: ToolResult) -> ToolResult:
        return masked_result(result, self._resources.secrets, self._resources.known)

    async def _run_request(
        self, tool: Tool, call: ToolCall, request: ApprovalRequest, *, is_changed: bool
    ) -> ToolResult:
        """The result of a call, unless a former decision or a rule refuses it.

        Args:
            is_changed: whether a person was asked below the middlewares and changed the arguments.
        """
        former = await self._resources.approvals.rejected(request)
        if former is not None and former.decision is not None:
            if not former.is_about_file:
                return _rejected(tool.name, former.decision)
            # It is not begun again; a resumed run knows how far it came.
            self._ran[call.place] = request.arguments
            return _rejected(tool.name, former.decision, f"It was stopped before it opened {former.reason}.")
        if why := placeholder_refusal(tool, request.arguments, self._resources.secrets):
            return ToolResult(why, is_error=True)
        files = self._resources.workspace
        if why := self._resources.approvals.refusal(tool, request.arguments, files, own=is_changed):
            return ToolResult(
                f"{tool.name} is not allowed with these arguments ({why}). It was not run.", is_error=True
            )
        if why := await self._resources.approvals.checked(call, request.arguments):
            return ToolResult(why, is_error=True)
        clock = Clock(tool.timeout_seconds)
        view = self._tool_run(tool, replace(call, arguments=request.arguments), clock)
        return await self._resources.approvals.signed(
            tool, request, lambda: self._invoked(tool, request, view, clock)
        )

    def _tool_run(self, tool: Tool, call: ToolCall, clock: Clock) -> ToolRunView:
        """The tool's view of the run, and its ways to ask and delegate."""
        turn, approvals = self.turn, self._resources.approvals

        def progress(message: str, done: float | None, total: float | None) -> None:
            self.emit(ToolProgress(call.id, call.name, message, done, total))

        return ToolRunView(
            session=turn.session,
            call_id=call.id,
            mode=turn.mode,
            run_id=turn.run_id,
            user_text=turn.user_text,
            place=call.place,
            answer=self.transcript.answer_of(call.place),
            approvals=CallApprovals(approvals, clock),
            _state=self.transcript.state,
            _send=lambda *work: self._delegate(call, clock, *work),
            _progress=progress,
            _objection=lambda arguments: approvals.objection(
                tool, call, arguments, self._resources.workspace
            ),
            _results=lambda: self.transcript.results_of_turn,
            _giver=self._resources.toolbox.giver_of(call.name),
            _waiting=lambda: all_standing_still((*approvals.clocks, clock)),
            tool=call.name,
            setting=tool.setting,
            person=approvals.person,
            is_attended=approvals.channel is not None,
            secrets=self._resources.secrets,
            known=self._resources.known,
        )

    async def _counted(self, tool: Tool, result: ToolResult) -> ToolResult:
        """The result, and whether the files of the workspace are too large after a program wrote some."""
        quota = self._resources.workspace.quota
        if quota is None or tool.category in COUNTED:
            return result
        # A program or a tool of a server may write past `WorkspaceFiles`, which counts only its own writes.
        quota.forget()
        if tool.category not in PROGRAMS or (why := await asyncio.to_thread(quota.problem)) is None:
            return result
        told = f"The workspace is too large: {why}. Until files are removed, no tool can write more."
        return replace(result, content=f"{result.content}\n\n{told}")

    async def _invoked(
        self, tool: Tool, request: ApprovalRequest, view: ToolRunView, clock: Clock
    ) -> ToolResult:
        """The tool's result; if it reaches a file that needs approval, ask the user and call it again.

        An approval covers the files that its user saw: those that the arguments, the preview or the question name.
        """
        approvals = self._resources.approvals
        is_approved = approvals.has_approved(request)
        # Nobody was shown a preview of arguments that a person changed, such as where a link in them leads.
        shows = await self._preview(tool, approvals.as_shown(request)) if is_approved else None
        files = set(_seen(tool, request, shows)) if is_approved else set()
        question: ApprovalRequest | None = None
        instructions: list[str] = []

        async def run() -> ToolResult:
            self._ran[view.place] = request.arguments
            with calling(tool.name, approved=is_approved, files=files):
                result = await invoke(tool, request.arguments, view, clock)
            if told := passed_on_as_text(tool, request.arguments, self._resources.secrets):
                result = replace(result, content=result.content + told)
            result = await self._counted(tool, result)
            # Raised here and not in the tool: the tool may be a foreign client that would swallow the exception.
            if view.waits is not None:
                raise view.waits
            return result

        while True:
            # Each round adds the file that it asked about, so no file is asked about twice.
            try:
                result = await (run() if question is None else approvals.signed(tool, question, run))
                if not instructions:
                    return result
                return replace(result, content="\n\n".join([result.content, *instructions]))
            except AccessAsked as asked:
                file, path, reason = asked.parts, asked.path, f"{asked.path}: {asked.ruling.why}"
            shows = await self._preview(tool, request)
            # Each file has its own question, so that a resumed run finds the decision about this file.
            place = f"{request.place}:{digest_of(join(file))[:16]}"
            question = replace(
                request, place=place, reason=reason, schema=None, may_remember=False, preview=shows
            )
            decision = await approvals.ask(question)
            if decision.answer == "reject":
                return _rejected(tool.name, decision, f"It was stopped before it opened {path}.")
            if decision.instruction:
                instructions.append(f"The user adds: {decision.instruction}")
            files |= {file, *_seen(tool, request, shows)}

    async def _preview(self, tool: Tool, request: ApprovalRequest) -> Preview | None:
        return await preview_of(tool, request.arguments, self._resources.secrets, self.turn.session)

    async def _delegate(
        self,
        call: ToolCall,
        clock: Clock,
        agent: str,
        prompt: str,
        description: str,
        handles: Sequence[str],
    ) -> ToolResult:
        assert self._resources.delegate is not None, "no tool is called in a simulation"
        return await self._resources.delegate(
            DelegatedTask(
                agent=agent,
                prompt=prompt,
                description=description,
                handles=tuple(handles),
                call_id=call.id,
                place=call.place,
                run_id=self.turn.run_id,
                arguments=call.arguments,
                view=lambda: self.transcript.view(self.transcript.answer_of(call.place) - 1),
                meter=self._resources.meter,
                emit=self.emit,
                clock=clock,
            )
        )

    def _emit_result(self, call: Mapping[str, Any], seq: int, content: str, *, is_error: bool) -> None:
        self.emit(ToolCallResult(str(call["id"]), call["name"] or "", content, is_error, seq))

    def _keep_limits(self) -> None:
        limits = self._resources.limits
        if self.steps >= limits.max_steps:
            raise LimitError(
                f"the run reached limits.max_steps = {limits.max_steps}",
                remedy="Resume with --continue, or raise limits.max_steps.",
            )


def _with_usage(response: ModelResponse) -> AIMessage:
    message, usage = response.message, response.usage
    if usage is not None and message.usage_metadata is None:
        message.usage_metadata = {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
        }
    return message


def _seen(tool: Tool, request: ApprovalRequest, preview: Preview | None) -> Iterator[tuple[str, ...]]:
    """The files that a user sees in a question: those in the arguments that the tool declares to be paths.

    Without such arguments, every text of the arguments that is not cut may name one.
    """
    hidden = preview.stands_for if preview is not None and preview.changes else ()
    arguments = {name: value for name, value in request.arguments.items() if name not in hidden}
    if tool.paths:
        # An approved search for the name of a file does not open that file.
        listed = list(arguments.items())[:MOST_LINES]
        arguments = {name: value for name, value in listed if name in tool.paths}
    changes = preview.changes[:MOST_LINES] if preview is not None else ()
    for text in (*(each.path for each in changes), *shown_texts(arguments)):
        with suppress(WorkspaceError):
            yield split(text)


def _rejected(tool: str, decision: Decision, how_far: str = "It was not run.") -> ToolResult:
    """The result for a call that a person rejected under another config, or at a file that the call reached."""
    why = f": {decision.reason}" if decision.reason else ""
    return ToolResult(f"The user rejected this call of {tool}{why}. {how_far}", is_error=True)
