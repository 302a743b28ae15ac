"""The ways an agent is run, each playing one config with a model that writes down all it is asked."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Final

import pytest

from tests.acceptance.settings import PROBE
from zeus_runtime import Agent, ZeusError
from zeus_runtime.cli import main

WATCHED: Final = """

@dataclass(frozen=True)
class Watching:
    label: str = "own"
    answers: tuple[str, ...] = ("done",)


class Watched:
    name = "watched"

    def __init__(self, options, context):
        self.options, self.file = options, context.directory / "requests.jsonl"

    async def stream(self, request):
        from langchain_core.messages import AIMessage
        from zeus_runtime.plugin.model import Usage

        texts = [str(message.content) for message in request.messages]
        asked = {"label": self.options.label, "system": request.system, "texts": texts}
        asked["tools"] = [tool.name for tool in request.tools]
        with self.file.open("a") as file:
            file.write(json.dumps(asked) + "\\n")
        said = sum(message.type == "ai" for message in request.messages)
        answer = self.options.answers[said % len(self.options.answers)]
        if answer == "fail":
            raise ModelError("busy", kind="server")
        if answer == "slow":
            await asyncio.sleep(0.3)
        call = json.loads(answer) if answer.startswith("{") else None
        calls = [{**call, "id": f"call_{said}", "type": "tool_call"}] if call else []
        message = AIMessage("" if call else answer, tool_calls=calls)
        yield ModelResponse(message, usage=Usage(100, 5), cost_usd=0.25)


@hookimpl(specname="register_models")
def register_watched():
    return [Component("watched", create=lambda options, context: Watched(options, context), options=Watching)]
"""


@dataclass(frozen=True)
class Scenario:
    """What is played, but for the key.

    Args:
        given: the config, without a model.
        answers: what the model answers; a call is ``{"name": ..., "args": ...}``.
        files: further files of the folder.
    """

    given: str = "{}"
    answers: tuple[str, ...] = ("done",)
    files: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Seen:
    """What a play left.

    Args:
        requests: what the model was asked, in its order.
        files: the files of the folder with their texts, where they are text.
    """

    requests: Sequence[Mapping[str, Any]]
    files: Mapping[str, str]

    @property
    def system(self) -> str:
        """The last system prompt; empty where the model was never asked."""
        return str(self.requests[-1]["system"]) if self.requests else ""


def _config(scenario: Scenario, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The config with keys such as ``limits.max_steps`` laid over it."""
    model = {"watched": {"answers": list(scenario.answers)}}
    config = {"version": 1, "model": model, "plugins": {"files": ["probe.py"]}, **json.loads(scenario.given)}
    return _laid(config, changes)


def _laid(config: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in changes.items():
        *parents, last = key.split(".")
        place = config
        for step in parents:
            place = place.setdefault(step, {})
        place[last] = value
    return config


def _zeus(*words: str, stdin: str = "") -> str:
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        main(words)
    print(err.getvalue())  # pytest shows it with a failure
    return out.getvalue()


def _write(folder: Path, config: Mapping[str, Any]) -> None:
    (folder / "zeus.yaml").write_text(json.dumps(config))


def _run(folder: Path, scenario: Scenario, changes: Mapping[str, Any]) -> None:
    _write(folder, _config(scenario, changes))
    _zeus("run", "zeus.yaml", "go")


def _chat(folder: Path, scenario: Scenario, changes: Mapping[str, Any]) -> None:
    _write(folder, _config(scenario, changes))
    _zeus("chat", "zeus.yaml", stdin="go\n")


def _resume(folder: Path, scenario: Scenario, changes: Mapping[str, Any]) -> None:
    """Go on with a session that began before the key was set; `--continue` would look for one of the agent's name."""
    _write(folder, _config(Scenario(scenario.given), {}))
    _zeus("run", "zeus.yaml", "first")
    (begun,) = json.loads(_zeus("sessions", "list", "--json"))
    (folder / "requests.jsonl").unlink()
    # The session's one answer is before those of the scenario.
    later = Scenario(scenario.given, (*scenario.answers[-1:], *scenario.answers))
    _write(folder, _config(later, changes))
    _zeus("run", "zeus.yaml", "--session", begun["session"], "go")


def _sub_agent(folder: Path, scenario: Scenario, changes: Mapping[str, Any]) -> None:
    """Set the key in an agent's ``overrides``; the parent has it as it is without."""
    config = _config(scenario, {})
    work = {"description": "work", "prompt": "go", "agent": "helper"}
    parent = {"label": "parent", "answers": [json.dumps({"name": "task", "args": work}), "end"]}
    overrides = _laid({"model": {"watched": {"label": "own", "answers": list(scenario.answers)}}}, changes)
    config["tools"] = [*config.get("tools", ()), "subagents"]
    config["model"] = {"watched": parent}
    config["agents"] = {"helper": {"description": "Helps.", "overrides": overrides}}
    _write(folder, config)
    _zeus("run", "zeus.yaml", "go")


def _python(folder: Path, scenario: Scenario, changes: Mapping[str, Any]) -> None:
    _write(folder, _config(scenario, changes))

    async def play() -> None:
        async with Agent.from_config(directory=folder, environ={"ZEUS_TRUST": "all"}) as agent:
            async for _ in agent.stream("go"):
                pass

    try:
        asyncio.run(play())
    except ZeusError as error:
        pytest.fail(str(error))


Way = Callable[[Path, Scenario, Mapping[str, Any]], None]
PATHS: Final[Mapping[str, Way]] = MappingProxyType(
    {"run": _run, "chat": _chat, "resume": _resume, "sub-agent": _sub_agent, "Python": _python}
)


@cache
def played(path: str, scenario: Scenario, changes: str) -> Seen:
    """What is seen of a scenario on a path, with the keys of ``changes`` set; each is played once.

    Args:
        path: one of ``PATHS``.
        scenario: what is played.
        changes: keys and values, as JSON.
    """

    async def at_once(_seconds: float) -> None:
        return None

    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name).resolve() / "project"
        for file, text in (("probe.py", PROBE + WATCHED), *scenario.files):
            place = folder / file
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        patch.chdir(folder)
        patch.setattr("zeus_runtime.models.retry._sleep", at_once)
        patch.setenv("HOME", name)
        patch.setenv("ZEUS_TRUST", "all")
        patch.setenv("TERM", "dumb")
        for variable in ("ZEUS_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            patch.delenv(variable, raising=False)
        PATHS[path](folder, scenario, json.loads(changes))
        asked = folder / "requests.jsonl"
        lines = asked.read_text().splitlines() if asked.exists() else []
        requests = [each for each in map(json.loads, lines) if each["label"] != "parent"]
        present = [each for each in folder.rglob("*") if each.is_file() and each != asked]
        files = {
            each.relative_to(folder).as_posix(): each.read_bytes().decode(errors="replace")
            for each in present
        }
    return Seen(requests, files)
