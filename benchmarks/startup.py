"""CPU of the commands that run nothing: ``python -m benchmarks.startup [--runs 15]``.

Modules are compiled before the first run that counts, as an installed package's are, also where
``PYTHONDONTWRITEBYTECODE`` is set: compiling them at every start costs another 0.12 s.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys

import click

COMMANDS = (
    ("--help",),
    ("validate", "quickstart"),
    ("plan", "quickstart"),
    ("validate", "default"),
    ("plan", "default"),
    ("validate", "zeus"),
    ("plan", "zeus"),
)
BUDGET_SECONDS = 0.3


def cpu_seconds(command: list[str]) -> float:
    """User and system time of one run of a command, which must succeed."""
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env=environ)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@click.command()
@click.option("--runs", default=15, show_default=True)
def main(runs: int) -> None:
    """Print the least and the median CPU time of each command, beside an empty Python."""
    print(f"{runs} runs, CPU seconds (budget {BUDGET_SECONDS})\n")
    print(f"{'command':<28}{'least':>8}{'median':>8}")
    rows = [("python -c pass", [sys.executable, "-c", "pass"])]
    rows += [
        ("zeus " + " ".join(words), [sys.executable, "-m", "zeus_runtime", *words]) for words in COMMANDS
    ]
    for name, command in rows:
        cpu_seconds(command)
        times = [cpu_seconds(command) for _ in range(runs)]
        print(f"{name:<28}{min(times):>8.3f}{statistics.median(times):>8.3f}")


if __name__ == "__main__":
    main()
