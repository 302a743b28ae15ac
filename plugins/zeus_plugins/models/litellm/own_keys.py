"""Keeps litellm from sending one provider's key to another: given no key, it sends OpenAI's to most of the others."""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

_OPENAI: Final = frozenset({"aiohttp_openai", "custom_openai", "openai", "text-completion-openai"})
"""The providers that OPENAI_API_KEY belongs to."""

_CHAT: Final = frozenset(
    """
    a2a aleph_alpha amazon_nova anthropic anthropic_text azure azure_ai azure_text bedrock bedrock_converse
    bedrock_mantle bytez
    cloudflare cohere cohere_chat cometapi compactifai custom databricks datarobot deepseek edenai fal_ai fireworks_ai
    gdc gemini gigachat gradient_ai groq heroku huggingface langflow langgraph lemonade maritalk minimax mistral nadir
    nlp_cloud oci ollama ollama_chat oobabooga openrouter ovhcloud petals predibase ragflow replicate sagemaker
    sagemaker_chat sagemaker_nova sap snowflake text-completion-codestral triton vertex_ai vertex_ai_beta vllm watsonx
    watsonx_text xai
    """.split()
)
"""The other providers whose models litellm calls with the provider's own sign-in alone, or without a key."""

_EMBEDDING: Final = frozenset(
    """
    azure bedrock cohere cohere_chat cometapi dashscope databricks edenai gemini gigachat github_copilot
    huggingface infinity jina_ai oci ollama oobabooga openai_like openrouter ovhcloud perplexity
    qwen_ai_platform qwencloud sagemaker sambanova sap snowflake triton vercel_ai_gateway vertex_ai volcengine voyage
    watsonx xinference
    """.split()
)
"""The same for embedding models. Which they are is tested with the installed litellm, a canary for each key."""

_OPENAIS_MODELS: Final = ("ft:gpt-3.5-turbo", "ft:babbage-002", "ft:davinci-002")
"""litellm calls a model with such a name as one of OpenAI's, whatever its provider is."""


def may_go_without_key(litellm: Any, provider: str, model: str, kind: Literal["chat", "embedding"]) -> bool:
    """Whether litellm, called without a key, sends no other provider's. An unknown provider may not."""
    if provider in _OPENAI:
        return True
    known = _CHAT if kind == "chat" else _EMBEDDING
    is_named_like_openais = kind == "chat" and any(name in model for name in _OPENAIS_MODELS)
    return (provider in known or provider in litellm._custom_providers) and not is_named_like_openais


def provider_of(litellm: Any, model: str) -> str:
    """Return litellm's name of a model's provider; what is before the slash if litellm knows none."""
    from openai import OpenAIError

    try:
        return str(litellm.get_llm_provider(model)[1])
    except OpenAIError:
        return model.partition("/")[0]


class KeyAndAddress(NamedTuple):
    """What litellm finds for a model's provider.

    Args:
        key: the provider's key in the process environment; empty if there is none.
        base: its address; None if litellm knows none, and would send the request to OpenAI.
    """

    key: str
    base: str | None


def reach(litellm: Any, model: str, base: str | None) -> KeyAndAddress:
    """Return the key and the address that litellm finds, where the YAML says ``base``."""
    from openai import OpenAIError

    try:
        _, _, key, found = litellm.get_llm_provider(model, api_base=base)
    except OpenAIError:
        return KeyAndAddress("", base)
    return KeyAndAddress(str(key or "").strip(), found)
