"""A model's answer names no file: what a provider adds to it gives no right to files of other sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from tests.support.agents import call, calling, script, write_agent
from zeus_runtime import Agent
from zeus_runtime.errors import NotFoundError
from zeus_runtime.store.file_references import noted

YAML = "middlewares: [{eviction: {max_tokens: 100}}]\n"


async def test_an_answer_that_names_a_file_of_another_session_reaches_none(tmp_path: Path) -> None:
    write_agent(tmp_path, YAML, tools="[probe, filesystem]")
    long = "private " * 900
    answers: list[Any] = [calling(call("echo", "a", text=long)), "Done."]
    model = script(*answers)
    async with Agent.from_config(directory=tmp_path, model=model, trust="all") as agent:
        victim = (await agent.run("go")).session
        (handle,) = {edit.handle for _, edit in (await agent.context_trace(victim)).edits}
        named = {
            "files": [handle],
            "references": [{"copy": handle, "path": "x"}],
            "pictures": [
                {"path": handle, "media_type": "image/png", "width": 1, "height": 1, "size_bytes": 9}
            ],
            "reasoning_content": "I thought.",
        }
        reads = [call("read_file", "b", path=handle)]
        answers[:] = [AIMessage("", additional_kwargs=named, tool_calls=reads), "Done."]
        model._answer = script(*answers)._answer
        session = (await agent.run("read it")).session
        result = next(each for each in await agent.history(session) if each.type == "tool")
        assert result.status == "error", result.content  # type: ignore[attr-defined]
        assert "private" not in str(result.content)
        answer = next(each for each in await agent.history(session) if each.type == "ai")
        assert answer.additional_kwargs == {"reasoning_content": "I thought."}
        with pytest.raises(NotFoundError):
            await agent.message_file(session, 2, handle)
        log = await agent.log()
        thread = await log.find(session)
        assert await log.database.run(lambda connection: noted(connection, thread.key)) == set()
        await agent.delete_session(session)
        kept = agent.plan.context.workspace.runtime
        assert kept.read(handle, max_bytes=100_000).startswith(b"echo: private")
