"""Words and patterns of the rules about texts, in YAML files by language; each is read when it is first needed."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any


@cache
def read(name: str) -> Any:
    """What the file ``name.yaml`` holds, such as ``admission/data/en``."""
    import yaml

    text = (Path(__file__).parent / f"{name}.yaml").read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
