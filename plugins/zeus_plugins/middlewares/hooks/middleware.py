"""Does what the config's hooks answer: around a run, its model calls and its tool calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from zeus_plugins.middlewares.approve.middleware import reaches
from zeus_plugins.middlewares.hooks.asking import HookAnswers
from zeus_plugins.middlewares.hooks.matching import matches, names
from zeus_runtime.plugin import RunError
from zeus_runtime.plugin.middleware import Middleware, Section
from zeus_runtime.plugin.tool import ToolResult, validate_arguments

if TYPE_CHECKING:
    from zeus_plugins.middlewares.hooks.answers import Event
    from zeus_plugins.middlewares.hooks.options import Options
    from zeus_runtime.plugin import RunContext
    from zeus_runtime.plugin.middleware import CallModel, CallRun, CallTool, Turn
    from zeus_runtime.plugin.model import ModelRequest, ModelResponse
    from zeus_runtime.plugin.tool import ToolCall

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
        before, after = self._options.before_tool_call, self._options.after_tool_call
        if tool is None or not any(names(each.match, tool.name) for each in (*before, *after)):
            return await call_next(call)
        given = validate_arguments(tool, call.arguments)
        if isinstance(given, str):
            return await call_next(call)  # it does not run, and the result says why
        arguments: Arguments = given
        facts: dict[str, Any] = {"call": call.id, "tool": tool.name}
        ask = partial(self._answers.answer, place=call.place, tool=tool)
        told: list[str] = []
        for index, hook in enumerate(before):
            if not matches(hook.match, tool, arguments, self._leads_to):
                continue
            answer = await ask("before_tool_call", index, hook, {**facts, "arguments": arguments})
            if answer.denies:
                return ToolResult(_refused(tool.name, answer.reason), is_error=True)
            arguments = arguments if answer.arguments is None else answer.arguments
            told += [_added(answer.context)] if answer.context else []
        changed = _as_json(arguments) != _as_json(given)
        if changed:
            shown = json.dumps(arguments, ensure_ascii=False)
            said = f"A hook of the config changed the arguments of this call before it ran, to: {shown}"
            told.insert(0, said)
        result = await call_next(replace(call, arguments=arguments) if changed else call)
        for index, hook in enumerate(after):
            if not matches(hook.match, tool, arguments, self._leads_to):
                continue
            outcome = {"content": result.content, "is_error": result.is_error}
            seen = {**facts, "arguments": arguments, "result": outcome}
            answer = await ask("after_tool_call", index, hook, seen)
            if answer.denies or answer.result is not None:
                # Only text and state: what a result names besides may tell what the hook keeps from the model.
                text = _withheld(tool.name, answer.reason) if answer.result is None else answer.result
                result = ToolResult(text, is_error=result.is_error or answer.denies, state=result.state)
            told += [_added(answer.context)] if answer.context else []
            if answer.denies:
                break
        return replace(result, content="\n\n".join([result.content, *told]))


def _refused(tool: str, reason: str) -> str:
    why = f" ({reason})" if reason else ""
    return (
        f"{tool} was not run: a hook of the config denied this call{why}. Do not try to do the same in another way;"
        " tell the user if the task needs it."
    )


def _withheld(tool: str, reason: str) -> str:
    why = f" ({reason})" if reason else ""
    return f"{tool} was run, and a hook of the config withholds its result{why}. Do not repeat the call."


def _added(context: str) -> str:
    return f"A hook of the config adds: {context}"


def _as_json(arguments: Arguments) -> str:
    return json.dumps(dict(arguments), sort_keys=True, default=str)
