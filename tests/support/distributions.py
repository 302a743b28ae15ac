"""Installed distributions, made of a few files: what pip leaves behind, without pip."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent


def lay_out(
    site: Path,
    distribution: str,
    *,
    plugins: Mapping[str, str],
    files: Mapping[str, str],
    version: str = "1.0",
    metadata: str = "",
) -> None:
    """Install a distribution into a folder that is, or will be, on ``sys.path``.

    Args:
        site: the folder.
        distribution: its name.
        plugins: plugin names to the modules that declare them.
        files: relative paths to texts.
        version: its version.
        metadata: further lines of its METADATA.
    """
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(dedent(text), encoding="utf-8")
    info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n{metadata}", encoding="utf-8"
    )
    points = "".join(f"{name} = {module}\n" for name, module in plugins.items())
    (info / "entry_points.txt").write_text(f"[zeus.plugins]\n{points}", encoding="utf-8")
