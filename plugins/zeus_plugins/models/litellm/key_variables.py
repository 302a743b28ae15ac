"""The variables from which litellm takes a provider's key. Pure.

``tests/plugins_bundled/models/test_own_keys.py`` compares them with the installed litellm, a canary for each key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_AWS: Final = ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_SIGNED: Final = ("account at AWS",)
_AZURE: Final = (
    *("AZURE_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_AD_TOKEN"),
    *("AZURE_CLIENT_SECRET", "AZURE_PASSWORD", "AZURE_CERTIFICATE_PASSWORD", "AZURE_FEDERATED_TOKEN_FILE"),
)
_GOOGLE: Final = (
    "VERTEXAI_CREDENTIALS",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_API_KEY",
    "account at Google",
)
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
    "bedrock": (*_AWS, *_SIGNED),
    "bedrock_converse": (*_AWS, *_SIGNED),
    "bedrock_mantle": ("BEDROCK_MANTLE_API_KEY", *_AWS, *_SIGNED),
    "chatgpt": ("CHATGPT_API_KEY", "account at ChatGPT"),
    "cohere": ("COHERE_API_KEY", "CO_API_KEY"),
    "cohere_chat": ("COHERE_API_KEY", "CO_API_KEY"),
    "cometapi": ("COMETAPI_API_KEY", "COMETAPI_KEY"),
    "custom_openai": _OPENAI,
    "databricks": (
        "DATABRICKS_API_KEY",
        "DATABRICKS_TOKEN",
        "DATABRICKS_CLIENT_SECRET",
        "account at Databricks",
    ),
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
    "github_copilot": ("GITHUB_COPILOT_API_KEY", "account at GitHub Copilot"),
    "huggingface": ("HUGGINGFACE_API_KEY", "HF_TOKEN"),
    "lambda_ai": ("LAMBDA_API_KEY",),
    "meta_llama": ("LLAMA_API_KEY",),
    "mistral": ("MISTRAL_API_KEY", "MISTRAL_AZURE_API_KEY"),
    "nano-gpt": ("NANOGPT_API_KEY",),
    "oci": ("OCI_KEY", "OCI_KEY_FILE", "account at OCI"),
    "ollama_chat": ("OLLAMA_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY", "OR_API_KEY"),
    "perplexity": ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"),
    "qwen_ai_platform": ("QWEN_AI_PLATFORM_API_KEY", "DASHSCOPE_API_KEY"),
    "qwencloud": ("QWENCLOUD_API_KEY", "DASHSCOPE_API_KEY"),
    "sagemaker": (*_AWS, *_SIGNED),
    "sagemaker_chat": (*_AWS, *_SIGNED),
    "sagemaker_nova": (*_AWS, *_SIGNED),
    "sap": ("AICORE_SERVICE_KEY", "AICORE_CLIENT_SECRET", "account at SAP"),
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
"""Provider to its variables, the usual one first, where they are not its own name with ``_API_KEY`` alone.

An account is one into which its library signs in with files of the user's, such as ``~/.aws`` or those of ``gcloud``.
"""

_PREFERS_OWN: Final = frozenset(
    {"chatgpt", "gigachat", "github_copilot", "oci", "sagemaker", "sagemaker_chat", "sagemaker_nova", "sap"}
    | {"vertex_ai", "vertex_ai_beta"}
)
"""The providers whose libraries may sign in by themselves although they are given a key."""


def variables_of(provider: str) -> tuple[str, ...]:
    """Return the variables that may hold a provider's key, the usual one first, and the account, if there is one."""
    return _VARIABLES.get(provider) or (f"{provider.upper().replace('-', '_')}_API_KEY",)


def variables_taken(provider: str, *, has_key: bool) -> tuple[str, ...]:
    """Return those of ``variables_of`` that a request may carry.

    Args:
        has_key: whether the request is given a key.
    """
    return () if has_key and provider not in _PREFERS_OWN else variables_of(provider)


def written_provider(model: str) -> str:
    """Return the provider that a model's name says, without a look at litellm's lists; of a bare name, the one that
    most such names mean."""
    provider, slash, _ = model.partition("/")
    return provider if slash else "anthropic" if model.startswith("claude") else "openai"
