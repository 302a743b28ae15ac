"""The build backend: hatchling's, which asks for Node only to build a wheel whose page is not built yet."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import hatchling.build as hatch
from hatchling.build import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
)

sys.path.insert(0, str(Path(__file__).parent))
import bundle

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """What building a wheel needs besides hatchling."""
    return [
        *hatch.get_requires_for_build_wheel(config_settings),
        *([] if bundle.is_fresh() else [bundle.NODE]),
    ]
