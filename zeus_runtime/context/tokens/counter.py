"""The Counter protocol, and the one implementation: texts counted by a function, framed by a provider's overheads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from zeus_runtime.models.interface import ModelRequest, ToolSchema

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from zeus_runtime.context.tokens.framing import Framing


class Counter(Protocol):
    """Counts tokens as one model's provider would. Pure: the same argument always gives the same count.

    A request takes ``fixed`` for its system prompt and tools, and ``message`` for each message; nothing depends on
    what else is sent, so a caller counts each message once. Third parties satisfy this.
    """

    @property
    def exact(self) -> bool:
        """Whether texts are counted by the model's own tokenizer, not estimated."""
        ...

    def text(self, text: str) -> int:
        """The tokens of a text by itself; 0 for an empty one."""
        ...

    def message(self, message: BaseMessage) -> int:
        """The tokens a message adds to a request, with its framing, calls and kept reasoning."""
        ...

    def tools(self, schemas: Sequence[ToolSchema]) -> int:
        """The tokens tool schemas add to a request, with what the provider writes around them; 0 for none."""
        ...

    def fixed(self, system: str = "", schemas: Sequence[ToolSchema] = ()) -> int:
        """The tokens of a request without any message: system prompt, tools and what every request costs."""
        ...


class FramedCounter:
    """Texts counted by ``count``, framed as ``framing`` says.

    Args:
        count: the tokens of a text.
        framing: a provider's overheads.
        exact: whether ``count`` is the model's own tokenizer.
    """

    def __init__(self, count: Callable[[str], int], framing: Framing, *, exact: bool) -> None:
        self._count = count
        self._framing = framing
        self._exact = exact

    @property
    def exact(self) -> bool:
        return self._exact

    def text(self, text: str) -> int:
        return self._count(text) if text else 0

    def message(self, message: BaseMessage) -> int:
        tokens = self._framing.message + self.text(content_text(message.content))
        for call in getattr(message, "tool_calls", ()):
            tokens += self._framing.call + self.text(call["name"]) + self.text(compact(call["args"]))
        for call in getattr(message, "invalid_tool_calls", ()):
            tokens += self._framing.call + self.text(call["name"] or "") + self.text(call["args"] or "")
        return round(tokens)

    def tools(self, schemas: Sequence[ToolSchema]) -> int:
        if not schemas:
            return 0
        tokens = self._framing.tools
        for schema in schemas:
            tokens += self._framing.tool + self.text(schema.name) + self.text(schema.description)
            tokens += self.text(compact(schema.parameters))
        return round(tokens)

    def fixed(self, system: str = "", schemas: Sequence[ToolSchema] = ()) -> int:
        framed = self._framing.system + self.text(system) if system else 0
        return round(self._framing.request + framed) + self.tools(schemas)


def request_tokens(counter: Counter, request: ModelRequest) -> int:
    """The tokens of a whole request; for tools and tests, since the context engine counts each message once."""
    return counter.fixed(request.system, request.tools) + sum(map(counter.message, request.messages))


def content_text(content: str | Sequence[str | Mapping[str, Any]]) -> str:
    """The texts of a message's content, joined; blocks that are not text are written as JSON."""
    if isinstance(content, str):
        return content
    return "".join(
        block if isinstance(block, str) else str(block["text"]) if "text" in block else compact(block)
        for block in content
    )


def compact(value: Any) -> str:
    """``value`` as JSON without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
