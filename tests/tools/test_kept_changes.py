"""The changes that a call made, as the log keeps them."""

from __future__ import annotations

import json
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from zeus_plugins.tools.filesystem import changed_part

from zeus_runtime.strict_json import well_formed
from zeus_runtime.tools.approval import PendingApproval
from zeus_runtime.tools.diff import DiffGap, DiffLine, difference
from zeus_runtime.tools.kept_changes import MOST_CHARACTERS, MOST_LINES, changes_of, kept
from zeus_runtime.tools.preview import Change, Preview
from zeus_runtime.tools.question import change_lines, question_lines

texts = st.lists(
    st.sampled_from(["a\n", "b\n", "c \n", "\u202ed\n", "e", '\udce9\\"\n', "\ufffd\n"]), max_size=8
).map("".join)


@given(before=st.none() | texts, after=texts, name=st.just("/plan\u200b.md"))
@example(before="\udce9\n", after="\ufffd\n", name="/\udcff.md")
@example(before="a\n", after="b\n", name="/\udcff.md")
def test_a_change_is_shown_after_its_call_as_it_was_shown_before_it(
    before: str | None, after: str, name: str
) -> None:
    change = Change(name, before, after)
    # As the log writes it.
    stored = json.loads(
        well_formed(json.dumps([each.as_json() for each in kept([change])], ensure_ascii=False))
    )
    found = changes_of({"role": "tool", "artifact": {"changes": stored}})
    if not difference(before or "", after).lines and before is not None:
        assert found == []
        return
    asked = PendingApproval("id", "s", "r", "1", "d", "tool", {}, preview=Preview((change,)))
    lines = [each for each in question_lines(asked) if "waits for approval" not in each.text]
    assert change_lines(found) == lines


@given(st.lists(st.integers(0, 900), min_size=1, max_size=3), st.integers(1, 60), st.booleans())
def test_a_long_change_is_cut_and_every_line_is_counted(
    counts: list[int], width: int, replaces: bool
) -> None:
    changes = [
        Change(
            f"/{at}",
            "".join(f"old {line}\n" for line in range(count)) if replaces else None,
            "".join(f"{'x' * width}{line}\n" for line in range(count)),
        )
        for at, count in enumerate(counts)
    ]
    found = kept(changes)
    lines = [line for each in found for line in each.lines]
    shown = [line for line in lines if isinstance(line, DiffLine)]
    assert len(shown) <= MOST_LINES
    assert sum(len(line.text) for line in shown) <= MOST_CHARACTERS
    for each in found:
        left = sum(line.lines for line in each.lines if isinstance(line, DiffGap))
        assert (
            len([line for line in each.lines if isinstance(line, DiffLine)]) + left
            == each.removed + each.added
        )


def test_a_call_that_changes_many_texts_keeps_that_each_changed() -> None:
    many = MOST_LINES + 50
    found = kept([Change(f"/{at}", None, f"{at}\n") for at in range(many)])
    assert [each.path for each in found] == [f"/{at}" for at in range(many)]
    assert found[-1].lines == [DiffGap(1, len(f"{many - 1}\n"))]


def test_lines_of_a_part_are_counted_from_where_it_begins_and_what_it_leaves_out_is_told() -> None:
    text = "".join(f"{line}\n" for line in range(10))
    (found,) = kept([Change("/a", text, text.replace("5", "x"), first_line=101, left=(7, 8, 90))])
    assert found.lines[0] == DiffLine("@", "103")
    assert found.lines[-1] == DiffGap(15, 90)
    assert (found.removed, found.added, found.uncompared) == (1, 2, 15)
    (unseen,) = kept([Change("/a", "", "", left=(1, 1, 900_000))])
    assert unseen.lines == [DiffGap(2, 900_000)]
    assert change_lines([unseen])[0].text == "  /a: at least 0 removed, 0 added; 2 lines not compared"
    (new,) = kept([Change("/a", None, "x\n", left=(0, 5, 90))])
    assert (new.added, new.is_compared) == (6, True)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("first\n" + "x\ny\n" * 9 + "last\n", "1st\n" + "x\ny\n" * 9 + "end\n"),
        ("".join(f"{n}\n" for n in range(20)), "new\n" + "".join(f"{n}\n" for n in range(19)) + "end\n"),
        ("".join(f"{n}\n" for n in range(20)), "one\n"),
        ("one\n", "".join(f"{n}\n" for n in range(20))),
        ("x\n" * 20, "y\n" * 30),
        ("".join(f"{n}\n" for n in range(20)), "".join(f"{n}\n" for n in range(8, 20))),
    ],
)
def test_of_large_texts_no_more_changes_are_counted_than_there_are(old: str, new: str) -> None:
    (whole,) = kept([Change("/a", old, new)])
    for most in range(2, 60, 3):
        with mock.patch.multiple(changed_part, MOST_COMPARED=most, _MARGIN=0):
            part = changed_part.changed_part(old.encode(), new.encode())
        assert part.before is not None
        change = Change("/a", part.before.decode(), part.after.decode(), left=part.left)
        (found,) = kept([change])
        assert found.removed <= whole.removed
        assert found.added <= whole.added
        assert whole.removed + whole.added <= found.removed + found.added + found.uncompared
        (read,) = changes_of({"artifact": {"changes": [found.as_json()]}})
        heading = change_lines([read])[0].text
        assert ("at least" in heading) == (f"; {found.uncompared} line" in heading) == bool(any(part.left))


def test_a_result_without_changes_has_none() -> None:
    for payload in (
        {"role": "user", "content": "x"},
        {"role": "tool", "artifact": None},
        {"artifact": {"state": {}}},
    ):
        assert changes_of(payload) == []
