"""JSON Schema from Python annotations, and typed values from validated JSON, without pydantic's import cost.

One mechanism serves the Config, components' ``Options`` and tool signatures. It knows bool, int, float, str, Any,
Literal, ``X | None``, unions, list, tuple[T, ...], Sequence, Mapping[str, T], dataclasses, TypedDict, ``Secret`` and
``Annotated`` with the markers below; a pydantic model is accepted wherever a dataclass is, through its own methods.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Doc:
    """The description of a field or parameter."""

    text: str


@dataclass(frozen=True)
class Minimum:
    """The least allowed number (inclusive)."""

    value: float


@dataclass(frozen=True)
class Maximum:
    """The greatest allowed number (inclusive)."""

    value: float
