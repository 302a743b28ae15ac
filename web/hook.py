"""Hatch's build hook: a wheel contains the page; an editable installation finds it once ``make web`` has built it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface):
    """Builds the page before files are collected for a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build it; ``version`` is ``standard`` or ``editable``."""
        if version == "standard":
            _builder(self.root).build()


def _builder(root: str) -> Any:
    name = "zeus_page_build"
    spec = importlib.util.spec_from_file_location(name, Path(root) / "web" / "build.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules.setdefault(name, importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module
