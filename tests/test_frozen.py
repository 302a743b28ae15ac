"""A frozen dataclass with shared methods behaves as the standard library's does."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime import frozen


def point(decorate: Any) -> Any:
    """One class as a decorator makes it."""

    @decorate(frozen=True)
    class Point:
        """Somewhere."""

        x: int
        y: int = 2
        tags: list[str] = dataclasses.field(default_factory=list)
        secret: str = dataclasses.field(default="", repr=False)
        note: str = dataclasses.field(default="", compare=False)

    return Point


THEIRS, OURS = point(dataclasses.dataclass), point(frozen.dataclass)


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or the kind of its error."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001
        return type(error)


VALUES = st.one_of(st.integers(0, 2), st.text(max_size=1), st.lists(st.text(max_size=1), max_size=1))
ARGUMENTS = st.tuples(
    st.lists(VALUES, max_size=6),
    st.dictionaries(st.sampled_from(["x", "y", "tags", "secret", "note", "unknown"]), VALUES, max_size=6),
)


def behaviour(cls: Any, first: Any, second: Any) -> Any:
    one, other = (
        outcome(lambda args=args, named=named: cls(*args, **named)) for args, named in (first, second)
    )
    made = [
        each if isinstance(each, type) else (repr(each), list(vars(each).items())) for each in (one, other)
    ]
    return made, outcome(lambda: one == other), outcome(lambda: hash(one) == hash(other))


@given(ARGUMENTS, ARGUMENTS)
def test_it_takes_shows_compares_and_hashes_what_the_standard_one_does(first: Any, second: Any) -> None:
    assert behaviour(OURS, first, second) == behaviour(THEIRS, first, second)


def test_its_fields_are_the_standard_ones() -> None:
    point = OURS(1, tags=["a"])
    assert dataclasses.is_dataclass(OURS)
    assert [each.name for each in dataclasses.fields(OURS)] == ["x", "y", "tags", "secret", "note"]
    assert dataclasses.replace(point, y=5) == OURS(1, 5, ["a"])
    assert dataclasses.asdict(point) == {"x": 1, "y": 2, "tags": ["a"], "secret": "", "note": ""}
    match point:
        case OURS(x, 2):
            assert x == 1
        case _:
            pytest.fail("no match")


def test_every_instance_has_its_own_value_from_a_factory() -> None:
    assert OURS(1).tags is not OURS(1).tags


@pytest.mark.parametrize("name", ["x", "other"])
def test_nothing_of_it_changes(name: str) -> None:
    point = OURS(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot assign to field '{name}'"):
        setattr(point, name, 3)
    with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot delete field '{name}'"):
        delattr(point, name)
    assert point.x == 1


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="Point: missing a required argument: 'x'"):
        OURS(y=1)
    with pytest.raises(TypeError, match="Point: got an unexpected keyword argument 'z'"):
        OURS(1, z=1)
    with pytest.raises(TypeError, match="Point: multiple values for argument 'x'"):
        OURS(1, x=1)
    with pytest.raises(TypeError, match="Point: too many positional arguments"):
        OURS(1, 2, [], "", "", 6)


def test_its_signature_is_its_fields() -> None:
    assert list(inspect.signature(OURS).parameters) == ["x", "y", "tags", "secret", "note"]
    assert inspect.signature(OURS).parameters["y"].default == 2


@frozen.dataclass(frozen=True)
class Kept:
    values: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(each < 0 for each in self.values):
            raise ValueError("negative")


def test_it_is_copied_and_pickled_and_checked() -> None:
    assert pickle.loads(pickle.dumps(Kept((1,)))) == copy.deepcopy(Kept((1,))) == Kept((1,))
    with pytest.raises(ValueError, match="negative"):
        Kept((-1,))
    assert Kept.__doc__ == "Kept(values)"


@pytest.mark.parametrize("decorate", [dataclasses.dataclass, frozen.dataclass])
def test_either_kind_may_extend_it(decorate: Any) -> None:
    @decorate(frozen=True)
    class Wider(Kept):
        more: int = 0

        def __hash__(self) -> int:
            return 7

    wider = Wider((1,), more=2)
    assert (wider.values, wider.more, hash(wider)) == ((1,), 2, 7)
    assert repr(wider).endswith("Wider(values=(1,), more=2)")
    assert list(inspect.signature(Wider).parameters) == ["values", "more"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        wider.more = 3
    with pytest.raises(ValueError, match="negative"):
        Wider((-1,))


def test_a_plain_subclass_may_keep_more_and_change_that() -> None:
    class Counting(Kept):
        def __init__(self) -> None:
            super().__init__((1,))
            self.count = 1

    counting = Counting()
    counting.count += 1
    assert counting.count == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        counting.values = ()  # type: ignore[misc]
    assert list(inspect.signature(Counting).parameters) == []


def test_what_it_cannot_do_is_refused_where_it_is_written() -> None:
    with pytest.raises(TypeError, match="only frozen=True"):
        frozen.dataclass(frozen=False)
    with pytest.raises(TypeError, match="kw_only, init=False and InitVar"):

        @frozen.dataclass(frozen=True)
        class Hidden:
            a: int = dataclasses.field(init=False, default=1)

    with pytest.raises(TypeError, match="kw_only, init=False and InitVar"):

        @frozen.dataclass(frozen=True)
        class Named:
            a: int = dataclasses.field(kw_only=True)
            b: dataclasses.InitVar[int] = 1


def test_by_identity_where_it_is_asked_for() -> None:
    @frozen.dataclass(frozen=True, eq=False)
    class Open:
        handle: int

    assert Open(1) != Open(1)
    assert len({Open(1), Open(1)}) == 2


def test_one_that_holds_itself_prints() -> None:
    @frozen.dataclass(frozen=True)
    class Loop:
        inside: list[Any]

    inside: list[Any] = []
    loop = Loop(inside)
    inside.append(loop)
    assert repr(loop).endswith("Loop(inside=[...])")


@given(ARGUMENTS, st.dictionaries(st.sampled_from(["x", "y", "tags", "secret", "note", "unknown"]), VALUES))
def test_a_copy_is_that_of_the_standard_library(arguments: Any, changes: dict[str, Any]) -> None:
    one = outcome(lambda: OURS(1, *arguments[0][:4]))
    assert not isinstance(one, type)
    one.__dict__["remembered"] = 1
    theirs, ours = (
        outcome(lambda copy=copy: copy(one, **changes)) for copy in (dataclasses.replace, frozen.copied)
    )
    assert type(theirs) is type(ours)
    assert theirs is TypeError or list(vars(theirs).items()) == list(vars(ours).items())


def test_a_copy_is_checked_as_a_new_instance_is() -> None:
    @frozen.dataclass(frozen=True)
    class Positive:
        number: int

        def __post_init__(self) -> None:
            if self.number < 1:
                raise ValueError("not positive")

    assert frozen.copied(Positive(1), number=2) == Positive(2)
    with pytest.raises(ValueError, match="not positive"):
        frozen.copied(Positive(1), number=0)
