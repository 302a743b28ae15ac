"""The variables from which litellm takes a provider's key. Pure.

``tests/plugins_bundled/models/test_own_keys.py`` compares them with the installed litellm, a canary for each key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_AWS: Final = ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_AZURE: Final = (
    *("AZURE_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_AD_TOKEN"),
    *("AZURE_CLIENT_SECRET", "AZURE_PASSWORD", "AZURE_CERTIFICATE_PASSWORD", "AZURE_FEDERATED_TOKEN_FILE"),
)
_GOOGLE: Final = ("VERTEXAI_CREDENTIALS", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_API_KEY")
_OPENAI: Final = ("OPENAI_API_KEY",)
_WATSONX: Final = ("WATSONX_API_KEY", "WATSONX_APIKEY", "WX_API_KEY", "WATSONX_TOKEN", "WATSONX_ZENAPIKEY")

_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "ai21_chat": ("AI21_API_KEY",),
    "aiohttp_openai": _OPENAI,
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "anthropic_text": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "apertis": ("STIMA_API_KEY",),
    "azure": _AZURE,
    "azure_ai": ("AZURE_AI_API_KEY", *_AZURE),
    "azure_text": _AZURE,
    "bedrock": _AWS,
    "bedrock_converse": _AWS,
    "bedrock_mantle": ("BEDROCK_MANTLE_API_KEY", *_AWS),
    "cohere": ("COHERE_API_KEY", "CO_API_KEY"),
    "cohere_chat": ("COHERE_API_KEY", "CO_API_KEY"),
    "cometapi": ("COMETAPI_API_KEY", "COMETAPI_KEY"),
    "custom_openai": _OPENAI,
    "databricks": ("DATABRICKS_API_KEY", "DATABRICKS_TOKEN", "DATABRICKS_CLIENT_SECRET"),
    "datarobot": ("DATAROBOT_API_TOKEN",),
    "featherless_ai": ("FEATHERLESS_AI_API_KEY", "FEATHERLESS_API_KEY"),
    "fireworks_ai": (
        "FIREWORKS_AI_API_KEY",
        "FIREWORKS_API_KEY",
        "FIREWORKSAI_API_KEY",
        "FIREWORKS_AI_TOKEN",
    ),
    "friendliai": ("FRIENDLIAI_API_KEY", "FRIENDLI_TOKEN"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "gigachat": ("GIGACHAT_API_KEY", "GIGACHAT_ACCESS_TOKEN", "GIGACHAT_CREDENTIALS"),
    "huggingface": ("HUGGINGFACE_API_KEY", "HF_TOKEN"),
    "lambda_ai": ("LAMBDA_API_KEY",),
    "meta_llama": ("LLAMA_API_KEY",),
    "mistral": ("MISTRAL_API_KEY", "MISTRAL_AZURE_API_KEY"),
    "nano-gpt": ("NANOGPT_API_KEY",),
    "oci": ("OCI_KEY", "OCI_KEY_FILE"),
    "ollama_chat": ("OLLAMA_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY", "OR_API_KEY"),
    "perplexity": ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"),
    "qwen_ai_platform": ("QWEN_AI_PLATFORM_API_KEY", "DASHSCOPE_API_KEY"),
    "qwencloud": ("QWENCLOUD_API_KEY", "DASHSCOPE_API_KEY"),
    "sagemaker": _AWS,
    "sagemaker_chat": _AWS,
    "sagemaker_nova": _AWS,
    "sap": ("AICORE_SERVICE_KEY", "AICORE_CLIENT_SECRET"),
    "scaleway": ("SCW_SECRET_KEY",),
    "scx-ai": ("SCX_API_KEY",),
    "snowflake": ("SNOWFLAKE_API_KEY", "SNOWFLAKE_JWT"),
    "tensormesh": ("TENSORMESH_INFERENCE_API_KEY",),
    "text-completion-codestral": ("CODESTRAL_API_KEY",),
    "text-completion-inception": ("INCEPTION_API_KEY",),
    "text-completion-openai": _OPENAI,
    "together_ai": ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY", "TOGETHER_AI_API_KEY", "TOGETHER_AI_TOKEN"),
    "veniceai": ("VENICE_AI_API_KEY",),
    "vercel_ai_gateway": ("VERCEL_AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN"),
    "vertex_ai": _GOOGLE,
    "vertex_ai_beta": _GOOGLE,
    "watsonx": _WATSONX,
    "watsonx_text": _WATSONX,
}
"""Provider to its variables, the usual one first, where they are not its own name with ``_API_KEY`` alone."""

_BESIDE_A_KEY: Final[Mapping[str, tuple[str, ...]]] = {"gigachat": ("GIGACHAT_ACCESS_TOKEN",)}
"""Provider to the variables that litellm prefers to a key that it is given."""


def variables_of(provider: str) -> tuple[str, ...]:
    """Return the variables that may hold a provider's key, the usual one first."""
    return _VARIABLES.get(provider) or (f"{provider.upper().replace('-', '_')}_API_KEY",)


def variables_taken(model: str, *, has_key: bool) -> tuple[str, ...]:
    """Return the variables whose values a request for a model may carry, without a look at litellm's lists.

    Args:
        has_key: whether the request is given a key.
    """
    provider = written_provider(model)
    return _BESIDE_A_KEY.get(provider, ()) if has_key else variables_of(provider)


def written_provider(model: str) -> str:
    """Return the provider that a model's name says; of a bare name, the one that most such names mean."""
    provider, slash, _ = model.partition("/")
    return provider if slash else "anthropic" if model.startswith("claude") else "openai"
