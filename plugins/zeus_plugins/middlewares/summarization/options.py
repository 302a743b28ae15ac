"""Options of the summarization policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from zeus_runtime import Doc, Minimum, Pattern, Ref, RefTo, Size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeus_runtime import Misfit, ModelProfile, Surroundings


@dataclass(frozen=True)
class Options:
    trigger: Annotated[
        Size | None,
        Doc(
            "When to summarize: so many tokens or messages, or a fraction of the input limit; null: 0.85 of the input"
            " limit, also of one that is only assumed."
        ),
    ] = None
    keep: Annotated[
        Size | None,
        Doc(
            "What stays as it is, counted from the end: less where it would not fit, more to keep a call with its"
            " results; null: 0.10 of the input limit."
        ),
    ] = None
    model: Annotated[
        Ref | None,
        RefTo("model", plain=("litellm", "model")),
        Doc("Who writes the summary; null for the running model."),
    ] = None
    trim_tokens_to_summarize: Annotated[
        int | None,
        Doc(
            "Show the summarizer only the last so many tokens of what is replaced; null shows all, in pieces."
        ),
        Minimum(1),
    ] = None
    max_summary_tokens: Annotated[
        int,
        Doc("The longest summary; never more than an eighth of the input limit."),
        Minimum(100),
    ] = 2000
    prompt: Annotated[
        str,
        Doc("The file in a Home's `prompts/` that says how a summary is written; the nearest Home wins."),
        Pattern(r"^[A-Za-z0-9_.-]+\.md$"),
    ] = "SUMMARY.md"

    def sizes(self, profile: ModelProfile) -> tuple[Size, Size]:
        """The trigger and what is kept, the defaults filled in for the model."""
        return self.trigger or _share(0.85, profile), self.keep or _share(0.10, profile)

    def misfits(self, surroundings: Surroundings) -> Iterator[Misfit]:
        """Trigger and keep against the model's window and each other."""
        if self.trigger is not None or self.keep is not None:
            trigger, keep = self.sizes(surroundings.profile)
            yield from surroundings.sizes(trigger=trigger, keep=keep)


def _share(fraction: float, profile: ModelProfile) -> Size:
    """A share of the model's window; of the assumed one (SPEC section 6) as a number of tokens."""
    return (
        Size(fraction=fraction) if profile.known else Size(tokens=round(fraction * profile.max_input_tokens))
    )
