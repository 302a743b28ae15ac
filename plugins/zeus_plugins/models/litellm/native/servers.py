"""The servers that are called without litellm: their addresses, their keys, and how requests to them differ. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

_THINKING: Final = (("assistant", "thinking_blocks"), ("assistant", "provider_specific_fields"))


class ModelServer(NamedTuple):
    """A provider whose requests are plain chat completions or Anthropic's messages.

    Args:
        provider: litellm's name of it.
        base: its address; None if the YAML has to name one.
        keys: the variables that may hold its key, the usual one first.
        protocol: what it speaks. The fields from ``drops`` on are about chat completions.
        bases: the variables that may hold another address, the first one first; for the other servers litellm reads
            ``variables_of_base``.
        needs_key: whether it takes no request without a key.
        drops: fields of messages, each with its role, that are not sent.
        adds: fields of the request that are always sent.
        keeps_marks: whether it gets the marks for caching.
        marks_by_model: whether they depend on the model, so that litellm sends requests that have them.
        joins_text: whether a text in several parts is sent as one.
        says_stream: whether ``stream: false`` is sent.
        sees_pictures: whether pictures are sent as they are.
        names: what its models' names begin with; other names are changed by litellm.
        drops_empty: whether messages without content are left out.
        asks_usage: whether a stream has to be asked for its usage.
        path: what its address ends with; litellm changes others.
        like_openai: it serves OpenAI's models, whose settings and tools litellm treats by their names.
        only_litellm_reads: the variables of sign-ins that only litellm knows.
    """

    provider: str
    base: str | None
    keys: tuple[str, ...]
    protocol: Literal["chat", "messages"] = "chat"
    bases: tuple[str, ...] = ()
    needs_key: bool = True
    drops: tuple[tuple[str, str], ...] = ()
    adds: Mapping[str, Any] = {}
    keeps_marks: bool = False
    marks_by_model: bool = False
    joins_text: bool = False
    says_stream: bool = True
    sees_pictures: bool = True
    names: str = ""
    drops_empty: bool = False
    asks_usage: bool = True
    path: str = ""
    like_openai: bool = False
    only_litellm_reads: tuple[str, ...] = ()

    @property
    def variables_of_base(self) -> tuple[str, ...]:
        """The variables from which litellm reads another address."""
        name = self.provider.upper()
        return f"{name}_API_BASE", f"{name}_BASE_URL"


OPENAI: Final = ModelServer(
    "openai",
    "https://api.openai.com/v1",
    ("OPENAI_API_KEY",),
    bases=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    keeps_marks=True,
    says_stream=False,
    like_openai=True,
)

AZURE: Final = ModelServer(
    "azure",
    None,
    ("AZURE_API_KEY",),
    bases=("AZURE_API_BASE",),
    keeps_marks=True,
    like_openai=True,
    only_litellm_reads=(
        "AZURE_AD_TOKEN",
        "AZURE_CLIENT_ID",
        "AZURE_CREDENTIAL",
        "AZURE_OPENAI_API_KEY",
        "AZURE_TENANT_ID",
        "AZURE_USERNAME",
    ),
)
"""A model's name is a deployment's, and the address has it and the version of the API."""

MISTRAL: Final = ModelServer(
    "mistral",
    "https://api.mistral.ai/v1",
    ("MISTRAL_API_KEY",),
    drops=(
        ("assistant", "reasoning_content"),
        ("assistant", "thinking_blocks"),
        *((role, "name") for role in ("system", "user", "assistant")),
    ),
    joins_text=True,
    says_stream=False,
    sees_pictures=False,
    drops_empty=True,
    asks_usage=False,
    path="/v1",
    only_litellm_reads=("MISTRAL_AZURE_API_BASE", "MISTRAL_AZURE_API_KEY"),
)

ANTHROPIC: Final = ModelServer(
    "anthropic",
    "https://api.anthropic.com",
    ("ANTHROPIC_API_KEY",),
    protocol="messages",
    bases=("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
)

SERVERS: Final[Mapping[str, ModelServer]] = {
    each.provider: each
    for each in (
        OPENAI,
        AZURE,
        MISTRAL,
        ANTHROPIC,
        ModelServer(
            "deepseek",
            "https://api.deepseek.com/beta",
            ("DEEPSEEK_API_KEY",),
            joins_text=True,
            sees_pictures=False,
            names="deepseek-chat",
        ),
        ModelServer(
            "fireworks_ai",
            "https://api.fireworks.ai/inference/v1",
            ("FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY", "FIREWORKSAI_API_KEY", "FIREWORKS_AI_TOKEN"),
            drops=_THINKING,
            names="accounts/",
        ),
        ModelServer("groq", "https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
        ModelServer(
            "hosted_vllm",
            None,
            ("HOSTED_VLLM_API_KEY",),
            needs_key=False,
            drops=(("assistant", "thinking_blocks"),),
        ),
        ModelServer("lm_studio", None, ("LM_STUDIO_API_KEY",), needs_key=False, says_stream=False),
        ModelServer(
            "openrouter",
            "https://openrouter.ai/api/v1",
            ("OPENROUTER_API_KEY", "OR_API_KEY"),
            adds={"usage": {"include": True}},
            marks_by_model=True,
        ),
        ModelServer(
            "together_ai",
            "https://api.together.ai/v1",
            ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY", "TOGETHER_AI_API_KEY", "TOGETHER_AI_TOKEN"),
            drops=_THINKING,
        ),
        ModelServer("xai", "https://api.x.ai/v1", ("XAI_API_KEY",), drops=(("tool", "name"),)),
    )
}
