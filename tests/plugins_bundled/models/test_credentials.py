"""What a provider needs and does not have is said at once, all of it, and never taken for a lost connection."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Set
from typing import Any

import pytest
from zeus_plugins.models.litellm.credentials import credentials, litellms_provider
from zeus_plugins.models.litellm.library import library
from zeus_plugins.models.litellm.options import Options

from zeus_runtime import MissingError
from zeus_runtime.plugin import Secret
from zeus_runtime.plugin.model import ModelError

# One worker imports litellm, and once: it takes seconds.
pytestmark = pytest.mark.xdist_group("litellm")


@pytest.fixture
async def litellm(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in os.environ:
        if name.startswith(("AZURE_", "OPENAI_", "AWS_", "VERTEXAI_")):
            monkeypatch.delenv(name)
    return await library()


AZURE = {"AZURE_API_BASE": "https://x.openai.azure.com", "AZURE_API_VERSION": "2026-01-01"}


def found_for(options: Options, environ: Mapping[str, str], dotenv: Set[str] = frozenset()) -> dict[str, Any]:
    return credentials(litellms_provider(sys.modules["litellm"], options), options, environ, dotenv)


async def test_all_that_azure_needs_is_named_at_once(litellm: Any) -> None:
    with pytest.raises(ModelError) as raised:
        found_for(Options("azure/gpt-4o"), {})
    assert (raised.value.kind, raised.value.exit_code) == ("auth", 4)
    for name in ("AZURE_API_KEY", "AZURE_API_BASE", "AZURE_API_VERSION"):
        assert name in raised.value.message
    assert raised.value.remedy is not None
    assert "model.litellm.extra.api_version" in raised.value.remedy


async def test_with_a_key_only_what_is_still_missing_is_named(litellm: Any) -> None:
    options = Options("azure/gpt-4o", api_key=Secret("k"), api_base="https://x.openai.azure.com")
    with pytest.raises(ModelError) as raised:
        found_for(options, {})
    assert raised.value.message.endswith("needs variables that are not set: AZURE_API_VERSION")
    assert "key" not in raised.value.message


@pytest.mark.parametrize(
    ("options", "environ"),
    [
        (Options("azure/gpt-4o", api_key=Secret("k")), AZURE),
        (
            Options("azure/gpt-4o", api_base="https://x", extra={"api_version": "1", "azure_ad_token": "t"}),
            {},
        ),
        (Options("azure/gpt-4o"), {**AZURE, "AZURE_API_KEY": "k"}),
    ],
)
async def test_whatever_says_it_is_enough(litellm: Any, options: Options, environ: dict[str, str]) -> None:
    found = found_for(options, environ)
    assert found.get("api_base") or options.api_base


async def test_the_key_of_azure_counts_where_the_yaml_has_the_rest(
    litellm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_API_KEY", "k")
    options = Options("azure/gpt-4o", api_base="https://x", extra={"api_version": "2025-04-01"})
    assert found_for(options, dict(os.environ)) == {"api_base": "https://x"}


async def test_azure_with_all_but_the_key_still_needs_it(litellm: Any) -> None:
    with pytest.raises(ModelError, match="AZURE_API_KEY is not set"):
        found_for(Options("azure/gpt-4o"), AZURE)


@pytest.mark.parametrize(
    ("name", "better"),
    [("gpt5", "openai/gpt-5.2"), ("sonnet", "openai/gpt-5.2"), ("openai:gpt-5.2", "openai/gpt-5.2")],
)
async def test_a_model_without_a_provider_is_refused_before_anything_is_sent(
    litellm: Any, name: str, better: str
) -> None:
    with pytest.raises(ModelError) as raised:
        found_for(Options(name), {"OPENAI_API_KEY": "k"})
    assert raised.value.kind == "bad_request"
    assert raised.value.remedy is not None
    assert better in raised.value.remedy
    assert found_for(Options(name, api_key=Secret("k"), extra={"custom_llm_provider": "openai"}), {})


@pytest.mark.parametrize(
    ("model", "package", "extra"),
    [
        ("bedrock/anthropic.claude-3-haiku-20240307-v1:0", "boto3", "bedrock"),
        ("vertex_ai/gemini-2.5-pro", "google-auth", "vertex"),
    ],
)
async def test_a_package_that_a_provider_needs_is_named_with_its_extra(
    litellm: Any, model: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingError, match=f"needs the package {package}") as raised:
        found_for(Options(model), {})
    assert raised.value.exit_code == 4
    assert raised.value.remedy == f"pip install 'zeus-runtime[{extra}]'"


@pytest.mark.parametrize(
    ("model", "name", "value", "argument"),
    [
        ("openai/x", "OPENAI_API_BASE", "https://x.example", "api_base"),
        ("openai/x", "OPENAI_BASE_URL", "https://x.example", "api_base"),
        ("vertex_ai/x", "VERTEXAI_LOCATION", "x.example/", "extra.vertex_location"),
        ("vertex_ai/x", "VERTEXAI_PROJECT", "theirs", "extra.vertex_project"),
    ],
)
async def test_a_projects_env_file_says_neither_which_machine_gets_the_key_nor_where_it_pays(
    litellm: Any, model: str, name: str, value: str, argument: str
) -> None:
    environ = {"OPENAI_API_KEY": "k", "VERTEXAI_PROJECT": "p", name: value}
    from zeus_plugins.models.litellm.credentials import _from_dotenv

    provider = litellms_provider(litellm, Options(model))
    with pytest.raises(ModelError, match=name) as raised:
        _from_dotenv(provider, Options(model), environ, {name})
    assert f"Write model.litellm.{argument}: ${{{name}}} in the YAML" in str(raised.value.remedy)
    assert _from_dotenv(provider, Options(model), environ, set())
    if argument == "api_base":
        said = Options(model, api_base="http://localhost:1")
        assert found_for(said, environ, {name})["api_base"] == "http://localhost:1"
    brought = Options(model, extra={"vertex_credentials": "theirs.json"})
    if name == "VERTEXAI_PROJECT":
        assert _from_dotenv(provider, brought, environ, {name})["vertex_project"] == "theirs"


@pytest.mark.parametrize(
    ("options", "environ", "key"),
    [
        (Options("nano-gpt/x"), {"NANOGPT_API_KEY": "k"}, "k"),
        (Options("scaleway/x"), {"SCW_SECRET_KEY": "k"}, "k"),
        (Options("poe/x", api_key=Secret("k")), {}, "k"),
        (Options("poe/x", api_base="http://localhost:1"), {}, "unused"),
        (Options("llamafile/x"), {}, "fake-api-key"),
        (Options("ollama/x"), {}, None),
        (Options("anthropic/x", extra={"anthropic_identity_source": "keycloak"}), {}, None),
    ],
    ids=lambda each: each.model if isinstance(each, Options) else "",
)
async def test_a_provider_gets_its_own_key_or_none(
    litellm: Any, options: Options, environ: dict[str, str], key: str | None
) -> None:
    assert found_for(options, environ, set(environ)).get("api_key") == key


async def test_a_sign_in_of_one_provider_is_none_for_another(litellm: Any) -> None:
    with pytest.raises(ModelError, match="ANTHROPIC_API_KEY is not set"):
        found_for(Options("anthropic/x", extra={"client_id": "x"}), {})


async def test_a_model_without_an_address_of_its_own_needs_one(litellm: Any) -> None:
    with pytest.raises(ModelError, match="needs the address of its server"):
        found_for(Options("litellm_proxy/x"), {"LITELLM_PROXY_API_KEY": "k"})
