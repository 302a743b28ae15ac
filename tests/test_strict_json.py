"""JSON that a person writes is read as it is written, or not at all."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.strict_json import keys_in, persons_json, without_comments

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, st.booleans())
def test_a_value_is_read_as_it_is_written(value: Any, escaped: bool) -> None:
    assert persons_json(json.dumps(value, ensure_ascii=escaped)) == value


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_no_number_becomes_another(number: Decimal) -> None:
    text = f"{number:e}"
    try:
        read = persons_json(text)
    except ValueError:
        assert Decimal(repr(float(text))) != number
    else:
        assert Decimal(repr(read)) == number


@pytest.mark.parametrize("text", ["1e-400", "0.10000000000000001", "1e-999999999999999999999", "1e400"])
def test_a_number_that_cannot_be_kept_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        persons_json(f'{{"a": {text}}}')


def test_numbers_in_another_spelling_are_read() -> None:
    assert persons_json('{"a": [1E2, 0.10, -0.0, 5e-324, 100000000000000000000]}') == {
        "a": [100.0, 0.1, 0.0, 5e-324, 10**20]
    }


def test_the_keys_of_a_value_at_any_depth() -> None:
    deep: list[Any] = [{"d": "e"}]
    for _ in range(2_000):
        deep = [deep]
    assert set(keys_in({"a": [{"b": 1}, ({"c": "x"},)], "f": deep})) == set("abcdf")
    assert [*keys_in("a")] == []


def test_comments_and_last_commas_are_left_out_of_a_text_but_not_of_its_strings() -> None:
    text = '{"a//b": "c,]\\"/*", /* "x": , */ "d": [1, // "]\n ],}// end'
    assert json.loads(without_comments(text)) == {"a//b": 'c,]"/*', "d": [1]}
    assert without_comments('{"a": "// b"}') == '{"a": "// b"}'
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(without_comments('{"a": 1 /* never closed }'))
