"""An argument of a server's tool may be a path although its name does not say so: the rules judge each reading."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from zeus_plugins.middlewares.approve.options import Options
from zeus_plugins.middlewares.approve.path_spellings import leads_to, reaches
from zeus_plugins.middlewares.approve.policy import Policy, by_mode
from zeus_plugins.middlewares.approve.rules import Spelling

from zeus_runtime.plugin.files import WorkspaceFiles
from zeus_runtime.plugin.tool import Tool

Server = Callable[[Path, str], str]
"""Where a server with this working directory looks for a text."""


async def nothing(**_arguments: Any) -> str:
    return ""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkspaceFiles]:
    """A workspace in the user's home, with a link out of it."""
    home = tmp_path_factory.mktemp("home").resolve()
    root = home / "work"
    for folder in ("work/private", "work/drafts/deep", "outside"):
        (home / folder).mkdir(parents=True)
    (root / "private/key").write_text("secret")
    (root / "drafts/out").symlink_to(home / "outside")
    (root / "drafts/in").symlink_to("../private")
    (root / "drafts/same").symlink_to("deep")
    (root / "drafts/a\\b").symlink_to(home / "outside")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        yield WorkspaceFiles(root)


def verdict(files: WorkspaceFiles, arguments: Mapping[str, Any], **options: Any) -> str:
    typed = Options(**options)
    policy = Policy(typed, partial(leads_to, files), partial(reaches, files, files))
    properties: Mapping[str, Any] = {name: {} for name in arguments}
    called = Tool("docs__read", "", {"type": "object", "properties": properties}, nothing)
    return (policy.ruled(called, arguments) or by_mode(typed.mode, called)).action


def denied(files: WorkspaceFiles, value: Any, pattern: str = "private/**") -> bool:
    rule: Any = [{"*": {"document": pattern}}]
    found = {
        kind: verdict(files, {"document": value}, mode="run_everything", **{kind: rule})
        for kind in ("deny", "ask")
    }
    assert (found["deny"] == "deny") == (found["ask"] == "ask"), found
    return found["deny"] == "deny"


def allowed(files: WorkspaceFiles, value: Any, pattern: str = "drafts/**") -> bool:
    rule: Any = [{"docs__read": {"document": pattern}}]
    return verdict(files, {"document": value}, mode="ask", read_tools="ask", allow=rule) == "allow"


@pytest.mark.parametrize(
    "text",
    [
        "private/key",
        "./x://../private/key",
        "{root}/x://../private/key",
        "x://../private/key",
        "x:y//../private/key",
        "x://drafts/.\t./private/key",
        "~/work/private/key",
        "~/../elsewhere/key",  # a server may have another home
        "x://private/key",
        "x://y://private/key",
        "x://private/y://key",
        "x://%2e%2e/private/key",
        "x://drafts/..%2Fprivate/key",
        ".\\private\\key",
        "drafts/in/key",
        "drafts/in/x://../key",
        "drafts/out/key",  # only a server can open it, and which file it is depends on its root
        "../elsewhere/key",
        "private\0/key",
        ":file:%",
    ],
)
def test_a_denied_file_is_denied_by_each_reading_of_a_text(files: WorkspaceFiles, text: str) -> None:
    value = text.format(root=files.root)
    for each in (value, [value], ["drafts/x", [value]], f'"{value}"', f"{value}\n"):
        assert denied(files, each)
    inside: Any = {"request": {"document": value}}
    deny: Any = [{"*": {"document": "private/**"}}]
    assert verdict(files, inside, mode="run_everything", deny=deny) == "deny"
    both: Any = [{"*": {"document": "private/**", "action": "read"}}]
    for action, expected in (("read", "deny"), ("list", "allow")):
        found = verdict(files, {"document": value, "action": action}, mode="run_everything", deny=both)
        assert found == expected


@pytest.mark.parametrize(
    "text",
    [
        "drafts/x://../../private/key",
        "drafts/x:///private/key",
        "drafts/out/key",
        "drafts/in/key",
        "drafts/../private/key",
        "drafts/..\\..\\private\\key",
        "drafts/a\\b/key",
        "drafts/x\\y/../../private/key",
        "drafts/\n/../../private/key",
        "~/drafts/x",
        "drafts/" + "./" * 2_001 + "IN/key",  # some servers take an entry with a like name
        "drafts/x\0",
    ],
)
def test_a_text_that_may_lead_elsewhere_is_not_allowed(files: WorkspaceFiles, text: str) -> None:
    assert not allowed(files, text)
    assert not allowed(files, ["drafts/x", text])
    two: Any = [{"docs__read": {"document": "drafts/**", "action": "read"}}]
    arguments = {"document": text, "action": "read"}
    assert verdict(files, arguments, mode="ask", read_tools="ask", allow=two) == "ask"
    assert verdict(files, arguments | {"document": "drafts/x"}, mode="ask", read_tools="ask", allow=two) == (
        "allow"
    )


def test_a_link_that_a_pattern_spells_out_is_not_allowed_either(files: WorkspaceFiles) -> None:
    assert allowed(files, "drafts/x", "drafts/x")
    assert not allowed(files, "drafts/out", "drafts/out")
    assert not allowed(files, "drafts/../private/x://y", "drafts/*://*")
    assert not allowed(files, "~/drafts/x", "~/drafts/**")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("*", "https://docs.example/a/../../b ~/x \\ ../../c"),
        ("git *", "git log ../../x"),
        ("ls src/*", "ls src/a b/c"),
        ("say */*", "say and/or, 1/2"),
        ("./src/*", "./src/a/b"),
        ("drafts/**", "drafts/same/x"),
        ("https://docs.example/**", "https://docs.example/a/b?c=d//e#f"),
        ("https://docs.example/**", "https://docs.example/search?q=..%2F..%2F..%2Fx"),
        ("https://docs.example/*", "https://docs.example/login?next=https://other.example/x"),
        ("http*/docs.example/*", "https://docs.example/a"),
        ("*/a", "https://docs.example/a"),
        ("docs://team/**", "docs://team/a%20b/100%"),
        ("file:///data/*", "file:///data/a"),
    ],
)
def test_a_text_that_names_no_other_file_is_still_allowed(
    files: WorkspaceFiles, pattern: str, text: str
) -> None:
    assert allowed(files, text, pattern)


@pytest.mark.parametrize(
    "text",
    [
        "See https://docs.example/private/key, x://private/key and private/key.",
        "https://docs.example/a/../b?c=~/x",
        "https://private.example/key",
        "import a from './../../../b'\n// https://docs.example/../../../x\nf('\\n')\n",
        "/search https://docs.example/a",
        "/elsewhere/private/key",
        "~5 minutes and/or more",
        "C:\\Users\\me\\private\\key",
        "drafts/a\\ b",
        "s/\\.\\./x/g",
        "x/" * 3_000,
        "-> https://a.example/" * 500,
    ],
)
def test_a_text_that_names_no_denied_file_is_not_denied(files: WorkspaceFiles, text: str) -> None:
    assert not denied(files, text)
    assert not denied(files, text, "https://other.example/**")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("docs://private/**", "DOCS://drafts/in/key"),
        ("a%20b/**", "x://a%20b/key"),
        ("*/private/*", "x\\private\\a\\b"),
    ],
)
def test_a_reading_is_compared_with_the_pattern_as_a_text_and_as_a_path(
    files: WorkspaceFiles, pattern: str, text: str
) -> None:
    assert denied(files, text, pattern)


@pytest.mark.parametrize(
    ("pattern", "uri"),
    [
        ("file://{root}/drafts/**", "file://{root}/drafts/../private/key"),
        ("file://{root}/drafts/**", "file://{root}/drafts/%2e%2e/private/key"),
        ("file://{root}/drafts/**", "file://{root}/drafts/in/key"),
        ("x://drafts/**", "x://drafts/../private/key"),
        ("x://drafts/**", "x://drafts/%2E./private/key"),
        ("x://drafts/**", "x://drafts/in/key"),
        ("x://drafts/**", "x://drafts/out/key"),
        ("x:///drafts/**", "x:///drafts/in/key"),
    ],
)
def test_an_address_of_a_servers_template_is_judged_as_the_path_in_it(
    files: WorkspaceFiles, pattern: str, uri: str
) -> None:
    """A server with a template such as ``x://{+path}`` opens what follows ``://``."""
    pattern, uri = pattern.format(root=files.root), uri.format(root=files.root)
    assert not allowed(files, uri, pattern)
    assert allowed(files, pattern.replace("**", "x"), pattern)
    assert denied(files, uri, pattern.replace("drafts", "private"))
    assert not denied(files, pattern.replace("**", "x"), pattern.replace("drafts", "private"))
    outside = f"file://{files.root}/drafts/out/key"
    assert not allowed(files, outside, f"file://{files.root}/drafts/**")


def test_a_path_outside_of_the_workspace_is_clear_also_where_its_name_announces_it(
    files: WorkspaceFiles,
) -> None:
    deny: Any = [{"*": {"path": "private/**"}}]
    assert verdict(files, {"path": "/elsewhere/key"}, mode="run_everything", deny=deny) == "allow"
    assert verdict(files, {"path": "../elsewhere/key"}, mode="run_everything", deny=deny) == "deny"


def test_a_link_out_of_a_sub_agents_workspace_is_judged_by_the_file_that_it_leads_to(
    files: WorkspaceFiles, tmp_path: Path
) -> None:
    (tmp_path / "leak").symlink_to(files.root / "private")
    key = {Spelling(("private", "key"))}
    assert key in reaches(files, WorkspaceFiles(tmp_path), "leak/key")
    assert key not in reaches(files, files, "leak/key")


def test_a_long_text_is_hardly_looked_up(files: WorkspaceFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    followed: list[str] = []
    follow = os.path.realpath
    monkeypatch.setattr(os.path, "realpath", lambda path: [followed.append(str(path)), follow(path)][1])
    assert not all(reaches(files, files, "drafts/in/" + "a/" * 3_000))
    assert follow(files.root / "drafts/in") in map(follow, followed)
    assert max(map(len, followed)) < len(str(files.root)) + 100


# The law.


def _at(root: Path, text: str) -> Path:
    """A text that is absolute and names no folder of the test is a path of the workspace for the rules."""
    return root / (text if text.startswith(str(root.parent)) else text.lstrip("/"))


def _plain(root: Path, text: str) -> str:
    return os.path.realpath(_at(root, text))


def _expanding(root: Path, text: str) -> str:
    return _plain(root, os.path.expanduser(text))  # noqa: PTH111 - a server's own reading


def _joining(root: Path, text: str) -> str:
    return os.path.realpath(os.path.normpath(_at(root, text)))


def _backslashes(root: Path, text: str) -> str:
    return _joining(root, text.replace("\\", "/"))


def _after_first(root: Path, text: str) -> str:
    return _plain(root, text.partition("://")[2] or text)


def _after_last(root: Path, text: str) -> str:
    return _joining(root, text.rpartition("://")[2])


def _decoding(root: Path, text: str) -> str:
    scheme, mark, rest = text.partition("://")
    return _joining(root, unquote(rest)) if mark and scheme.isalpha() else _plain(root, text)


SERVERS: tuple[Server, ...] = (
    _plain,
    _expanding,
    _joining,
    _backslashes,
    _after_first,
    _after_last,
    _decoding,
)
STARTS = st.sampled_from(
    ["", "./", "{root}/", "~/", "~/work/", "x://", "./x://", "drafts/", "drafts/x://", "..\\"]
)
STEPS = st.sampled_from(
    [
        "drafts",
        "private",
        "key",
        "deep",
        "in",
        "out",
        "work",
        "..",
        "..",
        ".",
        "",
        "x:",
        "x://",
        "~",
        "a\\b",
        "%2e%2e",
    ]
)
TEXTS = st.builds(
    lambda start, steps: start + "/".join(steps), STARTS, st.lists(STEPS, min_size=1, max_size=6)
)


@given(text=TEXTS)
@example("drafts/x://../../private/key")
@example("{root}/x://../private/key")
@example("~/work/private/key")
@example("drafts/out/key")
@example("drafts/a\\b/../work/private/key")
def test_no_server_opens_a_file_past_a_rule(files: WorkspaceFiles, text: str) -> None:
    """The law: `deny` fits a text if one server finds a denied file by it, `allow` if none finds another folder's."""
    text = text.format(root=files.root)
    places = [Path(each(files.root, text)) for each in SERVERS]
    if any(each.is_relative_to(files.root / "private") and each != files.root / "private" for each in places):
        assert denied(files, text)
    for pattern in ("drafts/**", f"{files.root}/drafts/**"):
        if not all(each.is_relative_to(files.root / "drafts") for each in places):
            assert not allowed(files, text, pattern)


@given(steps=st.lists(STEPS, min_size=1, max_size=6).map("/".join))
@example("drafts/../private/key")
@example("drafts/out/key")
@example("%2e%2e/work/private/key")
@example("a\\b/../private/drafts")
@example("drafts/a\\b/../private/key")
def test_no_servers_template_opens_a_file_past_a_rule(files: WorkspaceFiles, steps: str) -> None:
    for start, at in (("x://", ""), (f"file://{files.root}/", f"{files.root}/")):
        places = [
            Path(each(files.root, at + form))
            for form in (steps, unquote(steps))
            for each in (_plain, _joining)
        ]
        if any(
            each.is_relative_to(files.root / "private") and each != files.root / "private" for each in places
        ):
            assert denied(files, start + steps, f"{start}private/**")
        if not all(each.is_relative_to(files.root / "drafts") for each in places):
            assert not allowed(files, start + steps, f"{start}drafts/**")
