"""JSON Schema from Python annotations, and typed values from validated JSON, without pydantic's import cost.

One mechanism serves the Config, components' ``Options`` and tool signatures. It supports these types:

- bool, int, float, str, Any, Literal, enums, ``X | None``, unions;
- list, tuple[T, ...], Sequence, Mapping[str, T];
- dataclasses, TypedDict, Path, ``Secret``, and ``Annotated`` with the markers;
- pydantic models wherever a dataclass is accepted, through their own methods.

This module only collects the names. The code is in ``types``, ``signatures``, ``construct`` and ``coercion``.
"""

from __future__ import annotations

from zeus_runtime.config.schema.coercion import coerce
from zeus_runtime.config.schema.construct import BuildError, build
from zeus_runtime.config.schema.markers import (
    Alias,
    AlsoCalled,
    Doc,
    FileRelative,
    Maximum,
    MaxLength,
    Minimum,
    MinLength,
    Pattern,
    RefTo,
)
from zeus_runtime.config.schema.signatures import schema_of, schema_of_function
from zeus_runtime.config.secrets.masking import Secret

__all__ = [
    "Alias",
    "AlsoCalled",
    "BuildError",
    "Doc",
    "FileRelative",
    "MaxLength",
    "Maximum",
    "MinLength",
    "Minimum",
    "Pattern",
    "RefTo",
    "Secret",
    "build",
    "coerce",
    "schema_of",
    "schema_of_function",
]
