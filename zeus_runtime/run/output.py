"""Judges an answer that has a form, writes its errors for the model, and says when to stop."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zeus_runtime.config.secrets.placeholders import PLACEHOLDER
from zeus_runtime.cutting import cut_text
from zeus_runtime.errors import RunError
from zeus_runtime.models.answers import ended_early
from zeus_runtime.models.content import FROM_RUNTIME, calls_of, is_users, text_of
from zeus_runtime.notice import Notice
from zeus_runtime.strict_json import strict_json

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

    from zeus_runtime.plan.output import PlannedOutput

_FENCE: Final = "```"
_MOST_PROBLEMS: Final = 10
_LONGEST_PROBLEM: Final = 300
_STRING_OR_WORD: Final = re.compile(
    rf'"(?:\\.|[^"\\])*"?|((?:{PLACEHOLDER.pattern}|[^\s"\[\]{{}},:])+)', re.DOTALL
)


class Judgement(NamedTuple):
    """The judgement of an answer.

    Args:
        value: the JSON value; None if it has problems.
        problems: why it does not fit; empty for an answer that fits.
        text: the answer as the model wrote it.
        is_masked: whether one of the problems is about the placeholder of a secret.
    """

    value: Any
    problems: tuple[str, ...]
    text: str
    is_masked: bool = False


class _Problem(NamedTuple):
    """Why a value does not fit; ``is_masked`` as of ``Judgement``."""

    text: str
    is_masked: bool = False


class OutputError(RunError):
    """No answer that fits could be had (exit 5); the last one is in the session.

    Args:
        form: the form of the answer.
        judgement: of the last answer; None if there is none.
    """

    exit_code = 5
    code = "output_invalid"

    def __init__(self, form: PlannedOutput, judgement: Judgement | None) -> None:
        problems = ("there is no answer",) if judgement is None else judgement.problems
        asked = f", after {form.repairs + 1} answers (output.repairs = {form.repairs})" if judgement else ""
        remedy = (
            "Resume with --continue and a higher output.repairs or another prompt, or simplify the schema."
        )
        if judgement is not None and judgement.is_masked:
            remedy = (
                "If the masked value is not a secret, give its variable or its key a name that does not say secret. "
                "If it is one, let the schema take a text there, or set `secrets: {to_model: allow}`."
            )
        super().__init__(
            f"the answer does not fit output.schema{asked}: {'; '.join(problems)}", remedy=remedy
        )
        self.text = "" if judgement is None else judgement.text


def is_final(form: PlannedOutput, call: Mapping[str, Any]) -> bool:
    """Whether a call gives the answer."""
    return form.tool is not None and call["name"] == form.tool.name


def judged(form: PlannedOutput, message: BaseMessage) -> Judgement | None:
    """The judgement of a model's message; None for one that only calls tools, and for another's message."""
    if message.type != "ai":
        return None
    calls = calls_of(message)
    final = next((call for call in calls if is_final(form, call)), None)
    if final is None:
        return (
            None if calls else _judged_text(form, text_of(message), is_cut=ended_early(message) == "length")
        )
    arguments = final["args"]
    text = json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, dict) else str(arguments)
    if not isinstance(arguments, dict):
        return Judgement(None, (f"the arguments are not JSON: {final.get('error') or 'unreadable'}",), text)
    if len(calls) > 1:
        return Judgement(
            None,
            (f"{final['name']} was called beside other calls, whose results the answer cannot know",),
            text,
        )
    return _judged_value(form, arguments, text)


def _judged_text(form: PlannedOutput, text: str, *, is_cut: bool) -> Judgement:
    try:
        value = strict_json(_STRING_OR_WORD.sub(_masked_as_text, _unfenced(text)))
    except ValueError as error:
        cut = "; it was cut at the model's output limit, so write less" if is_cut else ""
        return Judgement(None, (f"the text is not one JSON value: {error}{cut}",), text)
    return _judged_value(form, value, text)


def _masked_as_text(found: re.Match[str]) -> str:
    """A number that is a secret is masked before the text is read, and its placeholder alone is no JSON."""
    return json.dumps(found[1]) if found[1] and PLACEHOLDER.search(found[1]) else found[0]


def _unfenced(text: str) -> str:
    """The text inside of a code fence that surrounds the whole."""
    stripped = text.strip()
    head, line, rest = stripped.partition("\n")
    if line and head.startswith(_FENCE) and rest.endswith(_FENCE):
        return rest.removesuffix(_FENCE)
    return stripped


def _judged_value(form: PlannedOutput, value: Any, text: str) -> Judgement:
    try:
        problems = tuple(dict.fromkeys(_problems(form, value)))
    except (ArithmeticError, RecursionError) as error:
        # Such as 10**400 for `multipleOf: 0.1`, or a schema that refers to itself at a hundred levels.
        problems = (_Problem(f"$: this value cannot be checked: {type(error).__name__}"),)
    shown = [cut_text(each.text, _LONGEST_PROBLEM) for each in problems[:_MOST_PROBLEMS]]
    if len(problems) > _MOST_PROBLEMS:
        shown.append(f"and {len(problems) - _MOST_PROBLEMS} more")
    is_masked = any(each.is_masked for each in problems)
    return Judgement(None if shown else value, tuple(shown), text, is_masked)


def _problems(form: PlannedOutput, value: Any) -> Iterator[_Problem]:
    from jsonschema.exceptions import best_match

    # The validator's order follows the schema's keys; a reader looks for the place.
    errors = sorted(form.validator.iter_errors(value), key=lambda error: list(map(str, error.absolute_path)))
    for error in errors:
        # Of alternatives, the error of the nearest one says more than "is not valid under any".
        told = best_match([error]) or error
        masked = PLACEHOLDER.search(told.instance) if isinstance(told.instance, str) else None
        reason = f"{masked[0]} stands for a secret that Zeus masks: " if masked else ""
        yield _Problem(f"{told.json_path}: {reason}{told.message}", masked is not None)
    if errors or form.model is None:
        return
    from pydantic import ValidationError

    try:
        form.typed(value)
    except ValidationError as error:
        for each in error.errors(include_url=False, include_context=False, include_input=False):
            place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in each["loc"])
            yield _Problem(f"${place}: {each['msg']}")
    except Exception as error:  # noqa: BLE001 - a validator is the user's code
        yield _Problem(f"$: {form.source} failed: {type(error).__name__}: {error}")


def written(value: Any) -> str:
    """An answer's value as text."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def accepted(form: PlannedOutput, messages: Sequence[BaseMessage]) -> Any:
    """The value of the answer that ends a conversation.

    Raises:
        OutputError: it does not end with an answer that fits.
    """
    judgement = _last(form, messages)
    if judgement is None or judgement.problems:
        raise OutputError(form, judgement)
    return judgement.value


def has_answer(form: PlannedOutput, messages: Sequence[BaseMessage]) -> bool:
    """Whether a conversation ends with an answer that fits."""
    judgement = _last(form, messages)
    return judgement is not None and not judgement.problems


def _last(form: PlannedOutput, messages: Sequence[BaseMessage]) -> Judgement | None:
    last = next((each for each in reversed(messages) if each.type != "tool"), None)
    return None if last is None else judged(form, last)


def refusals(form: PlannedOutput, messages: Sequence[BaseMessage]) -> int:
    """How many answers of the last turn do not fit."""
    count = 0
    for message in reversed(messages):
        if is_users(message):
            break
        judgement = judged(form, message)
        count += judgement is not None and bool(judgement.problems)
    return count


def repair_message(form: PlannedOutput, judgement: Judgement) -> HumanMessage:
    """The message that asks again."""
    from langchain_core.messages import HumanMessage

    how = "with one JSON value and no other text" if form.tool is None else f"by calling {form.tool.name}"
    text = f"[From the runtime, not from the user.] {_refusal(judgement)}\n\nAnswer again {how}."
    return HumanMessage(text, additional_kwargs={FROM_RUNTIME: True})


def final_result(call: Mapping[str, Any], judgement: Judgement) -> ToolMessage:
    """The result of the call that gives the answer; no tool ran."""
    from langchain_core.messages import ToolMessage

    refused = bool(judgement.problems)
    return ToolMessage(
        content=f"{_refusal(judgement)}\n\nCall it again." if refused else "The answer was accepted.",
        tool_call_id=str(call["id"]),
        name=call["name"],
        status="error" if refused else "success",
    )


def _refusal(judgement: Judgement) -> str:
    listed = "\n".join(f"- {each}" for each in judgement.problems)
    return f"Your answer does not have the form that was asked for:\n{listed}"


def repair_notice(judgement: Judgement) -> Notice:
    """Says that an answer was refused."""
    told = "; ".join(judgement.problems)
    return Notice("output_refused", f"The answer does not fit output.schema: {told}.")
