"""Options of the summarization policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from zeus_runtime.plugin import Doc, Minimum, Misfit, OptionsError, Pattern, Ref, RefTo, Tunable, dataclass
from zeus_runtime.plugin.context import Size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from zeus_runtime.plugin import Surroundings
    from zeus_runtime.plugin.model import ModelProfile


CHEAPER_FIRST = ("dedupe", "eviction", "truncation")
"""The order of loss: a superseded result says nothing new, an evicted one leaves its beginning, an argument is the
model's own text."""

_TRIGGER: Final = Size(fraction=0.85)
_KEEP: Final = Size(fraction=0.10)
_TRIGGER_UNKNOWN: Final = Size(tokens=170_000)
_KEEP_UNKNOWN: Final = Size(messages=6)


@dataclass(frozen=True)
class Options:
    trigger: Annotated[
        Size | None,
        Doc(
            "When to summarize: a number of tokens or messages, or a fraction of the input limit; null:"
            " {fraction: 0.85}, or {tokens: 170000} for a model whose limit is unknown. A full input limit, even an"
            " assumed one, always triggers a summary."
        ),
        Tunable(({"fraction": 0.5}, {"fraction": 0.7}, None)),
    ] = None
    max_trigger_tokens: Annotated[
        int | None,
        Doc(
            "Summarize at the latest at this many tokens of messages (without prompt and tools), however large the"
            " window is, because every call pays for its contents; null: only the trigger counts."
        ),
        Minimum(1),
        Tunable((12_000, 16_000, 24_000, 32_000, 48_000, 64_000, 96_000, 128_000, None)),
    ] = None
    by_price: Annotated[
        bool,
        Doc(
            "Also summarize when it pays by the model's prices: when sending the older messages again at each step has"
            " cost twice as much as a summary would. No effect where a price is unknown."
        ),
        Tunable((False, True)),
    ] = False
    keep: Annotated[
        Size | None,
        Doc(
            "How much stays unchanged, counted from the end: less if it would not fit, more to keep a call with its"
            " results. null: {fraction: 0.10}, or {messages: 6} for a model whose limit is unknown; a tenth of"
            " max_trigger_tokens if that is below the limit."
        ),
        Tunable(({"fraction": 0.02}, {"fraction": 0.05}, None, {"fraction": 0.2})),
    ] = None
    cheaper_first: Annotated[
        tuple[str, ...],
        Doc(
            "Before a summary, these middlewares are asked in this order for edits that make enough room and cost less"
            " than a summary, by the model's prices; []: none. Those that the config does not list are not asked."
        ),
        Tunable(((), CHEAPER_FIRST)),
    ] = CHEAPER_FIRST
    model: Annotated[
        Ref | None,
        RefTo("model", plain=("litellm", "model")),
        Doc("The model that writes the summary; null: that of `models.summary`, else the running model."),
    ] = None
    trim_tokens_to_summarize: Annotated[
        int | None,
        Doc(
            "Show the summarizer only this many tokens from the end of the replaced messages; null: all, in parts."
        ),
        Minimum(1),
    ] = None
    max_summary_tokens: Annotated[
        int,
        Doc("Maximum tokens of the summary; never more than an eighth of the input limit."),
        Minimum(100),
    ] = 2000
    user_message_tokens: Annotated[
        int,
        Doc(
            "Repeat the user's messages that leave the view after the summary, word for word: the newest that fit in so"
            " many of max_summary_tokens, at most a quarter. 0: only the last request is repeated."
        ),
        Minimum(0),
    ] = 500
    reuse_cache: Annotated[
        bool,
        Doc(
            "Request the summary in the running conversation if its cached prefix makes that cheaper than a"
            " transcript; only with the running model and without trim_tokens_to_summarize."
        ),
    ] = True
    prompt: Annotated[
        str,
        Doc("The file in a Home's `prompts/` with the instructions for the summary; the nearest Home wins."),
        Pattern(r"^[A-Za-z0-9_.-]+\.md$"),
    ] = "SUMMARY.md"

    def sizes(self, profile: ModelProfile) -> tuple[Size, Size]:
        """Return the trigger and the size to keep, with the defaults for the model filled in (SPEC section 7)."""
        keep = self.keep or (_KEEP if profile.known else _KEEP_UNKNOWN)
        if self.keep is None and self.max_trigger_tokens is not None:
            keep = Size(tokens=max(1, min(self.max_trigger_tokens, profile.max_input_tokens) // 10))
        return self.trigger or (_TRIGGER if profile.known else _TRIGGER_UNKNOWN), keep

    def prompt_file(self, homes: Sequence[Path]) -> Path:
        """The file of ``prompt`` in the nearest Home that has it.

        Raises:
            OptionsError: no Home has it.
        """
        candidates = (home / "prompts" / self.prompt for home in homes)
        found = next((path for path in candidates if path.is_file()), None)
        if found is None:
            raise OptionsError(
                f"no Home has the prompt file {self.prompt}",
                remedy=f"Create prompts/{self.prompt} in a Home, or leave out the summarization option `prompt`.",
            )
        return found

    def misfits(self, surroundings: Surroundings) -> Iterator[Misfit]:
        """Report a missing file, unknown middlewares, and sizes that contradict the model's window or each other."""
        try:
            self.prompt_file(surroundings.homes)
        except OptionsError as error:
            yield Misfit(("prompt",), error.message, error.remedy, error.code)
        if self.trigger is not None or self.keep is not None:
            trigger, keep = self.sizes(surroundings.profile)
            # For an unknown model the default trigger is above the assumed limit, which triggers by itself.
            is_assumed = self.trigger is None and not surroundings.profile.known
            yield from surroundings.sizes(trigger=None if is_assumed else trigger, keep=keep)
        yield from surroundings.not_shortening(self.cheaper_first, ("cheaper_first",), also=CHEAPER_FIRST)
        kept = None if self.keep is None else self.keep.in_tokens(surroundings.profile.max_input_tokens)
        if self.max_trigger_tokens is not None and kept is not None and kept >= self.max_trigger_tokens:
            yield Misfit(
                ("max_trigger_tokens",),
                f"{self.max_trigger_tokens:,} tokens are not more than `keep` ({self.keep}), so every step would"
                " summarize",
                "raise max_trigger_tokens or keep less",
                "wrong-size",
            )
