"""Of large texts the lines in which they differ are compared, and the others are counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zeus_plugins.tools.filesystem import changed_part as module
from zeus_plugins.tools.filesystem.changed_part import MOST_COMPARED, ChangedPart, changed_part

from tests.support.agents import call, calling, script, write_agent
from zeus_runtime import Agent
from zeus_runtime.tools.kept_changes import KeptChange, changes_of, kept
from zeus_runtime.tools.preview import Change

TEXTS = st.lists(st.sampled_from(["a\n", "b\n", "\n", "cc\n", "aéa"]), max_size=40).map("".join)


def kept_part(part: ChangedPart) -> list[dict[str, Any]]:
    before = None if part.before is None else part.before.decode()
    change = Change("/f", before, part.after.decode(), first_line=part.first_line, left=part.left)
    return [each.as_json() for each in kept([change])]


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_a_part_shows_the_same_lines_as_the_whole(head: str, old: str, new: str, tail: str) -> None:
    before, after = head + old + tail, head + new + tail
    whole = ChangedPart(before.encode(), after.encode())
    with mock.patch.multiple(module, MOST_COMPARED=0, _MARGIN=0, _cut=lambda text: (text, b"")):
        part = changed_part(before.encode(), after.encode())
    assert kept_part(part) == kept_part(whole)


@pytest.mark.parametrize("is_new", [True, False])
@given(old=TEXTS, new=TEXTS, most=st.integers(1, 30))
def test_every_line_that_is_left_out_is_counted(is_new: bool, old: str, new: str, most: int) -> None:
    with mock.patch.multiple(module, MOST_COMPARED=most, _MARGIN=0):
        part = changed_part(None if is_new else old.encode(), new.encode())
    assert max(len(part.before or b""), len(part.after)) <= most
    shown = [*(part.before or b"").splitlines(), *part.after.splitlines()]
    if is_new:
        assert (part.left[0], len(shown) + part.left[1]) == (0, len(new.encode().splitlines()))
        assert len(part.after) + part.left[2] == len(new.encode())
    elif old != new:
        assert any(part.left) or part.before != part.after


def test_a_secret_around_a_change_is_in_the_part() -> None:
    lines = [f"{number}\n".encode() for number in range(200_000)]
    before = b"".join(lines)
    lines[100_000] = b"changed\n"
    part = changed_part(before, b"".join(lines))
    assert part.before is not None
    assert b"\n93000\n" in part.before
    assert b"\n107000\n" in part.before
    assert len(part.before) < MOST_COMPARED
    assert part.left == (0, 0, 0)


async def test_changes_of_large_and_binary_files_are_kept(tmp_path: Path) -> None:
    (tmp_path / "big.py").write_text("secure = True\n" + "#" * 50 + "\n" + "# padding\n" * 60_000)
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0\n\xff\n")
    model = script(
        calling(call("edit_file", "a", path="big.py", old="secure = True", new="secure = False")),
        calling(call("write_file", "b", path="big.py", content="x\n")),
        calling(call("write_file", "c", path="big.py", content="y\n" * 500_000)),
        calling(call("write_file", "d", path="picture.png", content="z\n")),
        "Done.",
    )
    config = write_agent(tmp_path, tools="[probe, filesystem]")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        result = await agent.run("go")
        log = await agent.masked_log()
        messages = [each.payload for each in await log.read(await log.find(result.session))]
    found = [each for each in map(changes, messages) if each]
    assert [(each.path, each.removed, each.added, each.uncompared) for (each,) in found] == [
        ("/big.py", 1, 1, 0),
        ("/big.py", 60_001, 0, 20_008),
        ("/big.py", 0, 499_999, 300_001),
        ("/picture.png", 2, 1, 0),
    ]
    assert "no diff of a file of this size" in str(messages)


def changes(payload: str) -> list[KeptChange]:
    return list(changes_of(json.loads(payload)))
