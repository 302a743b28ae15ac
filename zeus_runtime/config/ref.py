"""A Ref: how YAML chooses a component."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from zeus_runtime.frozen import dataclass


@dataclass(frozen=True)
class Ref:
    """A component chosen in YAML: ``name`` or ``{name: {options}}``."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
