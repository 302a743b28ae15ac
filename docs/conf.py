"""The static site of these pages: `make site` builds it strictly, so a broken link fails."""

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent

project = "Zeus runtime"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "Zeus runtime"
myst_heading_anchors = 4
exclude_patterns = ["conf.py"]
# Pages show YAML that is wrong on purpose.
suppress_warnings = ["misc.highlighting_failure"]

_LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)#\s]+)(?:#[^)]*)?\)")


def _name_files(_app: Any, page: str, content: list[str]) -> None:
    """Name files of the repository that are not pages: the site has no copy of them."""

    def named(link: re.Match[str]) -> str:
        file = ((DOCS / page).parent / link[2]).resolve()
        if file.is_relative_to(DOCS) or not file.exists():
            return link[0]
        return f"{link[1]} (`{file.relative_to(DOCS.parent).as_posix()}`)"

    content[0] = _LINK.sub(named, content[0])


def setup(app: Any) -> None:
    app.connect("source-read", _name_files)
