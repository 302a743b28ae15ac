"""The tool `task`: work for one of the config's agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zeus_runtime import Tool, ToolResult, ToolRun, tool

if TYPE_CHECKING:
    from zeus_runtime import Build, Config

_KNOWS = {
    "isolated": "knows nothing but your prompt",
    "fork": "knows this conversation",
    "slice": "knows the newest messages of this conversation",
}


def create(_options: None, build: Build) -> Sequence[Tool]:
    """``task``, where the config has agents."""
    return [_task(build.config)] if build.config.agents else []


def _task(config: Config) -> Tool:
    async def task(
        run: ToolRun, description: str, prompt: str, agent: str, handles: Sequence[str] = ()
    ) -> ToolResult:
        return await run.delegate(agent, prompt, description=description, handles=handles)

    made = tool(
        name="task",
        description=_description(config),
        parameters=_parameters(config),
        category="builtin",
        access="read",
    )(task)
    return replace(made, starts_agents=True)


def _description(config: Config) -> str:
    listed = [
        f"- {name} ({_KNOWS[each.context]}): {each.description}" for name, each in config.agents.items()
    ]
    return "\n".join(
        [
            "Give a piece of work to another agent and get its answer.",
            "",
            "It works in a session of its own, cannot ask you anything, and gives back one message: say in the prompt"
            " what is wanted, what it must know, and what the answer must hold. Several calls in one answer work at the"
            " same time. Use it for work that would fill your own conversation with what only the result matters of.",
            "",
            "The agents:",
            *listed,
        ]
    )


def _parameters(config: Config) -> Mapping[str, Any]:
    slices = [name for name, each in config.agents.items() if each.context == "slice"]
    handles = {
        "handles": {
            "type": "array",
            "items": {"type": "string"},
            "description": f"Paths of files or large results whose text {' or '.join(slices)} is given too.",
        }
    }
    return {
        "type": "object",
        "properties": {
            "description": {
                "type": "string",
                "description": "The work in a few words, for the user's lists.",
            },
            "prompt": {
                "type": "string",
                "minLength": 1,
                "description": "The work: all that the agent is told.",
            },
            "agent": {"type": "string", "enum": list(config.agents), "description": "Who does it."},
            **(handles if slices else {}),
        },
        "required": ["description", "prompt", "agent"],
        "additionalProperties": False,
    }
