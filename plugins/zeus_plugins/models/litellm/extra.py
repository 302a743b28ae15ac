"""Checks the keys of ``extra``: parameters of the provider's request are allowed, litellm's controls are not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from zeus_plugins.models.litellm.controls import CONTROLS
from zeus_runtime.plugin import Misfit, OptionsError

_OPTIONS: Final = {
    "model": "model",
    "api_key": "api_key",
    "api_base": "api_base",
    "base_url": "api_base",
    "temperature": "temperature",
    "top_p": "top_p",
    "max_tokens": "max_tokens",
    "timeout": "timeout_seconds",
    "request_timeout": "timeout_seconds",
    "force_timeout": "timeout_seconds",
    "stream_timeout": "idle_seconds",
    "extra_headers": "headers",
    "headers": "headers",
    "stream": "stream",
}
"""Keys for which the component has an option."""

_OWN: Final = frozenset({"messages", "tools", "stream_options", "num_retries", "max_retries", "drop_params"})
"""Keys that Zeus sets for every request."""

CERTIFICATES: Final = (
    "remove it; certificates come from SSL_CERT_FILE in the environment, the file of your authority"
)

_REMEDIES: Final = {
    "fallbacks": "an answer of another model would be counted at this one's price; remove it, and use `retry:`",
    "models": "an answer of another model would be counted at this one's price; name one model in model.litellm.model",
    "response_format": "write `output:` of the config instead",
    "n": "Zeus uses one answer, and the others would be paid for; remove it",
    "functions": "write `tools:` of the config instead",
    "function_call": "write `tool_choice` instead",
    "custom_llm_provider": "write the provider before the model's name: `PROVIDER/MODEL`",
    "audio": "Zeus supports only text and tool calls; remove it",
    "modalities": "Zeus supports only text and tool calls; remove it",
    "logprobs": "Zeus does not store them; remove it",
    "top_logprobs": "Zeus does not store them; remove it",
    "additional_drop_params": "settings must not be dropped silently; remove it, and the setting that it names",
    "ssl_verify": CERTIFICATES,
    "model_info": "set limits and prices under profiles.models",
    "base_model": "set limits and prices under profiles.models",
}
"""Keys that change the model, the number of answers, the form of an answer, or whom a connection trusts, each with its
remedy."""

REFUSED: Final = frozenset({*_OPTIONS, *_OWN, *_REMEDIES})
"""Names that need no question, because each ends with an error that says what to do."""

_CONTROL: Final = "it controls litellm and is not part of the provider's request; remove it"


def problems_of(extra: Mapping[str, Any]) -> Iterator[Misfit]:
    """Report each key of ``extra``, and of ``extra_body`` in it, that is not a parameter of the request."""
    inner = extra.get("extra_body")
    paths: list[tuple[str, ...]] = [("extra", key) for key in extra]
    if isinstance(inner, Mapping):
        paths += [("extra", "extra_body", str(key)) for key in inner]
    for path in paths:
        remedy = _remedy(path[-1])
        if remedy is not None:
            yield Misfit(path, f"model.litellm.extra may not set {path[-1]!r}", remedy)


def check_extra(extra: Mapping[str, Any]) -> None:
    """Raise the first of ``problems_of`` as an error.

    Raises:
        OptionsError: a key is not allowed; ``where`` is its place in the options.
    """
    for problem in problems_of(extra):
        where = ".".join(map(str, problem.path))
        raise OptionsError(problem.message, remedy=problem.hint, where=where)


def _remedy(key: str) -> str | None:
    """Return the remedy for a key that may not be set; None if ``key`` is allowed."""
    if key in _OPTIONS:
        return f"Use model.litellm.{_OPTIONS[key]}"
    if key in _OWN:
        return "Zeus sets it itself: remove it"
    if key in _REMEDIES:
        return _REMEDIES[key]
    if "cost" in key or key == "tiered_pricing":
        return "set prices under profiles.models"
    is_control = key in CONTROLS or key.startswith(("_", "mock_")) or key.endswith("callback")
    return _CONTROL if is_control or key == "callbacks" else None
