"""Loop overhead beside peers: CPU per step, its growth, and the database after the turn.

``python -m benchmarks.loop [--steps 500] [--runs 3] [--runtimes bare,zeus,…]``
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click


def measure(runtime: str, steps: int, folder: Path) -> dict[str, Any]:
    """One run of one runtime in a new process, with the CPU of the whole process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.peers", runtime, str(steps), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise click.ClickException(f"{runtime} failed:\n{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**json.loads(done.stdout.splitlines()[-1]), "process_seconds": seconds}


@click.command()
@click.option("--steps", default=500, show_default=True, help="Model calls, each with one tool call.")
@click.option("--runs", default=3, show_default=True, help="Runs of each runtime; the median is printed.")
@click.option("--runtimes", default="bare,zeus,policies,create_agent,deepagents", show_default=True)
def main(steps: int, runs: int, runtimes: str) -> None:
    """Run the peers in turn, A B C A B C, and print medians and ratios to Zeus with its policies."""
    names = runtimes.split(",")
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as scratch:
        for run in range(runs):
            for name in names:
                results[name].append(measure(name, steps, Path(scratch) / f"{name}-{run}"))

    def median(name: str, key: str) -> float:
        return statistics.median(result[key] for result in results[name])

    base = next((name for name in ("policies", "zeus") if name in names), names[0])
    print(
        f"{steps} steps, {runs} runs, medians of CPU time; ratios to {base}; process: with start-up and imports\n"
    )
    print(
        f"{'runtime':<14}{'ms/step':>9}{'ratio':>8}{'process s':>11}{'ratio':>8}"
        f"{'last/first tenth':>18}{'database MB':>13}{'db/conversation':>17}"
    )
    for name in names:
        per_step = median(name, "ms_per_step")
        growth = median(name, "last_tenth_ms") / median(name, "first_tenth_ms")
        size = median(name, "database_bytes")
        print(
            f"{name:<14}{per_step:>9.2f}{per_step / median(base, 'ms_per_step'):>8.2f}"
            f"{median(name, 'process_seconds'):>11.2f}"
            f"{median(name, 'process_seconds') / median(base, 'process_seconds'):>8.2f}{growth:>18.2f}"
            f"{size / 1e6:>13.2f}{size / median(name, 'conversation_bytes'):>17.2f}"
        )


if __name__ == "__main__":
    main()
