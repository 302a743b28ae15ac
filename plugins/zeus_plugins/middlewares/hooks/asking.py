"""Starts a run's hooks, notes what they decide, and tells the person."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from zeus_plugins.middlewares.hooks.answers import Answer, Event, HookFailedError, answer_of
from zeus_plugins.middlewares.hooks.process import answer_from
from zeus_plugins.tools import PASSED_ON
from zeus_runtime.plugin import Command, compiled_apart
from zeus_runtime.plugin.tool import validate_arguments

if TYPE_CHECKING:
    import httpx

    from zeus_plugins.middlewares.hooks.options import Hook
    from zeus_runtime.plugin import RunContext
    from zeus_runtime.plugin.tool import Tool

_OUTCOMES: Final[Mapping[Event, str]] = {
    "before_run": "the run ends",
    "before_model_call": "the model is not called, and the run ends",
    "after_model_call": "the answer is not used, and the run ends",
    "before_tool_call": "the call is not run",
    "after_tool_call": "the result is withheld from the model",
    "after_run": "the run ends with an error",
}
_DENIED: Final[Mapping[Event, str]] = {
    "before_run": "denied the run",
    "before_model_call": "denied a model call",
    "after_model_call": "denied an answer of the model",
    "before_tool_call": "denied a call of",
    "after_tool_call": "withheld the result of a call of",
    "after_run": "denied the run's answer",
}


class HookAnswers:
    """Asks the hooks of one run.

    Args:
        context: the run's.

    Attributes:
        run_id: the run's id; empty in a simulation, which starts no hook.
        mode: the run's mode.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        own = context.process_environ
        passed_on = {name: own[name] for name in PASSED_ON if name in own}
        self._environ = {"PATH": os.defpath, **passed_on, **compiled_apart(own)}
        self._closing = AsyncExitStack()
        self._client: httpx.AsyncClient | None = None
        self.run_id = ""
        self.mode = ""

    async def aclose(self) -> None:
        """Close the connections to addresses."""
        self._client = None
        await self._closing.aclose()

    async def answer(
        self,
        event: Event,
        index: int,
        hook: Hook,
        facts: Mapping[str, Any],
        *,
        place: int = 0,
        changing: Mapping[str, Any] | None = None,
        tool: Tool | None = None,
    ) -> Answer:
        """Return the decision of a hook that this run has noted, else ask the hook.

        Args:
            index: its place among the hooks of the event.
            facts: its input, besides what every hook gets.
            place: the place of a call in the log.
            changing: more input, which may be different when the run is resumed.
            tool: the tool of a call.

        Raises:
            UntrustedError: the user did not allow the command, or its files have changed since.
        """
        context = self._context
        given = {
            "event": event,
            "session": context.session,
            "run": self.run_id,
            "mode": self.mode,
            "workspace": str(context.workspace.root),
            **facts,
        }
        # Without `changing`: after a resume it may differ, and the hook's answer must be found all the same.
        about = json.dumps([event, index, hook.identity, place, given], default=dict)
        name = f"hook {hashlib.sha256(about.encode()).hexdigest()}"
        called = "" if tool is None else tool.name
        # A run that was killed after the hook's answer finds it here: the hook is not asked twice about one thing.
        noted = await context.notes.get(name)
        if noted is None:
            text = json.dumps({**given, **(changing or {})}, default=dict)
            try:
                fresh = await self._asked(event, hook, tool, text.encode())
            except HookFailedError as error:
                return self._failed(event, hook, called, error)  # not noted: a resume asks again
            # The run continues with the masked answer, so it is the same before and after a resume.
            noted = context.secrets.masked(vars(fresh).copy())
            await context.notes.put(name, noted)
        # Also a fresh answer is made of the note, so a resumed run does the same.
        answer = Answer(**noted)
        self._tell(event, hook, called, answer)
        return answer

    async def _asked(self, event: Event, hook: Hook, tool: Tool | None, given: bytes) -> Answer:
        """Ask a hook now.

        Raises:
            HookFailedError: it gave no answer, or arguments that do not fit.
        """
        answer = answer_of(event, await self._output(hook, given))
        if answer.arguments is None or tool is None:
            return answer
        fitted = validate_arguments(tool, answer.arguments)
        if isinstance(fitted, str):
            raise HookFailedError(f"wrote arguments that do not fit {tool.name}", fitted)
        return replace(answer, arguments=fitted)

    async def _output(self, hook: Hook, given: bytes) -> bytes:
        seconds = hook.timeout_seconds
        if hook.url is not None:
            from zeus_plugins.middlewares.hooks.http import answer_at, client

            if self._client is None:
                self._client = await self._closing.enter_async_context(client())
            return await answer_at(self._client, hook.url, hook.headers, given, seconds=seconds)
        context = self._context
        # At each start: the file may have been changed since the run began.
        context.permit(Command(hook.shown, tuple(hook.command), kind="command"))
        return await answer_from(
            hook.command, given, seconds=seconds, directory=context.directory, environ=self._environ
        )

    def _failed(self, event: Event, hook: Hook, called: str, error: HookFailedError) -> Answer:
        """Return the decision for a hook that gave none, and tell the person why."""
        closed = hook.on_failure == "deny"
        outcome = _OUTCOMES[event] if closed else "the run continues without it"
        during = f" for a call of {called}" if called else ""
        said = f"The hook `{hook.shown}` of {event} {error.what}{during}: {outcome}."
        self._context.notify("hook_failed", f"{said} {error.detail}".rstrip())
        return Answer(denies=closed, reason=f"the hook `{hook.shown}` {error.what}" if closed else "")

    def _tell(self, event: Event, hook: Hook, called: str, answer: Answer) -> None:
        """Tell the person what a hook decided."""
        said = f"The hook `{hook.shown}` of {event}"
        if answer.denies:
            what = f"{_DENIED[event]} {called}".rstrip()
            why = f": {answer.reason}" if answer.reason else ""
            self._context.notify("hook_denied", f"{said} {what}{why}.")
        elif answer.arguments is not None or answer.result is not None:
            what = "arguments" if answer.result is None else "result"
            self._context.notify("hook_changed", f"{said} changed the {what} of a call of {called}.")
