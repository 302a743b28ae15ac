"""The spans of a run: the run itself, its tool calls and its compactions; a model call's is in ``usage``.

The texts of requests, answers and calls are added only for users who ask for them; known secrets are masked in them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.events import RunCompleted, RunFailed
from zeus_runtime.models.content import calls_of, text_of
from zeus_runtime.models.interface import ModelRequest
from zeus_runtime.run.context_planner import PlannedContext
from zeus_runtime.tools import ToolResult
from zeus_runtime.tracing import TraceSpan, Value, error_type, record_tool_call

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

_ROLES: Final = {"human": "user", "ai": "assistant"}
_WAITS: Final = "approval_needed"


def run_span(agent: str, session: str, mode: str, *, is_resumed: bool) -> TraceSpan:
    """The span of a run. A sub-agent's is inside the tool call that gave it the task."""
    about: dict[str, Value] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": agent,
        "gen_ai.conversation.id": session,
        "zeus.mode": mode,
        "zeus.resumed": is_resumed,
    }
    return TraceSpan(f"invoke_agent {agent}", about)


def note_ending(span: TraceSpan, run: str, ending: RunCompleted | RunFailed) -> None:
    """Add the outcome of a run; one that waits for a decision has not failed."""
    if isinstance(ending, RunFailed):
        figures = ending.details
        if ending.code != _WAITS:
            span.fail(ending.code)
    else:
        figures = vars(ending)
    span.note(
        {
            "zeus.run.id": run,
            "zeus.run.state": "complete" if isinstance(ending, RunCompleted) else ending.code,
            "zeus.run.steps": figures.get("steps"),
            "gen_ai.usage.input_tokens": figures.get("prompt_tokens"),
            "gen_ai.usage.output_tokens": figures.get("completion_tokens"),
            "zeus.cost_usd": figures.get("cost_usd"),
        }
    )


async def traced_call(
    call: Mapping[str, Any],
    session: str,
    known: Redactor,
    work: Awaitable[ToolResult],
    is_tool: Callable[[], bool],
) -> ToolResult:
    """The result of ``work``, which runs the call; its span also covers the wait for an approval.

    Args:
        known: masked in the call's texts.
        is_tool: whether there is a tool of the call's name; asked again at the end, since the call may have waited for
            a server that is late.
    """
    # Another name is the model's own words.
    name = call["name"] if is_tool() else "unknown_tool"
    about: dict[str, Value] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": known.text(str(call["id"])),
        "gen_ai.tool.type": "function",
        "gen_ai.conversation.id": session,
    }
    started, error = time.monotonic(), ""
    with TraceSpan(f"execute_tool {name}", about) as span:
        try:
            result = await work
        except BaseException as failure:
            error = error_type(failure)
            raise
        else:
            error = "tool_error" if result.is_error else ""
        finally:
            span.fail(error)
            if name != call["name"] and is_tool():
                name = call["name"]
                span.rename(f"execute_tool {name}")
                span.note({"gen_ai.tool.name": name})
            record_tool_call(name, time.monotonic() - started, error)
        if span.shows_content:
            arguments = _json(call["args"], known)
            span.note(
                {
                    "gen_ai.tool.call.arguments": arguments,
                    "gen_ai.tool.call.result": known.text(result.content),
                }
            )
    return result


def trace_compaction(planned: PlannedContext, started_ns: int) -> None:
    """A span for a planning that removed something from the view; only its end tells that it did."""
    admitted = [each for each in planned.decisions if each.admitted]
    about: dict[str, Value] = {
        "zeus.context.edits": planned.admitted,
        "zeus.context.policies": list(dict.fromkeys(each.policy for each in admitted)),
    }
    if admitted:
        about["zeus.context.removed_tokens"] = admitted[0].tokens_before - admitted[-1].tokens_after
    with TraceSpan("compaction", about, start_ns=started_ns, is_current=False):
        pass


def context_attributes(planned: PlannedContext | None) -> Mapping[str, Value]:
    """How a request was planned, for the span of its call."""
    if planned is None:
        return {}
    budget = planned.budget
    return {
        "zeus.context.tokens": budget.used_tokens,
        "zeus.context.limit_tokens": budget.input_limit_tokens,
        "zeus.context.output_reserve_tokens": budget.output_reserve_tokens,
        "zeus.context.fixed_tokens": budget.fixed_tokens,
        "zeus.context.messages": budget.messages,
        "zeus.context.edits": planned.admitted,
        "zeus.context.cache_expired": budget.cache_expired or None,
    }


def note_request(span: TraceSpan, request: ModelRequest, known: Redactor) -> None:
    """Add the prompt and the messages of a request, if the user asks for texts."""
    if span.shows_content:
        messages = [_message(each) for each in request.messages]
        span.note(
            {
                "gen_ai.system_instructions": _json([{"type": "text", "content": request.system}], known),
                "gen_ai.input.messages": _json(messages, known),
            }
        )


def note_answer(span: TraceSpan, message: BaseMessage, known: Redactor) -> None:
    """Add a model's answer, if the user asks for texts."""
    if span.shows_content:
        span.note({"gen_ai.output.messages": _json([_message(message)], known)})


def _message(message: BaseMessage) -> Mapping[str, Any]:
    return {"role": _ROLES.get(message.type, message.type), "parts": list(_parts(message))}


def _parts(message: BaseMessage) -> Iterator[Mapping[str, Any]]:
    text = text_of(message)
    if message.type == "tool":
        yield {
            "type": "tool_call_response",
            "id": getattr(message, "tool_call_id", None),
            "response": text,
        }
        return
    if text:
        yield {"type": "text", "content": text}
    for call in calls_of(message):
        yield {"type": "tool_call", "id": call["id"], "name": call["name"], "arguments": call["args"]}


def _json(value: object, known: Redactor) -> str:
    return json.dumps(known.masked(value), ensure_ascii=False, default=str)
