"""Texts that are compared with a committed file; ``ZEUS_GOLDEN=1`` rewrites the file instead."""

from __future__ import annotations

import os
from pathlib import Path


def assert_golden(file: Path, text: str) -> None:
    """``text`` is exactly what ``file`` holds."""
    if os.environ.get("ZEUS_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert file.exists(), f"{file} is missing: run once with ZEUS_GOLDEN=1 and read what it wrote"
    assert text == file.read_text(encoding="utf-8")
