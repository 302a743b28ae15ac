"""The same loop in each runtime: a zero-latency model, one tool call per step, a SQLite checkpointer in sync mode.

Run as ``python -m benchmarks.peers NAME STEPS FOLDER``; prints one JSON line with CPU milliseconds per tenth of the
steps, the database's bytes after the turn, and the bytes of the conversation.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

TOOL_RESULT = "The quick brown fox jumps over the lazy dog, again and again. " * 12
SUMMARY = "## Intent\nGo through the file.\n\n## Artifacts\nNone yet.\n\n## Next steps\nThe next part.\n" * 4
ANSWER_TEXT = "Looking at the next part of the file before deciding what to change. " * 3


def _call(step: int) -> dict[str, Any]:
    return {"name": "lookup", "args": {"key": f"part-{step}"}, "id": f"call_{step}", "type": "tool_call"}


class Clock:
    """CPU time at each model call, in seconds."""

    def __init__(self) -> None:
        self.marks: list[float] = []

    def mark(self) -> None:
        self.marks.append(time.process_time())

    def report(self, folder: Path) -> dict[str, Any]:
        steps = len(self.marks) - 1
        tenth = max(1, steps // 10)
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        return {
            "steps": steps,
            "ms_per_step": (self.marks[-1] - self.marks[0]) / steps * 1000,
            "first_tenth_ms": (self.marks[tenth] - self.marks[0]) / tenth * 1000,
            "last_tenth_ms": (self.marks[-1] - self.marks[-1 - tenth]) / tenth * 1000,
            "database_bytes": size,
        }


async def bare(steps: int, folder: Path, clock: Clock) -> None:
    """Two nodes and a cursor on the stock saver: the least that LangGraph with SQLite costs."""
    from typing import TypedDict

    import aiosqlite
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        cursor: int

    async def model(state: State) -> State:
        clock.mark()
        return {"cursor": state["cursor"] + 1}

    async def tool(state: State) -> State:
        return {"cursor": state["cursor"] + 1}

    graph = StateGraph(State)
    graph.add_node("model", model)
    graph.add_node("tool", tool)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda s: END if s["cursor"] > 2 * steps else "tool", ["tool", END])
    graph.add_edge("tool", "model")
    async with aiosqlite.connect(folder / "bare.db") as connection:
        await connection.execute("PRAGMA journal_mode=WAL")
        await connection.execute("PRAGMA synchronous=NORMAL")
        app = graph.compile(checkpointer=AsyncSqliteSaver(connection))
        config: Any = {"configurable": {"thread_id": "bench"}, "recursion_limit": 4 * steps}
        async for _ in app.astream({"cursor": 0}, config, durability="sync", stream_mode="custom"):
            pass


async def zeus(steps: int, folder: Path, clock: Clock) -> None:
    """Zeus from a YAML file, with the default store and checkpointer, and no context policy."""
    await _zeus(steps, folder, clock, "")


async def policies(steps: int, folder: Path, clock: Clock) -> None:
    """Zeus with the context policies of the ``default`` preset: what deepagents at its defaults compares with."""
    await _zeus(steps, folder, clock, "extends: default\n")


async def _zeus(steps: int, folder: Path, clock: Clock, preset: str) -> None:
    from langchain_core.messages import AIMessage

    from zeus_runtime import Agent
    from zeus_runtime.plugin.model import ModelPiece, ModelRequest, ModelResponse

    class Scripted:
        name = "scripted"

        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
            if request.purpose != "turn":
                yield ModelResponse(AIMessage(SUMMARY))
                return
            clock.mark()
            step = len(clock.marks)
            if step > steps:
                yield ModelResponse(AIMessage("done"))
            else:
                yield ModelResponse(AIMessage(ANSWER_TEXT, tool_calls=[_call(step)]))

    plugin = folder.parent / f"{folder.name}_lookup.py"
    plugin.write_text(
        "from zeus_runtime.plugin import Component, hookimpl\nfrom zeus_runtime.plugin.tool import tool\n"
        f"RESULT = {TOOL_RESULT!r}\n"
        "@tool(access='read')\n"
        "async def lookup(key: str) -> str:\n"
        '    """Look a part up.\n\n    Args:\n        key: which.\n    """\n'
        "    return RESULT\n"
        "@hookimpl\n"
        "def register_tools():\n"
        "    return [Component('lookup', create=lambda options, context: [lookup])]\n"
    )
    config = folder.parent / f"{folder.name}.yaml"
    config.write_text(
        f"version: 1\n{preset}model: gpt-4o\ntools: [lookup]\nplugins: {{files: [{plugin.name}]}}\n"
        f"limits: {{max_steps: {steps + 1}, timeout_seconds: null}}\n"
        f"storage: {{url: 'sqlite:///{folder / 'zeus.db'}'}}\n"
    )
    async with Agent.from_config(config, directory=folder.parent, model=Scripted(), trust="all") as agent:
        await agent.run("Go through the file.")


def _chat_model(steps: int, clock: Clock) -> Any:
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Scripted(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

        def _generate(
            self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
        ) -> ChatResult:
            clock.mark()
            step = len(clock.marks)
            message = AIMessage("done") if step > steps else AIMessage(ANSWER_TEXT, tool_calls=[_call(step)])
            return ChatResult(generations=[ChatGeneration(message=message)])

        async def _agenerate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
            return self._generate(messages)

    return Scripted()


async def _langchain(steps: int, folder: Path, clock: Clock, build: Callable[..., Any]) -> None:
    import aiosqlite
    from langchain_core.tools import tool
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    @tool
    async def lookup(key: str) -> str:
        """Look a part up."""
        return TOOL_RESULT

    async with aiosqlite.connect(folder / "checkpoints.db") as connection:
        await connection.execute("PRAGMA journal_mode=WAL")
        await connection.execute("PRAGMA synchronous=NORMAL")
        agent = build(
            model=_chat_model(steps, clock), tools=[lookup], checkpointer=AsyncSqliteSaver(connection)
        )
        config: Any = {"configurable": {"thread_id": "bench"}, "recursion_limit": 20 * steps}
        await agent.ainvoke(
            {"messages": [{"role": "user", "content": "Go through the file."}]}, config, durability="sync"
        )


async def create_agent(steps: int, folder: Path, clock: Clock) -> None:
    """LangChain's agent."""
    from langchain.agents import create_agent as build

    await _langchain(steps, folder, clock, build)


async def deepagents(steps: int, folder: Path, clock: Clock) -> None:
    """deepagents at its defaults."""
    from deepagents import create_deep_agent

    await _langchain(steps, folder, clock, create_deep_agent)


RUNTIMES: dict[str, Callable[[int, Path, Clock], Awaitable[None]]] = {
    "bare": bare,
    "zeus": zeus,
    "policies": policies,
    "create_agent": create_agent,
    "deepagents": deepagents,
}


def main() -> None:
    name, steps, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    clock = Clock()
    asyncio.run(RUNTIMES[name](steps, folder, clock))
    report = clock.report(folder)
    report["conversation_bytes"] = steps * (len(TOOL_RESULT) + len(ANSWER_TEXT))
    print(json.dumps({"runtime": name, **report}))


if __name__ == "__main__":
    main()
