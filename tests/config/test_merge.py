"""The laws of layering."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.config.layers.merge import NO_REFS, RefPlaces, merge, ref_places
from zeus_runtime.config.model import Config
from zeus_runtime.config.schema.markers import RefTo
from zeus_runtime.config.yaml.tree import Mark, Node, Origin, plain

KEYS = st.sampled_from(["a", "b", "model", "tool", "litellm", "replay"])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(0, 3), st.sampled_from(["litellm", "replay", "x"]))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)
REFS = RefPlaces(
    None,
    {
        # A Ref, or a record of "a" and "b" instead of it, as a chain of models.
        "model": RefPlaces(
            RefTo("model", ("litellm", "model")),
            {"a": RefPlaces(None, {"*": RefPlaces(RefTo("tool"), {})})},
            frozenset({"a", "b"}),
        ),
        "tool": RefPlaces(RefTo("tool"), {}),
        "a": RefPlaces(None, {"*": RefPlaces(RefTo("tool"), {})}),
    },
)


def tree(value: Any, source: str = "f") -> Node:
    origin = (Origin(Mark(source, 1, 1)),)
    if isinstance(value, dict):
        return Node({key: tree(item, source) for key, item in value.items()}, origin)
    if isinstance(value, list):
        return Node([tree(item, source) for item in value], origin)
    return Node(value, origin)


def merged(*values: Any, refs: RefPlaces = REFS) -> Any:
    first, *others = (tree(value, f"{index}") for index, value in enumerate(values))
    for other in others:
        first = merge(first, other, refs)
    return plain(first)


@given(DOCUMENTS)
def test_an_empty_layer_changes_nothing(document: dict[str, Any]) -> None:
    assert merged(document, {}) == document == merged({}, document)


@given(DOCUMENTS)
def test_a_layer_over_itself_is_itself(document: dict[str, Any]) -> None:
    assert merged(document, document) == document


@given(DOCUMENTS, DOCUMENTS, DOCUMENTS)
def test_layers_may_be_merged_in_any_grouping(one: Any, two: Any, three: Any) -> None:
    a, b, c = tree(one, "1"), tree(two, "2"), tree(three, "3")
    left = merge(merge(a, b, REFS), c, REFS)
    right = merge(a, merge(b, c, REFS), REFS)
    assert left == right


@given(DOCUMENTS, DOCUMENTS)
def test_every_leaf_of_the_newer_layer_holds(old: Any, new: Any) -> None:
    assert merged(merged(old, new), new) == merged(old, new)


@given(DOCUMENTS, DOCUMENTS)
def test_layers_without_a_common_key_may_be_swapped(one: Any, two: Any) -> None:
    two = {key: value for key, value in two.items() if key not in one}
    assert merged(one, two) == merged(two, one)


def test_maps_merge_and_lists_scalars_and_null_replace() -> None:
    base = {"limits": {"x": 1, "y": 2}, "list": [1, 2], "kept": True, "gone": 5, "text": "a"}
    over = {"limits": {"y": 3}, "list": [9], "gone": None, "text": {"deep": 1}}
    assert merged(base, over, refs=NO_REFS) == {
        "limits": {"x": 1, "y": 3},
        "list": [9],
        "kept": True,
        "gone": None,
        "text": {"deep": 1},
    }


def test_a_ref_to_another_component_replaces_the_ref_with_its_options() -> None:
    base = {"model": {"litellm": {"model": "x", "temperature": 0}}}
    assert merged(base, {"model": {"replay": {"cassette": "c"}}}) == {"model": {"replay": {"cassette": "c"}}}


def test_a_ref_to_the_same_component_merges_its_options() -> None:
    base = {"model": {"litellm": {"model": "x", "temperature": 0}}}
    over = {"model": {"litellm": {"temperature": 1}}}
    assert merged(base, over) == {"model": {"litellm": {"model": "x", "temperature": 1}}}


def test_a_plain_name_replaces_a_ref_and_counts_as_that_component_below_one() -> None:
    assert merged({"model": {"litellm": {"model": "x", "temperature": 0}}}, {"model": "y"}) == {"model": "y"}
    assert merged({"model": "y"}, {"model": {"litellm": {"temperature": 0}}}) == {
        "model": {"litellm": {"model": "y", "temperature": 0}}
    }
    assert merged({"tool": "x"}, {"tool": {"x": {"p": 1}}}) == {"tool": {"x": {"p": 1}}}
    assert merged({"model": "y"}, {"model": {"replay": {}}}) == {"model": {"replay": {}}}


def test_a_value_remembers_all_that_it_overrode() -> None:
    layers = [tree({"limits": {"x": number}}, f"{number}.yaml") for number in range(3)]
    result = merge(merge(layers[0], layers[1]), layers[2])
    sources = [origin.value.source for origin in result.value["limits"].value["x"].origins]
    assert sources == ["2.yaml", "1.yaml", "0.yaml"]


def test_the_places_of_refs_come_from_the_config_itself() -> None:
    places = ref_places(Config)
    assert places.at("model").ref == RefTo("model", ("litellm", "model"))
    assert places.at("tools").at(3).ref == RefTo("tool")
    assert places.at("middlewares").at(0).ref == RefTo("middleware")
    assert places.at("checkpointer").ref == RefTo("checkpointer")
    assert places.at("limits") == NO_REFS


def test_what_a_layer_cut_off_stays_cut_off_below_a_layer_that_only_adds() -> None:
    """A list replaced the options, a map replaced the list, a third layer added to the map: the first stays hidden."""
    one, two, three, four = (
        tree(each, name)
        for each, name in (
            ({"b": {"old": 1}}, "one"),
            ({"b": [2]}, "two"),
            ({"b": {"new": 3}}, "three"),
            ({"b": {"more": 4}}, "four"),
        )
    )
    overlays = merge(merge(two, three), four)
    assert plain(merge(one, overlays)) == {"b": {"new": 3, "more": 4}}
    assert plain(merge(one, overlays)) == plain(merge(merge(merge(one, two), three), four))


def test_what_a_record_cut_off_stays_cut_off_below_a_record_that_only_adds() -> None:
    """A Ref replaced the record, a record replaced the Ref, a fourth layer added to it: the first stays hidden."""
    layers = ({"a": {"old": 1}, "b": 9}, {"litellm": {"x": 1}}, {"a": {"new": 2}}, {"b": 3})
    one, two, three, four = (tree({"model": each}, str(number)) for number, each in enumerate(layers))
    overlays = merge(merge(two, three, REFS), four, REFS)
    assert plain(merge(one, overlays, REFS)) == {"model": {"a": {"new": 2}, "b": 3}}
    assert merge(one, overlays, REFS) == merge(merge(merge(one, two, REFS), three, REFS), four, REFS)


def test_a_component_that_replaced_another_stays_apart_from_it_below_further_options() -> None:
    one, two, three = (
        tree(each, str(number))
        for number, each in enumerate(
            [{"model": {"x": {"old": 1}}}, {"model": {"y": {"new": 2}}}, {"model": {"y": {"more": 3}}}]
        )
    )
    base = tree({"model": {"y": {"older": 0}}}, "base")
    expected = {"model": {"y": {"new": 2, "more": 3}}}
    assert plain(merge(merge(base, one, REFS), merge(two, three, REFS), REFS)) == expected
    replaced = merge(merge(one, two, REFS), three, REFS)
    assert plain(merge(base, replaced, REFS)) == expected


def test_options_over_a_plain_name_replace_whatever_stands_below_the_name() -> None:
    """A name alone cuts off older options, and still does where a newer layer gave it options of its own."""
    base = tree({"tool": {"x": {"old": 1}}}, "base")
    named, more = tree({"tool": "x"}, "named"), tree({"tool": {"x": {"new": 2}}}, "more")
    assert plain(merge(base, merge(named, more, REFS), REFS)) == {"tool": {"x": {"new": 2}}}
    assert plain(merge(merge(base, named, REFS), more, REFS)) == {"tool": {"x": {"new": 2}}}
