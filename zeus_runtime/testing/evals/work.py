"""The work that scripted models do in evaluations: tools that give what is asked for, and how a script uses them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from zeus_runtime.models.content import whole_text
from zeus_runtime.testing.evals.laws import shown_text
from zeus_runtime.testing.scripted_model import calling

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

    from zeus_runtime.models.interface import ModelRequest
    from zeus_runtime.testing.evals.provider import Sent
    from zeus_runtime.tools import Tool

_LINE_TOKENS: Final = 18
"""What a line of ``filler`` takes, about."""

FULL: Final = 0.94
"""The share of the window up to which a script works when nothing sheds."""

MOST_PARTS: Final = 700
"""How much work a script does at most, in steps."""

MARK: Final = re.compile(r"\b(?:GOAL|RULE)-[0-9a-f]{8}\b[^\n<]*")
MADE: Final = re.compile(r"/made/[0-9a-f]{8}\.txt")


@dataclass
class Desk:
    """The data behind an evaluation's tools.

    Args:
        window_tokens: the subject's window; filler is a share of it.
        seed: the seed of the random texts.
        label: a text in every line of filler.
    """

    window_tokens: int
    seed: int = 0
    label: str = "row"
    texts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)

    def token(self) -> str:
        """Eight hexadecimal digits that stand nowhere else."""
        return f"{self._dice.getrandbits(32):08x}"

    @property
    def filler_tokens(self) -> int:
        """What one step of work adds to the window, about."""
        return min(2_000, max(150, self.window_tokens // 40))

    @property
    def large_tokens(self) -> int:
        """The approximate size of a large result."""
        return max(self.filler_tokens, self.window_tokens // 50)

    def lines(self, tokens: int) -> list[str]:
        """About ``tokens`` tokens of text, in short lines."""
        count = max(2, tokens // _LINE_TOKENS)
        return [
            f"{self.label} {number}: value {self._dice.getrandbits(40):010x}"
            for number in range(1, count + 1)
        ]

    def text(self, tokens: int, needle: str = "") -> str:
        """About ``tokens`` tokens of text with ``needle`` as a line in its second half."""
        lines = self.lines(tokens)
        if needle:
            lines.insert(len(lines) * 3 // 4 + 1, needle)
        return "\n".join(lines)

    def tools(self) -> list[Tool]:
        """``eval_survey`` (filler or a text that was put there), ``eval_look`` (the same, readable again),
        ``eval_report`` (takes a long argument)."""
        from zeus_runtime.tools.define import tool

        @tool(access="read")
        async def eval_survey(part: str) -> str:
            """Survey a part.

            Args:
                part: Which part.
            """
            return self.texts.get(part) or self.text(self.filler_tokens)

        @tool(access="read", replayable_result=True)
        async def eval_look(place: str) -> str:
            """Look at a place.

            Args:
                place: Which place.
            """
            return self.texts.get(place) or self.text(self.filler_tokens)

        @tool(access="write", replayable_arguments=("body",))
        async def eval_report(title: str, body: str) -> str:
            """Hand in a report.

            Args:
                title: What it is about.
                body: The whole report.
            """
            return "Received."

        return [eval_survey, eval_look, eval_report]


Part: TypeAlias = Generator["AIMessage | str", "Sent", "Sent"]
"""A part of a script; it gives back the request that came after its last answer."""


class ShownTexts:
    """Which texts requests show; a message that was searched is not searched again while it is sent."""

    def __init__(self) -> None:
        self._homes: dict[str, BaseMessage] = {}

    def __call__(self, messages: Sequence[BaseMessage], text: str) -> bool:
        """Whether one of ``messages`` shows ``text``."""
        home = self._homes.get(text)
        if home is not None and any(each is home for each in messages):
            return True
        found = next((each for each in messages if text in whole_text(each)), None)
        if found is not None:
            self._homes[text] = found
        return found is not None


def working(sent: Sent, desk: Desk, over: Callable[[Sent], bool], prefix: str = "") -> Part:
    """Survey part after part until ``over`` says so, or the window is full and nothing sheds."""
    part = 0
    while part < MOST_PARTS and not over(sent) and sent.tokens < FULL * desk.window_tokens:
        part += 1
        sent = yield survey(f"{prefix}{part}")
    return sent


def survey(part: object) -> AIMessage:
    """One step of work."""
    return calling(("eval_survey", {"part": str(part)}))


def marks_in(request: ModelRequest) -> list[str]:
    """The lines of goal and rules that a request shows, each once."""
    return list(dict.fromkeys(line.strip() for line in MARK.findall(shown_text(request.messages))))


def faithful(request: ModelRequest) -> str:
    """A summary with every goal, rule and artefact that the request shows, and nothing else: what a good summariser
    could know."""
    made = list(dict.fromkeys(MADE.findall(shown_text(request.messages))))
    return _structured(marks_in(request), made)


def forgetful(_request: ModelRequest) -> str:
    """A summary that says nothing."""
    return _structured([], [])


def _structured(intent: Sequence[str], made: Sequence[str]) -> str:
    parts = [("Intent", intent), ("Artifacts", made), ("Next steps", ["Go on with the work."])]
    return "\n\n".join("\n".join([f"## {title}", *lines]) for title, lines in parts if lines)
