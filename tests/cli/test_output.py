"""Tables and JSON: aligned, as wide as the terminal, exact where a person signs, and made in one module."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.structure import modules
from tests.cli.conftest import Project, Zeus
from zeus_runtime.cli.event_lines import call_line, question_line, whole_call
from zeus_runtime.cli.output import TextTable, as_json, rendered
from zeus_runtime.cli.views import Journal
from zeus_runtime.columns import most_columns
from zeus_runtime.config.secrets.masking import Redactor, Secret
from zeus_runtime.events import ApprovalRequested

MAKES_JSON = {
    "context.plots": "writes the data of a page",
    "init": "writes a text of a YAML file",
    "options": "writes a value of --set",
    "tools": "measures a schema",
}
"""Modules that make JSON for something else than output."""

words = st.text(st.sampled_from("ab\u4dc0☰漢\u0301\U0001f525-\x1b\u202e"), min_size=1, max_size=12)
cells = st.lists(words, max_size=8).map(" ".join)


def test_a_cell_that_is_too_long_breaks_at_spaces() -> None:
    rows = [("session_1", "a title of many words that go on"), ("session_2", "short")]
    assert TextTable(rows, ("ID", "BEGINS")).text(width=30) == (
        "ID         BEGINS\nsession_1  a title of many\n           words that go on\nsession_2  short"
    )


def test_names_that_differ_at_their_ends_differ_in_a_narrow_table() -> None:
    """They were cut to the same text, without their sizes."""
    names = ("server__" + "x" * 30 + "_archive", "server__" + "x" * 30 + "_delete")
    assert TextTable([("key", name) for name in names]).text(width=30) == (
        f"key  server__{'x' * 17}\n     {'x' * 13}_archive\nkey  server__{'x' * 17}\n     {'x' * 13}_delete"
    )


def test_a_word_of_many_lines_is_cut_with_its_size() -> None:
    made = TextTable([("key", "x" * 5_000 + " tail")]).text(width=30)
    *lines, last = [line[5:] for line in made.split("\n")]
    assert last == "tail"
    assert len(lines) == 8
    assert "".join(lines).endswith("x… (5,000 characters)")


def test_a_table_that_nobody_watches_is_as_wide_as_it_needs() -> None:
    assert TextTable([("a" * 300, "b")]).text() == f"{'a' * 300}  b"


def test_a_cell_is_one_line_without_controls() -> None:
    assert TextTable([("a\nb\tc\x1b[2J", "\u202ex")]).text() == "a\\nb\\tc\\x1b[2J  \\u202ex"


@given(rows=st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=4), width=st.integers(50, 120))
def test_a_table_fits_and_loses_no_word_but_at_an_ellipsis(
    rows: list[tuple[str, str, str]], width: int
) -> None:
    made = TextTable(rows).text(width=width)
    assert all(most_columns(line) <= width for line in made.splitlines())
    if "…" not in made:
        shown = made.replace("\n", " ").split()
        wanted = TextTable(rows).text(width=10_000).replace("\n", " ").split()
        assert sorted("".join(shown)) == sorted("".join(wanted))
        if all(most_columns(word) <= 12 for word in wanted):
            assert sorted(shown) == sorted(wanted), "only a longer word breaks"


def test_a_table_that_fits_keeps_its_columns_beneath_each_other() -> None:
    assert TextTable([("✓", "a"), ("x", "b")]).text(width=20) == "✓  a\nx  b"


@given(
    cell=st.lists(words, min_size=1, max_size=6).flatmap(lambda found: _joined(found)),
    width=st.integers(20, 60),
)
def test_a_cell_that_breaks_keeps_every_blank_where_it_can_be_seen(cell: str, width: int) -> None:
    made = TextTable([(cell, "|")]).text(width=width)
    lines = [line.removesuffix("|") for line in made.split("\n")]
    whole = TextTable([(cell, "|")]).text(width=10_000).removesuffix("  |")
    if all(most_columns(word) <= 12 for word in whole.split()):
        assert " ".join(line.rstrip() for line in lines).strip() == whole.strip()


def _joined(found: list[str]) -> st.SearchStrategy[str]:
    blanks = st.lists(st.sampled_from([" ", "  ", "    "]), min_size=len(found), max_size=len(found))
    return blanks.map(lambda gaps: "".join(word + gap for word, gap in zip(found, gaps, strict=True)).strip())


def test_rows_below_a_row_have_columns_of_their_own() -> None:
    below = [[("tool one", "reads"), ("skill", "")], []]
    made = TextTable([("a", "loaded"), ("bee", "blocked")], ("PLUGIN", "STATUS"), below=below)
    assert made.text() == ("PLUGIN  STATUS\na       loaded\n  tool one  reads\n  skill\nbee     blocked")


def test_rows_below_a_row_that_breaks_follow_its_last_line() -> None:
    made = TextTable([("name", "of many words here")], below=[[("x", "y")]]).text(width=20)
    assert made == "name  of many words\n      here\n  x  y"


def test_the_line_of_a_call_says_how_much_of_it_is_not_shown() -> None:
    line = call_line("write_file", {"path": "a.txt", "content": "x" * 9_000}, 120)
    assert line == f'write_file(path="a.txt", content="{"x" * 39}… (9,002 characters))'
    many = {f"a{number}": "y" * 100 for number in range(9)}
    short = call_line("f", many, 60)
    assert short.endswith(f"… ({len(whole_call('f', many))} characters)")
    assert len(short) == 60


def test_a_cell_is_masked_before_it_can_be_cut() -> None:
    mask = Redactor({"sk-" + "x" * 40: "API_KEY"})
    assert "xx" not in TextTable([("key", "sk-" + "x" * 40)]).text(width=20, mask=mask)


@dataclass
class Item:
    """A value that a command prints."""

    name: str
    at: datetime
    parts: tuple[object, ...] = ()


def test_json_has_dataclasses_times_and_masks() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    value = {"items": [Item("hunter2222", at, (Item("x", at), Path("/tmp"), Secret("hunter3333")))], 1: None}
    made = json.loads(as_json(value, mask=Redactor({"hunter2222": "PASSWORD"}).json))
    (item,) = made["items"]
    assert item["name"] == "<secret:PASSWORD>"
    assert item["at"] == "2026-01-02T03:04:05+00:00"
    assert item["parts"][:2] == [{"name": "x", "at": "2026-01-02T03:04:05+00:00", "parts": []}, "/tmp"]
    assert item["parts"][2] == "**********"
    assert made["1"] is None
    assert json.loads(as_json(value))["items"][0]["name"] == "hunter2222"


HIDDEN = "a  b\u2800c\u00a0d\u3164e\tf\u2003g\u200dh"


def test_a_call_shows_blanks_and_invisible_characters_as_they_are() -> None:
    line = call_line("rm\u2800x", {"path": HIDDEN, "a b": 1}, 200)
    assert line == ('"rm\\u2800x"(path="a  b\\u2800c\\u00a0d\\u3164e\\tf\\u2003g\\u200dh", "a b"=1)')


@given(
    st.text(st.sampled_from('ab \u2800\u00a0\u3000\u200b\\"\n\t⇥e\u0301é'), max_size=8), st.text(max_size=8)
)
def test_two_calls_that_differ_never_look_the_same(first: str, second: str) -> None:
    made = [call_line("f", {"x": text}, 500) for text in (first, second)]
    assert (made[0] == made[1]) == (first == second)
    assert all(char == " " or not char.isspace() for char in made[0])


def test_a_pending_call_and_a_run_show_the_arguments_exactly(project: Project, zeus: Zeus) -> None:
    project.agent({"call": "shout", "args": {"text": HIDDEN}}, "done", more="middlewares: [approve]\n")
    exact = 'shout(text="a  b\\u2800c\\u00a0d\\u3164e\\tf\\u2003g\\u200dh")'
    assert f"→ {exact}" in zeus("run", "zeus.yaml", "go").err
    assert exact in zeus("approvals", "pending").out


def test_only_one_module_of_the_command_line_makes_json_and_columns() -> None:
    found = {
        name.removeprefix("zeus_runtime.cli."): used
        for name, module in modules().items()
        if name.startswith("zeus_runtime.cli.") and (used := list(_hand_made(module.tree)))
    }
    assert found.pop("output")
    assert {
        name: used for name, used in found.items() if not (name in MAKES_JSON and used == ["dumps"])
    } == {}


_ALIGNS = re.compile(r"f'(?: ?[<>^]|\d+s?'$)")


def _hand_made(tree: ast.Module) -> list[str]:
    """What a module uses to make JSON or to align text."""
    made = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            name = node.attr if isinstance(node, ast.Attribute) else node.id
            if ast.unparse(node) != "pickle.dumps" and name in (
                "dumps",
                "dump",
                "JSONEncoder",
                "ljust",
                "rjust",
                "center",
                "expandtabs",
            ):
                made.append(name)
        elif isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            spec = ast.unparse(node.format_spec)
            made += [spec] if _ALIGNS.match(spec) else []
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            sides = (node.left, node.right)
            made += ['" " *' for side in sides if isinstance(side, ast.Constant) and side.value == " "]
    return made


def test_a_column_made_by_hand_is_found() -> None:
    for code in ("f'{x:<9} y'", "x.ljust(3)", "json.dumps(x)", "x + ' ' * 3", "f'{x:>{y}}'", "f'{x:10}'"):
        assert _hand_made(ast.parse(code)), code
    assert not _hand_made(ast.parse("f'{x:,} {y:.4f} {z:0<2}'; x * 3"))


def test_the_lines_of_a_text_are_folded_once_its_secrets_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zeus_runtime.cli.output.reader_columns", lambda: 40)
    text = "k" * 30 + "SECRETSECRET" + "tool: x"
    first, rest = rendered(text, mask=lambda value: value.replace("SECRETSECRET", "<secret:S>")).split("\n")
    assert first.startswith("k" * 30 + "<secret:")
    assert rest.startswith("    ┊")
    monkeypatch.setattr("zeus_runtime.cli.output.reader_columns", lambda: None)
    assert rendered(text) == text


@pytest.mark.parametrize(
    ("begun", "more"),
    [
        ([], ""),
        ([{"what": "mine"}], ' as pay(what="mine")'),
        ([{"what": "a"}, {"what": "b"}], ' as pay(what="b") (+1 more)'),
    ],
)
def test_the_line_of_a_call_that_was_begun_before_says_what_was_begun(
    begun: list[dict[str, str]], more: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ApprovalRequested("a1", "s", "c1", "pay", {"what": "once"})
    assert question_line(asked, 80) == "? pay needs approval (a1)"
    again = replace(asked, interrupted=True, begun_with=begun, subagent="helper")
    line = f"? helper → pay needs approval (a1); begun before{more} and not finished"
    assert question_line(again, 80) == line
    Journal(quiet=False).show(again)
    assert capsys.readouterr().err == f"{line}\n"


def test_the_line_of_a_call_cuts_what_was_begun() -> None:
    begun = [{"what": "x" * 300, "why": "y" * 300}]
    asked = ApprovalRequested("a1", "s", "c1", "pay", {}, interrupted=True, begun_with=begun)
    line = question_line(asked, 120)
    assert len(line) <= 120
    assert line.endswith(" and not finished")
