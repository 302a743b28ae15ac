"""Hatch's build hook: a wheel contains the page; an editable installation finds it once ``make web`` has built it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface):
    """Builds the page before files are collected for a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build it; ``version`` is ``standard`` or ``editable``."""
        if version == "standard":
            sys.path.insert(0, str(Path(self.root) / "web"))
            import bundle

            bundle.build()
