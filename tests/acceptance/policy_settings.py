"""What leaves the window, and how it is found again: the context policies."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.acceptance.settings import Flip, Played, Scene, See
from tests.acceptance.shared_settings import PROBED
from zeus_runtime.plugin.model import ModelRequest
from zeus_runtime.testing import ScriptedModel, calling


async def messages_sent(scene: Scene) -> list[int]:
    """How many messages the model gets in each of four turns."""
    session, counts = None, []
    for _ in range(4):
        played = await scene.play(*["answer"] * 4, session=session)
        session = played.events[-1].session  # type: ignore[union-attr]
        counts.append(len(played.requests[0].messages))
    return counts


SMALL_WINDOW = {"profiles": {"models": {"gpt-4o": {"max_input_tokens": 60_000, "max_output_tokens": 1}}}}
TALKATIVE = ["gauge", {"filesystem": {}}]


def policy(name: str, **options: Any) -> Mapping[str, Any]:
    """A context policy before one that drops all but two messages at the beginning of a turn."""
    return {
        "tools": TALKATIVE,
        "middlewares": [{name: options}, {"history": {"max_messages": 2, "chunk": 1}}],
    }


def shown_results(*calls: tuple[str, Mapping[str, Any]], prompt: str = "go") -> See:
    """Whether the last request shows its user's message or its tool results whole, or as a pointer to a file."""

    async def see(scene: Scene) -> list[str]:
        played = await scene.play(*(calling(each) for each in calls), "done", prompt=prompt)
        kind = "tool" if calls else "human"
        texts = [str(message.content) for message in played.requests[-1].messages if message.type == kind]
        return ["evicted" if "/large_tool_results/" in text else "whole" for text in texts]

    return see


def preview(call: tuple[str, Mapping[str, Any]]) -> See:
    """How many lines an evicted result's preview has, and the first of them."""

    async def see(scene: Scene) -> tuple[int, str]:
        played = await scene.play(calling(call), "done")
        _, *lines = str(played.requests[-1].messages[-1].content).splitlines()
        return len(lines), lines[0]

    return see


async def _arguments_shown(scene: Scene) -> list[str]:
    body = "word " * 1_500
    steps = [
        calling((name, arguments))
        for number in range(2)
        for name, arguments in (
            ("write_file", {"path": f"/{number}.txt", "content": body}),
            ("note", {"text": body}),
        )
    ]
    played = await scene.play(*steps, calling(("speak", {"words": 1})), "done")
    calls = [call for message in played.requests[-1].messages for call in getattr(message, "tool_calls", ())]
    return [text for call in calls for text in call["args"].values() if " characters; " in str(text)]


async def cut_arguments(scene: Scene) -> int:
    return len(await _arguments_shown(scene))


async def cut_argument(scene: Scene) -> str:
    return (await _arguments_shown(scene))[0].partition("argument")[0]


async def cut_mark(scene: Scene) -> str:
    """What is shown of a cut argument, without its length and where the rest is."""
    return (await _arguments_shown(scene))[0].partition(" [")[0]


async def turns(scene: Scene, *spoken: tuple[str, Sequence[Any]]) -> tuple[list[ModelRequest], list[str]]:
    """All requests of a conversation of several turns, and the results of its tools."""
    session, requests, results = None, [], []
    for prompt, answers in spoken:
        model = ScriptedModel(answers)
        async with scene.agent(model) as agent:
            events = [event async for event in agent.stream(prompt, session=session)]
        session = events[-1].session  # type: ignore[union-attr]
        requests += model.requests
        results += Played(events, ()).results
    return requests, results


async def pinned_texts(scene: Scene) -> list[str]:
    """What the last request still shows of turns that were dropped."""
    names = ("go", "two", "three", "four", "five")
    spoken = [(name, [f"said {name}"]) for name in names[1:]]
    requests, _ = await turns(scene, ("go", [calling(("speak", {"words": 1})), "said go"]), *spoken)
    return [str(message.content) for message in requests[-1].messages][:-3]


def recalled(*, item: str = "", length: bool = False) -> See:
    """How many finds a page of recall has, how long the first excerpt is, or which page of an item it shows."""

    async def see(scene: Scene) -> Any:
        told = [(f"find {number} " + "x" * 220, ["noted"]) for number in range(3)]
        call = calling(("recall", {"item": item} if item else {}))
        _, (result,) = await turns(scene, *told, ("find", [call, "done"]))
        if item:
            return re.search(r"page \d of \d", result)[0]  # type: ignore[index]
        finds = result.split("\n\n")[1:]
        return len(finds[0].splitlines()[1].removesuffix(" ...")) if length else len(finds)

    return see


POLICIES = (
    Flip(
        "middleware:history.max_messages",
        2,
        messages_sent,
        [1, 3, 5, 7],
        [1, 3, 1, 3],
        {"middlewares": [{"history": {}}]},
    ),
    Flip(
        "middleware:history.chunk",
        1,
        messages_sent,
        [1, 3, 1, 3],
        [1, 3, 3, 3],
        {"middlewares": [{"history": {"max_messages": 2}}]},
    ),
    *(
        Flip(f"middleware:{key}", value, see, before, after, {**SMALL_WINDOW, **PROBED, **given})
        for key, value, see, before, after, given in (
            (
                "eviction.max_tokens",
                50,
                shown_results(("speak", {"words": 100})),
                ["whole"],
                ["evicted"],
                policy("eviction"),
            ),
            (
                "eviction.max_fraction",
                0.001,
                shown_results(("speak", {"words": 100})),
                ["whole"],
                ["evicted"],
                policy("eviction"),
            ),
            (
                "eviction.tools",
                {"speak": 50},
                shown_results(("speak", {"words": 100})),
                ["whole"],
                ["evicted"],
                policy("eviction"),
            ),
            (
                "eviction.exclude",
                ["speak"],
                shown_results(("speak", {"words": 100})),
                ["evicted"],
                ["whole"],
                policy("eviction", max_tokens=50),
            ),
            (
                "eviction.max_user_tokens",
                50,
                shown_results(prompt="word " * 100),
                ["whole"],
                ["evicted"],
                policy("eviction"),
            ),
            (
                "eviction.preview_lines",
                3,
                preview(("speak", {"words": 200})),
                (10, "word 1"),
                (3, "word 1"),
                policy("eviction", max_tokens=180),
            ),
            (
                "eviction.preview_line_chars",
                1,
                preview(("speak", {"words": 200})),
                (10, "word 1"),
                (5, "w... [the line has 6 characters]"),
                policy("eviction", max_tokens=180),
            ),
            (
                "truncation.max_chars",
                9_999,
                cut_arguments,
                2,
                0,
                policy("truncation", trigger={"messages": 4}, keep={"messages": 2}),
            ),
            (
                "truncation.keep_chars",
                3,
                cut_argument,
                "word word word word ...(",
                "wor...(",
                policy("truncation", trigger={"messages": 4}, keep={"messages": 2}),
            ),
            (
                "truncation.truncation_text",
                "<more>",
                cut_mark,
                "word word word word ...(argument truncated)",
                "word word word word <more>",
                policy("truncation", trigger={"messages": 4}, keep={"messages": 2}),
            ),
            (
                "truncation.min_saving_tokens",
                9_999,
                cut_arguments,
                2,
                0,
                policy("truncation", trigger={"messages": 4}, keep={"messages": 2}),
            ),
            (
                "truncation.arguments",
                {"note": ["text"]},
                cut_arguments,
                2,
                4,
                policy("truncation", trigger={"messages": 4}, keep={"messages": 2}),
            ),
            (
                "dedupe.min_tokens",
                3_000,
                shown_results(*(("look", {"words": 100}),) * 2),
                ["evicted", "whole"],
                ["whole", "whole"],
                policy("dedupe"),
            ),
            (
                "dedupe.horizon_calls",
                0,
                shown_results(*(("look", {"words": 100}),) * 2),
                ["evicted", "whole"],
                ["whole", "whole"],
                policy("dedupe"),
            ),
            (
                "dedupe.exclude",
                ["look"],
                shown_results(*(("look", {"words": 100}),) * 2),
                ["evicted", "whole"],
                ["whole", "whole"],
                policy("dedupe"),
            ),
            ("pins.first_user", False, pinned_texts, ["go"], [], policy("pins")),
            ("pins.patterns", ["thre+"], pinned_texts, ["go"], ["go", "three"], policy("pins")),
            (
                "pins.roles",
                ["assistant"],
                pinned_texts,
                ["go", "three"],
                ["go", "said three"],
                policy("pins", patterns=["three"]),
            ),
            (
                "pins.tools",
                ["speak"],
                pinned_texts,
                ["go"],
                ["go", "", "word 1"],
                policy("pins"),
            ),
            ("pins.max_tokens", 1, pinned_texts, ["go"], [], policy("pins")),
            ("recall.results_per_page", 1, recalled(), 4, 1, policy("recall")),
            ("recall.excerpt_chars", 40, recalled(length=True), 227, 40, policy("recall")),
            ("recall.page_chars", 100, recalled(item="1"), "page 1 of 1", "page 1 of 3", policy("recall")),
        )
    ),
)
