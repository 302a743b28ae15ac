"""No inert setting: every documented key, set to something else, changes something that can be seen.

A key is in ``FLIPS`` with what is seen before and after it is set; a key that is not there fails the test, so no
setting can be added that does nothing.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, redirect_stdout
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from tests.acceptance import vectors_asked
from tests.acceptance.agent_settings import AGENTS
from tests.acceptance.approval_settings import APPROVALS
from tests.acceptance.context_settings import (
    CACHED,
    CHEAP_TO_REREAD,
    LOOKED,
    SUMMARIZED,
    cache_marks,
    first_turn_is_summarized,
    summarizer,
    summary_is_asked_in_the_conversation,
    summary_is_cut,
    summary_prompt,
    workspace_section,
)
from tests.acceptance.context_settings import messages_sent as messages_of_turns
from tests.acceptance.embedding_settings import EMBEDDINGS
from tests.acceptance.knowledge_settings import KNOWLEDGE, LINKED
from tests.acceptance.mcp_settings import OPTIONS, SERVERS
from tests.acceptance.memory_settings import (
    DRAWN,
    SAVING,
    SHOWN,
    confidence_of_own_accord,
    profiled,
    prompted,
    saved_as,
    searched,
)
from tests.acceptance.picture_settings import PICTURES
from tests.acceptance.resource_settings import RESOURCES
from tests.acceptance.sandbox_settings import DOCKED, SANDBOXED
from tests.acceptance.settings import (
    REQUIRED,
    Flip,
    Played,
    Scene,
    See,
    component_keys,
    core_keys,
    with_key,
)
from tests.acceptance.skill_settings import SKILLS
from tests.acceptance.ssh_settings import SSHED
from tests.acceptance.web_settings import WEBBED
from tests.support.provider import Provider, Reply
from zeus_runtime import MissingError, ModelRequest, Section
from zeus_runtime.cli import main
from zeus_runtime.config.schema import compose, core_schema
from zeus_runtime.memory.service import MemoryService
from zeus_runtime.testing import ScriptedModel, calling

PRICES = {"max_input_tokens": 9_000, "input_cost_per_token": 1, "output_cost_per_token": 10}
PRICED = {"model": "acme-1", "profiles": {"models": {"acme-1": PRICES}}}
FLAKY = {"model": {"flaky": {}}, "plugins": {"files": ["probe.py"]}}
PROBED = {"plugins": {"files": ["probe.py"]}, "middlewares": ["seen"]}
FILES = {"tools": [{"filesystem": {}}]}
SERVED = {
    "model": {"litellm": {"model": "openai/gpt-4o", "api_base": "${PROVIDER}", "api_key": "sk-given"}},
    "retry": {"attempts": 1},
}
LOCAL_ZONE = datetime.now().astimezone().tzname()


async def problems(scene: Scene) -> tuple[str, ...]:
    return scene.problems()


async def profile(scene: Scene) -> tuple[int, int | None, str]:
    found = scene.agent().plan.profile
    return found.max_input_tokens, found.max_output_tokens, found.tokenizer


def section(name: Section) -> See:
    """The text of one of the prompt's sections; Homes near and far have one of their own."""

    async def see(scene: Scene) -> str:
        for file in ("CORE", "SOUL", "TOOLS", "WORKFLOW", "MEMORY", "agent_mode"):
            scene.write(f".zeus/prompts/{file}.md", f"{file} of the Home")
        scene.write("own.md", "my own")
        return scene.agent().plan.stable[name]

    return see


def core_prompt(text: str) -> See:
    """Section 1, or what is wrong, where its file says ``text``."""

    async def see(scene: Scene) -> str | tuple[str, ...]:
        scene.write(".zeus/prompts/CORE.md", text)
        return scene.problems() or scene.agent().plan.stable[Section.CORE]

    return see


async def word_tokens(scene: Scene) -> int:
    """Of a text that o200k counts as 15 and a tokenizer of words as 2."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit

    for name, vocabulary in (("words.json", {"[UNK]": 0}), ("other.json", {"[UNK]": 0, "a": 1})):
        tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = WhitespaceSplit() if name == "words.json" else None
        tokenizer.save(str(scene.folder / name))
    return scene.agent().plan.token_counter.text("antidisestablishmentarianism floccinaucinihilipilification")


def saved(*texts: str, scope: str = "user", confidence: float = 0.9) -> See:
    """What becomes of the last of several memories that the agent saves: the outcome, or why it was rejected."""

    async def see(scene: Scene) -> str | None:
        memory = remembering(scene)
        for text in texts:
            last = await memory.add_extracted_memory(text, scope=scope, confidence=confidence)
        await memory.aclose()
        return last.code or last.outcome

    return see


def remembering(scene: Scene) -> MemoryService:
    memory = scene.agent().plan.build.memory
    assert memory is not None
    return memory


async def rememberer(scene: Scene) -> str:
    memory = remembering(scene)
    await memory.add_explicit_memory("The user plays the piano")
    (item,) = await memory.list_memories()
    await memory.aclose()
    return item.scope_id


async def embedded_by(scene: Scene) -> bool:
    memory = remembering(scene)
    item = (await memory.add_explicit_memory("The user plays the piano")).item
    await memory.aclose()
    assert item is not None
    assert item.embedding is not None
    return item.embedding.model == "letters-1"


async def vectors_noted(scene: Scene) -> bool:
    await rememberer(scene)
    return "vectors.txt" in scene.files()


async def extractions_of_an_hour_ago(scene: Scene) -> int:
    memory = remembering(scene)
    await memory.add_extracted_memory("The user plays the piano", confidence=1.0)
    await memory.aclose()
    with closing(sqlite3.connect(scene.folder / ".zeus/zeus.db")) as connection, connection:
        connection.execute("UPDATE extraction_log SET at_ms = at_ms - 3600000")
    used = (await memory.check_rate_limit()).used
    await memory.aclose()
    return used


async def pianos(scene: Scene) -> tuple[int, bool]:
    """How many of seven memories a search finds, and whether a prompt gets any."""
    memory = remembering(scene)
    for name in ("Ann", "Bob", "Cem", "Dan", "Eve", "Fay", "Gus"):
        await memory.add_explicit_memory(f"{name} has played the piano since school")
    found = await memory.search_memories("piano")
    await memory.aclose()
    return len(found), bool(memory.format_memories_for_prompt(found).text)


TABS = ("The user prefers tabs over spaces", "The user prefers tabs instead of spaces")
THEME = tuple(
    f"The user prefers the {theme} theme in editor, terminal, browser, notes and desktop"
    for theme in ("dark", "light")
)
REMEMBERING: dict[str, Any] = {"memory": {"embeddings": "static"}}


def remembering_with(**thresholds: float) -> dict[str, Any]:
    return {"memory": {"embeddings": "static", "thresholds": thresholds}}


async def tool_names(scene: Scene) -> list[str]:
    (request,) = (await scene.play("done")).requests
    return [tool.name for tool in request.tools]


async def described_parameters(scene: Scene) -> int:
    return scene.agent().plan.stable[Section.TOOLS].count("(string, required)")


def system(pattern: str) -> See:
    """What a pattern finds in the system prompt."""

    async def see(scene: Scene) -> str | None:
        (request,) = (await scene.play("done")).requests
        found = re.search(pattern, request.system)
        return None if found is None else found[found.lastindex or 0]

    return see


def tool(name: str, /, *also: tuple[str, Mapping[str, Any]], **arguments: Any) -> See:
    """What a tool answers in a folder with a few files; with ``also``, the last of several calls."""

    async def see(scene: Scene) -> str:
        scene.write("three.txt", "one\ntwo\nthree\n")
        scene.write("wide.txt", "x" * 30)
        scene.write("long.txt", "word\n" * 500)
        scene.write("sub/venv/a.log", "log")
        scene.write("sub/b.log", "log")
        scene.write("aaa.txt", "a" * 40 + "b\n")
        steps = [calling(each) for each in (*also, (name, arguments))]
        return (await scene.play(*steps, "done")).results[-1]

    return see


def stopped(see: See) -> See:
    """After how long a search gave up; how far it came by then is the machine's affair."""

    async def found(scene: Scene) -> str:
        given = re.search(r"stopped after [\d.]+ seconds", str(await see(scene)))
        return "" if given is None else given[0]

    return found


def last_line(see: See) -> See:
    async def last(scene: Scene) -> str:
        return (await see(scene)).splitlines()[-1]

    return last


def written(path: str, name: str) -> See:
    """Where a file is on disk that the model writes."""

    async def see(scene: Scene) -> list[str]:
        (scene.folder / "elsewhere").mkdir()
        await scene.play(calling(("write_file", {"path": path, "content": "x"})), "done")
        return sorted(file for file in scene.files() if file.endswith(name))

    return see


async def databases(scene: Scene) -> list[str]:
    await scene.play("done")
    return sorted(file for file in scene.files() if file.endswith(".db"))


async def misses_its_database(scene: Scene) -> bool:
    """Whether the checkpointer says that the threads' database is none for it; no server runs here."""
    with pytest.raises(MissingError) as missing:
        await scene.play("done")
    return "storage.url names another" in missing.value.message


async def graph_is_asked(scene: Scene) -> tuple[bool, str | None]:
    """Whether pgvector asks its HNSW index where 25,000 vectors are in reach, and with which ef_search."""
    plan = scene.agent().plan
    assert plan.memory is not None
    return vectors_asked.asked(plan.memory.vector_store.create(plan.build))


async def vectors_are_kept(scene: Scene) -> bool:
    """Whether pgvector keeps in the process what is asked again."""
    plan = scene.agent().plan
    assert plan.memory is not None
    return vectors_asked.copied(plan.memory.vector_store.create(plan.build))


async def chroma_folder(scene: Scene) -> list[str]:
    """Where the vectors of a memory are."""
    memory = remembering(scene)
    await memory.add_explicit_memory("The user plays the piano")
    await memory.aclose()
    return [str(file.relative_to(scene.folder)) for file in scene.folder.rglob("zeus-vectors.json")]


PGVECTOR: dict[str, Any] = {"memory": {"embeddings": "static", "vector_store": {"pgvector": {"kept_mb": 0}}}}


async def write_is_refused(scene: Scene) -> bool:
    call = calling(("write_file", {"path": "/a.txt", "content": "x"}))
    (result,) = (await scene.play(call, "done")).all("tool_call_result")
    return bool(result.is_error)


async def keeps_checkpoints(scene: Scene) -> bool:
    """Whether the threads' database holds the checkpoints too."""
    await scene.play("done")
    with closing(sqlite3.connect(scene.folder / ".zeus/zeus.db")) as database:
        return bool(
            database.execute("SELECT 1 FROM sqlite_master WHERE name = 'checkpoint_write'").fetchall()
        )


async def ending(scene: Scene) -> str:
    return (await scene.play(calling(("read_todos", {})), "done")).ending


async def own_models_ending(scene: Scene) -> str:
    return (await scene.play()).ending


async def most_at_once(scene: Scene) -> str:
    calls = calling(*(("together", {}) for _ in range(5)))
    return max((await scene.play(calls, "done")).results)


async def waits(scene: Scene) -> list[float]:
    return [round(event.wait_seconds, 4) for event in (await scene.play()).all("model_retry")]


async def cost(scene: Scene) -> float:
    """Of 500 fresh, 200 read, 300 written (100 for an hour) and 100 output tokens."""
    (usage,) = (await scene.play("done")).all("token_usage")
    return round(usage.cost_usd, 6)


def seen(name: str) -> See:
    """What a middleware was given."""

    async def see(scene: Scene) -> Any:
        await scene.play("done")
        return json.loads((scene.folder / "seen.json").read_text())[name]

    return see


async def fallback(scene: Scene) -> int:
    scene.write("extra/configs/profiles.yaml", "models: {acme-1: {max_input_tokens: 5000}}")
    return scene.agent().plan.profile.max_input_tokens


async def agent_name(scene: Scene) -> str:
    scene.write("base.yaml", "name: based\n")
    return scene.agent().plan.config.name


async def description(scene: Scene) -> str:
    """What ``zeus plan`` says the agent is for."""
    scene.agent()
    shown = io.StringIO()
    with redirect_stdout(shown):
        assert main(["plan", str(scene.folder / "zeus.yaml"), "--format", "json"]) == 0
    return str(json.loads(shown.getvalue())["description"])


async def messages_sent(scene: Scene) -> list[int]:
    """How many messages the model gets in each of four turns."""
    session, counts = None, []
    for _ in range(4):
        played = await scene.play(*["answer"] * 4, session=session)
        session = played.events[-1].session  # type: ignore[union-attr]
        counts.append(len(played.requests[0].messages))
    return counts


def sent(path: str) -> See:
    """What of a request reaches the provider: ``body.seed``, ``headers.authorization``, ``path``."""

    async def see(scene: Scene) -> Any:
        with Provider(Reply("x")) as provider:
            scene.environ |= {"PROVIDER": provider.openai, "OPENAI_API_KEY": "sk-environment"}
            assert (await scene.play()).ending == "complete"
            (request,) = provider.requests
        holder, _, name = path.partition(".")
        found = getattr(request, holder)
        return found.get(name) if name else found

    return see


async def impatience(scene: Scene) -> str:
    """Which option ends the call when the provider falls silent."""
    with Provider(Reply("Hello", hang_after=1)) as provider:
        scene.environ |= {"PROVIDER": provider.openai}
        last = (await scene.play()).events[-1]
    found = re.search(r"\((\w+_seconds)\)", last.message)  # type: ignore[union-attr]
    assert found is not None, last
    return found[1]


def replayed(prompt: str) -> See:
    """How a replay of what was recorded for the prompt "go" ends: its answer, or the error's code."""

    async def see(scene: Scene) -> str:
        wanted = scene.config
        for name in ("one", "two"):
            scene.config = {"version": 1, "model": "gpt-4o"}
            async with scene.agent(ScriptedModel([f"answer {name}"])) as agent:
                with agent.record(f"{name}.jsonl"):
                    await agent.run("go")
        scene.config = wanted
        played = await scene.play(prompt=prompt)
        return played.events[-1].answer if played.ending == "complete" else played.ending  # type: ignore[union-attr]

    return see


def replay_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float, result: Any = None) -> Any:
        pauses.append(seconds)
        return await sleep(0, result)

    monkeypatch.setattr(asyncio, "sleep", pause)
    return pauses


async def seven_seconds(scene: Scene) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        pauses = replay_pauses(patch)
        await replayed("go")(scene)
    return 7.0 in pauses


def todos(*contents: str) -> See:
    given = [{"content": content, "status": "pending"} for content in contents]
    return tool("write_todos", todos=given)


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


EVICTING = {
    "plugins": {"files": ["probe.py"]},
    "tools": ["gauge"],
    "middlewares": [{"eviction": {"max_tokens": 50}}],
}


async def archived(scene: Scene) -> list[str]:
    """Which archived files are left after a run that archives one more."""
    for name, days in (("old", 40), ("new", 20)):
        scene.write(f".zeus/large_tool_results/{name}", "x" * 2_000)
        path = scene.folder / ".zeus/large_tool_results" / name
        moment = time.time() - days * 86_400
        os.utime(path, (moment, moment))
    given = [AIMessage("", tool_calls=[{"name": "speak", "args": {"words": 100}, "id": "s"}]), "done"]
    assert (await scene.play(*given)).ending == "complete"
    return sorted(path.name for path in (scene.folder / ".zeus/large_tool_results").iterdir())


async def kept_sessions(scene: Scene) -> tuple[list[str], list[str]]:
    """Which sessions are listed, and which are archived, when a third run ends and the first is from long ago."""
    for prompt in ("first", "second"):
        await scene.play("done", prompt=prompt)
    with closing(sqlite3.connect(scene.folder / ".zeus" / "zeus.db")) as database, database:
        database.execute("DELETE FROM upkeep")
        database.execute("UPDATE thread SET updated_ms = 1 WHERE title = 'first'")
    await scene.play("done", prompt="third")
    async with scene.agent() as agent:
        log = (await agent._open()).log
        listed, archived = await log.sessions(), await log.sessions(archived=True)
    return sorted(each.title for each in listed), sorted(each.title for each in archived)


async def old_archives(scene: Scene) -> list[str]:
    """Which archived sessions are left when a run ends and one was archived long ago."""
    await scene.play("done", prompt="first")
    async with scene.agent() as agent:
        (first,) = await agent.sessions()
        await agent.archive(first.session)
    with closing(sqlite3.connect(scene.folder / ".zeus" / "zeus.db")) as database, database:
        database.execute("DELETE FROM upkeep")
        database.execute("UPDATE checkpoint_archive SET archived_ms = 1")
    await scene.play("done", prompt="second")
    async with scene.agent() as agent:
        return [each.title for each in await (await agent._open()).log.sessions(archived=True)]


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
    return [text for call in calls for text in call["args"].values() if "(argument truncated)" in str(text)]


async def cut_arguments(scene: Scene) -> int:
    return len(await _arguments_shown(scene))


async def cut_argument(scene: Scene) -> str:
    return (await _arguments_shown(scene))[0].partition("argument")[0]


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


def of_model(option: str, value: Any, see: See, before: Any, after: Any, **options: Any) -> Flip:
    """A flip of an option of litellm, seen by the provider."""
    model = {"litellm": {**SERVED["model"]["litellm"], **options}}  # type: ignore[index]
    kept = {key: each for key, each in model["litellm"].items() if each is not None}
    given = {**SERVED, "model": {"litellm": kept}}
    return Flip(f"model:litellm.{option}", value, see, before, after, given, group="litellm")


CORE = (
    Flip("version", 7, problems, (), ("unsupported-version",)),
    Flip(
        "model", "claude-3-5-sonnet", profile, (128_000, 16_384, "o200k_base"), (200_000, 8_192, "estimate")
    ),
    Flip("name", "hermes", core_prompt("I am {{agent_name}}"), "I am zeus", "I am hermes"),
    Flip("description", "writes odes", description, "", "writes odes"),
    Flip("mode", "ask", write_is_refused, False, True, FILES),
    *(
        Flip(f"prompt.files.{name}", "own.md", section(Section(name)), f"{file} of the Home", "my own")
        for name, file in (
            ("core", "CORE"),
            ("soul", "SOUL"),
            ("tools", "TOOLS"),
            ("workflow", "WORKFLOW"),
            ("memory", "MEMORY"),
            ("mode", "agent_mode"),
        )
    ),
    Flip("prompt.variables", {"team": "Argo"}, core_prompt("Of {{team}}"), ("unknown-variable",), "Of Argo"),
    Flip("prompt.tools_description", "brief", described_parameters, 8, 0, FILES),
    Flip("prompt.time.precision", "minute", system("Today is|It is"), "Today is", "It is"),
    Flip(
        "prompt.time.timezone",
        "Pacific/Kiritimati",
        system("the time zone is (.*)\\."),
        LOCAL_ZONE,
        "Pacific/Kiritimati",
    ),
    Flip("tools", ["todos"], tool_names, [], ["write_todos", "read_todos"]),
    Flip("middlewares", ["seen"], system("stamped"), None, "stamped", {"plugins": {"files": ["probe.py"]}}),
    Flip("workspace.root", "elsewhere", written("/a.txt", "a.txt"), ["a.txt"], ["elsewhere/a.txt"], FILES),
    Flip(
        "workspace.routes",
        {"/kept/": "elsewhere"},
        written("/kept/a.txt", "a.txt"),
        ["kept/a.txt"],
        ["elsewhere/a.txt"],
        FILES,
    ),
    Flip("archive.max_age_days", None, archived, ["new", "s"], ["new", "old", "s"], EVICTING),
    Flip("archive.max_megabytes", 0.002, archived, ["new", "s"], ["s"], EVICTING),
    Flip("storage.url", "sqlite:///other.db", databases, [".zeus/zeus.db"], ["other.db"]),
    Flip("counter", {"tokenizer_file": {"path": "words.json"}}, word_tokens, 15, 2),
    Flip(
        "retention.max_age_days",
        30,
        kept_sessions,
        (["first", "second", "third"], []),
        (["second", "third"], ["first"]),
    ),
    Flip(
        "retention.max_sessions",
        1,
        kept_sessions,
        (["first", "second", "third"], []),
        (["third"], ["first", "second"]),
    ),
    Flip(
        "retention.archive",
        False,
        kept_sessions,
        (["second", "third"], ["first"]),
        (["second", "third"], []),
        {"retention": {"max_age_days": 30}},
    ),
    Flip("retention.archived_max_age_days", 30, old_archives, ["first"], []),
    Flip("memory.user", "ann", rememberer, "local", "ann", REMEMBERING),
    Flip("memory.project", "p", saved("a whole text", scope="project"), "no_scope", "stored", REMEMBERING),
    Flip(
        "memory.role",
        "viewer",
        saved("a whole text", scope="project"),
        "stored",
        "forbidden",
        {"memory": {"project": "p", "embeddings": "static"}},
    ),
    Flip("memory.embeddings", "letters", embedded_by, False, True, {"memory": {}, **PROBED}),
    Flip("memory.vector_store", "noted", vectors_noted, False, True, {**REMEMBERING, **PROBED}),
    Flip(
        "memory.thresholds.min_confidence",
        0.95,
        saved("a whole text"),
        "stored",
        "low_confidence",
        REMEMBERING,
    ),
    Flip("memory.thresholds.duplicate_threshold", 1, saved(*TABS), "duplicate", "stored", REMEMBERING),
    Flip(
        "memory.thresholds.related_threshold",
        1,
        saved(*THEME),
        "superseded",
        "stored",
        remembering_with(related_words=1),
    ),
    Flip(
        "memory.thresholds.related_words",
        1,
        saved(*THEME),
        "superseded",
        "stored",
        remembering_with(related_threshold=1),
    ),
    Flip(
        "memory.thresholds.max_extractions", 0, saved("a whole text"), "stored", "rate_limited", REMEMBERING
    ),
    Flip("memory.thresholds.extraction_window_hours", 0.5, extractions_of_an_hour_ago, 1, 0, REMEMBERING),
    Flip("memory.thresholds.min_length", 13, saved("a whole text"), "stored", "too_short", REMEMBERING),
    Flip("memory.thresholds.max_length", 11, saved("a whole text"), "stored", "too_long", REMEMBERING),
    Flip("memory.thresholds.top_k", 2, pianos, (5, True), (2, True), REMEMBERING),
    Flip("memory.thresholds.max_prompt_characters", 9, pianos, (5, True), (5, False), REMEMBERING),
    Flip(
        "checkpointer",
        "memory",
        keeps_checkpoints,
        True,
        False,
    ),
    Flip("limits.max_steps", 1, ending, "complete", "limit", {"tools": ["todos"]}),
    Flip(
        "limits.timeout_seconds",
        0.05,
        own_models_ending,
        "complete",
        "limit",
        {**FLAKY, "model": {"slow": {}}},
    ),
    Flip("limits.max_cost_usd", 0.01, ending, "complete", "limit", {**PRICED, "tools": ["todos"]}),
    Flip(
        "limits.max_parallel_tools",
        1,
        most_at_once,
        "5",
        "1",
        {"tools": ["gauge"], "plugins": {"files": ["probe.py"]}},
    ),
    Flip("retry.attempts", 2, waits, [0.875, 1.75], [0.875], FLAKY),
    Flip("retry.initial_seconds", 2, waits, [0.875, 1.75], [1.75, 3.5], FLAKY),
    Flip("retry.factor", 3, waits, [0.875, 1.75], [0.875, 2.625], FLAKY),
    Flip("retry.max_seconds", 1.5, waits, [0.875, 1.75], [0.875, 1.3125], FLAKY),
    Flip("retry.jitter", 0, waits, [0.875, 1.75], [1.0, 2.0], FLAKY),
    Flip("profiles.strict", True, problems, (), ("unknown-model",), {"model": "gpt-5-2"}),
    Flip("profiles.models.*.max_input_tokens", 7_000, seen("input"), 128_000, 7_000, PROBED),
    Flip("profiles.models.*.max_output_tokens", 7_000, seen("output"), 16_384, 7_000, PROBED),
    Flip(
        "profiles.models.*.tokenizer", "cl100k_base", seen("tokenizer"), "o200k_base", "cl100k_base", PROBED
    ),
    Flip("profiles.models.*.input_cost_per_token", 2, cost, 2_000, 3_000, PRICED),
    Flip("profiles.models.*.output_cost_per_token", 20, cost, 2_000, 3_000, PRICED),
    Flip("profiles.models.*.cache_read_cost_per_token", 0, cost, 2_000, 1_800, PRICED),
    Flip("profiles.models.*.cache_write_cost_per_token", 0, cost, 2_000, 1_700, PRICED),
    Flip("profiles.models.*.cache_write_1h_cost_per_token", 0, cost, 2_000, 1_900, PRICED),
    Flip("plugins.disable", ["todos"], problems, (), ("unknown-component",), {"tools": ["todos"]}),
    Flip("plugins.only", ["litellm", "sqlite"], problems, (), ("unknown-component",), {"tools": ["todos"]}),
    Flip("plugins.files", ["probe.py"], problems, ("unknown-component",), (), {"tools": ["gauge"]}),
    Flip("homes", ["extra"], fallback, 64_000, 5_000, {"model": "acme-1"}),
    *AGENTS,
    *LINKED,
    *PICTURES,
    Flip("metadata", {"owner": "Iris"}, seen("metadata"), {}, {"owner": "Iris"}, PROBED),
    *SERVERS,
)
"""``metadata`` is the user's own: all it does is to be there for plugins."""

EXTENDS = Flip("extends", "./base.yaml", agent_name, "zeus", "based")

COMPONENTS = (
    of_model("model", "openai/gpt-4.1", sent("body.model"), "gpt-4o", "gpt-4.1"),
    of_model(
        "api_key",
        "sk-yaml",
        sent("headers.authorization"),
        "Bearer sk-environment",
        "Bearer sk-yaml",
        api_key=None,
    ),
    of_model("api_base", "${PROVIDER}/far", sent("path"), "/v1/chat/completions", "/v1/far/chat/completions"),
    of_model("temperature", 0, sent("body.temperature"), None, 0),
    of_model("top_p", 0.5, sent("body.top_p"), None, 0.5),
    of_model("max_tokens", 77, sent("body.max_tokens"), None, 77),
    of_model("headers", {"x-team": "blue"}, sent("headers.x-team"), None, "blue"),
    of_model("extra", {"seed": 3}, sent("body.seed"), None, 3),
    of_model("stream", False, sent("body.stream"), True, None),
    of_model("timeout_seconds", 0.1, impatience, "idle_seconds", "timeout_seconds", idle_seconds=0.4),
    of_model("idle_seconds", 0.1, impatience, "timeout_seconds", "idle_seconds", timeout_seconds=0.4),
    Flip(
        "model:replay.cassette",
        "two.jsonl",
        replayed("go"),
        "answer one",
        "answer two",
        {"model": {"replay": {"cassette": "one.jsonl"}}},
    ),
    Flip(
        "model:replay.match",
        "order",
        replayed("other words"),
        "model_divergence",
        "answer one",
        {"model": {"replay": {"cassette": "one.jsonl"}}},
    ),
    Flip(
        "model:replay.pause_seconds",
        7,
        seven_seconds,
        False,
        True,
        {"model": {"replay": {"cassette": "one.jsonl"}}},
    ),
    Flip(
        "tool:filesystem.read_only",
        True,
        tool_names,
        ["ls", "read_file", "write_file", "edit_file", "glob", "grep"],
        ["ls", "read_file", "glob", "grep"],
        FILES,
    ),
    Flip(
        "tool:filesystem.max_read_lines",
        1,
        tool("read_file", path="/three.txt"),
        "1\tone\n2\ttwo\n3\tthree",
        "1\tone\n[lines 1-1 of 3; go on with offset=2]",
        FILES,
    ),
    Flip(
        "tool:filesystem.max_line_chars",
        20,
        tool("read_file", path="/wide.txt"),
        f"1\t{'x' * 30}",
        f"1\t{'x' * 20}... [cut: the line has 30 bytes; grep shows parts of it]",
        FILES,
    ),
    Flip(
        "tool:filesystem.max_result_chars",
        1_000,
        last_line(tool("read_file", path="/long.txt")),
        "500\tword",
        "[lines 1-123 of 500; go on with offset=124]",
        FILES,
    ),
    Flip(
        "tool:filesystem.max_results",
        1,
        tool("glob", pattern="*.txt"),
        "/aaa.txt\n/long.txt\n/three.txt\n/wide.txt",
        "/aaa.txt\n[the first 1; there are more: narrow path or pattern]",
        FILES,
    ),
    Flip(
        "tool:filesystem.max_write_bytes",
        3,
        last_line(tool("write_file", path="/new.txt", content="four")),
        "Created /new.txt (1 line, 4 bytes).",
        "  Write several smaller files.",
        FILES,
    ),
    Flip(
        "tool:filesystem.timeout_seconds",
        0.2,
        stopped(tool("grep", pattern="(a|aa)+$", path="/aaa.txt")),
        "stopped after 0.4 seconds",
        "stopped after 0.2 seconds",
        {"tools": [{"filesystem": {"timeout_seconds": 0.4}}]},
    ),
    Flip(
        "tool:filesystem.ignore",
        ["b.*"],
        tool("glob", pattern="**/*.log"),
        "/sub/b.log",
        "/sub/venv/a.log",
        FILES,
    ),
    Flip(
        "tool:filesystem.protected",
        ["*.txt"],
        tool("write_file", path="/new.txt", content="four"),
        "Created /new.txt (1 line, 4 bytes).",
        "/new.txt is protected and cannot be changed with these tools.",
        FILES,
    ),
    Flip(
        "tool:todos.max_items",
        1,
        last_line(todos("a", "b")),
        "Task list updated: 2 pending.",
        "- 2 tasks are too many (at most 1): join small ones.",
        {"tools": [{"todos": {}}]},
    ),
    Flip(
        "tool:todos.max_chars",
        3,
        last_line(todos("four")),
        "Task list updated: 1 pending.",
        "- Task 1 has 4 characters (at most 3): shorten it.",
        {"tools": [{"todos": {}}]},
    ),
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
    Flip(
        "middleware:summarization.trigger",
        {"messages": 5},
        messages_of_turns,
        [1, 3, 5, 7],
        [1, 3, 3, 3],
        {"middlewares": [{"summarization": {"keep": {"messages": 2}}}]},
    ),
    Flip(
        "middleware:summarization.keep",
        {"messages": 4},
        messages_of_turns,
        [1, 3, 3, 3],
        [1, 3, 5, 5],
        SUMMARIZED,
    ),
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
        messages_of_turns,
        [1, 3, 5, 7],
        [1, 2, 2, 2],
        {"middlewares": [{"summarization": {}}]},
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
    Flip(
        "tool:memory.asked_per_message",
        1,
        saved_as,
        [("user", 1.0), ("user", 1.0)],
        [("user", 1.0), ("ai", 0.8)],
        SAVING,
    ),
    Flip("tool:memory.confidence", 0.9, confidence_of_own_accord, 0.8, 0.9, SAVING),
    Flip("tool:memory.max_results", 2, searched, 6, 2, SAVING),
    Flip("tool:memory.max_characters", 400, searched, 6, 2, SAVING),
    Flip("middleware:memory.top_k", 2, prompted, 5, 2, SHOWN),
    Flip("middleware:memory.max_characters", 400, prompted, 5, 2, SHOWN),
    Flip("middleware:memory.min_score", 1.0, prompted, 5, 0, SHOWN),
    Flip("middleware:memory.profile", False, profiled, ["username", "expertise_areas"], [], SHOWN),
    Flip(
        "middleware:memory.max_profile_characters",
        200,
        profiled,
        ["username", "expertise_areas"],
        ["username"],
        SHOWN,
    ),
    Flip(
        "middleware:memory.profile_after",
        1,
        profiled,
        ["username", "expertise_areas"],
        ["username", "profession", "expertise_areas"],
        SHOWN,
    ),
    Flip(
        "middleware:memory.profile_model",
        {"drawing": {}},
        profiled,
        ["username", "profession", "expertise_areas"],
        ["username", "background", "profession", "expertise_areas"],
        DRAWN,
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
                "truncation.trigger",
                {"messages": 4},
                cut_arguments,
                0,
                2,
                policy("truncation", keep={"messages": 2}),
            ),
            (
                "truncation.keep",
                {"messages": 4},
                cut_arguments,
                1,
                2,
                policy("truncation", trigger={"messages": 5}),
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
                "dedupe.trigger",
                {"messages": 3},
                shown_results(*(("look", {"words": 100}),) * 2),
                ["whole", "whole"],
                ["evicted", "whole"],
                policy("dedupe", horizon_calls=0),
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
    Flip(
        "counter:tokenizer_file.path",
        "other.json",
        word_tokens,
        2,
        1,
        {"counter": {"tokenizer_file": {"path": "words.json"}}},
    ),
    Flip(
        "checkpointer:postgres.url",
        "postgresql://zeus@127.0.0.1:1/zeus",
        misses_its_database,
        True,
        False,
        {"checkpointer": {"postgres": {}}},
    ),
    Flip(
        "checkpointer:sqlite.path",
        "check.db",
        databases,
        [".zeus/zeus.db"],
        [".zeus/zeus.db", "check.db"],
        {"checkpointer": {"sqlite": {}}},
    ),
    Flip("vector_store:pgvector.exact", "always", graph_is_asked, (True, "100"), (False, None), PGVECTOR),
    Flip("vector_store:pgvector.exact_up_to", 30_000, graph_is_asked, (True, "100"), (False, None), PGVECTOR),
    Flip("vector_store:pgvector.kept_mb", 64, vectors_are_kept, False, True, PGVECTOR),
    Flip("vector_store:pgvector.ef_search", 400, graph_is_asked, (True, "100"), (True, "400"), PGVECTOR),
    Flip(
        "vector_store:chroma.path",
        "vectors",
        chroma_folder,
        [".zeus/zeus.db-chroma/zeus-vectors.json"],
        ["vectors/zeus-vectors.json"],
        {"memory": {"embeddings": "static", "vector_store": {"chroma": {}}}},
    ),
    *EMBEDDINGS,
    *APPROVALS,
    *OPTIONS,
    *SANDBOXED,
    *DOCKED,
    *SSHED,
    *WEBBED,
    *SKILLS,
    *KNOWLEDGE,
    *RESOURCES,
)

FLIPS = (*CORE, EXTENDS, *COMPONENTS)


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Retries wait for nothing, and the jitter is always half of what it may be."""

    async def at_once(_seconds: float) -> None:
        return None

    monkeypatch.setattr("zeus_runtime.models.retry._sleep", at_once)
    monkeypatch.setattr("random.random", lambda: 0.5)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (
        "ZEUS_HOME",
        "ZEUS_LOAD_PLUGINS",
        "ZEUS_DISABLE_PLUGINS",
        "XDG_CONFIG_HOME",
        "OPENAI_API_KEY",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def seen_without() -> dict[tuple[See, str], Any]:
    """What was seen without a key: the keys of one config that are looked at alike need it once."""
    return {}


@pytest.mark.parametrize(
    "flip",
    [
        pytest.param(
            flip, id=flip.key, marks=[pytest.mark.xdist_group("litellm")] * (flip.group == "litellm")
        )
        for flip in FLIPS
    ],
)
async def test_a_key_set_to_something_else_changes_what_can_be_seen(
    flip: Flip, tmp_path: Path, seen_without: dict[tuple[See, str], Any]
) -> None:
    defaults = {**core_keys(), **component_keys(), "extends": None}
    assert flip.value != defaults[flip.key], "the test sets the key to what it is anyway"
    given = {"version": 1, "model": "gpt-4o", **flip.given}
    without = (flip.see, json.dumps(given, sort_keys=True))
    if without not in seen_without:
        seen_without[without] = await flip.see(Scene(tmp_path / "before", given))
    seen_after = await flip.see(Scene(tmp_path / "after", with_key(given, flip.key, flip.value)))
    assert (seen_without[without], seen_after) == (flip.before, flip.after)
    assert flip.before != flip.after


def test_every_key_of_the_core_is_flipped() -> None:
    assert {flip.key for flip in CORE} == set(core_keys())


def test_every_option_of_every_bundled_component_is_flipped() -> None:
    assert {flip.key for flip in COMPONENTS} == set(component_keys())


def test_the_schema_has_no_top_level_key_that_is_not_flipped() -> None:
    documented = set(compose(core_schema(), ())["properties"])
    assert documented == {flip.key.split(".")[0] for flip in (*CORE, EXTENDS)}


def test_no_key_is_flipped_twice() -> None:
    keys = [flip.key for flip in FLIPS]
    assert sorted(keys) == sorted(set(keys))


async def test_keys_that_begin_with_x_are_the_users_and_change_nothing(tmp_path: Path) -> None:
    given = {"version": 1, "model": "gpt-4o"}
    plain = Scene(tmp_path / "plain", given)
    noted = Scene(tmp_path / "noted", {**given, "x-note": {"limits": {"max_steps": "${UNSET}"}}})
    assert noted.problems() == ()
    assert noted.agent().plan.digest == plain.agent().plan.digest
    assert noted.agent().plan.config == plain.agent().plan.config


def test_the_walk_finds_keys_in_records_and_mappings() -> None:
    found = core_keys()
    assert found["limits.max_steps"] == 200
    assert {"prompt.files.core", "prompt.time.timezone", "profiles.models.*.tokenizer"} <= set(found)
    assert found["model"] is REQUIRED
