"""What ``extra`` may hold, and which limits of a model reach the request."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from zeus_plugins.models.litellm.controls import CONTROLS, SIGN_IN
from zeus_plugins.models.litellm.extra import REFUSED as ALWAYS_REFUSED
from zeus_plugins.models.litellm.extra import check_extra, problems_of
from zeus_plugins.models.litellm.model import create
from zeus_plugins.models.litellm.options import Options
from zeus_plugins.models.litellm.parameters import CHAT, EMBEDDING, USUAL

from tests.plugins_bundled.models.test_litellm import ask, asking, failing, model
from tests.support.hand_time import moved_by_hand
from tests.support.provider import Provider, Reply
from zeus_runtime import Agent, ConfigError, OptionsError
from zeus_runtime.plan.validated import examine_config
from zeus_runtime.plugin import PlanContext, Secret
from zeus_runtime.plugin.model import ModelProfile

pytestmark = pytest.mark.xdist_group("litellm")

REFUSED = {
    "fallbacks": ["openai/gpt-4.1"],
    "models": ["openai/gpt-4.1"],
    "context_window_fallback_dict": {"gpt-4o": "gpt-4.1"},
    "model_list": [],
    "response_format": {"type": "json_object"},
    "n": 2,
    "num_retries": 5,
    "timeout": 3,
    "stream": True,
    "messages": [],
    "tools": [],
    "functions": [],
    "api_key": "sk-1",
    "api_base": "http://x",
    "cache": {"no-cache": True},
    "caching": True,
    "mock_response": "I am not the model",
    "mock_tool_calls": [],
    "drop_params": True,
    "additional_drop_params": ["seed"],
    "custom_llm_provider": "openai",
    "input_cost_per_token": 0.1,
    "success_callback": ["x"],
    "logger_fn": 1,
    "guardrails": ["x"],
    "prompt_id": "p",
    "_skip_mcp_handler": False,
    "ssl_verify": False,
}


@pytest.mark.parametrize("key", REFUSED)
@pytest.mark.parametrize("inside", [False, True])
def test_what_controls_litellm_is_refused_with_its_place_and_what_to_do(key: str, *, inside: bool) -> None:
    extra: dict[str, Any] = {key: REFUSED[key]}
    with pytest.raises(OptionsError, match=key) as caught:
        check_extra({"extra_body": extra} if inside else extra)
    assert caught.value.where == ("extra.extra_body." if inside else "extra.") + key
    assert "SSL_CERT_FILE" in str(caught.value.remedy) if key == "ssl_verify" else caught.value.remedy


@pytest.mark.parametrize(
    "key",
    [
        "seed", "reasoning_effort", "api_version", "thinking", "top_k", "min_p", "stop", "logit_bias", "user",
        "tool_choice", "parallel_tool_calls", "service_tier", "verbosity", "safety_settings", "metadata", "store",
        "prompt_cache_key", "max_completion_tokens", "presence_penalty", "aws_region_name", "vertex_project",
        "client_id", "organization", "extra_body", "web_search_options", "deployment_id",
    ],
)  # fmt: skip
def test_parameters_of_the_request_and_of_signing_in_are_taken(key: str) -> None:
    check_extra({key: {"a": 1}})


async def test_the_names_are_those_of_the_installed_litellm() -> None:
    from zeus_plugins.models.litellm.library import library

    all_litellm_params = (await library()).types.utils.all_litellm_params
    known = {name for name in all_litellm_params if "cost" not in name and not name.startswith("_")}
    assert known == CONTROLS | SIGN_IN
    assert not CONTROLS & SIGN_IN


@pytest.mark.parametrize("name", sorted(ALWAYS_REFUSED))
def test_a_name_without_a_question_is_a_parameter_or_an_error(name: str) -> None:
    assert [problem.path for problem in problems_of({name: False})] == [("extra", name)]


async def test_unasked_are_the_parameters_of_the_installed_litellms_call() -> None:
    from zeus_plugins.models.litellm.library import library

    litellm = await library()
    named = {*litellm.constants.DEFAULT_CHAT_COMPLETION_PARAM_VALUES}
    assert named - {problem.path[-1] for problem in problems_of(dict.fromkeys(named))} == CHAT
    reserved = {*litellm.types.utils.all_litellm_params}
    assert CHAT & reserved == {"allowed_openai_params", "api_version", "metadata"}
    assert (USUAL | EMBEDDING) & reserved == set()
    assert not [name for name in CHAT | USUAL | EMBEDDING if name.startswith(ACCOUNTS)]
    assert not [*problems_of(dict.fromkeys(CHAT | USUAL))]


ACCOUNTS = ("aws_", "azure_", "vertex_", "oci_", "client_", "organization", "project", "ssl_")


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("fallbacks", "fallbacks: [a]"),
        ("response_format", "response_format: {}"),
        ("ssl_verify", "ssl_verify: false"),
    ],
)
def test_a_config_that_sets_one_is_refused_at_its_line(tmp_path: Path, key: str, line: str) -> None:
    config = tmp_path / "zeus.yaml"
    config.write_text(f"version: 1\nmodel:\n  litellm:\n    model: openai/gpt-4o\n    extra:\n      {line}\n")
    with pytest.raises(ConfigError) as caught:
        Agent.from_config(config, directory=tmp_path)
    assert examine_config(config, directory=tmp_path, environ={}).parts == (), (
        "it is refused, so it does not ask"
    )
    (problem,) = caught.value.diagnostics
    assert "zeus.yaml:6:" in str(problem.position)
    assert key in problem.message
    assert problem.hint


async def sent(profile: ModelProfile, **options: Any) -> dict[str, Any]:
    """The body of the request of a model with ``profile``."""
    with Provider(Reply("x")) as provider:
        made = Options("openai/gpt-4o", api_base=provider.openai, api_key=Secret("k"), **options)
        await ask(
            create(
                made,
                cast(
                    PlanContext,
                    SimpleNamespace(
                        profile_of=lambda name: profile, environ={}, process_environ={}, profile=profile
                    ),
                ),
            )
        )
        return dict(provider.requests[0].body)


WRITTEN = ModelProfile(
    "m", max_output_tokens=1234, sources={"max_output_tokens": "profiles.models: openai/gpt-4o"}
)
LISTED = ModelProfile("m", max_output_tokens=1234, sources={"max_output_tokens": "litellm: gpt-4o"})


async def test_the_output_limit_that_the_yaml_sets_reaches_the_request() -> None:
    assert (await sent(WRITTEN))["max_tokens"] == 1234


async def test_the_output_limit_of_a_table_is_not_sent() -> None:
    assert "max_tokens" not in await sent(LISTED)


async def test_the_models_own_options_win_over_the_profiles_output_limit() -> None:
    assert (await sent(WRITTEN, max_tokens=50))["max_tokens"] == 50
    body = await sent(WRITTEN, extra={"max_completion_tokens": 60})
    assert (body.get("max_tokens"), body["max_completion_tokens"]) == (None, 60)


def test_the_written_output_limit_is_reserved_in_the_window(tmp_path: Path) -> None:
    config = tmp_path / "zeus.yaml"
    for more, reserve in (("", 0), ("profiles: {models: {gpt-4o: {max_output_tokens: 1234}}}\n", 1234)):
        config.write_text(f"version: 1\nmodel: gpt-4o\n{more}")
        (model,) = Agent.from_config(config, directory=tmp_path).plan.models
        assert model.output_reserve_tokens == reserve


@pytest.mark.parametrize("stream", [True, False])
async def test_silence_ends_a_call_streaming_or_not(*, stream: bool) -> None:
    with Provider(Reply("Hello", hang_after=0)) as provider:
        serving = model(provider, stream=stream, timeout_seconds=600, idle_seconds=3)
        with moved_by_hand() as time:
            asked = asyncio.create_task(failing(serving, asking()))
            assert await asyncio.to_thread(provider.wait_for_requests, 1)
            passing = asyncio.create_task(time.goes_on())
            error = await asked
            passing.cancel()
    assert error.kind == "timeout"
    assert "idle_seconds" in error.message
