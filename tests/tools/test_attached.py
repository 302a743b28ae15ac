"""Files kept under a name made of their content, and what is made of them."""

from __future__ import annotations

from pathlib import Path

from zeus_runtime.tools.attachments import beside, forget, keep
from zeus_runtime.tools.workspace import WorkspaceFiles


def test_what_is_made_of_a_kept_file_goes_with_the_last_name_of_its_bytes(tmp_path: Path) -> None:
    files = WorkspaceFiles(tmp_path)
    one, other = keep(b"bytes", "one.png", files), keep(b"bytes", "other.png", files)
    made = beside(one, "smaller-100")
    assert made is not None
    assert made == beside(other, "smaller-100")
    files.write(made, b"less")
    forget(one, files)
    assert files.read(made, max_bytes=10) == b"less"
    forget(other, files)
    assert list((tmp_path / "attached_files").iterdir()) == []
    forget(other, files)


def test_nothing_is_kept_beside_files_that_have_no_folder_of_their_own() -> None:
    for path in ("/drawn.png", "/attached_files/drawn.png", "/attached_files/0123456789abcdef/a/b.png"):
        assert beside(path, "smaller-100") is None
