"""A model's limits and prices come from the stated places, exactly, and say which."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from zeus_runtime.config.model import ProfileOverride, Profiles
from zeus_runtime.models.interface import Usage
from zeus_runtime.models.profile_tables import JsonTable, MappingTable, ProfileFileError, Table, litellm_table
from zeus_runtime.models.profiles import (
    ModelProfile,
    UnknownModelError,
    catalogue,
    cost_usd,
    lookup,
    names,
    notices,
)

HOME = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def table() -> Table:
    return litellm_table()


def overrides(*, strict: bool = False, **models: ProfileOverride) -> Profiles:
    return Profiles(strict=strict, models=models)


def home(folder: Path, text: str) -> Path:
    (folder / "configs").mkdir(parents=True)
    (folder / "configs" / "profiles.yaml").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("name", "window", "output"),
    [
        ("gpt-4-turbo", 128_000, 4_096),
        ("gpt-4o", 128_000, 16_384),
        ("claude-3-5-sonnet", 200_000, 8_192),
        ("anthropic/claude-3-5-sonnet-20241022", 200_000, 8_192),
        ("gpt-5", 272_000, 128_000),
        ("gpt-5.2", 272_000, 128_000),
        ("openai/gpt-5.2", 272_000, 128_000),
        ("azure/gpt-5.2", 272_000, 128_000),
        ("gpt-5.2-2025-12-11", 272_000, 128_000),
    ],
)
def test_known_models_have_their_limits(name: str, window: int, output: int, table: Table) -> None:
    profile = lookup(name, homes=[HOME], table=table)
    assert (profile.max_input_tokens, profile.max_output_tokens) == (window, output)
    assert profile.known
    assert notices(profile) == ()


@pytest.mark.parametrize("name", ["gpt-5-pro", "gpt-5.1-codex", "gpt-5.4", "openai/gpt-5.5"])
def test_the_limit_is_the_input_limit_and_not_the_sum_litellm_gives(name: str, table: Table) -> None:
    profile = lookup(name, homes=[HOME], table=table)
    row = table.get(name.rpartition("/")[2])
    assert row is not None
    assert profile.max_input_tokens < row["max_input_tokens"]
    assert profile.sources["max_input_tokens"].endswith(f"profiles.yaml: {name.rpartition('/')[2]}")


def test_one_base_name_has_different_limits_at_different_providers(table: Table) -> None:
    limits = {
        name: lookup(name, table=table).max_input_tokens
        for name in ("gpt-5.2", "github_copilot/gpt-5-mini", "gpt-5-mini", "chatgpt/gpt-5.2")
    }
    assert limits == {
        "gpt-5.2": 272_000,
        "github_copilot/gpt-5-mini": 128_000,
        "gpt-5-mini": 272_000,
        "chatgpt/gpt-5.2": 128_000,
    }


def test_a_providers_prefix_does_not_borrow_another_providers_row(table: Table) -> None:
    assert lookup("groq/gpt-5.2", table=table).known is False
    assert lookup("mistral/claude-3-5-sonnet", homes=[HOME], table=table).known is False


@pytest.mark.parametrize(
    ("name", "key"),
    [
        (
            "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        ),
        (
            "bedrock/converse/anthropic.claude-sonnet-4-5-20250929-v1:0",
            "anthropic.claude-sonnet-4-5-20250929-v1:0",
        ),
        (
            "bedrock/ap-southeast-2/anthropic.claude-sonnet-4-5-20250929-v1:0:48k",
            "anthropic.claude-sonnet-4-5-20250929-v1:0",
        ),
        ("vertex_ai/gemini-2.5-pro", "gemini-2.5-pro"),
        ("gemini/gemini-2.5-pro-001", "gemini/gemini-2.5-pro"),
        ("gpt-4o-2031-01-31", "gpt-4o"),
        ("openai/gpt-4o-2031-01-31", "gpt-4o"),
        ("ft:gpt-4o-2024-08-06:my-org:name:id", "ft:gpt-4o-2024-08-06"),
        ("github/gpt-4o", "gpt-4o"),
    ],
)
def test_names_resolve_as_litellms_own_keys_do(name: str, key: str, table: Table) -> None:
    assert lookup(name, table=table).sources["max_input_tokens"] == f"litellm: {key}"


def test_the_text_table_finds_every_row_that_parsing_finds(table: Table) -> None:
    rows = table.rows()
    assert len(rows) > 2_500
    assert isinstance(table, JsonTable)
    assert [key for key, row in list(rows.items())[::7] if table.get(key) != row] == []
    assert table.get("claude-haiku-5-5") == rows.get("claude-haiku-5-5")
    assert table.get("sample_spec") is None
    assert table.get("search_context_cost_per_query") is None


def test_what_has_no_provider_is_no_model_of_the_table() -> None:
    table = JsonTable(json.dumps({"x": {"litellm_provider": "p"}, "rules": {"rules": []}, "sample_spec": {}}))
    assert list(table.rows()) == ["x"]
    assert table.get("rules") is None


def test_the_text_table_survives_odd_formatting_and_a_name_inside_a_value() -> None:
    rows = {
        "x": {"litellm_provider": "p", "max_input_tokens": 1},
        "z": {"litellm_provider": "p", "note": '"x": {'},
    }
    for text in (json.dumps(rows), json.dumps(rows, indent=1), json.dumps(rows, separators=(",", ":"))):
        assert {key: JsonTable(text).get(key) for key in ("x", "z", "note", "y")} == {
            **rows,
            "note": None,
            "y": None,
        }


def test_a_lookup_does_not_import_litellm() -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from zeus_runtime.models.profiles import lookup\n"
        f"for name in ('gpt-5.2', 'anthropic/claude-3-5-sonnet'): lookup(name, homes=[Path({str(HOME)!r})])\n"
        "print([name for name in ('litellm', 'pydantic', 'asyncio', 'langchain_core') if name in sys.modules])\n"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


def test_the_users_yaml_wins_over_every_table(table: Table) -> None:
    user = overrides(**{"gpt-5.2": ProfileOverride(max_input_tokens=100_000, input_cost_per_token=0.0)})
    for name in ("gpt-5.2", "openai/gpt-5.2"):
        profile = lookup(name, overrides=user, homes=[HOME], table=table)
        assert profile.max_input_tokens == 100_000
        assert profile.input_cost_per_token == 0.0
        assert profile.max_output_tokens == 128_000
        assert profile.sources["max_input_tokens"] == "profiles.models: gpt-5.2"
        assert profile.sources["max_output_tokens"] == "litellm: gpt-5.2"


def test_an_override_with_the_provider_serves_the_bare_name_too(table: Table) -> None:
    user = overrides(**{"openai/gpt-5.2": ProfileOverride(max_input_tokens=1_000)})
    assert lookup("gpt-5.2", overrides=user, table=table).max_input_tokens == 1_000
    assert lookup("azure/gpt-5.2", overrides=user, table=table).max_input_tokens == 272_000


def test_the_nearest_home_wins_over_farther_ones_and_over_litellm(tmp_path: Path, table: Table) -> None:
    near = home(tmp_path / "near", "models:\n  gpt-5.2: {provider: openai, max_input_tokens: 5}\n")
    far = home(tmp_path / "far", "models:\n  gpt-5.2: {max_input_tokens: 6, max_output_tokens: 7}\n")
    profile = lookup("openai/gpt-5.2", homes=[near, far, HOME], table=table)
    assert (profile.max_input_tokens, profile.max_output_tokens) == (5, 7)
    assert profile.sources["max_input_tokens"] == f"{near / 'configs' / 'profiles.yaml'}: gpt-5.2"


def test_a_homes_shorter_name_does_not_shadow_an_exact_row(tmp_path: Path, table: Table) -> None:
    near = home(tmp_path, "models:\n  gpt-4o: {max_input_tokens: 5}\n")
    assert lookup("gpt-4o-2024-08-06", homes=[near], table=table).max_input_tokens == 128_000
    assert lookup("gpt-4o-2031-01-31", homes=[near], table=table).max_input_tokens == 5


def test_zero_and_null_in_a_table_mean_unknown(tmp_path: Path) -> None:
    below = MappingTable(
        {"m": {"litellm_provider": "p", "mode": "chat", "max_input_tokens": 0, "input_cost_per_token": 0}}
    )
    near = home(tmp_path, "models:\n  m: {max_output_tokens: 0, output_cost_per_token: null}\n")
    profile = lookup("m", homes=[near], table=below)
    assert profile.max_input_tokens == 64_000
    assert profile.known is False
    assert (profile.max_output_tokens, profile.input_cost_per_token, profile.output_cost_per_token) == (
        None,
    ) * 3


def test_a_nearly_right_name_falls_back_and_says_so(table: Table) -> None:
    profile = lookup("gpt-5-2", homes=[HOME], table=table)
    assert profile.max_input_tokens == 64_000
    assert profile.sources["max_input_tokens"] == "fallback"
    assert profile.suggestions[0] == "gpt-5.2"
    (notice,) = notices(profile)
    assert notice.code == "unknown-model"
    assert "64,000" in notice.message
    assert "did you mean 'gpt-5.2'" in notice.message


def test_nothing_is_suggested_of_another_provider(table: Table) -> None:
    assert lookup("openrouter/openai/gpt-5.2", table=table).suggestions == ()


def test_strict_makes_an_unknown_name_an_error(table: Table) -> None:
    with pytest.raises(UnknownModelError) as caught:
        lookup("gpt-5-2", overrides=overrides(strict=True), homes=[HOME], table=table)
    assert caught.value.exit_code == 3
    assert caught.value.suggestions[0] == "gpt-5.2"
    assert "max_input_tokens" in str(caught.value)


def test_strict_accepts_a_name_the_user_describes(table: Table) -> None:
    user = overrides(strict=True, **{"my-own": ProfileOverride(max_input_tokens=9)})
    assert lookup("my-own", overrides=user, table=table).max_input_tokens == 9


@pytest.mark.parametrize(
    ("name", "tokenizer"),
    [
        ("gpt-4o-mini", "o200k_base"),
        ("openai/gpt-5.2", "o200k_base"),
        ("gpt-4.1", "o200k_base"),
        ("azure/o3-mini", "o200k_base"),
        ("openrouter/openai/gpt-5", "o200k_base"),
        ("ft:gpt-4o-2024-08-06:o::i", "o200k_base"),
        ("bedrock/openai.gpt-oss-120b-1:0", "o200k_base"),
        ("gpt-4", "cl100k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("azure/gpt-35-turbo", "cl100k_base"),
        ("claude-sonnet-4-5", "estimate"),
        ("gemini/gemini-2.5-pro", "estimate"),
        ("deepseek/deepseek-chat", "estimate"),
        ("o1js-model", "estimate"),
        ("gpt-4all", "estimate"),
    ],
)
def test_the_tokenizer_follows_the_models_name(name: str, tokenizer: str, table: Table) -> None:
    assert lookup(name, table=table).tokenizer == tokenizer


def test_the_user_may_choose_the_tokenizer(table: Table) -> None:
    user = overrides(**{"gpt-4o": ProfileOverride(tokenizer="estimate")})
    assert lookup("gpt-4o", overrides=user, table=table).tokenizer == "estimate"


def test_a_model_that_does_not_chat_is_announced(table: Table) -> None:
    (notice,) = notices(lookup("text-embedding-3-small", table=table))
    assert notice.code == "no-chat-model"


def test_every_chat_model_is_listed_and_ours_with_them(table: Table) -> None:
    listed = names(homes=[HOME], table=table, overrides=overrides(mine=ProfileOverride(max_input_tokens=1)))
    assert len(listed) > 2_000
    assert {"gpt-5.2", "claude-3-5-sonnet", "mine"} <= set(listed)
    assert "text-embedding-3-small" not in listed
    assert list(listed) == sorted(listed)


def test_the_list_can_be_one_providers(table: Table) -> None:
    anthropic = names(homes=[HOME], provider="anthropic", table=table)
    assert "claude-3-5-sonnet" in anthropic
    assert "gpt-5.2" not in anthropic
    assert any(name.startswith("us.") for name in names(provider="bedrock", table=table))
    assert names(provider="nobody", table=table) == ()


def test_the_catalogue_shows_what_a_lookup_shows(table: Table) -> None:
    listed = {profile.name: profile for profile in catalogue(homes=[HOME], provider="openai", table=table)}
    for name in ("gpt-5.2", "gpt-5.4", "gpt-4o"):
        assert listed[name] == lookup(name, homes=[HOME], table=table)


@pytest.mark.parametrize(
    ("text", "place", "part"),
    [
        ("models:\n  m: {max_input_token: 5}\n", ":2:7", "unknown key 'max_input_token'"),
        ("models:\n  m:\n    max_input_tokens: many\n", ":3:23", "whole number"),
        ("models:\n  m: {input_cost_per_token: -1}\n", ":2:29", "price"),
        ("models:\n  m: {tokenizer: cl101k}\n", ":2:18", "unknown tokenizer"),
        ("modles: {}\n", ":1:1", "unknown key 'modles'"),
        ("models: [a]\n", ":1:9", "mapping"),
        ("models:\n  m: {}\n  m: {}\n", ":3:3", "twice"),
        ("models:\n  m: {vision: true, vision: false}\n", ":2:21", "'vision' stands here twice"),
        ("models: {}\nmodels: {}\n", ":2:1", "'models' stands here twice"),
        ("models: {\n", ":2:1", "not YAML"),
    ],
)
def test_a_malformed_profiles_file_is_an_error_with_its_place(
    text: str, place: str, part: str, tmp_path: Path, table: Table
) -> None:
    folder = home(tmp_path, text)
    with pytest.raises(ProfileFileError, match=part) as caught:
        lookup("m", homes=[folder], table=table)
    assert caught.value.exit_code == 3
    assert str(caught.value.where) == f"{folder / 'configs' / 'profiles.yaml'}{place}"


@pytest.mark.skipif(not Path("/proc/self/pagemap").exists(), reason="needs Linux's /proc")
def test_a_profiles_file_that_cannot_be_read_is_an_error_with_its_place(tmp_path: Path, table: Table) -> None:
    file = home(tmp_path, "") / "configs/profiles.yaml"
    file.unlink()
    file.symlink_to("/proc/self/pagemap")
    with pytest.raises(ProfileFileError, match="cannot be read") as caught:
        lookup("m", homes=[file.parent.parent], table=table)
    assert str(caught.value.where) == str(file)


def test_a_home_may_say_that_a_model_sees_no_pictures(tmp_path: Path, table: Table) -> None:
    assert lookup("gpt-5.2", homes=[HOME], table=table).vision
    folder = home(tmp_path, "models:\n  gpt-5.2: {vision: false, input_cost_per_token: 0}\n")
    profile = lookup("gpt-5.2", homes=[folder, HOME], table=table)
    assert (profile.vision, profile.sources["vision"].partition(": ")[2]) == (False, "gpt-5.2")
    assert profile.input_cost_per_token


def test_without_litellm_there_is_still_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert lookup("claude-3-5-sonnet", homes=[HOME]).max_input_tokens == 200_000
    assert lookup("gpt-5.2", homes=[HOME]).known is False


def test_cost_counts_cached_tokens_at_their_own_price() -> None:
    profile = ModelProfile(
        "m",
        input_cost_per_token=10.0,
        output_cost_per_token=100.0,
        cache_read_cost_per_token=1.0,
        cache_write_cost_per_token=12.0,
        cache_write_1h_cost_per_token=20.0,
    )
    usage = Usage(input_tokens=10, output_tokens=2, cache_read_tokens=5, cache_write_tokens=3)
    assert cost_usd(profile, usage) == 2 * 10 + 5 * 1 + 3 * 12 + 2 * 100
    kept_an_hour = replace(usage, cache_write_1h_tokens=2)
    assert cost_usd(profile, kept_an_hour) == 2 * 10 + 5 * 1 + 1 * 12 + 2 * 20 + 2 * 100
    assert cost_usd(replace(profile, cache_write_1h_cost_per_token=None), kept_an_hour) == cost_usd(
        profile, usage
    )
    assert cost_usd(ModelProfile("m", input_cost_per_token=10.0, output_cost_per_token=1.0), usage) == 102
    assert cost_usd(ModelProfile("m", input_cost_per_token=10.0), usage) is None
