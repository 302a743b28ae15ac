"""The tool `task`, which gives work to one of the config's agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.plugin.tool import Tool, ToolResult, ToolRun, tool

if TYPE_CHECKING:
    from zeus_plugins.tools.subagents.options import Options
    from zeus_runtime.plugin import PlanContext, SubAgent

_KNOWS = {
    "isolated": "knows nothing but your prompt",
    "fork": "knows this conversation",
    "slice": "knows the newest messages of this conversation",
}


GENERAL: Final = "general"


def create(options: Options, context: PlanContext) -> Sequence[Tool]:
    """``task`` if there are agents: the config's, and the general one if ``general`` is set."""
    own = context.config.agents
    brought = {GENERAL: _general()} if options.general and GENERAL not in own else {}
    return [_task({**brought, **own}, brought)] if brought or own else []


def _general() -> SubAgent:
    from zeus_runtime.plugin import SubAgent

    return SubAgent(
        "Any independent work of several steps: a search, many files to read, one part of the task. It has your tools."
    )


def _task(agents: Mapping[str, SubAgent], brought: Mapping[str, SubAgent]) -> Tool:
    async def task(
        run: ToolRun, description: str, prompt: str, agent: str, handles: Sequence[str] = ()
    ) -> ToolResult:
        return await run.delegate(agent, prompt, description=description, handles=handles)

    made = tool(
        name="task",
        description=_description(agents),
        parameters=_parameters(agents),
        category="builtin",
        access="read",
    )(task)
    # Only some sub-agents give the tool this argument.
    return replace(
        made, paths=frozenset({"handles"}), starts_agents=True, agent_argument="agent", agents=brought
    )


def _description(agents: Mapping[str, SubAgent]) -> str:
    listed = [f"- {name} ({_KNOWS[each.context]}): {each.description}" for name, each in agents.items()]
    return "\n".join(
        [
            "Give a piece of work to another agent and get its answer.",
            "",
            "The agent works in a separate session, cannot ask you anything, and returns one message. Say in the prompt"
            " what you want, what the agent must know, and what its answer must contain. Several calls in one answer"
            " run concurrently. Use it for work of which you need only the result, to keep the details out of your own"
            " conversation.",
            "",
            "The agents:",
            *listed,
        ]
    )


def _parameters(agents: Mapping[str, SubAgent]) -> Mapping[str, Any]:
    slices = [name for name, each in agents.items() if each.context == "slice"]
    handles = {
        "handles": {
            "type": "array",
            "items": {"type": "string"},
            "description": f"Paths of files or large results whose text {' or '.join(slices)} gets too.",
        }
    }
    return {
        "type": "object",
        "properties": {
            "description": {
                "type": "string",
                "description": "The work in a few words, shown to the user in lists.",
            },
            "prompt": {
                "type": "string",
                "minLength": 1,
                "description": "The work, with everything that the agent must know.",
            },
            "agent": {"type": "string", "enum": list(agents), "description": "The agent that does the work."},
            **(handles if slices else {}),
        },
        "required": ["description", "prompt", "agent"],
        "additionalProperties": False,
    }
