"""What is seen of the settings of summarization, caching and local_context."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Any, Final

from tests.acceptance.settings import Flip, Scene, See
from tests.support.provider import Provider, Reply
from zeus_runtime.plugin.model import ModelRequest
from zeus_runtime.testing import ScriptedModel, calling

SUMMARIZED: Final = {
    "middlewares": [{"summarization": {"trigger": {"messages": 5}, "keep": {"messages": 2}}}],
    "plugins": {"files": ["probe.py"]},
}
CHEAP_TO_SUMMARIZE: Final = {
    "input_cost_per_token": 1.0,
    "cache_read_cost_per_token": 1.0,
    "output_cost_per_token": 0.001,
}
CHEAP_TO_REREAD: Final = {
    "tools": ["gauge"],
    "plugins": {"files": ["probe.py"]},
    "middlewares": [{"summarization": {"trigger": {"messages": 9}, "keep": {"messages": 2}}}],
    "profiles": {
        "models": {
            "gpt-4o": {
                "max_input_tokens": 60_000,
                "input_cost_per_token": 1.0,
                "cache_read_cost_per_token": 0.1,
            }
        }
    },
}
CACHED: Final = {
    "model": {
        "litellm": {"model": "anthropic/claude-sonnet-4-5", "api_base": "${PROVIDER}", "api_key": "sk-given"}
    },
    "tools": ["filesystem"],
    "middlewares": [{"caching": {}}],
}
LOOKED: Final = {"middlewares": [{"local_context": {}}]}


async def _turns(scene: Scene) -> list[ModelRequest]:
    """The requests of four turns, summaries among them."""
    model = ScriptedModel([_answer] * 20, usage=None)
    session: str | None = None
    async with scene.agent(model) as agent:
        for turn in range(4):
            result = await agent.run(f"turn {turn} " * 700, session=session)
            session = result.session
    return model.requests


async def results_evicted(scene: Scene) -> int:
    """How many results the last request shows as pointers to files."""
    calls = [calling(("look", {"words": 1_000})) for _ in range(2)]
    played = await scene.play(*calls, *["done"] * 3)
    return sum("/large_tool_results/" in str(message.content) for message in played.requests[-1].messages)


def _answer(request: ModelRequest) -> str:
    return "so " * 300 if request.purpose == "summary" else "answer " * 300


async def messages_sent(scene: Scene) -> list[int]:
    """How many messages each turn sends."""
    return [len(request.messages) for request in await _turns(scene) if request.purpose == "turn"]


async def summarizer(scene: Scene) -> str:
    """Whose words the summary is: the model's, or without one an extract."""
    content = str((await _turns(scene))[-1].messages[0].content)
    return "extract" if "## What the user asked" in content else "model" if "so so" in content else "none"


async def first_turn_is_summarized(scene: Scene) -> bool:
    """Whether the summarizer sees the first turn."""
    asked = next(request for request in await _turns(scene) if request.purpose == "summary")
    return "turn 0" in str(asked.messages[0].content)


async def summary_is_asked_in_the_conversation(scene: Scene) -> bool:
    """Whether the summary call continues from the last request instead of showing a transcript."""
    speaking = calling(("speak", {"words": 700}))
    model = ScriptedModel([speaking] * 4 + ["so it was", "done"], usage=None)
    async with scene.agent(model) as agent:
        await agent.run("go")
    place = next(place for place, asked in enumerate(model.requests) if asked.purpose == "summary")
    before, asked = model.requests[place - 1 : place + 1]
    return list(asked.messages[: len(before.messages)]) == list(before.messages)


async def summary_is_cut(scene: Scene) -> bool:
    return "[the summary was cut here]" in str((await _turns(scene))[-1].messages[0].content)


async def users_words_after_the_summary(scene: Scene) -> bool:
    return "<user_message " in str((await _turns(scene))[-1].messages[0].content)


async def summary_prompt(scene: Scene) -> str:
    """The prompt of the summary call."""
    scene.write(".zeus/prompts/SUMMARY.md", "the usual")
    scene.write(".zeus/prompts/OTHER.md", "another")
    asked = next(request for request in await _turns(scene) if request.purpose == "summary")
    return asked.system


async def cache_marks(scene: Scene) -> Mapping[str, Any]:
    """Where cache points reach the provider, and for how long."""
    with Provider(Reply("x")) as provider:
        scene.environ |= {"PROVIDER": provider.anthropic}
        assert (await scene.play()).ending == "complete"
        body = provider.requests[0].body
    places = {
        "tools": body["tools"],
        "system": body["system"],
        "messages": [block for message in body["messages"] for block in message["content"]],
    }
    return {
        name: [block["cache_control"].get("ttl", "5m") for block in blocks if "cache_control" in block]
        for name, blocks in places.items()
    }


def workspace_section(*, lines: int | None = None, find: str | None = None) -> See:
    """The section of local_context: whether something is in it, or so many of its lines."""

    async def see(scene: Scene) -> Any:
        _repository(scene)
        request = (await scene.play("done")).requests[0]
        _, found, text = request.system.partition("# The workspace\n")
        if find is not None:
            return find in text
        return text.splitlines()[:lines] if found else None

    return see


def _repository(scene: Scene) -> None:
    scene.write("sub/deep/a.txt", "a")
    scene.write("sub/b.txt", "b")
    scene.write(".gitignore", "zeus.yaml\nprobe.py\n__pycache__\n.zeus\n")
    who = ("-c", "user.name=Iris", "-c", "user.email=i@example.org", "-c", "init.defaultBranch=main")
    for command in (
        ("init",),
        ("add", "."),
        ("commit", "-m", "First"),
        ("commit", "--allow-empty", "-m", "Second"),
    ):
        subprocess.run(["git", *who, *command], cwd=scene.folder, check=True, capture_output=True)
    scene.write("sub/b.txt", "changed")
    scene.write("sub/new.txt", "new")


SUMMARIES = (
    Flip("middleware:summarization.model", {"flaky": {}}, summarizer, "model", "extract", SUMMARIZED),
    Flip(
        "middleware:summarization.trim_tokens_to_summarize",
        100,
        first_turn_is_summarized,
        True,
        False,
        SUMMARIZED,
    ),
    Flip(
        "middleware:summarization.max_trigger_tokens",
        2_000,
        messages_sent,
        [1, 3, 5, 7],
        [1, 2, 2, 2],
        {"middlewares": [{"summarization": {}}]},
    ),
    Flip(
        "middleware:summarization.by_price",
        True,
        messages_sent,
        [1, 3, 5, 7],
        [1, 3, 5, 2],
        {
            "middlewares": [{"summarization": {"keep": {"tokens": 100}, "max_summary_tokens": 100}}],
            "profiles": {"models": {"gpt-4o": CHEAP_TO_SUMMARIZE}},
        },
    ),
    Flip(
        "middleware:summarization.cheaper_first",
        [],
        results_evicted,
        1,
        0,
        {
            "tools": ["gauge"],
            "plugins": {"files": ["probe.py"]},
            "middlewares": [
                {"eviction": {}},
                {"summarization": {"trigger": {"tokens": 9_000}, "keep": {"tokens": 4_500}}},
            ],
            "profiles": {"models": {"gpt-4o": {"max_input_tokens": 60_000}}},
        },
    ),
    Flip(
        "middleware:summarization.reuse_cache",
        False,
        summary_is_asked_in_the_conversation,
        True,
        False,
        CHEAP_TO_REREAD,
    ),
    Flip("middleware:summarization.max_summary_tokens", 100, summary_is_cut, False, True, SUMMARIZED),
    Flip(
        "middleware:summarization.user_message_tokens",
        0,
        users_words_after_the_summary,
        True,
        False,
        SUMMARIZED,
    ),
    Flip("middleware:summarization.prompt", "OTHER.md", summary_prompt, "the usual", "another", SUMMARIZED),
    Flip(
        "middleware:caching.places",
        ["system"],
        cache_marks,
        {"tools": ["5m"], "system": ["5m"], "messages": ["5m"]},
        {"tools": [], "system": ["5m"], "messages": []},
        CACHED,
        group="litellm",
    ),
    Flip(
        "middleware:caching.lifetime",
        "1h",
        cache_marks,
        {"tools": ["5m"], "system": ["5m"], "messages": ["5m"]},
        {"tools": ["1h"], "system": ["1h"], "messages": ["1h"]},
        CACHED,
        group="litellm",
    ),
    Flip(
        "middleware:caching.minimum_tokens",
        90_000,
        cache_marks,
        {"tools": ["5m"], "system": ["5m"], "messages": ["5m"]},
        {"tools": [], "system": [], "messages": []},
        CACHED,
        group="litellm",
    ),
    Flip(
        "middleware:local_context.max_tokens", 20, workspace_section(find="(cut here)"), False, True, LOOKED
    ),
    Flip("middleware:local_context.depth", 1, workspace_section(find="    deep/"), True, False, LOOKED),
    Flip("middleware:local_context.entries", 1, workspace_section(find="... 2 more"), False, True, LOOKED),
    Flip("middleware:local_context.ignore", ["de*"], workspace_section(find="deep/"), True, False, LOOKED),
    Flip(
        "middleware:local_context.git", False, workspace_section(find="Git branch: main"), True, False, LOOKED
    ),
    Flip("middleware:local_context.commits", 1, workspace_section(find=" First"), True, False, LOOKED),
    Flip("middleware:local_context.changes", 1, workspace_section(find="/sub/new.txt"), True, False, LOOKED),
    Flip(
        "middleware:local_context.timeout_seconds",
        0,
        workspace_section(lines=1),
        ["Git branch: main"],
        None,
        LOOKED,
    ),
)
