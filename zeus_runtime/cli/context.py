"""``zeus context``: what the model saw at any step of any session, and why; and what other policies would have cost."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from zeus_runtime.cli.completion import complete_config, complete_session
from zeus_runtime.cli.options import env_option, read_config, read_owner, set_option
from zeus_runtime.cli.streams import answer, as_json, complain, is_terminal, printable

if TYPE_CHECKING:
    from zeus_runtime.agent.backtest import Replayed
    from zeus_runtime.agent.checked import Checked
    from zeus_runtime.cli.plots import Curve
    from zeus_runtime.cli.process import Process
    from zeus_runtime.context.inspection import Trace
    from zeus_runtime.context.recordings import Recording

config_option = click.option(
    "--config",
    metavar="CONFIG",
    shell_complete=complete_config,
    help="Whose database: a file or preset; zeus.yaml by default.",
)
session_option = click.option(
    "--session",
    "-s",
    metavar="SESSION",
    shell_complete=complete_session,
    help="Which session; the agent's latest by default.",
)
step_option = click.option(
    "--step",
    metavar="N",
    type=click.IntRange(min=1),
    help="Which model call, from 1; the last by default.",
)
format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="For people or for programs.",
)
plot_option = click.option(
    "--plot", metavar="FILE", help="Also draw tokens over steps: FILE.html or FILE.png (needs matplotlib)."
)


@click.group("context")
def command() -> None:
    """Show what the model saw, explain it, and test other policies on it."""


@command.command("show")
@session_option
@step_option
@config_option
@env_option
@set_option
@format_option
@plot_option
@click.pass_obj
def show(
    process: Process,
    session: str | None,
    step: int | None,
    config: str | None,
    env: str | None,
    sets: tuple[str, ...],
    form: str,
    plot: str | None,
) -> None:
    """Show what a step sent: tokens by section and source, what each policy did, cache and cost."""
    from zeus_runtime.cli.context_tables import composition_text
    from zeus_runtime.cli.plots import check_plot, write_plot
    from zeus_runtime.context.inspection import composition

    target = None if plot is None else check_plot(plot)
    checked, trace = _read(process, session, config, env, sets)
    found = composition(trace, step)
    if target is not None:
        write_plot(target, [session_curve(trace)], title=f"{trace.session}: context")
    _tell(
        checked,
        form,
        {"session": trace.session, **asdict(found), "problems": list(trace.problems)},
        lambda: composition_text(trace.session, found),
    )


@command.command("diff")
@click.argument("first", metavar="A", type=click.IntRange(min=1))
@click.argument("second", metavar="B", type=click.IntRange(min=1))
@session_option
@config_option
@env_option
@set_option
@format_option
@click.pass_obj
def diff(
    process: Process,
    first: int,
    second: int,
    session: str | None,
    config: str | None,
    env: str | None,
    sets: tuple[str, ...],
    form: str,
) -> None:
    """Compare the steps A and B: what entered, what left, and by which edit."""
    from zeus_runtime.cli.context_tables import difference_text
    from zeus_runtime.context.inspection import difference

    checked, trace = _read(process, session, config, env, sets)
    found = difference(trace, first, second)
    _tell(
        checked,
        form,
        {"session": trace.session, **asdict(found)},
        lambda: difference_text(trace.session, found),
    )


@command.command("explain")
@click.argument("item")
@session_option
@step_option
@config_option
@env_option
@set_option
@format_option
@click.pass_obj
def explain(
    process: Process,
    item: str,
    session: str | None,
    step: int | None,
    config: str | None,
    env: str | None,
    sets: tuple[str, ...],
    form: str,
) -> None:
    """Say where ITEM came from, its tokens, and what happened to it.

    ITEM is the number of a message in the session, the name of a section or of a tool, or `summary`.
    """
    from zeus_runtime.cli.context_tables import explanation_text
    from zeus_runtime.context.inspection import explanation

    checked, trace = _read(process, session, config, env, sets)
    found = explanation(trace, item, step)
    at = trace.step(step)
    _tell(
        checked,
        form,
        {"session": trace.session, "step": at.number, **asdict(found)},
        lambda: explanation_text(trace.session, at, found),
    )


@command.command("why-missing")
@click.argument("text")
@session_option
@step_option
@config_option
@env_option
@set_option
@format_option
@click.pass_obj
def missing(
    process: Process,
    text: str,
    session: str | None,
    step: int | None,
    config: str | None,
    env: str | None,
    sets: tuple[str, ...],
    form: str,
) -> None:
    """Find TEXT in the session and say which edit removed it, at which step, and where it can still be read."""
    from zeus_runtime.cli.context_tables import findings_text
    from zeus_runtime.context.inspection import why_missing
    from zeus_runtime.errors import UsageError

    if not text.strip():
        raise UsageError("there is no text to look for")
    checked, trace = _read(process, session, config, env, sets)
    found = why_missing(trace, text, step)
    at = trace.step(step)
    _tell(
        checked,
        form,
        {
            "session": trace.session,
            "step": at.number,
            "text": text,
            "found": [asdict(each) for each in found],
        },
        lambda: findings_text(trace.session, at, text, found),
    )


@command.command("backtest")
@click.argument("sessions", nargs=-1, metavar="[SESSION...]", shell_complete=complete_session)
@click.option(
    "--policy",
    "policies",
    metavar="CONFIG",
    multiple=True,
    required=True,
    shell_complete=complete_config,
    help="A candidate: a whole config, file or preset; may be repeated.",
)
@click.option(
    "--trajectories",
    metavar="FILE",
    help='Also play these: JSONL, one {"messages": [...]} in chat-completions form a line.',
)
@click.option(
    "--chain",
    metavar="N",
    type=click.IntRange(min=2),
    help="Play the trajectories one after the other in one thread, again and again, up to N messages.",
)
@click.option(
    "--needle", "needles", metavar="TEXT", multiple=True, help="A text the last request should still show."
)
@click.option(
    "--summary-tokens",
    metavar="N",
    type=click.IntRange(min=1),
    default=600,
    show_default=True,
    help="How long the stand-in's summaries are.",
)
@config_option
@env_option
@set_option
@format_option
@plot_option
@click.pass_obj
def backtest(
    process: Process,
    sessions: tuple[str, ...],
    policies: tuple[str, ...],
    trajectories: str | None,
    chain: int | None,
    needles: tuple[str, ...],
    summary_tokens: int,
    config: str | None,
    env: str | None,
    sets: tuple[str, ...],
    form: str,
    plot: str | None,
) -> None:
    """Play recorded sessions again under other configs, without a key: tokens, cache, money, overflows, needles.

    The recorded answers are the model, so what differs is the context alone. --env and --set apply to --config.
    """
    from zeus_runtime.cli.context_tables import outcomes_text
    from zeus_runtime.cli.plots import check_plot, write_plot
    from zeus_runtime.errors import UsageError

    if not sessions and trajectories is None:
        raise UsageError("there is nothing to play", remedy="Name sessions, or give --trajectories FILE.")
    if chain is not None and trajectories is None:
        raise UsageError("--chain is about trajectories", remedy="Give --trajectories FILE too.")
    target = None if plot is None else check_plot(plot)
    recordings: list[Recording] = []
    checked = None
    if sessions:
        from zeus_runtime.cli.context_store import read_recordings

        checked, _ = read_owner(process, config, env=env, sets=sets)
        recordings += read_recordings(process, checked, sessions)
    if trajectories is not None:
        recordings += _trajectories(process, trajectories, chain)
    played = _played(
        process, [each for each in recordings if each.messages], policies, needles, summary_tokens
    )
    found = [each.outcome for each in played]
    if target is not None:
        write_plot(target, [replay_curve(each) for each in played], title="zeus context backtest")
    _tell(checked, form, {"outcomes": [asdict(each) for each in found]}, lambda: outcomes_text(found))


def session_curve(trace: Trace) -> Curve:
    """A session's tokens over its steps, stacked by source."""
    from zeus_runtime.cli.plots import Curve

    steps = [step for step in trace.steps if step.cause != "compact"]
    sources = list(dict.fromkeys(source for step in steps for source in step.by_source))
    stacks: dict[str, list[int]] = {"prompt and tools": [step.fixed_tokens for step in steps]}
    stacks.update({source: [step.by_source.get(source, 0) for step in steps] for source in sources})
    marks = {
        step.number: ", ".join(
            dict.fromkeys(f"{each.policy} {each.kind}" for each in step.decisions if each.admitted)
        )
        for step in trace.steps
        if any(each.admitted and each.kind != "pin" for each in step.decisions)
    }
    limit = steps[-1].input_limit_tokens if steps else 0
    return Curve(trace.session, [step.number for step in steps], stacks, marks, limit)


def replay_curve(played: Replayed) -> Curve:
    """One played session's tokens over its steps."""
    from zeus_runtime.cli.plots import Curve

    turns = [call for call in played.calls if call.purpose == "turn" and not call.overflow]
    sources = list(dict.fromkeys(source for call in turns for source in call.sources or ()))
    stacks = {source: [(call.sources or {}).get(source, 0) for call in turns] for source in sources}
    marks = {
        step.number: ", ".join(
            dict.fromkeys(f"{each.policy} {each.kind}" for each in step.decisions if each.admitted)
        )
        for step in played.steps
        if any(each.admitted and each.kind in ("summarize", "drop_before") for each in step.decisions)
    }
    limit = played.steps[-1].input_limit_tokens if played.steps else 0
    title = f"{played.outcome.session} · {played.outcome.policy}"
    return Curve(title, range(1, len(turns) + 1), stacks, marks, limit)


def _trajectories(process: Process, path: str, chain: int | None) -> Sequence[Recording]:
    from zeus_runtime.context.recordings import chained, read_trajectories
    from zeus_runtime.errors import UsageError

    file = process.directory / path
    try:
        found = read_trajectories(file.read_text("utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the trajectories cannot be read: {error}") from None
    filled = [each for each in found if each.messages]
    if not filled:
        raise UsageError(f"{path} holds no conversation")
    return filled if chain is None else [chained(f"{file.stem} × {chain}", filled, chain)]


def _played(
    process: Process,
    recordings: Sequence[Recording],
    policies: Sequence[str],
    needles: Sequence[str],
    summary_tokens: int,
) -> list[Replayed]:
    import asyncio
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from zeus_runtime.agent.backtest import replay
    from zeus_runtime.agent.plan import make_plan
    from zeus_runtime.cli.start import prepared

    plans = [(policy, make_plan(read_config(process, policy))) for policy in policies]
    played = []
    with prepared(process):
        for recording in recordings:
            for policy, plan in plans:
                with TemporaryDirectory(prefix="zeus-backtest-") as folder:
                    work = replay(
                        plan,
                        recording,
                        Path(folder),
                        policy=policy,
                        needles=needles,
                        summary_tokens=summary_tokens,
                    )
                    played.append(asyncio.run(work))
    return played


def _read(
    process: Process, session: str | None, config: str | None, env: str | None, sets: Sequence[str]
) -> tuple[Checked, Trace]:
    from zeus_runtime.cli.context_store import read_trace

    checked, own = read_owner(process, config, env=env, sets=sets)
    trace = read_trace(process, checked, session, agent=checked.config.name if own else None)
    for problem in trace.problems:
        complain(f"warning: {problem}", "yellow")
    return checked, trace


def _tell(checked: Checked | None, form: str, value: dict[str, Any], text: Callable[[], str]) -> None:
    redact = None if checked is None else checked.document.redactor
    if form == "json":
        answer(as_json(value if redact is None else redact.json(_jsonable(value))))
        return
    shown = text() if redact is None else redact(text())
    answer(printable(shown) if is_terminal(sys.stdout) else shown)


def _jsonable(value: Any) -> Any:
    import json

    return json.loads(as_json(value, indent=None))
