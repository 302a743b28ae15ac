"""Compares a finished conversation with what a case expects. Pure but for the files of the workspace."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.cutting import cut_text
from zeus_runtime.testing.cases.reading import PATTERN_SECONDS, schema_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeus_runtime.testing.cases.format import Call, Expectation, FileState, Texts

_LONGEST: Final = 300
"""Characters of a text in a finding."""


@dataclass(frozen=True)
class Finding:
    """An expectation that does not hold.

    Args:
        expected: the condition, in words.
        found: what was there instead.
    """

    expected: str
    found: str

    def __str__(self) -> str:
        return f"expected {self.expected}, found {self.found}"


@dataclass(frozen=True)
class MadeCall:
    """A tool call that the agent made; ``result`` is None if it has none."""

    name: str
    arguments: Mapping[str, Any]
    result: str | None = None


@dataclass(frozen=True)
class FinishedTurn:
    """A prompt, the calls that followed, and the answer."""

    prompt: str
    calls: Sequence[MadeCall]
    answer: str


@dataclass(frozen=True)
class Conversation:
    """Everything that expectations are compared with.

    Args:
        turns: at least one.
        steps: the model calls of the agent.
        cost_usd: of all turns, in US dollars; None if no price is known.
        output: the last answer's JSON value, if the agent's config has ``output``.
        file: returns the content of a file of the workspace; None if there is none.
    """

    turns: Sequence[FinishedTurn]
    steps: int
    cost_usd: float | None
    output: Any
    file: Callable[[str], bytes | None]

    @property
    def answer(self) -> str:
        """The last answer."""
        return self.turns[-1].answer

    @property
    def calls(self) -> Sequence[MadeCall]:
        """The calls of all turns."""
        return [call for turn in self.turns for call in turn.calls]


def findings(expectation: Expectation, conversation: Conversation) -> Iterator[Finding]:
    """The conditions of ``expectation`` that do not hold, without ``judge``."""
    answer = conversation.answer
    yield from _text_findings("the answer", answer, expectation)
    if expectation.schema is not None:
        yield from _schema_findings(expectation.schema, conversation)
    if expectation.file is not None:
        yield from _file_findings(expectation.file, conversation)
    made = conversation.calls
    if expectation.tool_calls is not None:
        yield from _call_findings(expectation.tool_calls, made, exact=expectation.exact)
    for name in texts(expectation.not_called):
        if any(call.name == name for call in made):
            yield Finding(f"no call of {name}", f"the calls {_named(made)}")
    if expectation.max_steps is not None and conversation.steps > expectation.max_steps:
        yield Finding(f"at most {expectation.max_steps} steps", f"{conversation.steps} steps")
    yield from _cost_findings(expectation.max_cost_usd, conversation.cost_usd)


def texts(given: Texts | None) -> tuple[str, ...]:
    """One text, or several, as several."""
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(given)


def _cost_findings(limit: float | None, cost: float | None) -> Iterator[Finding]:
    if limit is None or (cost is not None and cost <= limit):
        return
    expected = f"at most ${limit:.6g}"
    if cost is None:
        yield Finding(expected, "no price: give the model's prices under profiles.models of the config")
    else:
        yield Finding(expected, f"${cost:.6g}")


def _text_findings(whose: str, text: str, expected: Expectation | FileState) -> Iterator[Finding]:
    for each in texts(expected.contains):
        if each not in text:
            yield Finding(f"{whose} to contain {shown(each)}", shown(text))
    for each in texts(expected.not_contains):
        if each in text:
            yield Finding(f"{whose} not to contain {shown(each)}", shown(text))
    if expected.regex is None:
        return
    import regex

    try:
        if regex.search(expected.regex, text, timeout=PATTERN_SECONDS) is None:
            yield Finding(f"{whose} to match {shown(expected.regex)}", shown(text))
    except TimeoutError:
        yield Finding(
            f"{whose} to match {shown(expected.regex)}", f"no end within {PATTERN_SECONDS:g} seconds"
        )


def _schema_findings(schema: Any, conversation: Conversation) -> Iterator[Finding]:
    from langchain_core.messages import AIMessage

    from zeus_runtime.plan.output import PlannedOutput
    from zeus_runtime.run.output import judged

    form = PlannedOutput(schema_value(schema), "prompt", "", 0)
    text = conversation.answer
    if conversation.output is not None:
        text = json.dumps(conversation.output, ensure_ascii=False)
    judgement = judged(form, AIMessage(text))
    if judgement is not None and judgement.problems:
        yield Finding("an answer that fits the schema", f"{'; '.join(judgement.problems)} in {shown(text)}")


def _file_findings(state: FileState, conversation: Conversation) -> Iterator[Finding]:
    data = conversation.file(state.path)
    if data is None or state.absent:
        if (data is None) != state.absent:
            expected = f"no file {state.path}" if state.absent else f"the file {state.path}"
            yield Finding(expected, "no such file" if data is None else f"a file of {len(data):,} bytes")
        return
    text = data.decode("utf-8", "replace")
    if state.equals is not None and data != state.equals.encode():
        yield Finding(f"{state.path} to be {shown(state.equals)}", shown(text))
    yield from _text_findings(state.path, text, state)


def _call_findings(wanted: Sequence[Call], made: Sequence[MadeCall], *, exact: bool) -> Iterator[Finding]:
    if exact:
        fits = len(wanted) == len(made) and all(map(_fits, wanted, made))
    else:
        left = iter(made)
        fits = all(any(_fits(each, call) for call in left) for each in wanted)
    if not fits:
        order = "exactly the calls" if exact else "the calls"
        asked = ", ".join(map(_wanted, wanted)) or "none"
        whole = any(not isinstance(each, str) for each in wanted)
        yield Finding(f"{order} {asked}", f"the calls {_named(made, arguments=whole)}" if made else "no call")


def _fits(wanted: Call, call: MadeCall) -> bool:
    if isinstance(wanted, str):
        return wanted == call.name
    ((name, arguments),) = wanted.items()
    return name == call.name and all(
        key in call.arguments and call.arguments[key] == value for key, value in arguments.items()
    )


def _wanted(call: Call) -> str:
    if isinstance(call, str):
        return call
    ((name, arguments),) = call.items()
    return _called(name, arguments)


def _called(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={shown(value)}' for key, value in arguments.items())})"


def _named(calls: Sequence[MadeCall], *, arguments: bool = False) -> str:
    return ", ".join(_called(call.name, call.arguments) if arguments else call.name for call in calls)


def shown(value: Any) -> str:
    """A value as JSON, shortened."""
    return cut_text(json.dumps(value, ensure_ascii=False, default=str), _LONGEST)
