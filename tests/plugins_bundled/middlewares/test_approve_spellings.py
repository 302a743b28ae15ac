"""An `allow` rule fits a path or an address of a server's tool only if its spelling leaves no room for readings."""

from __future__ import annotations

import glob
import re
import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from posixpath import normpath
from typing import Any
from unicodedata import category, normalize
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zeus_plugins.middlewares.approve.options import Options
from zeus_plugins.middlewares.approve.path_spellings import leads_to
from zeus_plugins.middlewares.approve.policy import Policy

from zeus_runtime.plugin.files import WorkspaceFiles, expand_braces
from zeus_runtime.plugin.tool import Tool


async def nothing(**_arguments: Any) -> str:
    return ""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> WorkspaceFiles:
    root = tmp_path_factory.mktemp("work")
    for folder in ("drafts", "private"):
        (root / folder).mkdir()
    (root / "drafts" / "in").symlink_to("../private")
    return WorkspaceFiles(root)


def runs(files: WorkspaceFiles, name: str, pattern: str, text: str) -> bool:
    """Whether a call runs unasked under one `allow` rule."""
    called = Tool("s__open", "", {"type": "object", "properties": {name: {"type": "string"}}}, nothing)
    options = Options(mode="ask", read_tools="ask", allow=({"s__open": {name: pattern}},))
    found = Policy(options, partial(leads_to, files)).ruled(called, {name: text})
    return found is not None and found.action == "allow"


@pytest.mark.parametrize(
    "name",
    [
        "a b (1).md",
        "gr\u00fc\u00dfe.md",
        "\u4e2d\u6587\uff08\u4e00\uff09\uff1f1\uff5e3\uff1a\u3002.md",
        "+a@b&c-d_e,f=g!.md",
        "o'neill.md",
        ".env.example",
        "a..b",
        "...a",
        "C#/x.cs",
        "Notes #1.md",
        "100% sure.md",
        "a%20b.md",
        "12:30.log",
        "folder/",
        "a/b-c/d_e",
        "x.tar.gz",
        "\U0001f389.md",
    ],
)
def test_an_honest_name_runs_unasked(files: WorkspaceFiles, name: str) -> None:
    for argument in ("path", "document"):
        for start in ("drafts/", "/drafts/", f"{files.root}/drafts/"):
            pattern = f"{start}**"
            assert runs(files, argument, pattern, start + name)
        assert runs(files, argument, "./drafts/**", f"./drafts/{name}")
    assert runs(files, "uri", "file:///w/drafts/*", f"file:///w/drafts/{name}")
    assert runs(files, "uri", "docs://team/drafts/**", f"docs://team/drafts/{name}")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("https://docs.example/*", "https://docs.example/"),
        ("https://docs.example/*", "https://docs.example/a/b_c-d.html?q=a%20b&x=1,2;3&l[]=a|b#part-2"),
        ("https://docs.example/*", "https://docs.example/~ann/a%20b/v1:get/o'x/(1)/gr%C3%BC%C3%9Fe"),
        ("https://docs.example/*", "https://docs.example/s?q=..%2F..%2Fx&next=https://other.example/../y"),
        ("https://docs.example:8443/*", "https://docs.example:8443/a"),
        ("http://127.0.0.1:*", "http://127.0.0.1:8000/a"),
        ("http://[[]::1]/*", "http://[::1]/a"),
        ("https://b\u00fccher.example/*", "https://b\u00fccher.example/x"),
        ("https://docs.example/a%20b#c", "https://docs.example/a%20b#c"),
        ("docs://team/**", "docs://team/a%20b?q=c%20d#e"),
        ("C#/**", "C#/x.cs"),
        ("*", "any ~/text \\ with\n../lines "),
        ("drafts*", "drafts {1,2}"),
        ("* foo/bar *", "a foo/bar (b), c"),
        ("**", "."),
    ],
)
def test_an_honest_address_or_text_runs_unasked(files: WorkspaceFiles, pattern: str, text: str) -> None:
    assert runs(files, "uri", pattern, text)


@pytest.mark.parametrize(
    "tail",
    [
        ".\t./private",
        ".\n./private",
        "x\r",
        " x",
        "x ",
        "x\u00a0y",
        "x\u200by",
        "x\u3164y",
        "\\..\\private",
        "x\\y",
        "%2e%2e/private",
        "%2E./private",
        "..%2fprivate",
        "a%2fb",
        "a%5cb",
        "a%00",
        "%252e%252e/private",
        "%%32e%%32e/private",
        "%c0%ae%c0%ae/private",
        "x/../../private",
        "./x",
        "/x",
        "x//y",
        ".../x",
        ".. /x",
        "{.,x}{.,y}/private",
        "{a,b}",
        "$HOME",
        "${X}",
        "a*",
        "a?/x",
        "[ab]",
        "a|b",
        "a;b",
        "<a",
        "a>b",
        "a^b",
        '"x"',
        "'x'",
        ".''./private",
        "`x`",
        "+(.)/private",
        "@(..)/private",
        "x!(y)",
        "..#/x",
        ".. #x",
        "%2e%2e%23/x",
        "PRIVAT~1",
        "x:/private/key",
        "x://private/key",
        "..\uff0fprivate",
        "\uff05\u0032e",
        "in/key",
        "i%6e/key",
        "in#x",
        "\ud800",
    ],
)
def test_an_odd_spelling_is_asked_about(files: WorkspaceFiles, tail: str) -> None:
    """Each is a text that the pattern fits."""
    for argument in ("path", "document"):
        assert not runs(files, argument, "drafts/**", f"drafts/{tail}")
        assert not runs(files, argument, f"{files.root}/drafts/**", f"{files.root}/drafts/{tail}")
    assert not runs(files, "uri", f"file://{files.root}/drafts/*", f"file://{files.root}/drafts/{tail}")
    query = "?" in tail and ".." not in tail
    assert query or not runs(files, "uri", "docs://drafts/**", f"docs://drafts/{tail}")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("*/*", "file:/w/x"),
        ("*/*", "file://w/x"),
        ("*/*", "FILE:///w/x"),
        ("*/*", "file:///c:/x"),
        ("*/*", "file:////w/x"),
        ("*/*", "file:///w|/x"),
        ("*/*", "c:/x"),
        ("*/*", "/c:/x"),
        ("*/*", "host:/x"),
        ("*/*", "~/x"),
        ("*/*", "~ann/x"),
        ("*/*", "../x"),
        ("*/*", ":/x"),
        ("*/*", "x://../y"),
        ("*/*", "x://./y"),
        ("*/*", "//host/x"),
        ("*/*", "https:/host/x"),
        ("*/*", "https:///host/x"),
        ("https://*/*", "https://a@b.example/x"),
        ("https://*/*", "https://a%2eb/x"),
        ("https://*/*", "https://a\uff0fb/x"),
        ("https://*/*", "https://a.example\\b/x"),
        ("https://*/*", "https://a.example/x y"),
        ("https://*/*", "https://a.example?/x"),
        ("https://*/*", "https://a.example/x?y\\z"),
        ("https://*/*", "https://a.example/..;/x"),
        ("https://a.example/*/open", "https://a.example/closed#/open"),
        ("https://a.example/[!p]*", "https://a.example/%70rivate"),
        ("file:///w/*.md", "file:///w/private#a.md"),
        ("docs://a/*/open", "docs://a/closed?/open"),
        ("docs://a/*", "docs://a/x?/../../y"),
        ("docs://a/*", "docs://a/x?y=$HOME"),
    ],
)
def test_an_odd_address_is_asked_about(files: WorkspaceFiles, pattern: str, text: str) -> None:
    assert fnmatchcase(text, pattern)
    assert not runs(files, "uri", pattern, text)


# The law.

ODD = [chr(code) for code in range(sys.maxunicode + 1) if category(chr(code)) in ("Cc", "Cf", "Zs")]
ODD += list("\\%{}*?[]$~|<>^\"`'#;:!@+()")
ODD += ["%2e", "%2E", "%2f", "%5c", "%25", "%00", "%09", "{.,x}", "..", "://", "//", "$X", "\uff0e", "\uff0f"]
PLAIN = st.sampled_from(["a", "b c", "..", ".", "/", "key", "%2e", ".env", "\u00fc"])
TAILS = st.builds(
    lambda before, odd, after: "".join((*before, odd, *after)),
    st.lists(PLAIN, max_size=3),
    st.sampled_from(ODD),
    st.lists(PLAIN, max_size=3),
)


def _parsed(text: str) -> str:
    """A reading as WHATWG has it: unseen characters at the ends, tabs and line ends go, and `\\` is `/`."""
    cleaned = re.sub(r"[\t\r\n]", "", text.strip("".join(map(chr, range(33))))).replace("\\", "/")
    return re.split("[?#]", cleaned, maxsplit=1)[0]


def _urllib(text: str) -> str:
    return urlsplit(text).path


READERS: tuple[Callable[[str], str], ...] = (
    str,
    str.strip,
    unquote,
    _parsed,
    _urllib,
    lambda text: unquote(_parsed(text)),
    lambda text: _parsed(unquote(text)),
    lambda text: unquote(unquote(_urllib(text))),
    lambda text: normalize("NFKC", unquote(text)),
    lambda text: re.sub(r"['\"`]", "", text),
    lambda text: text.rpartition("://")[2],
)


def _read(text: str) -> Iterator[str]:
    for reader in READERS:
        for each in expand_braces(reader(text)):
            yield normpath(each)


@given(tail=TAILS)
def test_all_readings_of_a_text_that_runs_unasked_lie_in_the_rules_folder(
    files: WorkspaceFiles, tail: str
) -> None:
    for argument in ("path", "document"):
        if runs(files, argument, "/w/drafts/**", f"/w/drafts/{tail}"):
            assert not glob.has_magic(tail)
            assert {each[: len("/w/drafts")] for each in _read(f"/w/drafts/{tail}")} == {"/w/drafts"}
    if runs(files, "uri", "file:///w/drafts/*", f"file:///w/drafts/{tail}"):
        places = _read(f"/w/drafts/{tail}")
        assert {each[: len("/w/drafts")] for each in places} == {"/w/drafts"}
