"""The tool `wiki_search`: ranks the bundled articles by the rarity of the query's words they hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Annotated

from zeus_runtime.plugin import Doc, Maximum, Minimum, PlanContext
from zeus_runtime.plugin.tool import Tool, ToolResult, tool

ARTICLES = Path(__file__).parent / "articles"


@dataclass(frozen=True)
class Options:
    """How much one search may put into the context."""

    max_results: Annotated[int, Doc("Articles in one result."), Minimum(1), Maximum(20)] = 3
    max_characters: Annotated[int, Doc("Characters of one article; the rest is cut."), Minimum(100)] = 1200


@dataclass(frozen=True)
class Article:
    """One article: its title (the first line without `#`) and its text."""

    title: str
    text: str


def create(options: Options, context: PlanContext) -> Sequence[Tool]:
    """The component's tools."""
    articles = read_articles(ARTICLES)

    @tool(category="rag", access="read", replayable_result=True)
    async def wiki_search(query: str) -> ToolResult:
        """Search the Harbour wiki: how the house works, its rules and its systems.

        Args:
            query: A few words, in any order. Rare words count more.
        """
        found = rank(articles, query)[: options.max_results]
        if not found:
            titles = ", ".join(article.title for article in articles)
            return ToolResult(f"No article has any of these words. The wiki's articles: {titles}.")
        return ToolResult("\n\n".join(_shown(article, options.max_characters) for article in found))

    return [wiki_search]


def read_articles(folder: Path) -> tuple[Article, ...]:
    """The Markdown files of a folder as articles, sorted by file name."""
    articles: list[Article] = []
    for path in sorted(folder.glob("*.md")):
        title, _, text = path.read_text(encoding="utf-8").partition("\n")
        articles.append(Article(title.lstrip("# "), text.strip()))
    return tuple(articles)


def rank(articles: Sequence[Article], query: str) -> list[Article]:
    """The articles that hold a word of the query, best first.

    A word scores ``log(1 + N / n)`` where n of N articles hold it, three times that in the title.
    """
    words = [Counter(_words(f"{article.title} {article.text}")) for article in articles]
    holding = Counter(word for counted in words for word in counted)
    scored = [
        (_score(article, counted, set(_words(query)), holding, len(articles)), -index)
        for index, (article, counted) in enumerate(zip(articles, words, strict=True))
    ]
    return [articles[-index] for score, index in sorted(scored, reverse=True) if score > 0]


def _score(
    article: Article, counted: Mapping[str, int], query: set[str], holding: Mapping[str, int], total: int
) -> float:
    title = set(_words(article.title))
    return sum(
        log(1 + total / holding[word]) * (3 if word in title else 1)
        for word in sorted(query)
        if word in counted
    )


def _words(text: str) -> list[str]:
    """The words of three letters and more, without a final ``s``: a query for a release finds releases."""
    found = (word for word in re.findall(r"\w+", text.lower()) if len(word) > 2 or not word.isascii())
    return [word.removesuffix("s") for word in found]


def _shown(article: Article, max_characters: int) -> str:
    cut = len(article.text) - max_characters
    text = article.text if cut <= 0 else f"{article.text[:max_characters]}... ({cut} characters cut)"
    return f"# {article.title}\n{text}"
