"""The YAML of docs/start/providers.md: blocks are valid, models known, local ones called."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.provider import Provider, Reply
from zeus_runtime import Agent
from zeus_runtime.cli.init import MODEL_BY_KEY

TEXT = (Path(__file__).parents[1] / "docs" / "start" / "providers.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
ENVIRON = {"AZURE_API_KEY": "azure-key", "HOUSE_KEY": "house-key"}


def model_of(block: str) -> str:
    return re.findall(r"^(?: {4})?model: (\S+)", block, re.MULTILINE)[0]


@pytest.mark.parametrize("block", BLOCKS, ids=model_of)
def test_a_block_is_a_valid_config_of_a_known_model(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "zeus.yaml").write_text(block, encoding="utf-8")
    plan = Agent.from_config("zeus.yaml", directory=tmp_path).plan
    assert plan.notices == ()
    assert plan.profile.known


def test_every_provider_of_the_table_has_a_block() -> None:
    prefixes = set(re.findall(r"^\| \[.*?\| `(\w+)/`", TEXT, re.MULTILINE))
    assert prefixes == {model_of(block).partition("/")[0] for block in BLOCKS}
    headings = {heading.lower().replace(" ", "-") for heading in re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([\w-]+)\)", TEXT)) <= headings


def test_the_variables_are_those_that_the_providers_read() -> None:
    assert {name for name in MODEL_BY_KEY if name.startswith(("OPENAI", "ANTHROPIC", "GEMINI"))} <= set(
        re.findall(r"\w+_API_KEY", TEXT)
    )


@pytest.mark.parametrize(
    ("model", "path", "key"),
    [
        ("openai/house-model", "/v1/chat/completions", "Bearer house-key"),
        ("hosted_vllm/Qwen/Qwen3-8B", "/v1/chat/completions", "Bearer none"),
        ("lm_studio/qwen3-8b", "/v1/chat/completions", "Bearer none"),
    ],
)
async def test_a_block_for_a_server_calls_that_server_with_its_own_key(
    model: str, path: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    monkeypatch.setenv("HOUSE_KEY", "house-key")
    (block,) = [block for block in BLOCKS if model_of(block) == model]
    with Provider(Reply("Hello")) as provider:
        text = re.sub(r"api_base: \S+", f"api_base: {provider.openai}", block)
        (tmp_path / "zeus.yaml").write_text(text, encoding="utf-8")
        async with Agent.from_config("zeus.yaml", directory=tmp_path) as agent:
            assert (await agent.run("Hi")).answer == "Hello"
        (request,) = provider.requests
    assert request.path.partition("?")[0] == path
    assert {name.lower(): value for name, value in request.headers.items()}["authorization"] == key
    assert request.body["model"] == model.partition("/")[2]


async def test_the_azure_block_calls_the_deployment_with_the_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_API_KEY", "azure-key")
    (block,) = [block for block in BLOCKS if "api_version" in block]
    with Provider(Reply("Hello")) as provider:
        text = re.sub(r"api_base: \S+", f"api_base: {provider.anthropic}", block)
        (tmp_path / "zeus.yaml").write_text(text, encoding="utf-8")
        async with Agent.from_config("zeus.yaml", directory=tmp_path) as agent:
            await agent.run("Hi")
        (request,) = provider.requests
    assert request.path == "/openai/deployments/my-deployment/chat/completions?api-version=2025-04-01-preview"
    assert {name.lower(): value for name, value in request.headers.items()}["api-key"] == "azure-key"
