"""``zeus context backtest``: what other policies would have cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from zeus_runtime.cli.completion import complete_config, complete_session
from zeus_runtime.cli.context.options import config_option, plot_option
from zeus_runtime.cli.options import ConfigArgs, format_option, read_config, read_owner
from zeus_runtime.cli.output import complain_masked, tell

if TYPE_CHECKING:
    from zeus_runtime.agent.backtest import Replayed
    from zeus_runtime.cli.process import Process
    from zeus_runtime.context.replay.recordings import Recording
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.tools import Tool, Toolset


@click.command("backtest")
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
@click.option(
    "--tools",
    "listing",
    metavar="FILE",
    help="What the candidates' servers offer, written by `zeus tools list --connect --json`; without it, what the"
    " recorded session was given of them.",
)
@config_option
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
    listing: str | None,
    which: ConfigArgs,
    as_object: bool,
    plot: str | None,
) -> None:
    """Play recorded sessions again under other configs, without a key: tokens, cache, money, overflows, needles.

    The recorded answers are the model, so what differs is the context alone. No server is started: the tools that
    servers would offer count as listed (--tools, or as recorded), and where nothing lists them that is said.
    --env and --set apply to --config.
    """
    from zeus_runtime.cli.context.plots import check_plot, write_plot
    from zeus_runtime.cli.context.tables import outcomes_table
    from zeus_runtime.errors import UsageError

    if not sessions and trajectories is None:
        raise UsageError("there is nothing to play", remedy="Name sessions, or give --trajectories FILE.")
    if chain is not None and trajectories is None:
        raise UsageError("--chain is about trajectories", remedy="Give --trajectories FILE too.")
    target = None if plot is None else check_plot(plot)
    recordings: list[Recording] = []
    if sessions:
        from zeus_runtime.cli.context.store import read_recordings

        checked, _ = read_owner(process, which)
        recordings += read_recordings(process, checked, sessions)
    if trajectories is not None:
        recordings += read_trajectories_file(process, trajectories, chain)
    given = None if listing is None else (listing, _listing(process, listing))
    played, listings = _played(
        process, [each for each in recordings if each.messages], policies, needles, summary_tokens, given
    )
    found = [each.outcome for each in played]
    for each in listings:
        complain_masked(process, each.told, "plain" if each.tools else "yellow")
    if target is not None:
        write_plot(
            target,
            [_overview(each) for each in played],
            title="zeus context backtest",
            redactor=process.secrets,
        )
    value = {"outcomes": found, "listings": listings}
    tell(process, value, lambda: outcomes_table(found), as_object=as_object)


def _overview(played: Replayed) -> Mapping[str, Any]:
    from zeus_runtime.context.inspection import overview_of

    found = played.outcome
    problems = [found.failure] if found.failure else []
    return overview_of(f"{found.session} · {found.policy}", played.steps, problems=problems)


@dataclass(frozen=True)
class Listing:
    """Where the tools that a candidate's servers would offer come from.

    Args:
        session: what was played.
        policy: the candidate.
        source: a file, ``the recorded session``, or empty where nothing lists them.
        tools: how many there are.
        tokens: what they take in each request.
    """

    session: str
    policy: str
    source: str
    tools: int
    tokens: int

    @property
    def told(self) -> str:
        what = f"{self.policy} ({self.session}): its servers' tools"
        if not self.tools:
            return f"note: {what} are not counted, nothing lists them; --tools FILE gives a listing"
        return f"{what}: {self.tools}, {self.tokens:,} tokens in each request, from {self.source}"


def _listing(process: Process, path: str) -> Sequence[Tool]:
    import json

    from zeus_runtime.errors import UsageError
    from zeus_runtime.plan.listed_toolsets import tools_of_listing

    try:
        return tools_of_listing(json.loads((process.directory / path).read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} is not a listing of tools: {error}",
            remedy="Write one: zeus tools list --connect --json > tools.json",
        ) from None


def _listed(
    plan: Plan, policy: str, recording: Recording, given: tuple[str, Sequence[Tool]] | None
) -> tuple[Mapping[str, Toolset], Listing | None]:
    """What the candidate's toolsets offer, and what to say of it; nothing of a candidate without toolsets."""
    from zeus_runtime.models.interface import ToolSchema
    from zeus_runtime.plan.listed_toolsets import listed_toolsets, recorded_tools

    if not plan.opens:
        return {}, None
    path, tools = given or ("the recorded session", recorded_tools(recording.tools))
    listed = listed_toolsets(plan, tools)
    found = [tool for toolset in listed.values() for tool in toolset.tools()]
    sent = [ToolSchema(each.name, each.description, each.parameters) for each in found if not each.deferred]
    tokens = sum(plan.tool_counts.part(each)[0].tokens for each in sent)
    return listed, Listing(recording.name, policy, path if found else "", len(found), tokens)


def listed_tools(plan: Plan, recording: Recording) -> Mapping[str, Toolset]:
    """The tools that the plan's toolsets offered when the session was recorded."""
    return _listed(plan, "", recording, None)[0]


def read_trajectories_file(process: Process, path: str, chain: int | None) -> Sequence[Recording]:
    """The conversations of a JSONL file, or one long one of them all.

    Raises:
        UsageError: the file cannot be read, or has none.
    """
    from zeus_runtime.context.replay.recordings import chained, read_trajectories
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
    given: tuple[str, Sequence[Tool]] | None,
) -> tuple[list[Replayed], list[Listing]]:
    import asyncio
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from zeus_runtime.agent.backtest import replay
    from zeus_runtime.cli.start import prepared
    from zeus_runtime.plan.plan import make_plan

    plans = [(policy, make_plan(read_config(process, ConfigArgs(policy)))) for policy in policies]
    played: list[Replayed] = []
    listings: list[Listing] = []
    with prepared(process):
        for recording in recordings:
            for policy, plan in plans:
                listed, listing = _listed(plan, policy, recording, given)
                listings += [] if listing is None else [listing]
                with TemporaryDirectory(prefix="zeus-backtest-") as folder:
                    work = replay(
                        plan,
                        recording,
                        Path(folder),
                        policy=policy,
                        needles=needles,
                        summary_tokens=summary_tokens,
                        listed=listed,
                    )
                    played.append(asyncio.run(work))
    return played, listings
