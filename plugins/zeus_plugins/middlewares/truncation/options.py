"""Options of the truncation policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Annotated

from zeus_runtime.plugin import Doc, Minimum, MinLength, dataclass
from zeus_runtime.plugin.context import Size

if TYPE_CHECKING:
    from zeus_runtime.plugin import Misfit, Surroundings
    from zeus_runtime.plugin.model import ModelProfile


@dataclass(frozen=True)
class Options:
    trigger: Annotated[
        Size | None,
        Doc(
            "When to cut: {tokens: N}, {messages: N} or {fraction: F} of the input limit;"
            " null: {fraction: 0.85}, or {messages: 20} for a model whose limit is unknown."
        ),
    ] = None
    keep: Annotated[
        Size | None,
        Doc(
            "The newest part, whose calls stay whole; null: {fraction: 0.10}, or {messages: 20} for a model whose"
            " limit is unknown."
        ),
    ] = None
    max_chars: Annotated[int, Doc("Arguments with more characters are cut."), Minimum(1)] = 2_000
    keep_chars: Annotated[int, Doc("Characters of a cut argument that stay."), Minimum(0)] = 20
    truncation_text: Annotated[
        str, MinLength(1), Doc("What follows them, before the length and where the rest is.")
    ] = "...(argument truncated)"
    min_saving_tokens: Annotated[
        int,
        Doc(
            "Cut only when this much is saved at once, so that the prefix (and the provider's cache) changes rarely;"
            " 0: cut as soon as there is something."
        ),
        Minimum(0),
    ] = 1_000
    arguments: Annotated[
        Mapping[str, tuple[str, ...]],
        Doc(
            "Further arguments that may be cut, by tool: for tools that do not declare theirs as replayable."
        ),
    ] = field(default_factory=dict)

    def sizes(self, profile: ModelProfile) -> tuple[Size, Size]:
        """The trigger and what is kept, the defaults filled in for the model (SPEC section 7)."""
        known = profile.known
        return (
            self.trigger or (Size(fraction=0.85) if known else Size(messages=20)),
            self.keep or (Size(fraction=0.10) if known else Size(messages=20)),
        )

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Sizes that cannot work with the model, tools and arguments that are not there."""
        from zeus_runtime.plugin import Misfit

        if self.trigger is not None or self.keep is not None:
            trigger, keep = self.sizes(around.profile)
            yield from around.sizes(trigger=trigger, keep=keep)
        yield from around.unknown_tools(self.arguments, ("arguments",))
        for name, arguments in self.arguments.items():
            tool = around.tools.get(name)
            known = tool.parameters.get("properties", {}) if tool is not None else arguments
            for index, argument in enumerate(arguments):
                if argument not in known:
                    yield Misfit(
                        ("arguments", name, index),
                        f"{name} has no argument {argument!r}",
                        f"its arguments: {', '.join(known)}",
                        "unknown-argument",
                    )
