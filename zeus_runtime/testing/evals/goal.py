"""The goal survives: a long task is summarized midway, and the model still sees its goal in every later request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from zeus_runtime.testing.evals.laws import changed, compactions
from zeus_runtime.testing.evals.report import Check, EvaluationFinding
from zeus_runtime.testing.evals.subject import Subject, running
from zeus_runtime.testing.evals.work import FULL, MOST_PARTS, Desk, ShownTexts, faithful, survey
from zeus_runtime.testing.scripted_model import calling

if TYPE_CHECKING:
    from zeus_runtime.testing.evals.provider import Script, Sent

_COMPACTIONS = 2
EVERY = 6
"""Of so many steps one makes an artefact, one looks at a place again, and one gives a large result."""

_MOST_MADE = 6


@dataclass
class Task:
    """A task as the user states it, and what its script did.

    Args:
        goal, rules: lines of the user's.
        made: the paths written so far.
        owed: for each request, what it had to show: (kind, text).
    """

    goal: str
    rules: tuple[str, str]
    made: list[str] = field(default_factory=list)
    owed: list[tuple[tuple[str, str], ...]] = field(default_factory=list)

    @property
    def prompts(self) -> tuple[str, str]:
        return (
            f"{self.goal}\n{self.rules[0]}\nTell me when you have understood.",
            f"Begin now, and do not stop before the end.\n{self.rules[1]}",
        )

    def facts(self) -> tuple[tuple[str, str], ...]:
        rules = [("rule-lost", rule) for rule in self.rules]
        return (("goal-lost", self.goal), *rules, *(("artefact-lost", path) for path in self.made))


def new_task(desk: Desk) -> Task:
    """A task with words that stand nowhere else."""
    return Task(
        goal=f"GOAL-{desk.token()}: survey every part and write down what is odd about it.",
        rules=(
            f"RULE-{desk.token()}: never change a file that you did not make.",
            f"RULE-{desk.token()}: write every value in base sixteen.",
        ),
    )


def write(path: str, desk: Desk, names: Sequence[str]) -> object:
    """A step that makes an artefact, with the config's own tool where it has one."""
    content = desk.text(desk.filler_tokens)
    if "write_file" in names:
        return calling(("write_file", {"path": path, "content": content}))
    return calling(("eval_report", {"title": path, "body": content}))


def script(task: Task, desk: Desk, steps: int | None = None) -> Script:
    """Acknowledge, then work until the context was compacted twice, or for ``steps`` steps.

    The answer repeats every fact of the task that the last request shows.
    """
    shown = ShownTexts()
    sent = yield "waiting"
    task.owed.append(task.facts()[:2])
    sent = yield "Understood."
    shed = part = 0
    former: Sent | None = None
    while part < (MOST_PARTS if steps is None else steps):
        task.owed.append(task.facts())
        shed += former is not None and bool(compactions([former, sent]))
        former = sent
        full = sent.tokens >= FULL * desk.window_tokens
        if steps is None and (shed >= _COMPACTIONS or full):
            break
        part += 1
        if part % EVERY == 4 and len(task.made) < _MOST_MADE:
            path = f"/made/{desk.token()}.txt"
            names = [tool.name for tool in sent.request.tools]
            sent = yield write(path, desk, names)  # type: ignore[misc]
            task.made.append(path)
        elif part % EVERY == 0:
            desk.texts.setdefault("yard", desk.text(desk.filler_tokens))
            sent = yield calling(("eval_look", {"place": "yard"}))
        else:
            if part % EVERY == 2:
                desk.texts[str(part)] = desk.text(desk.large_tokens)
            sent = yield survey(part)
    else:
        task.owed.append(task.facts())
    answer = "\n".join(text if shown(sent.messages, text) else f"lost: {kind}" for kind, text in task.facts())
    while True:
        yield answer
        answer = "Noted."


def lost(task: Task, turns: Sequence[Sent]) -> Iterator[EvaluationFinding]:
    """What a request did not show, once each, at the first step it was missing."""
    shown = ShownTexts()
    told: set[str] = set()
    for step, (sent, owed) in enumerate(zip(turns, task.owed, strict=False), start=1):
        for kind, text in owed:
            if text not in told and not shown(sent.messages, text):
                told.add(text)
                yield EvaluationFinding(kind, step, "the model was not sent what it must still know", text)


async def goal(subject: Subject, folder: Path, seed: int) -> Check:
    """Whether goal, constraints and artefacts are in every request of a task that is compacted twice."""
    desk = Desk(subject.plan(folder).profile.max_input_tokens, seed)
    task = new_task(desk)
    async with running(subject, folder, script(task, desk), faithful, desk.tools()) as bench:
        found: list[EvaluationFinding] = []
        session: str | None = None
        for prompt in task.prompts:
            session, ending = await bench.run(prompt, session)
            found += ending
            if ending:
                break
        turns = bench.provider.turns
    found += lost(task, turns)
    shed = len(compactions(turns))
    skipped = "" if changed(turns) or found else f"nothing was shed below {FULL:.0%} of the window"
    return Check("goal", subject.name, "", tuple(found), skipped, len(turns), shed)
