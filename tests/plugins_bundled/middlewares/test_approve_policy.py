"""What a rule means, and the laws that every verdict keeps."""

from __future__ import annotations

import errno
import os
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Any, Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zeus_plugins.middlewares.approve.options import Options
from zeus_plugins.middlewares.approve.path_spellings import leads_to, with_targets
from zeus_plugins.middlewares.approve.policy import Policy, by_mode
from zeus_plugins.middlewares.approve.reach import PathRules
from zeus_plugins.middlewares.approve.readings import _REPLACED, meets
from zeus_plugins.middlewares.approve.rules import Spelling, is_path, rules_of

from zeus_runtime.plugin.files import Reached, WorkspaceError, WorkspaceFiles, expand_braces, parts_of
from zeus_runtime.plugin.tool import Tool
from zeus_runtime.tools.access import AccessRule, Name

Access = Literal["read", "write"]


async def nothing(**_arguments: Any) -> str:
    return ""


def tool(name: str = "write_file", access: Access = "write", **properties: Any) -> Tool:
    return Tool(name, "", {"type": "object", "properties": properties}, nothing, access=access)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> WorkspaceFiles:
    root = tmp_path_factory.mktemp("workspace")
    for folder in ("src/deep", "secret"):
        (root / folder).mkdir(parents=True)
    (root / "src" / "link").symlink_to(root / "secret")
    (root / "src" / "out").symlink_to("/")
    (root / "plain").symlink_to(root / "src")
    return WorkspaceFiles(root)


def verdict(
    workspace: WorkspaceFiles, arguments: Mapping[str, Any], of: Tool | None = None, /, **options: Any
) -> str:
    typed = Options(**options)
    policy = Policy(typed, lambda path: leads_to(workspace, path))
    called = of or tool()
    return (policy.ruled(called, arguments) or by_mode(typed.mode, called)).action


SHELL = replace(tool("run_command"), category="shell")


@pytest.mark.parametrize(
    ("called", "given", "told"),
    [
        (SHELL, {"cwd": "src/link"}, 'why; cwd leads to "/secret"'),
        (SHELL, {"cwd": "/plain/deep", "command": "plain"}, 'why; cwd leads to "/src/deep"'),
        (replace(SHELL, category="filesystem"), {"path": "plain"}, 'why; path leads to "/src"'),
        (SHELL, {"cwd": "src/deep/.."}, "why"),
        (SHELL, {"cwd": "src/out"}, "why"),
        (SHELL, {"cwd": "plain\0"}, "why"),
        (SHELL, {"cwd": 3}, "why"),
        (tool("of_a_server"), {"path": "plain"}, "why"),
        (replace(SHELL, preview=lambda: None), {"cwd": "plain"}, "why"),
    ],
)
def test_a_question_says_where_the_links_in_its_paths_lead(
    workspace: WorkspaceFiles, called: Tool, given: Mapping[str, Any], told: str
) -> None:
    assert with_targets("why", workspace, called, given) == told


def test_a_path_with_a_placeholder_is_judged_by_the_name_that_it_stands_for(tmp_path: Path) -> None:
    (tmp_path / "shop-api-77").mkdir()
    files = WorkspaceFiles(tmp_path, shown=lambda text: text.replace("shop-api-77", "<secret:DB>"))
    deny = [{"write_file": {"path": "/shop-api-77/**"}}]
    assert verdict(files, {"path": "/<secret:DB>/a"}, mode="run_everything", deny=deny) == "deny"


@given(pieces=st.lists(st.sampled_from(["<secret:", ">", "x", "/", "/../", "/secret/", "/src/"]), max_size=8))
def test_a_path_with_a_placeholder_is_judged_as_a_server_reads_it_too(
    workspace: WorkspaceFiles, pieces: list[str]
) -> None:
    """Where the placeholder counted as one name, a `..` behind it took away the `..` within it."""
    path = "/" + "".join(pieces)
    as_text = Path(os.path.normpath(path.lstrip("/")))
    if as_text.is_relative_to("secret") and as_text != Path("secret"):
        deny = [{"*": {"path": "secret/**"}}]
        assert verdict(workspace, {"path": path}, mode="run_everything", deny=deny) == "deny"


def test_the_dots_within_what_only_looks_like_a_placeholder_count(workspace: WorkspaceFiles) -> None:
    path = "/src/<secret:a/../../secret/b>/../pay.txt"
    deny = [{"*": {"path": "secret/**"}}]
    assert verdict(workspace, {"path": path}, mode="run_everything", deny=deny) == "deny"
    assert verdict(workspace, {"path": path}, mode="run_everything", ask=deny) == "ask"


@pytest.mark.parametrize("is_one", [True, False])
def test_a_host_path_by_another_spelling_of_the_workspace_is_judged_like_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_one: bool
) -> None:
    """Where the file system tells the two apart, a server may not: then `deny` counts both."""
    monkeypatch.setattr("zeus_runtime.tools.mounts.are_one_folder", lambda _one, _other: is_one)
    root = tmp_path / "Proj"
    root.mkdir()
    files, other = WorkspaceFiles(root), str(tmp_path / "PROJ/private/key")
    deny: Any = [{"*": {"path": "private/**"}}]
    assert verdict(files, {"path": f"{root}/private/key"}, deny=deny) == "deny"
    assert verdict(files, {"path": other}, deny=deny) == "deny"
    above = len(parts_of(str(root)))

    def machine(path: str) -> Spelling:
        return Spelling(parts_of(path), above)

    def in_root(path: str) -> list[set[Spelling]]:
        """A server may take `/` for the workspace."""
        count = 0 if path != str(root) and not is_one else above
        return [{Spelling(parts_of(path), count), Spelling(parts_of(f"{root}{path}"), above + count)}] * 2

    inside = {Spelling(("private", "key")), machine(f"{root}/private/key")}
    here = inside | {machine(other)}
    assert leads_to(files, other)[2:] == [*([here, here] if is_one else []), *in_root(other), inside]
    folder, like = {Spelling(()), machine(str(root))}, str(tmp_path / "PROJ")
    likes = [folder | {machine(like)}] * 2 if is_one else []
    assert leads_to(files, like)[2:] == [*likes, *in_root(like), folder]
    assert leads_to(files, str(root))[2:] == [folder, folder, *in_root(str(root))]


@pytest.mark.parametrize("path", [".", "./", "", "src/..", "plain/../", "src/link/.."])
def test_a_rule_with_the_workspaces_path_on_this_machine_is_for_each_name_of_its_folder(
    workspace: WorkspaceFiles, path: str
) -> None:
    root = str(workspace.root)
    for pattern in (root, f"{root}/", f"{root}/**", str(workspace.root.parent)):
        for kind in ("deny", "ask"):
            rule: Any = {kind: [{"*": {"path": pattern}}], "mode": "run_everything"}
            assert verdict(workspace, {"path": path}, tool("list", path={}), **rule) == kind, pattern
    # The names of this folder and of those above it count for no file in it, and so not for the folder.
    names: Any = {"deny": [{"*": {"path": list(workspace.root.parts[1:])}}], "mode": "run_everything"}
    assert verdict(workspace, {"path": path}, tool("list", path={}), **names) == "allow"


def test_a_rule_with_a_routes_path_on_this_machine_is_for_the_route(tmp_path: Path) -> None:
    for folder in ("work", "notes"):
        (tmp_path / folder).mkdir()
    files = WorkspaceFiles(tmp_path / "work", {"/memory/": tmp_path / "notes"})
    rule: Any = {"deny": [{"*": {"path": "/memory/**"}}], "mode": "run_everything"}
    assert verdict(files, {"path": str(tmp_path / "notes")}, tool("list", path={}), **rule) == "deny"
    assert verdict(files, {"path": str(tmp_path / "work")}, tool("list", path={}), **rule) == "allow"


def test_a_judgement_looks_a_path_up_once_for_all_rules() -> None:
    """A look at the disk takes a third of a millisecond, and the event loop waits for it."""
    asked: dict[str, list[str]] = {"certain": [], "possible": []}

    def resolving(kind: str) -> Callable[[str], Iterator[set[Spelling]]]:
        def leads_to(path: str) -> Iterator[set[Spelling]]:
            asked[kind].append(path)
            yield {Spelling(parts_of(path))}

        return leads_to

    called = tool()
    names = ("deny", "ask", "allow")
    rules = {name: [{called.name: {"path": f"{name}{n}/**"}} for n in range(5)] for name in names}
    options = Options(**cast(Any, rules))
    policy = Policy(options, resolving("certain"), resolving("possible"))
    for number in (1, 2):
        found = policy.ruled(called, {"path": "ask4/a"})
        assert found is not None
        assert found.action == "ask"
        assert asked == {"certain": ["ask4/a"] * number, "possible": ["ask4/a"] * number}, (
            "anew for each judgement"
        )
    assert policy.denied(called, {"path": "deny4/a"}, resolving("certain")) is not None
    assert asked["certain"].count("deny4/a") == 1


@pytest.mark.parametrize(
    ("path", "action"),
    [
        ("src/a.py", "allow"),
        ("/src/a.py", "allow"),
        ("./src/a.py", "allow"),
        ("./src//deep/../a.py", "ask"),
        ("src/deep/a.py", "allow"),
        ("plain/a.py", "ask"),  # it leads to src, and is not written so
        ("src/../secret/a", "ask"),
        ("src/link/a", "ask"),
        ("src/out/etc/passwd", "ask"),
        ("secret/a", "ask"),
        ("src\\a.py", "ask"),
        ("~/src/a.py", "ask"),
        ("../src/a.py", "ask"),
        ("file://src/a.py", "ask"),
        ("srcs/a.py", "ask"),
    ],
)
def test_a_pattern_of_paths_means_the_path_that_is_used(
    workspace: WorkspaceFiles, path: str, action: str
) -> None:
    allow = [{"write_file": {"path": "src/**"}}]
    assert verdict(workspace, {"path": path}, mode="ask", allow=allow) == action
    # A tool that declares the path opens it as it is written.
    declaring = replace(tool(), paths=frozenset({"path"}))
    expected = "allow" if ".py" in path and path.startswith("./") else action
    assert verdict(workspace, {"path": path}, declaring, mode="ask", allow=allow) == expected


@pytest.mark.parametrize("given", ["path", "text"])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_what_is_refused_in_one_form_of_unicode_is_in_the_other(
    workspace: WorkspaceFiles, given: str, form: Literal["NFC", "NFD"]
) -> None:
    forms = [unicodedata.normalize(each, "src/café") for each in ("NFC", "NFD")]
    for pattern, asked in product(forms, forms):
        deny = [{"write_file": {given: pattern}}]
        assert verdict(workspace, {given: asked}, mode="run_everything", deny=deny) == "deny"
    written = unicodedata.normalize(form, "src/café")
    others = {
        each: verdict(workspace, {given: each}, mode="ask", allow=[{"write_file": {given: written}}])
        for each in forms
    }
    assert others.pop(written) == "allow"
    assert list(others.values()) == ["ask"]


@pytest.mark.parametrize(
    "path", ["Secret/A.key", "SECRET/a.KEY", "src/../sEcret/É.key", "secret/e\u0301.key"]
)
def test_a_path_is_refused_however_its_letters_are_cased(workspace: WorkspaceFiles, path: str) -> None:
    for pattern in ("secret/*.key", "SECRET/[A-Zé]*.Key", "secret/[a-zÉ]*.key"):
        for mode, refused in (("run_everything", "deny"), ("run_everything", "ask")):
            rules = {refused: [{"write_file": {"path": pattern}}]}
            assert verdict(workspace, {"path": path}, mode=mode, **rules) == refused
    # Where what was written is not refused but allowed, or is not a path, it means itself.
    allow = [{"write_file": {"path": "secret/*.key"}}]
    expected = "allow" if path.startswith("secret/") else "ask"
    assert verdict(workspace, {"path": path}, mode="ask", allow=allow) == expected
    deny = [{"write_file": {"text": "secret"}}]
    assert verdict(workspace, {"text": "SECRET"}, mode="run_everything", deny=deny) == "allow"


@pytest.mark.parametrize(
    ("path", "action"),
    [("secret/a", "deny"), ("src/../secret/a", "deny"), ("src/link/a", "deny"), ("src/a", "allow")],
)
def test_paths_of_the_host_are_what_they_are_in_the_workspace(
    workspace: WorkspaceFiles, path: str, action: str
) -> None:
    rules = {"deny": [{"write_file": {"path": "secret/**"}}], "mode": "run_everything"}
    assert verdict(workspace, {"path": f"{workspace.root}/{path}"}, **rules) == action
    allowed = {"allow": [{"write_file": {"path": "**/src/**"}}], "mode": "ask"}
    expected = "allow" if action == "allow" else "ask"
    assert verdict(workspace, {"path": f"{workspace.root}/{path}"}, **allowed) == expected


def test_paths_of_the_host_are_what_they_are_below_a_route(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "data" / "link").symlink_to("/")
    around = tmp_path / "work" / ".."
    workspace = WorkspaceFiles(around / "work", {"/data/": around / "data"})
    for name in ("secret/a", "link/a"):
        rules = {"deny": [{"write_file": {"path": f"data/{name[:-2]}/**"}}], "mode": "run_everything"}
        assert verdict(workspace, {"path": f"{tmp_path}/data/{name}"}, **rules) == "deny"
        assert verdict(workspace, {"path": f"{tmp_path}/work/data/{name}"}, **rules) == "deny"
        assert verdict(workspace, {"path": f"{tmp_path}/data/other/a"}, **rules) == "allow"


@pytest.mark.parametrize(
    ("path", "action"),
    [
        ("src/a", "allow"),
        ("src/deep/../a", "ask"),
        ("plain/a", "ask"),
        ("src/../secret/a", "ask"),
        ("src/link/a", "ask"),
        ("src/out/etc/passwd", "ask"),
    ],
)
@pytest.mark.parametrize("pattern", ["{root}/src/**", "**/src/**"])
def test_a_folder_of_the_host_is_allowed_with_what_is_in_it_and_not_where_links_lead_out_of_it(
    workspace: WorkspaceFiles, path: str, action: str, pattern: str
) -> None:
    rules = {"allow": [{"write_file": {"path": pattern.format(root=workspace.root)}}], "mode": "ask"}
    assert verdict(workspace, {"path": f"{workspace.root}/{path}"}, **rules) == action
    declaring = replace(tool(), paths=frozenset({"path"}))
    for start in ("", "/"):
        written = {"path": f"{start}{workspace.root}/{path}"}
        expected = "allow" if path == "src/deep/../a" else action
        assert verdict(workspace, written, declaring, **rules) == expected


def test_a_link_of_the_host_that_leads_out_of_the_workspace_is_denied_where_it_leads(
    workspace: WorkspaceFiles,
) -> None:
    rules = {"deny": [{"write_file": {"path": "/etc/**"}}], "mode": "run_everything"}
    assert verdict(workspace, {"path": f"{workspace.root}/src/out/etc/passwd"}, **rules) == "deny"


def test_a_link_of_the_host_that_this_user_may_not_read_is_no_failure(
    workspace: WorkspaceFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_link = os.readlink

    def readlink(path: str, **options: Any) -> str:
        if Path(path).name == "out":  # as Linux does for the link /proc/1/cwd
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return read_link(path, **options)

    monkeypatch.setattr(os, "readlink", readlink)
    rules = {"deny": [{"write_file": {"path": "secret/**"}}], "mode": "run_everything"}
    assert verdict(workspace, {"path": f"{workspace.root}/src/out/etc/passwd"}, **rules) == "allow"
    assert verdict(workspace, {"path": f"{workspace.root}/src/link/a"}, **rules) == "deny"


@pytest.mark.parametrize("path", ["secret/a", "src/../secret/a", "src/link/a", "/src/out/x", "C:\\secret"])
def test_a_denied_path_is_denied_however_it_is_spelled(workspace: WorkspaceFiles, path: str) -> None:
    """Also what is not a path at all: it might mean the denied one to the tool."""
    deny = [{"*": {"path": "secret/**"}}]
    assert verdict(workspace, {"path": path}, mode="run_everything", deny=deny) == "deny"
    assert verdict(workspace, {"path": "src/a"}, mode="run_everything", deny=deny) == "allow"


@pytest.mark.parametrize(
    ("pattern", "value", "fits"),
    [
        ("git *", "git log --all", True),
        ("git *", "gitk", False),
        ("*", "any\nlines/and slashes", True),
        ("https://example.org/*", "https://example.org/a/b", True),
        ("https://example.org/*", "https://example.org.evil/a", False),
        (["a", "b"], "b", True),
        (5, 5, True),
        (5, "5", False),
        ("5", 5, True),
        (True, True, True),
        (True, 1, False),
        (1, True, False),
        ("a*", ["ab", "ac"], True),
        ("a*", ["ab", "b"], False),
        ("a*", [], False),
        ("a*", {"a": 1}, False),
        ("a*", None, False),
    ],
)
def test_what_fits_an_allow_rule(workspace: WorkspaceFiles, pattern: Any, value: Any, fits: bool) -> None:
    allow = [{"run": {"command": tuple(pattern) if isinstance(pattern, list) else pattern}}]
    action = verdict(workspace, {"command": value}, tool("run"), mode="ask", allow=allow)
    assert action == ("allow" if fits else "ask")


@pytest.mark.parametrize(
    "wrapped", [{"req": {"path": "secrets/s.txt"}}, {"all": [{"path": "a"}, {"path": "secrets/s.txt"}]}]
)
def test_a_path_within_an_object_is_refused_and_allows_nothing(
    workspace: WorkspaceFiles, wrapped: Any
) -> None:
    """Servers take their arguments in one object as often as not."""
    rule = [{"run": {"path": "secrets/**"}}]
    assert verdict(workspace, wrapped, tool("run"), mode="run_everything", deny=rule) == "deny"
    assert verdict(workspace, wrapped, tool("run"), mode="ask", allow=rule) == "ask"
    beside = {"path": "secrets/a", **wrapped, "more": {"path": "elsewhere"}}
    assert verdict(workspace, beside, tool("run"), mode="ask", allow=rule) == "ask"
    assert verdict(workspace, {"path": "secrets/a"}, tool("run"), mode="ask", allow=rule) == "allow"


@pytest.mark.parametrize("value", [["ok", "rm -rf"], {"any": "object"}])
def test_what_is_not_clear_fits_a_deny_rule(workspace: WorkspaceFiles, value: Any) -> None:
    deny = [{"run": {"command": "rm *"}}]
    assert verdict(workspace, {"command": value}, tool("run"), mode="run_everything", deny=deny) == "deny"


def test_an_argument_that_is_left_out_is_its_default(workspace: WorkspaceFiles) -> None:
    listing = tool("ls", path={"type": "string", "default": "/secret"})
    deny = [{"ls": {"path": "secret"}}]
    assert verdict(workspace, {}, listing, mode="run_everything", deny=deny) == "deny"
    assert verdict(workspace, {"path": "/src"}, listing, mode="run_everything", deny=deny) == "allow"


@pytest.mark.parametrize(
    ("rules", "action"),
    [
        ({"ask": ["write_file"], "allow": [{"write_file": {"path": "src/**"}}]}, "allow"),
        ({"ask": ["write_*"], "allow": ["write_file"]}, "allow"),
        ({"ask": ["write_file"], "allow": ["write_*"]}, "ask"),
        ({"ask": ["write_file"], "allow": ["write_file"]}, "ask"),
        ({"allow": ["write_file"], "ask": [{"write_file": {"path": "src/*"}}]}, "ask"),
        ({"allow": ["write_file"], "ask": [{"*": {"path": "src/*"}}]}, "ask"),
        ({"allow": [{"*": {"path": "src/*"}}], "ask": ["write_file"]}, "ask"),
        (
            {"allow": [{"write_file": {"path": "src/**"}}], "ask": [{"write_file": {"path": "src/a*"}}]},
            "ask",
        ),
        (
            {
                "allow": [{"write_file": {"content": "x", "mode": "y"}}],
                "ask": [{"write_file": {"path": "*/*"}}],
            },
            "ask",
        ),
        (
            {
                "allow": [{"write_file": {"content": "x", "path": "**"}}],
                "ask": [{"write_file": {"path": "*/*"}}],
            },
            "allow",
        ),
        ({"deny": ["write_*"], "allow": [{"write_file": {"path": "src/a.py"}}]}, "deny"),
    ],
)
def test_the_more_careful_rule_wins_unless_the_other_says_strictly_more(
    workspace: WorkspaceFiles, rules: Mapping[str, Any], action: str
) -> None:
    arguments = {"path": "src/a.py", "content": "x", "mode": "y"}
    assert verdict(workspace, arguments, mode="run_everything", **rules) == action


@pytest.mark.parametrize(
    ("mode", "access", "read_tools", "action"),
    [
        ("run_everything", "write", "allow", "allow"),
        ("allowlist", "write", "allow", "listed"),
        ("ask", "write", "allow", "ask"),
        ("ask", "read", "allow", "allow"),
        ("ask", "read", "ask", "ask"),
        ("allowlist", "read", "ask", "listed"),
    ],
)
def test_the_mode_decides_where_no_rule_fits(
    workspace: WorkspaceFiles, mode: str, access: Access, read_tools: str, action: str
) -> None:
    assert verdict(workspace, {}, tool("x", access), mode=mode, read_tools=read_tools) == action


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *(("path", True), ("file_path", True), ("targetDir", True), ("paths", True), ("command", False)),
        *(("url", False), ("pathology", False), ("destination", True), ("path_pattern", False)),
    ],
)
def test_which_arguments_are_paths(name: str, expected: bool) -> None:
    assert is_path(name) is expected


# The laws.

PARTS = st.sampled_from(["src", "secret", "deep", "link", "out", "plain", "a.py", "..", ".", "", "~", "*"])
PATHS = st.lists(PARTS, min_size=1, max_size=6).map("/".join)
PATTERNS = st.sampled_from(["src/**", "src/*", "**", "secret/**", "**/a.py", "a.py", "s*/**"])
TOOLS = st.sampled_from(["write_file", "edit_file", "write_*", "*"])
RULE = st.one_of(TOOLS, st.builds(lambda name, pattern: {name: {"path": pattern}}, TOOLS, PATTERNS))
RULES = st.lists(RULE, max_size=4)
STRICTNESS = {"allow": 0, "listed": 1, "ask": 2, "deny": 3}


@given(path=PATHS)
def test_whatever_the_spelling_only_what_lies_below_is_allowed(workspace: WorkspaceFiles, path: str) -> None:
    action = verdict(workspace, {"path": path}, mode="ask", allow=[{"write_file": {"path": "src/**"}}])
    try:
        real = (workspace.root / Path(workspace.normalize(path)).relative_to("/")).resolve()
    except WorkspaceError:
        assert action == "ask"
        return
    assert action == "ask" or real.is_relative_to((workspace.root / "src").resolve())


@given(
    path=PATHS, allow=RULES, ask=RULES, deny=RULES, more=RULE, kind=st.sampled_from(["allow", "ask", "deny"])
)
def test_a_further_rule_moves_a_verdict_only_its_own_way(
    workspace: WorkspaceFiles, path: str, allow: Any, ask: Any, deny: Any, more: Any, kind: str
) -> None:
    """`ask` and `deny` never make anything laxer, `allow` never makes anything stricter; `deny` stays."""
    rules = {"allow": allow, "ask": ask, "deny": deny}
    before = STRICTNESS[verdict(workspace, {"path": path}, mode="allowlist", **rules)]
    after = STRICTNESS[
        verdict(workspace, {"path": path}, mode="allowlist", **{**rules, kind: [*rules[kind], more]})
    ]
    if kind == "allow":
        assert after <= before
        assert (before == STRICTNESS["deny"]) == (after == STRICTNESS["deny"])
    elif kind == "deny":
        assert after in (before, STRICTNESS["deny"])
    else:
        assert after in (before, max(before, STRICTNESS["ask"]))


@given(path=PATHS, allow=RULES, ask=RULES, deny=RULES, data=st.data())
def test_the_order_of_rules_means_nothing(
    workspace: WorkspaceFiles, path: str, allow: Any, ask: Any, deny: Any, data: st.DataObject
) -> None:
    def shuffled(rules: Any) -> Any:
        return data.draw(st.permutations(rules))

    one = verdict(workspace, {"path": path}, allow=allow, ask=ask, deny=deny)
    other = verdict(workspace, {"path": path}, allow=shuffled(allow), ask=shuffled(ask), deny=shuffled(deny))
    assert one == other


@pytest.mark.parametrize("path", ["app/[slug]/x", "app/s/x"])
@pytest.mark.parametrize("kind", ["deny", "ask", "allow"])
def test_a_rule_that_closes_reads_brackets_as_text_too(
    workspace: WorkspaceFiles, path: str, kind: str
) -> None:
    other = "allow" if kind != "allow" else "ask"
    verdicts = verdict(
        workspace,
        {"path": path},
        mode="run_everything" if kind != "allow" else "ask",
        **{kind: [{"write_file": {"path": "app/[slug]/**"}}]},
    )
    assert verdicts == (kind if kind != "allow" or path == "app/s/x" else other)


def test_a_rule_that_closes_reads_brackets_of_other_arguments_as_text_too(workspace: WorkspaceFiles) -> None:
    deny = [{"run": {"command": "rm app/[slug]*"}}]
    run = tool("run", command={"type": "string"})
    deny += [{"run": {"command": "cat [slug]/[0-9]"}}]
    for command in ("rm app/[slug]/x", "rm app/s/x", "cat [slug]/1"):
        assert verdict(workspace, {"command": command}, run, mode="run_everything", deny=deny) == "deny"
    assert verdict(workspace, {"command": "rm app/[slug]/x"}, run, mode="ask", allow=deny) == "ask"


@pytest.mark.parametrize(
    ("path", "denied"),
    [("src/link/../a.key", False), ("plain/link/../secret/a", True), ("src/link/../secret/a", True)],
)
def test_a_dot_dot_after_a_link_is_read_in_both_ways(
    workspace: WorkspaceFiles, path: str, denied: bool
) -> None:
    """A server's path leads to the folder above the link's target, a tool's of Zeus to the folder above the link."""
    deny = [{"*": {"path": "secret/**"}}]
    found = verdict(workspace, {"path": path}, tool("s__cat"), mode="run_everything", deny=deny)
    assert found == ("deny" if denied else "allow")
    allow = [{"s__cat": {"path": "src/**"}}]
    assert verdict(workspace, {"path": path}, tool("s__cat"), mode="ask", allow=allow) == "ask"


TO = ("infra/a", "/infra/a", "./infra/a", "x/../infra/a", "infra//a", "plain/../infra/a", "INFRA/a")


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("to", TO)
def test_a_path_in_an_argument_of_another_name_is_a_path(
    workspace: WorkspaceFiles, to: str, marked: bool
) -> None:
    copy = replace(tool("copy"), paths=frozenset({"to"} if marked else ()))
    for pattern in ("infra/**", "/infra/**"):
        deny = [{"copy": {"to": pattern}}]
        assert verdict(workspace, {"to": to}, copy, mode="run_everything", deny=deny) == "deny"


def test_a_declared_path_is_one_also_for_a_pattern_without_a_slash(workspace: WorkspaceFiles) -> None:
    copy = replace(tool("copy"), paths=frozenset({"to"}))
    deny = [{"copy": {"to": "infra"}}]
    assert verdict(workspace, {"to": "./src/../infra"}, copy, mode="run_everything", deny=deny) == "deny"


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize(
    ("to", "action"),
    [("src/a", "allow"), ("src/../secret/a", "ask"), ("src/link/a", "ask"), ("src/link/../a", "ask")],
)
def test_an_argument_of_another_name_is_allowed_only_as_text_and_as_path(
    workspace: WorkspaceFiles, to: str, action: str, marked: bool
) -> None:
    copy = replace(tool("copy"), paths=frozenset({"to"} if marked else ()))
    allow = [{"copy": {"to": "src/**"}}]
    assert verdict(workspace, {"to": to}, copy, mode="ask", allow=allow) == action


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("git *", "git log src/a"),
        ("ls src/*", "ls src/deep"),
        ("https://a.example/*", "https://a.example/b/c"),
        ("*/2024", "12/2024"),
        ("C:\\*", "C:\\a"),
    ],
)
def test_a_text_that_is_no_path_is_allowed_as_it_is_written(
    workspace: WorkspaceFiles, pattern: str, text: str
) -> None:
    allow = [{"run": {"text": pattern}}]
    assert verdict(workspace, {"text": text}, tool("run"), mode="ask", allow=allow) == "allow"
    deny = [{"run": {"text": f"never/{pattern}"}}]
    assert verdict(workspace, {"text": text}, tool("run"), mode="run_everything", deny=deny) == "allow"


def test_an_allow_rule_does_not_open_a_file_by_the_name_of_a_link() -> None:
    rules = PathRules(
        allow=tuple(rules_of([{"write_file": {"path": "link/**"}}])),
        ask=tuple(rules_of([{"*": {"path": "link/**"}}])),
        deny=(),
    )
    for is_linked, asks in ((False, False), (True, True)):
        reached = Reached((Name(("link", "a"), linked=is_linked),), "/elsewhere/a")
        assert (rules.ruling(reached, "write", "write_file") is not None) == asks


@pytest.mark.parametrize(
    ("folder", "on_way", "asks"),
    [("made", True, False), ("made", False, True), ("other", True, True), ("made/deep", True, True)],
)
def test_an_allow_rule_lets_a_tool_make_the_folders_that_its_pattern_begins_with(
    folder: str, on_way: bool, asks: bool
) -> None:
    rules = PathRules(
        allow=tuple(rules_of([{"write_file": {"path": "made/*.md"}}, "write_file"])),
        ask=tuple(rules_of([{"*": {"path": "**"}}])),
        deny=(),
    )
    reached = Reached((Name(tuple(folder.split("/"))),), f"/{folder}", on_way=on_way)
    assert (rules.ruling(reached, "write", "write_file") is not None) == asks
    assert rules.ruling(reached, "write", "edit_file") is not None


def test_an_allow_rule_opens_no_file_that_has_no_name_but_a_links() -> None:
    ask = tuple(rules_of([{"*": {"path": "link/**"}}]))
    rules = PathRules(allow=tuple(rules_of([{"write_file": {"path": "**"}}])), ask=ask, deny=())
    assert rules.ruling(Reached((Name(("link", "a"), linked=True),), "/x/a"), "write", "write_file")


def test_a_pattern_that_is_no_text_does_not_end_a_rule_for_files() -> None:
    rules = PathRules(allow=(), ask=(), deny=tuple(rules_of([{"*": {"path": ["secrets/**", 2024]}}])))
    for at, closed in (("secrets", True), ("open", False)):
        reached = Reached((Name((at, "key")),), f"/{at}/key")
        assert (rules.ruling(reached, "read", "grep") is not None) == closed


@pytest.mark.parametrize(
    ("pattern", "is_for_all"),
    [
        *((each, True) for each in ("*", "**", "?*", "*?", "*?*", "[!.]*", "*[A-Za-z0-9_-]")),
        *((each, False) for each in ("??*", "?", "[a-z]*", "*_*", "read_file", "[!a]*")),
    ],
)
def test_a_rule_for_every_tool_closes_files_also_where_no_tool_runs(pattern: str, is_for_all: bool) -> None:
    (rule,) = rules_of([{pattern: {"path": "secrets/**"}}])
    rules = PathRules(allow=(), ask=(), deny=(rule,))
    reached = Reached((Name(("secrets", "key")),), "/secrets/key")
    assert (rules.ruling(reached, "read", None) is not None) == is_for_all
    assert (rules.closes(None) is not None) == is_for_all


@pytest.mark.parametrize(
    ("pattern", "uri"), [("**", "file:src/a"), ("*", "file:src%2Fa"), ("src/**", "file:src/a")]
)
def test_no_allow_rule_for_paths_fits_a_file_uri(workspace: WorkspaceFiles, pattern: str, uri: str) -> None:
    allow = [{"write_file": {"path": pattern}}]
    assert verdict(workspace, {"path": uri}, mode="ask", allow=allow) == "ask"


@pytest.mark.parametrize(
    ("pattern", "uri", "action"),
    [
        ("file:///data/*", "file:///data/a", "allow"),
        ("file:///data/*", "FILE:/data/a", "ask"),
        ("src/*", "file:src/a", "ask"),
    ],
)
def test_an_allow_rule_for_texts_fits_a_file_uri_only_as_it_is_written(
    workspace: WorkspaceFiles, pattern: str, uri: str, action: str
) -> None:
    allow = [{"open": {"uri": pattern}}]
    assert verdict(workspace, {"uri": uri}, tool("open"), mode="ask", allow=allow) == action


@pytest.mark.parametrize(
    ("pattern", "uri", "action"),
    [
        ("*secret*", "file:/x/s%65cret/a", "deny"),
        ("file:///src/*", "FILE:src/a", "deny"),
        ("secret/**", "file:\\\\\\secret\\a", "deny"),
        ("secret/**", "file:a%00", "deny"),
        ("secret/**", "file:a%2", "deny"),
        ("file:a/**", "file:a/b", "deny"),
        ("*secret*", "file: the name of a file, such as /src/a", "allow"),
    ],
)
def test_a_deny_rule_fits_each_form_of_a_file_uri(
    workspace: WorkspaceFiles, pattern: str, uri: str, action: str
) -> None:
    deny = [{"open": {"uri": pattern}}]
    assert verdict(workspace, {"uri": uri}, tool("open"), mode="run_everything", deny=deny) == action


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/x",
        "HTTPS://EVIL.example/x",
        "https://ev\til.example/x",
        ' "https://evil.example/x"',
        "https://evil.example:443/x",
        "https://evil.example./x",
        "https://\uff45vil.example/x",
        "https://evil\u3002example/x",
        "https://evil.example",
        "https://evil.example?x",
        "https://anyone@evil.example/x",
        "https:evil.example/x",
        "https:\\\\evil.example\\x",
    ],
)
def test_a_strict_rule_about_an_address_knows_its_other_spellings(
    workspace: WorkspaceFiles, url: str
) -> None:
    fetch = tool("web_fetch", "read", url={"type": "string"})
    for kind in ("deny", "ask"):
        rule: Any = {kind: [{"web_fetch": {"url": "https://evil.example/*"}}]}
        assert verdict(workspace, {"url": url}, fetch, **rule) == kind
    for other in ("https://good.example/evil.example/x", "https://notevil.example/x", "evil.example/x"):
        rule = {"deny": [{"web_fetch": {"url": "https://evil.example/*"}}]}
        assert verdict(workspace, {"url": other}, fetch, **rule) == "allow"


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("*evil.example*", "http://ev\\il.example/x"),
        ("*evil.example*", "http://e\\118il.example/x"),
        ("*evil.example*", "http://ev%69l.example/x"),
        ("http://evil.example/*", "http://ev\\il.example/x"),
        ("*93.184.216.34*", "http://1572395042/x"),
        ("http://93.184.216.34/*", "http://0x5db8d822/x"),
        ("*//93.184.216.34/*", "http://[::ffff:93.184.216.34]/x"),
    ],
)
def test_a_strict_rule_about_a_host_holds_for_what_a_resolver_makes_of_it(
    workspace: WorkspaceFiles, pattern: str, url: str
) -> None:
    fetch = tool("web_fetch", "read", url={"type": "string"})
    for kind in ("deny", "ask"):
        assert verdict(workspace, {"url": url}, fetch, **{kind: [{"web_fetch": {"url": pattern}}]}) == kind


@pytest.mark.parametrize(
    ("pattern", "url", "action"),
    [
        ("https://*.good.example/*", "https://a.good.example/x", "allow"),
        ("https://*.good.example/*", "https://evil.example/.good.example/x", "listed"),
        ("https://*.good.example/*", "https://evil.example?.good.example/x", "listed"),
        ("https://*.good.example/*", "https://evil.example\\.good.example/x", "listed"),
        ("https://*.good.example/*", "https://evil.example#.good.example/x", "listed"),
        ("https://good.example*", "https://good.example@evil.example/", "listed"),
        ("https://good.example/open/*", "https://good.example/open/../closed", "listed"),
        ("https://good.example/open/*", "https://good.example/open/%2e%2E/closed", "listed"),
        ("https://good.example/open/*", "https://good.example/open/a/../b", "listed"),
        ("https://good.example:443/*", "https://good.example:443/x", "allow"),
        ("https://b\u00fccher.example/*", "https://b\u00fccher.example/x", "allow"),
        ("https://good.example", "https://good.example", "allow"),
        ("*/x", "https://any.example/x", "allow"),
    ],
)
def test_a_rule_that_allows_an_address_is_for_its_own_host(
    workspace: WorkspaceFiles, pattern: str, url: str, action: str
) -> None:
    fetch = tool("web_fetch", "read", url={"type": "string"})
    rule: Any = {"allow": [{"web_fetch": {"url": pattern}}], "read_tools": "ask", "mode": "allowlist"}
    assert verdict(workspace, {"url": url}, fetch, **rule) == action


@pytest.mark.parametrize(
    "path",
    [
        "priv*",
        "privat[e]/key",
        "*/key",
        "p?ivate/key",
        "{private,x}/key",
        "PRIV*/KEY",
        ":/private/key",
        ":(top,glob)private/*",
        ":private/key",
        "$HOME/private/key",
        "${HOME}/../work/private",
        "pri${NOTHING}vate/key",
        "docs/*/../../private/key",
        "{docs,../private}/key",
        "docs/{.,x}{.,y}/private/key",
        "docs/{a..c,..}/private/key",
    ],
)
def test_a_strict_rule_about_a_path_knows_what_a_program_may_make_of_it(
    workspace: WorkspaceFiles, path: str
) -> None:
    """A server gives its arguments to git, to a shell or to a library that fills in variables and reads patterns."""
    for kind in ("deny", "ask"):
        for name, value in (("repo_path", path), ("files", [path])):
            rule: Any = {kind: [{"git_*": {name: "private/**"}}], "mode": "run_everything"}
            assert verdict(workspace, {name: value}, tool("git_add", **{name: {}}), **rule) == kind


COVERED = [
    "secrets",
    "/secrets",
    "secrets/",
    "*.pem",
    "a/*",
    "**",
    "{k.pem,a/b}",
    "app/[slug]",
    "a/**/k",
    "**/b",
]


@pytest.mark.parametrize("pattern", COVERED)
@pytest.mark.parametrize(
    "path",
    ["secrets", "a/secrets", "secrets/key", "A/Secrets/key", "a/b/k.pem", "a/b.pem/k", "app/[slug]/x", "b/k"],
)
def test_deny_and_ask_cover_what_a_pattern_of_the_workspace_does(pattern: str, path: str) -> None:
    """`path: secrets` closed the folder to `ls`, and not the files in it; `path: "*.pem"` those of the root alone."""
    parts = tuple(path.split("/"))
    covers = any(rule.depth(parts) > 0 for rule in AccessRule.of(pattern, "deny"))
    written = rules_of([{"*": {"path": pattern}}])
    reached = Reached((Name(parts),), f"/host/{path}")
    for kind in ("deny", "ask"):
        rules = PathRules(**{"allow": (), "ask": (), "deny": (), kind: tuple(written)})
        assert (rules.ruling(reached, "read", "grep") is not None) == covers


@pytest.mark.parametrize("pattern", [*COVERED, "plain", "src/link", "x{y,z}"])
@pytest.mark.parametrize(
    "path", ["secrets/key", "a/secrets/key", "a/b/k.pem", "a.pem/k", "b/k", "src/link/x"]
)
def test_deny_and_ask_cover_the_same_in_a_call(workspace: WorkspaceFiles, pattern: str, path: str) -> None:
    covers = any(rule.depth(tuple(path.split("/"))) > 0 for rule in AccessRule.of(pattern, "deny"))
    for spelled in (path, f"./{path}", f"{workspace.root}/{path}"):
        for called in (tool(path={}), replace(tool(path={}), paths=frozenset({"path"}))):
            for kind in ("deny", "ask"):
                rule: Any = {kind: [{"*": {"path": pattern}}], "mode": "run_everything"}
                assert (verdict(workspace, {"path": spelled}, called, **rule) == kind) == covers, spelled


def test_allow_fits_its_pattern_alone(workspace: WorkspaceFiles) -> None:
    for pattern, path in (("src", "src/a"), ("*.md", "src/a.md")):
        rule: Any = {"allow": [{"*": {"path": pattern}}], "mode": "ask"}
        assert verdict(workspace, {"path": path}, tool(path={}), **rule) == "ask"
        reached = Reached((Name(tuple(path.split("/"))),), f"/host/{path}")
        rules = PathRules(tuple(rules_of(rule["allow"])), tuple(rules_of([{"write_*": {"path": "**"}}])), ())
        assert rules.ruling(reached, "write", "write_file") is not None


@pytest.mark.parametrize("name", [".", "/"])
def test_the_workspaces_own_folder_is_not_all_that_is_in_it(workspace: WorkspaceFiles, name: str) -> None:
    rule: Any = {"deny": [{"*": {"path": name}}], "mode": "run_everything"}
    assert verdict(workspace, {"path": "src/a"}, tool(path={}), **rule) == "allow"
    assert verdict(workspace, {"path": "."}, tool(path={}), **rule) == "deny"


def test_a_pattern_with_braces_covers_what_is_named_so(workspace: WorkspaceFiles) -> None:
    rule: Any = {"deny": [{"*": {"path": "x{y,z}"}}], "mode": "run_everything"}
    for path in ("a/x{y,z}/b", "a/xz/b"):
        assert (
            verdict(workspace, {"path": path}, replace(tool(path={}), paths=frozenset({"path"})), **rule)
            == "deny"
        )


def test_a_name_of_a_folder_above_the_workspace_closes_nothing_in_it(workspace: WorkspaceFiles) -> None:
    rule: Any = {
        "deny": [{"*": {"path": [f"{{{workspace.root.name},x/y}}", workspace.root.parts[1]]}}],
        "mode": "run_everything",
    }
    for path in ("src/a", f"{workspace.root}/src/a"):
        assert verdict(workspace, {"path": path}, tool(path={}), **rule) == "allow", path


@pytest.mark.parametrize(
    ("pattern", "path", "action"),
    [
        ("private", "a/priv*", "deny"),
        ("{private,x/y}", "a/priv*", "deny"),
        ("private", "a/*.py", "allow"),
        ("*.pem", "a/k.p*", "deny"),
        ("*.pem", "a/*.py", "allow"),
        (".env", "*.py", "allow"),
    ],
)
def test_a_path_that_a_program_fills_in_may_end_in_a_denied_name(
    workspace: WorkspaceFiles, pattern: str, path: str, action: str
) -> None:
    rule: Any = {"deny": [{"*": {"path": pattern}}], "mode": "run_everything"}
    assert verdict(workspace, {"path": path}, tool("git_add", path={}), **rule) == action


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("private/**", "app/[slug]/page.tsx"),
        ("private/**", "app/routes/$postId.tsx"),
        ("private/**", "docs/*.{d.ts,.x,y.}"),
        ("**/*.pem", "app/[slug]/page.tsx"),
        ("private/key", "priv*/other"),
        ("private/key", "private/*key*key"),
        ("*.pem", "docs/*.md"),
        ("private/**", ":memory:"),
        ("private/**", "work$"),
    ],
)
def test_a_strict_rule_leaves_paths_that_no_program_takes_for_its_files(
    workspace: WorkspaceFiles, pattern: str, path: str
) -> None:
    rule: Any = {"deny": [{"git_*": {"path": pattern}}], "mode": "run_everything"}
    assert verdict(workspace, {"path": path}, tool("git_add", path={}), **rule) == "allow"


def test_a_path_that_zeus_opens_itself_is_no_pattern(workspace: WorkspaceFiles) -> None:
    rule: Any = {"deny": [{"copy": {"path": "private/**"}}], "mode": "run_everything"}
    copy = replace(tool("copy"), paths=frozenset({"path"}))
    assert verdict(workspace, {"path": "priv*"}, copy, **rule) == "allow"


@pytest.mark.parametrize(
    ("pattern", "path", "action"),
    [
        ("public/**", "public/*", "ask"),
        ("public/**", "public/[slug]/$id.md", "ask"),
        ("public/*", "public/*", "ask"),
        ("*", "*", "ask"),
        ("**", ":!public", "ask"),
        ("**", "$HOME/key", "ask"),
        ("public/**", "public/{a,../../private}/key", "ask"),
        ("public/**", "public/*/../key", "ask"),
        ("**/*}", "public/{a,{b,c}}", "ask"),
    ],
)
def test_a_rule_that_allows_a_path_allows_none_that_a_program_may_replace(
    workspace: WorkspaceFiles, pattern: str, path: str, action: str
) -> None:
    rule: Any = {"allow": [{"git_add": {"path": pattern}}], "mode": "ask"}
    assert verdict(workspace, {"path": path}, tool("git_add", path={}), **rule) == action


PIECES = st.lists(
    st.sampled_from(["a", "b", "ab", "/", "*", "?", "[ab]", "{a,b}", "{a,{b,ab}}", "{", ",", "}"]),
    min_size=1,
    max_size=6,
).map(lambda pieces: "".join(pieces).lstrip("/"))


def program_opens(text: str, written: str) -> bool:
    try:
        return any(fnmatchcase(text, each) for each in expand_braces(written))
    except ValueError:
        return False


@given(pattern=PIECES, path=PIECES, text=st.text("ab/", min_size=1, max_size=6))
def test_two_patterns_that_match_one_file_meet(pattern: str, path: str, text: str) -> None:
    """The law: a program may open no file that a rule matches without the rule's notice."""
    if _REPLACED.search(path) and program_opens(text, path) and program_opens(text, pattern):
        assert meets(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("x/{a,{b,c}}", "x/*c"),
        ("x/{a,{b,c}}", "$X/c"),
        ("private/key", "{x,{priv,y}}ate/key"),
        ("private/key", "{x,${P}}/key"),
        ("private/key", "${P:-{a,b}}/key"),
        ("private/key", "priv{a,{ate/k,b}"),
    ],
)
def test_braces_in_braces_may_become_a_path(pattern: str, path: str) -> None:
    assert meets(pattern, path)


def test_braces_that_end_nowhere_take_no_time() -> None:
    assert not meets("private/key", "a" + "{" * 100_000)


@pytest.mark.parametrize(
    "uri",
    [
        "docs://team/private/key",
        "docs://team/public/../private/key",
        "docs://team/public/%2e%2E/private/key",
        "docs://team/./private/key",
        "DOCS://team/private/key",
        "docs://team/pri\tvate/key",
        "docs://team/%70rivate/key",
        "docs://team/public/..%2Fprivate/key",
        "docs://team/private/key?x=1#y",
    ],
)
def test_a_strict_rule_about_a_resource_knows_its_other_spellings(
    workspace: WorkspaceFiles, uri: str
) -> None:
    """The TypeScript SDK parses the address before it looks for the resource; the Python SDK decodes its parts."""
    read = tool("mcp_read_resource", "read", uri={"type": "string"})
    for kind in ("deny", "ask"):
        rule: Any = {kind: [{"mcp_read_resource": {"uri": "docs://team/private/**"}}]}
        assert verdict(workspace, {"uri": uri}, read, **rule) == kind
    rule = {"deny": [{"mcp_read_resource": {"uri": "docs://team/private/**"}}]}
    assert verdict(workspace, {"uri": "docs://team/public/private"}, read, **rule) == "allow"


@pytest.mark.parametrize(
    ("uri", "action"),
    [
        ("docs://team/public/key", "allow"),
        ("docs://team/public/a/../key", "listed"),
        ("docs://team/public/100%", "allow"),
        ("docs://team/public/../private/key", "listed"),
        ("docs://team/public/%2e%2e/private/key", "listed"),
        ("docs://team/public/..%2f..%2Fprivate/key", "listed"),
        ("docs://team/public/..", "listed"),
        ("docs://other/public/key", "listed"),
    ],
)
def test_a_rule_that_allows_resources_allows_none_that_their_address_leads_to(
    workspace: WorkspaceFiles, uri: str, action: str
) -> None:
    read = tool("mcp_read_resource", "read", uri={"type": "string"})
    rule: Any = {
        "allow": [{"mcp_read_resource": {"uri": "docs://team/public/**"}}],
        "read_tools": "ask",
        "mode": "allowlist",
    }
    assert verdict(workspace, {"uri": uri}, read, **rule) == action
