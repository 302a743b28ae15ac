"""Pictures of contexts: tokens over steps, stacked by source, compactions marked; as PNG, or as SVG in an HTML page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.errors import MissingError, UsageError
from zeus_runtime.escaping import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from zeus_runtime.context.inspection import Curve

FORMATS: Final = (".html", ".png")


def check_plot(path: str) -> Path:
    """Where a plot goes, before anything is computed.

    Raises:
        UsageError: the ending says no format.
        MissingError: matplotlib is not installed.
    """
    from importlib.util import find_spec

    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise UsageError(f"a plot is {' or '.join(FORMATS)}, not {path!r}")
    if find_spec("matplotlib") is None:
        raise MissingError(
            "plots need matplotlib, which is not installed", remedy="pip install 'zeus-runtime[plot]'"
        )
    return target


def write_plot(path: Path, curves: Sequence[Curve], *, title: str, mask: Callable[[str], str]) -> None:
    """Draw ``curves`` one below the other; characters that show nothing are drawn as escapes.

    Args:
        mask: masks secrets in every text.

    Raises:
        UsageError: the file cannot be written.
    """

    def shown(text: str) -> str:
        return printable(mask(text))

    figure = _figure(curves, shown)
    try:
        if path.suffix.lower() == ".png":
            figure.savefig(path, format="png", dpi=120)
        else:
            path.write_text(_page(figure, shown(title)), "utf-8")
    except OSError as error:
        raise UsageError(f"the plot cannot be written: {error}") from None


def _figure(curves: Sequence[Curve], shown: Callable[[str], str]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 0.8 + 4.2 * len(curves)), layout="constrained")
    axes: Any = figure.subplots(len(curves), 1, squeeze=False)
    for axis, curve in zip(axes[:, 0], curves, strict=True):
        _draw(axis, curve, lambda text: _plain(shown(text)))
    return figure


def _draw(axis: Any, curve: Curve, plain: Callable[[str], str]) -> None:
    if len(curve.stacks) == 1:
        ((name, values),) = curve.stacks.items()
        axis.step(curve.steps, values, where="post", label=plain(name))
    else:
        names = [plain(name) for name in curve.stacks]
        axis.stackplot(curve.steps, *curve.stacks.values(), labels=names, step="post")
    for step, what in curve.marks.items():
        axis.axvline(step, color="black", linewidth=0.8, linestyle=":")
        axis.annotate(
            plain(what),
            (step, 1.0),
            xycoords=("data", "axes fraction"),
            rotation=90,
            fontsize=6,
            va="top",
            ha="right",
        )
    if curve.limit_tokens:
        axis.axhline(curve.limit_tokens, color="red", linewidth=0.8, label="input limit")
    axis.set_title(plain(curve.title), fontsize=10)
    axis.set_xlabel("step")
    axis.set_ylabel("tokens")
    axis.legend(loc="upper left", fontsize=7)
    axis.margins(x=0.01)


def _plain(text: str) -> str:
    """``text`` without what matplotlib reads as mathematics; a leading underscore would hide a label."""
    return text.replace("$", r"\$").lstrip("_")


def _page(figure: Figure, title: str) -> str:
    from io import StringIO

    drawn = StringIO()
    figure.savefig(drawn, format="svg")
    svg = drawn.getvalue()
    svg = svg[svg.index("<svg") :]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>svg{{max-width:100%;height:auto}}</style></head>\n"
        f"<body>\n{svg}\n</body></html>\n"
    )
