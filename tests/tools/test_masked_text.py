"""Files that hold secrets, as tools show and change them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zeus_runtime.plugin import Redactor
from zeus_runtime.plugin.files import WorkspaceError, edited_masked, written_masked
from zeus_runtime.plugin.tool import Category, Change, ToolResult, tool
from zeus_runtime.tools.masked_text import (
    masked_bytes,
    masked_result,
    passed_on_as_text,
    placeholders_left,
)

KEY = "sk-live-0123456789"
PEM = "-----BEGIN KEY-----\nMIIEowIBAAKCAQEA7bq2\nzJ0l1mN3oP4qR5sT6uV7\n-----END KEY-----"
SECRETS = Redactor().adding({KEY: "API_KEY", PEM: "PEM"})
FILE = b"# caf\xe9 \r\nAPI_KEY=" + KEY.encode() + b"\r\nMODE=test\r\n\xff"

pieces = st.sampled_from(
    [KEY.encode(), PEM.encode(), b"\r\n", b"\n", b"a", b"\xff\xfe", b"=", "ä漢".encode(), b"<"]
)


def changing(old: bytes, new: bytes) -> Callable[[bytes, Sequence[str]], bytes]:
    def change(data: bytes, _placeholders: Sequence[str]) -> bytes:
        assert old in data, "the model did not see this"
        return data.replace(old, new)

    return change


@given(st.lists(pieces).map(b"".join))
def test_an_edit_that_changes_nothing_leaves_every_byte(data: bytes) -> None:
    assert edited_masked(data, lambda shown, _placeholders: shown, SECRETS) == data


@given(st.lists(pieces).map(b"".join), st.lists(pieces).map(b"".join))
def test_an_edit_beside_a_secret_changes_only_that(before: bytes, after: bytes) -> None:
    data = before + b"\nMODE=test\n" + after
    edited = edited_masked(data, changing(b"MODE=test", b"MODE=prod"), SECRETS)
    assert edited == before + b"\nMODE=prod\n" + after


def test_the_model_edits_what_it_saw() -> None:
    edited = edited_masked(
        FILE, changing(b"API_KEY=<secret:API_KEY>\r\nMODE=test", b"KEY='<secret:API_KEY>'"), SECRETS
    )
    assert edited == FILE.replace(b"API_KEY=", b"KEY='").replace(b"89\r\nMODE=test", b"89'")


def test_a_line_of_a_private_key_is_edited_around() -> None:
    data = f"key: |\n  {PEM.splitlines()[1]}\n  {PEM.splitlines()[2]}\nend".encode()
    shown: list[bytes] = []

    def change(seen: bytes, _placeholders: Sequence[str]) -> bytes:
        shown.append(seen)
        return seen.replace(b"end", b"done")

    assert edited_masked(data, change, SECRETS) == data.replace(b"end", b"done")
    assert b"MIIEow" not in shown[0]


def test_a_secret_of_another_file_is_not_put_in() -> None:
    assert written_masked(b"k=<secret:API_KEY>", lambda: b"", SECRETS) == b"k=<secret:API_KEY>"
    assert written_masked(b"k=<secret:API_KEY>", lambda: FILE, SECRETS) == b"k=" + KEY.encode()
    note = placeholders_left(b"k=<secret:API_KEY>", SECRETS)
    assert "<secret:API_KEY>" in note
    assert "Where your own words are the value of a secret" in note
    assert "<secret:OF_ANOTHER>" in placeholders_left(b"k=<secret:OF_ANOTHER>", SECRETS)
    assert placeholders_left(b"k=<secret:OF_ANOTHER>", Redactor()) == ""


def test_a_secret_with_doubled_signs_is_masked_and_edited_around() -> None:
    secrets = Redactor().adding({"pa%zz-Qx%41-w$kk-99": "PASSWORD"})
    data = b"alembic = pa%%zz-Qx%%41-w$kk-99\ncompose: pa%zz-Qx%41-w$$kk-99\nend\n"
    assert masked_bytes(data, secrets) == (
        b"alembic = <secret:PASSWORD:percents>\ncompose: <secret:PASSWORD:dollars>\nend\n"
    )
    assert edited_masked(data, changing(b"end", b"done"), secrets) == data.replace(b"end", b"done")


def test_a_change_is_told_the_placeholders_that_stand_for_secrets_of_the_file() -> None:
    told: list[Sequence[str]] = []

    def change(shown: bytes, placeholders: Sequence[str]) -> bytes:
        told.append(placeholders)
        return shown

    edited_masked(FILE, change, SECRETS)
    edited_masked(b"k=<secret:API_KEY>", change, SECRETS)
    assert told == [["<secret:API_KEY>"], ()]


@pytest.mark.parametrize(
    "renamed", [b"<secret:KEY>", b"<secret:API_KEY:rot13>", b"<secret:API", b"<secret:A B>"]
)
def test_a_secret_is_not_lost_to_a_placeholder_with_another_name(renamed: bytes) -> None:
    with pytest.raises(WorkspaceError, match="stands for no secret") as found:
        edited_masked(FILE, changing(b"<secret:API_KEY>", renamed), SECRETS)
    assert "cannot be renamed" in str(found.value)
    with pytest.raises(WorkspaceError, match="stands for no secret"):
        written_masked(b"KEY=" + renamed, lambda: FILE, SECRETS)
    # Where no secret can be lost, and where it was text before, it is text like any other.
    assert written_masked(b"KEY=" + renamed, lambda: b"", SECRETS) == b"KEY=" + renamed
    both = FILE + renamed
    assert edited_masked(both, changing(b"test", b"prod"), SECRETS) == both.replace(b"test", b"prod")


@pytest.mark.parametrize("held", [b"key=Ko4ftwerk9xTq2mPv7L1 eu", b"key=sk-old-0123456789 eu"])
def test_a_rotated_secret_is_not_lost_to_the_placeholder_that_it_had(held: bytes) -> None:
    """The file holds the former value, which Zeus may know by another name or not at all."""
    now = Redactor().adding({KEY: "API_KEY", "sk-old-0123456789": "OLD_KEY"})
    with pytest.raises(WorkspaceError, match="no secret that this file holds"):
        written_masked(b"key=<secret:API_KEY> us", lambda: held, now)
    with pytest.raises(WorkspaceError, match="no secret that this file holds"):
        edited_masked(held, changing(b"eu", b"us <secret:API_KEY>"), now)
    assert edited_masked(held, changing(b"eu", b"us"), now) == held.replace(b"eu", b"us")
    # Without known secrets it is a text like any other, and so is what the file has as text.
    assert written_masked(b"key=<secret:API_KEY>", lambda: held, Redactor()) == b"key=<secret:API_KEY>"
    assert edited_masked(held, changing(b"eu", b"<secret:X>"), Redactor()).endswith(b"<secret:X>")
    assert written_masked(b"2 <secret:X>", lambda: b"1 <secret:X>", now) == b"2 <secret:X>"
    assert written_masked(b"<secret:a b", lambda: b"no secret", now) == b"<secret:a b"


def test_a_file_that_holds_both_a_secret_and_its_placeholder_is_left_alone() -> None:
    both = FILE + b"<secret:API_KEY>"
    with pytest.raises(WorkspaceError, match="cannot be told apart"):
        edited_masked(both, changing(b"MODE=test", b"MODE=prod"), SECRETS)
    with pytest.raises(WorkspaceError, match="cannot be told apart"):
        written_masked(b"<secret:API_KEY>", lambda: both, SECRETS)


def test_a_result_is_masked_in_all_its_parts_and_one_without_secrets_is_the_same() -> None:
    masked = masked_result(ToolResult(KEY, state={"a": [KEY]}, artifact={KEY: 1}), SECRETS, SECRETS)
    assert masked == ToolResult(
        "<secret:API_KEY>", state={"a": ["<secret:API_KEY>"]}, artifact={"<secret:API_KEY>": 1}
    )
    given_back = ToolResult("x")
    assert masked_result(given_back, Redactor(), SECRETS) is given_back


def test_bytes_that_are_no_text_survive_masking() -> None:
    assert masked_bytes(b"\xff" + KEY.encode() + b"\xfe", SECRETS) == b"\xff<secret:API_KEY>\xfe"
    assert masked_bytes(b"\xff\x00", SECRETS) == b"\xff\x00"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_secret_in_utf_16_is_masked_and_the_text_around_it_stays(encoding: str) -> None:
    text = f"gr\u00fcn {KEY} \u6f22\n"
    shown = masked_bytes(text.encode(encoding), SECRETS)
    assert shown.decode(encoding) == text.replace(KEY, "<secret:API_KEY>")


ALLOWED = Redactor(unmasked=SECRETS)
"""Of a model that may see the secrets."""


@pytest.mark.parametrize("secrets", [SECRETS, ALLOWED])
@given(
    st.lists(st.sampled_from([b"<secret:API_KEY>", b"<secret:PEM>", b"<secret:X>", b"\n", b"a=", b"<"])),
    st.lists(pieces).map(b"".join),
)
@example([b"<secret:API_KEY>"], KEY.encode())
def test_no_file_loses_a_secret_to_its_placeholder(secrets: Redactor, said: list[bytes], held: bytes) -> None:
    written = held
    for changed in (
        lambda: written_masked(b"".join(said), lambda: held, secrets),
        lambda: edited_masked(held, lambda _seen, _placeholders: b"".join(said), secrets),
    ):
        with suppress(WorkspaceError):
            written = changed()
        assert KEY.encode() not in held or b"<secret:API_KEY>" not in said or KEY.encode() in written


def test_a_model_that_sees_secrets_edits_a_file_with_a_secret_and_its_placeholder_as_text() -> None:
    both = FILE + b"<secret:API_KEY>"
    assert edited_masked(both, changing(b"=test", b"=prod"), ALLOWED) == both.replace(b"=test", b"=prod")
    with pytest.raises(WorkspaceError, match="cannot be told apart"):
        edited_masked(both, changing(KEY.encode(), b"<secret:API_KEY>"), ALLOWED)
    with pytest.raises(WorkspaceError, match="stood for another value earlier"):
        written_masked(b"<secret:API_KEY>", lambda: FILE, ALLOWED.with_changed({"API_KEY"}))
    assert "Where your own words" not in placeholders_left(b"k=<secret:X>", ALLOWED)


TORN = Redactor().adding({"abcdefgh12345LEFTtail": "ONE", "LEFTtailRIGHT98zyxwv": "TWO", KEY: "API_KEY"})
HOLDS = f"a: {KEY[:9]}\n  {KEY[9:]}\nb: abcdefgh12345LEFTtailRIGHT98zyxwv\nc: {KEY}\nend\n".encode()
SEEN = masked_bytes(HOLDS, TORN)


@given(
    st.lists(st.sampled_from([*re.findall(rb"<[^>]*>", SEEN), b"\n", b"  ", b"x", b"Z\n", b"\\\n", b": "]))
)
@example([SEEN[3 : SEEN.index(b"\n")], b"\nZ\n  ", SEEN.split(b"\n")[1].strip()])
@example([b"<secret:TWO:after-8>"])
def test_no_change_shows_a_part_of_a_secret_at_the_next_reading(pieces: list[bytes]) -> None:
    new = b"".join(pieces)
    with suppress(WorkspaceError):
        assert masked_bytes(edited_masked(HOLDS, lambda _seen, _placeholders: new, TORN), TORN) == new
    with suppress(WorkspaceError):
        assert masked_bytes(written_masked(new, lambda: HOLDS, TORN), TORN) == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\n  <secret:API_KEY:part", b"\nZ\n  <secret:API_KEY:part"),
        (b"<secret:ONE>", b""),
    ],
)
def test_a_change_that_tears_a_secret_apart_is_refused(old: bytes, new: bytes) -> None:
    with pytest.raises(WorkspaceError, match="separates the parts of a secret"):
        edited_masked(HOLDS, changing(old, new), TORN)


def test_the_changes_of_a_result_are_masked_before_a_middleware_sees_them() -> None:
    secrets = Redactor().adding({"hunter2-hunter2": "KEY"})
    change = Change("/a", "hunter2-hunter2\n", "other\n")
    for of_model in (secrets, Redactor()):
        found = masked_result(ToolResult("done", changes=(change,)), of_model, secrets)
        assert "hunter2" not in str(found.changes)
        assert found.changes[0].after == "other\n"


def test_only_a_tool_that_gives_its_arguments_to_others_says_that_it_did() -> None:
    async def function(text: str, path: str) -> str:
        """Do it."""
        return text + path

    made = tool(function, paths=["path"])
    called = {"text": "k=<secret:API_KEY>", "path": "/x"}
    within: tuple[Category, ...] = ("memory", "todos", "builtin", "filesystem")
    assert "function got <secret:API_KEY> as text" in passed_on_as_text(made, called, SECRETS)
    assert passed_on_as_text(made, {"text": "k", "path": "/<secret:API_KEY>"}, SECRETS) == ""
    for category in within:
        assert passed_on_as_text(replace(made, category=category), called, SECRETS) == ""
