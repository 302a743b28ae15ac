"""Options of the truncation policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Final

from zeus_runtime.plugin import Doc, Minimum, MinLength, Tunable, dataclass
from zeus_runtime.plugin.context import Size

if TYPE_CHECKING:
    from zeus_runtime.plugin import Misfit, Surroundings
    from zeus_runtime.plugin.model import ModelProfile

_TRIGGER: Final = Size(fraction=0.85)
_KEEP: Final = Size(fraction=0.10)
_UNKNOWN: Final = Size(messages=20)


@dataclass(frozen=True)
class Options:
    trigger: Annotated[
        Size | None,
        Doc(
            "When to cut: {tokens: N}, {messages: N} or {fraction: F} of the input limit;"
            " null: {fraction: 0.85}, or {messages: 20} for a model whose limit is unknown."
        ),
        Tunable(({"fraction": 0.1}, {"fraction": 0.2}, {"fraction": 0.4}, {"fraction": 0.6}, None)),
    ] = None
    keep: Annotated[
        Size | None,
        Doc(
            "The size of the newest part, whose calls stay whole; null: {fraction: 0.10}, or {messages: 20} for a"
            " model whose limit is unknown."
        ),
        Tunable(({"fraction": 0.02}, {"fraction": 0.05}, None, {"fraction": 0.2})),
    ] = None
    max_chars: Annotated[
        int, Doc("Arguments with more characters are cut."), Minimum(1), Tunable((500, 1_000, 2_000, 4_000))
    ] = 2_000
    keep_chars: Annotated[int, Doc("Characters that stay of a cut argument."), Minimum(0)] = 20
    truncation_text: Annotated[
        str, MinLength(1), Doc("The text after them, before the length and the path of the rest.")
    ] = "...(argument truncated)"
    min_saving_tokens: Annotated[
        int,
        Doc(
            "Cut only when this many tokens are saved at once, so that the prefix (and the provider's cache) changes"
            " rarely; 0: cut as soon as there is something to cut."
        ),
        Minimum(0),
        Tunable((500, 1_000, 2_000, 4_000)),
    ] = 1_000
    arguments: Annotated[
        Mapping[str, tuple[str, ...]],
        Doc("Further arguments that may be cut, by tool, for tools that do not declare them as replayable."),
    ] = field(default_factory=dict)

    def sizes(self, profile: ModelProfile) -> tuple[Size, Size]:
        """Return the trigger and the size to keep, with the defaults for the model filled in (SPEC section 7)."""
        known = profile.known
        return (
            self.trigger or (_TRIGGER if known else _UNKNOWN),
            self.keep or (_KEEP if known else _UNKNOWN),
        )

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Report sizes that cannot work with the model, and unknown tools and arguments."""
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
