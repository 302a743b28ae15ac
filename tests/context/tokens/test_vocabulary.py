"""Tokens that are looked up on disk are tiktoken's own; tiktoken is loaded where many texts are counted."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from base64 import b64decode
from pathlib import Path

import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st

from zeus_runtime.context.tokens import encodings
from zeus_runtime.context.tokens.vocabulary import Vocabulary, ascii_pattern, sorted_lines

FILE = encodings.file_of("o200k_base")
SORTED = Path(encodings.__file__).with_name("o200k_base.sorted")
TEXTS = sorted((Path(__file__).parents[3] / "scripts" / "token_texts").glob("*.txt"))
WORDS = (
    "the",
    " the",
    "I'LL",
    "naïve",
    "中文字",
    "🙂👍🏽",
    "\r\n",
    "\t\t",
    "  x",
    "0123456789",
    "://",
    "\u200d",
    "ﬁ",
)


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    found = Vocabulary.of(FILE, SORTED)
    assert found is not None
    return found


def whole(text: str) -> int:
    return len(encodings.loaded("o200k_base").encode_ordinary(text))


def test_the_sorted_file_is_made_from_the_encoding_that_litellm_carries() -> None:
    pattern = encodings.loaded("o200k_base")._pat_str
    assert SORTED.read_bytes() == sorted_lines(FILE.read_bytes(), pattern), (
        "python scripts/sort_vocabulary.py"
    )


def test_each_token_has_its_rank_and_other_bytes_have_none(vocabulary: Vocabulary) -> None:
    lines = [line.split() for line in FILE.read_bytes().splitlines()]
    ranks = {b64decode(token): int(rank) for token, rank in lines}
    for token in [*list(ranks)[::53], b64decode(min(lines)[0]), b64decode(max(lines)[0])]:
        assert vocabulary.rank(token) == ranks[token]
        for other in (token + b"\xff\x00", token[:-1] + b"\xfe\xfe", b"\xff" + token):
            assert vocabulary.rank(other) == ranks.get(other)


def test_texts_count_as_tiktoken_counts_them(vocabulary: Vocabulary) -> None:
    for path in TEXTS:
        text = path.read_text("utf-8")[:15_000]
        assert vocabulary.count(text) in (whole(text), None), path.name
    assert (
        sum(vocabulary.count(path.read_text("utf-8")[:15_000]) is not None for path in TEXTS)
        > len(TEXTS) // 2
    )


@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=12) | st.binary(max_size=9).map(repr)).map("".join))
@example("")
@example("a\u0558b")
@example("broken \ud83d half")
def test_any_text_counts_as_tiktoken_counts_it_or_not_at_all(text: str) -> None:
    vocabulary = Vocabulary.of(FILE, SORTED)
    assert vocabulary is not None
    found = vocabulary.count(text)
    assert found == whole(text) or (found is None and not text.isascii())


PATTERN = SORTED.read_bytes().partition(b"\n")[0].decode()
ALL_WORDS = regex.compile(PATTERN).findall
WORDS_OF_ASCII = re.compile(ascii_pattern(PATTERN), re.ASCII).findall


@given(
    st.text("aZ09 '/.\t\n\x0b\r\x1c\x7f" + "sSdDmMtTlLvVeErR", max_size=40)
    | st.text(st.characters(max_codepoint=127))
)
@example("I'LL we'Ve  \r\n\n x\x1fy 1234//\n")
def test_a_text_of_ascii_is_divided_as_the_encoding_divides_it(text: str) -> None:
    assert WORDS_OF_ASCII(text) == ALL_WORDS(text)


def test_texts_of_ascii_are_divided_as_the_encoding_divides_them() -> None:
    for path in TEXTS:
        text = path.read_text("utf-8").encode("ascii", "ignore").decode()
        assert WORDS_OF_ASCII(text) == ALL_WORDS(text), path.name
    pairs = "".join(chr(one) + chr(two) + "\0" for one in range(128) for two in range(128))
    assert WORDS_OF_ASCII(pairs) == ALL_WORDS(pairs)


def test_every_script_counts_as_tiktoken_counts_it(vocabulary: Vocabulary) -> None:
    chosen = random.Random(0)
    for start in range(0, 0x110000, 256):
        text = "".join(
            f"a{chr(start + chosen.randrange(256))}b {chr(start + chosen.randrange(256))} " for _ in range(4)
        )
        assert vocabulary.count(text) in (whole(text), None), hex(start)


def test_a_word_too_long_to_join_here_is_not_counted(vocabulary: Vocabulary) -> None:
    assert vocabulary.count("q" * 200) == whole("q" * 200)
    assert vocabulary.count("q" * 201) is None


def test_the_order_of_another_file_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(FILE.read_bytes() + b"IQ== 200000\n")
    assert Vocabulary.of(tmp_path / "other", SORTED) is None


COUNTS = """
import random
import sys
from zeus_runtime.context.tokens import exact

count = exact("o200k_base")
few = count("The quick brown fox jumps over 12 lazy dogs. " * 100)
for _ in range(100):
    count("The quick brown fox jumps over 12 lazy dogs. " * 100)
assert "tiktoken" not in sys.modules, "tiktoken was loaded for a few words"
chosen = random.Random(0)
for _ in range(8):
    count(" ".join("".join(chosen.choices("aeiounrst", k=8)) for _ in range(1_000)))
assert "tiktoken" in sys.modules, "many words are looked up, which is slower"
assert count("The quick brown fox jumps over 12 lazy dogs. " * 100) == few
"""


def test_tiktoken_is_loaded_where_many_words_are_counted_and_counts_the_same() -> None:
    done = subprocess.run([sys.executable, "-c", COUNTS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
