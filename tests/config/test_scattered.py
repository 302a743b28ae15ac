"""A wrapped secret is found behind whatever programs put before and behind each of its lines."""

from __future__ import annotations

import time

import pytest

from zeus_runtime.config.secrets.masking import Redactor

TOKEN = "hIprw7Zk3Wq9mXc5Vb1Ns8Tg2Yf6Jd4Ra0Lu0QeO"
KEY = "T2xkTWFjRG9uYWxkSGFkQUZhcm0rRUlFSU8vQW5kT25UaGF0RmFybUhlSGFkQUNvdw8xMjM0NTY3ODkwYWJjZGVmZ2hpamtsbW5v=="
MIXED = "Kx9*mPq2vLw7!zRt5#nB8@cYd3%hJf"
KNOWN = Redactor().adding({TOKEN: "TOKEN", KEY: "KEY", MIXED: "MIXED"})
LINES = {
    "git diff": "+{}",
    "grep -n": "{n}:{}",
    "grep -rn": "a.txt:{n}:{}",
    "mail": "> {}",
    "a comment": " * {}",
    "a service": "web-1  | {}",
    "a log": "2026-11-30T15:00:0{n}Z app[12]: {}",
    "a panel": "│ {:<80} │",
    "a table of psql": "value | {}+",
    "literals": '  "{}",',
    "a soft line break": "{}=",
    "letters": "x{}",
}


def wrapped(secret: str, width: int, line: str, lead: str = "") -> str:
    text = lead + secret
    pieces = [text[at : at + width] for at in range(0, len(text), width)]
    return "\n".join(["first", *(line.format(each, n=n) for n, each in enumerate(pieces, 8)), "last"])


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
@pytest.mark.parametrize(("secret", "width"), [(TOKEN, 30), (TOKEN, 16), (KEY, 76), (KEY, 40), (MIXED, 16)])
@pytest.mark.parametrize("lead", ["", "KEY=", "Authorization: "])
def test_no_piece_of_a_wrapped_secret_is_shown(line: str, secret: str, width: int, lead: str) -> None:
    text = wrapped(secret, width, line, lead)
    shown = KNOWN.text(text)
    pieces = [text[at : at + width] for text in (lead + secret,) for at in range(0, len(text), width)]
    assert [each for each in pieces if each in shown and len(each.removeprefix(lead)) > 4] == []
    assert shown.count("\n") == text.count("\n")
    assert KNOWN.restored(shown, text) == text
    assert KNOWN.text(shown) == shown


def test_a_piece_has_one_placeholder_in_every_text() -> None:
    one, two = (KNOWN.text(wrapped(TOKEN, 30, line)).splitlines()[1:3] for line in ("+{}", "{n}: {}"))
    assert [each[1:] for each in one] == [each.partition(": ")[2] for each in two]
    assert one[0][1:] != one[1][1:]


def test_each_copy_of_a_piece_is_masked() -> None:
    text = "".join(f"-{each}\n+{each}\n" for each in (TOKEN[:20], TOKEN[20:]))
    shown = KNOWN.text(text)
    assert TOKEN[:20] not in shown
    assert TOKEN[20:] not in shown


def test_a_word_is_no_piece_of_a_secret_that_is_whole_elsewhere() -> None:
    known = Redactor().adding(
        {"postgresql://shop:Kx9mPq2vLw7z@db/shop": "DB", "sk-proj-Yf6Jd4Ra0Lu0QeOx": "KEY"}
    )
    text = "postgres and sk-proj- of postgresql://shop:Kx9mPq2vLw7z@db/shop, sk-proj-Yf6Jd4Ra0Lu0QeOx"
    assert known.text(text) == "postgres and sk-proj- of <secret:DB>, <secret:KEY>"


@pytest.mark.parametrize("missing", [slice(0, 10), slice(10, 20), slice(20, 30), slice(30, 40)])
def test_no_guess_at_a_part_of_a_secret_is_confirmed(missing: slice) -> None:
    guessed = list(TOKEN)
    guessed[missing] = "#" * 10
    text = "+" + "\n+".join("".join(guessed)[at : at + 10] for at in range(0, 40, 10))
    assert KNOWN.text(text) == text
    assert KNOWN.text("".join(guessed)) == "".join(guessed)


def test_an_edit_beside_a_wrapped_secret_keeps_it() -> None:
    text = wrapped(KEY, 76, "# {}")
    edited = KNOWN.text(text).replace("first", "changed")
    assert KNOWN.restored(edited, text) == text.replace("first", "changed")


@pytest.mark.parametrize(
    "repeated", ["abcd" * 16 + "\n> ", TOKEN[:16] + "\n+", f"{TOKEN[:20]}\n+{TOKEN[20:]}\n"]
)
def test_a_text_of_many_pieces_takes_a_linear_time(repeated: str) -> None:
    known = Redactor().adding({"abcd" * 5000 + "Zq": "PERIODIC", TOKEN: "TOKEN"})
    known.text("x" * 100)
    started = time.process_time()
    known.text(repeated * (60_000 // len(repeated)))
    assert time.process_time() - started < 1.5
