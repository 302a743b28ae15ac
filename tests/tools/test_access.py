"""Laws of the access policy: what holds for every path, pattern and order of rules."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.proc_files import is_proc
from zeus_runtime.tools.access import (
    ANY_TOOL,
    KINDS,
    AccessPolicy,
    AccessRule,
    AccessRules,
    Deciding,
    Floor,
    Kind,
    Name,
    Patterns,
    Reached,
    Right,
    Ruling,
    is_floor_name,
    is_key_name,
    strictest,
)
from zeus_runtime.tools.calling_tool import calling
from zeus_runtime.tools.gate import AccessAsked, Gate
from zeus_runtime.tools.links import RESOLVED
from zeus_runtime.tools.mounts import Mounts, parts_below
from zeus_runtime.tools.paths import WorkspaceError, folded
from zeus_runtime.tools.workspace import WorkspaceFiles

PARTS = st.sampled_from(["a", "b", "src", "Src", "é.txt", "key.pem", ".env", ".git", "zeus.yaml", "x"])
PATHS = st.lists(PARTS, min_size=1, max_size=4).map(tuple)
PATTERNS = st.sampled_from(
    [
        "**",
        "a/**",
        "src",
        "*.pem",
        "src/*.pem",
        "/src",
        "src/a/x",
        "a/b",
        "zeus.yaml",
        ".env",
        ".e*",
        "{a,b}/**",
    ]
)
RIGHTS = st.sampled_from(["deny", "read", "ask", "write"])
RULES = st.dictionaries(PATTERNS, RIGHTS, max_size=5)


def reached(*paths: Sequence[str], host: str = "/elsewhere") -> Reached:
    return Reached(tuple(Name(tuple(path)) for path in paths), host)


def rules_of(written: dict[str, Right]) -> AccessRules:
    return AccessRules(tuple(rule for line in written.items() for rule in AccessRule.of(*line)))


class _Every:
    """Contains whatever is looked for."""

    def __contains__(self, item: object) -> bool:
        return True


EVERY_REASON: Any = _Every()


def policy_of(written: dict[str, Right], deciding: Deciding | None = None) -> AccessPolicy:
    rules = rules_of(written)
    return AccessPolicy(rules, Floor(deciding or Deciding(), dict.fromkeys(rules.rules, EVERY_REASON)))


def weight(ruling: Ruling | None) -> int:
    return 0 if ruling is None else {"ask": 1, "deny": 2}[ruling.action]


@pytest.mark.parametrize("right", ["deny", "read", "ask", "write"])
def test_a_slash_makes_each_rule_a_path_also_at_the_end(right: Right) -> None:
    (rule,) = AccessRule.of("out/", right)
    assert rule.fits(Name(("out", "a")))
    assert not rule.fits(Name(("src", "out", "a")))


CHOICES = ["a", "b/x", "*.pem", "src/*.pem", "**", ".env", "src/", "zeus.yaml", "x", ""]


@given(
    RULES,
    st.sampled_from(["", "src/", "/", "x", "**/"]),
    st.lists(st.sampled_from(CHOICES), min_size=2, max_size=3),
    st.sampled_from(["", "/**", "/x", ".env"]),
    RIGHTS,
    PATHS,
    st.booleans(),
    st.booleans(),
)
def test_braces_mean_what_the_lines_of_their_alternatives_mean(
    others: dict[str, Right],
    before: str,
    choices: list[str],
    after: str,
    right: Right,
    path: tuple[str, ...],
    foreign: bool,
    on_way: bool,
) -> None:
    """A name beside a path was a path, and the parts of one alternative made all of them more specific."""
    lines = tuple(AccessRule(each, right, each) for each in (f"{before}{each}{after}" for each in choices))
    braces = AccessRule.of(f"{before}{{{','.join(choices)}}}{after}", right)
    file = Reached((Name(path, foreign=foreign),), "/elsewhere", on_way=on_way)
    seen = []
    for rules in (lines, braces):
        each = AccessRules((*rules_of(others).rules, *rules))
        policy = AccessPolicy(each, Floor(Deciding()))
        rulings = [weight(policy.ruling(file, kind, None)) for kind in KINDS]
        below = [rule.may_fit_below(path) for rule in policy.restricting]
        seen.append((rulings, any(below)))
    assert seen[0] == seen[1]


def test_a_ruling_names_the_pattern_as_it_is_written() -> None:
    rules = rules_of({"{*.pem,secrets/**}": "deny"})
    for path in (["certs", "server.pem"], ["secrets", "key"]):
        ruling = rules.ruling(reached(path), "read", None)
        assert ruling is not None
        assert "`{*.pem,secrets/**}: deny`" in ruling.why


@pytest.mark.parametrize("right", ["deny", "read", "ask", "write"])
def test_braces_are_also_the_text_of_a_name_except_to_open_it(right: Right) -> None:
    rules = AccessRule.of("{a,b/c}/x", right)
    assert any(rule.fits(Name(("{a,b", "c}", "x"))) for rule in rules) is (right != "write")
    assert not any(rule.lifts(("{a,b", "c}", "x"), 3) for rule in rules)


@given(RULES, PATHS, st.randoms())
def test_the_order_of_rules_does_not_count(
    written: dict[str, Right], path: tuple[str, ...], random: object
) -> None:
    mixed = list(written.items())
    random.shuffle(mixed)  # type: ignore[attr-defined]
    for kind in KINDS:
        first = policy_of(written).ruling(reached(path), kind, None)
        assert weight(first) == weight(policy_of(dict(mixed)).ruling(reached(path), kind, None))


@given(RULES, PATTERNS, PATHS)
def test_a_deny_rule_never_widens_and_always_wins(
    written: dict[str, Right], pattern: str, path: tuple[str, ...]
) -> None:
    narrower: dict[str, Right] = {**written, pattern: "deny"}
    others: dict[str, Right] = {key: right for key, right in written.items() if key != pattern}
    for kind in KINDS:
        after = weight(policy_of(narrower).ruling(reached(path), kind, None))
        assert after >= weight(policy_of(others).ruling(reached(path), kind, None))
        if any(rule.depth(path) for rule in AccessRule.of(pattern, "deny")):
            assert after == 2


@given(RULES, PATHS, PATHS)
def test_a_file_with_two_names_is_judged_by_the_stricter(
    written: dict[str, Right], one: tuple[str, ...], two: tuple[str, ...]
) -> None:
    for kind in KINDS:
        rulings = [rules_of(written).ruling(reached(each), kind, None) for each in (one, two)]
        assert weight(rules_of(written).ruling(reached(one, two), kind, None)) == max(map(weight, rulings))


@given(RULES, PATHS, st.sampled_from(["upper", "nfd", "dot", "space", "joiner"]))
def test_spellings_that_a_file_system_takes_for_one_name_are_closed_alike(
    written: dict[str, Right], path: tuple[str, ...], spelling: str
) -> None:
    other = {
        "upper": str.upper,
        "nfd": lambda part: unicodedata.normalize("NFD", part),
        "dot": lambda part: part + ".",
        "space": lambda part: part + " ",
        "joiner": lambda part: part[:1] + "\u200d" + part[1:],
    }[spelling]
    spelled = tuple(other(part) for part in path)
    for rule in rules_of(written).rules:
        assert bool(rule.depth(spelled)) >= bool(rule.depth(tuple(folded(part) for part in path)))
    floor = Floor(Deciding())
    for kind in KINDS:
        assert weight(floor.ruling(reached(spelled), kind, None)) == weight(
            floor.ruling(reached(path), kind, None)
        )


@given(PATHS, st.sampled_from(["**", "*", ".*", "[.]env", "{.env,.git}", "?git", "zeus.*", "**/.env"]))
def test_a_pattern_with_wildcards_lifts_no_protection(path: tuple[str, ...], pattern: str) -> None:
    deciding = Deciding()
    deciding.add("/w/zeus.yaml")
    at = reached(path, host="/w/" + "/".join(path))
    bare, opened = policy_of({}, deciding), policy_of({pattern: "write"}, deciding)
    for kind in KINDS:
        assert weight(opened.ruling(at, kind, None)) == weight(bare.ruling(at, kind, None))


@given(PATHS)
def test_an_exact_rule_lifts_what_it_names_and_what_is_in_it(path: tuple[str, ...]) -> None:
    opened = policy_of({"/".join(("", *path)): "write"})
    assert opened.ruling(reached(path), "write", None) is None
    below = opened.ruling(reached((*path, "x", ".git")), "write", None)
    assert below is not None


@given(st.lists(PATHS, max_size=4), PATHS)
def test_what_is_below_a_deciding_path_is_protected_in_whatever_order_it_is_asked(
    added: list[tuple[str, ...]], path: tuple[str, ...]
) -> None:
    deciding = Deciding()
    hosts = ["/" + "/".join(each) for each in added]
    for host in hosts:
        deciding.find("/" + "/".join(path))
        deciding.add(host)
    same = [folded(part) for part in path]
    expected = [
        [folded(part) for part in each]
        for each in added
        if [folded(part) for part in each] == same[: len(each)]
    ]
    found = deciding.find("/" + "/".join(path))
    assert (found is not None) == bool(expected)
    if found is not None:
        assert found[1] == len(path) - min(map(len, expected))


@pytest.mark.parametrize(
    ("written", "path", "read", "write"),
    [
        ({"**": "read", "out/**": "write"}, "out/a", 0, 0),
        ({"**": "read", "out/**": "write"}, "src/a", 0, 2),
        ({"out/**": "write", "*.pem": "deny"}, "out/a.pem", 2, 2),
        ({"src/**": "ask", "src/made/**": "write"}, "src/made/a", 0, 0),
        ({"src/**": "read", "notes.md": "write"}, "src/notes.md", 0, 2),
        ({"infra": "ask"}, "deep/infra/a", 0, 1),
        ({"/infra": "ask"}, "deep/infra/a", 0, 0),
        ({"secrets/**": "deny"}, "secrets", 2, 2),
        ({"app/[slug]/**": "deny"}, "app/[slug]/a", 2, 2),
        ({"[id].ts": "read"}, "app/[id].ts", 0, 2),
        ({"**": "ask", "app/[ab]/**": "write"}, "app/[ab]/a", 0, 1),
        ({"**": "ask", "app/[[]ab]/**": "write"}, "app/[ab]/a", 0, 0),
    ],
)
def test_the_law_by_examples(written: dict[str, Right], path: str, read: int, write: int) -> None:
    policy = policy_of(written)
    at = reached(path.split("/"))
    assert [weight(policy.ruling(at, kind, None)) for kind in KINDS] == [read, write]


@pytest.mark.parametrize(
    ("written", "folder", "weighs"),
    [
        ({"**": "read", "out/**": "write"}, "out", 0),
        ({"**": "read", "docs/made/*.md": "write"}, "docs", 0),
        ({"**": "read", "docs/made/*.md": "write"}, "Docs/made", 0),
        ({"**": "read", "docs/made/*.md": "write"}, "docs/other", 2),
        ({"**": "read", "docs/made/*.md": "write"}, "docs/made/deep", 2),
        ({"**": "read", "src/{a,b}/out/*": "write"}, "src/b", 0),
        ({"**": "read", "**/out/**": "write"}, "src", 2),
        ({"**": "read", "src/*/out/**": "write"}, "src/new", 2),
        ({"**": "ask", "notes.md": "write"}, "notes", 1),
        ({"**": "read", "docs/made/a": "ask"}, "docs", 2),
        ({"docs": "deny", "docs/made/a": "write"}, "docs", 2),
        ({"docs/*": "read", "docs/made/a": "write"}, "docs/made", 0),
    ],
)
def test_a_folder_is_made_on_the_way_where_a_pattern_to_write_begins(
    written: dict[str, Right], folder: str, weighs: int
) -> None:
    at = reached(folder.split("/"))._replace(on_way=True)
    assert weight(policy_of(written).ruling(at, "write", None)) == weighs


def test_the_beginning_of_a_pattern_to_write_opens_no_file() -> None:
    policy = policy_of({"**": "read", "docs/made/*.md": "write"})
    assert weight(policy.ruling(reached(["docs", "made"]), "write", None)) == 2


def test_a_pattern_to_write_makes_no_folder_of_another_workspace() -> None:
    foreign = Reached((Name(("docs",), foreign=True),), "/elsewhere/docs", on_way=True)
    assert weight(policy_of({"*": "read", "docs/made/a": "write"}).ruling(foreign, "write", None)) == 2


def test_a_denial_comes_before_a_question_whatever_their_order() -> None:
    ask, deny = Ruling("ask", "x"), Ruling("deny", "y")
    assert strictest([ask, None, deny]) == strictest([deny, ask]) == deny
    assert strictest([None, ask]) == ask
    assert strictest([None]) is None


def test_patterns_of_a_component_may_have_a_name_beside_a_path_in_braces() -> None:
    layer = Patterns(("{*.pem,secrets/**}",), "filesystem.protected")
    for path in (["certs", "a.pem"], ["secrets", "a"]):
        assert layer.ruling(reached(path), "write", "write_file") is not None


def test_links_are_searched_for_each_alternative_of_a_component_too() -> None:
    policy = replace(policy_of({}), layers=(Patterns(("{*.pem,secrets/**}",), "filesystem.protected"),))
    assert {"*.pem", "secrets/**"} <= {rule.pattern for rule in policy.restricting}


def test_patterns_of_a_component_close_writing_alone() -> None:
    layer = Patterns(("docs/final",), "filesystem.protected")
    assert layer.ruling(reached(["docs", "Final", "x"]), "write", "write_file") is not None
    assert layer.ruling(reached(["docs", "final", "x"]), "read", "read_file") is None
    assert layer.ruling(reached(["docs", "draft"]), "write", "write_file") is None


# On folders


def files_of(
    root: Path, written: dict[str, Right], above: Gate | None = None, **routes: Path
) -> WorkspaceFiles:
    given_routes = {f"/{name}/": host for name, host in routes.items()}
    gate = Gate(Mounts(root, given_routes, given_routes), policy_of(written), above=above)
    return WorkspaceFiles(root, given_routes, gate=gate)


def test_a_missing_folder_that_no_tool_may_make_is_not_made_on_the_way(tmp_path: Path) -> None:
    (tmp_path / "src/old").mkdir(parents=True)
    (tmp_path / "link").symlink_to("src")
    files = files_of(tmp_path, {"**": "read", "**/out/**": "write", "a/b/*.md": "write"})
    refused = (
        "/src/new: the folder is missing, and the rule `**: read` of workspace.access lets no tool write it."
    )
    for write in (files.write, files.append):
        for path in ("src/new/deep/out/x", "link/new/deep/out/x"):
            with calling("write_file"), pytest.raises(WorkspaceError) as error:
                write(path, b"x")
            assert error.value.message == files.write_refusal(path) == refused
    assert not (tmp_path / "src/new").exists()
    with calling("write_file"):
        for path in ("src/old/out/deep/x", "out/x", "a/b/x.md"):
            assert files.write_refusal(path) is None
            assert files.write(path, b"x")


def test_the_folder_of_a_route_is_made_whatever_the_rules_say_of_the_prefix(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    files = files_of(tmp_path / "root", {"**": "read", "**/x.md": "write"}, notes=tmp_path / "kept")
    assert files.write_refusal("notes/x.md") is None
    with calling("write_file"):
        assert files.write("notes/x.md", b"x")


def test_a_denied_folder_on_the_way_is_told_before_any_folder_is_made_or_person_asked(tmp_path: Path) -> None:
    written: dict[str, Right] = {"**": "ask", "a/*": "read", "a/**/out/*": "ask"}
    files = files_of(tmp_path, written)
    with (
        calling("write_file", approved=True, files=[("a", "b", "out", "x")]),
        pytest.raises(WorkspaceError, match="/a/b: the folder is missing"),
    ):
        files.write("a/b/out/x", b"x")
    assert not list(tmp_path.iterdir())
    with calling("write_file"), pytest.raises(WorkspaceError, match="/a/b: the folder is missing"):
        files_of(tmp_path, written | {"a/**/out/*": "write"}).write("a/b/out/x", b"x")
    assert not list(tmp_path.iterdir())
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a/b")
    for path in ("a/b/out/x", "link/out/x"):
        with (
            calling("write_file"),
            pytest.raises(WorkspaceError, match=r"^/a/b: the folder is missing") as told,
        ):
            files.write(path, b"x")
        assert "Do not try another way" in str(told.value.remedy)
        assert not (tmp_path / "a/b").exists()


def test_a_way_that_a_program_changes_while_folders_are_made_is_judged_where_it_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "src").mkdir()
    files = files_of(tmp_path, {"**": "read", "a/**": "write", "src/**/x": "write"})
    made = os.mkdir

    def moved(name: str, *rest: Any, **where: Any) -> None:
        made(name, *rest, **where)
        if name == "b":
            (tmp_path / "a").rename(tmp_path / "src/a")

    monkeypatch.setattr(os, "mkdir", moved)
    with (
        calling("write_file"),
        pytest.raises(WorkspaceError, match=r"^/a/b/c: the folder is missing, and the rule"),
    ):
        files.write("a/b/c/x", b"x")
    assert (tmp_path / "src/a/b").exists()
    assert not (tmp_path / "src/a/b/c").exists()


def test_an_agent_above_judges_the_folders_on_the_way_too(tmp_path: Path) -> None:
    (tmp_path / "box").mkdir()
    above = files_of(tmp_path, {"**": "read", "box/*/out/**": "write"}).gate
    files = files_of(tmp_path / "box", {}, above)
    with calling("write_file"), pytest.raises(WorkspaceError, match=r"^/new: the folder is missing"):
        files.write("new/out/x", b"x")
    assert not (tmp_path / "box/new").exists()
    above = files_of(tmp_path, {"**": "read", "box/new/*/x": "write", "box/new/out": "write"}).gate
    files = files_of(tmp_path / "box", {}, above)
    with calling("write_file"):
        assert files.write("new/out/x", b"x")


def test_one_approval_covers_all_folders_on_the_way_to_what_it_shows(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    files = files_of(tmp_path, {"**": "ask", "**/out/**": "write"})
    for approved in ((), (("src", "new", "deeper"),), (("src", "other", "x"),)):
        with (
            calling("write_file", approved=True, files=approved),
            pytest.raises(AccessAsked) as asked,
        ):
            files.write("src/new/deep/out/x", b"x")
        # The innermost one: its path shows the others.
        assert asked.value.path == "/src/new/deep"
        assert "the folder is missing, and the rule `**: ask`" in asked.value.ruling.why
        assert not (tmp_path / "src/new").exists()
    with calling(None), pytest.raises(WorkspaceError, match="/src/new/deep: the folder is missing"):
        files.write("src/new/deep/out/x", b"x")
    with calling("write_file", approved=True, files=[("src", "New", "deep")]):
        assert files.write("src/new/deep/out/x", b"x")
    with calling("write_file", approved=True, files=[("lib", "deep", "out", "x")]):
        assert files.write("lib/deep/out/x", b"x")
    with calling("write_file", approved=True):
        assert files.write("more/deep/x", b"x")


def test_a_way_that_climbs_out_of_a_missing_folder_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("new/../made")
    files = files_of(tmp_path, {})
    with calling("write_file"), pytest.raises(WorkspaceError, match="does not exist"):
        files.write("link/x", b"x")
    assert [each.name for each in tmp_path.iterdir()] == ["link"]


@given(RULES, RULES, st.sampled_from(["a", "b/a", "b/src/key.pem", "src/x", "b/a/b"]))
def test_an_agent_below_reaches_no_more_than_the_one_above(
    tmp_path_factory: pytest.TempPathFactory, outer: dict[str, Right], inner: dict[str, Right], path: str
) -> None:
    root = tmp_path_factory.getbasetemp() / "family"
    (root / "b").mkdir(parents=True, exist_ok=True)
    above = files_of(root, outer).gate
    assert above is not None
    host = f"{root.resolve()}/b/{path}"
    below = files_of(root / "b", inner, above).gate
    assert below is not None
    parts = tuple(path.split("/"))
    for kind in KINDS:
        own = weight(above.ruling(("b", *parts), host, kind))
        assert weight(below.ruling(parts, host, kind)) >= own


def test_a_folder_that_is_swapped_for_a_link_in_the_middle_of_a_walk_is_judged_as_what_it_is(
    tmp_path: Path,
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "open").mkdir()
    (tmp_path / "secret/a").write_text("needle")
    (tmp_path / "open/a").write_text("fine")
    files = files_of(tmp_path, {"secret/**": "deny"})
    gate = files.gate
    assert gate is not None
    asked: list[str] = []

    class Swapping(Gate):
        """Renames the folders as soon as the path was judged by its words."""

        def require(self, parts: tuple[str, ...], host: str, kind: Kind, **given: Any) -> None:
            super().require(parts, host, kind, **given)
            if not asked:
                (tmp_path / "open").rename(tmp_path / "was")
                (tmp_path / "secret").rename(tmp_path / "open")
                (tmp_path / "open").rename(tmp_path / "secret")
                (tmp_path / "open").symlink_to("secret")
            asked.append(host)

    files.gate = Swapping(gate.mounts, gate.policy)
    with pytest.raises(Exception, match="closes it"):
        files.read("/open/a", max_bytes=10)
    assert len(asked) == 1


def test_what_a_tool_is_called_is_known_in_its_call_alone(tmp_path: Path) -> None:
    seen: list[str | None] = []

    class Listening:
        def ruling(self, reached: Reached, kind: Kind, tool: str | None) -> Ruling | None:
            seen.append(tool)
            return None

    rules = AccessRules()
    policy = AccessPolicy(rules, Floor(Deciding()), (Listening(),))
    files = WorkspaceFiles(tmp_path, gate=Gate(Mounts(tmp_path, {}), policy))
    files.entries("/")
    assert set(seen) == {ANY_TOOL}
    seen.clear()
    with calling(None):
        files.entries("/")
    assert set(seen) == {None}
    seen.clear()
    with calling("ls"):
        files.entries("/")
    assert set(seen) == {"ls"}


@pytest.mark.parametrize("keys", [["/w/a"], ["/w/a/b"], ["/w/a", "/w/a/b"]])
def test_what_holds_keys_stays_so_whatever_else_is_said_of_it_or_its_folder(keys: list[str]) -> None:
    deciding = Deciding()
    for host in keys:
        deciding.add(host, holds_keys=True)
    for host in ("/w/a", "/w/a/b"):
        deciding.add(host)
    found = deciding.find("/w/a/b/c")
    assert found is not None
    assert found[0].holds_keys


def gate_of(
    root: Path,
    written: dict[str, Right],
    above: Gate | None = None,
    deciding: Deciding | None = None,
    **at: Path,
) -> Gate:
    routes = {f"/{name}/": host for name, host in at.items()}
    return Gate(Mounts(root, routes, routes), policy_of(written, deciding), above=above)


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        ({"/sub/x": "deny"}, {}, {"x"}),
        ({"/x": "deny"}, {}, set()),
        ({"*.pem": "deny"}, {}, {"k.pem"}),
        ({}, {"x": "deny"}, {"x"}),
        ({"/sub/x": "deny"}, {"k.pem": "deny"}, {"x", "k.pem"}),
        ({"/up/**": "deny"}, {}, {"data"}),
        ({"/up": "ask"}, {}, set()),
        ({}, {"/own/**": "deny"}, {"data"}),
        ({}, {"/own": "read"}, set()),
    ],
)
def test_a_listing_leaves_out_what_the_rules_of_both_agents_and_all_mounts_close(
    tmp_path: Path, outer: dict[str, Right], inner: dict[str, Right], expected: set[str]
) -> None:
    """``data`` is a folder of the workspace and the root of a mount: ``/up`` above, ``/own`` below."""
    root, sub = tmp_path.resolve(), tmp_path.resolve() / "sub"
    above = gate_of(root, outer, up=sub / "data")
    below = gate_of(sub, inner, above, own=sub / "data")
    entries = {"x", "k.pem", "y", "data"}
    assert below.hidden((), str(sub), entries) == expected
    assert {each for each in entries if below.hides((each,), f"{sub}/{each}")} == expected


@pytest.mark.parametrize(("pattern", "expected"), [("*.pem", {"k.pem"}), ("/k.pem", set()), ("y", {"y"})])
def test_rules_about_names_above_hide_entries_of_a_folder_that_only_the_agent_below_has(
    tmp_path: Path, pattern: str, expected: set[str]
) -> None:
    here, elsewhere = tmp_path.resolve() / "here", tmp_path.resolve() / "elsewhere"
    below = gate_of(elsewhere, {}, gate_of(here, {pattern: "deny"}))
    for folder, parts in ((elsewhere, ()), (elsewhere / "a", ("a",))):
        assert below.hidden(parts, str(folder), {"k.pem", "y"}) == expected


def test_a_tools_rule_hides_entries_in_that_tools_call_alone(tmp_path: Path) -> None:
    class ForGrep:
        def ruling(self, reached: Reached, kind: Kind, tool: str | None) -> Ruling | None:
            return Ruling("deny", "a rule") if tool == "grep" and kind == "read" else None

    rules = AccessRules()
    gate = Gate(Mounts(tmp_path, {}), AccessPolicy(rules, Floor(Deciding()), (ForGrep(),)))
    assert gate.hidden((), str(tmp_path), {"a"}) == set()
    with calling("grep"):
        assert gate.hidden((), str(tmp_path), {"a"}) == {"a"}


@pytest.mark.parametrize("whose", ["own", "above"])
def test_a_second_name_of_a_key_is_refused_whosever_key_it_is(tmp_path: Path, whose: str) -> None:
    key, other = tmp_path / "key", tmp_path / "node_modules" / "other"
    key.write_text("secret")
    other.parent.mkdir()
    other.hardlink_to(key)
    keys = Deciding()
    keys.add(str(key), holds_keys=True)
    keys.add(str(tmp_path / "gone"), holds_keys=True)
    above = gate_of(tmp_path / "top", {}, deciding=keys if whose == "above" else None)
    own = gate_of(tmp_path, {}, above, keys if whose == "own" else None)
    gate = Gate(own.mounts, own.policy, ("node_modules",), above)
    assert gate.is_key(other.stat())
    with pytest.raises(Exception, match="another name of a file that holds keys"):
        WorkspaceFiles(tmp_path, gate=gate).read("/node_modules/other", max_bytes=10)
    without = Gate(own.mounts, policy_of({}), ("node_modules",))
    assert WorkspaceFiles(tmp_path, gate=without).read("/node_modules/other", max_bytes=10) == b"secret"


@pytest.mark.parametrize(
    "name",
    [
        *(".env", ".env~", "#.env#", "#.ENV.local#", "#.env.d/key"),
        *("..env.un~", "..env.swp", "._.env", ".#.env", "..env.AbC123", ".syncthing..env.tmp"),
        *(".mcp.json", ".mcp.json~", ".mcp.json.bak", "#.mcp.json#", "..MCP.json.swp", "._.mcp.json"),
    ],
)
def test_what_an_editor_keeps_of_a_file_of_keys_is_closed_as_the_file_is(tmp_path: Path, name: str) -> None:
    gate = gate_of(tmp_path, {})
    place = tmp_path / name
    place.parent.mkdir(exist_ok=True)
    place.write_text("KEY=1")
    with pytest.raises(WorkspaceError, match="may hold"):
        WorkspaceFiles(tmp_path, gate=gate).read(f"/{name}", max_bytes=10)
    assert is_floor_name(name.partition("/")[0])
    assert is_key_name(name.partition("/")[0])
    assert any(fnmatchcase(name.partition("/")[0].lower(), each) for each in gate.protected())


@pytest.mark.parametrize(
    "name",
    [
        ".devenv",
        "env",
        "my.env",
        "src.environment.ts",
        "claude.mcp.json",
        "mcp.json",
        ".github",
        ".gitignore",
    ],
)
def test_a_name_that_no_copy_of_a_file_of_keys_has_is_open(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("KEY=1")
    assert WorkspaceFiles(tmp_path, gate=gate_of(tmp_path, {})).read(f"/{name}", max_bytes=10) == b"KEY=1"
    assert not is_floor_name(name)
    assert not is_key_name(name)


@pytest.mark.skipif(not Path("/proc/self/mountinfo").exists(), reason="needs Linux's /proc")
def test_files_of_processes_are_read_by_no_tool_wherever_they_are_mounted() -> None:
    """No rule knows the path: the mount at /proc stands for one that a container has elsewhere."""
    pid = os.getpid()
    files = WorkspaceFiles(Path("/proc"), gate=gate_of(Path("/proc"), {f"{pid}/environ": "write"}))
    path, host = f"/{pid}/environ", Path(f"/proc/{pid}/environ")
    for reach in (
        lambda: files.read(path, max_bytes=10**6),
        lambda: files.read_host(host, max_bytes=10**6),
        lambda: files.edit(f"/{pid}/comm", lambda data: data, max_bytes=100),
        lambda: files.append(f"/{pid}/comm", b"x"),
    ):
        with pytest.raises(WorkspaceError, match="is in a proc file system"):
            reach()
    assert "is in a proc file system" in str(files.refusal_of(host))
    assert not is_proc(Path(__file__).stat().st_dev)


def test_what_a_link_led_to_is_judged_also_if_it_leads_elsewhere_a_moment_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for each in (root, outside):
        each.mkdir()
    (outside / ".env").write_text("KEY=1")
    (outside / "notes.txt").write_text("notes")
    (root / "link").symlink_to(outside / "notes.txt")
    files = WorkspaceFiles(root, gate=gate_of(root, {}))
    assert files.read_host(root / "link", max_bytes=100) == b"notes"
    with pytest.raises(WorkspaceError, match="is behind a link"):
        files.read_host(root / "link", max_bytes=100, follow=False)
    monkeypatch.setattr("zeus_runtime.tools.workspace.real_path", lambda _path: str(outside / ".env"))
    with pytest.raises(WorkspaceError, match="it may hold keys"):
        files.read_host(root / "link", max_bytes=100)


REMOUNTED = """
import os, subprocess, sys
from zeus_runtime.proc_files import is_proc

def mounted(kind):
    subprocess.run(["mount", "-t", kind, "none", sys.argv[1]], check=True)
    return os.stat(sys.argv[1]).st_dev

said = [is_proc(mounted("tmpfs"))]
subprocess.run(["umount", sys.argv[1]], check=True)
said.append(is_proc(mounted("proc")))
subprocess.run(["umount", sys.argv[1]], check=True)
said.append(is_proc(mounted("tmpfs")))
print(said)
"""


@pytest.mark.skipif(not Path("/proc/self/mountinfo").exists(), reason="needs Linux's /proc")
def test_a_proc_file_system_is_known_by_its_mount_though_numbers_of_devices_are_reused(
    tmp_path: Path,
) -> None:
    apart = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork"]
    trial = [*apart, "mount", "-t", "proc", "none", str(tmp_path)]
    if shutil.which("unshare") is None or subprocess.run(trial, capture_output=True).returncode:
        pytest.skip("this machine does not let a user mount a proc file system")
    done = subprocess.run(
        [*apart, sys.executable, "-c", REMOUNTED, str(tmp_path)], capture_output=True, text=True
    )
    # Linux gives the first number again, unless another program mounts something at this moment.
    assert done.stdout == "[False, True, False]\n", done.stderr


@pytest.mark.skipif(not Path("/proc/self/mountinfo").exists(), reason="needs Linux's /proc")
def test_a_rule_that_names_a_file_of_the_machines_proc_opens_it() -> None:
    deciding = Deciding()
    deciding.add("/proc", holds_keys=True)
    files = WorkspaceFiles(Path("/"), gate=gate_of(Path("/"), {"proc/version": "read"}, deciding=deciding))
    assert files.read("/proc/version", max_bytes=10_000).startswith(b"Linux")
    with pytest.raises(WorkspaceError, match="no tool may read or change"):
        files.read("/proc/self/environ", max_bytes=10**6)


def test_a_workspace_that_was_moved_is_judged_where_it_lies_now(tmp_path: Path) -> None:
    """The same folder by the same name: only the open descriptor tells that a link above it leads elsewhere."""
    old, new, link = (tmp_path / each for each in ("old", "new", "link"))
    (old / "root").mkdir(parents=True)
    (old / "root/a").write_text("before")
    new.mkdir()
    link.symlink_to("old")
    deciding = Deciding()
    deciding.add(str(new.resolve() / "root/a"))
    files = WorkspaceFiles(link / "root", gate=gate_of(link / "root", {}, deciding=deciding))
    assert files.write("/a", b"free") is False
    (old / "root").rename(new / "root")
    link.unlink()
    link.symlink_to("new")
    with pytest.raises(Exception, match="decides about this agent"):
        files.write("/a", b"evil")
    assert (new / "root/a").read_text() == "free"


def test_a_folder_that_only_the_agent_above_has_as_a_mount_is_judged_by_that_mounts_name(
    tmp_path: Path,
) -> None:
    root = tmp_path.resolve()
    below = gate_of(root, {}, gate_of(root, {"/up/**": "deny"}, up=root / "data"))
    assert below.hidden((), str(root), {"data", "x"}) == {"data"}


@pytest.mark.parametrize("closed", ["/asked", "/found", "/other"])
def test_a_file_is_judged_by_the_path_that_was_asked_and_by_the_one_that_it_has(
    tmp_path: Path, closed: str
) -> None:
    gate = gate_of(tmp_path, {closed: "deny"})
    ruling = gate.ruling(("asked",), f"{tmp_path.resolve()}/found", "read")
    assert (ruling is None) == (closed == "/other")


def test_a_call_inside_another_has_its_own_links_and_leaves_those_of_the_other() -> None:
    assert RESOLVED.get() is None
    with calling("read_file"):
        of_tool = RESOLVED.get()
        assert of_tool == {}
        with calling(None):
            assert RESOLVED.get() is None
            with calling("grep"):
                assert RESOLVED.get() == {}
                assert RESOLVED.get() is not of_tool
            assert RESOLVED.get() is None
        assert RESOLVED.get() is of_tool
    assert RESOLVED.get() is None


@pytest.fixture(params=[True, False], ids=["one", "two"])
def is_one(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the file system takes names in other case for one folder."""

    def are_one_folder(one: str, other: str) -> bool:
        assert one.count("/") == other.count("/")
        return bool(request.param)

    monkeypatch.setattr("zeus_runtime.tools.mounts.are_one_folder", are_one_folder)
    return bool(request.param)


@pytest.mark.parametrize(
    ("host", "below"),
    [
        ("/w/Proj", ()),
        ("/w/Proj/a/B", ("a", "B")),
        ("/w/PROJ", ()),
        ("/W/proj/a/B", ("a", "B")),
        ("/w/Proj./a", ("a",)),
        ("/w", None),
        ("/Proj", None),
        ("/w/Project/a", None),
        ("/v/Proj/a", None),
    ],
)
def test_a_file_below_another_spelling_of_a_mount_has_its_name(
    is_one: bool, host: str, below: tuple[str, ...] | None
) -> None:
    expected = below if is_one or host.startswith("/w/Proj/") or host == "/w/Proj" else None
    assert parts_below("/w/Proj", host) == expected
    mounts = Mounts(Path("/w/Proj"), {"/out/": Path("/elsewhere/In")}, ["/out/"])
    assert mounts.names_of(host) == (() if expected is None else (Name(expected),))
    assert [each.parts for each in mounts.names_of_written(host)] == ([] if expected is None else [expected])
    assert mounts.tails_of(host) == ([] if expected is None else [("Proj", *expected)])


@pytest.mark.parametrize("spelled", ["build", "Build"])
def test_a_rule_on_a_route_holds_for_each_spelling_of_its_folder(
    tmp_path: Path, is_one: bool, spelled: str
) -> None:
    """Two folders that both exist are two places."""
    root = tmp_path / "root"
    for name in ("build", "Build"):
        (root / name / "private").mkdir(parents=True)
        (root / name / "private/key").write_text(name)
    mounts = Mounts(root, {"/out/": root / spelled}, ["/out/"])
    gate = Gate(mounts, policy_of({"out/private/**": "deny", "out": "read"}))
    files = WorkspaceFiles(root, {"/out/": root / spelled}, gate=gate)
    for name in ("build", "Build"):
        is_closed = is_one or name == spelled
        for host in (root, root.with_name("ROOT")):
            refusal = files.refusal_of(host / name / "private/key")
            assert (refusal is not None) == (is_closed and (is_one or host == root))
        if is_closed:
            with pytest.raises(WorkspaceError, match="closes it"):
                files.read(f"/{name}/private/key", max_bytes=9)
        else:
            assert files.read(f"/{name}/private/key", max_bytes=9) == name.encode()
        assert [each.path for each in files.entries(f"/{name}")] == (
            [] if is_closed else [f"/{name}/private"]
        )
        assert (files.write_refusal(f"/{name}/new") is not None) == is_closed


def test_a_listing_hides_a_closed_mount_by_each_spelling(tmp_path: Path, is_one: bool) -> None:
    for name in ("build", "Build"):
        (tmp_path / name).mkdir()
    gate = Gate(Mounts(tmp_path, {"/out/": tmp_path / "Build"}), policy_of({"out": "deny"}))
    hidden = gate.hidden((), str(tmp_path), ["build", "Build"])
    assert hidden == ({"build", "Build"} if is_one else {"Build"})


def test_a_pattern_for_a_folder_that_is_not_there_yet_may_be_one_of_the_machines_root(tmp_path: Path) -> None:
    """Each path is a path of this machine into a workspace or a route that is `/`."""
    (tmp_path / "work").mkdir()
    later = f"{tmp_path}/later/**"
    assert Mounts(Path("/"), {}).pattern_of(later) is None
    assert Mounts(Path("/"), {"/memory/": tmp_path}).pattern_of(later) is None
    routed = Mounts(tmp_path / "work", {"/host/": Path("/")})
    assert routed.pattern_of("/later/zeus/**") is routed.pattern_of(f"/host{later}") is None
    assert routed.pattern_of(f"{tmp_path}/**") == f"/host{tmp_path}/**"
    assert routed.pattern_of(f"{tmp_path}/work/later/**") == "/later/**"
