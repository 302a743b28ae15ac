"""``zeus context tune``: cheaper context policies for recorded sessions, as an overlay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from zeus_runtime.cli.completion import complete_session
from zeus_runtime.cli.context.options import config_option
from zeus_runtime.cli.options import ConfigArgs, format_option, read_owner
from zeus_runtime.cli.output import tell

if TYPE_CHECKING:
    from pathlib import Path

    from zeus_runtime.cli.process import Process
    from zeus_runtime.context.replay.recordings import Recording
    from zeus_runtime.plan.validated import Checked


@click.command("tune")
@click.argument("sessions", nargs=-1, metavar="[SESSION...]", shell_complete=complete_session)
@click.option(
    "--trajectories",
    metavar="FILE",
    help='Also tune on these: JSONL, one {"messages": [...]} in chat-completions form a line.',
)
@click.option(
    "--chain",
    metavar="N",
    type=click.IntRange(min=2),
    help="Play the trajectories one after the other in one thread, again and again, up to N messages.",
)
@click.option(
    "--keep",
    metavar="SHARE",
    type=click.FloatRange(min=0, max=1),
    default=0.99,
    show_default=True,
    help="At least this share of the values that recorded calls needed, and that their requests show now, stays shown.",
)
@click.option(
    "--summaries",
    metavar="TIMES",
    type=click.FloatRange(min=0),
    default=1.5,
    show_default=True,
    help="Policies may call the model at most so many times as often as now; each call is a wait.",
)
@click.option(
    "--minutes",
    metavar="N",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    help="Search no longer.",
)
@click.option("--trials", metavar="N", type=click.IntRange(min=1), help="Replay at most N candidates.")
@click.option(
    "--summary-tokens",
    metavar="N",
    type=click.IntRange(min=1),
    default=600,
    show_default=True,
    help="How long the stand-in's summaries are.",
)
@click.option(
    "--workers",
    metavar="N",
    type=click.IntRange(min=1),
    help="Replay in so many processes at the same time, which changes no result; one for each processor by default.",
)
@click.option(
    "--output",
    metavar="FILE",
    help="The overlay; CONFIG.tuned.yaml beside the config by default, for `zeus run --env tuned`.",
)
@click.option("--force", is_flag=True, help="Overwrite a file that another program or a person wrote.")
@config_option
@format_option
@click.pass_obj
def tune(
    process: Process,
    sessions: tuple[str, ...],
    trajectories: str | None,
    chain: int | None,
    keep: float,
    summaries: float,
    minutes: float,
    trials: int | None,
    summary_tokens: int,
    workers: int | None,
    output: str | None,
    force: bool,
    which: ConfigArgs,
    as_object: bool,
) -> None:
    """Search cheaper options of the context policies on recorded sessions, and write them as an overlay.

    Sessions are replayed without a key, as `zeus context backtest` does. A candidate counts only if nothing overflows,
    the values that calls needed stay shown (--keep), and policies call the model not much more often (--summaries).
    The overlay is written only if it is also cheaper on sessions, or on the part of a session, that were not tuned on.
    Finished trials are kept in .zeus/tune.jsonl, so that the same command continues where it was interrupted. Ctrl-C
    ends the search and checks the best candidate so far.

    Exit code 1: no candidate was cheaper, or the best one was not on the held-out part; nothing is written.
    """
    from zeus_runtime.agent.tuning import Bounds
    from zeus_runtime.cli.context.tune_report import write_overlay
    from zeus_runtime.cli.context.tune_search import TrialBudget, TuningSearch
    from zeus_runtime.errors import UsageError
    from zeus_runtime.tools.worker_process import processors

    if not sessions and trajectories is None:
        raise UsageError("there is nothing to tune on", remedy="Name sessions, or give --trajectories FILE.")
    if chain is not None and trajectories is None:
        raise UsageError("--chain is about trajectories", remedy="Give --trajectories FILE too.")
    checked, _ = read_owner(process, which)
    target = _target(process, checked, output, force=force)
    recordings = _recordings(process, checked, sessions, trajectories, chain)
    budget = TrialBudget(minutes * 60, trials)
    search = TuningSearch(
        process,
        which,
        checked,
        recordings,
        Bounds(keep, summaries),
        budget,
        summary_tokens,
        workers or processors(),
    )
    report = search.run()
    if report.changes and not report.refusal:
        write_overlay(process, target, report, checked, which)
    told = replace(report, output=str(target) if report.changes and not report.refusal else None)
    tell(process, told.as_json(), lambda: told.text(process, target), as_object=as_object)
    if told.output is None:
        raise click.exceptions.Exit(1)


def _recordings(
    process: Process, checked: Checked, sessions: Sequence[str], trajectories: str | None, chain: int | None
) -> list[Recording]:
    from zeus_runtime.cli.context.backtest import read_trajectories_file
    from zeus_runtime.cli.context.store import read_recordings
    from zeus_runtime.errors import UsageError

    found: list[Recording] = []
    if sessions:
        found += read_recordings(process, checked, list(dict.fromkeys(sessions)))
    if trajectories is not None:
        found += read_trajectories_file(process, trajectories, chain)
    answers = [sum(message.type == "ai" for message in each.messages) for each in found]
    kept = [each for each, count in zip(found, answers, strict=True) if count]
    if not kept or (len(kept) == 1 and max(answers) < _LEAST_STEPS):
        raise UsageError(
            f"the sessions have too few steps to tune on: {max(answers, default=0)}",
            remedy=f"Name more sessions, or one with at least {_LEAST_STEPS} steps.",
        )
    return kept


_LEAST_STEPS: Final = 6


def _target(process: Process, checked: Checked, output: str | None, *, force: bool) -> Path:
    """Where the overlay goes.

    Raises:
        UsageError: a file is there that this command did not write, or a link that leads elsewhere.
    """
    from zeus_runtime.cli.context.tune_report import MARK
    from zeus_runtime.cli.whole_file import unnamed_place
    from zeus_runtime.config.layers.files import overlay_path
    from zeus_runtime.errors import UsageError

    main = checked.document.path
    is_own = main is not None and main.resolve().is_relative_to(process.directory.resolve())
    if output is not None:
        target = process.directory / output
    elif main is not None and is_own:
        target = overlay_path(main, "tuned")
    else:
        target = process.directory / "zeus.tuned.yaml"
    if output is None:
        unnamed_place(target, process.directory)
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent}", remedy="Create it, or name another --output.")
    if target.exists() and not force and not target.read_text("utf-8", "replace").startswith(MARK):
        raise UsageError(
            f"{target} is there and was not written by this command",
            remedy="Name another file with --output, or overwrite it with --force.",
        )
    return target
