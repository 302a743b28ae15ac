"""Runs cases: each run has its own agent, workspace and database."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeus_runtime.errors import ZeusError
from zeus_runtime.events import (
    RunCompleted,
    RunFailed,
    RunStarted,
    ToolCallResult,
    ToolCallStarted,
)
from zeus_runtime.testing.cases.answers import RecordedModel, Source, replaying
from zeus_runtime.testing.cases.expectations import Conversation, Finding, FinishedTurn, MadeCall, findings
from zeus_runtime.testing.cases.file_access import copied
from zeus_runtime.testing.cases.judging import Verdicts, judgements
from zeus_runtime.testing.cases.names import recording_name
from zeus_runtime.testing.cases.reading import JUDGED, parts_of
from zeus_runtime.testing.own_folder import own_folder
from zeus_runtime.tools.attachments import GivenFile

if TYPE_CHECKING:
    from zeus_runtime.agent.agent import Agent
    from zeus_runtime.events import Event
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.testing.cases.format import Approvals, Case, CaseFile
    from zeus_runtime.testing.cases.reading import ReadEvaluation
    from zeus_runtime.tools import WorkspaceFiles
    from zeus_runtime.tools.approval import Decision, PendingApproval

_MAX_FILE_BYTES = 50_000_000


@dataclass(frozen=True)
class EvaluatedAgent:
    """An agent that is evaluated.

    Args:
        name: its config as the evaluation names it.
        model: the model that replaces the config's own; None for that.
        checked: its config, which its user trusts.
        files: its workspace in the project.
        judges: the same config with each judging model that the evaluation names; its user trusts these too.
    """

    name: str
    model: str | None
    checked: Checked = field(repr=False)
    files: WorkspaceFiles = field(repr=False)
    judges: Mapping[str, Checked] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class PlannedRun:
    """One run of a case.

    Args:
        case: the case.
        agent: the agent.
        number: which of the case's repeats, from 1.
        repeats: how many there are.
        cassette: the name of its recording, without the ending.
    """

    case: Case
    agent: EvaluatedAgent
    number: int
    repeats: int
    cassette: str


@dataclass(frozen=True)
class RunOutcome:
    """What became of a run.

    Args:
        case: the case's name.
        agent, model: the name and the model of the ``EvaluatedAgent``.
        number: which of the repeats, from 1.
        status: ``passed``; ``failed``, if an expectation does not hold; ``error``, if the run did not complete.
        findings: the expectations that do not hold.
        error: why the run did not complete.
        answer: the last answer.
        tool_calls: the names of the agent's calls.
        steps: the agent's model calls.
        cost_usd: of the agent; None if no price is known.
        judge_cost_usd: of the judging model; None if it was not asked or no price is known.
        seconds: how long it took.
    """

    case: str
    agent: str
    model: str | None
    number: int
    status: str
    findings: Sequence[Finding] = ()
    error: str = ""
    answer: str = ""
    tool_calls: Sequence[str] = ()
    steps: int = 0
    cost_usd: float | None = None
    judge_cost_usd: float | None = None
    seconds: float = 0.0


def planned_runs(
    read: ReadEvaluation, agents: Sequence[EvaluatedAgent], names: Sequence[str] = ()
) -> Iterator[PlannedRun]:
    """Every run of an evaluation: by agent, then by case, then by number.

    Args:
        names: the cases to run; all if empty.
    """
    evaluation = read.evaluation
    for agent in agents:
        of_matrix = [agent.name] if len(read.agents) > 1 else []
        of_matrix += [agent.model] if len(evaluation.models) > 1 and agent.model else []
        for case in evaluation.cases:
            if names and case.name not in names:
                continue
            repeats = case.repeats or evaluation.repeats
            for number in range(1, repeats + 1):
                # Not only masked: cases that differ by a secret have two recordings.
                name = recording_name(agent.checked.secrets.told([case.name, *of_matrix]), number)
                yield PlannedRun(case, agent, number, repeats, name)


async def outcomes(
    read: ReadEvaluation, runs: Sequence[PlannedRun], source: Source, *, concurrency: int = 1
) -> AsyncGenerator[RunOutcome, None]:
    """Do the runs, begun in their order, and yield what became of each as it ends; closing it ends those that run.

    Args:
        concurrency: the most runs at the same time.
    """
    waiting, running = iter(runs), set[asyncio.Task[RunOutcome]]()
    try:
        while True:
            for run in islice(waiting, concurrency - len(running)):
                running.add(asyncio.create_task(_outcome(read, run, source), name=f"case {run.case.name}"))
            if not running:
                return
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                yield each.result()
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _outcome(read: ReadEvaluation, run: PlannedRun, source: Source) -> RunOutcome:
    loop = asyncio.get_running_loop()
    began = loop.time()
    begun = RunOutcome(run.case.name, run.agent.name, run.agent.model, run.number, "error")
    # What fails here must not cost the outcomes of the other runs: a full disk, a plugin's fault.
    try:
        with own_folder("zeus-eval-") as folder:
            done = await _Bench(read, run, source, folder).outcome(begun)
    except (ZeusError, OSError) as error:
        done = replace(begun, error=run.agent.checked.secrets(str(error)))
    except Exception as error:  # noqa: BLE001 - whatever a plugin raises
        from traceback import format_exc

        told = f"{type(error).__name__}: {error}\n{format_exc()}"
        done = replace(begun, error=run.agent.checked.secrets(told))
    return replace(done, seconds=loop.time() - began)


@dataclass(frozen=True)
class _Bench:
    """One run with its folder."""

    read: ReadEvaluation
    run: PlannedRun
    source: Source
    folder: Path

    async def outcome(self, begun: RunOutcome) -> RunOutcome:
        from zeus_runtime.agent.agent import Agent
        from zeus_runtime.plan.apart import set_apart
        from zeus_runtime.plan.plan import make_plan

        # A link may lead elsewhere since the user was asked.
        self.read.trust.require(self.read.parts())
        checked = set_apart(self.run.agent.checked, self.folder)
        self._write_files(checked)
        plan, model = make_plan(checked), None
        if self.source == "replay":
            model = RecordedModel(self._cassette(), _model_name(plan))
            plan = replaying(plan, self._cassette())
        async with Agent(checked, plan, model=model) as agent:
            with ExitStack() as stack:
                taped = stack.enter_context(_taping(self._cassette(), self.source))
                if taped is not None:
                    stack.enter_context(agent.record(taped))
                talk = _Talk(agent, self._approvals)
                await talk.hold(self.run.case.turns, self._attachments())
                done = replace(begun, **talk.totals)
                if talk.error:
                    _discard(taped)
                    return replace(done, error=talk.error)
            files = plan.context.workspace.runtime
            conversation = talk.conversation(lambda path: _content(files, path))
            found = [*self._findings(conversation)]
            try:
                judged = await self._judged(conversation)
            except ZeusError as error:
                told = f"the judging model gave no judgement: {checked.secrets(str(error))}"
                return replace(done, findings=found, error=told)
            found += judged.findings
            status = "failed" if found else "passed"
            return replace(done, status=status, findings=found, judge_cost_usd=judged.cost_usd)

    def _findings(self, conversation: Conversation) -> Iterator[Finding]:
        mask = self.run.agent.checked.secrets
        for expectation in self.run.case.expect:
            for each in findings(expectation, conversation):
                yield Finding(mask(each.expected), mask(each.found))

    async def _judged(self, conversation: Conversation) -> Verdicts:
        agent, asked = self.run.agent, self.read.evaluation.judged(self.run.case)
        if not asked:
            return Verdicts()
        path = self._cassette(JUDGED)
        with _taping(path, self.source) as taped:
            return await judgements(
                [(text, agent.checked if model is None else agent.judges[model]) for text, model in asked],
                conversation,
                folder=self.folder,
                replayed=path if self.source == "replay" else None,
                taped=taped,
            )

    def _cassette(self, kind: str = "") -> Path:
        return self.read.recording(self.run.cassette, kind)

    @property
    def _approvals(self) -> Approvals | None:
        return self.run.case.approvals or self.read.evaluation.approvals

    def _write_files(self, checked: Checked) -> None:
        workspace = checked.config.workspace
        for name, content in self.run.case.files.items():
            place = _place(Path(workspace.root), workspace.routes, parts_of(name))
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(self._bytes_of(content))

    def _bytes_of(self, content: str | CaseFile) -> bytes:
        return content.encode() if isinstance(content, str) else self._copied(content.file)

    def _copied(self, file: str) -> bytes:
        return copied(self.run.agent.files, Path(file), max_bytes=_MAX_FILE_BYTES)

    def _attachments(self) -> Mapping[int, Sequence[GivenFile]]:
        """The files that go with prompts, by the numbers of these, from 1."""
        found: dict[int, list[GivenFile]] = {}
        for each in self.run.case.attached:
            given = GivenFile(Path(each.file).name, self._copied(each.file))
            found.setdefault(each.prompt, []).append(given)
        return found


def _place(root: Path, routes: Any, parts: tuple[str, ...]) -> Path:
    """The real path of a path in the workspace: in the longest route that it begins with, else in the root."""
    mounts = {parts_of(prefix): Path(target) for prefix, target in routes.items()} | {(): root}
    prefix = max((each for each in mounts if parts[: len(each)] == each), key=len)
    return mounts[prefix].joinpath(*parts[len(prefix) :])


def _content(files: WorkspaceFiles, path: str) -> bytes | None:
    from zeus_runtime.tools.paths import NoSuchFileError

    try:
        return files.read("/" + "/".join(parts_of(path)), max_bytes=_MAX_FILE_BYTES)
    except NoSuchFileError:
        return None


def _model_name(plan: Plan) -> str | None:
    named = plan.model.options.get("model")
    return named if isinstance(named, str) else None


@contextmanager
def _taping(path: Path, source: Source) -> Iterator[Path | None]:
    """The new recording of a run: it replaces the former one when the block ends, if it is still there."""
    if source != "record":
        yield None
        return
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    try:
        yield part
        if part.exists():
            os.replace(part, path)  # noqa: PTH105
    finally:
        part.unlink(missing_ok=True)


def _discard(taped: Path | None) -> None:
    if taped is not None:
        taped.unlink(missing_ok=True)


class _Answering:
    """Answers every question for approval in the same way."""

    def __init__(self, answer: Approvals) -> None:
        self._answer = answer

    async def ask(self, pending: PendingApproval) -> Decision | None:
        from zeus_runtime.tools.approval import Decision

        if self._answer == "deny":
            return Decision("reject", reason="The evaluation denies it.")
        decision = Decision("approve", by="automatic")
        if pending.is_refused_to(decision):
            return decision
        return None if pending.problem_with(decision) else decision


class _Talk:
    """A conversation while it is held.

    Attributes:
        error: why it ended early; empty if it did not.
    """

    def __init__(self, agent: Agent, approvals: Approvals | None) -> None:
        self._agent = agent
        self._approvals = approvals
        self._turns: list[FinishedTurn] = []
        self._calls: list[MadeCall] = []
        self._open: dict[str, int] = {}
        self._steps = 0
        self._cost_usd: float | None = None
        self._output: Any = None
        self.error = ""

    async def hold(self, prompts: Sequence[str], attachments: Mapping[int, Sequence[GivenFile]]) -> None:
        """Send the prompts one after the other, until one of them fails.

        Args:
            attachments: the files that go with a prompt, by its number from 1.
        """
        session: str | None = None
        channel = None if self._approvals is None else _Answering(self._approvals)
        for number, prompt in enumerate(prompts, 1):
            self._calls, self._open = [], {}
            ending: RunCompleted | RunFailed | None = None
            attached = attachments.get(number, ())
            stream = self._agent.stream(prompt, session=session, approvals=channel, attachments=attached)
            async with aclosing(stream) as events:
                async for event in events:
                    if isinstance(event, RunStarted):
                        session = event.session
                    elif isinstance(event, RunCompleted | RunFailed):
                        ending = event
                    else:
                        self._note(event)
            assert ending is not None, "a stream ends with a terminal event"
            self._end_turn(prompt, ending)
            if self.error:
                return

    def _note(self, event: Event) -> None:
        if isinstance(event, ToolCallStarted):
            # By place: a provider may use a call's id again in a later answer.
            self._open[event.call_id] = len(self._calls)
            self._calls.append(MadeCall(event.tool_name, event.parameters))
        elif isinstance(event, ToolCallResult) and event.call_id in self._open:
            place = self._open.pop(event.call_id)
            self._calls[place] = replace(self._calls[place], result=event.content)

    def _end_turn(self, prompt: str, ending: RunCompleted | RunFailed) -> None:
        totals: Mapping[str, Any]
        if isinstance(ending, RunCompleted):
            totals, answer, self._output = vars(ending), ending.answer, ending.output
        else:
            totals, self._output = ending.details, None
            answer = str(totals.get("partial_answer") or totals.get("refused_answer") or "")
            self.error = self._told(ending)
        self._steps += totals.get("steps") or 0
        cost = totals.get("cost_usd")
        if cost is not None:
            self._cost_usd = (self._cost_usd or 0.0) + cost
        self._turns.append(FinishedTurn(prompt, self._calls, answer))

    def _told(self, ending: RunFailed) -> str:
        if ending.code == "cancelled":
            raise asyncio.CancelledError
        pending = ending.details.get("pending")
        if not pending:
            return ending.message
        tools = ", ".join(dict.fromkeys(str(each["tool_name"]) for each in pending))
        if self._approvals == "allow":
            return f"{tools} asked a question that needs an answer, and `approvals: allow` only approves"
        return (
            f"the run asked for approval of {tools}, and the case does not say how to answer\n"
            "  Write `approvals: allow` or `approvals: deny` in the case."
        )

    @property
    def totals(self) -> dict[str, Any]:
        """The fields of a ``RunOutcome``."""
        return {
            "answer": self._turns[-1].answer if self._turns else "",
            "tool_calls": [call.name for turn in self._turns for call in turn.calls],
            "steps": self._steps,
            "cost_usd": self._cost_usd,
        }

    def conversation(self, file: Callable[[str], bytes | None]) -> Conversation:
        """The finished conversation."""
        return Conversation(self._turns, self._steps, self._cost_usd, self._output, file)
