"""Skills in a run: names in section 8, instructions on demand, kept through every compaction."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from langchain_core.messages import BaseMessage
from zeus_plugins.middlewares.skills.middleware import SkillLibrary
from zeus_plugins.middlewares.skills.options import Options

from tests.support.agents import PositionModel, assert_paired, call, calling, play, script, write_agent
from tests.support.policies import GIVING, talk, texts
from tests.support.skills import BODY, OFFICE, write_skill
from zeus_runtime import Agent
from zeus_runtime.events import Notice, RunCompleted
from zeus_runtime.plugin import RunContext
from zeus_runtime.plugin.files import WorkspaceFiles
from zeus_runtime.plugin.middleware import Section, Turn
from zeus_runtime.plugin.skills import find_skills

HOME = "homes: [home]\n"


def skills_yaml(options: str = "") -> str:
    return f"{HOME}middlewares:\n  - skills: {{{options}}}\n"


def loaded(messages: list[BaseMessage]) -> list[str]:
    return [text for text in texts(messages) if text.startswith("<skill name=")]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_skill(tmp_path / "home/skills", "tables", files=OFFICE)
    return tmp_path / "home"


async def test_section_8_has_names_and_descriptions_only(tmp_path: Path, home: Path) -> None:
    spoken = await talk(tmp_path, skills_yaml(), "done")
    system = spoken.requests[0].system
    assert "- tables: Fills tables. Use when the user wants a table filled." in system
    assert "references/format.md" not in system


async def test_where_there_are_no_skills_nothing_is_sent(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    without = await talk(tmp_path / "a", "", "done")
    (tmp_path / "b/home").mkdir(parents=True)
    with_none = await talk(tmp_path / "b", skills_yaml(), "done")
    assert with_none.requests[0].system == without.requests[0].system
    assert with_none.requests[0].tools == without.requests[0].tools


async def test_the_first_skill_that_is_written_between_two_runs_brings_its_tools(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    model = script("none yet", calling(call("load_skill", "c", name="tables")), "done")
    config = write_agent(tmp_path, skills_yaml())
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        first = await agent.run("hello")
        write_skill(tmp_path / "home/skills", "tables")
        await agent.run("now", session=first.session)
    assert "load_skill" not in [each.name for each in model.requests[0].tools]
    assert BODY.strip() in texts(list(model.requests[-1].messages))[-1]


async def test_a_loaded_skill_brings_its_body_and_its_files(tmp_path: Path, home: Path) -> None:
    spoken = await talk(tmp_path, skills_yaml(), calling(call("load_skill", "c", name="tables")), "done")
    result = texts(spoken.last)[-1]
    assert BODY.strip() in result
    assert "- scripts/office/unpack.py (16 bytes)" in result
    assert "description:" not in result


async def test_a_resource_is_read_on_demand_and_a_binary_one_is_named(tmp_path: Path, home: Path) -> None:
    spoken = await talk(
        tmp_path,
        skills_yaml(),
        calling(
            call("read_skill_resource", "a", name="tables", path="references/format.md"),
            call("read_skill_resource", "b", name="tables", path="assets/theme.bin"),
            call("read_skill_resource", "c", name="tables", path="../../../zeus.yaml"),
            call("load_skill", "d", name="tabels"),
        ),
        "done",
    )
    text, binary, outside, unknown = texts(spoken.last)[-4:]
    assert "Columns are tabs." in text
    assert "not text (3 bytes)" in binary
    assert "version: 1" not in outside
    assert "not a path inside" in outside
    assert "Did you mean tables?" in unknown


async def test_skills_are_searched_by_words(tmp_path: Path, home: Path) -> None:
    for number in range(40):
        write_skill(home / "skills", f"other-{number:02}", "Something else.")
    spoken = await talk(
        tmp_path,
        skills_yaml(),
        calling(
            call("load_skill", "a", query="filled tables"),
            call("load_skill", "b"),
            call("load_skill", "c", page=2),
        ),
        "done",
    )
    by_words, first, second = texts(spoken.last)[-3:]
    assert by_words.startswith("1 skill for")
    assert "- tables: " in by_words
    assert "page 1 of 2; page=2 continues" in first
    assert "- tables: " in second


@pytest.mark.parametrize("mode", ["agent", "ask", "plan"])
async def test_skills_are_there_in_every_mode(tmp_path: Path, home: Path, mode: str) -> None:
    spoken = await talk(
        tmp_path, skills_yaml() + f"mode: {mode}\n", calling(call("load_skill", "c", name="tables")), "ok"
    )
    assert loaded(spoken.last)


async def test_what_the_project_brings_is_offered_only_when_it_is_trusted(tmp_path: Path) -> None:
    write_skill(tmp_path / ".agents/skills", "theirs")
    (tmp_path / "home").mkdir()
    answer = calling(call("load_skill", "c", name="theirs"))
    assert "theirs" not in (await talk(tmp_path, skills_yaml(), "done")).requests[0].system
    spoken = await talk(tmp_path, skills_yaml("trust_project: true"), answer, "done")
    assert "- theirs: " in spoken.requests[0].system
    assert "the folder /.agents/skills/theirs" in texts(spoken.last)[-1]


async def test_the_section_is_the_same_from_run_to_run_until_a_file_says_otherwise(
    tmp_path: Path, home: Path
) -> None:
    first = await talk(tmp_path, skills_yaml(), "one", "two", prompts=["a", "b"])
    assert first.requests[0].system == first.requests[1].system
    write_skill(home / "skills", "tables", "Now something else.")
    second = await talk(tmp_path, skills_yaml(), "three", session=first.session)
    assert second.requests[0].system != first.requests[0].system
    assert "Now something else." in second.requests[0].system


@pytest.mark.parametrize(("count", "in_thread"), [(3, [True, False]), (60, [True, True])])
async def test_the_event_loop_looks_only_at_few_files_that_were_read_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, in_thread: list[bool]
) -> None:
    for number in range(count):
        write_skill(tmp_path / "home/skills", f"skill-{number}")
    found_in = []

    def noting(*roots: Any, **options: Any) -> Any:
        found_in.append(threading.current_thread() is not threading.main_thread())
        return find_skills(*roots, **options)

    monkeypatch.setattr("zeus_runtime.plugin.skills.find_skills", noting)
    context = SimpleNamespace(
        directory=tmp_path,
        workspace=WorkspaceFiles(tmp_path),
        homes=[tmp_path / "home"],
        counter=SimpleNamespace(text=len),
    )
    library = SkillLibrary(Options(), cast(RunContext, context))
    turn = Turn("session_1", "run_1", "agent")
    first, second = [await library.sections(turn) for _ in range(2)]
    assert "skill-1" in first[Section.SKILLS]
    assert first == second
    assert found_in == in_thread


async def test_a_change_of_the_body_alone_leaves_the_prompt_as_it_was(tmp_path: Path, home: Path) -> None:
    first = await talk(tmp_path, skills_yaml(), "one")
    write_skill(home / "skills", "tables", body="Other instructions.")
    second = await talk(tmp_path, skills_yaml(), "two", session=first.session)
    assert second.requests[0].system == first.requests[0].system


async def test_a_loaded_skill_survives_two_compactions_and_a_compaction_by_hand(
    tmp_path: Path, home: Path
) -> None:
    yaml = skills_yaml() + "  - history: {max_messages: 4, chunk: 2}\n  - eviction: {max_tokens: 10}\n"
    answers = [calling(call("load_skill", "s", name="tables")), "ready"]
    for turn in range(8):
        answers += [calling(call("give", f"c{turn}", lines=2)), f"said {turn}"]
    prompts = ["load it", *(f"turn {turn}" for turn in range(8))]
    spoken = await talk(tmp_path, yaml, *answers, prompts=prompts)
    (text,) = loaded(list(spoken.last))
    assert BODY.strip() in text
    assert_paired(spoken.last)
    assert "load it" not in texts(spoken.last)
    model = PositionModel(lambda request: "after")
    async with Agent.from_config(tmp_path / "zeus.yaml", directory=tmp_path, model=model) as agent:
        await agent.compact(spoken.session)
        await play(agent, "go on", spoken.session)
    (again,) = loaded(list(model.requests[-1].messages))
    assert again == text


async def test_a_skill_that_stands_above_is_not_sent_again_until_it_changes(
    tmp_path: Path, home: Path
) -> None:
    load = [calling(call("load_skill", f"c{number}", name="tables")) for number in range(3)]
    spoken = await talk(tmp_path, skills_yaml(), load[0], load[1], "done")
    assert "already loaded" in texts(spoken.last)[-1]
    write_skill(home / "skills", "tables", body="Other instructions.")
    after = await talk(tmp_path, skills_yaml(), load[2], "done", session=spoken.session)
    assert "Other instructions." in texts(after.last)[-1]


async def test_more_than_may_be_pinned_is_told_and_not_pinned(tmp_path: Path, home: Path) -> None:
    yaml = skills_yaml("max_pinned_tokens: 20")
    spoken = await talk(tmp_path, yaml, calling(call("load_skill", "c", name="tables")), "done")
    told = [each.message for each in spoken.events if isinstance(each, Notice)]
    assert any("max_pinned_tokens = 20" in each for each in told)


async def test_a_long_skill_comes_by_pages_that_make_up_the_whole(tmp_path: Path) -> None:
    body = "".join(f"Step {number}: do what has to be done.\n" for number in range(400))
    write_skill(tmp_path / "home/skills", "long", body=body)
    pages = [calling(call("load_skill", f"c{page}", name="long", page=page)) for page in range(1, 20)]
    spoken = await talk(tmp_path, skills_yaml("page_tokens: 500"), *pages, "done")
    parts = [text.partition("\n")[2].rpartition("\n</skill>")[0] for text in loaded(list(spoken.last))]
    assert len(parts) > 3
    assert "".join(parts).split("\n") == body.strip().split("\n")


async def test_two_sessions_at_once_do_not_share_what_is_loaded(tmp_path: Path, home: Path) -> None:
    config = write_agent(tmp_path, skills_yaml(), plugin=GIVING, tools="[giving]")
    model = script(calling(call("load_skill", "c", name="tables")), "done")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        for _ in range(2):
            events = await play(agent, "go")
            assert isinstance(events[-1], RunCompleted)
            (text,) = loaded(list(await agent.history(events[-1].session)))
            assert BODY.strip() in text
