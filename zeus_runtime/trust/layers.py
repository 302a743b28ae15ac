"""The files that a text which a caller brings may name as layers of its config."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zeus_runtime.disk_paths import real_path

if TYPE_CHECKING:
    from zeus_runtime.trust.decision import Trust


def permit_layer(trust: Trust, directory: Path, name: str, file: Path) -> None:
    """Raise for a layer elsewhere that the user has not allowed, before anything of it is looked at.

    Args:
        directory: the working directory.
        name: the layer's, as messages show it.

    Raises:
        UntrustedError: it is outside ``trust.inside``.
    """
    if trust.inside is None:
        return
    is_path = "\0" not in str(file)
    if is_path and _is_inside(file, trust.inside, trust.own_homes):
        return
    from zeus_runtime.trust.parts import file_part

    trust.require([file_part(name, Path(real_path(file)) if is_path else file, directory)])


def _is_inside(layer: Path, places: Sequence[Path], homes: Sequence[Path]) -> bool:
    # In the user's own Home, a preset may be a link, which the user made.
    own = (Path(real_path(home / "configs")) for home in homes)
    real = Path(real_path(layer))
    return any(map(real.is_relative_to, places)) or Path(real_path(layer.parent)) in own
