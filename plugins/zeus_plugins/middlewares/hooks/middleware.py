"""Does what the config's hooks answer: around a run, its model calls and its tool calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from zeus_plugins.middlewares.approve.path_spellings import reaches
from zeus_plugins.middlewares.hooks.asking import HookAnswers
from zeus_plugins.middlewares.hooks.matching import matches
from zeus_runtime.plugin import RunError
from zeus_runtime.plugin.middleware import Middleware, Section
from zeus_runtime.plugin.tool import ToolResult, fitted_arguments

if TYPE_CHECKING:
    from zeus_plugins.middlewares.hooks.answers import Event
    from zeus_plugins.middlewares.hooks.options import Options
    from zeus_runtime.plugin import RunContext
    from zeus_runtime.plugin.middleware import CallModel, CallRun, CallTool, Turn
    from zeus_runtime.plugin.model import ModelRequest, ModelResponse
    from zeus_runtime.plugin.tool import Tool, ToolCall

Arguments: TypeAlias = "Mapping[str, Any]"


class HookDeniedError(RunError):
    """A hook ended the run."""

    code = "hook_denied"


class Hooks(Middleware):
    """Asks hooks, and does what they answer.

    Args:
        options: the hooks.
        context: the run's tools, workspace, notes and secrets.
    """

    def __init__(self, options: Options, context: RunContext) -> None:
        self._options = options
        self._tools = context.tools
        self._answers = HookAnswers(context)
        self._leads_to = partial(reaches, context.workspace, context.workspace)
        self._section = ""
        self._asked_about: dict[int, _AskedCall] = {}
        context.approvals.checked_by(self._check)

    async def wrap_run(self, turn: Turn, call_next: CallRun) -> None:
        self._answers.run_id, self._answers.mode = turn.run_id, turn.mode
        try:
            told = await self._asked("before_run", {"prompt": turn.user_text})
            self._section = "\n\n".join(told)
            await call_next(turn)
            if self._options.after_run:
                await self._asked("after_run", {"prompt": turn.user_text, "answer": turn.answer()})
        finally:
            await self._answers.aclose()

    async def sections(self, turn: Turn) -> Mapping[Section, str]:
        return {Section.PROFILE: self._section} if self._section else {}

    async def wrap_model_call(self, request: ModelRequest, call_next: CallModel) -> ModelResponse:
        before, after = self._options.before_model_call, self._options.after_model_call
        if not (before or after) or not self._answers.run_id:
            return await call_next(request)
        if before:
            from langchain_core.messages import HumanMessage

            from zeus_runtime.plugin.model import to_chat

            messages = [to_chat(each, portable=True) for each in request.messages]
            # The prompt holds the time, which is another after a resume.
            changing = {"system": request.system, "tools": [each.name for each in request.tools]}
            if told := await self._asked("before_model_call", {"messages": messages}, changing):
                added = HumanMessage("\n\n".join(told))
                request = request.override(messages=(*request.messages, added))
        response = await call_next(request)
        if after:
            from zeus_runtime.plugin.model import to_chat

            # Two answers of a run may be the same.
            facts = {"answer": to_chat(response.message, portable=True), "messages": len(request.messages)}
            await self._asked("after_model_call", facts)
        return response

    async def _asked(
        self, event: Event, facts: Mapping[str, Any], changing: Mapping[str, Any] | None = None
    ) -> list[str]:
        """Ask the hooks of an event of the run or of a model call; return the texts that they add.

        Raises:
            HookDeniedError: one of them denies.
        """
        told: list[str] = []
        for index, hook in enumerate(self._options.by_event()[event]):
            answer = await self._answers.answer(event, index, hook, facts, changing=changing)
            if answer.denies:
                why = f": {answer.reason}" if answer.reason else ""
                remedy = "Give another prompt, or change the hook."
                raise HookDeniedError(f"a hook of {event} denied it{why}", remedy=remedy)
            told += [_added(answer.context)] if answer.context else []
        return told

    async def wrap_tool_call(self, call: ToolCall, call_next: CallTool) -> ToolResult:
        tool = self._tools.get(call.name)
        given = None if tool is None else fitted_arguments(tool, call)
        if tool is None or not isinstance(given, dict):
            return await call_next(call)  # it does not run, and the result says why
        asked = await self._ask_before(call, tool, given)
        if asked.refusal is not None:
            return ToolResult(asked.refusal, is_error=True)
        changed = asked.differs_from(tool.name, given)
        if changed:
            shown = json.dumps(asked.arguments, ensure_ascii=False)
            said = f"A hook of the config changed the arguments of this call to: {shown}"
            asked = replace(asked, told=(said, *asked.told))
        # By place, as calls of one answer run at the same time and may have the same name and arguments.
        self._asked_about[call.place] = asked
        try:
            # An inner middleware or a person may change the arguments again: `_check` then asks the hooks once more.
            result = await call_next(replace(call, arguments=asked.arguments) if changed else call)
        finally:
            # Read again: `_check` may have put the arguments there that really ran.
            ran = self._asked_about.pop(call.place)
        return result if ran.refusal is not None else await self._ask_after(call, ran, result)

    async def _ask_before(self, call: ToolCall, tool: Tool, arguments: Arguments) -> _AskedCall:
        """Ask the hooks before a call of ``tool`` with valid arguments."""
        told: list[str] = []
        for index, hook in enumerate(self._options.before_tool_call):
            if not matches(hook.match, tool, arguments, self._leads_to):
                continue
            facts = {"call": call.id, "tool": tool.name, "arguments": arguments}
            answer = await self._answers.answer(
                "before_tool_call", index, hook, facts, place=call.place, tool=tool
            )
            if answer.denies:
                return _AskedCall(tool, arguments, refusal=_refused(tool.name, answer.reason))
            arguments = arguments if answer.arguments is None else answer.arguments
            told += [_added(answer.context)] if answer.context else []
        return _AskedCall(tool, arguments, tuple(told))

    async def _check(self, call: ToolCall) -> str | None:
        """Ask the hooks once more about a call that would now run with other arguments than they know."""
        before = self._asked_about.get(call.place)
        if before is not None and not before.differs_from(call.name, call.arguments):
            return None
        again = await self._ask_before(call, self._tools[call.name], call.arguments)
        # The call is about to run: a hook may refuse these arguments, and no longer change them.
        if again.refusal is None and again.differs_from(call.name, call.arguments):
            again = replace(again, refusal=_not_as_written(call.name, again.arguments))
        if before is not None:
            self._asked_about[call.place] = replace(again, told=(*before.told, *again.told))
        return again.refusal

    async def _ask_after(self, call: ToolCall, ran: _AskedCall, result: ToolResult) -> ToolResult:
        """Ask the hooks after a call, and do what they answer."""
        tool, told = ran.tool, list(ran.told)
        for index, hook in enumerate(self._options.after_tool_call):
            if not matches(hook.match, tool, ran.arguments, self._leads_to):
                continue
            outcome = {"content": result.content, "is_error": result.is_error}
            facts = {"call": call.id, "tool": tool.name, "arguments": ran.arguments, "result": outcome}
            answer = await self._answers.answer(
                "after_tool_call", index, hook, facts, place=call.place, tool=tool
            )
            if answer.denies or answer.result is not None:
                # Only text and state: what a result names besides may tell what the hook keeps from the model.
                text = _withheld(tool.name, answer.reason) if answer.result is None else answer.result
                result = ToolResult(text, is_error=result.is_error or answer.denies, state=result.state)
            told += [_added(answer.context)] if answer.context else []
            if answer.denies:
                break
        return replace(result, content="\n\n".join([result.content, *told])) if told else result


@dataclass(frozen=True)
class _AskedCall:
    """A call as the hooks before it were asked about it last.

    Args:
        tool: the tool that it would run.
        arguments: the arguments that it would run with.
        told: the texts for the model.
        refusal: why it does not run; None if it may.
    """

    tool: Tool
    arguments: Arguments
    told: tuple[str, ...] = ()
    refusal: str | None = None

    def differs_from(self, name: str, arguments: Arguments) -> bool:
        """Whether a call of ``name`` with ``arguments`` is another one."""
        return self.tool.name != name or _as_json(self.arguments) != _as_json(arguments)


def _refused(tool: str, reason: str) -> str:
    why = f" ({reason})" if reason else ""
    return (
        f"{tool} was not run: a hook of the config denied this call{why}. Do not try to do the same in another way;"
        " tell the user if the task needs it."
    )


def _not_as_written(tool: str, wanted: Arguments) -> str:
    shown = json.dumps(dict(wanted), ensure_ascii=False)
    return (
        f"{tool} was not run: its arguments were changed after the hooks of the config had seen them, and a hook asks"
        f" for others: {shown}. Call {tool} again with these arguments if the task needs it."
    )


def _withheld(tool: str, reason: str) -> str:
    why = f" ({reason})" if reason else ""
    return f"{tool} was run, and a hook of the config withholds its result{why}. Do not repeat the call."


def _added(context: str) -> str:
    return f"A hook of the config adds: {context}"


def _as_json(arguments: Arguments) -> str:
    return json.dumps(dict(arguments), sort_keys=True, default=str)
