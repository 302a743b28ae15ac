"""The plugin's own tests: what it registers, finds and explains."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from zeus_wiki import plugin
from zeus_wiki.glossary import Glossary, Options
from zeus_wiki.search import ARTICLES, create, rank, read_articles
from zeus_wiki.search import Options as SearchOptions

from zeus_runtime import Agent
from zeus_runtime.plugin import PlanContext, RunContext
from zeus_runtime.plugin.middleware import Section, Turn
from zeus_runtime.plugin.tool import ToolCall, ToolResult
from zeus_runtime.testing import ScriptedModel, calling

# Neither the tools nor the middleware use their context.
PLAN, RUN = cast(PlanContext, None), cast(RunContext, None)
TERMS = {"Pilot": "answers first", "Purser": "head of finance"}


def turn(prompt: str) -> Turn:
    return Turn(session="session_000000000000", run_id="run", mode="agent", prompt=prompt)


async def search(query: str, **options: Any) -> str:
    (wiki_search,) = create(SearchOptions(**options), PLAN)
    result = await wiki_search.function(query=query)
    return result.content if isinstance(result, ToolResult) else result


def test_every_hook_returns_what_zeus_can_register() -> None:
    (wiki,), (glossary,), (home,) = (
        plugin.register_tools(),
        plugin.register_middlewares(),
        plugin.register_homes(),
    )
    assert (wiki.name, glossary.name) == ("wiki", "glossary")
    assert (home / "configs" / "profiles.yaml").is_file()


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("hotel receipts", "Travel expenses"),
        ("who answers an alarm at night", "On-call duty"),
        ("SLIPWAY", "Slipway"),
        ("When does a release leave?", "Releases"),
        ("guest network password", "Visitors"),
    ],
)
def test_the_article_with_the_rarest_words_comes_first(query: str, title: str) -> None:
    assert rank(read_articles(ARTICLES), query)[0].title == title


async def test_a_result_is_as_long_as_the_options_allow() -> None:
    assert (await search("password", max_results=1)).count("# ") == 1
    cut = await search("release harbour", max_results=1, max_characters=100)
    assert "characters cut)" in cut
    assert len(cut) < 160


async def test_a_search_without_a_match_lists_the_titles() -> None:
    assert "Slipway, Strongroom, Visitors" in await search("zzz")


def test_the_model_sees_one_read_tool_with_one_argument() -> None:
    (tool,) = create(SearchOptions(), PLAN)
    assert (tool.name, tool.category, tool.access) == ("wiki_search", "rag", "read")
    assert list(tool.parameters["properties"]) == ["query"]


async def test_the_glossary_explains_the_words_of_the_prompt_and_no_others() -> None:
    glossary = Glossary(Options(terms=TERMS), RUN)
    assert await glossary.sections(turn("Who is the PILOT?")) == {
        Section.RESOURCES: "Words of this house:\n- Pilot: answers first"
    }
    assert await glossary.sections(turn("Who pilots?")) == {}


async def test_the_glossary_explains_at_most_max_terms_words() -> None:
    sections = await Glossary(Options(terms=TERMS, max_terms=1), RUN).sections(turn("Purser, Pilot"))
    assert sections[Section.RESOURCES].count("\n- ") == 1


@pytest.mark.parametrize(("in_results", "expected"), [(False, False), (True, True)])
async def test_results_are_explained_only_if_asked(*, in_results: bool, expected: bool) -> None:
    async def call_next(call: ToolCall) -> ToolResult:
        return ToolResult("the Purser's consent")

    glossary = Glossary(Options(terms=TERMS, in_results=in_results), RUN)
    result = await glossary.wrap_tool_call(ToolCall("1", "wiki_search", {}), call_next)
    assert ("- Purser: head of finance" in result.content) is expected


def test_the_package_holds_its_articles() -> None:
    assert {path.name for path in Path(ARTICLES).glob("*.md")} >= {"expenses.md", "oncall.md", "slipway.md"}


async def test_a_run_searches_the_wiki_and_explains_its_words(tmp_path: Path) -> None:
    model = ScriptedModel([calling(("wiki_search", {"query": "release"})), "On Wednesday."])
    agent = Agent.from_config(
        Path(__file__).parents[1] / "wiki.yaml",
        sets=["middlewares.0.glossary.in_results=true"],
        directory=tmp_path,
        environ={},
        model=model,
    )
    async with agent:
        result = await agent.run("When does the Pilot let a release go?")
    first, second = model.requests
    assert result.answer == "On Wednesday."
    assert [tool.name for tool in first.tools] == ["wiki_search"]
    assert "- Pilot: the person on call who answers first" in first.system
    found = second.messages[-1].text
    assert "A release leaves the harbour on Wednesday." in found
    assert found.endswith("- Pilot: the person on call who answers first")


def test_the_readme_shows_the_example_config() -> None:
    folder = Path(__file__).parents[1]
    assert (folder / "wiki.yaml").read_text(encoding="utf-8") in (folder / "README.md").read_text(
        encoding="utf-8"
    )
