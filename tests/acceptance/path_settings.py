"""Keys of the core that count in a run, and what each changes on every path."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.acceptance.paths import Scenario, Seen


@dataclass(frozen=True)
class PathFlip:
    """One key set to something else, on every path.

    Args:
        key: the key.
        value: what it is set to.
        see: what is looked at.
        before: what is seen without the key.
        after: what is seen with it.
        scenario: what is played; keys of one scenario that do not disturb each other are set together.
        alone: the key is set by itself.
        where: where the change is observed, for the docs.
    """

    key: str
    value: Any
    see: Callable[[Seen], Any]
    before: Any
    after: Any
    scenario: Scenario
    alone: bool = True
    where: str = "request"


def call(name: str, **arguments: Any) -> str:
    return json.dumps({"name": name, "args": arguments})


def prompted(pattern: str) -> Callable[[Seen], str | None]:
    def see(seen: Seen) -> str | None:
        found = re.search(pattern, seen.system)
        return None if found is None else found[found.lastindex or 0]

    return see


def asked(seen: Seen) -> int:
    """How often the model was asked."""
    return len(seen.requests)


def written(seen: Seen) -> list[str]:
    """Which files the agent wrote."""
    return sorted(name for name in seen.files if name.endswith("a.txt"))


def last_text(seen: Seen) -> str:
    return str(seen.requests[-1]["texts"][-1])


def with_tool(name: str) -> Callable[[Seen], bool]:
    return lambda seen: name in seen.requests[-1]["tools"]


def given(**config: Any) -> str:
    return json.dumps(config)


PROMPTED: Final = Scenario(
    given(tools=["filesystem"], prompt={"variables": {"team": "Troy"}}),
    files=(
        (".zeus/prompts/CORE.md", "I am {{agent_name}} of {{team}}."),
        (".zeus/prompts/WORKFLOW.md", "Work."),
        ("own.md", "Play."),
        ("AGENTS.md", "Use tabs."),
    ),
)
SPOKEN: Final = Scenario(
    given(tools=["filesystem"]),
    files=((".zeus/prompts/CORE.md", "I am {{agent_name}}."), *PROMPTED.files[1:]),
)
WRITES: Final = Scenario(
    given(tools=["filesystem"]), (call("write_file", path="/a.txt", content="x"), "done")
)
ASKS: Final = Scenario(given(tools=["filesystem"], middlewares=["approve"]), WRITES.answers)
READS: Final = Scenario(
    given(tools=["filesystem"]),
    (call("read_file", path="/kept.txt"), "done"),
    ((".env", "A_KEY=0123-abcdef\n"), ("kept.txt", "K=0123-abcdef\n"), ("sub/kept.txt", "below\n")),
)
PRICES: Final = {"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6}
STEPS: Final = Scenario(
    given(tools=["todos"], profiles={"models": {"watched": PRICES}}), (call("read_todos"), "done")
)
CIRCLE: Final = Scenario(given(tools=["todos"]), (*[call("read_todos")] * 5, "done"))
FAILS: Final = Scenario(answers=("fail",))
SLOW: Final = Scenario(given(tools=["todos"]), ("slow", "done"))


def spoken(key: str, value: Any, pattern: str, before: str | None, after: str | None) -> PathFlip:
    return PathFlip(key, value, prompted(pattern), before, after, SPOKEN, alone=False, where="system prompt")


ON_PATHS: Final = (
    spoken("name", "hermes", "I am (\\w+)", "zeus", "hermes"),
    spoken("instructions", "Only Go.", "Only Go.", None, "Only Go."),
    spoken("project_instructions", True, "Use tabs.", None, "Use tabs."),
    spoken("prompt.files.workflow", "own.md", "Work\\.|Play\\.", "Work.", "Play."),
    spoken("prompt.time.precision", "minute", "Today is|It is", "Today is", "It is"),
    spoken("prompt.time.timezone", "Pacific/Kiritimati", "Pacific/Kiritimati", None, "Pacific/Kiritimati"),
    spoken("prompt.tools_description", "brief", "\\(string, required\\)", "(string, required)", None),
    spoken("middlewares", ["seen"], "stamped", None, "stamped"),
    PathFlip("prompt.variables", {"team": "Argo"}, prompted("of (\\w+)"), "Troy", "Argo", PROMPTED),
    PathFlip("tools", ["todos"], with_tool("write_todos"), False, True, WRITES, where="tools"),
    PathFlip("mode", "ask", written, ["a.txt"], [], WRITES, where="files"),
    PathFlip("approvals", "run_everything", written, [], ["a.txt"], ASKS, where="files"),
    PathFlip("workspace.access", {"/a.txt": "read"}, written, ["a.txt"], [], WRITES, where="files"),
    PathFlip(
        "workspace.root", "sub", last_text, "1\tK=<secret:A_KEY>", "1\tbelow", READS, where="tool result"
    ),
    PathFlip(
        "secrets.to_model",
        "allow",
        last_text,
        "1\tK=<secret:A_KEY>",
        "1\tK=0123-abcdef",
        READS,
        where="tool result",
    ),
    PathFlip("limits.max_steps", 1, asked, 2, 1, STEPS),
    PathFlip("limits.max_cost_usd", 0.2, asked, 2, 1, STEPS),
    PathFlip("limits.repeated_calls", 4, asked, 6, 4, CIRCLE),
    PathFlip("retry.attempts", 2, asked, 3, 2, FAILS),
)


def changes(flip: PathFlip) -> str:
    """The keys that are set with ``flip``: those of its scenario, or it alone."""
    together = [each for each in ON_PATHS if each.scenario == flip.scenario and not each.alone]
    keys: Mapping[str, Any] = {each.key: each.value for each in ([flip] if flip.alone else together)}
    return json.dumps(keys)
