"""The context engine beside deepagents: overflows, reusable prefix, money, recovery and CPU on long sessions.

``python -m benchmarks.context [--lengths 200,1000,3000,1000+pauses] [--windows 8000,…] [--engines zeus,…] [--quick]``
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import click

from benchmarks.context_peers import ENGINES

SYNTHETIC = ("100 KB results", "Chinese", "base64", "minified code")
WINDOWS = (8_000, 32_000, 64_000, 128_000, 272_000)
GPT = "gpt-5"
CLAUDE_WINDOWS = (32_000, 128_000)
CLAUDE = "anthropic/claude-sonnet-4-5"


def measure(engine: str, session: str, window: int, model: str, file: str | None = None) -> dict[str, Any]:
    """One engine on one session, in a new process."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.context_peers", engine, session, str(window), model]
        + ([file] if file else []),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise click.ClickException(f"{engine} on {session} failed:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def row(engine: str, session: str, window: int, model: str, found: dict[str, Any], base: float | None) -> str:
    """One line of the table."""
    money = "?" if found["cost_usd"] is None else f"${found['cost_usd']:.3f}"
    ratio = "" if not base or found["cost_usd"] is None else f"{found['cost_usd'] / base:.2f}"
    needles = f"{found['needles_kept']}/{found['needles_needed']}"
    kept = f"{found['recoverable']}/{found['removed']}"
    return (
        f"{session:<16}{window // 1000:>5}k {model.rpartition('/')[2][:14]:<15}{engine:<12}{found['steps']:>6}"
        f"{found['overflows']:>10}{found['compactions']:>12}{found['reusable_share']:>10.1%}{money:>10}{ratio:>7}"
        f"{needles:>11}{kept:>12}{found['ms_per_step']:>9.2f}{found['growth']:>8.2f}  {found['failure'][:70]}"
    )


HEADER = (
    f"{'session':<16}{'window':>6} {'prices':<15}{'engine':<12}{'steps':>6}{'overflows':>10}{'compactions':>12}"
    f"{'reusable':>10}{'money':>10}{'ratio':>7}{'needles':>11}{'recovered':>12}{'ms/step':>9}{'growth':>8}"
)


def cases(
    lengths: Sequence[str], windows: Sequence[int], prices: Sequence[str] = ("gpt", "claude")
) -> list[tuple[str, int, str]]:
    """(session, window, model): every session at every window at GPT-5's prices, and at Claude's at two."""
    by_prices = {"gpt": (GPT, windows), "claude": (CLAUDE, CLAUDE_WINDOWS)}
    return [
        (session, window, by_prices[each][0])
        for each in prices
        for session in (*lengths, *SYNTHETIC)
        for window in by_prices[each][1]
    ]


@click.command()
@click.option(
    "--lengths", default="200,1000,3000", show_default=True, help="Messages of the chained sessions."
)
@click.option(
    "--windows", default=",".join(map(str, WINDOWS)), show_default=True, help="Input limits, tokens."
)
@click.option(
    "--engines",
    default=",".join(ENGINES),
    show_default=True,
    help="Also zeus-48k and deepagents-48k, which compact at 48,000 tokens, and zeus-preset.",
)
@click.option(
    "--prices",
    type=click.Choice(["gpt", "claude"]),
    multiple=True,
    default=("gpt", "claude"),
    help="Whose; both by default.",
)
@click.option("--trajectories", metavar="FILE", help="Other trajectories than the shared ones.")
@click.option("--quick", is_flag=True, help="Only 200 and 1,000 messages, at 8k, 32k and 128k.")
def main(
    lengths: str,
    windows: str,
    engines: str,
    prices: tuple[str, ...],
    trajectories: str | None,
    quick: bool,
) -> None:
    """Print every case, engines one below the other, and the ratios of their money to deepagents'."""
    long = ["200", "1000"] if quick else lengths.split(",")
    limits = [8_000, 32_000, 128_000] if quick else [int(each) for each in windows.split(",")]
    names = engines.split(",")
    print(
        "money ratio: to deepagents on the same case; recovered: originals that left the context, byte for byte"
    )
    print("ms/step: CPU between two model calls (zeus: planning and the log; deepagents: its whole loop)\n")
    print(HEADER, flush=True)
    ratios: dict[str, list[float]] = {}
    overflows = dict.fromkeys(names, 0)
    for session, window, model in cases(long, limits, prices):
        found = {engine: measure(engine, session, window, model, trajectories) for engine in names}
        peer = found.get("deepagents", {})
        base = peer.get("cost_usd") if not peer.get("failure") else None
        for engine in names:
            print(row(engine, session, window, model, found[engine], base), flush=True)
            overflows[engine] += found[engine]["overflows"]
        ours = found.get("zeus", {})
        if base and ours.get("cost_usd") and not ours["failure"]:
            ratios.setdefault(model, []).append(ours["cost_usd"] / base)
    print()
    for engine, count in overflows.items():
        print(f"{engine}: {count} overflows")
    for model, values in ratios.items():
        middle = sorted(values)[len(values) // 2]
        print(
            f"{model}: zeus costs {min(values):.2f} to {max(values):.2f} of deepagents, median {middle:.2f}"
        )


if __name__ == "__main__":
    main()
