"""Globs over path parts."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator
from glob import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.tools.paths import folded
from zeus_runtime.tools.patterns import (
    compile_filter,
    compile_glob,
    expand_braces,
    folded_glob,
    folded_part,
    folded_start,
    literal_prefix,
    parts_of,
    pattern_slip,
    text_slip,
)


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*.py", "a.py", True),
        ("*.py", "src/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "src/deep/a.py", True),
        ("src/**", "src/a", True),
        ("src/**", "src", True),
        ("src/**/b/*.py", "src/b/x.py", True),
        ("src/**/b/*.py", "src/a/b/c/b/x.py", True),
        ("src/**/b/*.py", "src/a/x.py", False),
        ("**/a/**/b", "a/b", True),
        ("**/a/**/b", "x/a/y/z/b", True),
        ("?.md", "a.md", True),
        ("[!a].md", "a.md", False),
        ("*", ".hidden", True),
        ("*.{py,md}", "a.md", True),
        ("{src,tests}/**/*.{js,ts}", "tests/x/a.ts", True),
        ("{src,tests}/**/*.{js,ts}", "docs/a.ts", False),
        ("A.py", "a.py", False),
        ("a+b(c).txt", "a+b(c).txt", True),
        ("line\nbreak", "line\nbreak", True),
    ],
)
def test_a_pattern_matches_whole_paths_by_the_usual_rules(pattern: str, path: str, matches: bool) -> None:
    assert compile_glob(pattern)(path.split("/")) is matches


@given(st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=5))
def test_a_path_matches_itself_and_double_star_matches_all(parts: list[str]) -> None:
    assert compile_glob("/".join(parts))(parts)
    assert compile_glob("**")(parts)
    assert compile_glob("**/" + parts[-1])(parts)


def test_a_pattern_made_to_run_away_does_not() -> None:
    pattern = "/".join(["**", "*a*a*a*a*a*a*a*a*b"] * 10)
    assert not compile_glob(pattern)(["a" * 200] * 100)


def test_braces_expand_nested_and_stay_text_without_a_comma() -> None:
    assert sorted(expand_braces("{a,b{1,2}}.x")) == ["a.x", "b1.x", "b2.x"]
    assert expand_braces("{single}") == ["{single}"]
    with pytest.raises(ValueError, match="more than 64"):
        expand_braces("{a,b}" * 30)


@pytest.mark.parametrize(
    ("pattern", "length"),
    [("*.py", 0), ("src/*.py", 1), ("src/a/**/x", 2), ("a/b/c", 2), ("{a,b}/c/d", 0), ("a", 0)],
)
def test_the_literal_prefix_never_takes_the_last_part(pattern: str, length: int) -> None:
    assert literal_prefix(parts_of(pattern)) == length


def test_a_filter_tests_names_anywhere_and_paths_from_the_root() -> None:
    named = compile_filter(["node_modules", "*.pyc", "build/cache"])
    assert named(["a", "node_modules", "b"])
    assert named(["a", "x.pyc"])
    assert named(["build", "cache", "x"])
    assert not named(["src", "build", "cache"])
    assert not named(["node_modules", "src"], 1)
    assert not named(["build", "cache", "x"], 2)


FILTERED = ["a", "*.pem", "b/c", "b/", "/a", "**/c"]


@given(
    st.lists(st.sampled_from(FILTERED), min_size=2, max_size=3),
    st.lists(st.sampled_from(["a", "b", "c", "x.pem"]), max_size=4),
    st.integers(0, 2),
)
def test_braces_in_a_filter_mean_what_the_alternatives_mean(
    choices: list[str], path: list[str], beyond: int
) -> None:
    braces = compile_filter([f"{{{','.join(choices)}}}"])
    assert braces(path, beyond) is compile_filter(choices)(path, beyond)


@pytest.mark.parametrize(
    ("pattern", "remedy"),
    [
        ("src/**.pem", "write src/**/*.pem for"),
        ("**.pem", "write **/*.pem for"),
        ("src/key**", "write src/key*/** for"),
        ("a**b/c", "write a*/**/*b/c for"),
        ("src/***", "write src/** for"),
        ("{src/a,**}.pem", "write **/*.pem for"),
    ],
)
def test_two_stars_beside_other_text_are_a_slip(pattern: str, remedy: str) -> None:
    slip = pattern_slip(pattern)
    assert slip is not None
    assert remedy in slip.remedy
    assert (text_slip(pattern) is not None) is ("/" in pattern)


@pytest.mark.parametrize("pattern", ["src/**/*.pem", "{**/,}a", "a[**]b", "**", "**/x", "{a/**,b}"])
def test_two_stars_as_a_whole_part_are_none(pattern: str) -> None:
    assert pattern_slip(pattern) is text_slip(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "is_slip"),
    [
        ("[^x].pem", True),
        ("a/[^.]*", True),
        ("[x^].pem", False),
        ("[!^].pem", False),
        ("*.@(pem|key)", True),
        ("!(a|b)", True),
        ("src/+(a|b|c)", True),
        ("*(1).pdf", False),
        ("app/(a)/@b", False),
        ("[[:upper:]]*.key", True),
        ("a/[!_[:alpha:]]", True),
        ("[[=a=]]", True),
        ("app/[[...slug]]/page", False),
        ("app/[...slug]", False),
        ("[[]", False),
        ("[][]", False),
        ("[:a]x", False),
        ("[z-a]x", True),
        ("{b,a[!z-a]}/x", True),
        ("[a-Z]*", True),
        ("app/[user-id]/page", False),
        ("[!]x]", False),
        ("[a-]", False),
        ("[]x]y", False),
        ("[K-K]", False),
        ("secrets\\key", True),
        (r"\.hidden", True),
        ("K{1..2}.dat", True),
        ("{x,y{a..c}}", True),
        ("{a..b,c}", False),
        ("{single}/{{cookiecutter.slug}}", False),
        ("a..b", False),
    ],
)
def test_the_signs_of_other_patterns_are_a_slip(pattern: str, is_slip: bool) -> None:
    assert (pattern_slip(pattern) is not None) is is_slip


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("src/**.py", "src/a.py", True),
        ("src/**.py", "src/x/y/a.py", True),
        ("src/**.py", "lib/a.py", False),
        ("src/t**", "src/t/x/y", True),
        ("src/t**", "src/test", True),
        ("a**b/c", "ax/y/zb/c", True),
        ("{x,**}.py", "d/a.py", True),
        ("a[**]b", "a*b", True),
        ("a[**]b", "a/x/b", False),
    ],
)
def test_a_search_takes_two_stars_beside_other_text_for_folders(
    pattern: str, path: str, matches: bool
) -> None:
    assert compile_glob(pattern, is_search=True)(path.split("/")) is matches


def test_two_stars_beside_other_text_cannot_run_away() -> None:
    for pattern in ("{a,b,c,d,e}**x**y**z**", "a**" * 20):
        with pytest.raises(ValueError, match="more than 64"):
            compile_glob(pattern, is_search=True)


@pytest.mark.parametrize("pattern", ["{a,b}/" * 7, "{a,b}" * 7 + "/x"])
def test_too_many_alternatives_in_a_text_that_may_be_a_path_are_a_slip(pattern: str) -> None:
    slip = text_slip(pattern)
    assert slip is not None
    assert "more than 64" in slip.message


def spellings(name: str) -> set[str]:
    """Names that some file system takes for the same one."""
    cases = {name, name.upper(), name.lower(), name.casefold()}
    forms = {unicodedata.normalize(form, each) for form in ("NFC", "NFD") for each in cases}
    return forms | {f"{each}{end}" for each in forms for end in (".", " ", ". .", "\u200d", "\ufe0f")}


def letters_with_several_forms() -> Iterator[str]:
    for letter in map(chr, range(128, sys.maxunicode + 1)):
        if (
            letter.upper() != letter
            or letter.casefold() != letter
            or (not unicodedata.is_normalized("NFC", letter))
            or (not unicodedata.is_normalized("NFD", letter) and not "\uac00" <= letter <= "\ud7a3")
            or unicodedata.category(letter) == "Cf"
        ):
            yield letter


def assert_covers_its_spellings(name: str) -> None:
    tests = [folded_glob(escape(name)), folded_glob(f"{escape(name)}/**"), folded_glob(f"*{escape(name)}")]
    part = folded_part(f"{escape(name)}*")
    for spelled in spellings(name):
        assert all(test([spelled]) for test in tests), (name, spelled)
        assert part(folded(f"{spelled}-wal")), (name, spelled)


def test_the_order_of_marks_is_the_same_for_a_letter_and_its_upper_case() -> None:
    for marks in ("", "\u030b", "\u0341\u030b"):
        assert folded(f"\u1fb3{marks}") == folded(f"\u1fbc{marks}")
    assert folded("\u1f0b\u0363\u0345") == folded("\u1f0b\u0363\u0399")


def test_a_pattern_covers_every_spelling_of_each_letter() -> None:
    for letter in letters_with_several_forms():
        assert_covers_its_spellings(f"x{letter}")


@given(st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=6))
def test_a_pattern_covers_every_spelling_of_a_name(name: str) -> None:
    assert_covers_its_spellings(f"x{name}")


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("Μαΐου/**", unicodedata.normalize("NFD", "Μαΐου/s.txt"), True),
        ("ACME Inc./**", "acme inc/s.txt", True),
        ("👨\u200d👩*.md", "👨👩x.MD", True),
        ("[A-Z]*.{md,txt}", "readme.TXT", True),
        ("[!x]É", "xe\u0301", False),
        ("caf?.md", "CAFE\u0301.MD", True),
        ("x.*", "x", False),
        ("x.*", "X.", True),
        ("*.*", "Makefile", False),
        ("...", "x", False),
    ],
)
def test_a_folded_pattern_keeps_its_wildcards(pattern: str, path: str, fits: bool) -> None:
    assert folded_glob(pattern)(path.split("/")) is fits


@pytest.mark.parametrize("is_wide", [True, False])
@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("?.PEM", "ß.pem", True),
        ("?.Pem", "İ.pem", True),
        ("?.PEM", "i\u0307.pem", False),
        ("key[ß].PEM", "keyß.pem", True),
        ("key[ß].pem", "keyẞ.PEM", True),
        ("key[!ß].PEM", "keyẞ.pem", False),
        ("key[!ß].PEM", "keyŉ.pem", True),
        ("key[a-cß].PEM", "keyẞ.pem", True),
        ("key[À-Ü].PEM", "keyä.pem", True),
        ("key[à-üß].PEM", "key-.pém", False),
        ("?-KEY/**", "ß-key/a", True),
        ("[ı]ß.pem", "Iß.pem", True),
        ("*/?/Secret.txt", "a/ŉ/secret.txt", True),
        ("?S.pem", "ßs.pem", True),
        ("?ß.PEM", "ßSS.pem", True),
        ("?SS.pem", "ßß.pem", True),
        ("SS*ß?.x", "ßaßssß.X", True),
        ("?.pem", "ßß.pem", False),
        ("ß??.PEM", "ssŉ\u200db.pem", True),
        ("*J\u030c?.PEM", "xǰß.pem", True),
        ("?.PEM", "ß.pem. ", True),
        ("?*", "ß", True),
        ("*?*.PEM*", "ß.pem", True),
        ("[!x]?É.Pem", "xße\u0301.pem", False),
        ("*" * 3 + "?*a" * 20 + "B", "ß" + "a" * 60, False),
    ],
)
def test_a_wildcard_takes_one_letter_of_the_name_whatever_the_letter_is_folded_to(
    pattern: str, path: str, *, fits: bool, is_wide: bool
) -> None:
    assert folded_glob(pattern, or_literal=is_wide)(path.split("/")) is fits


@pytest.mark.parametrize(
    ("pattern", "name"), [("?s.pem", "ß.PEM"), ("k[s]?.pem", "kß.PEM"), ("[é]ß.x", "[É]SS.x")]
)
def test_only_the_wide_reading_takes_a_letter_of_the_folded_name_or_brackets_as_text(
    pattern: str, name: str
) -> None:
    assert folded_glob(pattern)([name])
    assert not folded_glob(pattern, or_literal=False)([name])


def test_the_beginning_of_a_pattern_takes_letters_of_names_too() -> None:
    assert folded_start("?-KEY/x/**")(["ß-Key"])
    assert not folded_start("?-KEY/x/**")(["ßß-key"])


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("app/[slug]/**", "app/[slug]/page.tsx"),
        ("app/[...slug]/**", "app/[...slug]/page.tsx"),
        ("[[]id]*.ts", "[ID]-x.ts"),
        ("[id]*.{ts,tsx}", "[id].tsx"),
        ("{a,b}.md", "{a,b}.md"),
        ("app/[slug]/secret[0-9].txt", "app/[slug]/secret1.txt"),
        ("[id]-k?[!x]pem", "[ID]-k1.pem"),
        ("app/{a,b}/[cd].txt", "app/{a,b}/d.txt"),
        ("{a,b}/{c,d}", "{a,b}/d"),
        ("{a,b,c,d,e,f,g,h}/{a,b,c,d,e,f,g,h}", "{a,b,c,d,e,f,g,h}/{a,b,c,d,e,f,g,h}"),
        ("[[...slug]]/*[ab]*[cd]", "[[...slug]]/x[ab]yd"),
        ("[id]*[0-9][0-9][0-9][0-9]-[0-9][0-9]", "[id] 2026-11"),
        ("[slug", "[SLUG"),
    ],
)
def test_a_folded_pattern_also_fits_a_name_with_brackets(pattern: str, path: str) -> None:
    assert folded_glob(pattern)(path.split("/"))


@given(st.text("ab[]!*?{},x", min_size=1, max_size=8), st.text("ab[]!{},xA", min_size=1, max_size=6))
def test_a_literal_reading_only_adds_names(pattern: str, name: str) -> None:
    if folded_glob(pattern, or_literal=False)([name]):
        assert folded_glob(pattern)([name])
    assert folded_glob(pattern)([pattern])
