"""``zeus sessions trace``: where a session's time went, as a waterfall."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from zeus_runtime.cli.options import ConfigArgs, json_option
from zeus_runtime.cli.output import TextTable, local_time, padded, tell
from zeus_runtime.cli.sessions.options import config_option, session_argument
from zeus_runtime.cli.sessions.reading import from_session
from zeus_runtime.escaping import exact_line
from zeus_runtime.tools.question import tool_label

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.sessions.trace import Span

_BAR: Final = 24
"""Columns of a run's whole time."""


@click.command("trace")
@session_argument
@config_option
@json_option
@click.pass_obj
def trace_session(process: Process, session: str | None, which: ConfigArgs, as_object: bool) -> None:
    """Draw where a session's time went: each run with its model calls, tool calls, approvals and sub-agents.

    The last used session by default.
    """
    from zeus_runtime.sessions.trace import trace_of

    runs = from_session(process, session, which, trace_of)
    tell(
        process,
        runs,
        lambda: [part for run in runs for part in _waterfall(run)],
        as_object=as_object,
    )


def _waterfall(run: Span) -> Sequence[str | TextTable]:
    """A run of the user: a line about it, and a row for each of its parts, in order."""
    length = _end(run) - run.start_ms
    about = [
        run.session,
        run.run,
        run.state,
        _seconds(length),
        local_time(run.start_ms),
        *_figures(run.details),
    ]
    rows = [_row(span, depth, run.start_ms, length) for span, depth in _inside(run.spans, 0)]
    table = TextTable(rows, ("PART", "AFTER", "TOOK", "", "ENDED", "FIGURES"), indent="  ")
    return [" · ".join(about), *([table] if rows else []), ""]


def _inside(spans: Sequence[Span], depth: int) -> Iterator[tuple[Span, int]]:
    for span in spans:
        yield span, depth
        yield from _inside(span.spans, depth + 1)


def _row(span: Span, depth: int, start_ms: int, length_ms: int) -> Sequence[str]:
    end = _end(span)
    return (
        "  " * depth + _name(span),
        _seconds(span.start_ms - start_ms),
        _seconds(end - span.start_ms),
        _bar(span.start_ms - start_ms, end - start_ms, length_ms),
        span.state or "not ended",
        " · ".join(_figures(span.details)),
    )


def _name(span: Span) -> str:
    match span.kind:
        case "model_call":
            return f"model {exact_line(span.name)}"
        case "compaction":
            return "compaction"
        case "tool_call":
            return tool_label(span.name)
        case "approval":
            waits = {"question": "waits for an answer", "file": "waits for approval of a file"}
            return waits.get(span.details["kind"], "waits for approval")
        case _:
            return f"agent {exact_line(span.name)}"


def _end(span: Span) -> int:
    """When it ended, as far as is known: for one that has not, the end of its last part."""
    if span.end_ms is not None:
        return max(span.end_ms, span.start_ms)
    return max([span.start_ms, *map(_end, span.spans)])


def _bar(start_ms: int, end_ms: int, length_ms: int) -> str:
    """The time in the run's, at least one column wide."""
    scale = _BAR / max(length_ms, 1)
    first = min(_BAR - 1, max(0, int(start_ms * scale)))
    return padded("", first) + "█" * max(1, min(_BAR, round(end_ms * scale)) - first)


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:,.2f} s"


def _figures(details: Mapping[str, Any]) -> Iterator[str]:
    if "prompt_tokens" in details:
        cached = f" ({details['cached_tokens']:,} cached)" if details["cached_tokens"] else ""
        yield f"{details['prompt_tokens']:,} in{cached}, {details['completion_tokens']:,} out"
    if details.get("removed_tokens"):
        yield f"{details['removed_tokens']:,} tokens removed before"
    if "cost_usd" in details:
        yield f"${details['cost_usd']:.4f}"
