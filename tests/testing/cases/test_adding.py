"""A case is written at the end of an evaluation file, and nothing else in the file changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.config.yaml.reader import read
from zeus_runtime.config.yaml.tree import plain
from zeus_runtime.errors import UsageError
from zeus_runtime.testing.cases.adding import new_file, with_case

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1) | st.sampled_from(
    [
        "0o14",
        "1e3",
        "yes",
        "null",
        "- a",
        "a: b",
        "# no",
        "a\n b\n",
        " a\nb",
        "a\n\n",
        "\n",
        "x\n\ty",
        "a #b",
        "~",
    ]
)
CASES = st.fixed_dictionaries(
    {"name": TEXT, "prompt": TEXT},
    optional={
        "prompts": st.lists(TEXT, min_size=1),
        "files": st.dictionaries(TEXT, TEXT, min_size=1),
        "expect": st.lists(
            st.fixed_dictionaries(
                {}, optional={"contains": TEXT, "tool_calls": st.lists(TEXT), "max_steps": st.integers(1, 99)}
            ),
            min_size=1,
        ).filter(all),
    },
)
CASE: dict[str, Any] = {"name": "new", "prompt": "Go.", "expect": [{"contains": "done"}]}

FILES = [
    "cases:\n  - name: old # why\n    prompt: |\n      # a line\n\n      the end\n",
    "cases:\n- name: old\n  prompt: Go.\nagent: zeus.yaml  # ours\n",
    "# first\nversion: 1\ncases:\n    - {name: old, prompt: 'Go.'}\n\n# about the agent\nagent: zeus.yaml",
    "cases:\n  - name: old\n    prompt: Go.\n# the end\n",
]


@given(CASES)
def test_a_new_file_holds_any_case_as_it_is(case: dict[str, Any]) -> None:
    assert plain(read(new_file("zeus.yaml", case), "f")) == {
        "version": 1,
        "agent": "zeus.yaml",
        "cases": [case],
    }


@given(st.sampled_from(FILES), st.lists(CASES, min_size=1, max_size=3))
def test_each_case_is_added_and_every_line_stays(text: str, cases: list[dict[str, Any]]) -> None:
    before = plain(read(text, "f"))
    made = text
    for case in cases:
        made = with_case(made, case, "f")
    assert plain(read(made, "f")) == {**before, "cases": [*before["cases"], *cases]}
    left = iter(made.split("\n"))
    assert all(line in left for line in text.rstrip("\n").split("\n"))


def test_a_comment_above_the_next_key_stays_with_that_key() -> None:
    assert with_case(FILES[2], CASE, "f").endswith("\n\n# about the agent\nagent: zeus.yaml")


@pytest.mark.parametrize("text", ["cases: [{name: old}]\n", "cases: []\n", "version: 1\n", "cases: {a: b}\n"])
def test_a_file_that_cannot_be_extended_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cannot be extended"):
        with_case(text, CASE, "f")
