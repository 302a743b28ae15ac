"""What a call would change, told before it runs."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from zeus_plugins.tools.filesystem.changing import changing_tools
from zeus_plugins.tools.filesystem.options import Options
from zeus_plugins.tools.filesystem.seen import SeenFiles

from zeus_runtime.plugin import Redactor
from zeus_runtime.plugin.files import WorkspaceError, WorkspaceFiles
from zeus_runtime.plugin.tool import Change, Preview, Tool, preview_of, tool
from zeus_runtime.tools.preview import MadeChanges, masked


def previewed(made: Tool, secrets: Redactor | None = None, **arguments: Any) -> Preview | None:
    return asyncio.run(preview_of(made, arguments, secrets or Redactor()))


def at(root: Path, path: str = "a.txt") -> str:
    return WorkspaceFiles(root).identity(path)


@pytest.fixture
def writers(tmp_path: Path) -> dict[str, Tool]:
    files = WorkspaceFiles(tmp_path)
    made = changing_tools(files, Options(max_write_bytes=50), SeenFiles(files, 50))
    return {each.name: each for each in made}


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


def test_a_preview_may_ask_for_the_session_unless_an_argument_has_that_name() -> None:
    def preview(session: str) -> Preview:
        return Preview((Change(session, None, "y"),))

    @tool(preview=preview)
    def make() -> str:
        """Make it."""
        return ""

    @tool(preview=preview)
    def named(session: str) -> str:
        """Make it."""
        return ""

    made = asyncio.run(preview_of(make, {}, Redactor(), "s1"))
    assert made == Preview((Change("s1", None, "y"),))
    given = asyncio.run(preview_of(named, {"session": "mine"}, Redactor(), "s1"))
    assert given == Preview((Change("mine", None, "y"),))


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
    new = Preview((Change("/a.txt", None, "new", at(tmp_path)),), ("content",))
    assert previewed(write, path="./a.txt", content="new") == new
    assert not (tmp_path / "a.txt").exists(), "a preview changes nothing"
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfold\r\n\xff")
    found = previewed(write, path="a.txt", content="new")
    assert found == Preview((Change("/a.txt", "\ufeffold\r\n\udcff", "new", at(tmp_path)),), ("content",))
    (tmp_path / "b").mkdir()
    assert previewed(write, path="b", content="") == Preview(problem="/b is a folder.")
    (tmp_path / "long").write_text("x" * 51)
    shown = previewed(write, path="long", content="").problem
    assert shown.startswith("the old file /long is too large to compare (51 bytes, state ")


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
        change = Change("/a.csv", "\ufeffa;b\n", "\ufeffc;b\n", at(tmp_path, "a.csv"))
        assert kept == Preview((change,), ("old", "new", "replace_all", "more"))


def test_an_edit_is_told_as_the_whole_text_before_and_after(writers: dict[str, Tool], tmp_path: Path) -> None:
    edit = writers["edit_file"]
    (tmp_path / "a.txt").write_text("one two two\n")
    change = Change("/a.txt", "one two two\n", "one 2 2\n", at(tmp_path))
    assert previewed(edit, path="a.txt", old="two", new="2", replace_all=True) == Preview(
        (change,), ("old", "new", "replace_all", "more")
    )
    ambiguous = previewed(edit, path="a.txt", old="two", new="2")
    assert ambiguous is not None
    assert "occurs 2 times" in ambiguous.problem
    assert (tmp_path / "a.txt").read_text() == "one two two\n"


SECRET = "sk-live-7Qz81mPq44xw"
KNOWN = Redactor().adding({SECRET: "KEY", "an-0ther-secret-11": "OTHER"})


def test_known_secrets_are_masked_and_a_change_of_one_is_seen() -> None:
    change = Change(f"/{SECRET}", f"k: {SECRET}\na\n", f"k: {SECRET}\nb\n")
    seen = masked(Preview((change,), ("content",), SECRET), KNOWN)
    hidden = Change("/<secret:KEY>", "k: <secret:KEY>\na\n", "k: <secret:KEY>\nb\n")
    assert seen == Preview((hidden,), ("content",), "<secret:KEY>")


@pytest.mark.parametrize(
    ("before", "after", "seen"),
    [
        (SECRET, "an-0ther-secret-11", "<secret:OTHER>"),
        (SECRET, "<secret:KEY>", "<not the secret:KEY>"),
        ("<secret:KEY>", "<not the secret:KEY>", "<not the not the secret:KEY>"),
        (SECRET, "<not the secret:KEY>", "<not the not the secret:KEY>"),
        (SECRET, "<secret:ELSE>", "<not the secret:ELSE>"),
    ],
)
def test_no_change_of_a_secret_is_hidden_by_masking(before: str, after: str, seen: str) -> None:
    """Beside another changed line it would be shown as a line that stays."""
    (change,) = masked(Preview((Change("/a", f"{before}\none", f"{after}\ntwo"),)), KNOWN).changes
    assert change.after == f"{seen}\ntwo"
    assert change.before is not None
    assert change.before.split("\n")[0] != seen
    assert SECRET not in change.before


FOUR = "one\ntwo\nthree\nfour\n"


@pytest.mark.parametrize(
    ("made", "now", "holds"),
    [
        (FOUR, FOUR, True),
        ("1\n0\n" + FOUR, "1\n0\n" + FOUR, True),
        ("0\none\ntwo\nthree\nfour\nfive\n", None, False),
        ("ONE\ntwo\nthree\nfour\n", "ONE\ntwo\nthree\nfour\n", True),
        ("two\nthree\nfour\n", "two\nthree\nfour\n", True),
        ("one\nTWO\nthree\nfour\n", "one\nTWO\nthree\nfour\n", False),
        ("one\ntwo\nthree\nFOUR\n", "one\ntwo\nthree\nFOUR\n", False),
        ("one\ntwo\nfour\n\nthree\n", "one\ntwo\nfour\n\nthree\n", False),
        (FOUR, "0\n" + FOUR, False),
    ],
    ids=[
        "none",
        "above",
        "around",
        "a line away",
        "removed above",
        "beside",
        "below",
        "moved",
        "not approved",
    ],
)
def test_a_change_holds_after_others_that_are_a_line_away(made: str, now: str | None, *, holds: bool) -> None:
    now = made if now is None else now
    before = Preview((Change("/a", FOUR, FOUR.replace("three", "3")),)).digest
    changes = MadeChanges()
    changes.note(Preview((Change("/a", FOUR, made),)))
    assert changes.still(before, Preview((Change("/a", now, now.replace("three", "3")),))) is holds


def test_a_change_that_is_elsewhere_than_the_approved_changes_led_is_another_one() -> None:
    text = "x\n\n\n\nx\n"
    shown = Preview((Change("/a", text, "y\n\n\n\nx\n"),)).digest
    changes = MadeChanges()
    changes.note(Preview((Change("/a", text, text + "\n\nend\n"),)))
    same, other = "y\n\n\n\nx\n\n\nend\n", "x\n\n\n\ny\n\n\nend\n"
    assert changes.still(shown, Preview((Change("/a", text + "\n\nend\n", same),)))
    assert not changes.still(shown, Preview((Change("/a", text + "\n\nend\n", other),)))


def test_a_line_that_approved_calls_moved_is_not_changed_where_nobody_saw_it() -> None:
    texts = [
        "[dev]\non=0\n#\n#\n[prod]\n#\n",
        "[dev]\n#\n#\n[prod]\n#\n",
        "[dev]\n#\n#\n[prod]\non=0\n#\n",
    ]
    changes = MadeChanges()
    for before, after in pairwise(texts):
        changes.note(Preview((Change("/a", before, after),)))
    shown, now = (Preview((Change("/a", each, each.replace("on=0", "on=1")),)) for each in texts[::2])
    assert not changes.still(shown.digest, now)
    assert changes.still(now.digest, now)


def test_what_was_shown_without_a_change_holds_on_texts_that_approved_calls_made() -> None:
    shown = Preview(problem="/a does not exist")
    now = Preview((Change("/a", "new\n", "newer\n"),))
    changes = MadeChanges()
    assert changes.still(shown.digest, shown)
    assert not changes.still(shown.digest, Preview(problem="/a is a picture"))
    assert not changes.still(shown.digest, Preview())
    assert not changes.still(shown.digest, now)
    assert not changes.still(now.digest, shown)
    changes.note(Preview((Change("/a", None, "new\n"),)))
    assert changes.still(shown.digest, now)
    assert not changes.still(shown.digest, Preview((*now.changes, Change("/b", "x", "y"))))


def test_a_change_that_was_not_there_when_nothing_was_to_change_does_not_hold() -> None:
    changes = MadeChanges()
    assert changes.still(Preview().digest, Preview())
    assert not changes.still(Preview().digest, Preview((Change("/a", None, "new\n"),)))
