"""Makes a case of a stored session: its prompts, its tool calls, the files that it read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.models.content import calls_of, is_users, text_of
from zeus_runtime.models.messages import from_payload
from zeus_runtime.run.attachments import KEY
from zeus_runtime.testing.cases.expectations import MadeCall
from zeus_runtime.tools.attachments import Reference

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

_LONGEST_NAME: Final = 60
_LONGEST_ANSWER: Final = 120


def case_of(
    payloads: Sequence[Mapping[str, Any]],
    *,
    taken: Collection[str],
    files: Callable[[Sequence[MadeCall], Sequence[Reference]], Mapping[str, Any]],
    attached: Callable[[Reference], str],
    approvals: str | None = None,
) -> dict[str, Any] | None:
    """The case of a conversation, as JSON values; None if no prompt in it has text.

    Args:
        payloads: its messages as they are stored, without those that a rollback set aside.
        taken: the names of other cases.
        files: finds the content of the files that calls and prompts name.
        attached: stores an attached file and returns its path, relative to the evaluation file.
        approvals: how its questions for approval were answered, if all were answered in the same way.
    """
    messages = [from_payload(dict(each)) for each in payloads]
    turns = [
        (text, references)
        for each in messages
        if is_users(each)
        for text, references in [(text_of(each), _references(each))]
        if text.strip() or any(found.kind == "attachment" for found in references)
    ]
    if not turns:
        return None
    prompts = [text for text, _ in turns]
    calls = [
        MadeCall(call["name"], call["args"] if isinstance(call["args"], dict) else {})
        for each in messages
        for call in calls_of(each)
    ]
    answers = [text for each in messages if each.type == "ai" and (text := text_of(each).strip())]
    expect: list[dict[str, Any]] = []
    if answers:
        expect.append({"contains": _first_words(answers[-1], _LONGEST_ANSWER)})
    if calls:
        expect.append({"tool_calls": [call.name for call in calls]})
    title = _first_words(prompts[0], _LONGEST_NAME) or _first_words(turns[0][1][0].path, _LONGEST_NAME)
    case: dict[str, Any] = {"name": _free_name(title, taken)}
    case |= {"prompt": prompts[0]} if len(prompts) == 1 else {"prompts": prompts}
    read = files(calls, [found for _, references in turns for found in references])
    case |= {"files": dict(read)} if read else {}
    attachments = [
        attached(found) if number == 1 else {"file": attached(found), "prompt": number}
        for number, (_, references) in enumerate(turns, 1)
        for found in references
        if found.kind == "attachment"
    ]
    case |= {"attachments": attachments} if attachments else {}
    case |= {"approvals": approvals} if approvals else {}
    return {**case, "expect": expect or [{"max_steps": 1}]}


def path_arguments(calls: Sequence[MadeCall]) -> Iterator[tuple[str, str, str]]:
    """Each text among the arguments of calls that may be a path, behind the names of the tool and the argument."""
    for call in calls:
        for name, value in call.arguments.items():
            if isinstance(value, str) and 0 < len(value) < 500 and "\n" not in value:
                yield call.name, name, value


def _references(message: BaseMessage) -> Sequence[Reference]:
    return [Reference.from_json(each) for each in message.additional_kwargs.get(KEY, ())]


def _first_words(text: str, most: int) -> str:
    """The first line of a text, cut between words."""
    line = text.strip().split("\n")[0].strip()
    if len(line) <= most:
        return line
    head, space, _ = line[:most].rpartition(" ")
    return head.rstrip() if space else line[:most]


def _free_name(name: str, taken: Collection[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} {number}"
    return free
