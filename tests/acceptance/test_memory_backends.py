"""One person's ten sessions over HTTP: the same YAML, with memories in the database and in LangGraph's store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.conftest import Project, Zeus
from tests.support.databases import execute
from tests.support.provider import Call, Provider, Reply

EXAMPLE = Path(__file__).parents[2] / "examples" / "zeus-langgraph-memory"

CONFIG: dict[str, Any] = {
    "version": 1,
    "name": "story",
    "tools": ["memory"],
    "middlewares": ["memory"],
    "retry": {"initial_seconds": 0.01},
}


class Save(NamedTuple):
    """A call of ``memory_save``; ``replaces`` has the texts of memories."""

    content: str
    replaces: Sequence[str] = ()
    more: dict[str, Any] = {}  # noqa: RUF012 - never written


class Told(NamedTuple):
    """A session: the user's words, what the model saves, and what the prompt has and has not before that."""

    words: str
    saves: Sequence[Save] = ()
    holds: Sequence[str] = ()
    gone: Sequence[str] = ()


LEIPZIG, BERLIN = "Mira lives in Leipzig", "Mira lives in Berlin"
NURSE, CHARITE = "Mira works as a nurse at the clinic in Leipzig", "Mira works as a nurse at the Charité"
CAT, DOG, HONEY = "Mira has a cat called Pixel", "Mira has a dog called Bruno", "Mira keeps two beehives"
NUTS, NUTS_RIGHT = "Mira ist allergisch gegen Erdnüsse", "Mira ist allergisch gegen Haselnüsse"
TEA = "Mira 早上喜欢喝绿茶"
LEAD = "Mira leads a ward at the Charité"

STORY = (
    Told("Remember where I live and work.", [Save(LEIPZIG), Save(NURSE)], gone=["Mira"]),
    Told("Remember my pets.", [Save(CAT), Save(DOG)], holds=[LEIPZIG, NURSE]),
    Told("Bitte merke dir meine Allergie.", [Save(NUTS)], holds=[CAT, DOG]),
    Told("请记住我早上喜欢喝绿茶。", [Save(TEA)], holds=[NUTS, LEIPZIG]),
    Told("Remember that I moved.", [Save(BERLIN, [LEIPZIG]), Save(CHARITE, [NURSE])], holds=[TEA, LEIPZIG]),
    Told("Where do I live?", holds=[BERLIN, CHARITE, CAT, DOG, TEA], gone=[LEIPZIG, NURSE]),
    Told("Merke dir: nicht Erdnüsse, Haselnüsse!", [Save(NUTS_RIGHT, [NUTS])], holds=[NUTS]),
    Told("Remember my bees, and my cat again.", [Save(HONEY), Save(CAT)], holds=[NUTS_RIGHT], gone=[NUTS]),
    Told("Remember my new work.", [Save(LEAD, [CHARITE])], holds=[HONEY, CAT, CHARITE]),
    Told(
        "What do you know of me?",
        holds=[BERLIN, LEAD, CAT, DOG, HONEY, NUTS_RIGHT, TEA],
        gone=[CHARITE, NUTS],
    ),
)


@pytest.fixture(params=["database", "langgraph"])
def words(request: pytest.FixtureRequest, project: Project, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words that choose the backend: an overlay, or none."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    if request.param == "database":
        return []
    pytest.importorskip("langgraph.store.sqlite")
    monkeypatch.syspath_prepend(str(EXAMPLE))
    file = EXAMPLE / "zeus_langgraph_memory" / "plugin.py"
    overlay = {"version": 1, "plugins": {"files": [str(file)]}, "memory": {"backend": {"langgraph": {}}}}
    project.write("zeus.graph.yaml", json.dumps(overlay))
    return ["--env", "graph"]


@pytest.fixture
def stored(database_url: str) -> dict[str, Any]:
    """Where sessions, members and, with the bundled backend, memories are."""
    if not database_url.startswith("postgres"):
        return {}
    execute(database_url, "CREATE EXTENSION IF NOT EXISTS vector")
    return {"storage": {"url": database_url}, "checkpointer": "postgres"}


def configure(project: Project, provider: Provider, user: str = "mira", **more: Any) -> None:
    model = {"litellm": {"model": "openai/gpt-5.2", "api_base": provider.openai}}
    project.write("zeus.yaml", json.dumps({**CONFIG, "model": model, "memory": {"user": user}, **more}))


def listed(zeus: Zeus, words: Sequence[str], *more: str) -> dict[str, str]:
    """The memories of the command line: text to id."""
    found = zeus("memory", "list", "--config", "zeus.yaml", *words, "--format", "json", *more)
    assert found.exit_code == 0, found.err
    return {each["content"]: each["id"] for each in found.json["memories"]}


def run(
    project: Project, zeus: Zeus, words: Sequence[str], told: Told, ids: dict[str, str], **more: Any
) -> str:
    """Run a session; the system prompt of its first request."""
    calls = [
        Call(
            "memory_save",
            json.dumps(
                {"content": each.content, "replaces": [ids[text] for text in each.replaces], **each.more}
            ),
            f"call_{number}",
        )
        for number, each in enumerate(told.saves)
    ]
    with Provider(*([Reply(calls=calls)] if calls else []), Reply("Noted.")) as provider:
        configure(project, provider, **more)
        done = zeus("run", "zeus.yaml", *words, told.words, "-o", "json")
        assert done.exit_code == 0, done.err
        messages = provider.requests[0].body["messages"]
        return "\n".join(
            json.dumps(each, ensure_ascii=False) for each in messages if each["role"] == "system"
        )


def before_that(
    project: Project, zeus: Zeus, words: Sequence[str], question: str, **more: Any
) -> tuple[str, str]:
    """The result of a search that the model makes for a question of the past: what is true, and what was."""
    asked = json.dumps({"query": question, "include_past": True})
    with Provider(Reply(calls=[Call("memory_search", asked, "call_0")]), Reply("There.")) as provider:
        configure(project, provider, **more)
        done = zeus("run", "zeus.yaml", *words, question, "-o", "json")
        assert done.exit_code == 0, done.err
        (result,) = [
            each["content"] for each in provider.requests[1].body["messages"] if each["role"] == "tool"
        ]
    current, past = result.split("</memories>")[:2]
    assert "true before and no longer is" in past
    assert all(", until 20" in line for line in past.splitlines() if line.startswith("- ["))
    return current, past


def test_ten_sessions_show_what_is_true_and_history_what_was(
    project: Project, zeus: Zeus, words: list[str], stored: dict[str, Any]
) -> None:
    ids: dict[str, str] = {}
    for told in STORY:
        prompt = run(project, zeus, words, told, ids, **stored)
        assert [text for text in told.holds if text not in prompt] == [], told.words
        assert [text for text in told.gone if text in prompt] == [], told.words
        ids |= listed(zeus, words)
    assert listed(zeus, words).keys() == {BERLIN, LEAD, CAT, DOG, HONEY, NUTS_RIGHT, TEA}
    before = listed(zeus, words, "--status", "superseded")
    assert before.keys() == {LEIPZIG, NURSE, NUTS, CHARITE}
    for question, now, then in (
        ("Where did Mira live before?", BERLIN, LEIPZIG),
        ("Where did Mira work before she had a ward at the Charité?", LEAD, NURSE),
    ):
        current, past = before_that(project, zeus, words, question, **stored)
        held = (now in current, then in past, then in current, now in past)
        assert held == (True, True, False, False), question
    history = zeus("memory", "history", ids[LEIPZIG], "--config", "zeus.yaml", *words, "--format", "json")
    assert history.exit_code == 0, history.err
    assert [each["action"] for each in history.json["changes"]] == ["stored", "superseded"]
    other = run(project, zeus, words, Told("What do you know of me?"), {}, user="noah", **stored)
    assert "Mira" not in other
    assert listed(zeus, words) == {}
    assert zeus("memory", "delete", ids[CAT], "--config", "zeus.yaml", *words).exit_code != 0


def test_memories_move_with_their_past_and_an_import_says_what_has_no_place(
    project: Project, zeus: Zeus, words: list[str], stored: dict[str, Any]
) -> None:
    with Provider() as provider:
        configure(project, provider, **stored)
        old = zeus("memory", "add", LEIPZIG).out.strip()
        zeus("memory", "add", BERLIN, "--replaces", old)
        for each in ("Mira plays the cello at home", "Mira plays the cello in the orchestra"):
            zeus("memory", "add", each)
        zeus("memory", "profile", "edit", "--set", "profession=nurse")
        assert zeus("memory", "export", "--all", "kept.jsonl").exit_code == 0
        kept = [json.loads(each) for each in (project.folder / "kept.jsonl").read_text("utf-8").splitlines()]
        linked = [each["content"] for each in kept if each.get("near")]
        configure(project, provider, user="noah", **stored)
        done = zeus("memory", "import", "kept.jsonl", *words)
        ids = listed(zeus, words) | listed(zeus, words, "--status", "superseded")
        assert ids.keys() == {each["content"] for each in kept if "content" in each}
        history = zeus("memory", "history", ids[LEIPZIG], *words, "--format", "json").json["changes"]
        fields = zeus("memory", "profile", "show", *words, "--format", "json").json["fields"]
    assert [each["action"] for each in history] == ["stored", "superseded", "imported"]
    assert history[0]["by"] == "mira"
    assert fields["profession"]["value"] == "nurse"
    assert len(linked) == 2
    assert ("1 links between memories: this memory backend keeps none" in done.err) == bool(words)
    assert done.exit_code == (1 if words else 0), done.err


def test_the_plan_says_what_a_backend_does_not_do(project: Project, zeus: Zeus, words: list[str]) -> None:
    with Provider() as provider:
        configure(project, provider)
        planned = zeus("plan", "zeus.yaml", *words)
        assert planned.exit_code == 0, planned.err
        assert ("without vectors: texts are compared by their words" in planned.out) == bool(words)
        looked = zeus("doctor", "zeus.yaml", *words)
        assert ("without vectors: texts are compared by their words" in looked.out) == bool(words)
        refused = zeus("memory", "reindex", "--config", "zeus.yaml", *words)
        assert (refused.exit_code != 0) == bool(words)


DEAD = """
from tests.memory.test_backend import Careless
from zeus_runtime.plugin import Component, hookimpl


class Dead(Careless):
    async def list(self, wanted, *, limit=None, offset=0):
        raise ConnectionError("connection refused")


@hookimpl
def register_memories():
    return [Component("dead", create=lambda options, context: Dead())]
"""


def test_doctor_asks_the_backend_s_engine(project: Project, zeus: Zeus, words: list[str]) -> None:
    with Provider() as provider:
        configure(project, provider)
        looked = zeus("doctor", "zeus.yaml", *words)
        assert ("the backend langgraph answers" in looked.out) == bool(words)
        project.write("dead.py", DEAD)
        overlay = {"version": 1, "plugins": {"files": ["dead.py"]}, "memory": {"backend": "dead"}}
        project.write("zeus.dead.yaml", json.dumps(overlay))
        broken = zeus("doctor", "zeus.yaml", "--env", "dead")
        assert broken.exit_code != 0
        assert "the backend dead does not answer: ConnectionError: connection refused" in broken.out
        assert "memory.backend.dead" in broken.out


def test_an_unknown_backend_is_named_with_its_place_and_those_there_are(project: Project, zeus: Zeus) -> None:
    project.write("zeus.yaml", "version: 1\nname: a\nmodel: openai/gpt-5.2\nmemory:\n  backend: databse\n")
    found = zeus("validate", "zeus.yaml")
    assert found.exit_code == 3
    assert "zeus.yaml:5:12" in found.err + found.out
    assert "database" in found.err + found.out
