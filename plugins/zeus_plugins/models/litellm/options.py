"""Options of the model component `litellm`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any

from zeus_runtime.plugin import AlsoCalled, Destination, Doc, Maximum, Minimum, Secret, dataclass

if TYPE_CHECKING:
    from zeus_runtime.plugin import Misfit, Surroundings


@dataclass(frozen=True)
class Options:
    """``{litellm: {model: gpt-5.2, temperature: 0}}``; a plain string as ``model:`` is only the name."""

    model: Annotated[
        str,
        AlsoCalled(("name", "model_name", "id", "provider")),
        Destination(signs=("://", "arn:", "?", "#", "%", "\\")),
        Doc("The model's name in litellm, with its provider: `openai/gpt-5.2`, `ollama/qwen3`."),
    ]
    api_key: Annotated[
        Secret | None, Doc("The provider's key. Default: the value of the provider's usual variable.")
    ] = None
    api_base: Annotated[
        str | None,
        AlsoCalled(("base_url", "endpoint", "url", "host")),
        Destination(),
        Doc("URL of a compatible server or proxy."),
    ] = None
    temperature: Annotated[float | None, Doc("Sampling temperature."), Minimum(0), Maximum(2)] = None
    top_p: Annotated[float | None, Doc("Nucleus sampling."), Minimum(0), Maximum(1)] = None
    max_tokens: Annotated[
        int | None,
        AlsoCalled(("max_output_tokens", "max_completion_tokens")),
        Doc(
            "Maximum tokens of an answer; null: `profiles.models.NAME.max_output_tokens`, if the YAML sets it."
        ),
        Minimum(1),
    ] = None
    timeout_seconds: Annotated[float, Doc("How long one whole call may take."), Minimum(0.001)] = 600.0
    idle_seconds: Annotated[
        float,
        Doc(
            "How long the provider may be silent: before the first piece and between pieces. With `stream: false` the "
            "answer is one piece, so this is the time limit of the answer."
        ),
        Minimum(0.001),
    ] = 300.0
    headers: Annotated[Mapping[str, str], Doc("Further HTTP headers of every request.")] = field(
        default_factory=dict
    )
    extra: Annotated[
        Mapping[str, Any],
        Destination(signs=("/", "\\", "?", "#")),
        Doc(
            "Further parameters of the provider's request, unchanged: `seed`, `reasoning_effort`, `api_version`, ..."
            " litellm's own controls (`fallbacks`, `cache`, ...) are refused."
        ),
    ] = field(default_factory=dict)
    stream: Annotated[bool, Doc("Stream the answer; false for servers that do not support streaming.")] = True

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Report keys of ``extra`` that control litellm, or that have an option."""
        if self.extra:
            from zeus_plugins.models.litellm.extra import problems_of

            yield from problems_of(self.extra)
