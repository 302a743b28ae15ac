"""Sizes in the YAML: a number of tokens, a number of messages, or a share of the input limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from zeus_runtime.config.schema.markers import Doc, Maximum, Minimum
from zeus_runtime.errors import OptionsError
from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from zeus_runtime.models.profiles import ModelProfile


@dataclass(frozen=True)
class Size:
    """How much, as exactly one of four.

    Raises:
        ValueError: none of the four is given, or more than one.
    """

    json_schema_extra: ClassVar[dict[str, Any]] = {"minProperties": 1, "maxProperties": 1}

    tokens: Annotated[int | None, Doc("So many tokens."), Minimum(1)] = None
    messages: Annotated[int | None, Doc("So many messages."), Minimum(1)] = None
    fraction: Annotated[
        float | None,
        Doc("This share of the model's input limit, above 0 and at most 1."),
        Minimum(0.0001),
        Maximum(1),
    ] = None
    assumed_fraction: Annotated[
        float | None,
        Doc(
            "Like fraction; of a model whose limit is unknown, this share of the assumed limit (64,000 tokens)."
        ),
        Minimum(0.0001),
        Maximum(1),
    ] = None

    @property
    def share(self) -> float | None:
        """The share of the input limit; None for a number of tokens or messages."""
        return self.assumed_fraction if self.fraction is None else self.fraction

    def __post_init__(self) -> None:
        names = ("tokens", "messages", "fraction", "assumed_fraction")
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"give exactly one of {', '.join(names)}; there is {' and '.join(given) or 'none'}"
            )

    def __str__(self) -> str:
        if self.share is not None:
            return f"{self.share:.0%} of the input limit"
        return f"{self.tokens:,} tokens" if self.tokens is not None else f"{self.messages} messages"

    def in_tokens(self, limit_tokens: int) -> int | None:
        """The size in tokens of a window of ``limit_tokens``; None for a number of messages."""
        return round(self.share * limit_tokens) if self.share is not None else self.tokens


def check_sizes(profile: ModelProfile, *, trigger: Size | None = None, keep: Size | None = None) -> None:
    """Refuse sizes that cannot work with the model.

    Raises:
        OptionsError: ``fraction`` without a known window, a trigger above the input limit, or a trigger that is not
            above ``keep``. ``where`` names the option.
    """
    for name, size in (("trigger", trigger), ("keep", keep)):
        if size is not None and size.fraction is not None and not profile.known:
            raise OptionsError(
                f"a fraction needs a known window, and none is known for {profile.name!r}",
                remedy=f"Give max_input_tokens under profiles.models.{profile.name!r}, or use tokens, messages or"
                " assumed_fraction.",
                where=name,
            )
        if size is not None and size.tokens is not None and size.tokens > profile.max_input_tokens:
            raise OptionsError(
                f"{size.tokens:,} tokens are more than the input limit of {profile.name!r},"
                f" {profile.max_input_tokens:,}: it would never be reached",
                remedy="Use a fraction, or fewer tokens.",
                where=name,
            )
    if trigger is None or keep is None:
        return
    # Messages and tokens cannot be compared, so only two of one kind are.
    if trigger.messages is not None and keep.messages is not None:
        too_low = trigger.messages <= keep.messages
    else:
        start, rest = trigger.in_tokens(profile.max_input_tokens), keep.in_tokens(profile.max_input_tokens)
        too_low = start is not None and rest is not None and start <= rest
    if too_low:
        raise OptionsError(
            f"the trigger ({trigger}) must be above what is kept ({keep}), or it would fire at every step",
            remedy="Raise the trigger or keep less.",
            where="trigger",
        )
