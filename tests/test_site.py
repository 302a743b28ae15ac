"""The static site builds, and no link in it is broken."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    built = _build(DOCS, tmp_path)
    assert built.stderr == ""
    assert built.returncode == 0
    assert (tmp_path / "site/how-to/plugins.html").is_file()


def test_a_broken_link_is_an_error(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "conf.py").write_text((DOCS / "conf.py").read_text())
    (docs / "index.md").write_text("# A page\n\nSee [there](nowhere.md#never).\n")
    built = _build(docs, tmp_path)
    assert built.returncode != 0
    assert "nowhere.md" in built.stderr


def _build(docs: Path, into: Path) -> subprocess.CompletedProcess[str]:
    command = [
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-b",
        "html",
        "-d",
        into / "trees",
        docs,
        into / "site",
    ]
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
