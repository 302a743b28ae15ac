"""Interprets a model's name: its possible keys in the tables, its provider, its tokenizer.

The rules are data. The order of the keys is litellm's (``get_model_info_helper`` in its ``utils.py``, 1.106): the name
as written, the name without its provider, then both without parts that only mark a route, a region, a version or a
snapshot.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, TypeAlias

Spelling: TypeAlias = tuple[str, tuple[str, ...]]
"""A table key, and the providers of which one must be the row's (none given: any)."""

_ANY: Final = ("github", "litellm_proxy")
"""Prefixes that name no provider of the table: they pass on to whichever has the model."""

_BORROWS: Final = {"azure_ai": ("azure_ai", "azure", "openai"), "vertex_ai_beta": ("vertex_ai",)}
"""Providers that also sell models listed under another provider's name."""

_FAMILIES: Final = (
    ("vertex_ai-", "vertex_ai"),
    ("fireworks_ai-", "fireworks_ai"),
    ("bedrock_converse", "bedrock"),
    ("cohere_chat", "cohere"),
    ("azure_text", "azure"),
    ("text-completion-openai", "openai"),
)
"""Start of litellm's ``litellm_provider`` to the provider a user names."""

_BEDROCK: Final = (
    (r"^(?:converse|invoke|converse_like|chat_completions|mantle|openai|nova|nova-2)/", ""),
    (r"^[a-z]{2}(?:-[a-z]+)+-\d/", ""),
    (r"^arn:.*/", ""),
    (r"^(?:global|us|eu|apac|jp|au|us-gov)\.", ""),
    (r"(:\d+):\d+k$", r"\1"),
)
_NUMBERED: Final = ((r"-\d{3}$", ""),)
_SNAPSHOT: Final = ((r"^(ft:[^:]+):.*$", r"\1"), (r"-\d{4}-\d{2}-\d{2}$", ""))

_REWRITES: Final = {
    "bedrock": _BEDROCK,
    "bedrock_converse": _BEDROCK,
    "vertex_ai": _NUMBERED,
    "gemini": _NUMBERED,
    "databricks": _NUMBERED,
}
"""Provider to what its names may carry besides the table's key; every other provider has snapshots."""

_TOKENIZERS: Final = (
    ("gpt-4o", "o200k_base"),
    ("chatgpt-4o", "o200k_base"),
    ("gpt-4.1", "o200k_base"),
    ("gpt-4.5", "o200k_base"),
    ("gpt-5", "o200k_base"),
    ("gpt-oss", "o200k_base"),
    ("chat-latest", "o200k_base"),
    ("codex-mini", "o200k_base"),
    ("o1", "o200k_base"),
    ("o3", "o200k_base"),
    ("o4", "o200k_base"),
    ("gpt-4", "cl100k_base"),
    ("gpt-3.5", "cl100k_base"),
    ("gpt-35", "cl100k_base"),
    ("text-embedding-3", "cl100k_base"),
    ("text-embedding-ada-002", "cl100k_base"),
)
"""Start of a model's last name part to its encoding (OpenAI's own table in tiktoken's ``model.py``); the first wins."""

TOKENIZERS: Final = ("o200k_base", "cl100k_base", "estimate")


def spellings(name: str) -> tuple[Spelling, ...]:
    """The table keys that may hold ``name``, the most exact first, without repeats."""
    prefix, slash, rest = name.partition("/")
    ways: list[Spelling] = [(name, ())]
    if slash:
        providers = () if prefix in _ANY else _BORROWS.get(prefix, (prefix,))
        ways.append((rest, providers))
        for shorter in _shorten(rest, _REWRITES.get(prefix, _SNAPSHOT)):
            ways += [(f"{prefix}/{shorter}", ()), (shorter, providers)]
    else:
        ways += [(shorter, ()) for shorter in _shorten(name, _SNAPSHOT)]
        ways += [(shorter, ("bedrock",)) for shorter in _shorten(name, _BEDROCK)]
    return tuple(dict.fromkeys(ways))


def _shorten(name: str, rewrites: tuple[tuple[str, str], ...]) -> list[str]:
    """What ``name`` becomes as each rewrite in turn takes something off."""
    shorter = []
    for pattern, replacement in rewrites:
        rewritten = re.sub(pattern, replacement, name)
        if rewritten not in ("", name):
            name = rewritten
            shorter.append(name)
    return shorter


@lru_cache(500)  # thousands of rows name a hundred
def provider_of(litellm_provider: str) -> str:
    """The provider as a user names it, from a table row's ``litellm_provider``."""
    return next(
        (provider for start, provider in _FAMILIES if litellm_provider.startswith(start)), litellm_provider
    )


def tokenizer_of(name: str) -> str:
    """The tokenizer of a model: a tiktoken encoding, or ``estimate`` where none is public."""
    # `bedrock/openai.gpt-oss-20b` and `ft:gpt-4o:org` are of OpenAI's families.
    last = name.removeprefix("ft:").rpartition("/")[2].rpartition(".openai.")[2].removeprefix("openai.")
    last = last.removeprefix("ft:")
    return next((encoding for start, encoding in _TOKENIZERS if _starts(last, start)), "estimate")


def _starts(name: str, start: str) -> bool:
    """Whether ``name`` is ``start`` or continues with a new part: ``o1-mini`` is an ``o1``, ``o1js`` is not."""
    return name.startswith(start) and not name[len(start) : len(start) + 1].isalnum()
