"""No error of the Python API shows a secret, whichever of an agent's objects raises it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from traceback import format_exception
from typing import Any, Final

import pytest

from tests.support.agents import write_agent
from zeus_runtime import Agent
from zeus_runtime.errors import ErrorsMasked
from zeus_runtime.memory.service import MemoryService

SECRET: Final = "argo-Secret-4711"

CALLS: Final[dict[str, Callable[[Agent], Awaitable[Any]]]] = {
    "agent": lambda agent: agent.history(SECRET),
    "memory": lambda agent: agent.memory.get(SECRET),
    "profiles": lambda agent: agent.memory.profiles.edit("user", {SECRET: "x"}),
    "batches": lambda agent: agent.memory.batches.undo(SECRET),
    "knowledge": lambda agent: agent.knowledge.add(SECRET, [Path(SECRET)]),
}


@pytest.fixture(params=["mask", "allow"])
async def agent(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Agent]:
    (tmp_path / ".env").write_text(f"SHIP_TOKEN={SECRET}\n")
    write_agent(tmp_path, f"memory: {{user: ann, project: shop}}\nsecrets: {{to_model: {request.param}}}\n")
    async with Agent.from_config(directory=tmp_path, trust="all") as made:
        yield made


@pytest.mark.parametrize("name", CALLS)
async def test_an_error_that_quotes_a_secret_is_masked(agent: Agent, name: str) -> None:
    with pytest.raises(Exception, match="<secret:SHIP_TOKEN>") as raised:
        await CALLS[name](agent)
    error = raised.value
    assert SECRET not in repr(error)
    assert SECRET not in "".join(map(str, format_exception(error))).replace(__file__, "")


def test_no_object_of_an_agent_can_forget_it(agent: Agent) -> None:
    parts = [agent.memory, agent.knowledge]
    parts += [getattr(agent.memory, name) for name in ("profiles", "batches", "embeddings", "members")]
    named = {name for name, value in vars(MemoryService).items() if isinstance(value, property)}
    assert named - {"caller", "settings", "lacks", "is_in_database", "in_database"} == {
        "profiles",
        "batches",
        "embeddings",
        "members",
    }
    assert all(isinstance(each, ErrorsMasked) for each in (agent, *parts))


async def test_a_new_method_is_masked_too() -> None:
    class Later(ErrorsMasked):
        def _error_mask(self) -> Callable[[str], str]:
            return lambda text: text.replace(SECRET, "***")

        async def told(self, text: str) -> None:
            """Quotes."""
            raise ValueError(text)

        async def parts(self, text: str) -> AsyncIterator[str]:
            yield "one"
            raise ValueError(text)

    with pytest.raises(ValueError, match=r"^\*\*\*$"):
        await Later().told(SECRET)
    parts = Later().parts(SECRET)
    assert await anext(parts) == "one"
    with pytest.raises(ValueError, match=r"^\*\*\*$"):
        await anext(parts)
    assert Later.told.__doc__ == "Quotes."
