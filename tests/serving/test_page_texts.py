"""The page's texts: each is there in both languages, with the same places for values."""

from __future__ import annotations

import re
import sys
import unicodedata
from pathlib import Path

import regex
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.escaping import is_unseen, terminal_text

SOURCES = Path(__file__).parents[2] / "web" / "src"
TEXTS, _, WORDS = (SOURCES / "i18n.ts").read_text(encoding="utf-8").partition("const words")
ROW = re.compile(r'^  "((?:[^"\\]|\\.)*)": "((?:[^"\\]|\\.)*)",$', re.MULTILINE)
PLACE = re.compile(r"\{\w+\}")
NAMES = re.compile(r"`[^`]+`|JSON|Markdown|HTTPS|P50|P90|\{\w+\}")
"""Parts of a text that are the same in both languages."""


def test_every_text_is_translated_with_the_same_places_for_values() -> None:
    rows = ROW.findall(TEXTS)
    assert len(rows) > 250
    for english, chinese in (*rows, *ROW.findall(WORDS)):
        assert sorted(PLACE.findall(english)) == sorted(PLACE.findall(chinese)), english
        assert not re.search("[A-Za-z]{2,}", NAMES.sub("", chinese)), f"{english}: {chinese}"
        assert chinese.strip(), english


def test_no_text_is_there_twice_and_each_is_used() -> None:
    keys = [english for english, _ in (*ROW.findall(TEXTS), *ROW.findall(WORDS))]
    assert len(keys) == len(set(keys))
    code = "\n".join(
        each.read_text(encoding="utf-8") for each in SOURCES.glob("*.ts*") if each.name != "i18n.ts"
    )
    assert [each for each, _ in ROW.findall(TEXTS) if f'"{each}"' not in code] == []


def test_a_model_s_token_has_one_word_and_a_secret_token_another() -> None:
    for english, chinese in ROW.findall(TEXTS):
        if re.search(r"\b[Tt]okens\b", english):
            assert "词元" in chinese, english
        elif re.search(r"\b[Tt]oken\b", english):
            assert "令牌" in chinese, english


def rule(name: str) -> regex.Pattern[str]:
    """A regular expression of the page's code, as Python's library reads it."""
    found = re.search(rf"const {name} =\s*/(.*)/gu;", (SOURCES / "visible.ts").read_text(encoding="utf-8"))
    assert found is not None
    return regex.compile(re.sub(r"\\u\{(\w+)\}", lambda each: chr(int(each[1], 16)), found[1]))


def test_the_page_and_the_terminal_hide_the_same_characters() -> None:
    """A character that shows nothing is an escape in both, and so is a joiner that belongs to no word or emoji."""
    unseen, belongs = rule("UNSEEN"), rule("BELONGS")
    # Their versions of Unicode differ: only what both call the same counts.
    kinds = {
        kind: regex.compile(rf"\p{{{kind}}}") for kind in map(unicodedata.category, map(chr, range(0x20000)))
    }
    known = [
        char
        for char in map(chr, range(sys.maxunicode + 1))
        if (kind := unicodedata.category(char)) not in ("Cn", "Cs") and kinds[kind].match(char)
    ]
    # The page also shows the braille pattern without dots, and keeps tabs and line ends elsewhere.
    differ = {char for char in known if is_unseen(char) != (unseen.match(char) is not None)}
    assert differ == set("\t\n\u2800")
    # Blanks of Unicode 15, which a browser may know before Python does.
    assert all(unseen.match(char) and is_unseen(char) for char in "\U00013441\U00013442")
    for joiner in "\u200c\u200d\ufe0f":
        for char in known:
            text = f"{char}{joiner}{char}"
            is_kept = any(each.start() == 1 for each in belongs.finditer(text))
            # Marks of their own are escapes for other reasons, and so are the joiners beside them.
            if not is_unseen(char) and char not in "0123456789#*":
                assert is_kept == (terminal_text(text)[1:2] == joiner), (hex(ord(char)), joiner)


def test_a_second_selector_is_an_escape_on_the_page_and_in_the_terminal() -> None:
    """Each one vouched for the next: up to six more could not be seen, so two texts looked the same."""
    for char in ("文", "❤", "\u0915\u094d"):
        text = f"{char}\ufe0f\ufe0f\ufe0f"
        kept = [each.start() for each in rule("BELONGS").finditer(text)]
        assert kept == [len(char)]
        assert terminal_text(text) == f"{char}\ufe0f\\ufe0f\\ufe0f"


MARKS = "\u0338\u0310\u20dd\u0308"


@given(st.text(st.sampled_from(f"a\u05d0\u200c\u200d{MARKS}"), max_size=24))
def test_the_page_and_the_terminal_show_as_many_marks_on_a_letter(text: str) -> None:
    text = f"x{text}"
    shown = rule("HEAPED").sub(lambda each: f"\\u{ord(each[0]):04x}", text)
    assert [shown.count(mark) for mark in MARKS] == [terminal_text(text).count(mark) for mark in MARKS]
    # On the page each text is an element of its own: a mark at its beginning is on the letter before it.
    assert rule("HEAPED").match("\u0310") is not None
