"""Options of the model component `litellm`."""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from zeus_plugins.models.litellm.extra import REFUSED
from zeus_plugins.models.litellm.parameters import CHAT, USUAL
from zeus_runtime.plugin import (
    AlsoCalled,
    Destination,
    Doc,
    Maximum,
    Minimum,
    OptionsError,
    Secret,
    dataclass,
)

if TYPE_CHECKING:
    from zeus_plugins.models.litellm.native.choice import Wire
    from zeus_runtime.plugin import Misfit, PlanContext, Surroundings
    from zeus_runtime.plugin.model import ModelProfile


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
        Destination(
            signs=("/", "\\", "?", "#"), names_files=True, plain=tuple(sorted(CHAT | USUAL | REFUSED))
        ),
        Doc(
            "Further parameters of the provider's request, unchanged: `seed`, `reasoning_effort`, `api_version`, ..."
            " litellm's own controls (`fallbacks`, `cache`, ...) are refused, and what chooses an account asks."
        ),
    ] = field(default_factory=dict)
    stream: Annotated[bool, Doc("Stream the answer; false for servers that do not support streaming.")] = True
    wire: Annotated[
        Literal["auto", "litellm", "native"],
        Doc(
            "How requests are sent. `litellm`: by litellm, for every provider. `native`: over HTTP, without importing"
            " litellm, which saves seconds at the start; for servers that speak OpenAI's chat completions, and for"
            " Anthropic."
            " `auto`: `native` where litellm would send the same. `zeus plan` shows which."
        ),
    ] = "auto"

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Report keys of ``extra`` that control litellm, or that have an option; an address or headers that cannot be
        used; and a ``wire`` that cannot be had."""
        from zeus_plugins.models.litellm.addressing import misfits_of
        from zeus_runtime.plugin import Misfit

        yield from misfits_of(self)

        if self.extra:
            from zeus_plugins.models.litellm.extra import problems_of

            yield from problems_of(self.extra)
        if around.profile.name == self.model:
            try:
                self.wire_for(around.profile, os.environ)
            except OptionsError as error:
                yield Misfit((error.where or "wire",), error.message, error.remedy or "")

    def default_keys(self) -> Sequence[str]:
        """Return the variables whose keys a request may carry, and the account with which it may sign in."""
        from zeus_plugins.models.litellm.key_variables import variables_taken, written_provider

        return variables_taken(written_provider(self.model), has_key=self.api_key is not None)

    def notes(self, context: PlanContext) -> Sequence[str]:
        """Return how the requests are sent, and why."""
        wire = self.wire_for(self.profile_in(context), process_first(context.environ))
        return [f"wire {'litellm' if wire.served is None else 'native'}: {wire.why}"]

    def profile_in(self, context: PlanContext) -> ModelProfile:
        """Return the profile of this model, which may differ from the agent's model."""
        if context.profile.name == self.model:
            return context.profile
        return context.profile_of(self.model)

    def wire_for(self, profile: ModelProfile, environ: Mapping[str, str]) -> Wire:
        """Return how the requests of a model with this profile are sent.

        Raises:
            OptionsError: the options demand a wire that the model does not have, or a variable names an address to
                which no request can be sent.
        """
        from zeus_plugins.models.litellm.addressing import address_fault
        from zeus_plugins.models.litellm.native.choice import Wire, named_base, served_of, wire_of

        served = None if self.api_base else served_of(self, profile)
        variable = None if served is None else named_base(served.server, environ)
        if variable is not None and (why := address_fault(environ[variable])):
            raise OptionsError(
                f"no request can be sent to the address in {variable}: {why}",
                remedy=f"Correct {variable}, or write api_base",
                where="model",
            )

        if self.wire == "litellm":
            return Wire(None, "model.litellm.wire says so")
        found = wire_of(self, profile, environ)
        if self.wire == "native" and found.served is None:
            raise OptionsError(
                f"the model {self.model!r} cannot be called without litellm: {found.why}",
                remedy="Use wire: auto",
                where="wire",
            )
        return found


def process_first(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables as litellm sees them, which reads the process environment before any other."""
    return ChainMap(cast("dict[str, str]", os.environ), cast("dict[str, str]", environ))
