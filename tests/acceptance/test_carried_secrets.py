"""A law: wherever a config takes a text, a secret of the environment in it is part of what the user allows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.acceptance.settings import Scene, with_key
from tests.acceptance.test_no_inert_setting import FLIPS
from zeus_runtime import ZeusError
from zeus_runtime.plan.parts_with_subagents import all_parts
from zeus_runtime.plan.validated import examine_config

DECLARED = {"api_key"}
"""The keys that their types declare to be secrets, and that stand here beside no address that asks."""
REACH_OTHERS = {
    "metadata",
    "mcpServers.*.headers",
    "model",
    "model:litellm.headers",
    "tool:web.user_agent",
    "vector_store:chroma.headers",
}
"""Some keys whose configs are valid here, so the law has judged them."""


def variants(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """``value`` with a variable in the place of each of its texts, one at a time, and the place."""
    if isinstance(value, str):
        yield path, "${CARRIED_TOKEN}"
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from ((at, {**value, key: each}) for at, each in variants(item, (*path, key)))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            changed = variants(item, (*path, index))
            yield from ((at, [*value[:index], each, *value[index + 1 :]]) for at, each in changed)


def digests(scene: Scene, token: str) -> set[str] | None:
    """The digests of all parts; None for a config that is not valid."""
    text = json.dumps(scene.config)
    scene.write("zeus.yaml", text)
    others = {
        name: "8080" if name == "PORT" else "http://localhost:1/v1" for name in re.findall(r"\$\{(\w+)", text)
    }
    environ = {**others, "CARRIED_TOKEN": token}
    try:
        found = examine_config(None, directory=scene.folder, environ=environ)
    except ZeusError:
        return None
    return {part.digest for part in all_parts(found)}


def test_each_text_of_a_config_that_holds_a_secret_of_the_environment_is_asked_about(tmp_path: Path) -> None:
    judged: set[str] = set()
    unasked: set[str] = set()
    for number, flip in enumerate(FLIPS):
        scene = Scene(tmp_path / str(number), {})
        for path, value in variants(flip.value):
            scene.config = with_key({"version": 1, "model": "gpt-4o", **flip.given}, flip.key, value)
            one, two = (digests(scene, f"tok_{each}1b2c3d4e5f6g7h8i9") for each in "ab")
            if one is not None and two is not None:
                judged.add(flip.key)
                unasked |= {(path[-1] if path else flip.key.rpartition(".")[2])} if one == two else set()
    assert unasked == DECLARED
    assert judged >= REACH_OTHERS
