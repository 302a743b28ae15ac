"""Where a file for its user alone cannot be written is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeus_runtime.cli.private_file import write_private
from zeus_runtime.errors import UsageError


@pytest.mark.parametrize("place", ["loop", "folder", "none/file", "file/file"])
def test_a_place_where_nothing_can_be_written_is_a_usage_error(tmp_path: Path, place: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError, match=f"{place} cannot be written: "):
        write_private(tmp_path / place, "text", place)
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "file").read_text() == "mine"
