"""The page's texts: each is there in both languages, with the same places for values."""

from __future__ import annotations

import re
from pathlib import Path

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
