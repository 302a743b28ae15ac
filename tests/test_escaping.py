"""Untrusted text as it is shown: what cannot be seen becomes an escape, and nothing is dropped."""

from __future__ import annotations

import json
import re
import subprocess
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.encodings import NARROW, output_in, read_back
from zeus_runtime.columns import cut_line
from zeus_runtime.escaping import (
    UNSEEN,
    TerminalStream,
    exact,
    exact_blanks,
    exact_json,
    exact_label,
    exact_line,
    is_unseen,
    json_text,
    printable,
    shell_word,
    terminal_line,
    terminal_text,
)

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
FLAG_WITH_TAGS = "\U0001f3f4\U000e0067\U000e0062\U000e007f"
ODD = st.sampled_from(
    "\\xu01be\n\t\r \x00\x07\x1b\x7f\x85\x9b\xa0\xad\u034f\u061c\u200b\u200c\u200d\u200e\u202e\u2028\u2029\u2066\u2069"
    "\u3000\u3164\ufe0f\ufeff\ue000\ud800\udc85\U000e0041\U000e0100\U0010ffff\U0001f525م\u0915\u094d漢"
)
texts = st.text(st.one_of(ODD, st.characters()), max_size=30)


def undone(shown: str) -> str:
    """The text that ``exact`` shows so."""
    pattern = r"\\(?:(\\)|x([0-7][0-9a-f])|x([89a-f][0-9a-f])|u([0-9a-f]{4})|U([0-9a-f]{8}))"

    def meant(found: re.Match[str]) -> str:
        if found[3]:  # a byte that is not UTF-8, which no character has
            return chr(0xDC00 + int(found[3], 16))
        return found[1] or chr(int(found[2] or found[4] or found[5], 16))

    return re.sub(pattern, meant, shown)


@given(texts)
def test_what_is_approved_can_be_read_back_exactly(text: str) -> None:
    assert undone(exact(text)) == text


@given(st.text(st.sampled_from("\\xuUnt10\n\t\x1b a"), max_size=12))
def test_a_path_in_one_line_can_be_read_back_exactly(text: str) -> None:
    named = {"n": "\n", "t": "\t"}
    shown = exact_line(text)
    pattern = r"\\(?:(\\)|([nt])|x([0-9a-f]{2}))"
    made = re.sub(pattern, lambda match: match[1] or named.get(match[2]) or chr(int(match[3], 16)), shown)
    assert made == text
    assert shown.isprintable()


@given(st.text(st.one_of(st.sampled_from(" \t⇥␠┊\\"), st.characters(exclude_characters="\n")), max_size=12))
def test_the_blanks_of_a_line_can_be_read_back_exactly(line: str) -> None:
    shown = exact_blanks(line)
    assert undone(shown.replace("⇥   ", "\t").replace("⇥", "\t").replace("␠", " ")) == line
    assert shown == shown.rstrip()
    assert shown.isprintable()


@pytest.mark.parametrize("encoding", NARROW)
@given(text=st.text(st.one_of(st.sampled_from("\\xut⇥␠┊│…→¥字é \t"), st.characters()), max_size=12))
def test_what_the_outputs_encoding_lacks_is_escaped_before_backslashes_are_doubled(
    encoding: str, text: str
) -> None:
    with output_in(encoding):
        shown, line = exact(text), exact_blanks(text.replace("\n", ""))
        assert read_back(shown, encoding) == shown
        assert undone(shown) == text
        tabs_by_number = re.sub(r"(?<!\\)((?:\\\\)*)\\t", r"\1\\x09", line)
        assert undone(tabs_by_number) == text.replace("\n", "")
        for made in (line, terminal_text(text), json_text(text)):
            assert read_back(made, encoding) == made
        assert terminal_text(terminal_text(text)) == terminal_text(text)


def test_signs_of_our_own_have_stand_ins_where_the_encoding_lacks_them() -> None:
    with output_in("latin-1"):
        assert terminal_text("  … 5 more · é → 字 │ ┊") == "  ... 5 more · é > \\u5b57 | :"
        assert exact_blanks("\tx \\ ") == "\\tx \\\\\\x20"
        assert exact("\\é \\字") == "\\é \\\\\\u5b57"
        assert shell_word("字") == "$'\\xe5\\xad\\x97'"
        assert cut_line("x" * 20, 10) == "xxxxxxx..."
        assert json.loads(json_text('"字\U0001f525"')) == "字\U0001f525"
    assert terminal_text("…字") == "…字"


def test_an_escape_is_whole_when_the_marks_before_it_came_in_another_piece() -> None:
    for encoding, marks in (("ascii", "\u0301\u0302"), (None, "\ufe0f")):
        with output_in(encoding):
            shown = TerminalStream()
            shown(marks)
            assert shown(" and more") == " and more"


@given(texts)
def test_what_is_approved_holds_no_character_that_cannot_be_seen(text: str) -> None:
    for char in exact(text):
        assert char in "\n\t" or char.isprintable(), f"U+{ord(char):04X}"
        assert not is_ignorable(char)


def is_ignorable(char: str) -> bool:
    """Of those that Unicode lets a renderer leave out, some that Python calls printable."""
    return char in "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufffc" or unicodedata.name(
        char, ""
    ).startswith(("VARIATION SELECTOR", "MONGOLIAN FREE VARIATION SELECTOR"))


@pytest.mark.parametrize("shown", [terminal_text, terminal_line, printable, json_text])
@given(text=texts)
def test_nothing_is_dropped(shown: Callable[[str], str], text: str) -> None:
    result = shown(text)
    assert len(result) >= len(text)
    kept = iter(result)
    assert all(char in kept for char in text if char.isprintable() and not is_ignorable(char))


@given(texts)
def test_an_answer_on_a_terminal_holds_no_control_but_joiners_between_letters(text: str) -> None:
    for char in terminal_text(text).replace("\r\n", "\n"):
        category = unicodedata.category(char)
        assert category not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") or char in "\n\t\u200c\u200d"
    assert not set(terminal_line(text)) & set("\n\t\r")


@given(texts)
def test_json_text_is_the_same_value_and_holds_no_control(text: str) -> None:
    made = json_text(json.dumps({text: [text]}, ensure_ascii=False, indent=2))
    assert json.loads(made) == {text: [text]}
    assert all(
        unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
        for char in made
        if char != "\n"
    )


@given(texts)
def test_a_name_is_one_line(text: str) -> None:
    assert printable(text).isprintable()
    printable(text).encode()


@pytest.mark.parametrize(
    "text",
    [
        "plain\n\ttext\r\nof Windows",
        FAMILY,
        "❤\ufe0f",
        "1\ufe0f\u20e3",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian: "I want"
        "\u0915\u094d\u200d\u0937",  # Devanagari: a half form
        "漢\u3000字",
        "12\u00a0km",
        "葛\U000e0100",
    ],
)
def test_what_a_language_needs_stays_in_an_answer(text: str) -> None:
    assert terminal_text(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\rb\x08", "a\\x0db\\x08"),
        ("\x9b31m", "\\u009b31m"),
        ("evil\u202etxt.exe", "evil\\u202etxt.exe"),
        ("pass\u200dword", "pass\\u200dword"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("a\u2028b\u2029", "a\\u2028b\\u2029"),
        ("hidden\U000e0041\U000e0042", "hidden\\U000e0041\\U000e0042"),
        (FLAG_WITH_TAGS, "\U0001f3f4\\U000e0067\\U000e0062\\U000e007f"),
        ("漢\ufe00\ufe01\ufe02", "漢\ufe00\\ufe01\\ufe02"),
        ("漢\u200d\u200d漢", "漢\\u200d\\u200d漢"),
        ("\u200d漢", "\\u200d漢"),
        ("\ud800\udc85", "\\ud800\\x85"),
        ("\ue000\uffff", "\\ue000\\uffff"),
        ("\u3164\u034f", "\\u3164\\u034f"),
        ("/old\ufffc/tmp", "/old\\ufffc/tmp"),
        ("\U00013441\U00013442", "\\U00013441\\U00013442"),
    ],
)
def test_what_deceives_becomes_an_escape(text: str, shown: str) -> None:
    assert terminal_text(text) == shown


MANY = "\u0489\u0338\u20e5\u0334" * 50


@pytest.mark.parametrize("shown", [terminal_text, terminal_line, printable, json_text])
@pytest.mark.parametrize(
    "text",
    [f"Z{MANY}", MANY, "\u0334\u200d" * 200, f"漢\ufe00{MANY}"],
    ids=["letter", "none", "joined", "chosen"],
)
def test_marks_on_one_character_are_limited(shown: Callable[[str], str], text: str) -> None:
    most = marks = 0
    for char in shown(text):
        if char not in "\u200c\u200d":
            marks = marks + 1 if unicodedata.category(char) in ("Mn", "Me") else 0
            most = max(most, marks)
    assert most <= 6


def test_the_marks_that_are_too_many_become_escapes() -> None:
    text = "Z" + "\u0338" * 8
    for shown in (terminal_text, terminal_line, printable, json_text):
        assert shown(text) == "Z" + "\u0338" * 6 + "\\u0338" * 2
    assert json.loads(json_text(json.dumps(text, ensure_ascii=False))) == text


@pytest.mark.parametrize(
    "text", ["שָּׁ֑ל", "བསྒྲུབས", "ที่", "g\u0303\u0323 e\u0301" * 40], ids=["hebrew", "tibetan", "thai", "latin"]
)
def test_the_marks_that_a_script_needs_stay_in_an_answer(text: str) -> None:
    assert terminal_text(text) == text
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("C:\\dir\\new\\", "C:\\dir\\new\\"),
        ("\\x1b", "\\\\x1b"),
        ("\\\x1b", "\\\\\\x1b"),
        ("\\\\n", "\\\\\\n"),
        ("curl\u00a0x\u3000y", "curl\\u00a0x\\u3000y"),
        (FAMILY, "\U0001f468\\u200d\U0001f469\\u200d\U0001f467"),
        ("print('a\\n')\n", "print('a\\n')\n"),
    ],
)
def test_an_approval_tells_an_escape_from_its_text(text: str, shown: str) -> None:
    assert exact(text) == shown


def test_a_byte_of_a_file_name_that_is_no_utf_8_shows_as_that_byte() -> None:
    assert printable("caf\udce9\n") == "caf\\xe9\\n"


def test_a_byte_that_is_no_utf_8_has_one_form_which_no_character_has() -> None:
    for byte in range(0x80, 0x100):
        raw, shown = chr(0xDC00 + byte), f"\\x{byte:02x}"
        assert {f(raw) for f in (exact, exact_line, exact_blanks, exact_label, printable, terminal_text)} == {
            shown
        }
        assert bytes([byte]).decode(errors="backslashreplace") == shown, "as a tool's result has it"
        assert shown not in (exact(chr(byte)), printable(chr(byte)), terminal_text(chr(byte)), exact(shown))


@given(texts)
def test_what_is_approved_has_one_way_to_be_written(text: str) -> None:
    shown = exact(text)
    assert unicodedata.normalize("NFC", shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rm -rf /\u0338", "rm -rf /\\u0338"),
        ("\u0336hidden", "\\u0336hidden"),
        ("e\u0301", "e\\u0301"),
        ("\u212b", "\\u212b"),
        ("\u1100\u1161", "\\u1100\\u1161"),
        ("conf\u0131\u0307g \u0237\u0307son", "conf\u0131\\u0307g \u0237\\u0307son"),
        ("\u0131\u0323\u0307", "\u0131\u0323\\u0307"),
        ("\u025b\u0335", "\u025b\\u0335"),
        ("\u0915" + "\u0951" * 9, "\u0915" + "\u0951" * 3 + "\\u0951" * 6),
    ],
)
def test_a_mark_hides_no_letter_and_passes_for_none(text: str, shown: str) -> None:
    assert exact(text) == shown
    assert exact_json(text) == shown


@pytest.mark.parametrize(
    "word",
    ["é", "क्षि", "กำลังที่น้ำแกง", "ນ້ຳແກງ", "שָׁלוֹם", "بِسْمِ", "각ㅋㅋ", "Việt", "ɛ́ıǰ", "և"],
    ids=lambda word: hex(ord(word[0])),
)
def test_the_marks_that_a_script_needs_are_shown(word: str) -> None:
    assert exact(word) == word
    assert exact_json(word) == word


MARK = "\u0301"


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("text", ["a" + MARK * 60 + " end", ("a" + MARK * 5) * 4, "a" + f"{MARK}\u200d" * 9])
def test_marks_in_several_pieces_count_together(text: str, size: int) -> None:
    escaped = TerminalStream()
    shown = "".join(escaped(text[start : start + size]) for start in range(0, len(text), size))
    assert shown.count(MARK) == terminal_text(text).count(MARK)
    assert shown.replace("\\u0301", MARK).replace("\\u200d", "\u200d") == text


def test_a_piece_that_begins_another_character_begins_another_count() -> None:
    escaped = TerminalStream()
    assert [escaped(piece) for piece in ("a" + MARK * 6, "", "b" + MARK, MARK)] == [
        "a" + MARK * 6,
        "",
        "b" + MARK,
        MARK,
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("p\u0430ypal.com", "p\\u0430ypal.com"),
        ("re\u0441ord \u03bfk", "re\\u0441ord \\u03bfk"),
        ("\u0440\u0430\u0443", "\u0440\u0430\u0443"),
        ("paypa\uffdc.com", "paypa\\uffdc.com"),
        ("go\u3147gle", "go\\u3147gle"),
        ("\U0001d69aaypal", "\\U0001d69aaypal"),
        ("T\u30b7\u30e3\u30c4", "T\u30b7\u30e3\u30c4"),
        ("1\u00aa", "1\u00aa"),
        (
            "\u043f\u0440\u0438\u0432\u0435\u0442 world caf\u00e9",
            "\u043f\u0440\u0438\u0432\u0435\u0442 world caf\u00e9",
        ),
        ("\u4f7f\u7528python\u8bfb \u30c6\u30b9\u30c8test \ud55c\uae00ok", None),
        ("report\U0001d159", "report\\U0001d159"),
        ("report\ufffc", "report\\ufffc"),
        ("./bui\u217cd.sh \ufb01le", "./bui\\u217cd.sh \\ufb01le"),
        ("\U0001d5cb\U0001d5c6 80\U0001d7ea", "\\U0001d5cb\\U0001d5c6 80\\U0001d7ea"),
        ("\u01c6 \u01f1 \U0001d6fc", "\\u01c6 \\u01f1 \\U0001d6fc"),
        ("\uff2a\uff32\u6771\u65e5\u672c 1\u00ba \u00bd \u2460 \u2116 5", None),
    ],
)
def test_a_letter_of_another_alphabet_passes_for_no_latin_one(text: str, shown: str | None) -> None:
    assert exact(text) == (text if shown is None else shown)


def test_no_text_looks_like_the_next_part_of_a_line_that_was_too_long() -> None:
    assert (exact_line("┊ x"), exact("┊ x"), exact_blanks("┊ x")) == ("\\u250a x",) * 3


@given(
    st.text(
        st.one_of(
            st.sampled_from("a '\\\n\x1b\u202e$`\"!é"), st.characters(codec="utf-8", exclude_characters="\0")
        ),
        max_size=12,
    )
)
@settings(max_examples=20, deadline=None)
def test_a_shell_reads_a_word_as_it_was(text: str) -> None:
    word = shell_word(text)
    assert printable(word) == word
    said = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True).stdout
    assert said == text.encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://good.com∕x.evil.com/", r"https://good.com\u2215x.evil.com/"),
        ("a․b", r"a\u2024b"),
        ("echo ‘note; touch x’", r"echo \u2018note; touch x\u2019"),
        ("rm ʹaʹ", r"rm \u02b9a\u02b9"),
        ("a‐b", r"a\u2010b"),
        ("café – naïve, 5 €, 5°, 日本、git，次", None),
    ],
)
def test_punctuation_in_a_line_passes_for_no_ascii(text: str, shown: str | None) -> None:
    assert exact(text) == (shown or text)
    assert exact_line(text) == (shown or text)
    assert exact_json(json.dumps(text, ensure_ascii=False)) == f'"{shown or text}"'
    assert exact_blanks("She said: “it’s – so”") == "She said: “it’s – so”"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("น\u0e49\u0e4dา", "น\u0e49\\u0e4dา"),
        ("น\u0e4d\u0e49า", "น\\u0e4d\u0e49า"),
        ("ນ\u0ecd\u0ec9າ", "ນ\\u0ecd\u0ec9າ"),
        ("\u0e40\u0e40ก", "\\u0e40\u0e40ก"),
        ("\u0ec0\u0ec0ກ", "\\u0ec0\u0ec0ກ"),
        ("ก\u0e49\u0e34", "ก\u0e49\\u0e34"),
        ("\ufe8d\ufedd \ufefb", "\\ufe8d\\ufedd \\ufefb"),
        ("\u2f00\u2e9f\u31d0一月", "\\u2f00\\u2e9f\\u31d0一月"),
        ("\u1100\u3131", "\\u1100\u3131"),
        ("\u03d5 \u03c6", "\\u03d5 \u03c6"),
        ("\u2135\ufb21 \u05d0", "\\u2135\\ufb21 \u05d0"),
    ],
)
def test_of_two_spellings_that_are_drawn_alike_the_rare_one_is_shown_as_escapes(
    text: str, shown: str
) -> None:
    assert exact(text) == shown
    assert exact_json(text) == shown


def test_the_sign_of_a_millionth_is_not_the_greek_letter() -> None:
    assert exact("5 \u00b5 \u03bc") == "5 \\u00b5 \u03bc"


def test_no_letter_looks_like_its_parts() -> None:
    """Such as a Tamil vowel of two halves: fonts draw the one character and its halves alike."""
    for code in range(0x80, 0x110000):
        char = chr(code)
        if unicodedata.decomposition(char) and (parts := unicodedata.normalize("NFD", char)) != char:
            for letter in ("", "\u0b95", "a"):
                assert exact(letter + char) != exact(letter + parts)
                assert unicodedata.normalize("NFC", exact(letter + parts)) == exact(letter + parts), ascii(
                    parts
                )


def test_one_expression_finds_the_signs_that_show_nothing() -> None:
    # Controls, surrogates, separators, private and free code points have another meaning, or none yet.
    others = ("Cc", "Cs", "Co", "Cn", "Zl", "Zp")
    signs = [each for each in map(chr, range(0x10000)) if unicodedata.category(each) not in others]
    assert [each for each in signs if is_unseen(each) and not re.match(UNSEEN, each)] == []
