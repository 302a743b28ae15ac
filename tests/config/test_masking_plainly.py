"""Masking leaps over most of a text; here every character is looked at, by the plain rules, with the same result."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

from hypothesis import example, given, settings
from hypothesis import strategies as st

from zeus_runtime.config import Redactor
from zeus_runtime.config.secrets import encoded, masking, matching, searches
from zeus_runtime.config.secrets.matching import Meaning

WORD, PHRASE, ODD, WIDE = (
    "sk-a7Qx90LmZt-W3",
    "correct horse battery",
    'p@s%s/w"R\\d 9&',
    "Gr\u00fc\u00dfe-4711-x",
)
REDACTORS = [
    Redactor().adding({WORD: "WORD", PHRASE: "PHRASE", WIDE: "WIDE"}),
    Redactor().adding(
        {
            ODD: "ODD",
            "4829173650": "PIN",
            f"{WORD}-and-more": "LONGER",
            "x\n 9 yz-a8": "LINES",
            "pg:u:QUJDREVGR0hJ@h": "URL",
        }
    ),
]
HELD = [secret for each in REDACTORS for secret in each.names]
WAYS: Sequence[Callable[[str], str]] = (
    str,
    str,
    lambda text: text[: len(text) // 2],
    lambda text: text[len(text) // 2 :],
    lambda text: json.dumps(text)[1:-1],
    lambda text: quote(text, safe=""),
    lambda text: html.escape(html.escape(text)),
    lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode("utf-8", "surrogatepass")),
    lambda text: "".join(f"\\{byte:03o}" for byte in text.encode("utf-8", "surrogatepass")),
    lambda text: "".join(f"&#{ord(each)};" for each in text),
    lambda text: base64.b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("="),
    lambda text: base64.b64encode(text.encode("utf-16-le", "surrogatepass")).decode(),
    lambda text: text.encode("utf-8", "surrogatepass").hex(),
    lambda text: "\0".join(text),
    lambda text: text.translate({code: code + 0xFEE0 for code in range(0x21, 0x7F)}),
    lambda text: f"{text[:5]}\n  {text[5:]}",
    lambda text: f'{text[:5]}" +\n  "{text[5:]}',
    lambda text: f"{text[:5]}\x1b[31m{text[5:]}",
    lambda text: f"\x1b]8;;{text}\x1b\\",
    lambda text: text.replace(" ", "\n\t"),
    lambda text: re.sub("(..)", "\\1\u200b", text),
)
JOINTS = [
    *[
        "",
        " ",
        "\n",
        "\n\t",
        "  \n",
        "\n12\t",
        "\r\n",
        "\\n",
        "\\t",
        "\\r",
        "'",
        '"',
        "''",
        "\\",
        "\\\\",
        "%",
        "%25",
        "%4",
    ],
    *[
        "&",
        "&amp;",
        "&#x",
        "\x1b",
        "\x1b[",
        "\x1b[3",
        "\x1b]",
        "\x9b",
        "\\x1b",
        "%1B[m",
        "&#27;",
        "\\u009b",
        "m",
        "\x07",
    ],
    *[
        "\\x",
        "\\0",
        "\\u",
        "\\u{41}",
        "\\ud83d",
        "\0",
        "\u200b",
        "\udcc3",
        "\udce4",
        "\u4f60",
        "\xe4",
        "A",
        "abcdef01",
        "+/",
    ],
    *[
        "<secret:",
        "<secret:WORD>",
        "<secret:ODD:base64>",
        "<secret:none>",
        ">",
        "QUJDREVGR0hJSktM",
        "6162636465666768",
    ],
]
written = st.builds(
    lambda secret, ways: reduce(lambda text, way: way(text), ways, secret),
    st.sampled_from(HELD),
    st.lists(st.sampled_from(WAYS), max_size=3),
)
texts = st.lists(st.one_of(st.sampled_from(JOINTS), written), max_size=10).map("".join)


def plainly(stages: Sequence[Any], text: str) -> str:
    return reduce(lambda text, stage: changed(text, stage)[0], stages, text)


def changed(text: str, stage: Any) -> tuple[str, list[tuple[int, int]]]:
    """What a stage makes of a text, and for each character of it from where to where it was written."""
    parts: list[str] = []
    places: list[tuple[int, int]] = []
    done = 0
    for match in re.finditer(stage.pattern.replace("H", "[0-9a-fA-F]"), text):
        new = matching._decoded_token(match[0]) if stage.meant is None else stage.meant
        if new != match[0]:
            places += [(at, at) for at in range(done, match.start())]
            places += [(match.start(), match.end() - 1)] * len(new)
            parts += [text[done : match.start()], new]
            done = match.end()
    return "".join([*parts, text[done:]]), [*places, *((at, at) for at in range(done, len(text)))]


def plain_stages(text: str, quotes: bool, meaning: Meaning) -> list[Any]:
    """The stages of one meaning, each as often as it is used."""
    fillers = [*matching._WRAPS, *([matching._SEQUENCES] if meaning.sequences else []), *matching._UNSEEN]
    last = [matching._QUOTES] if quotes else []
    begun = plainly(fillers, text)
    if not meaning.passes or not re.search(r"[\\%&]", begun):
        return [*fillers, *last]
    return [*fillers, *matching._CODES * meaning.passes, *matching._BACKSLASHES, *fillers, *last]


def plain_meanings(text: str, *, quotes: bool) -> Iterator[tuple[Meaning, str]]:
    for sequences in (False, True):
        for passes in range(matching._PASSES + 1):
            meaning = Meaning(passes, sequences)
            yield meaning, plainly(plain_stages(text, quotes, meaning), text)


@dataclass
class PlainlyFolded:
    text: str
    places: list[tuple[int, int]]

    def start(self, at: int) -> int:
        return self.places[at][0]

    def end(self, at: int) -> int:
        return self.places[at][1] + 1


def plain_places(
    text: str, *, quotes: bool = True, blanks: bool = True, meaning: Meaning = matching._WHOLE
) -> PlainlyFolded:
    places = [(at, at) for at in range(len(text))]
    for stage in [*plain_stages(text, quotes, meaning), *([] if blanks else [matching._BLANKS])]:
        text, new = changed(text, stage)
        places = [(places[first][0], places[last][1]) for first, last in new]
    return PlainlyFolded(text, places)


def plain_runs(text: str, encoding: Any = encoded._BASE64) -> list[tuple[int, int]]:
    return [each.span() for each in re.finditer(f"[{encoding.alphabet}]{{{encoding.least},}}", text)]


def plain_text_runs(data: bytes, wanted: bytes, least: int) -> list[tuple[int, int]]:
    held = re.escape(bytes(byte for byte in range(256) if wanted[byte]))
    return [each.span() for each in re.finditer(b"[%s]{%d,}" % (held, least), data)]


@contextmanager
def looking_at_every_character() -> Iterator[None]:
    with (
        patch.object(
            searches.Search,
            "held_by",
            lambda self, text, _: tuple(each for each in self.forms if each in text),
        ),
        patch.object(masking, "meanings", plain_meanings),
        patch.object(matching, "meanings", plain_meanings),
        patch.object(masking, "folded_with_places", plain_places),
        patch.object(matching, "folded_with_places", plain_places),
        patch.object(masking, "long_runs", plain_runs),
        patch.object(encoded, "long_runs", plain_runs),
        patch.object(encoded, "_runs", plain_text_runs),
    ):
        yield


def results(text: str, known: Redactor) -> list[Any]:
    lines = [known.settled(text, by_lines=each) for each in (False, True)]
    return [known.text(text), known.told(text), known.masks(text), known.holds(text), *lines]


@given(texts, st.sampled_from(REDACTORS))
@example(f"{WORD[:8]}%1B[m{WORD[8:]}", REDACTORS[0])
@example(f"\x1b[3{ODD}\x1b", REDACTORS[1])
@example(f"{PHRASE[:8]}\\u200b\\n{PHRASE[8:]}", REDACTORS[0])
@example("\udcc3\udcbc" + WIDE.replace("\u00fc", "\udcc3\udcbc"), REDACTORS[0])
def test_masking_is_what_the_plain_rules_say(text: str, known: Redactor) -> None:
    found = results(text, known)
    with looking_at_every_character():
        assert results(text, known) == found


@settings(max_examples=100, deadline=None)
@given(texts, st.booleans())
def test_no_meaning_of_a_text_is_left_out(text: str, quotes: bool) -> None:
    found = list(matching.meanings(text, quotes=quotes))
    assert {meant for _, meant in found} == {meant for _, meant in plain_meanings(text, quotes=quotes)}
    for meaning, meant in found:
        plain = plain_places(text, quotes=quotes, meaning=meaning)
        places = matching.folded_with_places(text, quotes=quotes, meaning=meaning)
        assert (plain.text, places.text) == (meant, meant)
        assert [(places.start(at), places.end(at) - 1) for at in range(len(meant))] == plain.places


@given(texts.map(lambda text: text + text[::-1]))
def test_a_text_holds_a_secret_where_masking_changes_it(text: str) -> None:
    for known in REDACTORS:
        assert known.holds(text) == (known.text(text) != text)
