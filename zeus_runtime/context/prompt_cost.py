"""The fixed part of a request: the prompt's sections and the tools, each counted once and named by its digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from zeus_runtime.context.tokens import Counter
    from zeus_runtime.models.interface import ToolSchema


FORM: Final = "(response format)"
"""The name of the answer's form among the tools of ``Fixed``."""
SETTINGS: Final = "(settings)"
"""The name of settings without such a form."""


@dataclass(frozen=True)
class PromptPart:
    """A section of the prompt or a tool's schema: the digest of its text, and its tokens."""

    digest: str
    tokens: int


@dataclass(frozen=True)
class Fixed:
    """The parts of a request other than messages.

    Args:
        digest: names all of them.
        tokens: of all of them, including the provider's framing.
        sections: parts by name, in the prompt's order.
        tools: parts by name, in the order in which the model sees them.
        texts: the text of every part and of the whole (its JSON), by digest.
        sources: the digest of a section's sources (a JSON list), by section; only for sections that state them.
    """

    digest: str
    tokens: int
    sections: Mapping[str, PromptPart]
    tools: Mapping[str, PromptPart]
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    sources: Mapping[str, str] = field(default_factory=dict)


def fixed_from_json(digest: str, text: str) -> Fixed:
    """The ``Fixed`` that a digest names, from its stored text; without the texts of its parts."""
    value = json.loads(text)
    return Fixed(
        digest,
        value["tokens"],
        {name: PromptPart(*part) for name, part in value["sections"].items()},
        {name: PromptPart(*part) for name, part in value["tools"].items()},
        sources=value.get("sources", {}),
    )


class ToolCounts:
    """Tool schemas counted once for all runs of an agent; it holds one entry per tool.

    Args:
        counter: counts tokens.
    """

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._parts: dict[str, tuple[ToolSchema, PromptPart, str]] = {}
        self._together: tuple[tuple[str, ...], int] = ((), 0)

    def part(self, schema: ToolSchema) -> tuple[PromptPart, str]:
        """The tool's part, and its text."""
        known = self._parts.get(schema.name)
        if known is None or known[0] != schema:
            text = _json(
                {"name": schema.name, "description": schema.description, "parameters": schema.parameters}
            )
            # Measured as the second of two: the framing around all tools belongs to no single tool.
            own = self._counter.tools([schema, schema]) - self._counter.tools([schema])
            known = self._parts[schema.name] = (schema, PromptPart(_digest(text), own), text)
        return known[1:]

    def together(self, schemas: Sequence[ToolSchema]) -> int:
        """The tokens of ``schemas`` sent together."""
        digests = tuple(self.part(schema)[0].digest for schema in schemas)
        if self._together[0] != digests:
            self._together = (digests, self._counter.tools(schemas))
        return self._together[1]


class FixedParts:
    """Counts and names the fixed part of one run's requests; unchanged parts are not counted again.

    Args:
        counter: counts tokens.
        schemas: the tools.
        tools: counts that are already known; by default it counts the tools itself.
        settings: of each request; the form of the answer and reasoning cost tokens.
    """

    def __init__(
        self,
        counter: Counter,
        schemas: Sequence[ToolSchema],
        tools: ToolCounts | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._counter = counter
        self._form = _form_part(counter, settings) if settings else None
        self._form_name = FORM if settings and "response_format" in settings else SETTINGS
        self._schemas = schemas
        self._counts = tools or ToolCounts(counter)
        self._sections: Mapping[str, PromptPart] = {}
        self._last: tuple[tuple[Any, ...], Fixed] | None = None

    def measure(
        self,
        sections: Sequence[tuple[str, str]],
        system: str,
        sources: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    ) -> Fixed:
        """The fixed part of a request.

        Args:
            sections: (name, text) of each, in order.
            system: the whole prompt.
            sources: the sources of each section, by section.
        """
        given = tuple((str(name), text) for name, text in sections)
        made_from = {str(name): _json(list(each)) for name, each in (sources or {}).items()}
        if self._last is not None and self._last[0] == (given, made_from):
            return self._last[1]
        # Only what this request has: a section that changes with each step must not fill the memory.
        self._sections = {text: self._sections.get(text) or self._part(text) for _, text in given}
        parts = {name: self._sections[text] for name, text in given}
        known = {schema.name: self._counts.part(schema) for schema in self._schemas}
        tools = {name: part for name, (part, _) in known.items()}
        tokens = self._counter.fixed(system) + self._counts.together(self._schemas)
        if self._form is not None:
            known[self._form_name] = self._form
            tools[self._form_name] = self._form[0]
            tokens += self._form[0].tokens
        digests = {name: _digest(text) for name, text in made_from.items()}
        whole = _json(
            {
                "tokens": tokens,
                "sections": {name: [part.digest, part.tokens] for name, part in parts.items()},
                "tools": {name: [part.digest, part.tokens] for name, part in tools.items()},
                **({"sources": digests} if digests else {}),
            }
        )
        digest = _digest(whole)
        texts = {part.digest: text for text, part in self._sections.items()}
        texts.update((part.digest, text) for part, text in known.values())
        texts.update((digests[name], text) for name, text in made_from.items())
        fixed = Fixed(digest, tokens, parts, tools, {**texts, digest: whole}, digests)
        self._last = ((given, made_from), fixed)
        return fixed

    def _part(self, text: str) -> PromptPart:
        return PromptPart(_digest(text), self._counter.text(text))


def _form_part(counter: Counter, settings: Mapping[str, Any]) -> tuple[PromptPart, str]:
    """The part of the settings that the provider shows to the model, and its text."""
    text = _json(settings)
    return PromptPart(_digest(text), counter.fixed(settings=settings) - counter.fixed()), text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]
