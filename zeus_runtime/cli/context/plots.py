"""The page's chart of contexts as one HTML file, which loads nothing."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeus_runtime.cli.whole_file import write_whole
from zeus_runtime.errors import MissingError, UsageError
from zeus_runtime.escaping import printable
from zeus_runtime.serving.http.bundled import BUNDLE

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.masking import Redactor


def check_plot(path: str) -> Path:
    """Where a plot goes, before anything is computed.

    Raises:
        UsageError: the file's name does not end in ``.html``.
        MissingError: the chart is not built.
    """
    target = Path(path)
    if target.suffix.lower() != ".html":
        raise UsageError(
            f"a plot is an HTML page, not {path!r}",
            remedy="Name a file that ends in .html; a browser prints it as a picture or PDF.",
        )
    if not (BUNDLE / "plot.js").is_file():
        raise MissingError(
            "the chart is not built: this is a checkout", remedy="Run `make web` there, then plot again."
        )
    return target


def write_plot(path: Path, overviews: Sequence[Mapping[str, Any]], *, title: str, redactor: Redactor) -> None:
    """Draw ``overviews`` (``context.inspection.overview``) one below the other, on the same scale.

    Args:
        redactor: masks secrets in every text.

    Raises:
        LinkedFolderError, UsageError: the file cannot be written.
    """
    script, style = ((BUNDLE / name).read_text("utf-8") for name in ("plot.js", "plot.css"))
    page = _page(redactor.json(list(overviews)), printable(redactor(title)), script, style)
    write_whole(path, page, f"the plot {path}")


def _page(data: Any, title: str, script: str, style: str) -> str:
    # In a script element only "<" could begin something else.
    values = json.dumps(data).replace("<", "\\u003c")
    policy = f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; img-src data:"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n<style>{style}</style></head>\n'
        f'<body>\n<main id="plot"></main>\n<script type="application/json" id="data">{values}</script>\n'
        f"<script>{script}</script>\n</body></html>\n"
    )


def _source(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
