"""Masking for what a model reads and a log keeps: nothing leaks, nothing else changes, a masked file comes back."""

from __future__ import annotations

import base64
import html
import json
import re
import string
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from zeus_runtime.config import ConfigError, Redactor, check, load
from zeus_runtime.config.layers.loading import shown_setting
from zeus_runtime.config.layers.set_option import parse_setting
from zeus_runtime.config.messages.diagnostics import render
from zeus_runtime.config.secrets.connection_strings import is_broken_login
from zeus_runtime.config.secrets.masking import Learned, mask_line, secrets_of_environment
from zeus_runtime.config.secrets.matching import folded
from zeus_runtime.config.secrets.placeholders import PLACEHOLDER, is_searched, looks_random
from zeus_runtime.config.yaml.reader import read_value
from zeus_runtime.config.yaml.sources import Sources, unread_lines
from zeus_runtime.config.yaml.tree import Mark
from zeus_runtime.store.service_keys import KEY_FORM
from zeus_runtime.tools.masked_text import masked_bytes

KEY = "sk-live-0123456789"
NAMES = {KEY: "API_KEY", 'pass/wörd "quoted" + 1': "DB_PASSWORD", "postgres": "PG_PASSWORD"}
REDACTOR = Redactor().adding(NAMES)
PEM = "-----BEGIN KEY-----\nMIIEowIBAAKCAQEA7bq2\nzJ0l1mN3oP4qR5sT6uV7\n-----END KEY-----\n"

alphabet = string.ascii_letters + string.digits + " \n\t\"'\\/+=%-_.:@äß漢"
secrets = st.lists(st.text(alphabet, min_size=6, max_size=30).filter(is_searched), min_size=1, max_size=4)
noise = st.text(alphabet, max_size=12)


@st.composite
def texts_with(draw: st.DrawFn, known: Redactor) -> str:
    written = st.sampled_from(known.forms)
    return "".join(draw(st.lists(st.one_of(noise, written), max_size=8)))


@given(st.data())
def test_no_form_of_a_secret_is_left(data: st.DataObject) -> None:
    known = Redactor().adding(data.draw(secrets))
    masked = known.masked(data.draw(texts_with(known)))
    bare = known.restored(masked, "")
    for shown in dict(zip(known.forms, map(known.masked, known.forms), strict=True)).values():
        bare = bare.replace(shown, "\0")
    assert not [form for form in known.forms if form in bare]


@given(st.data())
def test_masking_twice_is_masking_once(data: st.DataObject) -> None:
    known = Redactor().adding(data.draw(secrets))
    masked = known.masked(data.draw(texts_with(known)))
    assert known.masked(masked) == masked


@given(st.data())
def test_what_was_masked_in_a_file_is_restored_byte_for_byte(data: st.DataObject) -> None:
    known = Redactor().adding(data.draw(secrets))
    text = data.draw(texts_with(known))
    assert known.restored(known.masked(text), text) == text


@given(noise, noise)
def test_text_without_a_secret_stays_as_it_is(before: str, after: str) -> None:
    assert REDACTOR.masked(before + after) == before + after


def test_a_placeholder_names_the_secret_and_is_the_same_in_every_process() -> None:
    assert REDACTOR.masked(f"API_KEY={KEY}\n") == "API_KEY=<secret:API_KEY>\n"
    again = Redactor().adding(["another-secret-1"]).adding(NAMES)
    assert again.masked(f"API_KEY={KEY}\n") == "API_KEY=<secret:API_KEY>\n"


def test_of_two_secrets_that_begin_alike_the_longer_is_masked_whole() -> None:
    known = Redactor().adding({KEY: "SHORT", f"{KEY}-and-more": "LONG"})
    assert known.masked(f"{KEY}-and-more {KEY}") == "<secret:LONG> <secret:SHORT>"
    assert known.settled(f"{KEY}-and") == ("", f"{KEY}-and")


def test_two_secrets_of_one_name_have_two_placeholders() -> None:
    """Whatever is known between them; two digests may begin alike."""
    for between in ({}, {"another-secret-1": "TOKEN"}, {"other-secret-100": "TOKEN"}):
        known = Redactor().adding({"first-secret-1": "TOKEN"}).adding(between)
        known = known.adding({"second-secret-2": "TOKEN", "other-secret-188": "TOKEN"})
        shown = known.masked("first-secret-1 second-secret-2")
        assert shown == "<secret:TOKEN> <secret:TOKEN-1ebb>"
        mark = "3b4a4" if "other-secret-100" in between else "3b4a"
        assert known.masked("other-secret-188") == f"<secret:TOKEN-{mark}>"


def test_secrets_whose_long_names_begin_alike_have_placeholders_of_their_own() -> None:
    name = f"{'LONG_' * 30}API_KEYS"
    known = secrets_of_environment(
        {name: "abcd1234efgh5678,ijkl5678mnop9012", f"{name}_KEY": "qrst3456uvwx7890"}
    )
    shown = known.text("abcd1234efgh5678 ijkl5678mnop9012 qrst3456uvwx7890").split()
    assert len(set(shown)) == 3
    assert all(PLACEHOLDER.fullmatch(each) and len(each) < 120 for each in shown)


@pytest.mark.parametrize("secret", [*(each for each in NAMES if is_searched(each)), PEM])
def test_a_secret_is_masked_however_it_is_written(secret: str) -> None:
    known = Redactor().adding({secret: "S"})
    written = [
        secret,
        json.dumps({"a": secret}),
        json.dumps(secret, ensure_ascii=False),
        f"https://host/?q={quote(secret, safe='')}",
        *(base64.b64encode(f"{user}:{secret}:".encode()).decode() for user in ("", "a", "ab", "user")),
        *(base64.b64encode(f"{user}{secret}:".encode("utf-16")).decode() for user in ("", "a", "ab", "user")),
        *(base64.urlsafe_b64encode(f"{user}:{secret}".encode()).decode() for user in ("", "a", "ab", "user")),
    ]
    for text in written:
        masked = known.masked(text)
        assert "<secret:S" in masked, text
        assert known.restored(masked, text) == text
        assert secret not in masked


def test_a_private_key_is_masked_line_by_line_too() -> None:
    known = Redactor().adding({PEM: "KEY"})
    numbered = "\n".join(f"{number}\t+{line}" for number, line in enumerate(PEM.splitlines(), 1))
    masked = known.masked(numbered)
    assert "MIIEow" not in masked
    assert "zJ0l1m" not in masked
    assert "-----BEGIN KEY-----" in masked, "the frame says nothing and stands in other texts"


@pytest.mark.parametrize(
    "word", ["postgres", "admin", "1", "true", "secret", "Password", "LOCALHOST", "********", ""]
)
def test_an_ordinary_word_is_not_searched_for(word: str) -> None:
    assert Redactor().adding({word: "X"}).masked(f"a {word} b{word}b") == f"a {word} b{word}b"


@pytest.mark.parametrize(
    "secret", ["hunter2", "correct horse battery", "12345678", KEY, "Tr0ub4dor&3", "p" * 7 + "0abc"]
)
def test_what_is_no_word_is(secret: str) -> None:
    assert secret not in Redactor().adding({secret: "X"}).masked(f"a {secret} b{secret}b")


@pytest.mark.parametrize(
    "value",
    [
        "application/json",
        "prompt-caching-2024-07-31",
        "Bearer",
        "Mozilla/5.0 (X11; Linux x86_64)",
        "no-cache",
        "de,en;q=0.5",
    ],
)
def test_an_ordinary_header_value_does_not_look_random(value: str) -> None:
    assert not looks_random(value)


@pytest.mark.parametrize("value", ["sid=abcdef0123456789", "0123abcd-99", "Basic dXNlcjpwYXNzd29yZHNhbmQ"])
def test_a_session_does(value: str) -> None:
    assert looks_random(value)


def test_a_placeholder_of_an_unknown_secret_does_not_shield_a_known_one() -> None:
    assert REDACTOR.masked("<secret:other>") == "<secret:other>"
    assert KEY not in REDACTOR.masked(f"<secret:{KEY}>")


def test_a_placeholder_comes_back_only_where_its_secret_is() -> None:
    assert REDACTOR.restored("a=<secret:API_KEY>", f"API_KEY={KEY}") == f"a={KEY}"
    assert REDACTOR.restored("a=<secret:API_KEY>", "API_KEY=other") == "a=<secret:API_KEY>"
    assert REDACTOR.restored("a=<secret:API_KEY>", "") == "a=<secret:API_KEY>"


def test_a_placeholder_that_is_also_text_of_the_file_is_not_guessed() -> None:
    with pytest.raises(ValueError, match="secret:API_KEY"):
        REDACTOR.restored("a=<secret:API_KEY>", f"API_KEY={KEY} # <secret:API_KEY>")


def test_a_secret_that_is_a_placeholder_is_none() -> None:
    assert Redactor().adding({"<secret:API_KEY>": "OTHER"}).names == {}


def test_a_url_with_a_masked_password_is_not_masked_again() -> None:
    known = Redactor().adding({"p4ssw0rd-x": "DB"})
    once = known("postgres://u:p4ssw0rd-x@host https://p4ssw0rd-x@host")
    assert once == "postgres://u:<secret:DB>@host https://<secret:DB>@host"
    assert known(once) == once


ODD = 'p@ss/w\u00f6rd "it\'s" <1>&2!'


@pytest.mark.parametrize(
    "written",
    [
        quote(ODD),
        quote(ODD, safe=""),
        quote(ODD, safe="!'()*"),
        quote(ODD, safe="!$&'()*+,;="),
        re.sub("%..", lambda digits: digits[0].lower(), quote(ODD, safe="")),
        html.escape(ODD),
        html.escape(ODD, quote=False),
        repr([ODD]),
        str(KeyError(ODD + "\\")),
    ],
)
def test_a_secret_is_found_as_urls_pages_and_exceptions_write_it(written: str) -> None:
    known = Redactor().adding({ODD: "K", ODD + "\\": "L"})
    shown = known.text(written)
    assert "<secret:" in shown
    for part in ("p@ss", "p%40ss", "w\u00f6rd", "2!"):
        assert part not in shown


def test_a_secret_that_is_written_for_a_url_is_masked_as_plain_text_too() -> None:
    redactor = Redactor().adding({"p%40ss/w0rd%21": "DB"})
    assert redactor.text("it is p@ss/w0rd! now") == "it is <secret:DB:url-decoded> now"


INNER = "s3cret-word-42"
OUTER = f"postgres://app:{INNER}@db/shop"
LEFT, RIGHT = "left-part-0815xyz", "0815xyz-right-part"


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("text", [OUTER, f"a {OUTER} b {INNER}", f"{INNER}{OUTER}{INNER}"])
def test_a_secret_within_another_leaves_no_rest_of_either(text: str, turned: bool) -> None:
    pairs = [(INNER, "DB_PASSWORD"), (OUTER, "DATABASE_URL")]
    known = Redactor().adding(dict(reversed(pairs) if turned else pairs))
    masked = known.text(text)
    assert masked == text.replace(OUTER, "<secret:DATABASE_URL>").replace(INNER, "<secret:DB_PASSWORD>")
    assert known.restored(masked, text) == text


@pytest.mark.parametrize("turned", [False, True])
def test_secrets_that_overlap_are_masked_to_the_end_of_the_last(turned: bool) -> None:
    pairs = [(LEFT, "LEFT"), (RIGHT, "RIGHT")]
    known = Redactor().adding(dict(reversed(pairs) if turned else pairs))
    text = "a left-part-0815xyz-right-part!"
    masked = known.text(text)
    assert masked == "a <secret:LEFT><secret:RIGHT:after-7>!"
    assert known.text(masked) == masked
    assert known.restored(masked, text) == text
    told, rest = known.settled(text[:19])
    assert (told, rest) == ("a ", LEFT), "more of the other may follow"
    assert known.settled(f"{rest}{text[19:]} b") == (f"{masked[2:]} ", "b")


def test_a_placeholder_of_an_unknown_secret_hides_no_secret_that_begins_in_it() -> None:
    known = Redactor().adding({"in>side-4711": "S"})
    assert known.text("<secret:in>side-4711") == "<secret:<secret:S>"


@pytest.mark.parametrize(
    "written",
    [
        unicodedata.normalize("NFD", "Gr\u00fc\u00dfe-4711-x"),
        json.dumps(unicodedata.normalize("NFD", "Gr\u00fc\u00dfe-4711-x")),
        "Gr\u00fc\u00dfe-4711-x".encode("utf-16-le").decode("latin-1").removesuffix("\0"),
    ],
)
def test_a_secret_is_found_in_another_form_of_unicode(written: str) -> None:
    known = Redactor().adding({"Gr\u00fc\u00dfe-4711-x": "S"})
    assert "4711" not in known.text(written).replace("\0", "")


def test_a_secret_is_found_in_full_width() -> None:
    wide = KEY.translate({code: code + 0xFEE0 for code in range(0x21, 0x7F)})
    assert REDACTOR.text(f"is {wide}.") == "is <secret:API_KEY:full-width>."


def test_a_secret_that_is_learned_later_is_masked_by_every_redactor_made_before() -> None:
    root = secrets_of_environment({"API_KEY": KEY})
    made = root.adding({"another-secret-1": "OTHER"})
    family = Redactor().adding(["third-secret-1"]).joined(made)
    assert made.text("fresh-token-0815") == "fresh-token-0815"
    made.learn("fresh-token-0815", "accounts.far.access_token")
    made.learn("fresh-token-0816", "accounts.far.access_token")
    for known in (root, made, family):
        shown = known.text(f"fresh-token-0815 fresh-token-0816 {KEY}")
        assert shown == (
            "<secret:accounts.far.access_token> <secret:accounts.far.access_token-b08b> <secret:API_KEY>"
        )
        assert known.settled("a fresh-tok") == ("a ", "fresh-tok")
        assert known.json(["fresh-token-0815"]) == ["<secret:accounts.far.access_token>"]


def test_a_token_that_one_gets_is_masked_by_all_who_share_it_and_only_the_newest_of_a_user_are_kept() -> None:
    shared, users = Learned(), Learned(most=2)
    one, two = (Redactor({KEY: "K"}, (Learned(), shared, users)) for _ in range(2))
    one.learn("fresh-token-0815", "accounts.far.access_token")
    assert two.text("fresh-token-0815") == "<secret:accounts.far.access_token>"
    assert (shared.count, users.count) == (1, 0)
    two.learn_all(Redactor({"other-secret-0817": "OTHER"}))
    assert one.text("other-secret-0817") == "other-secret-0817", "it is a secret of the other agent's own"
    tokens = [f"zeus_{number}_0123456789abcdef" for number in range(4)]
    for number, token in enumerate(tokens, 1):
        users.add(token, f"ZEUS_TOKEN-{number}")
        assert one.text(token) == f"<secret:ZEUS_TOKEN-{number}>"
    shown = [one.text(each) for each in tokens]
    assert shown == [*tokens[:2], "<secret:ZEUS_TOKEN-3>", "<secret:ZEUS_TOKEN-4>"]


def test_a_secret_of_another_redactor_has_the_mark_of_its_value_where_its_name_is_taken() -> None:
    ours, theirs = (secrets_of_environment({"API_KEY": each}) for each in (KEY, "other-secret-0817"))
    theirs.learn("fresh-token-0815", "accounts.far.access_token")
    ours.learn_all(theirs)
    shown = ours.text("other-secret-0817 fresh-token-0815")
    assert re.fullmatch("<secret:API_KEY-[0-9a-f]{4}> <secret:accounts.far.access_token>", shown), shown


def of_json(character: str) -> list[str]:
    units = re.findall("....", character.encode("utf-16-be").hex())
    codes = ["".join(f"\\u{unit}" for unit in units), "".join(f"\\u{unit.upper()}" for unit in units)]
    bare = [] if character in '"\\' or character < " " else [character]
    return [*bare, json.dumps(character)[1:-1], *codes, *(["\\/"] if character == "/" else [])]


def of_url(character: str) -> list[str]:
    written = "".join(f"%{byte:02X}" for byte in character.encode())
    bare = [character] if (character.isascii() and character.isalnum()) or character in "-_." else []
    return [*bare, written, written.lower(), written.replace("%", "%25")]


def of_html(character: str) -> list[str]:
    number = ord(character)
    bare = [] if character in "&<>'\"" else [character]
    return [*bare, f"&#{number};", f"&#x{number:x};", f"&#x{number:04X};", html.escape(character)]


def of_shell(character: str) -> list[str]:
    return ["'\\''", "'\"'\"'"] if character == "'" else [character]


def of_git(character: str) -> list[str]:
    written = "".join(f"\\{byte:03o}" for byte in character.encode())
    return [written] if character == "\\" else [character, written]


def of_page(character: str) -> list[str]:
    return [" ", "   ", "\t", " \t "] if character == " " else [character]


# A backslash or a quote at its end belongs to what is around it.
odd_secrets = (
    st.text("abcDEF019 '\"\\/+=%&<>-äß漢😀", min_size=6, max_size=18)
    .map("k{}9".format)
    .filter(lambda text: is_searched(text) and is_searched(folded(text)))
)


@st.composite
def written(draw: st.DrawFn, secret: str, *, wrapped: bool = False) -> str:
    """A secret, each character in one of the ways of one kind of text, and maybe over several lines."""
    ways = draw(st.sampled_from([of_json, of_url, of_html, of_shell, of_git, of_page]))
    parts = [draw(st.sampled_from(ways(character))) for character in secret]
    wraps = ["\n", "\r\n", "\n  ", "\n   12\t", " \n", "  \r\n "]
    breaks = st.sampled_from(["", *wraps, "\x1b[31m", "\x1b[38:5:1m", "\u200b", "\u202e", "\U000e0041"])
    return "".join(part + (draw(breaks) if wrapped and part != parts[-1] else "") for part in parts)


@given(st.data(), st.booleans())
def test_a_secret_is_found_however_its_characters_are_written(data: st.DataObject, wrapped: bool) -> None:
    secret = data.draw(odd_secrets)
    secret = secret.replace(" ", "") if wrapped else secret  # a space after a wrap is the next line's indent
    assume(is_searched(folded(secret)))
    # A wrap within `%0\9` would leave `%09`, which is an escape.
    assume(folded(secret.replace("\\", "")) == folded(secret))
    # A wrap within `""` would leave the end of a string literal and the start of the next.
    assume(not wrapped or not re.search("\"\"|''", secret.replace("\\", "")))
    known = Redactor().adding({secret: "S"})
    text = f"a={data.draw(written(secret, wrapped=wrapped))}|b"  # a semicolon would end an entity
    masked = known.text(text)
    assert re.sub(r"<secret:S[^>]*>|\s|12\t|\x1b\[[\d:]+m|[\u200b\u202e\U000e0041]", "", masked) == "a=|b"
    assert masked.count("\n") == text.count("\n")
    assert known.text(masked) == masked
    assert known.restored(masked, text) == text


@given(st.data(), st.lists(st.integers(1, 12), max_size=30))
def test_a_stream_hides_what_the_whole_text_hides(data: st.DataObject, cuts: list[int]) -> None:
    secret = data.draw(odd_secrets)
    known = Redactor().adding({secret: "S"})
    text = f"a={data.draw(written(secret, wrapped=data.draw(st.booleans())))};b"
    told, rest, at = "", "", 0
    for length in cuts:
        piece, rest = known.settled(rest + text[at : at + length])
        told, at = told + piece, at + length
    assert told + known.text(rest + text[at:]) == known.text(text)


ENCODINGS: dict[str, Callable[[str], str]] = {
    "json": json.dumps,
    "url": lambda text: quote(text, safe=""),
    "html": html.escape,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64 of UTF-16": lambda text: base64.b64encode(text.encode("utf-16-le")).decode(),
    "base64 in lines": lambda text: base64.encodebytes(text.encode()).decode().rstrip(),
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
}
# A backslash or a quote at its end belongs to what is around it. One that spells an escape (`%09`) means another text,
# which must be long enough too; with the escape character (`%1b`), its last characters may be shown.
plain_secrets = (
    st.text("acDEF019 '\"\\/+=%&<>-", min_size=8, max_size=24)
    .map("k{}9".format)
    .filter(lambda text: is_searched(text) and is_searched(folded(text)) and len(folded(text)) >= 8)
)
encodings = st.lists(st.sampled_from(sorted(ENCODINGS)), min_size=1, max_size=3)


def encoded(secret: str, ways: Sequence[str], *, inside: bool = False) -> str:
    for way in ways:
        secret = ENCODINGS[way](f"ci:{secret}, " if inside else secret)
    return secret


@given(plain_secrets, encodings, st.booleans(), st.sampled_from(["", "word", "a\n", "key: ", "x/"]))
def test_a_secret_is_found_in_any_encoding_of_an_encoding_of_an_encoding(
    secret: str, ways: list[str], inside: bool, before: str
) -> None:
    assume(folded(secret.replace("\\", "")) == folded(secret))
    known = Redactor().adding({secret: "S"})
    text = f"{before}{encoded(secret, ways, inside=inside)}\n"
    masked = known.text(text)
    around = ""
    for way in ways:
        # A character on each side, and the padding, belong to the secret and to what is around it.
        around = encoded(around, [way], inside=inside) + "===="
    assert "<secret:S" in masked
    assert len(re.sub(r"<secret:S[^>]*>|\s", "", masked)) <= len(before + around), masked
    assert known.text(masked) == masked
    assert known.restored(masked, text) == text


@given(plain_secrets, encodings, st.booleans(), st.lists(st.integers(1, 40), max_size=30))
@example("k00000&009", ["html", "url", "base64 of UTF-16"], False, [1, 39])
def test_a_stream_hides_what_is_hidden_in_encodings(
    secret: str, ways: list[str], inside: bool, lengths: list[int]
) -> None:
    known = Redactor().adding({secret: "S"})
    text = f"key: {encoded(secret, ways, inside=inside)};b"
    cuts = list(accumulate(lengths, initial=0))
    pieces = [text[start:end] for start, end in pairwise([*cuts, len(text)])]
    assert streamed(known, pieces) == known.text(text)


def test_the_password_in_a_docker_config_in_a_manifest_is_found() -> None:
    known = Redactor().adding({"registry-pass-42": "REGISTRY"})
    auth = base64.b64encode(b"user:registry-pass-42").decode()
    config = json.dumps({"auths": {"r.example": {"auth": auth}}})
    text = f"data:\n  .dockerconfigjson: {base64.b64encode(config.encode()).decode()}\n"
    masked = known.text(text)
    before, after = masked.split(": ")[1].split("<secret:REGISTRY:")
    shown = base64.b64decode(before[: len(before) // 4 * 4]).decode()
    assert shown in '{"auths": {"r.example": {"auth": "dXNlcjpy'
    assert len(after.split(">")[1]) < 16
    assert known.restored(masked, text) == text


@pytest.mark.parametrize("first", range(4))
def test_a_secret_in_binary_data_is_found(first: int) -> None:
    known = Redactor().adding({"k-4711/abcd": "S"})
    data = bytes(range(0xF0, 0xF0 + first)) + b"k-4711\\/abcd" + b"\xff"
    for text in (base64.b64encode(data).decode(), data.hex()):
        masked = known.text(f"a: {text}!")
        assert "<secret:S:escaped" in masked
        assert known.restored(masked, f"a: {text}!") == f"a: {text}!"


def test_each_way_of_encoding_a_secret_has_its_own_placeholder() -> None:
    known = Redactor().adding({"k>>?4711 ~~~ abcd": "S", "ab12cd": "SHORT"})
    inner = b"k\\>>?4711 ~~~ abcd"
    ways = [
        way(bytes(shift) + inner)
        for shift in range(3)
        for way in (base64.b64encode, base64.urlsafe_b64encode)
    ]
    text = " ".join([*(way.decode() for way in ways), inner.hex(), inner.hex().upper()])
    text = f"{text} k>>?4711  ~~~ abcd k>>?4711\t~~~  abcd"
    masked = known.text(text)
    assert len(set(re.findall("<secret:[^>]*>", masked))) == 10
    assert known.restored(masked, text) == text
    assert masked.split()[2].startswith("AG<secret"), (
        "the secret alone decides the characters that are masked"
    )
    short = b"..ab12cd..".hex()
    assert known.text(short) == short, "fewer than eight bytes"


@pytest.mark.parametrize("shift", range(6))
def test_a_stream_that_is_cut_anywhere_within_encodings_shows_what_the_text_shows(shift: int) -> None:
    known = Redactor().adding({"k>>?4711abcd": "S"})
    inner = base64.b64encode(bytes(shift % 3 * b"x") + b"k>>\\?4711abcd, x").decode()
    text = f"a {base64.b64encode((shift * 'y' + inner).encode()).decode()} {inner.encode().hex()};"
    assert known.text(text).count("<secret:S") == 2
    for place in range(len(text)):
        assert streamed(known, [text[:place], text[place:]]) == known.text(text), place
    assert streamed(known, list(text)) == known.text(text)


@given(st.text("ABCDEFabcdef0123456789+/-_ \n'\"", max_size=200))
def test_what_looks_encoded_and_holds_no_secret_stays_as_it_is(text: str) -> None:
    known = Redactor().adding({"sk-live-0123456789": "A", "correct horse 'battery' staple": "B"})
    assert known.text(text) == text


# A number between a line break and a tab is that of a line.
words = st.lists(st.text("abcXYZ019", max_size=5).map("k{}".format), min_size=2, max_size=5)
white = st.sampled_from(
    [" ", "  ", "\t", "\n", "\n    ", "\r\n", " \n  12\t", "\u00a0", "%20", "&nbsp;", "\\u00a0", "\\n"]
)


@given(st.data(), words, st.lists(st.integers(1, 9), max_size=20))
def test_a_passphrase_is_found_with_any_white_space_between_its_words(
    data: st.DataObject, parts: list[str], lengths: list[int]
) -> None:
    phrase = " ".join(parts)
    assume(is_searched(phrase) and is_searched("".join(parts)))
    known = Redactor().adding({phrase: "P", "other-secret-1": "O"})
    text = f"a={parts[0]}{''.join(data.draw(white) + part for part in parts[1:])};b"
    masked = known.text(text)
    assert re.sub(r"<secret:P[^>]*>|\s|12\t|%20|&nbsp;|\\u00a0|\\n", "", masked) == "a=;b", masked
    assert known.text(masked) == masked
    assert known.restored(masked, text) == text
    cuts = list(accumulate(lengths, initial=0))
    assert streamed(known, [text[start:end] for start, end in pairwise([*cuts, len(text)])]) == masked


def test_words_are_no_passphrase_without_its_blanks_and_a_token_is_none_with_blanks() -> None:
    known = Redactor().adding({"Hello Big World": "P", "abcd1234efgh": "T"})
    for text in (
        "HelloBigWorld",
        "Hello BigWorld",
        "HelloBig\nWorld",
        "abcd 1234 efgh",
        "abcd\u00a01234efgh",
    ):
        assert known.text(text) == text
    assert known.text("Hello\u00a0Big  World") != "Hello\u00a0Big  World"


@pytest.mark.parametrize("between", ["\n    ", " \\\n", " +\r\n  ", "\n\t+ ", "\n    7\t  "])
@pytest.mark.parametrize("mark", ["'", '"'])
def test_a_token_in_two_string_literals_is_found(between: str, mark: str) -> None:
    known = Redactor().adding({"abcd1234efgh": "T"})
    plain = f"x = {mark}abcd12{mark}{between}{mark}34efgh{mark}\n"
    for text in (plain, json.dumps(plain)):
        masked = known.text(text)
        assert "abcd12" not in masked
        assert "34efgh" not in masked
        assert masked.count("\n") == text.count("\n")
        assert known.restored(masked, text) == text
        for place in range(len(text)):
            assert streamed(known, [text[:place], text[place:]]) == masked, place
        assert streamed(known, list(text)) == masked
    apart = plain.replace(between, f",{between}")
    assert known.text(apart) == apart


def test_a_stream_hides_an_encoded_secret_that_was_learned_meanwhile() -> None:
    known = Redactor({"another-secret-1": "A"}, (Learned(),))
    text = base64.b64encode(base64.b64encode(b"learned-secret-2")).decode()
    assert streamed(known, list(text)) == text
    known.learn("learned-secret-2", "L")
    assert "<secret:L" in streamed(known, list(text))
    assert text[:8] not in streamed(known, list(text))


ESCAPED = "wJa/lr&U+x'n\"F<E"


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(ESCAPED).replace("&", "\\u0026").replace("<", "\\u003c"),
        json.dumps(ESCAPED).replace("/", "\\/"),
        json.dumps(ESCAPED).replace("+", "\\u002B").replace("'", "\\u0027"),
        json.dumps({"body": json.dumps({"page": html.escape(ESCAPED)})}),
        quote(json.dumps(ESCAPED)),
        html.escape(quote(ESCAPED)),
        "'" + ESCAPED.replace("'", "'\\''") + "'",
        "'" + ESCAPED.replace("'", "''") + "'",
        re.sub(r"(\W)", r"\\\1", ESCAPED),
        ascii(ESCAPED.encode()),
        "".join(f"&#{ord(each)};" for each in ESCAPED),
        "".join(f"%{ord(each):02x}" for each in ESCAPED),
        "".join(f"\\x{ord(each):02x}" for each in ESCAPED),
        "".join(f"\\{ord(each):03o}" for each in ESCAPED),
    ],
)
def test_a_secret_is_found_as_programs_write_it(text: str) -> None:
    known = Redactor().adding({ESCAPED: "S"})
    masked = known.text(text)
    assert re.search("<secret:S:escaped-[0-9a-f]{24}>", masked)
    for part in ("wJa", "lr", "Ux"):
        assert part not in masked
    assert known.restored(masked, text) == text


@pytest.mark.parametrize("way", ["escaped", "part", "base64-escaped"])
@pytest.mark.parametrize("after", ["", "-after-7"])
@pytest.mark.parametrize("secret", ["0123456789abcdef01234567", "9f8e7d6c5b4a", "４１２ｆ９ｂ０ｃ７７ａ１"])
def test_the_digits_of_a_placeholder_are_no_place_for_a_secret(secret: str, way: str, after: str) -> None:
    known = Redactor().adding({secret: "OTHER", ESCAPED: "S"})
    digits = unicodedata.normalize("NFKC", secret)
    text = f"<secret:S:{way}-{digits:0<24}{after}>"
    masked = known.text(text)
    assert digits not in masked
    assert known.text(masked) == masked
    assert known.placeholders_in(text) == []


def test_the_digits_of_a_notation_stay() -> None:
    known = Redactor().adding({"0123456789abcdef01234567": "OTHER", ESCAPED: "S"})
    masked = known.text(json.dumps(ESCAPED))
    assert known.text(masked) == masked
    assert known.placeholders_in(masked) == [masked.strip('"')]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\n   4\t", "\\n"])
@pytest.mark.parametrize("before", range(0, 76, 7))
def test_wrapped_base64_hides_a_secret_on_both_lines(before: int, newline: str) -> None:
    text = base64.encodebytes(b"x" * before + f" {KEY} ".encode() + b"y" * 70).decode().replace("\n", newline)
    masked = REDACTOR.text(text)
    (form,) = (each for each in REDACTOR.forms if each in text.replace(newline, ""))
    assert not [start for start in range(len(form) - 3) if form[start : start + 4] in masked]
    assert newline == "\\n" or masked.count(newline) == text.count(newline)
    assert REDACTOR.restored(masked, text) == text


def test_an_escaped_neighbour_that_is_not_the_secret_stays() -> None:
    for text in (
        "sk-live\\u002d0123456788",
        "sk-live-\n\n01234 56789",
        "a%20b&amp;c\\n\n d",
        "C:\\new\\table",
    ):
        assert REDACTOR.text(text) == text


def test_a_secret_with_blanks_is_found_where_many_are_one_and_one_is_many() -> None:
    known = Redactor().adding({"correct horse  battery\tstaple": "P"})
    for text in (
        "correct horse battery staple",
        "correct  horse battery\t\tstaple",
        "cor\nrect horse\tbattery staple",
    ):
        masked = known.text(f"a {text} b")
        assert re.sub("<secret:P[^>]*>", "", masked).split() == ["a", "b"]
        assert known.restored(masked, f"a {text} b") == f"a {text} b"
    assert known.text("correct horse battery") == "correct horse battery"
    assert Redactor().adding({"abcd 123  ": "P"}).text("abcd 123  \n") == "<secret:P>\n"


def test_a_secret_whose_meaning_is_an_ordinary_word_is_found_only_as_it_is() -> None:
    known = Redactor().adding({"p%61ssword": "S"})
    assert known.text("p%61ssword password") == "<secret:S> password"


WRITERS: dict[str, Callable[[str], str]] = {
    "JSON": json.dumps,
    "a URL": lambda text: quote(text, safe=""),
    "repr": lambda text: repr([text]),
    "HTML": html.escape,
    "PHP": lambda text: text.replace("\\", "\\\\").replace("'", "\\'"),
    "SQL": lambda text: text.replace("'", "''"),
    "base64 of JSON": lambda text: base64.b64encode(json.dumps(text).encode()).decode(),
}


@pytest.mark.parametrize("way", WRITERS)
@pytest.mark.parametrize(
    "secret", ["L%<V\\Igy", "Kx!mQ\\vz", "shop\\development", "ab''\"\"cd", "k\\n xy\\z"]
)
def test_a_secret_is_judged_as_it_is_written_and_found_in_every_form(secret: str, way: str) -> None:
    """Without its backslashes and runs of quotes it would be too short, or a word."""
    known = Redactor().adding({secret: "S"})
    assert known.text(secret) == "<secret:S>"
    text = f"a ={WRITERS[way](secret)}; b"
    masked = known.text(text)
    assert "<secret:S" in masked
    assert len(re.sub("<secret:S[^>]*>", "", masked)) < len('a =[""]; b') + 4
    assert known.restored(masked, text) == text


def test_a_word_that_a_secret_means_without_its_backslash_stays() -> None:
    secrets = ["pass\\word", "\\a\\b\\c\\d", "m\\y\\ old", "\\r\\'\\\"\\'"]
    known = Redactor().adding(dict(zip(secrets, "STUV", strict=True)))
    text = "password Password 'password' abcd my old my\told C:/ab\\cd " + "'\"" * 9
    assert known.text(text) == text
    assert known.text("pass\\\\word").startswith("<secret:S:")


def test_two_ways_of_writing_one_secret_have_two_placeholders() -> None:
    known = Redactor().adding({"abc+def/4711": "S"})
    text = "abc\\u002Bdef/4711 abc\\u002bdef/4711 abc+def\\/4711 abc+def/4711"
    masked = known.text(text)
    assert len(set(masked.split())) == 4
    assert known.restored(masked, text) == text
    turned = " ".join(reversed(masked.split()))
    assert known.restored(turned, text) == " ".join(reversed(text.split()))


PRIVATE = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq7w0B\nZZk39dkslKJDkjd93jdk\nQ0s=\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize("secret", [PRIVATE, PRIVATE.replace("\n", "\\n"), PRIVATE.replace("\n", "\r\n")])
def test_a_private_key_is_found_in_json_and_in_a_file_whichever_of_them_is_known(secret: str) -> None:
    known = Redactor().adding({secret: "K"})
    for text in (PRIVATE, PRIVATE.replace("\n", "\r\n"), json.dumps({"key": PRIVATE}), f"k: |\n  {PRIVATE}"):
        masked = known.text(text)
        for line in PRIVATE.splitlines()[1:-1]:
            assert line not in masked
        assert "-----BEGIN PRIVATE KEY-----" in masked
        assert known.restored(masked, text) == text


@pytest.mark.parametrize(
    "secret",
    [
        # As environment files have it: each line end a blank, or none at all.
        PRIVATE.replace("\n", " ").strip(),
        PRIVATE.replace("\n", ""),
        PRIVATE.replace("-----\n", "-----").replace("\n-----", "-----"),
        "  " + PRIVATE.replace("\n", "  "),
    ],
)
def test_a_private_key_in_one_line_is_found(secret: str) -> None:
    known = secrets_of_environment({"SHOP_PRIVATE_KEY": secret})
    for text in (secret, json.dumps({"key": secret}), f"export K='{secret}'", PRIVATE, quote(secret)):
        masked = known.text(text)
        for line in PRIVATE.splitlines()[1:-2]:
            assert line not in masked, masked
        assert known.restored(masked, text) == text
    assert known.text("-----BEGIN PRIVATE KEY-----") == "-----BEGIN PRIVATE KEY-----"


@pytest.mark.parametrize(
    "secret",
    ["-----my-own-password-4711", "-----Begin\nfirst-line-of-it\n-----", "-----BEGIN 12 KEY-----x9d8f7g6"],
)
def test_a_secret_that_only_begins_as_a_private_key_is_found(secret: str) -> None:
    known = secrets_of_environment({"SHOP_PASSWORD": secret})
    masked = known.text(f"it is {secret} so")
    assert not any(word in masked for word in ("password-4711", "first-line", "x9d8f7g6")), masked


@pytest.mark.parametrize(
    "word",
    [
        "\\",
        "%",
        "%25",
        "&",
        "&amp;",
        "&#0",
        "\\303",
        " ",
        " \n",
        "\t\r",
        "\\x",
        "\\xff",
        "\\ud83d",
        "%ff",
        "\n",
        "\n1",
        "'",
        "\x1b[1;",
        "%2",
        "a\\",
        "A",
        "ICAg",
        "JUElQSVB",
        "3230",
        '"\n',
        '"\n    ',
        '"\n+ 1',
    ],
)
@pytest.mark.timeout(60)
def test_masking_of_long_texts_ends(word: str) -> None:
    """What takes quadratic time takes minutes for such a text."""
    text = word * (150_000 // len(word))
    REDACTOR.text(text)
    REDACTOR.settled(text)


def streamed(redactor: Redactor, pieces: Sequence[str]) -> str:
    """What a stream of ``pieces`` shows."""
    shown, held = "", ""
    for piece in pieces:
        settled, held = redactor.settled(held + piece)
        shown += settled
    return shown + redactor.text(held)


@pytest.mark.parametrize(
    "written",
    [
        r"sk-live\u002d01234567",
        "sk-live-&#48;1234567",
        "sk-live%2D01234567",
        "sk-live-\n    01234567",
        r"sk-li\x76e-01234567",
        r"sk-li\166e-01234567",
        "sk-live-   \r\n  01234567",
    ],
)
def test_a_stream_that_is_cut_within_an_escape_shows_nothing_of_a_secret(written: str) -> None:
    redactor = Redactor().adding({"sk-live-01234567": "KEY"})
    text = f"a {written} b"
    assert "sk-li" not in redactor.text(text)
    for place in range(len(text)):
        shown = streamed(redactor, [text[:place], text[place:]])
        assert shown == redactor.text(text), place
    assert streamed(redactor, list(text)) == redactor.text(text)


def test_the_base64_of_a_key_with_line_ends_is_known_where_the_variable_has_them_escaped() -> None:
    body = "\n".join(f"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC{number:04}Zk7pQ2" for number in range(3))
    key = f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n"
    redactor = secrets_of_environment({"FIREBASE_PRIVATE_KEY": key.replace("\n", "\\n")})
    wrapped = base64.b64encode(key.encode()).decode()
    shown = redactor.text(f"x {wrapped} y")
    assert wrapped[60:100] not in shown
    assert "MIIEvQ" not in redactor.text(key)


@pytest.mark.parametrize(
    "written",
    [
        "api_key: *TOKEN",
        "api_key: !TOKEN",
        "api_key: !TOKEN x",
        "headers:\n  X-Gate: TOKEN\n  X-Gate: TOKEN",
        "headers:\n  X-Gate: TOKEN: x",
        "headers: {X-Gate: TOKEN, X-Gate: TOKEN}",
        "far:\n  url: x\n  headers:\n    5: TOKEN",
    ],
)
def test_an_error_of_a_config_that_cannot_be_read_shows_no_secret(tmp_path: Path, written: str) -> None:
    file = tmp_path / "zeus.yaml"
    file.write_text(
        f"version: 1\nmodel: m\nmetadata:\n  {written}\n".replace("TOKEN", "letmein-please-quietly")
    )
    if "\n" in written:
        file.write_text(f"version: 1\nmodel: m\n{written}\n".replace("TOKEN", "letmein-please-quietly"))
    with pytest.raises(ConfigError) as failed:
        load(file, environ={})
    told = render(failed.value.diagnostics)
    assert "letmein" not in told, told


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("env:\n  PRIVATE_KEY: |\n-----BEGIN PRIVATE KEY-----\nhunter-two\n-----END PRIVATE KEY-----", None),
        ("env:\n  PRIVATE_KEY: -----BEGIN PRIVATE KEY-----\n    abc\n    hunter-two: x", None),
        ("env:\n  PRIVATE_KEY: |\n    -----BEGIN PRIVATE KEY-----\nhunter-two: x: y", None),
        ('env:\n  API_KEY: "sk-live-1\n     hunter-two\\q"', None),
        ('env:\n  API_KEY: "sk-live-1\nB: hunter-two\\q"', None),
        ("api_key:\n  hunter-two: a: b", None),
        ("api_key:\n- hunter-two: a: b", None),
        ("a:\n  api_key: |\nhunter-two", None),
        ("api_key: 1\n  hunter-two: b", None),
        ("api_key: null, hunter-two: a", None),
        ('a: {api_key: "x" hunter-two: "}', None),
        ("a: {api_key: [x, hunter-two, }", None),
        ("far:\n  headers:\n    X-Gate: hunter-two: x", "    X-Gate: **********"),
        ("far:\n  headers:\n    X-Gate:\n      hunter-two: x: y", None),
        ('far: {headers: {X-Gate: "a, hunter-two", Y: ]}', "far: {headers: **********"),
        ('{"headers": {\n"X-Gate": "hunter-two" "x"\n}}', None),
        ("a:\n  api_key: ${KEY}\n  b: ]", "  b: ]"),
        ("a:\n  api_key: |\n    x\n  b: ]", "  b: ]"),
        ("a: {api_key: '${KEY}', b: ]}", "a: {api_key: '${KEY}', b: ]}"),
        ("a:\n  b: c\n  every word: x: y", "  every word: x: y"),
        ('args: ["--token" "hunter-two"]', 'args: ["--token" **********'),
        ('args: ["--token", "hunter-two]\nb: 1', None),
        ('args: ["--token, "hunter-two"]', None),
        ('args: [--db-password hunter-two, "a" b]', None),
        ('args: ["-y", "--api-key", "hunter-two" "--password=x"]', None),
        ('{"args": ["--token"\n"hunter-two"]}', None),
        ('github_token_bot: "hunter-two" b', None),
        ('args: [\n  "--token"\n  "hunter-two"]', None),
        ("args:\n  - --token\n  - @hunter-two", None),
        ("args:\n- --token\n- hunter-two: a: b", None),
        ('args: ["--token", "${TOKEN}" "b"]', 'args: ["--token", **********'),
        ('args: ["--token", "${TOKEN}", "a" "b"]', 'args: ["--token", "${TOKEN}", "a" "b"]'),
        ('args: ["--verbose" "b"]', 'args: ["--verbose" "b"]'),
        ('url: "postgresql://app:hunter-two"7@db/shop"', 'url: "postgresql://app:**********@db/shop"'),
        ('url: "postgresql://app:x"hunter-two@db/shop"', None),
        ("{url: 'postgresql://app:x'@hunter-two@db/shop'}", None),
        ("url: 'postgresql://app:${PW}@db''x'y'", "url: 'postgresql://app:${PW}@db''x'y'"),
        ('env: {SHOP: "hunterXy7-0123456789" B: c}', 'env: {SHOP: "**********" B: c}'),
        ('a: {url: "https://hunterXy7Zq01234567"@db}', 'a: {url: "https://**********"@db}'),
        ('a: ["Bearer hunterXy7" "b"]', 'a: ["Bearer **********" "b"]'),
        (
            'a: ["https://shop.example/items" "an-ordinary-long-word"]',
            'a: ["https://shop.example/items" "an-ordinary-long-word"]',
        ),
    ],
)
def test_a_line_that_may_belong_to_a_secret_is_masked_where_the_text_is_not_yaml(
    written: str, shown: str | None
) -> None:
    with pytest.raises(ConfigError) as failed:
        read_value(written, "zeus.yaml")
    (problem,) = failed.value.diagnostics
    assert problem.position is not None
    assert problem.hint is not None
    assert "hunter" not in render([problem]), "not in the line that the error is about"
    assert shown is None or problem.source_line == shown
    if "hunter" in written:
        assert "hunter" not in "\n".join(unread_lines(written)), "and in no other line"


@pytest.mark.parametrize(
    "headers",
    [
        '{X-Gate: "${NONE}hunter-two", Y: "${NONE}, hunter-two"}',
        '{X-Gate: "a, hunter-two", Y: "${NONE}"}',
        "{X-Gate: 'a}, ''hunter-two', Y: \"${NONE}\"}",
        '{"X-Gate":"a, \\"hunter-two", Y: "${NONE}"}',
        '{X-Gate: !!str "\\x61, hunter-two", Y: "${NONE}"}',
        '{X-Gate: ["a]hunter-two", hunter-two], Y: "${NONE}hunter-two"}',
        '{X-Gate: {b: ["c, hunter-two"]}, Y: "${NONE}"}',
        '{X-Gate: ["${NONE}hunter-two"]}',
        "\n      X-Gate: ${NONE}hunter-two",
    ],
)
def test_no_part_of_a_header_is_shown_in_the_line_of_a_missing_variable(
    headers: str, tmp_path: Path, schema: dict[str, Any]
) -> None:
    written = (
        f"version: 1\nmodel: gpt-4o\nmcpServers:\n  a:\n    url: https://a.example\n    headers: {headers}\n"
    )
    (tmp_path / "zeus.yaml").write_text(written)
    with pytest.raises(ConfigError) as failed:
        check(load(tmp_path / "zeus.yaml", environ={}), schema)
    told = render(failed.value.diagnostics)
    assert "NONE" in told
    assert "**********" in told
    assert "hunter" not in told


def test_the_default_of_a_headers_variable_is_not_shown() -> None:
    text = "headers:\n  X-Gate: ${A:-hunter-two}\n  Y: ${A}"
    sources = Sources({"a": text}, headers=frozenset())
    assert sources.line(Mark("a", 2, 3)) == "  X-Gate: **********"
    assert sources.line(Mark("a", 3, 3)) == "  Y: ${A}"


LONG_HEADERS = [
    "X-Team: >-\n    garden of\n\n    roses\n  Y: z",
    "X-Team: |2+\n      garden of\n    roses\n",
    'X-Team: "garden of\n    roses" # c',
    "X-Team: 'garden\n   of roses'",
    'X-Team: "\\x67arden of \\\n    roses"',
    "X-Team: garden of\n    roses\n  Y: a\u2028   garden\n    b",
    "X-Team: !!str &x garden of\n    roses",
    "X-Teams: [a, garden\n    of roses]",
    "? X-Team\n  : garden of\n    roses",
    "<<: &y\n    X-Team: garden of\n     roses",
]


@pytest.mark.parametrize("written", LONG_HEADERS)
@pytest.mark.parametrize(
    "frame",
    [
        "a: &a b\nc: *a\nheaders:\n  {}\ntools: []",
        "a: 𝄞\nb:\n-\n c: [x]\n extraHeaders:\n  {}\n after: garden",
        "headers: {{{}\n  }}\n",
    ],
)
def test_a_header_over_several_lines_is_not_shown(written: str, frame: str) -> None:
    if frame.startswith("headers: {") and re.search(r": [>|]|\?|<<|Y", written):
        pytest.skip("a flow mapping has no blocks")
    text = frame.format(written)
    assert read_value(text, "a") is not None
    sources = Sources({"a": text}, headers=frozenset())
    lines = [sources.line(Mark("a", number, 1)) for number in range(1, len(re.split("[\n\u2028]", text)) + 1)]
    shown = sources.text("a")
    assert re.split("[\n\u2028]", shown) == lines
    assert not re.search("garden.*of|of.*roses|roses|arden of", shown)
    assert ("after: garden" in shown) == ("after: garden" in text)
    assert len(shown.split("\n")) == len(text.split("\n"))


def test_an_anchor_that_headers_use_and_a_value_that_is_one_are_not_shown() -> None:
    text = "a: &h\n  X: garden of\n    roses\nb:\n  headers: *h\nurl: garden\n  gate\nnote: garden\n  house\n"
    sources = Sources({"a": text}, headers=frozenset({"garden gate"}))
    assert re.findall("garden.*|roses|gate|house", sources.text("a")) == ["garden", "house"]


def test_deep_text_stops_nothing() -> None:
    text = "headers: " + "[" * 20_000
    assert "[[[" in Sources({"a": text}, headers=frozenset({"x"})).text("a")


@given(
    st.lists(
        st.tuples(
            st.integers(0, 4), st.sampled_from(["headers:", "extra_headers: {X: y}", "a: b", "- c: d", ""])
        ),
        max_size=12,
    )
)
def test_a_whole_text_shows_each_line_as_a_message_does(drawn: list[tuple[int, str]]) -> None:
    text = "\n".join(" " * indent + each for indent, each in drawn)
    sources = Sources({"a": text}, headers=frozenset())
    lines = [sources.line(Mark("a", number, 1)) for number in range(1, len(text.split("\n")) + 1)]
    assert sources.text("a").split("\n") == lines


@pytest.mark.parametrize(
    "setting",
    [
        'mcpServers.a={url: "https://x", headers: {X-Gate: hunter-two}',
        'mcpServers.a={headers: {X-Gate: "a, hunter-two"}, bogus: ]}',
        'mcpServers.a={env: {API_KEY: "x" hunter-two}}',
        "model.litellm={model: m, api_key: hunter-two",
        "model.litellm.api_key=[x, hunter-two",
    ],
)
def test_a_setting_that_is_not_yaml_shows_no_secret(setting: str) -> None:
    with pytest.raises(ConfigError) as failed:
        parse_setting(setting)
    told = render(failed.value.diagnostics)
    assert "--set m" in told
    assert "yaml-syntax" in told
    assert "hunter" not in told, told


@given(st.data())
def test_no_command_to_copy_has_the_value_of_a_header_wherever_its_path_ends(data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.sampled_from(["model", "env", "tools", "0", "a.b", "x y"]), max_size=4))
    header = data.draw(st.sampled_from(["headers", "extra_headers", "defaultHeaders"]))
    below = data.draw(st.lists(st.sampled_from(["X-Set", "0"]), max_size=2))
    keys = [*keys, header, *below]
    cut = data.draw(st.integers(1, len(keys)))
    value: Any = data.draw(st.sampled_from(["set-blue", "v${A}set-blue", "${A:-set-blue}", 4711]))
    for key in reversed(keys[cut:]):
        value = [value] if key == "0" and data.draw(st.booleans()) else {"other": 1, key: value}
    path = ".".join(json.dumps(key) for key in keys[:cut])
    text = f"{path}={json.dumps(value)}"
    assert shown_setting(text) == f"{path}=…"


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        ("mcpServers.a={url: 'https://x', headers: {X-Gate: two}}", "mcpServers.a=…"),
        (r'mcpServers.a={"hea\x64ers": {X-Gate: two}}', "mcpServers.a=…"),
        ("mcpServers.a={b: &b {X-Gate: two}, headers: *b}", "mcpServers.a=…"),
        ("model={litellm: {api_key: hunter-two}}", "model=…"),
        ("storage.url=postgresql://u:hunter-two@db/zeus", "storage.url=…"),
        ("metadata.note=${API_KEY:-hunter-two}", "metadata.note=…"),
        # It cannot be read, so nobody can say which key a value belongs to.
        ("mcpServers.a={headers: {X-Gate: two}", "…"),
        ('"mcpServers.a.headers.X=two', "…"),
        ("mcpServers: {a: {headers: {X-Gate: two}}}", "…"),
    ],
)
def test_a_command_to_copy_leaves_out_a_value_with_a_secret_in_it(setting: str, shown: str) -> None:
    assert shown_setting(setting) == shown


@pytest.mark.parametrize(
    "setting",
    [
        "limits.max_steps=3",
        "tools=[{filesystem: {read_only: true}}, web] # as in `tests`",
        "model.litellm.headers.Authorization=${TOKEN}",
        "model.litellm={headers: {Authorization: '${TOKEN}'}, api_key: '${OPENAI_API_KEY}'}",
        "model.litellm.headers=",
        "model.litellm.headers={}",
        "mcpServers.a.url=https://x.example/mcp",
        'profiles.models."gpt-5.2".max_input_tokens=1000',
    ],
)
def test_a_command_to_copy_is_exact_where_nothing_is_hidden(setting: str) -> None:
    assert shown_setting(setting) == setting


@pytest.mark.parametrize(
    "word",
    [
        "- ",
        " ",
        "a",
        "a ",
        "token: 1,",
        "token: ${A}, ",
        "api_key: x\n",
        "a: {\n",
        '"',
        "headers: {",
        "\n",
        "-",
        "'a",
    ],
)
def test_the_lines_of_a_text_that_is_not_yaml_are_masked_in_linear_time(word: str) -> None:
    text = "api_key: |\n" + word * (400_000 // len(word))
    unread_lines.cache_clear()
    for number in range(1, 200):
        Sources({"a": text}).line(Mark("a", number, 1))
    assert unread_lines.cache_info().misses <= 1, "the lines are masked once for all errors of a text"


SLIPS = [
    "postgresql//user:hunter2secret@host/db",
    "postgresql:/user:hunter2secret@host",
    "postgresql:user:hunter2secret@host:5432",
    "postgres;//user:hunter2secret@host/db",
    "https:\\\\user:hunter2 sec ret@host/x",
    "postgresql ://user:hunter2secret@host/db",
    "user:hunter2secret@host/db",
    "//:hunter2secret@host",
    'postgresql//user:a"hunter2secret@host/db',
]


@pytest.mark.parametrize("address", SLIPS)
@pytest.mark.parametrize(
    "written",
    [
        "storage: {url: ADDRESS}",
        "storage: {url: ADDRESS, bogus: 1}",
        "metadata: [x, ADDRESS]",
        "storage: {url: ADDRESS, bogus: ]",
        "storage: {url: ${DATABASE}}",
    ],
)
def test_an_error_shows_no_password_of_an_address_with_a_slip(
    tmp_path: Path, schema: dict[str, Any], written: str, address: str
) -> None:
    file = tmp_path / "zeus.yaml"
    quoted = "'" + address + "'"
    file.write_text(f"version: 1\nmodel: m\n{written.replace('ADDRESS', quoted)}\n")
    with pytest.raises(ConfigError) as failed:
        check(load(file, environ={"DATABASE": address}), schema)
    for output in ("text", "json"):
        assert "hunter2" not in render(failed.value.diagnostics, output)  # type: ignore[arg-type]


@pytest.mark.parametrize("address", SLIPS)
def test_an_error_of_a_setting_shows_no_password_of_an_address_with_a_slip(address: str) -> None:
    with pytest.raises(ConfigError) as failed:
        parse_setting(f"storage={{url: '{address}', bogus: ]")
    assert "hunter2" not in render(failed.value.diagnostics)


@pytest.mark.parametrize(
    "value",
    [
        "npm:pkg@1.0",
        "img:tag@sha256:4bc",
        "repo/img:tag@sha256:4bc",
        "mailto:bob@example.com",
        "git@github.com:a/b",
        "see https://x.y/z: bob@example.com and ask",
        "postgresql//user:${PASSWORD}@host/db",
    ],
)
def test_what_only_resembles_an_address_stays_readable(value: str) -> None:
    assert not is_broken_login(value)
    assert mask_line(f"a: {value}") == f"a: {value}"


def test_a_secret_that_is_forgotten_is_masked_no_longer() -> None:
    learned = Learned()
    known = Redactor(learned=(learned,))
    learned.add(KEY, "A", "one")
    learned.add("another-secret-1", "B", "two")
    assert known.masked(f"{KEY} another-secret-1") == "<secret:A> <secret:B>"
    learned.forget("one")
    learned.forget("unknown")
    assert known.masked(f"{KEY} another-secret-1") == f"{KEY} <secret:B>"
    learned.forget("two")
    assert known.masked("another-secret-1") == "another-secret-1"


OWNED: Final = ["owned-secret-4711", "owned-secret-4712"]
FOLDERS: Final = ["folder 1", "folder 2"]
OWNERS: Final = ["config", "account", "token", *FOLDERS]


@pytest.mark.parametrize("is_apart", [False, True])
@given(
    st.lists(
        st.tuples(st.sampled_from(OWNERS), st.sampled_from(OWNED))
        | st.tuples(st.sampled_from(FOLDERS), st.none()),
        max_size=12,
    )
)
@example([("folder 1", OWNED[0]), ("config", OWNED[0]), ("folder 1", None)])
@example([("folder 1", OWNED[0]), ("folder 2", OWNED[0]), ("folder 1", None)])
@example([("token", OWNED[0]), ("config", OWNED[0]), ("token", OWNED[1])])
@example([("token", OWNED[0]), ("folder 1", OWNED[0]), ("token", OWNED[1])])
def test_a_secret_is_masked_as_long_as_one_owner_has_it(
    is_apart: bool, steps: list[tuple[str, str | None]]
) -> None:
    """Whatever the order of learning and forgetting; as for an agent in Python, and for one of a service's user."""
    shared, tokens, own = Learned(), Learned(most=1), Learned()
    known = Redactor(learned=(shared, tokens, own) if is_apart else (shared, tokens))
    folders = own if is_apart else shared
    has: dict[str, set[str]] = {each: set() for each in OWNERS}
    for owner, secret in steps:
        if secret is None:
            folders.forget(owner)
            has[owner] = set()
        elif owner == "token":
            # Only the newest is kept.
            tokens.add(secret, "TOKEN")
            has[owner] = {secret}
        else:
            has[owner].add(secret)
            if owner == "config":
                known.learn_all(Redactor({secret: "CONFIG"}))
            elif owner == "account":
                known.learn(secret, "ACCOUNT")
            else:
                known.keep(Redactor({secret: "FOLDER"}), folders, owner)
        for each in OWNED:
            assert known.hides(f"see {each}.") == any(each in owned for owned in has.values())


def test_a_secret_that_another_thread_learns_meanwhile_does_not_end_the_masking() -> None:
    learned = Learned()

    class Growing(dict[str, str]):
        """Learns one more secret between two steps of whoever goes through its items, as another thread may."""

        def items(self) -> Any:
            for each in super().items():
                self["sk-learned-meanwhile"] = "LATER"
                yield each

    learned.names = Growing({"sk-learned-first": "FIRST", "sk-learned-second": "SECOND"})
    redactor = Redactor(learned=(learned,))
    assert redactor("sk-learned-first") == "<secret:FIRST>"
    learned.add("sk-learned-meanwhile", "LATER")
    assert redactor("sk-learned-meanwhile") == "<secret:LATER>"


def test_the_value_of_a_setting_that_a_later_one_replaces_is_a_secret(tmp_path: Path) -> None:
    config = tmp_path / "zeus.yaml"
    config.write_text("version: 1\nmodel: gpt-4o\n")
    first, second = "q7jfL5WScQBETZRT", "Zk3Jq9LmT2vXw8Rb"
    sets = [f"model.litellm={{model: gpt-4o, api_key: {each}}}" for each in (first, second)]
    redactor = load(config, sets=sets, directory=tmp_path, environ={}).redactor
    for each in (first, second):
        assert each not in redactor(f"it said {each}.")


@pytest.mark.parametrize(
    "ways",
    [
        (lambda char: f"\\x{ord(char):02x}", lambda char: f"\\{ord(char):03o}"),
        (lambda char: f"&#{ord(char)};", lambda char: f"&#x{ord(char):02x};"),
    ],
)
def test_two_codes_of_one_secret_have_two_placeholders(ways: Sequence[Callable[[str], str]]) -> None:
    """A person allowed a change of one of them, and the same placeholder stood for the other."""
    secret = "touch PWNED; echo demo-4711"
    told = [Redactor().adding({secret: "TOKEN"}).told("".join(map(way, secret))) for way in ways]
    assert all("<secret:TOKEN" in each for each in told)
    assert told[0] != told[1]


@given(
    st.lists(
        st.sampled_from(["<secret:DEPLOY_TOKEN>", "<secret:A-2>", "cat ", " notes.txt", "<", "secret:"])
    ).map("".join),
    st.integers(0, 3),
)
@example("cat <secret:DEPLOY_TOKEN> notes.txt", 0)
def test_what_only_looks_like_a_placeholder_is_told_however_many_secrets_are_known(
    text: str, count: int
) -> None:
    known = Redactor().adding({f"unrelated-{number}-value": f"OTHER_{number}" for number in range(count)})
    (told,) = known.told({"command": [text]})["command"]
    assert not PLACEHOLDER.search(told)
    assert told.replace("<not the secret:", "<secret:") == text


TOKEN_OF_SERVICE: Final = "zeus_0123456789_" + "aB3-_" * 8 + "xyz"


def test_a_token_of_a_known_form_is_masked_although_no_secret_is_known() -> None:
    known = Redactor(learned=(Learned(form=KEY_FORM),), form=KEY_FORM)
    shown = "<secret:ZEUS_KEY-0123456789>"
    for redactor in (known, known.adding({KEY: "K"}), Redactor({KEY: "K"}, (Learned(),)).joined(known)):
        assert redactor.text(f"a {TOKEN_OF_SERVICE}.") == f"a {shown}."
        assert redactor.json({TOKEN_OF_SERVICE: [TOKEN_OF_SERVICE]}) == {shown: [shown]}
        assert redactor.masked([TOKEN_OF_SERVICE]) == [shown]
        assert redactor.settled(f"a {TOKEN_OF_SERVICE[:30]}") == ("a ", TOKEN_OF_SERVICE[:30])
        assert redactor.placeholders_in(f"{shown} <secret:ZEUS_KEY-9>") == [shown]
        assert redactor.restored(f"b {shown}", TOKEN_OF_SERVICE) == f"b {TOKEN_OF_SERVICE}"
        assert redactor.forms
        assert not redactor.holds(TOKEN_OF_SERVICE[:-1])
        redactor.learn("another-secret-77", "A")
        assert redactor.text(f"{TOKEN_OF_SERVICE} another-secret-77") == f"{shown} <secret:A>"
    wide = masked_bytes(TOKEN_OF_SERVICE.encode("utf-16-le"), known)
    assert TOKEN_OF_SERVICE.encode("utf-16-le") not in wide


def test_a_text_that_is_shorter_than_most_secrets_is_searched() -> None:
    spaced = Redactor().adding({"correct \t  horse1": "S"})
    assert spaced.text("correct horse1").startswith("<secret:S:escaped-")
    known = Redactor(form=KEY_FORM).adding({TOKEN_OF_SERVICE * 2: "LONG"})
    assert known.text(TOKEN_OF_SERVICE) == "<secret:ZEUS_KEY-0123456789>"


def test_a_redactor_tells_what_its_placeholders_stand_for_and_which_of_them_changed() -> None:
    redactor = Redactor().adding({"abcd-1234-efgh": "A KEY", "postgres": "DB_PASSWORD"})
    marked = redactor.adding({"ijkl-5678-mnop": f"B-{sha256(b'ijkl-5678-mnop').hexdigest()[:4]}"})
    # A name with the digest of its value never means another one.
    assert marked.named_values() == {"A_KEY": "abcd-1234-efgh"}
    changed = replace(redactor, changed=frozenset({"A_KEY"})).adding({"qrst-9012-uvwx": "C"})
    for each in (changed, changed.joined(Redactor()), Redactor().joined(changed)):
        assert [each.has_changed(f"<secret:{name}>") for name in ("A_KEY", "A_KEY:base64", "C")] == [
            True,
            True,
            False,
        ]


@pytest.mark.parametrize("sign", ["\u200b", "\ufffc", "\ufff9", "\u2d7f", "\u070f"])
def test_signs_that_show_nothing_hide_no_secret(sign: str) -> None:
    known = secrets_of_environment({"A_KEY": "Ev7Kx02LmPq81Zt"})
    told = known.text(f"a {sign.join('Ev7Kx02LmPq81Zt')} b")
    assert re.fullmatch("a <secret:A_KEY(:[a-z0-9-]+)?> b", told)
