"""A model that nobody knows: what is suggested is of the same provider, stands in the table, and is known when used."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.models.profile_names import provider_of
from zeus_runtime.models.profile_tables import litellm_table
from zeus_runtime.models.profiles import CHAT_MODES, lookup
from zeus_runtime.models.suggestions import suggestions

TABLE = litellm_table()
PROVIDERS = {
    name: provider_of(str(row.get("litellm_provider") or ""))
    for name, row in TABLE.rows().items()
    if row.get("mode", "chat") in CHAT_MODES
}
WELL_KNOWN = sorted(
    name for name, of in PROVIDERS.items() if of in ("openai", "anthropic", "gemini", "mistral")
)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("openai/gpt-5-2", "openai/gpt-5.2"),
        ("openai/gpt4o", "openai/gpt-4o"),
        ("azure/gpt4o", "azure/gpt-4o"),
        ("anthropic/claude-sonnet-4.5", "anthropic/claude-sonnet-4-5"),
        ("anthropic:claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("openai:gpt-5.2", "openai/gpt-5.2"),
        ("opnai/gpt-5.2", "openai/gpt-5.2"),
        ("google/gemini-2.5-pro", "gemini/gemini-2.5-pro"),
        ("gmi/openai/gpt-5-2", "gmi/openai/gpt-5.2"),
        ("gpt5", "gpt-5"),
        ("gpt-5-2", "gpt-5.2"),
        ("GPT-5.2", "gpt-5.2"),
        ("o3mini", "o3-mini"),
        ("gpt-4o-minni", "gpt-4o-mini"),
        ("claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("llama3", "ollama/llama3"),
    ],
)
def test_the_name_that_was_meant_comes_first(written: str, meant: str) -> None:
    assert suggestions(written, PROVIDERS)[0] == meant


@pytest.mark.parametrize("family", ["sonnet", "opus", "haiku"])
def test_a_familys_name_suggests_its_newest_models_without_snapshots(family: str) -> None:
    found = suggestions(family, PROVIDERS)
    assert found
    assert all(name.startswith(f"claude-{family}-") for name in found)
    assert not [name for name in found if "20" in name]


@pytest.mark.parametrize(
    "written", ["openrouter/openai/gpt-5.2", "foo/gpt-5.2", "nonsense-xyz", "openai/sonnet", "", "/"]
)
def test_where_nothing_is_near_nothing_is_suggested(written: str) -> None:
    assert suggestions(written, PROVIDERS) == ()


@given(st.sampled_from(WELL_KNOWN), st.data())
def test_a_slip_in_a_name_with_a_provider_suggests_known_models_of_that_provider_only(
    name: str, data: st.DataObject
) -> None:
    provider = PROVIDERS[name]
    last = name.removeprefix(f"{provider}/")
    place = data.draw(st.integers(0, len(last) - 1))
    slipped = last[:place] + data.draw(st.sampled_from(["", "x", last[place] * 2, "-"])) + last[place + 1 :]
    for each in suggestions(f"{provider}/{slipped}", PROVIDERS):
        assert each.startswith(f"{provider}/")
        profile = lookup(each, table=TABLE)
        assert profile.provider == provider
        assert profile.mode in CHAT_MODES


UNDATED = [name for name in WELL_KNOWN if not re.search(r"\d{3}|@|:|latest|preview|-v\d", name)]


@given(st.sampled_from(UNDATED), st.sampled_from([".", "_", " ", "--"]))
def test_separators_do_not_matter(name: str, separator: str) -> None:
    provider = PROVIDERS[name]
    last = name.removeprefix(f"{provider}/")
    assert f"{provider}/{last}" in suggestions(
        f"{provider}/{last.replace('-', separator)}", PROVIDERS, count=99
    )


@given(st.text(max_size=30))
def test_any_text_gets_an_answer(text: str) -> None:
    assert set(suggestions(text, PROVIDERS)) <= {
        *PROVIDERS,
        *(f"{of}/{n.removeprefix(of + '/')}" for n, of in PROVIDERS.items()),
    }
