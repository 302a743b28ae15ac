"""A component is found by kind and name, or the error says why not."""

from __future__ import annotations

import pytest

from tests.registry.conftest import Discover, Install
from zeus_runtime.config.model import Plugins
from zeus_runtime.errors import MissingError


def test_an_unknown_component_comes_with_the_closest_name_and_what_is_known(
    install: Install, find_plugins: Discover
) -> None:
    install("wiki")
    with pytest.raises(MissingError) as caught:
        find_plugins().get("tool", "wiki_serch")
    assert str(caught.value) == (
        "no plugin registers the tool 'wiki_serch'; did you mean 'wiki_search'?\n  known: wiki_search"
    )
    assert caught.value.exit_code == 4


def test_a_component_of_a_blocked_plugin_names_the_rule_that_blocks(
    install: Install, find_plugins: Discover
) -> None:
    install("wiki_search")
    registry = find_plugins(Plugins(disable=("wiki_search",)))
    with pytest.raises(MissingError) as caught:
        registry.get("tool", "wiki_search")
    assert caught.value.remedy is not None
    assert (
        "plugin wiki_search (wiki_search-dist 1.2.3) is blocked: plugins.disable in the YAML"
        in caught.value.remedy
    )


def test_a_component_that_a_broken_plugin_may_have_registered_names_that_plugin(
    install: Install, find_plugins: Discover
) -> None:
    install("broken", "raise RuntimeError('no luck')")
    with pytest.raises(MissingError) as caught:
        find_plugins().get("model", "magic")
    assert "plugin broken (broken-dist 1.2.3) is failed" in str(caught.value)
    assert "RuntimeError: no luck" in str(caught.value)
    assert "no plugin registers a model" in str(caught.value)


def test_the_plugin_that_bears_the_components_name_is_named_alone(
    install: Install, find_plugins: Discover
) -> None:
    install("broken", "raise RuntimeError('no luck')")
    install("magic", "raise RuntimeError('worse luck')")
    with pytest.raises(MissingError) as caught:
        find_plugins().get("model", "magic")
    assert "worse luck" in str(caught.value)
    assert "no luck" not in str(caught.value).replace("worse luck", "")
