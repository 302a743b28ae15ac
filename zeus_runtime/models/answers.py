"""Tell an answer from none: what a provider filtered, what is empty, and which usage can be believed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zeus_runtime.errors import RunError
from zeus_runtime.models.content import calls_of, text_of
from zeus_runtime.models.interface import Usage

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

FINISH_REASON: Final = "finish_reason"
"""Key of an answer's ``response_metadata`` where it ended early: ``length`` or ``content_filter``."""

CALLS_NOT_RUN: Final = "calls_not_run"
"""Key of ``additional_kwargs``: the tool calls of an answer that a filter stopped."""

MOST_TOKENS: Final = 10**9


class AnswerError(RunError):
    """A model call succeeded, but its answer is empty or filtered.

    Args:
        text: what it said until then, which the log keeps.
    """

    def __init__(self, message: str, *, code: str, remedy: str, text: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.code = code
        self.text = text


def no_answer(message: BaseMessage, finish_reason: str) -> AnswerError | None:
    """The error for an empty or filtered ``message``; None for an answer.

    Args:
        finish_reason: ``ModelResponse.finish_reason``.
    """
    text = text_of(message)
    if finish_reason == "content_filter":
        kept = "; the text up to there is kept" if text.strip() else ""
        return AnswerError(
            f"the provider's content filter stopped the answer{kept}",
            code="answer_filtered",
            remedy="Resume with --continue and another prompt, or use another model.",
            text=text if text.strip() else "",
        )
    if text.strip() or calls_of(message):
        return None
    if finish_reason == "length":
        return AnswerError(
            "the model reached its output limit before it wrote any answer; it may have spent it on reasoning",
            code="answer_empty",
            remedy="Raise the model's max_tokens or lower its reasoning effort, then ask again with --continue.",
        )
    return AnswerError(
        "the model's answer is empty: it holds neither text nor a tool call",
        code="answer_empty",
        remedy="Ask again with --continue, or give another prompt.",
    )


def as_logged(message: AIMessage, finish_reason: str) -> AIMessage:
    """``message`` as the log keeps it: one that ended early says so, and no call of a filtered one is open."""
    if finish_reason not in ("length", "content_filter"):
        return message
    metadata = {**message.response_metadata, FINISH_REASON: finish_reason}
    if finish_reason == "length":
        return message.model_copy(update={"response_metadata": metadata})
    from langchain_core.messages import AIMessage

    calls = [dict(call) for call in calls_of(message)]
    # Reasoning that was cut off has no signature, without which its provider refuses it.
    return AIMessage(
        text_of(message),
        additional_kwargs={CALLS_NOT_RUN: calls} if calls else {},
        response_metadata=metadata,
    )


def ended_early(message: BaseMessage) -> str:
    """Why a logged answer ended early: ``length``, ``content_filter``, or "stop" where it did not."""
    return str(getattr(message, "response_metadata", {}).get(FINISH_REASON, "stop"))


def believed(usage: Usage | None) -> Usage | None:
    """``usage`` if each of its numbers is a number of tokens, and the request had any; else None."""
    if usage is None:
        return None
    numbers = vars(usage).values()
    # By type, because `True` is an int too.
    if any(type(each) is not int or not 0 <= each <= MOST_TOKENS for each in numbers):
        return None
    return usage if usage.input_tokens else None
