"""The config's own instructions: where they stand in the prompt, and what is wrong with some."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.agents import call, calling, script, write_agent
from zeus_runtime import Agent, ConfigError
from zeus_runtime.plan.plan import Plan
from zeus_runtime.plugin.middleware import Section
from zeus_runtime.prompt import STABLE_SECTIONS
from zeus_runtime.prompt.instructions import instructions_text, with_instructions

REVIEWER = "You are a reviewer of Go code.\nSay {{nothing}} of style."


def planned(folder: Path, yaml: str) -> Plan:
    return Agent.from_config(write_agent(folder, yaml), directory=folder).plan


def refused(folder: Path, yaml: str) -> str:
    with pytest.raises(ConfigError) as caught:
        _ = planned(folder, yaml)
    return str(caught.value)


def test_instructions_end_section_one_word_for_word(tmp_path: Path) -> None:
    without = planned(tmp_path, "").stable
    stable = planned(
        tmp_path, "instructions: |\n  You are a reviewer of Go code.\n  Say {{nothing}} of style.\n"
    ).stable
    assert stable[Section.CORE] == f"{without[Section.CORE].strip()}\n\n# Your instructions\n\n{REVIEWER}"
    assert {each: stable[each] for each in STABLE_SECTIONS[1:]} == {
        each: without[each] for each in STABLE_SECTIONS[1:]
    }


def test_instructions_come_from_a_file_beside_the_config(tmp_path: Path) -> None:
    (tmp_path / "review.md").write_text(f"\ufeff{REVIEWER}\r\n")
    core = planned(tmp_path, "instructions: {file: review.md}").stable[Section.CORE]
    assert core.endswith(f"\n\n# Your instructions\n\n{REVIEWER}")


def test_a_variable_is_filled_in_as_anywhere_in_the_config(tmp_path: Path) -> None:
    core = planned(tmp_path, "instructions: Work for ${TEAM:-Argo}.").stable[Section.CORE]
    assert core.endswith("Work for Argo.")


def test_a_later_layer_replaces_the_instructions_of_an_earlier_one(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("instructions: {file: gone.md}\n")
    core = planned(tmp_path, "extends: ./base.yaml\ninstructions: Mine alone.").stable[Section.CORE]
    assert core.endswith("# Your instructions\n\nMine alone.")


@pytest.mark.parametrize(
    ("yaml", "said"),
    [
        ('instructions: " "', "empty-instructions: the instructions are empty"),
        ("instructions: ''", "empty-instructions: the instructions are empty"),
        ("instructions: {file: blank.md}", "empty-instructions: the instructions are empty"),
        ("instructions: {file: gone.md}", "file-not-found: the instructions file"),
        ("instructions: {file: folder}", "unreadable-file: the instructions file"),
        ("instructions: {file: latin.md}", "not-utf8: the instructions file"),
        ("instructions: {path: a.md}", "unknown-key"),
        ("instructions: [a, b]", "wrong-type"),
    ],
)
def test_instructions_that_say_nothing_are_refused_with_their_place(
    tmp_path: Path, yaml: str, said: str
) -> None:
    (tmp_path / "blank.md").write_text(" \n\t\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "latin.md").write_bytes(b"caf\xe9\n")
    config = write_agent(tmp_path, yaml)
    line = next(number for number, text in enumerate(config.read_text().splitlines(), 1) if yaml in text)
    told = refused(tmp_path, yaml)
    assert said in told
    assert f"{config.name}:{line}:" in told


AGENTS = """
instructions: The parent's own.
agents:
  reviewer: {description: Reviews., instructions: Review only.}
  filed: {description: Files., instructions: {file: filed.md}}
  heir: {description: Inherits.}
  other: {description: Another., config: other.yaml}
  told: {description: Told., config: other.yaml, instructions: Told by the parent.}
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("reviewer", "Review only."),
        ("filed", "From a file."),
        ("heir", "The parent's own."),
        ("other", "The other's own."),
        ("told", "Told by the parent."),
    ],
)
def test_a_sub_agent_has_its_own_instructions_or_those_of_its_config(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / "filed.md").write_text("From a file.\n")
    (tmp_path / "other.yaml").write_text("version: 1\nmodel: gpt-5.2\ninstructions: The other's own.\n")
    config = write_agent(tmp_path, AGENTS, tools="[probe, subagents]")
    plan = Agent.from_config(config, directory=tmp_path).plan
    assert plan.agents[name].plan.stable[Section.CORE].endswith(f"# Your instructions\n\n{text}")
    assert plan.stable[Section.CORE].endswith("# Your instructions\n\nThe parent's own.")


def test_a_sub_agent_cannot_have_instructions_in_two_places(tmp_path: Path) -> None:
    agents = "{a: {description: A., instructions: One., overrides: {instructions: Two.}}}"
    config = write_agent(tmp_path, f"agents: {agents}", tools="[probe, subagents]")
    with pytest.raises(ConfigError, match=r"agents-twice.*'a' has instructions in two places"):
        _ = Agent.from_config(config, directory=tmp_path).plan


def test_the_empty_instructions_of_a_sub_agent_are_refused_where_they_stand(tmp_path: Path) -> None:
    config = write_agent(
        tmp_path, "agents:\n  a:\n    description: A.\n    instructions: ''\n", tools="[probe, subagents]"
    )
    with pytest.raises(ConfigError) as caught:
        _ = Agent.from_config(config, directory=tmp_path).plan
    (place,) = [each.position for each in caught.value.diagnostics if each.code == "empty-instructions"]
    assert place is not None
    assert config.read_text().splitlines()[place.line - 1].strip() == "instructions: ''"


async def test_the_model_reads_them_byte_for_byte_at_every_call(tmp_path: Path) -> None:
    model = script(calling(call("echo", "call_1", text="x")), "Done.", "Again.")
    config = write_agent(tmp_path, "instructions: Only Go.")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        first = await agent.run("go")
        await agent.run("go on", session=first.session)
    prompts = {request.system[: request.stable_system_length] for request in model.requests}
    assert len(prompts) == 1
    assert "# Your instructions\n\nOnly Go.\n\n" in prompts.pop()
    assert len(model.requests) == 3


@given(core=st.text(), text=st.text().filter(str.strip))
def test_nothing_in_the_text_is_replaced(core: str, text: str) -> None:
    made = instructions_text(text, diagnostic=lambda *_, **__: None)  # type: ignore[arg-type,return-value]
    assert made == text.strip()
    joined = with_instructions(core, made)
    assert joined.endswith(f"# Your instructions\n\n{made}")
    assert joined.startswith(core.strip())
    assert with_instructions(core, "") == core
