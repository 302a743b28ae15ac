"""Where a command's private file can be written, and what is said where it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeus_runtime.cli.private_file import write_private
from zeus_runtime.errors import UsageError


@pytest.mark.parametrize("name", ["out.jsonl", "n" * 255])
def test_whatever_may_be_a_file_s_name_is_written_for_its_owner_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("before")
    write_private(tmp_path / name, "text\n", name)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "text\n"
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", [".", "loop", "n" * 256, "file/below", "nowhere/out.jsonl"])
def test_a_place_where_no_file_can_be_is_a_mistake_of_who_named_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_text("before")
    with pytest.raises(UsageError, match="cannot be written: "):
        write_private(tmp_path / name, "text\n", name)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "loop"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_not_the_user_s_mistake() -> None:
    with pytest.raises(OSError, match="No space left"):
        write_private(Path("/dev/full"), "text\n", "/dev/full")
