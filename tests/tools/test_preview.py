"""What a call would change, told before it runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from zeus_plugins.tools.filesystem.changing import changing_tools
from zeus_plugins.tools.filesystem.options import Options

from zeus_runtime import Change, Preview, Redactor, Tool, WorkspaceError, WorkspaceFiles, preview_of, tool
from zeus_runtime.tools.preview import masked


def previewed(made: Tool, secrets: Redactor | None = None, **arguments: Any) -> Preview | None:
    return asyncio.run(preview_of(made, arguments, secrets or Redactor()))


@pytest.fixture
def writers(tmp_path: Path) -> dict[str, Tool]:
    return {each.name: each for each in changing_tools(WorkspaceFiles(tmp_path), Options(max_write_bytes=50))}


def test_a_tool_without_a_preview_tells_nothing() -> None:
    @tool
    def plain() -> str:
        """Do it."""
        return ""

    assert previewed(plain) is None


def test_a_preview_gets_its_arguments_as_the_tool_does() -> None:
    def preview(path: Path, times: int = 2) -> Preview:
        return Preview((Change(str(path / "x"), None, "y" * times),), ("times",))

    @tool(preview=preview)
    def make(path: Path, times: int = 2) -> str:
        """Make it."""
        return ""

    assert previewed(make, path="a") == Preview((Change("a/x", None, "yy"),), ("times",))


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (WorkspaceError("no such thing"), "no such thing"),
        (KeyError("x"), "the tool's preview failed (KeyError)"),
    ],
)
def test_a_preview_that_fails_says_why(error: Exception, problem: str) -> None:
    def preview() -> Preview:
        raise error

    @tool(preview=preview)
    def fail() -> str:
        """Fail."""
        return ""

    assert previewed(fail) == Preview(problem=problem)


def test_a_written_file_is_told_as_its_text_before_and_after(
    writers: dict[str, Tool], tmp_path: Path
) -> None:
    write = writers["write_file"]
    new = Preview((Change("/a.txt", None, "new"),), ("content",))
    assert previewed(write, path="./a.txt", content="new") == new
    assert not (tmp_path / "a.txt").exists(), "a preview changes nothing"
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfold\r\n\xff")
    found = previewed(write, path="a.txt", content="new")
    assert found == Preview((Change("/a.txt", "\ufeffold\r\n\udcff", "new"),), ("content",))
    (tmp_path / "b").mkdir()
    assert previewed(write, path="b", content="") == Preview(problem="/b is a folder.")
    (tmp_path / "long").write_text("x" * 51)
    assert previewed(write, path="long", content="") == Preview(problem="long is larger than 50 bytes.")


@pytest.mark.parametrize("lost", [b"\xef\xbb\xbfa;b\n", b"a;b\r\n", b"a;b", b"a;b\n\xff", b"a\xa0b\n"])
def test_a_file_of_other_bytes_has_another_text(
    writers: dict[str, Tool], tmp_path: Path, lost: bytes
) -> None:
    """So no change of bytes has an empty diff."""
    (tmp_path / "a.csv").write_bytes(lost)
    found = previewed(writers["write_file"], path="a.csv", content="a;b\n")
    assert found is not None
    (change,) = found.changes
    assert change.before != change.after == "a;b\n"
    if lost.startswith(b"\xef"):
        kept = previewed(writers["edit_file"], path="a.csv", old="a;", new="c;")
        assert kept == Preview(
            (Change("/a.csv", "\ufeffa;b\n", "\ufeffc;b\n"),), ("old", "new", "replace_all")
        )


def test_an_edit_is_told_as_the_whole_text_before_and_after(writers: dict[str, Tool], tmp_path: Path) -> None:
    edit = writers["edit_file"]
    (tmp_path / "a.txt").write_text("one two two\n")
    change = Change("/a.txt", "one two two\n", "one 2 2\n")
    assert previewed(edit, path="a.txt", old="two", new="2", replace_all=True) == Preview(
        (change,), ("old", "new", "replace_all")
    )
    ambiguous = previewed(edit, path="a.txt", old="two", new="2")
    assert ambiguous is not None
    assert "is there 2 times" in ambiguous.problem
    assert (tmp_path / "a.txt").read_text() == "one two two\n"


def test_known_secrets_are_masked_and_a_change_of_one_is_said() -> None:
    def redact(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: redact(each) for key, each in value.items()}
        return value.replace("s3cret", "***").replace("0ther", "***") if isinstance(value, str) else value

    seen = masked(
        Preview((Change("/s3cret", "k: s3cret\na\n", "k: s3cret\nb\n"),), ("content",), "s3cret"), redact
    )
    assert seen == Preview((Change("/***", "k: ***\na\n", "k: ***\nb\n"),), ("content",), "***")
    changed = masked(Preview((Change("/a", "s3cret", "0ther"),), ("content",)), redact)
    assert changed == Preview(problem="known secrets change, which are masked")
