"""``python -m zeus_runtime.testing.evals CONFIG``: evaluate a config offline.

Exit codes: 0 everything that could be asked passed · 2 the command line does not fit · 3 the config is invalid ·
4 a plugin, dependency or file is missing · 5 something failed, or nothing could be asked · 130 interrupted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from zeus_runtime.errors import ZeusError
from zeus_runtime.testing.evals.evaluation import EVALUATIONS, evaluate


def main(words: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    given = _parser().parse_args(words)
    try:
        if given.write_stressed is not None:
            return _write_stressed(given)
        report = asyncio.run(
            evaluate(
                given.config,
                env=given.env,
                sets=tuple(given.set),
                evaluations=given.only or EVALUATIONS,
                window_tokens=given.window,
                share=given.share,
                seed=given.seed,
            )
        )
    except ZeusError as error:
        remedy = f"\n{error.remedy}" if error.remedy and error.remedy not in str(error) else ""
        sys.stderr.write(f"{error}{remedy}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    text = (
        json.dumps(report.to_json(), ensure_ascii=False, indent=2) if given.format == "json" else str(report)
    )
    sys.stdout.write(f"{text}\n")
    return 0 if report.passed else 5


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m zeus_runtime.testing.evals",
        description="Evaluate a config offline: does its agent keep its goal, and get back what left its window?",
        epilog="Exit codes: 0 passed, 2 usage, 3 config invalid, 4 something missing, 5 failed, 130 interrupted.",
    )
    parser.add_argument("config", help="a YAML file or a preset's name")
    parser.add_argument("--env", help="the overlay's name")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an override")
    parser.add_argument(
        "--only", action="append", choices=EVALUATIONS, help="this evaluation; may be repeated"
    )
    parser.add_argument(
        "--window", type=int, metavar="TOKENS", help="an input limit instead of the model's own"
    )
    parser.add_argument(
        "--share", type=float, default=0.15, help="where stress puts the triggers: 0.10 to 0.25"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the texts")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument(
        "--write-stressed",
        metavar="FILE",
        type=Path,
        help="write the stressed middlewares as an overlay and stop",
    )
    return parser


def _write_stressed(given: argparse.Namespace) -> int:
    from zeus_runtime.plan.plan import make_plan
    from zeus_runtime.plan.validated import check
    from zeus_runtime.process_path import given_environ
    from zeus_runtime.testing.evals.stress import stressed, yaml_of

    checked = check(
        given.config, env=given.env, sets=given.set, directory=Path.cwd(), environ=given_environ()
    )
    checked.middlewares_for_overlay()
    given.write_stressed.write_text(
        yaml_of(stressed(make_plan(checked), given.share).middlewares), encoding="utf-8"
    )
    return 0


if __name__ == "__main__":
    if not sys.flags.safe_path:
        # The working directory: modules in a project are not installed plugins.
        del sys.path[0]
    from zeus_runtime.process_path import narrow_process

    narrow_process()
    sys.exit(main())
