"""A question as the user sees it before approving."""

from __future__ import annotations

import json
import math
import re
import time
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.encodings import output_in, read_back
from zeus_runtime.cli.event_lines import waiting_line
from zeus_runtime.columns import columns
from zeus_runtime.serving.http.routes.approvals import waiting_call
from zeus_runtime.tools import diff
from zeus_runtime.tools.approval import Decision, PendingApproval
from zeus_runtime.tools.diff import difference
from zeus_runtime.tools.preview import Change, Preview
from zeus_runtime.tools.question import (
    MOST_CHARACTERS,
    MOST_LINES,
    AnswerField,
    caller_text,
    deadline,
    question_lines,
    tool_label,
)

ODD = st.sampled_from(' "\\x1u0\n\t\r\x1b\u202e\u200b\u2028\xa0\u3000│┊…{}[],:漢\ud800')
texts = st.text(st.one_of(ODD, st.characters()), max_size=20)
values = st.recursive(
    st.one_of(texts, st.integers(), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=4,
)


def pending(arguments: dict[str, Any], preview: Preview | None = None) -> PendingApproval:
    return PendingApproval("id", "s", "r", "1", "d", "tool", arguments, reason="rule", preview=preview)


def shown(arguments: dict[str, Any], preview: Preview | None = None, **how: Any) -> list[str]:
    return [line.text for line in question_lines(pending(arguments, preview), **how)]


def asked(properties: dict[str, Any]) -> list[str]:
    """The lines of a question that a tool asks in its call."""
    schema = {"type": "object", "properties": properties}
    question = PendingApproval("id", "s", "r", "1.1", "d", "tool", {}, schema=schema)
    return [line.text for line in question_lines(question)]


# Short texts of few characters, so that two of them are often nearly the same.
alike = st.text(st.sampled_from("a  \t\n\\漢\u4dc0é\u0301⇥␠→│┊x09"), max_size=12)
encodings = st.sampled_from([None, None, "ascii", "gbk"])
widths = st.one_of(st.none(), st.integers(1, 24), st.just(80))


def seen(lines: Sequence[str]) -> list[str]:
    """What a person sees of the lines: no blank at a line's end, tabs as the columns they take."""
    return [unicodedata.normalize("NFC", line).expandtabs(8).rstrip() for line in lines]


@given(
    first=st.dictionaries(texts, values, max_size=3),
    second=st.dictionaries(texts, values, max_size=3),
    width=widths,
    encoding=encodings,
)
def test_two_different_calls_never_look_the_same(
    first: dict[str, Any], second: dict[str, Any], width: int | None, encoding: str | None
) -> None:
    if list(first.items()) != list(second.items()) or repr(first) != repr(second):
        with output_in(encoding):
            shows = [seen(shown(each, whole=True, width=width)) for each in (first, second)]
        assert shows[0] != shows[1]


@settings(max_examples=300)
@example(first="tar x \\\nb", second="tar x \\ \nb", width=None, encoding=None)
@example(first="\tx\ny", second="   x\ny", width=None, encoding=None)
@example(first="\n" + "a" * 30 + "漢b", second="\n" + "a" * 30 + " 漢b", width=40, encoding=None)
@example(first="\\é\n", second="\\xe9\n", width=None, encoding="ascii")
@example(first="⇥   x\n", second="\\tx\n", width=None, encoding="ascii")
@example(first="a" * 30 + " b\n", second="a" * 30 + "_b\n", width=38, encoding="ascii")
@given(first=alike, second=alike, width=widths, encoding=encodings)
def test_two_texts_of_a_value_or_a_diff_never_look_the_same(
    first: str, second: str, width: int | None, encoding: str | None
) -> None:
    if first == second:
        return

    def looks(text: str) -> list[list[str]]:
        """Each way to show it by itself: one that differs would hide the others."""
        changes = [Change("/f", before, text) for before in (None, "", f"{first}\n", "x\na \n\ta")]
        return [
            seen(shown({"it": text}, whole=True, width=width)),
            seen(shown({text: 1}, whole=True, width=width)),
            *(seen(shown({}, Preview((each,)), width=width)) for each in [*changes, Change(text, None, "")]),
        ]

    with output_in(encoding):
        assert not [way for way, other in zip(looks(first), looks(second), strict=True) if way == other]


def test_blanks_that_could_be_others_have_signs_in_blocks_and_diffs() -> None:
    assert shown({"it": "\tif x:  \n  y\t\n⇥␠"})[1:-1] == [
        "  it:",
        "    │ ⇥   if x:␠␠",
        "    │   y⇥",
        "    │ \\u21e5\\u2420",
    ]
    change = Change("/run.sh", "tar x \\\n", "tar x \\ \n")
    assert shown({}, Preview((change,)))[2:-1] == ["    - tar x \\", "    + tar x \\␠"]


def test_a_file_that_loses_its_byte_order_mark_shows_that() -> None:
    change = Change("/b.csv", "\ufeffname\n", "name\n")
    assert shown({}, Preview((change,)))[1:-1] == [
        "  /b.csv: 1 removed, 1 added",
        "    - \\ufeffname",
        "    + name",
    ]


@pytest.mark.parametrize("part", ["\u4dc0", "☰", "⚊", "\U0001d360", "·", "é", "Я", "a ", "漢 "])
@pytest.mark.parametrize("width", [50, 51, 52])
def test_a_line_fits_where_a_terminal_gives_two_columns_to_every_character_outside_ascii(
    part: str, width: int
) -> None:
    for text in (part * 300 + ".", f"\n{part * 300}."):
        for line in shown({"it": text}, width=width):
            assert len(line) + sum(not each.isascii() for each in line) < width


def test_a_long_value_is_folded_at_once() -> None:
    """One pass over the text: each character is measured once."""
    lines = shown({"it": "漢 " * 100_000}, whole=True, width=30)
    assert len(lines) > 10_000


def test_a_call_of_many_arguments_is_cut_with_their_number_and_shown_whole_when_asked() -> None:
    arguments = {f"name_{number}": "x" for number in range(5_000)}
    cut = shown(arguments)
    assert cut[MOST_LINES:] == [
        f"  name_{MOST_LINES - 1}: x",
        "  … 4,960 more arguments; v shows all",
        "  because: rule",
    ]
    assert "  name_4999: x" in shown(arguments, whole=True)
    fields = {f"field_{number}": {"type": "string"} for number in range(MOST_LINES + 1)}
    assert asked(fields)[-1] == "  … 1 more field; v shows all"
    changes = tuple(Change(f"/{number}", None, "a\n") for number in range(MOST_LINES + 2))
    assert "  … 2 more changes; v shows all" in shown({}, Preview(changes))


def test_a_long_name_is_cut_with_its_size_and_shown_whole_when_asked() -> None:
    for name in ("n" * 5_000, "n " * 2_500):
        line = shown({name: "x"})[1]
        assert line.endswith(" … 4,800 more characters: x")
        assert len(line) < 300
        assert name in shown({name: "x"}, whole=True)[1]
    long = asked({"x": {"type": "string", "description": "x" * 5_000}})
    assert [len(line) for line in long if line.startswith("  answer: ")] == [4_010]
    assert any(re.fullmatch(r"    … 1,0\d\d more characters; v shows all", line) for line in long)


def test_what_is_cut_can_be_seen_elsewhere() -> None:
    lines = shown({"it": "x" * 5_000}, rest="`show` shows all")
    assert "    … 1,000 more characters; `show` shows all" in lines


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("5", 5),
        ("true", True),
        ("null", None),
        ("", None),
        ('"x"', "x"),
        ("\\x1b", "\x1b"),
        ("\\n", "\n"),
        ("a b", "a\xa0b"),
        ("a", "a "),
        ("a\tb", "a       b"),
        ("a\n", "a"),
        ({"a": "\xa0"}, {"a": " "}),
        ('{"a": 1}', {"a": 1}),
        (1, 1.0),
        (1, True),
        (0, -0.0),
        (0.0, -0.0),
        (10**25, 1e25),
        (2**53, 2**53 + 1),
        ("1e400", float("inf")),
        ([1, {"a": 0}], [1.0, {"a": -0.0}]),
    ],
)
def test_values_that_are_easily_confused_look_different(first: Any, second: Any) -> None:
    assert shown({"it": first}) != shown({"it": second})


@example(arguments={"it": "字" * 5 + "####  because: it only reads"}, width=50, encoding="ascii")
@given(arguments=st.dictionaries(texts, values, max_size=3), width=st.integers(14, 90), encoding=encodings)
def test_every_line_fits_and_no_value_begins_where_our_lines_begin(
    arguments: dict[str, Any], width: int, encoding: str | None
) -> None:
    with output_in(encoding):
        head, *lines = shown(arguments, width=width)
    assert "tool waits for approval (id)".startswith(head.removesuffix(":").replace("␠", " "))
    for line in [head, *lines]:
        assert columns(line) < width
        assert line.isprintable()
        assert read_back(line, encoding) == line
    own = [line for line in lines if not line.startswith("    ")]
    assert len(own) == len(arguments) + 1, "one for each argument, and the reason"


def test_text_with_ends_that_cannot_be_seen_stands_in_quotes() -> None:
    for text in ("a ", " a", "a\tb", ""):
        assert f"  it: {json.dumps(text)}" in shown({"it": text})


def test_a_line_of_tabs_fits_too() -> None:
    lines = shown({"it": "\t" * 30 + "\nx"}, width=40)
    assert all(columns(line) < 40 for line in lines)


def test_the_name_of_an_argument_cannot_take_part_of_its_value() -> None:
    assert shown({"a: b": "c"}) != shown({"a": "b: c"})
    assert shown({"a\n": "c"}) != shown({"a\\n": "c"})


def test_the_lines_of_a_text_stand_behind_a_bar() -> None:
    assert shown({"content": "first\n  because: it only reads\n"}) == [
        "tool waits for approval (id)",
        "  content:",
        "    │ first",
        "    │   because: it only reads",
        "    │ ",
        "  because: rule",
    ]


def test_a_reason_and_a_problem_are_shown_exactly() -> None:
    asked = replace(pending({}, Preview((), (), "a  b\u2003c\nd")), reason="one\n  until\ttwo  three")
    assert [line.text for line in question_lines(asked)][1:3] == [
        "  no diff: a  b\\u2003c\\nd",
        "  because: one\\n  until\\ttwo  three",
    ]


def test_an_id_and_a_deadline_of_a_service_elsewhere_make_no_line_of_ours() -> None:
    forged: Any = "a1\n  because: it only reads\x1b[2J"
    told = replace(pending({}), id=forged, on_timeout=forged, expires_ms=1_000)
    first, because, until = (line.text for line in question_lines(told))
    assert first == "tool waits for approval (a1\\n  because: it only reads\\x1b[2J)"
    assert (because, until.partition("then: ")[2]) == (
        "  because: rule",
        "a1\\n  because: it only reads\\x1b[2J",
    )


@pytest.mark.parametrize(
    ("zone", "until"),
    [
        ("UTC0", "2026-11-30 03:54:26 UTC"),
        ("EST5", "2026-11-29 22:54:26 UTC-05:00"),
        ("<+0545>-5:45", "2026-11-30 09:39:26 UTC+05:45"),
    ],
)
def test_a_deadline_names_its_zone(monkeypatch: pytest.MonkeyPatch, zone: str, until: str) -> None:
    """The page, another client and another program show the line of a service, which may be anywhere."""
    asked = replace(pending({"path": "a"}), on_timeout="approve", expires_ms=1_796_010_866_000)
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        *others, last = waiting_call(asked)["lines"]
        listed = deadline(1_796_010_866_000, "approve")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert last["text"] == f"  until {until}, then: approve" == f"  until {listed}"
    assert last["moment"] == {"text": until, "at_ms": 1_796_010_866_000}
    assert all(each.keys() == {"text", "style"} for each in others)


def test_a_long_value_is_cut_with_its_size_and_shown_whole_when_asked() -> None:
    arguments = {
        "path": "/a",
        "content": "x" * (MOST_CHARACTERS + 12_345),
        "lines": "y\n" * (MOST_LINES + 10),
    }
    cut = "\n".join(shown(arguments))
    assert "    … 12,345 more characters; v shows all" in cut
    assert "    … 21 more characters; v shows all" in cut
    whole = "\n".join(shown(arguments, whole=True))
    assert arguments["content"] in whole
    assert whole.count("│ y") == MOST_LINES + 10
    assert "v shows all" not in whole


def test_a_change_is_shown_as_a_diff_instead_of_the_arguments_behind_it() -> None:
    old = "".join(f"{number}\n" for number in range(20))
    new = old.replace("10\n", "ten\x1b[2J\n")
    preview = Preview((Change("/n.txt", old, new),), ("old", "new"))
    lines = question_lines(pending({"path": "n.txt", "old": "10", "new": "ten"}, preview))
    assert [line.text for line in lines] == [
        "tool waits for approval (id)",
        "  path: n.txt",
        "  /n.txt: 1 removed, 1 added",
        "    @@ line 8",
        *[f"      {number}" for number in (7, 8, 9)],
        "    - 10",
        "    + ten\\x1b[2J",
        *[f"      {number}" for number in (11, 12, 13)],
        "  because: rule",
    ]
    assert {line.text[4]: line.style for line in lines[4:-1]} == {" ": "plain", "-": "red", "+": "green"}
    whole = shown({"old": "10", "new": "ten"}, preview, whole=True)
    assert "  old: " + '"10"' in whole
    assert "  new: ten" in whole


def test_an_argument_behind_a_diff_is_said_to_hold_what_the_diff_has() -> None:
    """A tool with a diff may put a secret in the place of its placeholder, or leave the text."""
    before = "key <secret:A>\n"
    after = "key <secret:A>\n<not the secret:B> <not the not the secret:B>\n<secret:C> <not the secret:C>\n"
    preview = Preview((Change("/n", before, after),), ("content",))
    content = "<secret:A>\n<secret:B> <not the secret:B> <secret:C> <secret:D>\n"
    arguments = {"content": content, "more": "<secret:B>"}
    lines = shown(arguments, preview, whole=True)
    assert lines[1:5] == [
        "  content:",
        "    │ <secret:A>",
        "    │ <not the secret:B> <not the not the secret:B> <secret:C> <secret:D>",
        "    │ ",
    ]
    assert "  more: <secret:B>" in lines


def test_the_content_of_a_new_file_is_shown_once() -> None:
    preview = Preview((Change("/n", None, "key <not the secret:B>\n"),), ("content",))
    for whole in (True, False):
        assert shown({"content": "key <secret:B>\n"}, preview, whole=whole)[1:-1] == [
            "  /n: new file, 1 line",
            "    + key <not the secret:B>",
        ]
    # A cut diff of it would show none of its line.
    long = "x" * (MOST_CHARACTERS + 1)
    lines = shown({"content": long}, Preview((Change("/n", None, long),), ("content",)), whole=True)
    assert sum(long in each for each in lines) == 1


def test_a_new_file_and_a_missing_last_newline_are_said() -> None:
    preview = Preview((Change("/new.txt", None, "a\nb"),), ("content",))
    assert shown({}, preview)[1:-1] == [
        "  /new.txt: new file, 2 lines",
        "    + a",
        "    + b",
        "    \\ no newline at the end",
    ]


def test_a_long_diff_is_cut_with_its_size() -> None:
    preview = Preview((Change("/n", None, "line\n" * (MOST_LINES + 5)),), ("content",))
    assert "    … 5 more lines (25 characters); v shows all" in shown({}, preview)
    assert shown({}, preview, whole=True).count("    + line") == MOST_LINES + 5


def test_without_a_diff_the_arguments_stay_and_the_reason_is_said() -> None:
    lines = shown({"old": "x"}, Preview(problem="old was not found;\x1b nothing was changed."))
    assert lines[1:-1] == ["  old: x", "  no diff: old was not found;\\x1b nothing was changed."]


lines = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\x0b\u2028\r\n", "\n"]), max_size=12)


@example(before=["a\n", "b\n", "b\n"], after=["a\n", "b\n"], rest="", steps=1_000)
@given(before=lines, after=lines, rest=st.sampled_from(["", "z"]), steps=st.sampled_from([0, 30, 10_000]))
def test_a_diff_says_all_that_changes(before: list[str], after: list[str], rest: str, steps: int) -> None:
    old, new = "".join(before), "".join(after) + rest
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diff, "_MOST_STEPS", steps)
        found = difference(old, new).lines
    assert (found == []) == (old == new)
    removed = [each.text for each in found if each.kind == "-"]
    added = [each.text for each in found if each.kind == "+"]
    assert applied(old, found) == new
    assert len("".join(removed)) - len("".join(added)) == len(old) - len(new)


def applied(old: str, found: list[Any]) -> str:
    """``new`` from ``old`` and the lines of the diff, as a person would apply it."""
    left = [f"{line}\n" for line in old.split("\n")]
    left[-1] = left[-1][:-1]
    left = [line for line in left if line]
    made: list[str] = []
    for each in found:
        if each.kind == "@":
            while len(made) < int(each.text) - 1:
                made.append(left.pop(0))
        elif each.kind == "+":
            made.append(each.text)
        else:
            assert left.pop(0) == each.text
            if each.kind == " ":
                made.append(each.text)
    return "".join([*made, *left])


def test_two_large_files_without_a_common_line_are_compared_at_once() -> None:
    old, new = ("".join(f"{name}{number}\n" for number in range(20_000)) for name in "ab")
    assert len(difference(old, new).lines) == 40_000


@pytest.mark.parametrize("name", ["value_{}\n", "ok\n", "{0}\n{0}\n"])
def test_an_edit_at_both_ends_of_a_long_file_shows_these_lines(name: str) -> None:
    middle = "".join(name.format(number) for number in range(6_000))
    old, new = (f"{name}\n{middle}call {name}\n{middle}end {name}\n" for name in ("old", "new"))
    found = difference(f"first\n{old}last\n", f"first\n{new}last\n")
    assert found.is_compared
    assert [f"{each.kind}{each.text}" for each in found.lines if each.kind in "-+"] == [
        "-old\n",
        "+new\n",
        "-call old\n",
        "+call new\n",
        "-end old\n",
        "+end new\n",
    ]


def test_a_moved_line_of_a_long_file_is_removed_and_added() -> None:
    names = [f"{number}\n" for number in range(3_000)]
    moved = difference("".join(names), "".join([*names[1:], names[0]])).lines
    assert [f"{each.kind}{each.text}" for each in moved if each.kind in "-+"] == ["-0\n", "+0\n"]


def test_where_too_much_would_be_compared_the_question_says_so_and_shows_the_arguments() -> None:
    old, new = "a\nb\n" * 2_500, "b\nb\na\n" * 2_400
    preview = Preview((Change("/n", old, new),), ("old", "new"))
    lines = shown({"old": "0", "new": "1"}, preview)
    assert lines[1:3] == ['  old: "0"', '  new: "1"']
    assert lines[3].startswith("  /n: at most ")
    assert lines[3].endswith(" added, too different to compare")
    assert not difference(old, new).is_compared


def test_a_cut_diff_shows_of_each_change_what_is_removed_and_what_is_added() -> None:
    def cut(removed: int, added: int, text: str = "line") -> list[str]:
        old, new = f"{text} old\n" * removed, f"{text} new\n" * added
        return shown({}, Preview((Change("/n", f"begin\n{old}", f"begin\n{new}"),)))[2:-1]

    def counts(lines: list[str]) -> list[int]:
        return [sum(line.startswith(f"    {kind} ") for line in lines) for kind in "-+"]

    both = cut(100, 100)
    assert counts(both) == [20, 19]
    assert both[21] == "    … 80 more removed lines (720 characters); v shows all"
    assert both[-1] == "    … 81 more lines (729 characters); v shows all"
    assert counts(cut(100, 3)) == [36, 3]
    assert counts(cut(3, 100)) == [3, 36]
    assert counts(cut(100, 0)) == [39, 0]
    assert counts(cut(20, 19)) == [20, 19]
    assert counts(cut(5, 5, "x" * 1_000)) == [1, 2]
    assert counts(cut(1, 1, "x" * 3_000)) == [0, 0]


def test_where_no_changed_line_fits_the_arguments_are_shown() -> None:
    """One word of a file with one long line, such as a minified script."""
    rest = "x=1;" * MOST_CHARACTERS
    preview = Preview((Change("/min.js", f"{rest}safe\n", f"{rest}rm -rf ~\n"),), ("old", "new"))
    assert shown({"path": "min.js", "old": "safe", "new": "rm -rf ~"}, preview)[1:-1] == [
        "  path: min.js",
        "  old: safe",
        "  new: rm -rf ~",
        "  /min.js: 1 removed, 1 added",
        "    … 2 more lines (32,014 characters); v shows all",
    ]


@pytest.mark.parametrize("name", ["because", "answer", "until"])
def test_no_argument_passes_for_a_line_of_ours(name: str) -> None:
    assert f'  "{name}": it is allowed' in shown({name: "it is allowed"})


def test_two_paths_of_a_diff_never_look_the_same() -> None:
    def head(path: str) -> str:
        return shown({}, Preview((Change(path, None, "a\n"),)))[1]

    assert head("/a\\x1b") != head("/a\x1b")
    assert head("/é") != head("/e\u0301")


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_nobody_answers_with_a_number_that_json_does_not_have(number: float) -> None:
    call = PendingApproval("id", "s", "r", "1", "d", "tool", {}, schema={"type": "object"})
    problem = call.problem_with(Decision("approve", arguments={"n": [number]}))
    assert problem == "a number is too large, or none"
    assert call.problem_with(Decision("approve", arguments={"n": [2**63]})) is None


def test_a_question_says_which_sub_agent_calls() -> None:
    own = question_lines(pending({}))[0].text
    called = question_lines(replace(pending({}), agent="tester/he\u202elper"))[0].text
    assert (own, called) == (
        "tool waits for approval (id)",
        'tool waits for approval (id); the sub-agent "tester/he\\u202elper" calls it',
    )


NAMES = ["a", "b", "a/b", "a of b", "b for a", 'a"', ""]


def test_two_calls_of_different_agents_users_or_sub_agents_never_look_the_same() -> None:
    callers = [
        (agent, subagent, user, project)
        for agent in NAMES[:-1]
        for subagent in ("", "a/b", "b/b", "a/b of b", "a/b/b")
        for user in NAMES
        for project in (NAMES if user else [""])
    ]
    whole, listed = set(), set()
    for agent, subagent, user, project in callers:
        asks = replace(pending({}), agent=subagent, session_agent=agent, user=user, project=project)
        whole.add(question_lines(asks)[0].text)
        listed.add(waiting_line(caller_text(agent, subagent, user, project), "tool", {}, 80))
    assert (len(whole), len(listed)) == (len(callers), len(callers))


def test_a_run_names_its_sub_agent_alone() -> None:
    asks = replace(pending({}), session_agent="prod", user="ann")
    assert question_lines(asks, names_agent=False)[0].text == "tool waits for approval (id)"
    of_helper = replace(asks, agent="prod/helper")
    assert question_lines(of_helper, names_agent=False)[0].text.endswith(
        "; the sub-agent prod/helper calls it"
    )


@pytest.mark.parametrize(
    ("schema", "choices"),
    [
        ({"enum": ["a b", "a  b", " a"]}, ["a b", "a \\x20b", '" a"']),
        ({"enum": ["false", False, 1]}, ['"false"', "false", "1"]),
        ({"enum": ["a", "b"], "enumNames": ["A", "B", "C"]}, ["A", "B"]),
        ({"enum": ["a", "b"], "enumNames": ["b"]}, ['b: "a"', '"b"']),
        ({"type": "array", "items": {"enum": ["p\u0430y", "pay\u202e"]}}, ["p\\u0430y", "pay\\u202e"]),
        (
            {
                "oneOf": [
                    {"const": "keep", "title": "Keep  all"},
                    {"const": 1, "title": "One"},
                    {"const": "x"},
                ]
            },
            ["Keep \\x20all", "One", "x"],
        ),
        (
            {"anyOf": [{"const": "keep", "title": "All"}, {"const": "a  b", "title": "All"}]},
            ['All: "keep"', 'All: "a \\u0020b"'],
        ),
        (
            {"oneOf": [{"const": "keep", "title": "delete"}, {"const": "delete", "title": "keep"}]},
            ['delete: "keep"', 'keep: "delete"'],
        ),
        ({"type": "boolean", "default": "false"}, ["true", "false"]),
        ({"anyOf": [True, {"const": 1}]}, []),
    ],
)
def test_two_choices_of_a_form_never_look_the_same(schema: dict[str, Any], choices: list[str]) -> None:
    assert AnswerField("f", schema, required=False).form["choices"] == choices


@given(st.lists(alike, min_size=2, max_size=4, unique=True), st.lists(alike, min_size=4, max_size=4))
def test_a_browser_draws_two_choices_apart(chosen: list[str], titles: list[str]) -> None:
    named = [{"const": each, "title": title} for each, title in zip(chosen, titles, strict=False)]
    for schema in ({"enum": chosen}, {"oneOf": named}):
        drawn = AnswerField("f", schema, required=False).form["choices"]
        assert len({" ".join(each.split()) for each in drawn}) == len(chosen)


def test_the_texts_of_a_form_are_exact() -> None:
    schema = {"title": "Pa\u202eth ", "description": "two\nlines", "default": "/a  b"}
    assert AnswerField("path", schema, required=True).form == {
        "title": "Pa\\u202eth\\x20",
        "about": "two\\nlines",
        "default": '"/a \\u0020b"',
        "choices": [],
    }
    assert AnswerField("a  b", {}, required=True).form == {"title": "a \\x20b", "choices": []}


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("run_command", "run_command"),
        ("docs/a.b:c-d_2", "docs/a.b:c-d_2"),
        ("run_command ", '"run_command "'),
        ("run_command\n", r'"run_command\n"'),
        ("pay (error) · 2 · approved by the user", '"pay (error) · 2 · approved by the user"'),
        ('a" · b', r'"a\" · b"'),
        ("p\u0430y", r'"p\u0430y"'),
        ("(no name)", '"(no name)"'),
        ("", "(no name)"),
        ("a b" * 100, '"' + "a b" * 14 + "a b… (302 characters)"),
    ],
)
def test_a_name_of_a_tool_is_quoted_unless_it_is_plain(name: str, label: str) -> None:
    assert tool_label(name) == label
