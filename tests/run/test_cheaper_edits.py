"""A summary is due: edits of other policies replace it if they make enough room for less, and the ledger says why."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from tests.support.agents import PositionModel, assert_paired, call, calling, play, write_agent
from tests.support.planning import edits_of, steps_of
from tests.support.policies import GIVING, moved_prefixes, texts
from zeus_runtime import Agent, ConfigError
from zeus_runtime.context import Archive, ArchiveError, Edit, Evict
from zeus_runtime.context.ledger import PolicyDecision, StepRecord
from zeus_runtime.plugin.model import ModelRequest

CHEAP, DEAR = "1.0e-9", "1.0e-3"


def config(
    output_price: str = DEAR,
    policies: str = "eviction, dedupe, truncation",
    more: str = "",
    trigger: str = "{tokens: 9000}",
) -> str:
    return f"""
middlewares:
  [{policies}{", " * bool(policies)}summarization: {{trigger: {trigger}, keep: {{tokens: 500}}{more}}}]
profiles:
  models:
    gpt-4o:
      max_input_tokens: 60000
      max_output_tokens: 1
      input_cost_per_token: 1.0e-5
      cache_read_cost_per_token: 1.0e-6
      output_cost_per_token: {output_price}
"""


class Session:
    """One session whose model gives ``answers`` and then says done. A second ``play`` is its next turn."""

    def __init__(self, folder: Path, yaml: str, answers: Sequence[AIMessage]) -> None:
        self.folder = folder
        self._config = write_agent(folder, yaml, plugin=GIVING, tools="[giving, filesystem]")
        self._answers = list(answers)
        self.requests: list[ModelRequest] = []
        self.summaries = 0
        self.steps: Sequence[StepRecord] = ()
        self.edits: Sequence[dict[str, object]] = ()
        self._id: str | None = None

    async def play(self, prompt: str = "go") -> Session:
        def answer(request: ModelRequest) -> AIMessage | str:
            if request.purpose == "summary":
                return "the story so far"
            return self._answers.pop(0) if self._answers else "done"

        model = PositionModel(answer)
        async with Agent.from_config(self._config, directory=self.folder, model=model) as agent:
            events = await play(agent, prompt, self._id)
        assert events[-1].type == "complete", events[-1]
        self._id = session = events[-1].session  # type: ignore[union-attr]
        self.requests = [each for each in model.requests if each.purpose == "turn"]
        self.summaries = len(model.requests) - len(self.requests)
        self.steps = await steps_of(self.folder, session)
        self.edits = await edits_of(self.folder, session)
        for request in self.requests:
            assert_paired(list(request.messages))
        return self

    @property
    def weighed(self) -> list[PolicyDecision]:
        return [each for step in self.steps for each in step.decisions if each.kind == "cheaper"]

    @property
    def kinds(self) -> list[tuple[object, object]]:
        return [(edit["policy"], edit["kind"]) for edit in self.edits]


def giving(count: int, lines: int = 400) -> list[AIMessage]:
    return [calling(call("give", f"g{number}", lines=lines, text=f"row {number}")) for number in range(count)]


async def test_old_results_are_evicted_instead_of_a_dearer_summary(tmp_path: Path) -> None:
    session = await Session(tmp_path, config(), giving(9)).play()
    assert session.summaries == 0
    assert set(session.kinds) == {("eviction", "evict")}
    (first, *_) = session.weighed
    assert first.reason.startswith("summarization is due: the request reached 9,000 tokens; ")
    assert (
        "; saving 4,602 tokens by 2 edits of eviction costs $0.0021, as much room by summarization costs $1.02"
        in (first.reason)
    )
    assert (first.policy, first.admitted, first.count) == ("runtime", False, 2)
    # The prefix changes with each of these decisions and at no other step.
    assert moved_prefixes(session.requests) == len(session.weighed)
    # The newest result stays, and the originals can be read back.
    assert str(session.requests[-1].messages[-1].content).startswith("row 8 1\n")
    for edit in session.edits:
        handle = str(edit["handle"])
        original = (tmp_path / ".zeus" / handle.strip("/")).read_text()
        assert original.count("\n") == 399
        assert handle in str(edit["content"])


async def test_a_summary_that_costs_less_is_made_and_the_ledger_says_why(tmp_path: Path) -> None:
    yaml = config(CHEAP)
    # Small results behind a large one: to evict it, all of them would be sent anew.
    answers = [
        calling(call("give", f"n{n}", lines=150 if n == 0 else 30, text=f"row {n}")) for n in range(51)
    ]
    session = await Session(tmp_path, yaml, answers).play()
    assert session.summaries == 1
    assert [kind for kind in session.kinds if kind[1] != "summarize"] == []
    (noted,) = session.weighed
    assert noted.reason.endswith(
        "by 1 edit of eviction costs $0.0456, as much room by summarization costs $0.0000"
    )


@pytest.mark.parametrize(
    ("pause_seconds", "edit"),
    [(60, ("summarization", "summarize")), (24 * 3600, ("eviction", "evict"))],
)
async def test_an_edit_costs_nothing_after_the_cache_has_expired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pause_seconds: int, edit: tuple[str, str]
) -> None:
    """A summary costs less than sending 25 results anew; after a day, they are sent anew in any case."""
    answers = [
        calling(call("give", f"n{n}", lines=150 if n == 0 else 30, text=f"row {n}")) for n in range(25)
    ]
    session = await Session(tmp_path, config(CHEAP), answers).play()
    assert session.weighed == []
    later = time.time_ns() + pause_seconds * 10**9
    monkeypatch.setattr("zeus_runtime.store.thread_log.time", SimpleNamespace(time_ns=lambda: later))
    await session.play("and now? " * 100)
    assert session.kinds == [edit]


async def test_too_little_room_is_no_room(tmp_path: Path) -> None:
    answers = [calling(call("give", f"n{n}", lines=80 if n == 0 else 30, text=f"row {n}")) for n in range(51)]
    session = await Session(tmp_path, config(), answers).play()
    assert session.summaries >= 1
    assert session.weighed[0].reason.endswith(" tokens, which is not enough")


@pytest.mark.parametrize(
    ("policies", "more"),
    [("eviction, dedupe, truncation", ", cheaper_first: []"), ("", ""), ("dedupe, truncation", "")],
)
async def test_only_the_named_policies_of_the_config_are_asked(
    tmp_path: Path, policies: str, more: str
) -> None:
    session = await Session(tmp_path, config(policies=policies, more=more), giving(9)).play()
    assert session.summaries > 0
    assert session.weighed == []


async def test_the_policies_are_asked_in_the_order_of_the_option(tmp_path: Path) -> None:
    """The first look is superseded by the last; both policies could replace it, and each alone makes enough room."""
    looks = [calling(call("look", f"c{number}", at="x", lines=600)) for number in range(2)]
    answers = [looks[0], *giving(2), looks[1]]
    yaml = config(policies="eviction, dedupe: {horizon_calls: 0}, truncation", trigger="{tokens: 12000}")
    found = await Session(tmp_path, yaml, answers).play()
    assert found.kinds == [("dedupe", "evict")], "what loses nothing comes first, and it is enough"
    other = tmp_path / "other"
    other.mkdir()
    yaml = yaml.replace("keep:", "cheaper_first: [eviction, dedupe], keep:")
    found = await Session(other, yaml, answers).play()
    assert {policy for policy, _ in found.kinds} == {"eviction"}


async def test_results_that_a_change_made_out_of_date_go_before_others(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"row {number} of the table\n" for number in range(500)))
    answers = [
        calling(call("read_file", "c1", path="/a.txt")),
        calling(call("edit_file", "c2", path="a.txt", old="row 7 of", new="line 7 of")),
        *giving(3, lines=500),
    ]
    session = await Session(tmp_path, config(), answers).play()
    assert session.kinds[0] == ("dedupe", "evict")
    assert "edit_file changed /a.txt in message 5" in str(session.edits[0]["reason"])
    shown = next(text for text in texts(list(session.requests[-1].messages)) if "out of date" in text)
    assert "/large_tool_results/c1" in shown
    assert session.summaries == 0


async def test_written_texts_are_truncated_before_a_summary(tmp_path: Path) -> None:
    answers = [
        calling(call("store", f"c{number}", name="a", body=f"{number} word " * 1_200)) for number in range(6)
    ]
    yaml = config(policies="eviction, dedupe, truncation: {trigger: {fraction: 0.9}}")
    session = await Session(tmp_path, yaml, answers).play()
    assert session.summaries == 0
    assert set(session.kinds) == {("truncation", "truncate_arguments")}


async def test_a_trigger_in_messages_is_not_met_by_shorter_messages(tmp_path: Path) -> None:
    session = await Session(tmp_path, config(trigger="{messages: 9}"), giving(9)).play()
    assert session.summaries > 0
    assert session.weighed == []


async def test_if_the_archive_refuses_the_summary_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = Archive.save

    def refusing(archive: Archive, edits: Sequence[Edit], **given: Any) -> list[Edit]:
        if any(isinstance(edit, Evict) for edit in edits):
            raise ArchiveError("the originals could not be archived")
        return save(archive, edits, **given)

    monkeypatch.setattr(Archive, "save", refusing)
    session = await Session(tmp_path, config(), giving(6)).play()
    assert {*session.kinds} == {("summarization", "summarize")}
    assert session.weighed == []
    refused = [each for step in session.steps for each in step.decisions if each.policy == "eviction"]
    assert {(each.admitted, each.reason) for each in refused} == {
        (False, "the originals could not be archived")
    }


async def test_after_cheaper_edits_a_summary_by_price_is_not_due_again_at_once(tmp_path: Path) -> None:
    """By price: after cheaper edits the cost so far is that of the shortened messages."""
    by_price = config("1.0e-5", more=", by_price: true", trigger="{tokens: 50000}")
    found = await Session(tmp_path, by_price, giving(30, lines=300)).play()
    assert ("eviction", "evict") in found.kinds
    due = [step.number for step in found.steps if any(each.kind == "cheaper" for each in step.decisions)]
    assert min(after - before for before, after in itertools.pairwise(due)) > 1, "it is not due again at once"


@pytest.mark.parametrize(("name", "hint"), [("evictoin", "did you mean 'eviction'?"), ("pins", "its middl")])
def test_a_name_that_shortens_no_message_is_an_error_at_load(tmp_path: Path, name: str, hint: str) -> None:
    yaml = config(policies="pins, eviction", more=f", cheaper_first: [{name}]")
    where = write_agent(tmp_path, yaml, plugin=GIVING, tools="[giving]")
    with pytest.raises(ConfigError) as raised:
        _ = Agent.from_config(where, directory=tmp_path).plan
    (found,) = raised.value.diagnostics
    assert found.code == "unknown-middleware"
    assert name in found.message
    assert hint in str(found.hint)
