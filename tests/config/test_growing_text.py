"""The end of a growing text that waits: it depends on the shape of the text, and never on a secret."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from itertools import product
from urllib.parse import quote

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from zeus_runtime.config import Redactor
from zeus_runtime.config.secrets.matching import folded, folded_with_places
from zeus_runtime.tools.masked_text import masked_bytes, written_masked

ALIKE = ("sk-a7Qx90LmZt-W3", "tb-k4Vw15OnHs-E8")
"""Two secrets of one shape."""
LONG = "".join(f"{number * 7919 % 99991:05}k" for number in range(250))
"""A secret of 1,500 characters, such as a token with many claims."""
PAIRS = (
    ALIKE,
    ("Bearer sk-Abc9dEf0123456789xyz", "Bearer tb-Vut4dEf0123456789qwe"),
    ("correct horse battery staple", "thirsty goose mineral ribbon"),
    (
        "host=db.internal.example.com user=app password=hunter2x",
        "host=db.internal.example.com user=app password=secret9y",
    ),
    ('{"username": "app", "password": "hunter2x"}', '{"username": "app", "password": "secret9y"}'),
    ("Gr\u00fc\u00dfe-4711-x", "Fr\u00f6\u00dfe-5822-y"),
)
GUESSED: dict[str, Callable[[str], str]] = {
    "plain": str,
    "url": lambda text: "".join(f"%{ord(each):02x}" for each in text),
    "json": lambda text: "".join(f"\\u{ord(each):04x}" for each in text),
    "html": lambda text: "".join(f"&amp;amp;#{ord(each):07};" for each in text),
    "octal": lambda text: "".join(f"\\{ord(each):03o}" for each in text),
    "base64": lambda text: base64.b64encode(text.encode()).decode().rstrip("="),
    "hex": lambda text: text.encode().hex(),
    "base64 of json": lambda text: base64.b64encode(json.dumps(text).encode()).decode()[:-2],
    "hex of base64": lambda text: base64.b64encode(text.encode()).decode().rstrip("=").encode().hex(),
    "utf-16": lambda text: "\0".join(text),
    "wide": lambda text: text.translate({code: code + 0xFEE0 for code in range(0x21, 0x7F)}),
    "wrapped": "\n  ".join,
    "literals": '" +\n  "'.join,
    "red": "\x1b[31m".join,
    "spaced": " ".join,
}


@settings(max_examples=400)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["", " ", "\n", "\n\t", "  \n", '"', "'", "\\", "%", "&", "=", "\u4e2d", "\0", "\x1b[", "x "]
            ),
            st.sampled_from(sorted(GUESSED)),
            st.integers(0, 50),
        ),
        max_size=6,
    ),
    st.sampled_from(PAIRS),
    st.booleans(),
)
def test_no_guess_at_a_secret_is_answered_by_how_much_of_a_text_waits(
    parts: list[tuple[str, str, int]], pair: tuple[str, str], by_lines: bool
) -> None:
    guessed = pair[0][:-1]
    text = "".join(joint + GUESSED[way](guessed[:length]) for joint, way, length in parts)
    true, false = (Redactor().adding({each: "S"}) for each in pair)
    assume(true.text(text) == text)
    assert true.settled(text, by_lines=by_lines) == false.settled(text, by_lines=by_lines)


@pytest.mark.parametrize("end", ["", " ", "\n", " x", " one two three four five six"])
def test_no_guess_at_the_words_of_a_secret_is_answered_either(end: str) -> None:
    guessed = "correct horse battery staple"
    true, false = (Redactor().adding({each: "S"}) for each in (guessed, "thirsty goose mineral ribbon"))
    for length in range(1, len(guessed)):
        text = f"is {guessed[:length]}{end}"
        assert true.settled(text) == false.settled(text), text


def test_a_word_after_a_chinese_one_waits_alone() -> None:
    known = Redactor().adding({ALIKE[0]: "S", "Gr\u00fc\u00dfe-4711-x": "T"})
    assert known.settled("\u4f60\u597d\u4e16\u754c") == ("\u4f60\u597d\u4e16\u754c", "")
    assert known.settled("\u4f60\u597d sk") == ("\u4f60\u597d ", "sk")


@pytest.mark.parametrize(
    ("secret", "written"),
    [
        ("correct horse battery staple", "correct horse battery staple"),
        (LONG, LONG.encode("utf-16-le").hex()),
        (LONG, base64.b64encode(LONG.encode("utf-16-le")).decode()),
    ],
    ids=["words", "hexadecimal", "base64"],
)
def test_no_beginning_of_a_secret_is_told_while_a_text_grows(secret: str, written: str) -> None:
    known = Redactor().adding({secret: "S"})
    text = f"a {written} b"
    shown, rest = "", ""
    for at in range(0, len(text), 1 if len(text) < 100 else 1_500):
        more, rest = known.settled(rest + text[at : at + (1 if len(text) < 100 else 1_500)])
        shown += more
    assert written[:8] not in shown
    assert shown + known.text(rest) == known.text(text)


def test_a_long_word_does_not_wait_whole() -> None:
    told, rest = Redactor().adding({ALIKE[0]: "S"}).settled("x" * 50_000)
    assert len(rest) < 5_000
    assert told + rest == "x" * 50_000


@given(st.text(alphabet="\\%&\"'\0\x1b[cw1;x \n\r\tn+", max_size=30), st.booleans())
def test_a_folded_text_is_the_same_with_and_without_places(text: str, quotes: bool) -> None:
    assert folded_with_places(text, quotes=quotes).text == folded(text, quotes=quotes)


@pytest.mark.parametrize(
    "between", ["\x1b(B", "\x1b7", "\x9b31m", "\x1b[31m", "\x1b]8;;http://x/y\x1b\\", "\x1b]0;t\x07", "\x1bc"]
)
def test_a_control_sequence_within_a_secret_hides_it_neither_whole_nor_in_a_stream(between: str) -> None:
    known = Redactor().adding({ALIKE[0]: "S"})
    text = f"a {ALIKE[0][:8]}{between}{ALIKE[0][8:]} b"
    masked = known.text(text)
    assert masked.startswith("a <secret:S:escaped-")
    assert masked.endswith("> b")
    assert known.restored(masked, text) == text
    for at in range(len(text)):
        told, rest = known.settled(text[:at])
        assert told + known.text(rest + text[at:]) == masked


@pytest.mark.parametrize("written", [ALIKE[0], ALIKE[0].replace("-", "%2d")])
def test_a_secret_within_a_control_sequence_is_found(written: str) -> None:
    text = f"\x1b]8;;http://x/?key={written}&u=1\x1b\\link\x1b]8;;\x1b\\"
    assert "90LmZt" not in Redactor().adding({ALIKE[0]: "S"}).text(text)


def test_a_secret_is_found_in_latin_1() -> None:
    secret = "Z\u00fcrich-P\u00e4ss-4711x"
    known = Redactor().adding({secret: "S"})
    data = f"pw={secret}\n".encode("latin-1")
    masked = masked_bytes(data, known)
    assert masked.startswith(b"pw=<secret:S:escaped-")
    assert written_masked(masked, lambda: data, known) == data
    assert known.text(quote(secret, encoding="latin-1")).startswith("<secret:S:escaped-")


EATING = ["\\x", "\\\\x", "\\0", "\\u00", "%", "%4", "%25", "\\u{", "&#x", "\\"]
"""What is read as an escape together with the characters behind it, such as the ``\\x`` of PostgreSQL's bytea."""
ESCAPE = ["\x1b", "\x9b", "\\u001b", "\\x1b", "\\033", "%1B", "&#27;", "\\u009b", "\x1b\u200b", "\x1b\0"]
BEGUN = ["", "[", "[31", "[31;", "(", " ", "]", "]0;", "]8;;", "P", "[?"]
ENDED = ["", "m", "\x07", "\\u0007", "\\x07", "\x1b\\", "%07", "\x9c", "\x1b]"]
QUOTED = 'Zeta/P@ss"W0rd+2x9'
WAYS: dict[str, Callable[[str], str]] = {
    "plain": lambda secret: secret,
    "json": lambda secret: json.dumps(secret)[1:-1],
    "url": lambda secret: quote(secret, safe=""),
    "hex": lambda secret: "".join(f"\\x{ord(each):02x}" for each in secret),
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "hexadecimal": lambda secret: secret.encode().hex(),
    "wrapped": lambda secret: f"{secret[:4]}\n  {secret[4:]}",
}


@settings(deadline=None)
@given(
    st.sampled_from(ESCAPE),
    st.sampled_from(BEGUN),
    st.sampled_from(ENDED),
    st.sampled_from(sorted(WAYS)),
    st.booleans(),
)
def test_what_is_read_as_a_control_sequence_hides_no_secret(
    escape: str, begun: str, ended: str, way: str, blank: bool
) -> None:
    """Its last byte may be the first letter of a secret, and a string of a terminal may have a secret in it."""
    written = WAYS[way](QUOTED)
    text = f"key: {escape}{begun}{' ' * blank}{written}{ended} end"
    known = Redactor().adding({QUOTED: "KEY"})
    masked = known.text(text)
    assert written not in masked
    assert "<secret:KEY" in masked
    shown, rest = "", ""
    for char in text:
        more, rest = known.settled(rest + char)
        shown += more
    assert written not in shown + known.text(rest)


@pytest.mark.parametrize("before", ["", "a\n", "code\tname\n", "a \r\n "])
def test_a_secret_of_digits_is_not_the_number_of_a_line(before: str) -> None:
    known = Redactor().adding({"4829173650": "PIN"})
    assert known.text(f"{before}4829173650\tann") == f"{before}<secret:PIN>\tann"


# A limit (docs/reference/config.md): before a secret in another notation of escapes, `%` may take its first letters.
@pytest.mark.parametrize(
    ("before", "way"), [each for each in product(EATING, WAYS) if each[1] != "hex" or each[0][0] != "%"]
)
@pytest.mark.parametrize("secret", [QUOTED, "4f7a-9c01b-e88d2-x", "00b1fe77-ac3d09"])
def test_what_is_read_as_an_escape_takes_no_character_of_a_secret(before: str, way: str, secret: str) -> None:
    written = WAYS[way](secret)
    text = f"INSERT '{before}{written}' end"
    known = Redactor().adding({secret: "KEY"})
    assert written.splitlines()[-1] not in known.text(text)
    assert "<secret:KEY" in known.text(text)
    shown, rest = "", ""
    for char in text:
        more, rest = known.settled(rest + char)
        shown += more
    assert written.splitlines()[-1] not in shown + known.text(rest)


def test_a_long_control_string_within_a_secret_shows_none_of_it_in_a_stream() -> None:
    known = Redactor().adding({ALIKE[0]: "S"})
    text = f"a {ALIKE[0][:8]}\x1b]0;{'t ' * 120}\x07{ALIKE[0][8:]} end"
    told, rest = known.settled(text[:200])
    assert told == "a "
    assert told + known.text(rest + text[200:]) == known.text(text)
