"""The Counter protocol, and its one implementation: texts counted by a function, plus a provider's overheads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from zeus_runtime.context.tokens.terms import Terms, fixed_terms, message_terms, tools_terms
from zeus_runtime.models.interface import ModelRequest, ToolSchema
from zeus_runtime.models.pictures import pictures_of

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from zeus_runtime.context.tokens.framing import Framing
    from zeus_runtime.models.pictures import Picture


class Counter(Protocol):
    """Counts tokens as one model's provider would. Pure: the same argument always gives the same count.

    A request costs ``fixed`` for its system prompt and tools, and ``message`` for each message. Neither depends on the
    rest of the request, so a caller counts each message once. Third parties may implement this.
    """

    @property
    def exact(self) -> bool:
        """Whether texts are counted by the model's own tokenizer, not estimated."""
        ...

    def text(self, text: str) -> int:
        """The tokens of a text by itself; 0 for an empty one."""
        ...

    def message(self, message: BaseMessage) -> int:
        """The tokens that a message adds to a request, with its framing, calls, stored reasoning and pictures."""
        ...

    def tools(self, schemas: Sequence[ToolSchema]) -> int:
        """The tokens that tool schemas add to a request, with the provider's framing; 0 for none."""
        ...

    def fixed(
        self, system: str = "", schemas: Sequence[ToolSchema] = (), settings: Mapping[str, Any] | None = None
    ) -> int:
        """The tokens of a request without its messages.

        Args:
            system: the system prompt.
            schemas: the tools.
            settings: per-call settings; ``tool_choice``, ``response_format``, ``thinking`` and
                ``reasoning_effort`` cost tokens.
        """
        ...


class FramedCounter:
    """Texts counted by ``count``, with the overheads of ``framing``.

    Args:
        count: the tokens of a text.
        framing: a provider's overheads.
        exact: whether ``count`` is the model's own tokenizer.
        picture: the tokens of a picture; 0 for a model without vision.
    """

    def __init__(
        self,
        count: Callable[[str], float],
        framing: Framing,
        *,
        exact: bool,
        picture: Callable[[Picture], int] = lambda _picture: 0,
    ) -> None:
        self._count = count
        self._framing = framing
        # A tokenizer's count is in tokens already; only an estimate is scaled as the family needs.
        self._costs = {**framing.costs, "text": 1.0} if exact else framing.costs
        self._exact = exact
        self._picture = picture

    @property
    def exact(self) -> bool:
        return self._exact

    @property
    def uncertainty(self) -> float:
        """The share of a long text's count that it may take more, in one of twenty cases; 0 for an exact tokenizer."""
        return 0.0 if self._exact else self._framing.uncertainty

    def text(self, text: str) -> int:
        return round(self._price({"text": self._count(text)})) if text else 0

    def message(self, message: BaseMessage) -> int:
        pictures = sum(map(self._picture, pictures_of(message)))
        return round(self._price(message_terms(message, self._count))) + pictures

    def tools(self, schemas: Sequence[ToolSchema]) -> int:
        return round(self._price(tools_terms(schemas, self._count, self._framing.notation)))

    def fixed(
        self, system: str = "", schemas: Sequence[ToolSchema] = (), settings: Mapping[str, Any] | None = None
    ) -> int:
        terms = fixed_terms(system, settings or {}, self._count, tools=bool(schemas))
        return round(self._price(terms)) + self.tools(schemas)

    def _price(self, terms: Terms) -> float:
        cost = self._costs.get
        return sum(quantity * cost(name, 0.0) for name, quantity in terms.items())


def request_tokens(counter: Counter, request: ModelRequest) -> int:
    """The tokens of a whole request, with every message counted again."""
    fixed = counter.fixed(request.system, request.tools, request.settings)
    return fixed + sum(map(counter.message, request.messages))
