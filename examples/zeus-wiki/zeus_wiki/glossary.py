"""The middleware `glossary`: tells the model what the house's own words mean, where they are used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

from zeus_runtime.plugin import Doc, Minimum, RunContext
from zeus_runtime.plugin.middleware import Middleware, Section, Turn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from zeus_runtime.plugin.tool import ToolCall, ToolResult


@dataclass(frozen=True)
class Options:
    """Which words, and where they are explained."""

    terms: Annotated[Mapping[str, str], Doc("Word to its meaning.")] = field(default_factory=dict)
    max_terms: Annotated[int, Doc("Words explained in one place; the first of `terms` win."), Minimum(1)] = 10
    in_results: Annotated[bool, Doc("Also explain words that a tool result uses.")] = False


class Glossary(Middleware):
    """Fills the resources section with the words of the user's prompt, and extends tool results if asked to."""

    def __init__(self, options: Options, context: RunContext) -> None:
        self._options = options

    async def sections(self, turn: Turn) -> Mapping[Section, str]:
        """The words that the user's prompt uses."""
        lines = self._explained(turn.prompt)
        return {Section.RESOURCES: f"Words of this house:\n{lines}"} if lines else {}

    async def wrap_tool_call(
        self, call: ToolCall, call_next: Callable[[ToolCall], Awaitable[ToolResult]]
    ) -> ToolResult:
        """The result, with the words it uses explained at its end."""
        result = await call_next(call)
        lines = self._explained(result.content) if self._options.in_results else ""
        return (
            replace(result, content=f"{result.content}\n\nWords of this house:\n{lines}") if lines else result
        )

    def _explained(self, text: str) -> str:
        used = list(used_terms(self._options.terms, text))[: self._options.max_terms]
        return "\n".join(f"- {term}: {self._options.terms[term]}" for term in used)


def used_terms(terms: Iterable[str], text: str) -> Iterable[str]:
    """The terms that stand in the text as whole words, whatever their case."""
    return (term for term in terms if re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text, re.IGNORECASE))
