"""Where a provider's key comes from: the YAML, the process environment, or the ``.env`` beside the YAML."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from zeus_plugins.models.litellm.options import Options
from zeus_runtime import ModelError

_ARGUMENTS: Final = (
    ("_API_KEY", "api_key"),
    ("_API_TOKEN", "api_key"),
    ("_API_BASE", "api_base"),
    ("_BASE_URL", "api_base"),
    ("_API_VERSION", "api_version"),
    ("AWS_ACCESS_KEY_ID", "aws_access_key_id"),
    ("AWS_SECRET_ACCESS_KEY", "aws_secret_access_key"),
    ("AWS_SESSION_TOKEN", "aws_session_token"),
    ("AWS_REGION_NAME", "aws_region_name"),
    ("VERTEXAI_PROJECT", "vertex_project"),
    ("VERTEXAI_LOCATION", "vertex_location"),
)
"""End of a variable's name to the argument of litellm's completion that says the same."""

_KEYS: Final = ("_API_KEY", "_API_TOKEN")
"""Ends of the names without which a call cannot work; cloud accounts have other ways to sign in."""

_OTHER_SIGN_INS: Final = frozenset({"azure_ad_token", "azure_ad_token_provider", "client_id", "tenant_id"})

_UNUSED_KEY: Final = "unused"
"""Stands for the key of a server that asks for none: litellm's OpenAI client refuses to start without one."""


def credentials(litellm: Any, options: Options, environ: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of litellm's completion that say who calls and where.

    Args:
        litellm: the library.
        options: what the YAML says; wins.
        environ: the process environment with ``.env`` beneath it. litellm reads the process's own, so what only
            ``.env`` has is passed on as arguments.

    Raises:
        ModelError: (auth) a key is missing; the error names the variables.
    """
    found = _from_dotenv(litellm, options.model, environ)
    if options.api_key is not None:
        found["api_key"] = options.api_key.reveal()
    if options.api_base is not None:
        found["api_base"] = options.api_base
    checked = litellm.validate_environment(
        options.model, api_key=found.get("api_key"), api_base=found.get("api_base")
    )
    keys = [name for name in _variables(litellm, options.model) if name.endswith(_KEYS)]
    # litellm takes an empty variable for a key.
    empty = [name for name in keys if environ.get(name) == ""] if not any(map(environ.get, keys)) else []
    missing = [name for name in checked["missing_keys"] if name.endswith(_KEYS)] or empty
    if not missing or "api_key" in found or _OTHER_SIGN_INS & set(options.extra):
        return found
    if "api_base" in found:
        return {**found, "api_key": _UNUSED_KEY}
    raise ModelError(
        f"the model {options.model!r} needs a key, and {' or '.join(missing)} is {'empty' if empty else 'not set'}",
        kind="auth",
        remedy=f"Set {missing[0]} in the environment or in .env, or model.litellm.api_key in the YAML",
    )


def _provider(litellm: Any, model: str) -> str:
    from openai import OpenAIError

    try:
        return str(litellm.get_llm_provider(model)[1])
    except OpenAIError:
        return model.partition("/")[0]


def refused_key(litellm: Any, options: Options, environ: Mapping[str, str]) -> str:
    """What to do about a key that the provider refused, naming the place it came from."""
    if options.api_key is not None:
        return "Check the key in model.litellm.api_key, and that it may use this model"
    given = [
        name for name in _variables(litellm, options.model) if name.endswith(_KEYS) and environ.get(name)
    ]
    if given:
        return f"Check the key in {' or '.join(given)}, and that it may use this model"
    unset = [
        name for name in litellm.validate_environment(options.model)["missing_keys"] if name.endswith(_KEYS)
    ]
    if unset:
        return f"No key was sent: set {unset[0]} in the environment or in .env, or model.litellm.api_key in the YAML"
    return "Check the provider's credential, and that it may use this model"


def _from_dotenv(litellm: Any, model: str, environ: Mapping[str, str]) -> dict[str, Any]:
    return {
        argument: environ[name]
        for name in _variables(litellm, model)
        if environ.get(name) and not os.environ.get(name)
        for end, argument in _ARGUMENTS
        if name.endswith(end)
    }


def _variables(litellm: Any, model: str) -> list[str]:
    """The variables that say who calls the model's provider, and where; sorted."""
    provider = _provider(litellm, model)
    prefix = provider.upper()
    own = {f"{prefix}{end}" for end, _ in _ARGUMENTS if end.startswith("_")}
    named = {
        "bedrock": {end for end, _ in _ARGUMENTS if end.startswith("AWS")},
        "sagemaker": {end for end, _ in _ARGUMENTS if end.startswith("AWS")},
        "vertex_ai": {end for end, _ in _ARGUMENTS if end.startswith("VERTEXAI")},
        "gemini": {"GOOGLE_API_KEY"},
        "together_ai": {"TOGETHERAI_API_KEY"},
        "perplexity": {"PERPLEXITYAI_API_KEY"},
    }.get(provider, set())
    return sorted(own | named)
