"""docs/how-to/python.md names what the Agent has."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from zeus_runtime import Agent
from zeus_runtime.errors import UsageError
from zeus_runtime.memory.service import MemoryService

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "python.md").read_text()
CALL = re.compile(r"\b[aA]gent\.(?P<name>\w+)(?:\((?P<arguments>[^)]*)\))?")


def test_every_call_and_every_keyword_is_there() -> None:
    calls = list(CALL.finditer(TEXT))
    assert len(calls) > 15
    for call in calls:
        found = getattr(Agent, call["name"])
        keywords = re.findall(r"(\w+)=", call["arguments"] or "")
        assert not keywords or set(keywords) <= inspect.signature(found).parameters.keys(), call[0]


def test_the_example_of_memory_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = [
        block for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL) if "agent.memory" in block
    ]
    (tmp_path / "zeus.yaml").write_text("version: 1\nmodel: gpt-4o\nmemory: {user: ann}\n")
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "python.md", "exec"), {})
    found, stored, superseded, all_of_them = capsys.readouterr().out.splitlines()
    assert found.endswith(" The user lives in Berlin")
    assert (stored, superseded.split()[0]) == ("stored The user lives in Leipzig None", "superseded")
    assert all_of_them == "['The user lives in Berlin', 'The user lives in Leipzig']"
    assert not list(tmp_path.rglob("*-wal")), "the agent closed the database"


def test_the_table_of_memory_names_what_the_service_has() -> None:
    table = TEXT.split("## Memory")[1].split("## Tests")[0]
    calls = re.findall(r"`(?:[^`]*?, )?(\w+)\(([^`)]*)\)?", table)
    assert len(calls) > 10
    for name, arguments in calls:
        if hasattr(MemoryService, name):
            keywords = set(re.findall(r"(\w+)=", arguments))
            assert keywords <= inspect.signature(getattr(MemoryService, name)).parameters.keys(), name


async def test_an_agent_without_memory_says_how_to_turn_it_on(tmp_path: Path) -> None:
    (tmp_path / "zeus.yaml").write_text("version: 1\nmodel: gpt-4o\n")
    async with Agent.from_config(tmp_path / "zeus.yaml", directory=tmp_path) as agent:
        with pytest.raises(UsageError, match="no memory"):
            _ = agent.memory
