"""docs/reference/settings.md lists every setting with its observation and its paths. ``ZEUS_GOLDEN=1`` writes it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.acceptance.path_settings import ON_PATHS
from tests.acceptance.paths import PATHS
from tests.acceptance.schema_leaves import REQUIRED, schema_leaves
from tests.acceptance.settings import Flip
from tests.acceptance.test_no_inert_setting import FLIPS
from tests.support.golden import assert_golden

PAGE = Path(__file__).parents[2] / "docs/reference/settings.md"
HEAD = """# Every setting, and where its effect is observed

Tests generate this page: `ZEUS_GOLDEN=1 .venv/bin/pytest tests/acceptance/test_settings_table.py`. Do not edit it.
It has a line for every key of [the schema](../../schemas/zeus.schema.json), with `*` for a name of yours. For each key,
a test sets another value and compares one observation with and without it. *Observed* names the observation. *Paths* is
how the agent was started for it; `all` means {paths}.
Another test checks that the whole config reaches the run unchanged on each of these paths.
"""


def table() -> str:
    """The page's text."""
    flips = {flip.key: flip for flip in FLIPS}
    places = {each.key: each for each in ON_PATHS}
    sections: dict[str, list[str]] = {}
    for key, default in schema_leaves().items():
        component, is_component, option = key.partition(".") if ":" in key else ("Core", "", key)
        where, paths = observation(flips[key]), "Python"
        if key in places:
            where, paths = f"{where}; on all paths: {places[key].where}", "all"
        row = f"| `{option if is_component else key}` | {shown(default)} | {where} | {paths} |"
        sections.setdefault(component, []).append(row)
    parts = [HEAD.format(paths=", ".join(PATHS))]
    for name, rows in sections.items():
        title = name if name == "Core" else f"`{name}`"
        parts.append(
            "\n".join([f"## {title}", "", "| key | default | observed | paths |", "|---|---|---|---|", *rows])
        )
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def observation(flip: Flip) -> str:
    """The first sentence of the function that looks; without a docstring, the words of its name."""
    see: Any = flip.see
    module = sys.modules[see.__module__]
    outer: Any = getattr(module, see.__qualname__.partition(".")[0], module)
    said = str(see.__doc__ or outer.__doc__ or "").strip().partition("\n")[0]
    return said.replace("|", "\\|").replace("``", "`").rstrip(".") or str(outer.__name__).strip("_").replace(
        "_", " "
    )


def shown(default: Any) -> str:
    text = json.dumps(default, ensure_ascii=False) if default is not REQUIRED else ""
    return f"`{text.replace('|', chr(92) + '|')}`" if text else ""


def test_the_page_of_settings_is_what_the_tests_observe() -> None:
    assert_golden(PAGE, table())


def test_every_key_that_is_tried_on_every_path_is_a_leaf_of_the_schema() -> None:
    assert {flip.key for flip in ON_PATHS} <= set(schema_leaves()) | {"prompt.variables"}
