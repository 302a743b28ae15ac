"""What a search for cheaper context policies found: as a table, as JSON, and as an overlay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.cli.output import as_json
from zeus_runtime.command_lines import command_for

if TYPE_CHECKING:
    from pathlib import Path

    from zeus_runtime.agent.tuning import OptionChange, TrialFigures
    from zeus_runtime.cli.options import ConfigArgs
    from zeus_runtime.cli.process import Process
    from zeus_runtime.plan.validated import Checked

MARK: Final = "# Written by `zeus context tune`"


@dataclass(frozen=True)
class TuningReport:
    """What a search found.

    Args:
        present, tuned: figures on the pieces that were tuned on.
        held_present, held_tuned: figures on the held-out pieces; None if nothing was cheaper.
        changes: the options that differ.
        lines: the value of ``middlewares``.
        trials: how many candidates were replayed now.
        known: how many were known from an earlier search.
        refusal: why the held-out check failed; empty if it did not.
        pieces: what was tuned on, and what was held out.
        is_ended: whether the search ended by itself, and not by time, trials or Ctrl-C.
        output: the overlay that was written.
    """

    present: TrialFigures
    tuned: TrialFigures
    held_present: TrialFigures | None
    held_tuned: TrialFigures | None
    changes: Sequence[OptionChange]
    lines: Sequence[Any]
    trials: int
    known: int
    refusal: str
    pieces: tuple[Sequence[str], Sequence[str]]
    is_ended: bool
    output: str | None = None

    def as_json(self) -> dict[str, Any]:
        from zeus_runtime.agent.tuning import figures_json

        def shown(figures: TrialFigures | None) -> dict[str, Any] | None:
            return None if figures is None else figures_json(figures)

        return {
            "tuned_on": list(self.pieces[0]),
            "held_out": list(self.pieces[1]),
            "present": {"tuned_on": shown(self.present), "held_out": shown(self.held_present)},
            "tuned": {"tuned_on": shown(self.tuned), "held_out": shown(self.held_tuned)},
            "changes": [vars(each) for each in self.changes],
            "middlewares": list(self.lines),
            "trials": self.trials,
            "known_trials": self.known,
            "is_ended": self.is_ended,
            "refusal": self.refusal or None,
            "output": self.output,
        }

    def text(self, process: Process, target: Path) -> Any:
        from zeus_runtime.cli.output import TextTable

        rows = [
            _row("present, tuned on", self.present, self.present),
            _row("tuned, tuned on", self.tuned, self.present),
        ]
        if self.held_present is not None and self.held_tuned is not None:
            rows += [
                _row("present, held out", self.held_present, self.held_present),
                _row("tuned, held out", self.held_tuned, self.held_present),
            ]
        header = (
            "CONFIG",
            "PRICE",
            "RATIO",
            "STEPS",
            "SENT",
            "CACHE READ",
            "SUMMARIES",
            "OVERFLOWS",
            "SHOWN",
        )
        parts: list[Any] = [TextTable(rows, header), ""]
        if self.changes:
            changed = [
                (
                    each.option,
                    value_text(each.before),
                    value_text(each.after),
                    price_text(each.saves, self.present),
                )
                for each in self.changes
            ]
            parts += [TextTable(changed, ("OPTION", "NOW", "TUNED", "SAVES")), ""]
        known = f", {self.known} known from an earlier search" if self.known else ""
        ended = "no further step helps" if self.is_ended else "the search was ended; run it again to continue"
        parts.append(f"{self.trials} trials{known}; {ended}.")
        if not self.changes:
            parts.append("No candidate was cheaper, so nothing is written.")
        elif self.refusal:
            parts.append(f"On the held-out part: {self.refusal}. Nothing is written.")
        else:
            parts.append(f"Written: {_shown(process, target)}. Use it: {_how(process, target)}")
        return parts


def _row(name: str, figures: TrialFigures, base: TrialFigures) -> tuple[str, ...]:
    ratio = f"{figures.price / base.price:.2f}" if base.price else "–"
    needles = f"{figures.needles_kept}/{figures.needles_needed}" if figures.needles_needed else "–"
    return (
        name,
        price_text(figures.price, figures),
        ratio,
        f"{figures.steps:,}",
        f"{figures.sent_tokens:,}",
        f"{figures.read_tokens:,}",
        str(figures.summaries),
        str(figures.overflows),
        needles,
    )


def price_text(price: float, figures: TrialFigures) -> str:
    return f"{price:,.0f} tokens" if figures.cost_usd is None else f"${price:.4f}"


def value_text(value: Any) -> str:
    return as_json(value, indent=None)


def _shown(process: Process, target: Path) -> str:
    inside = target.resolve().is_relative_to(process.directory.resolve())
    return str(target.resolve().relative_to(process.directory.resolve())) if inside else str(target)


def _how(process: Process, target: Path) -> str:
    stem, env = target.stem.partition(".")[::2]
    base = target.with_name(f"{stem}{target.suffix}")
    if env and base.exists():
        is_default = base.name == "zeus.yaml" and base.parent == process.directory
        named = None if is_default else _shown(process, base)
        return command_for(named, ["--env", env], "run", is_argument=True)
    return command_for(_shown(process, target), [], "run", is_argument=True)


def write_overlay(
    process: Process, target: Path, report: TuningReport, checked: Checked, which: ConfigArgs
) -> None:
    """Write the overlay; one that was measured over another overlay extends it."""
    from datetime import UTC, datetime

    import yaml

    from zeus_runtime import __version__
    from zeus_runtime.cli.whole_file import write_private
    from zeus_runtime.config.layers.files import overlay_path
    from zeus_runtime.config.layers.loading import shown_setting
    from zeus_runtime.escaping import exact_line

    assert report.held_present is not None
    assert report.held_tuned is not None
    main = checked.document.path
    comments = [
        f"{MARK} {__version__} on {datetime.now(UTC):%Y-%m-%d}, from {sum(map(len, report.pieces))} recordings.",
        f"Tuned on {', '.join(report.pieces[0])}:",
        f"  now {_summed(report.present)}; tuned {_summed(report.tuned)}.",
        f"Held out {', '.join(report.pieces[1])}:",
        f"  now {_summed(report.held_present)}; tuned {_summed(report.held_tuned)}.",
        "Changes, each with what it saves of the tuned sessions' price:",
        *(f"  {_told(each, report)}" for each in report.changes),
        *(
            f"Measured with --set {process.redact(shown_setting(each))}, which is not in this file."
            for each in which.sets
        ),
        "A list replaces a list, so all middlewares are here.",
    ]
    # A session's name may come from a file, and a line end in it would end the comment.
    head = "\n".join(exact_line(each if each.startswith(MARK) else f"# {each}") for each in comments)
    value: dict[str, Any] = {"version": 1}
    bases = []
    if main is not None and not _is_overlay_of(target, main):
        bases.append(_base(process, target, main))
    if main is not None and which.env is not None:
        bases.append(_base(process, target, overlay_path(main, which.env)))
    if bases:
        value["extends"] = bases if len(bases) > 1 else bases[0]
    value["middlewares"] = list(report.lines)
    write_private(target, f"{head}\n{yaml.safe_dump(value, sort_keys=False, width=100)}", str(target))


def _is_overlay_of(target: Path, main: Path) -> bool:
    return (
        target.parent.resolve() == main.parent.resolve()
        and target.suffix == main.suffix
        and target.stem.startswith(f"{main.stem}.")
    )


def _base(process: Process, target: Path, main: Path) -> str:
    """How a config in ``target`` names the config that it changes: a preset, or a path."""
    import os.path

    inside = main.resolve().is_relative_to(process.directory.resolve())
    if main.parent.name == "configs" and not inside:
        return main.stem
    path = os.path.relpath(main.resolve(), target.parent.resolve())
    return path if path.startswith(".") else f"./{path}"


def _told(change: OptionChange, report: TuningReport) -> str:
    now, then = value_text(change.before), value_text(change.after)
    return f"{change.option}: {now} → {then}, saves {price_text(change.saves, report.present)}"


def _summed(figures: TrialFigures) -> str:
    needles = (
        f", {figures.needles_kept} of {figures.needles_needed} needed values shown"
        if figures.needles_needed
        else ""
    )
    return f"{price_text(figures.price, figures)}, {figures.summaries} summaries{needles}"
