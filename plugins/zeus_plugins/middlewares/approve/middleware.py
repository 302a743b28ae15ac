"""Asks the user about tool calls that the policy does not let run, and reports the decision to the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from zeus_plugins.middlewares.approve.options import Options
from zeus_plugins.middlewares.approve.path_spellings import leads_to, reaches, with_targets
from zeus_plugins.middlewares.approve.policy import Policy, Verdict, by_mode
from zeus_plugins.middlewares.approve.rules import is_path
from zeus_runtime.plugin.approval import ApprovalRequest
from zeus_runtime.plugin.middleware import Middleware
from zeus_runtime.plugin.tool import (
    ToolResult,
    fitted_arguments,
    permitted,
    placeholder_refusal,
    preview_of,
)

if TYPE_CHECKING:
    from zeus_runtime.plugin import RunContext
    from zeus_runtime.plugin.approval import Decision
    from zeus_runtime.plugin.files import WorkspaceFiles
    from zeus_runtime.plugin.middleware import CallTool
    from zeus_runtime.plugin.tool import Tool, ToolCall


class Approve(Middleware):
    """Runs a tool call, refuses it, or asks the user.

    Args:
        options: the rules and the mode.
        context: the run's approvals, tools and workspace.
    """

    def __init__(self, options: Options, context: RunContext) -> None:
        self._options = options
        self._approvals = context.approvals
        self._secrets = context.secrets
        self._session = context.session
        self._tools = context.tools
        self._mode = context.config.mode
        self._files = context.workspace
        files = context.workspace
        self._policy = Policy(
            options, partial(leads_to, files), partial(reaches, files, files), context.tools.values
        )
        self._approvals.judged_by(self._needs_approval)
        self._approvals.refused_by(self._denied, of_person=self._refused)

    async def wrap_tool_call(self, call: ToolCall, call_next: CallTool) -> ToolResult:
        judged = await self._judged(call)
        if judged is None:
            return await call_next(call)
        tool, arguments, verdict = judged
        request = self._request(call, tool, arguments, verdict)
        if verdict.action in ("ask", "listed"):
            # Only if the user is asked: a preview reads files.
            preview = await preview_of(tool, arguments, self._secrets, self._session)
            reason = with_targets(request.reason, self._files, tool, arguments)
            request = replace(request, preview=preview, reason=reason)
            if why := self._asked_by_file(tool, arguments):
                # An entry of the allowlist would not spare the question about this file.
                told_too = "" if verdict.reason in why else f"; {why}"
                request = replace(request, reason=f"{request.reason}{told_too}", may_remember=False)
        decision = await self._decision(request, verdict)
        if verdict.action == "deny":
            return ToolResult(
                f"{tool.name} is not allowed with these arguments ({verdict.reason}). It was not run. Do not try to"
                " do the same in another way; tell the user if the task needs it.",
                is_error=True,
            )
        if decision is None:
            is_same = same_json(arguments, call.arguments)
            return await call_next(call if is_same else replace(call, arguments=arguments))
        if decision.answer == "reject":
            return ToolResult(rejection(tool.name, decision, self._options.timeout_seconds), is_error=True)
        changed = decision.arguments is not None and not same_json(dict(decision.arguments), arguments)
        runs = decision.arguments if changed and decision.arguments is not None else arguments
        present: Verdict | None = verdict
        if changed:
            # Anew: the tool may take other arguments now than when the user changed them.
            fitted = fitted_arguments(tool, replace(call, arguments=runs))
            if isinstance(fitted, str):
                return ToolResult(decision.in_result(fitted, runs), is_error=True)
            present = self._policy.ruled(tool, fitted)
        if changed and present is not None and present.action == "deny":
            refused = f"{tool.name} is not allowed with these arguments ({present.reason}). It was not run."
            return ToolResult(decision.in_result(refused, runs), is_error=True)
        # The rules may be others than when the call was asked about, and the arguments too.
        if present is not None and present.needs_person and decision.by != "user":
            why = f"only a person may approve {tool.name} with these arguments ({present.reason})"
            return ToolResult(
                decision.in_result(f"{why}. It was not run.", runs if changed else None), is_error=True
            )
        result = await call_next(replace(call, arguments=runs))
        return replace(result, content=decision.in_result(result.content, runs if changed else None))

    async def _decision(self, request: ApprovalRequest, verdict: Verdict) -> Decision | None:
        if verdict.action in ("ask", "listed"):
            return await self._approvals.ask(request)
        return await self._approvals.settled(request, waits_on=verdict.by_access)

    def _request(
        self, call: ToolCall, tool: Tool, arguments: Mapping[str, Any], verdict: Verdict
    ) -> ApprovalRequest:
        return ApprovalRequest(
            tool=tool.name,
            arguments=arguments,
            place=str(call.place),
            call_id=call.id,
            reason=verdict.reason,
            schema=tool.parameters,
            # An entry of the allowlist is for a tool: it would let every command run.
            may_remember=verdict.action == "listed" and not tool.commands,
            needs_person=verdict.needs_person,
            timeout_seconds=self._options.timeout_seconds,
            on_timeout=self._options.on_timeout,
            setting=tool.setting,
            facts=tool.facts_of(arguments),
        )

    def _denied(self, tool: Tool, arguments: Mapping[str, Any], files: WorkspaceFiles) -> str | None:
        return self._policy.denied(tool, arguments, partial(reaches, self._files, files))

    def _refused(self, tool: Tool, arguments: Mapping[str, Any], _files: WorkspaceFiles) -> str | None:
        verdict = self._policy.ruled(tool, arguments)
        return verdict.reason if verdict is not None and verdict.action == "deny" else None

    async def _needs_approval(self, call: ToolCall) -> bool:
        judged = await self._judged(call)
        return judged is not None and judged[2].action in ("ask", "listed")

    async def _judged(self, call: ToolCall) -> tuple[Tool, dict[str, Any], Verdict] | None:
        """Return the tool, the arguments that would run, and the verdict; None if the call is invalid."""
        tool = self._tools.get(call.name)
        if tool is None:
            return None
        arguments = fitted_arguments(tool, call)
        if isinstance(arguments, str):
            return None
        ruled = self._policy.ruled(tool, arguments)
        if (ruled is None or ruled.action != "deny") and (
            permitted(tool, self._mode) or placeholder_refusal(tool, arguments, self._secrets)
        ):
            return tool, arguments, Verdict("allow", "it does not run, so nobody needs to approve it")
        verdict = ruled or await self._by_user(tool)
        if verdict.action in ("ask", "listed") and (refusal := self._refused_anyway(tool, arguments)):
            verdict = Verdict("deny", refusal)
        return tool, arguments, verdict

    def _asked_by_file(self, tool: Tool, arguments: Mapping[str, Any]) -> str | None:
        """Return the rule by which a file that the call writes needs an approval, whatever the mode; else None."""
        if tool.access != "write":
            return None
        paths = (each for name, each in arguments.items() if name in tool.paths and isinstance(each, str))
        return next(filter(None, map(self._files.write_question, paths)), None)

    def _refused_anyway(self, tool: Tool, arguments: Mapping[str, Any]) -> str | None:
        """Return why the workspace would refuse the call in any case, so that the user need not be asked; else None."""
        if tool.category != "filesystem" or tool.access != "write":
            return None
        paths = (each for name, each in arguments.items() if is_path(name) and isinstance(each, str))
        return next(filter(None, map(self._files.write_refusal, paths)), None)

    async def _by_user(self, tool: Tool) -> Verdict:
        modes = self._options.ask_modes()
        verdict = by_mode(await self._approvals.mode(modes), tool)
        if verdict.action != "listed":
            return verdict
        match await self._approvals.listing(tool):
            case "allowed":
                return Verdict("allow", "it is on the user's allowlist")
            case "changed":
                other = "with other options, from another source or for another workspace"
                return replace(verdict, reason=f"{tool.name} is on your allowlist {other}")
            case "absent":
                return verdict


def same_json(one: Any, other: Any) -> bool:
    """Return whether two values are the same JSON, for which 1 is neither true nor 1.0; long texts are not written."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_json(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    return bool(one == other)


def rejection(tool: str, decision: Decision, timeout_seconds: float | None) -> str:
    """Return the tool result that the model sees for a call that was not approved."""
    reason = f": {decision.reason}" if decision.reason else ""
    what = f"It was not run. Do not call {tool} with these arguments again"
    match decision.by:
        case "timeout":
            waited = f" within {timeout_seconds:g} seconds" if timeout_seconds is not None else ""
            said = f"The user did not approve this call of {tool}{waited}. {what}; continue without it."
        case "earlier":
            said = (
                f"The user has already rejected this call of {tool}{reason}, and was not asked again. {what}."
            )
        case "automatic":
            said = (
                f"No person was asked about this call of {tool}{reason}. {what}. If the task needs it, write"
                " the commands plainly, each in a call of its own; else continue without it."
            )
        case _:
            said = f"The user rejected this call of {tool}{reason}. {what}; continue without it."
    return decision.in_result(said, None)
