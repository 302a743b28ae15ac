"""Options of the summarization policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from zeus_runtime import Doc, Minimum, Misfit, Pattern, Ref, RefTo, Size, dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeus_runtime import ModelProfile, Surroundings


@dataclass(frozen=True)
class Options:
    trigger: Annotated[
        Size | None,
        Doc(
            "When to summarize: so many tokens or messages, or a fraction of the input limit; null: 0.85 of the input"
            " limit, also of one that is only assumed."
        ),
    ] = None
    max_trigger_tokens: Annotated[
        int | None,
        Doc(
            "Summarize at so many tokens of messages (prompt and tools not counted) at the latest, however large the"
            " window: every call pays for what stands in it; null: only the trigger counts."
        ),
        Minimum(1),
    ] = None
    keep: Annotated[
        Size | None,
        Doc(
            "What stays as it is, counted from the end: less where it would not fit, more to keep a call with its"
            " results; null: 0.10 of the input limit, or of max_trigger_tokens where that is less."
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
    reuse_cache: Annotated[
        bool,
        Doc(
            "Ask for the summary in the running conversation where its cached prefix makes that cheaper than a"
            " transcript; only with the running model and without trim_tokens_to_summarize."
        ),
    ] = True
    prompt: Annotated[
        str,
        Doc("The file in a Home's `prompts/` that says how a summary is written; the nearest Home wins."),
        Pattern(r"^[A-Za-z0-9_.-]+\.md$"),
    ] = "SUMMARY.md"

    def sizes(self, profile: ModelProfile) -> tuple[Size, Size]:
        """The trigger and what is kept, the defaults filled in for the model."""
        keep = self.keep or _share(0.10, profile)
        if self.keep is None and self.max_trigger_tokens is not None:
            keep = Size(tokens=max(1, min(self.max_trigger_tokens, profile.max_input_tokens) // 10))
        return self.trigger or _share(0.85, profile), keep

    def misfits(self, surroundings: Surroundings) -> Iterator[Misfit]:
        """Triggers and keep against the model's window and each other."""
        if self.trigger is not None or self.keep is not None:
            trigger, keep = self.sizes(surroundings.profile)
            yield from surroundings.sizes(trigger=trigger, keep=keep)
        kept = None if self.keep is None else self.keep.in_tokens(surroundings.profile.max_input_tokens)
        if self.max_trigger_tokens is not None and kept is not None and kept >= self.max_trigger_tokens:
            yield Misfit(
                ("max_trigger_tokens",),
                f"{self.max_trigger_tokens:,} tokens are not above what is kept ({self.keep}), so every step would"
                " summarize",
                "raise max_trigger_tokens or keep less",
                "wrong-size",
            )


def _share(fraction: float, profile: ModelProfile) -> Size:
    """A share of the model's window; of the assumed one (SPEC section 6) as a number of tokens."""
    return (
        Size(fraction=fraction) if profile.known else Size(tokens=round(fraction * profile.max_input_tokens))
    )
