"""A config with one key set to something else, and small agents to see what the key does."""

from __future__ import annotations

import copy
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from zeus_runtime import Agent, ConfigError, ZeusError
from zeus_runtime.events import Event
from zeus_runtime.plugin.model import ModelRequest, Usage
from zeus_runtime.testing import ScriptedModel

LISTS: Final = {"tool": "tools", "middleware": "middlewares"}
"""Component kinds whose Refs stand in a list, with the list's key."""
NESTED: Final[Mapping[str, tuple[Any, ...]]] = {
    "embedding": ("memory", "embeddings"),
    "vector_store": ("memory", "vector_store"),
    "memory": ("memory", "backend"),
    "sandbox": ("tools", 0, "sandbox", "backend"),
    "search": ("tools", 0, "web", "search"),
}
"""Component kinds whose one Ref stands deeper than at its own name, with the keys to it."""

PROBE: Final = '''
"""What tests look through: tools, a middleware that shows what it was given, models that fail or take their time."""
import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

from zeus_runtime.plugin import Component
from zeus_runtime.plugin.embedding import Calibration, Embedder
from zeus_runtime.plugin.middleware import Middleware, Section
from zeus_runtime.plugin.model import ModelError, ModelResponse, TextDelta
from zeus_runtime.plugin import hookimpl
from zeus_runtime.plugin.tool import tool

active = most = 0


@tool(access="read")
async def together() -> str:
    """Tell how many calls run at once."""
    global active, most
    active += 1
    most = max(active, most)
    for _ in range(200):
        if most == 5:
            break
        await asyncio.sleep(0.001)
    active -= 1
    return str(most)


@tool(access="read")
async def speak(words: int) -> str:
    """Say so many words, one a line.

    Args:
        words: how many.
    """
    return "\\n".join(f"word {number}" for number in range(1, words + 1))


@tool(access="read", replayable_result=True)
async def look(words: int) -> str:
    """See so many words, one a line.

    Args:
        words: how many.
    """
    return "\\n".join(f"word {number}" for number in range(1, words + 1))


@tool(access="write")
async def note(text: str) -> str:
    """Note something.

    Args:
        text: what.
    """
    return "noted"


class Seen(Middleware):
    def __init__(self, options, context):
        self.context = context

    async def sections(self, turn):
        return {Section.SKILLS: "stamped"}

    async def edits(self, view, budget):
        seen = {
            "input": budget.input_limit_tokens,
            "output": self.context.profile.max_output_tokens,
            "metadata": dict(self.context.config.metadata),
            "tokenizer": self.context.profile.tokenizer,
        }
        (self.context.directory / "seen.json").write_text(json.dumps(seen))
        return ()


class Flaky:
    name = "flaky"

    async def stream(self, request):
        raise ModelError("busy", kind="server")
        yield


class Slow:
    name = "slow"

    async def stream(self, request):
        from langchain_core.messages import AIMessage

        await asyncio.sleep(0.3)
        yield ModelResponse(AIMessage("at last"))


class Letters(Embedder):
    model, dimension, quick = "letters-1", 26, True
    calibration = Calibration(cosine_zero=0.5, cosine_one=0.99, trust=0.3)

    async def embed(self, texts, *, purpose):
        import numpy as np

        counts = [[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts]
        vectors = np.array(counts, dtype=np.float32)
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def noted(options, context):
    from zeus_plugins.vector_stores.sqlite.store import SqliteVectorStore

    (context.directory / "vectors.txt").write_text("opened")
    return SqliteVectorStore()


@hookimpl
def register_embeddings():
    return [Component("letters", create=lambda options, context: Letters())]


def jotted(options, context):
    (context.directory / "backend.txt").write_text("opened")
    return context.memory.in_database


@hookimpl
def register_memories():
    return [Component("jotted", create=jotted)]


@hookimpl
def register_vector_stores():
    return [Component("noted", create=noted)]


@hookimpl
def register_models():
    return [
        Component("flaky", create=lambda options, context: Flaky()),
        Component("slow", create=lambda options, context: Slow()),
    ]


@hookimpl
def register_tools():
    return [Component("gauge", create=lambda options, context: [together, speak, look, note])]


@hookimpl
def register_middlewares():
    return [Component("seen", create=Seen)]
'''


def with_key(config: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """``config`` and one key more; ``*`` is the model's own name, ``kind:name.option`` an option of its Ref, in which
    ``*`` is the first of a list.
    """
    changed: dict[str, Any] = copy.deepcopy(dict(config))
    kind, is_component, rest = key.partition(":")
    if is_component:
        name, *inside, option = rest.split(".")
        *parents, last = NESTED.get(kind, (LISTS.get(kind, kind),))
        place = changed
        for step in parents:
            place = place[step]
        written = place[last]
        refs = [_written_out(ref) for ref in (written if kind in LISTS else [written])]
        (options,) = (ref[name] for ref in refs if name in ref)
        for step in inside:
            options = options[0] if step == "*" else options.setdefault(step, {})
        options[option] = value
        place[last] = refs if kind in LISTS else refs[0]
        return changed
    *parents, last = key.split(".")
    place = changed
    for step in parents:
        place = place.setdefault(config["model"] if step == "*" else step, {})
    place[last] = value
    return changed


def _written_out(ref: str | dict[str, Any]) -> dict[str, Any]:
    """``name`` and ``{name: null}`` as ``{name: {}}``, where an option can be put."""
    if isinstance(ref, str):
        return {ref: {}}
    return {name: {} if options is None else options for name, options in ref.items()}


@dataclass
class Scene:
    """A folder with a config in it.

    Args:
        folder: the working directory.
        config: the config's JSON.
        environ: the environment.
    """

    folder: Path
    config: Mapping[str, Any]
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        (self.folder / "probe.py").write_text(PROBE)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def agent(self, model: Any = None) -> Agent:
        self.write("zeus.yaml", json.dumps(self.config))
        return Agent.from_config(directory=self.folder, environ=self.environ, model=model)

    def problems(self) -> tuple[str, ...]:
        """The codes of what is wrong with the config."""
        try:
            _ = self.agent().plan
        except ConfigError as error:
            return tuple(diagnostic.code for diagnostic in error.diagnostics)
        except ZeusError as error:
            return (error.code,)
        return ()

    async def play(self, *answers: Any, prompt: str = "go", session: str | None = None) -> Played:
        """One run with a model that gives ``answers``; without any, with the config's own model."""
        model = (
            ScriptedModel(
                answers, usage=Usage(1000, 100, 200, 300, cache_write_1h_tokens=100), by_position=True
            )
            if answers
            else None
        )
        async with self.agent(model) as agent:
            events = [event async for event in agent.stream(prompt, session=session)]
        return Played(events, model.requests if model else [])

    def files(self) -> set[str]:
        """The files of the folder, without what the scene put there and SQLite's side files."""
        present = {
            path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file()
        }
        own = {"zeus.yaml", "probe.py"}
        return {
            name
            for name in present - own
            if "__pycache__" not in name and not name.endswith(("-wal", "-shm"))
        }


@dataclass(frozen=True)
class Played:
    """What a run gave."""

    events: Sequence[Event]
    requests: Sequence[ModelRequest]

    def all(self, kind: str) -> list[Any]:
        """The events of one type."""
        return [event for event in self.events if event.type == kind]

    @property
    def ending(self) -> str:
        """``complete``, or the code of the error."""
        last = self.events[-1]
        return last.type if last.type == "complete" else last.code  # type: ignore[union-attr]

    @property
    def results(self) -> list[str]:
        """What the tools answered."""
        return [result.content for result in self.all("tool_call_result")]


See = Callable[[Scene], Awaitable[Any]]
"""What is looked at."""


@dataclass(frozen=True)
class Flip:
    """One key set to something else.

    Args:
        key: as ``schema_leaves`` names it.
        value: what it is set to.
        see: what is looked at.
        before: what is seen without the key.
        after: what is seen with it.
        given: what the config says in both cases.
        group: tests that load litellm say so: one worker loads it for all.
    """

    key: str
    value: Any
    see: See
    before: Any
    after: Any
    given: Mapping[str, Any] = field(default_factory=dict)
    group: str = "settings"
