"""YAML 1.2 in, JSON with places out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.config import ConfigError
from zeus_runtime.config.yaml.reader import MAX_BYTES, MAX_DEPTH, decode, read
from zeus_runtime.config.yaml.tree import Mark, Node, find, plain, walk


def value(text: str) -> Any:
    return plain(read(f"key: {text}\n", "f.yaml"))["key"]


def code(text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        read(text, "f.yaml")
    return raised.value.diagnostics[0].code


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *[(word, word) for word in ("yes", "no", "on", "off", "Yes", "NO", "y", "n", "tRUE", "nUll")],
        *[("true", True), ("True", True), ("FALSE", False)],
        *[("null", None), ("~", None), ("", None), ("Null", None)],
        *[("12", 12), ("-3", -3), ("+4", 4), ("0o14", 12), ("0x1F", 31), ("007", 7), ("-0", 0)],
        *[("1_000", "1_000"), ("0b11", "0b11"), ("1:30", "1:30"), ("12e", "12e"), ("1.2.3", "1.2.3")],
        *[
            ("1.5", 1.5),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e3", 1000.0),
            ("-1.5E-2", -0.015),
            (".", "."),
            ("+", "+"),
        ],
        *[("2024-01-01", "2024-01-01"), ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z")],
        *[
            ('"5"', "5"),
            ("'true'", "true"),
            ("!!str 5", "5"),
            ("!!int '5'", 5),
            ("!!float 5", 5.0),
            ("! 5", "5"),
        ],
        *[
            ("=", "="),
            ("<<", "<<"),
            ("|\n  two\n  lines\n", "two\nlines\n"),
            (">-\n  one\n  line\n", "one line"),
        ],
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(text: str, expected: object) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


TEXT = st.text(
    st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="\u2028\u2029\ufeff\ufffe\uffff")
)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63) + 1, 2**63 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | TEXT,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
        max_leaves=12,
    )
)
def test_json_is_yaml(document: Any) -> None:
    text = json.dumps({"key": document}, ensure_ascii=False)
    assert plain(read(text, "f")) == {"key": document}


@given(st.dictionaries(st.text("abcdef", min_size=1), TEXT, max_size=5), st.sampled_from("'\""))
def test_what_a_yaml_writer_writes_is_read_back(document: dict[str, str], style: str) -> None:
    text = yaml.safe_dump({"document": document}, allow_unicode=True, default_style=style)
    assert plain(read(decode(text.encode(), "f"), "f")) == {"document": document}


def test_every_key_and_value_has_its_place() -> None:
    root = read("one: 1\nlist:\n  - a\n  - {b: é, c: [x]}\n", "f.yaml")
    places = {path: (node.origin.key, node.origin.value) for path, node in walk(root)}
    assert places[("one",)] == (Mark("f.yaml", 1, 1), Mark("f.yaml", 1, 6))
    assert places[("list", 0)] == (None, Mark("f.yaml", 3, 5))
    assert places[("list", 1, "b")] == (Mark("f.yaml", 4, 6), Mark("f.yaml", 4, 9))
    assert places[("list", 1, "c", 0)] == (None, Mark("f.yaml", 4, 16))


def test_a_walk_has_parents_first_in_the_order_of_writing() -> None:
    root = read("two: [a, {d: 1, c: [x]}, b]\none: {}\n", "f.yaml")
    found = [".".join(map(str, path)) for path, _ in walk(root, ("at",))]
    inner = ("two.0", "two.1", "two.1.d", "two.1.c", "two.1.c.0", "two.2")
    assert found == ["at", *(f"at.{each}" for each in ("two", *inner, "one"))]


def test_an_alias_stands_for_its_anchor_and_keeps_its_own_place() -> None:
    root = read("base: &base {a: 1}\ncopy: *base\n", "f.yaml")
    assert plain(root)["copy"] == {"a": 1}
    copy = find(root, ("copy",))
    inner = find(root, ("copy", "a"))
    assert copy is not None
    assert copy.origin.value == Mark("f.yaml", 2, 7)
    assert inner is not None
    assert inner.origin.value == Mark("f.yaml", 1, 17)


def test_merge_keys_give_way_to_written_keys_and_to_earlier_merges() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc:\n  z: 3\n  <<: [*a, *b]\n"
    assert plain(read(text, "f"))["c"] == {"x": 1, "y": 1, "z": 3}


def test_a_quoted_merge_key_is_a_key() -> None:
    assert plain(read('a: {"<<": 1}\n', "f"))["a"] == {"<<": 1}


def test_a_byte_order_mark_and_windows_newlines_change_nothing() -> None:
    root = read(decode(b"\xef\xbb\xbfa: 1\r\nb: x\r\n", "f"), "f")
    assert plain(root) == {"a": 1, "b": "x"}
    node = find(root, ("b",))
    assert node is not None
    assert node.origin.key == Mark("f", 2, 1)


def test_utf_16_is_named() -> None:
    with pytest.raises(ConfigError, match="UTF-16"):
        decode("a: 1\n".encode("utf-16"), "f")


@pytest.mark.parametrize("text", ["a: 1\na: 2\n", "a: {b: 1, b: 2}\n", "x: 1\n'x': 2\n"])
def test_a_key_written_twice_is_an_error_naming_both_places(text: str) -> None:
    with pytest.raises(ConfigError, match="first written at f:1:"):
        read(text, "f")


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "---\n# x\n...\n", "null\n"])
def test_a_file_without_content_is_empty(text: str) -> None:
    assert code(text) == "empty-file"


def test_nesting_without_end_is_refused() -> None:
    assert code("a: " + "[" * (MAX_DEPTH + 5)) == "too-large"
    assert code("a: " + "{a: " * 100_000) == "too-large"


def height(node: Node) -> int:
    return max((len(path) for path, _ in walk(node)), default=0)


def chained(links: int, levels: int, join: str) -> str:
    """A chain of anchored values, each of some levels, that ``join`` makes of the anchor before it."""
    lines = [f"a0: &a0 {'{k: ' * levels}1{'}' * levels}"]
    lines += [
        f"a{link}: &a{link} {'{k: ' * levels}{join % (link - 1)}{'}' * levels}" for link in range(1, links)
    ]
    return "\n".join(lines) + "\n"


def test_nesting_through_aliases_is_refused_where_it_gets_too_deep() -> None:
    assert height(read(chained(6, 10, "*a%d"), "f")) == 61
    for text in (chained(7, 10, "*a%d"), chained(18, 60, "*a%d"), chained(40, 2, "{<<: *a%d}")):
        assert code(text) == "too-large"
    with pytest.raises(ConfigError) as raised:
        read(chained(7, 10, "*a%d"), "f")
    assert raised.value.diagnostics[0].position == Mark("f", 7, 49)
    assert code(chained(2, 40, "*a%d")) == "too-large"


@pytest.mark.parametrize("join", ["{<<: *a%d}", "{<<: [*a%d]}", "{<<: {<<: *a%d}}"])
def test_a_merge_is_not_a_level(join: str) -> None:
    text = chained(200, 0, join).replace("&a0 1", "&a0 {k: [1]}")
    assert height(read(text, "f")) == 3


def test_a_file_without_end_is_refused() -> None:
    with pytest.raises(ConfigError, match="larger than"):
        decode(b"x" * (MAX_BYTES + 1), "f")


def test_an_anchor_used_inside_itself_is_refused() -> None:
    assert code("a: &a {b: *a}\n") == "yaml-syntax"


def test_several_problems_are_reported_together() -> None:
    with pytest.raises(ConfigError) as raised:
        read("a: 1\na: 2\n3: x\nb: .nan\nc: *nothing\n", "f")
    assert [problem.code for problem in raised.value.diagnostics] == [
        "duplicate-key",
        "non-string-key",
        "not-json",
        "yaml-syntax",
    ]


def outcome(action: Callable[[], object]) -> str:
    """What reading gives, in words; any error but a diagnostic goes on."""
    try:
        return repr(action())
    except ConfigError as error:
        return str(error)


@given(st.text(max_size=60))
def test_no_text_makes_the_reader_fail_otherwise_than_by_a_diagnostic(text: str) -> None:
    assert outcome(lambda: read(text, "f"))


@given(st.binary(max_size=60))
def test_no_bytes_make_the_decoder_fail_otherwise_than_by_a_diagnostic(data: bytes) -> None:
    assert outcome(lambda: decode(data, "f"))


def test_the_pure_parser_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: &x [1, {b: é}]\nc: *x\n"
    fast = read(text, "f")
    monkeypatch.setattr(yaml, "__with_libyaml__", False)
    assert read(text, "f") == fast
