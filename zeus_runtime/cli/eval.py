"""``zeus eval``: run the cases of an evaluation file, and make a case of a session."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from zeus_runtime.cli.completion import complete_session
from zeus_runtime.cli.options import (
    ConfigArgs,
    env_option,
    json_option,
    quiet_option,
    set_option,
    with_model,
)
from zeus_runtime.cli.otel import otel_option
from zeus_runtime.cli.output import TextTable, as_json, complain_masked
from zeus_runtime.cli.sessions.options import config_option
from zeus_runtime.cli.streams import answer

if TYPE_CHECKING:
    from zeus_runtime.cli.output import Shown
    from zeus_runtime.cli.process import Process
    from zeus_runtime.columns import Style
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.sessions.stored import StoredSession
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Owner
    from zeus_runtime.testing.cases.answers import Source
    from zeus_runtime.testing.cases.expectations import MadeCall
    from zeus_runtime.testing.cases.reading import ReadEvaluation
    from zeus_runtime.testing.cases.report import CaseReport, EvaluationReport
    from zeus_runtime.testing.cases.running import EvaluatedAgent, PlannedRun, RunOutcome
    from zeus_runtime.trust.decision import Trust

FAILED: Final = 5
"""The exit code if a case did not pass."""


class _Eval(click.Group):
    """``zeus eval FILE`` is ``zeus eval run FILE``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0].startswith("-") and args[0] not in ctx.help_option_names:
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, args if args[0] in self.commands else ["run", *args])


@click.group("eval", cls=_Eval)
def command() -> None:
    """Run the cases of an evaluation file, or make a case of a session.

    `zeus eval FILE` is short for `zeus eval run FILE`.
    """


@command.command("run", short_help="Run the cases of FILE.")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--case", "names", metavar="NAME", multiple=True, help="Only this case; may be repeated.")
@click.option(
    "--model",
    "models",
    metavar="NAME",
    multiple=True,
    help="A model's name instead of the file's `models`; may be repeated.",
)
@click.option("--repeats", metavar="N", type=click.IntRange(min=1), help="How often each case is run.")
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="The most cases that run at the same time.",
)
@click.option("--record", is_flag=True, help="Ask the models, and record their answers.")
@click.option("--replay", is_flag=True, help="Replay the recorded answers; ask no model.")
@click.option("--live", is_flag=True, help="Ask the models, even if the file names `cassette`.")
@click.option(
    "--junit",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Also write the results as JUnit XML.",
)
@env_option
@set_option
@json_option
@quiet_option
@otel_option
@click.pass_obj
@click.pass_context
def run_cases(
    ctx: click.Context,
    process: Process,
    file: Path,
    names: tuple[str, ...],
    models: tuple[str, ...],
    repeats: int | None,
    concurrency: int,
    record: bool,
    replay: bool,
    live: bool,
    junit: Path | None,
    env: str | None,
    sets: tuple[str, ...],
    as_object: bool,
    quiet: bool,
) -> None:
    """Run the cases of FILE, each in a temporary workspace, and compare the results with what the cases expect.

    Without --record, --replay and --live, recorded answers are replayed if FILE names `cassette`; otherwise the models
    are asked.

    \b
    Exit codes: 0 all cases passed, 2 the command line does not fit, 3 FILE or a config is invalid,
    4 a plugin or dependency is missing or a config is not trusted, 5 a case did not pass,
    130 interrupted: the finished runs are reported.
    """
    from zeus_runtime.cli.start import prepared
    from zeus_runtime.cli.trusting import read_trusted_evaluation
    from zeus_runtime.config.secrets.masking import learn_each_other
    from zeus_runtime.testing.cases.running import planned_runs

    given: dict[Source, bool] = {"record": record, "replay": replay, "live": live}
    sources = [source for source, is_given in given.items() if is_given]
    if len(sources) > 1:
        raise click.UsageError(f"--{sources[0]} and --{sources[1]} exclude each other", ctx)
    if junit is not None and not junit.parent.is_dir():
        raise click.UsageError(f"there is no folder {junit.parent} for --junit", ctx)
    read = read_trusted_evaluation(process, file, may_ask=not as_object)
    read = _changed(read, models, repeats)
    _check_names(ctx, read, names)
    with prepared(process):
        which = ConfigArgs(None, env, sets)
        agents = [*_agents(process, read, which, may_ask=not as_object, file_has_models=not models)]
        # The files of a case may hold the secret of any of them.
        learn_each_other(
            [each.secrets for agent in agents for each in (agent.checked, *agent.judges.values())]
        )
        runs = [*planned_runs(read, agents, names)]
        source = sources[0] if sources else _source_of(read)
        _check_files(read, agents, runs, source)
        done, interrupted = _done(
            process, read, runs, source, concurrency=concurrency, quiet=quiet or as_object
        )
    report = _reported(read, runs, done, interrupted=interrupted)
    if as_object:
        from zeus_runtime.testing.cases.report import as_object as to_object

        answer(as_json(to_object(report), mask=process.secrets.json))
    else:
        from zeus_runtime.cli.output import rendered

        answer(rendered(_shown(report), mask=process.secrets.json))
    # Last: a file that cannot be written must not cost the report.
    if junit is not None:
        _write_junit(process, junit, report)
    ctx.exit(130 if interrupted else 0 if report.passed else FAILED)


def _changed(read: ReadEvaluation, models: Sequence[str], repeats: int | None) -> ReadEvaluation:
    """The evaluation with what the command line says instead."""
    from dataclasses import replace

    evaluation = read.evaluation
    if models:
        evaluation = replace(evaluation, models=tuple(dict.fromkeys(models)))
    if repeats is not None:
        cases = tuple(replace(case, repeats=None) for case in evaluation.cases)
        evaluation = replace(evaluation, repeats=repeats, cases=cases)
    return replace(read, evaluation=evaluation)


def _check_names(ctx: click.Context, read: ReadEvaluation, names: Sequence[str]) -> None:
    from zeus_runtime.config.messages.diagnostics import suggestion

    known = [case.name for case in read.evaluation.cases]
    for name in names:
        if name not in known:
            raise click.UsageError(
                f"{read.document.source} has no case {name!r}{suggestion(name, known)}", ctx
            )


def _source_of(read: ReadEvaluation) -> Source:
    return "live" if read.evaluation.cassette is None else "replay"


def _agents(
    process: Process, read: ReadEvaluation, which: ConfigArgs, *, may_ask: bool, file_has_models: bool
) -> Iterator[EvaluatedAgent]:
    """The agents with each model; their user has allowed all that they execute.

    Args:
        file_has_models: whether the evaluation file names the models, and not the command line.

    Raises:
        ConfigError, MissingError, UntrustedError: as `zeus run`.
    """
    from dataclasses import replace

    from zeus_runtime.cli.trusting import read_trusted
    from zeus_runtime.plan.parts_with_subagents import all_parts
    from zeus_runtime.plan.plan import make_plan
    from zeus_runtime.testing.cases.running import EvaluatedAgent

    models: Sequence[str | None] = read.evaluation.models or (None,)
    for agent in read.agents:
        named = replace(which, config=read.config_of(agent))
        of_file = _trust_of_file(process, read, named, may_ask=may_ask)
        for model in models:
            args = with_model(named, model)
            trust = of_file if file_has_models else None
            checked = read_trusted(process, args, may_ask=may_ask, trust=trust)
            if read.choice is not None and any(map(checked.trust.allows_by_digest, all_parts(checked))):
                read.trust.require([read.choice])
            plan = make_plan(checked)  # so that problems are found before any run costs money
            # As --model: the other options stay, such as the address of a gateway.
            judges = {
                name: read_trusted(process, with_model(args, name), may_ask=may_ask, trust=of_file)
                for name in read.evaluation.judges
            }
            yield EvaluatedAgent(agent, model, checked, plan.context.workspace, judges)


def _trust_of_file(
    process: Process, read: ReadEvaluation, which: ConfigArgs, *, may_ask: bool
) -> Trust | None:
    """The permissions for the config with a model that the evaluation file names; None for those of the config.

    A path in ``ZEUS_TRUST`` allows what the config itself needs. Others may write the file, such as the agent.

    Raises:
        ConfigError, MissingError, UntrustedError: as `zeus run`.
    """
    from zeus_runtime.cli.trusting import read_trusted
    from zeus_runtime.plan.parts_with_subagents import all_parts
    from zeus_runtime.trust.decision import recorded_trust

    names_models = bool(read.evaluation.models or read.evaluation.judges)
    if not (names_models and recorded_trust(os.environ).paths):
        return None
    config = read_trusted(process, which, may_ask=may_ask)
    return config.trust.for_other_text(all_parts(config))


def _check_files(
    read: ReadEvaluation, agents: Sequence[EvaluatedAgent], runs: Sequence[PlannedRun], source: Source
) -> None:
    """Refuse files that the cases may not copy, and a folder that recordings may not be written to.

    Raises:
        ConfigError: with every problem.
    """
    from zeus_runtime.testing.cases.file_access import refused_copies, refused_recordings

    problems = [
        *refused_copies(read, agents),
        *(refused_recordings(read, runs) if source == "record" else ()),
    ]
    if problems:
        raise read.document.error(problems)


def _done(
    process: Process,
    read: ReadEvaluation,
    runs: Sequence[PlannedRun],
    source: Source,
    *,
    concurrency: int,
    quiet: bool,
) -> tuple[list[RunOutcome], bool]:
    """The outcomes, and whether the user interrupted the runs."""
    from contextlib import aclosing

    from zeus_runtime.testing.cases.running import outcomes

    done: list[RunOutcome] = []

    async def work() -> None:
        async with aclosing(outcomes(read, runs, source, concurrency=concurrency)) as stream:
            async for outcome in stream:
                done.append(outcome)
                if not quiet:
                    _tell(process, outcome, len(done), len(runs))

    try:
        asyncio.run(_until_terminated(work()))
    # The finished runs have cost money: they are reported.
    except (KeyboardInterrupt, asyncio.CancelledError):
        return done, True
    return done, False


async def _until_terminated(work: Any) -> None:
    """Do ``work``; SIGTERM cancels it as Ctrl-C does."""
    import signal
    from contextlib import suppress

    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError):
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await work
    finally:
        with suppress(NotImplementedError):
            loop.remove_signal_handler(signal.SIGTERM)


_STYLES: Final[dict[str, Style]] = {"passed": "dim", "failed": "red", "error": "red"}


def _tell(process: Process, outcome: RunOutcome, number: int, count: int) -> None:
    complain_masked(process, f"[{number}/{count}] {outcome.status}: {outcome.case}", _STYLES[outcome.status])


def _reported(
    read: ReadEvaluation, runs: Sequence[PlannedRun], done: Sequence[RunOutcome], *, interrupted: bool
) -> EvaluationReport:
    from zeus_runtime.testing.cases.report import reported

    rate = read.evaluation.min_pass_rate
    return reported(runs, done, default_rate=rate, interrupted=interrupted)


def _write_junit(process: Process, file: Path, report: EvaluationReport) -> None:
    from zeus_runtime.cli.whole_file import write_whole
    from zeus_runtime.testing.cases.report import junit

    write_whole(file, junit(report, process.redact), str(file))


def _shown(report: EvaluationReport) -> Shown:
    """The report for people: a row for each case, what does not hold below it, and the totals."""
    has_models = any(case.model is not None for case in report.cases)
    has_agents = len({case.agent for case in report.cases}) > 1
    header = ["CASE", *(["AGENT"] if has_agents else []), *(["MODEL"] if has_models else [])]
    rows = [
        [
            case.case,
            *([case.agent] if has_agents else []),
            *([case.model or ""] if has_models else []),
            _result(case),
            str(sum(run.steps for run in case.runs)),
            _money(case.cost_usd),
        ]
        for case in report.cases
    ]
    passed = sum(case.passed for case in report.cases)
    runs = sum(len(case.runs) for case in report.cases)
    told = f"{passed} of {len(report.cases)} cases passed, {runs} of {report.planned} runs done"
    total = f"{told}, {_money(report.cost_usd)}"
    if not rows:
        return total
    table = TextTable(
        rows, (*header, "RESULT", "STEPS", "COST"), below=[_below(case) for case in report.cases]
    )
    return [table, "", f"interrupted: {total}" if report.interrupted else total]


def _result(case: CaseReport) -> str:
    word = "passed" if case.passed else "FAILED"
    if case.is_error:
        word = "ERROR"
    count = len(case.runs)
    passed = sum(run.status == "passed" for run in case.runs)
    return word if count == 1 else f"{word} {passed}/{count}"


def _below(case: CaseReport) -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for run in case.runs:
        mark = f"{run.number}." if len(case.runs) > 1 else "-"
        lines += [(mark, f"error: {run.error}")] if run.error else []
        for finding in run.findings:
            lines += [(mark, f"expected {finding.expected}"), ("", f"found {finding.found}")]
    return lines


def _money(cost_usd: float | None) -> str:
    return "no price" if cost_usd is None else f"${cost_usd:.4f}"


_MOST_FILE_BYTES: Final = 100_000
"""A larger file is not copied into a case."""


@command.command("add", short_help="Make a case of SESSION.")
@click.argument("session", shell_complete=complete_session)
@click.option(
    "--to",
    "target",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("cases.yaml"),
    show_default=True,
    help="The evaluation file; it is made if it is missing.",
)
@config_option
@click.pass_obj
def add_case(process: Process, session: str, target: Path, which: ConfigArgs) -> None:
    """Make a case of SESSION: its prompts, the files that it read, its tool calls and the beginning of its answer.

    Files that went with its prompts are stored in a folder beside FILE. The other lines of FILE stay as they are,
    comments too. Known secrets are masked. Edit what the new case expects.

    \b
    Exit codes: 0 ok, 2 there is no such session, a file that went with its prompts is gone, or FILE
    cannot be extended, 3 FILE or the config is not valid.
    """
    from zeus_runtime.cli.sessions.reading import from_session
    from zeus_runtime.cli.whole_file import write_whole
    from zeus_runtime.errors import UsageError
    from zeus_runtime.escaping import printable
    from zeus_runtime.testing.cases.adding import new_file, with_case
    from zeus_runtime.testing.cases.from_session import case_of
    from zeus_runtime.testing.cases.kept_files import KeptFiles

    stored, outermost, owner = from_session(process, session, which, _stored_for_case)
    text, newline, taken = _existing(process, target)
    plan = _plan_of(process, which, outermost, owner)
    kept = KeptFiles(plan.context.workspace, process.directory / target, process.secrets)
    case = case_of(
        [each.payload for each in stored.messages if not each.set_aside],
        taken=taken,
        files=lambda calls, references: {
            **_files_read(plan, calls, kept.left_out),
            **kept.resources(references),
        },
        attached=kept.attachment,
        approvals=_approvals_of(stored),
    )
    if case is None:
        raise UsageError(f"{session} has no prompt", remedy="Name a session that a prompt began.")
    masked = process.secrets.json(case)
    if text is None:
        made = new_file(_agent_for(process, which, target), masked)
    else:
        made = with_case(text, masked, str(target))
    # Before the evaluation file, which names them: if this fails, no case names a file that is missing.
    kept.write()
    write_whole(target, made.replace("\n", newline), str(target))
    for path, why in kept.left_out.items():
        complain_masked(process, f"left out the file {printable(path)}: {why}")
    complain_masked(process, f"added the case {masked['name']!r} to {target}; edit what it expects")


async def _stored_for_case(log: ThreadLog, session: str) -> tuple[StoredSession, str, Owner | None]:
    """A session, the outermost one above it and the user to whom this belongs: their folder has the files."""
    from zeus_runtime.sessions.stored import read
    from zeus_runtime.store.session_tree import outermost_of

    stored = await read(log, session)
    outermost = await outermost_of(log, session) or session
    return stored, outermost, await log.owner_of(outermost)


def _plan_of(process: Process, which: ConfigArgs, session: str, owner: Owner | None) -> Plan:
    from zeus_runtime.cli.options import read_owner
    from zeus_runtime.plan.plan import make_plan
    from zeus_runtime.plan.workspace_secrets import at_session

    (checked,) = at_session([read_owner(process, which)[0]], session, owner)
    return make_plan(checked)


def _existing(process: Process, target: Path) -> tuple[str | None, str, Sequence[str]]:
    """The text of the evaluation file, its line ends and the names of its cases; None if there is no file.

    Raises:
        ConfigError: it is not valid.
        UntrustedError: it names files elsewhere that the user has not allowed, or is a link to one.
        UsageError: it is a link to a file that is not there.
    """
    from zeus_runtime.errors import UsageError
    from zeus_runtime.testing.cases.reading import read_evaluation

    if not target.exists():
        if target.is_symlink():
            raise UsageError(
                f"{target} is a link to a file that is not there",
                remedy="Name another file with --to, or remove the link.",
            )
        return None, "\n", ()
    found = read_evaluation(target, directory=process.directory, environ=process.environ, is_run=False)
    # Not read once more: it may be another file by now, which was not checked.
    text = found.document.sources.texts[found.document.source]
    return text, found.newline, [case.name for case in found.evaluation.cases]


def _approvals_of(stored: StoredSession) -> str | None:
    answers = {each.decision.answer for each in stored.approvals if each.decision is not None}
    return {"approve": "allow", "reject": "deny"}[answers.pop()] if len(answers) == 1 else None


def _agent_for(process: Process, which: ConfigArgs, target: Path) -> str:
    """The config as an evaluation file at ``target`` names it."""
    import os

    from zeus_runtime.testing.cases.reading import is_file_name

    named = which.config or ("zeus.yaml" if (process.directory / "zeus.yaml").exists() else "default")
    if not is_file_name(named):
        return named
    return Path(os.path.relpath(process.directory / named, (process.directory / target).parent)).as_posix()


def _files_read(plan: Plan, calls: Sequence[MadeCall], left_out: dict[str, str]) -> dict[str, str]:
    """The text files of the workspace that calls of reading tools name, as they are now.

    The access rules of the config hold: a file that its tools may not read is left out.

    Args:
        left_out: gets the paths of the files that are left out, each with the reason.
    """
    from zeus_runtime.errors import ZeusError
    from zeus_runtime.testing.cases.from_session import path_arguments
    from zeus_runtime.tools.paths import IsFolderError

    reading = {each.tool.name: each.tool for each in plan.tools if each.tool.access == "read"}
    found: dict[str, str] = {}
    for tool, argument, path in path_arguments(calls):
        if tool not in reading:
            continue
        try:
            name = plan.context.workspace.normalize(path)
            text = plan.context.workspace.read(name, max_bytes=_MOST_FILE_BYTES).decode()
        except IsFolderError:
            continue
        except (ZeusError, OSError, ValueError) as error:
            # Any text may be another tool's path, but a file is missed only where a tool says that it takes one.
            if argument in reading[tool].paths:
                is_text = not isinstance(error, UnicodeDecodeError)
                left_out[path] = getattr(error, "message", str(error)) if is_text else "it is not text"
            continue
        found[name.lstrip("/")] = text
    return found
