"""A server reads an argument in its own way: it trims it, decodes JSON in it, or takes an entry with a like name."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unicodedata import category

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from zeus_plugins.middlewares.approve import path_spellings
from zeus_plugins.middlewares.approve.options import Options
from zeus_plugins.middlewares.approve.path_spellings import leads_to, like, reaches
from zeus_plugins.middlewares.approve.policy import Policy, by_mode
from zeus_plugins.middlewares.approve.reach import PathRules
from zeus_plugins.middlewares.approve.readings import is_unseen, json_content, trims
from zeus_plugins.middlewares.approve.rules import Spelling, rules_of

from zeus_runtime import Agent
from zeus_runtime.plugin.files import Reached, WorkspaceError, WorkspaceFiles, parts_of
from zeus_runtime.plugin.tool import Tool, fill_defaults
from zeus_runtime.tools.access import Name

CAFE, DECOMPOSED = "caf\u00e9", "cafe\u0301"
PRIVATE: Any = [{"*": {"path": "private/**"}}]
DRAFTS: Any = [{"*": {"path": "drafts/**"}}]


async def nothing(**_arguments: Any) -> str:
    return ""


def server(properties: Mapping[str, Any], **more: Any) -> Tool:
    return Tool("s__show", "", {"type": "object", "properties": properties, **more}, nothing, access="write")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> WorkspaceFiles:
    root = tmp_path_factory.mktemp("above") / "W\u00f6rk"
    for folder in ("private", "drafts", "Docs/Inner"):
        (root / folder).mkdir(parents=True)
    (root / "private" / "key").write_text("secret")
    (root / CAFE).symlink_to("private")
    (root / "drafts" / CAFE).symlink_to("../private")
    (root / "far").symlink_to("/")
    (root / "drafts" / "link").symlink_to("../private/key")
    (root / "Docs/Inner/\u00e9.txt").symlink_to("../../private/key")
    return WorkspaceFiles(root)


def verdict(
    files: WorkspaceFiles, arguments: Mapping[str, Any], called: Tool | None = None, **options: Any
) -> str:
    typed = Options(**options)
    policy = Policy(typed, partial(leads_to, files), partial(reaches, files, files))
    called = called or server({"path": {"type": "string"}})
    return (policy.ruled(called, arguments) or by_mode(typed.mode, called)).action


def denied(files: WorkspaceFiles, arguments: Mapping[str, Any], called: Tool | None = None) -> bool:
    found = {
        kind: verdict(files, arguments, called, mode="run_everything", **{kind: PRIVATE})
        for kind in ("deny", "ask")
    }
    assert (found["deny"] == "deny") == (found["ask"] == "ask"), found
    return found["deny"] == "deny"


def allowed(files: WorkspaceFiles, arguments: Mapping[str, Any], called: Tool | None = None) -> bool:
    return verdict(files, arguments, called, mode="ask", allow=DRAFTS) == "allow"


def test_a_path_by_a_name_that_its_folder_does_not_list_is_unclear(
    files: WorkspaceFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system of Windows finds `private` by its short name too, which no rule names."""
    (tmp_path / "drafts" / "PRIVAT~1").mkdir(parents=True)
    (tmp_path / "link").symlink_to("drafts/PRIVAT~1")
    files = WorkspaceFiles(tmp_path)
    spelled = ("drafts/PRIVAT~1/key", "drafts/PRIVAT~1/new", f"{tmp_path}/drafts/PRIVAT~1", "link/key")
    assert not any(denied(files, {"path": each}) for each in spelled)
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda at: [each for each in listed(at) if each != "PRIVAT~1"])
    assert all(denied(files, {"path": each}) for each in spelled)
    assert not denied(files, {"path": "drafts/new~1"})


# Arguments that a server's tool does not have

TEXT: Any = {"type": "string"}
READ, LIST = server({"path": TEXT}), replace(server({"folder": TEXT}), name="s__list")
OTHER = server({"file_path": TEXT})


def judged(files: WorkspaceFiles, tool: Tool, arguments: Any, tools: Any, **options: Any) -> tuple[str, bool]:
    typed = Options(mode="run_everything", **options)
    policy = Policy(
        typed,
        partial(leads_to, files),
        partial(reaches, files, files),
        None if tools is None else lambda: tools,
    )
    found = policy.ruled(tool, arguments) or by_mode(typed.mode, tool)
    return found.action, found.needs_person


@pytest.mark.parametrize("name", ["s__show", "s__*", "s__s?ow"])
def test_a_call_is_unclear_if_no_tool_that_a_rule_names_has_its_argument(
    files: WorkspaceFiles, name: str
) -> None:
    rule: Any = [{name: {"path": "private/**"}}]
    given = {"file_path": "drafts/x"}
    assert judged(files, OTHER, given, [OTHER, LIST], deny=rule) == ("ask", True)
    assert judged(files, OTHER, given, [OTHER, LIST], ask=rule) == ("ask", False)
    both = {"path": "drafts/x", "file_path": "private/x"}
    assert judged(files, OTHER, both, [OTHER], deny=rule) == ("ask", True), "the server does not read `path`"
    assert judged(files, OTHER, {}, [OTHER], deny=rule) == ("allow", False), "there is nothing to judge"


def test_a_pattern_with_an_argument_of_some_tool_leaves_the_others_alone(files: WorkspaceFiles) -> None:
    nested = server(
        {"request": {"type": "array", "items": {"$ref": "#/$defs/R"}}}, **{"$defs": {"R": READ.parameters}}
    )
    deny: Any = [{"s__*": {"path": "private/**"}}]
    inline = server({"request": READ.parameters})
    for has_it in (READ, nested, inline):
        assert judged(files, LIST, {"folder": "private"}, [LIST, has_it], deny=deny) == ("allow", False)
    assert judged(files, nested, {"request": [{"path": "drafts/x"}]}, [nested], deny=deny)[0] == "allow"
    assert judged(files, nested, {"request": [{"path": "private/x"}]}, [nested], deny=deny)[0] == "deny"
    every: Any = [{"*": {"path": "private/**"}}]
    assert judged(files, LIST, {"folder": "private"}, [LIST], deny=every) == ("allow", False)
    assert judged(files, LIST, {"folder": "private"}, None, deny=deny) == ("allow", False), "not known"


@pytest.mark.parametrize(
    "name", ["Path", "PATH", "pa_th", "p-ath", "path ", "path\0", "\uff50\uff41\uff54\uff48"]
)
def test_an_argument_whose_name_is_spelled_otherwise_is_judged_too(files: WorkspaceFiles, name: str) -> None:
    """Libraries of servers read it as the declared one."""
    for held in (
        {name: "private/key"},
        {"path": "drafts/x", name: "private/key"},
        {name: "private/key", "path": "drafts/x"},
        {"request": {name: ["private/key"]}},
        {"request": {"path": "drafts/x", name: {"a": 1}}},
    ):
        assert denied(files, held)
        assert not allowed(files, held)
    assert not denied(files, {"path": "drafts/x", name: "drafts/y"})
    assert not denied(files, {"paths": "private/key", "my_path": "private/key"})
    exact: Any = [{"s__show": {"filePath": "private/**"}}]
    tool = server({"filePath": TEXT})
    assert judged(files, tool, {"file_path": "private/x"}, [tool], deny=exact)[0] == "deny"


@pytest.mark.parametrize("kind", ["deny", "ask"])
def test_a_rule_may_spell_an_argument_otherwise_than_the_schema(files: WorkspaceFiles, kind: str) -> None:
    """Calls are judged so. If the tool had no such argument, each of its calls would need a person."""
    rule: Any = {kind: [{"s__show": {"filePath": "private/**"}}]}
    assert judged(files, OTHER, {"file_path": "private/x"}, [OTHER], **rule)[0] == kind
    assert judged(files, OTHER, {"file_path": "drafts/x"}, [OTHER], **rule) == ("allow", False)
    texts: Any = {kind: [{"s__show": {"Targets": "private/**"}}]}
    tool = server({"targets": TEXT})
    assert judged(files, tool, {"targets": '["drafts/x", "private/x"]'}, [tool], **texts)[0] == kind
    own: Any = {kind: [{"s__show": {"Path": "private/**"}}]}
    tool = replace(READ, paths=frozenset({"path"}))
    assert judged(files, tool, {"path": "drafts/../private/x"}, [tool], **own)[0] == kind
    assert judged(files, tool, {"path": "$X"}, [tool], **own)[0] == "allow", "the tool opens it as it is"
    lines: Any = {kind: [{"s__show": {"Command": "rm *"}}]}
    tool = replace(server({"command": TEXT}), commands=frozenset({"command"}))
    assert judged(files, tool, {"command": "ls; rm a"}, [tool], **lines)[0] == kind


def test_the_other_arguments_of_a_rule_still_count(files: WorkspaceFiles) -> None:
    tool = server({"file_path": TEXT, "kind": TEXT})
    deny: Any = [{"s__show": {"path": "private/**", "kind": "raw"}}]
    for kind, action in (("raw", "ask"), ("plain", "allow")):
        assert judged(files, tool, {"file_path": "a", "kind": kind}, [tool], deny=deny)[0] == action


def test_an_argument_of_a_tool_whose_schema_names_none_is_judged_as_the_call_has_it(
    files: WorkspaceFiles,
) -> None:
    free = server({})
    deny: Any = [{"s__show": {"path": "private/**"}}]
    for held, action in (
        ({"path": "drafts/x"}, "allow"),
        ({"path": "private/x"}, "deny"),
        ({"file_path": "private/x"}, "ask"),
    ):
        assert judged(files, free, held, [free], deny=deny)[0] == action


def test_a_sub_agents_call_is_refused_if_its_tool_lacks_the_argument_of_a_deny_rule(
    files: WorkspaceFiles,
) -> None:
    options = Options(deny=({"s__show": {"path": "private/**"}},))
    policy = Policy(options, partial(leads_to, files), tools=lambda: [READ])
    look = partial(reaches, files, files)
    assert "has no argument `path`" in (policy.denied(OTHER, {"file_path": "a"}, look) or "")
    assert policy.denied(READ, {"path": "drafts/x"}, look) is None


# Ends of a text


def test_every_white_space_control_format_and_ignorable_character_is_unseen() -> None:
    every = [chr(code) for code in range(sys.maxunicode + 1)]
    unseen = {each for each in every if is_unseen(each)}
    assert unseen >= {each for each in every if each.isspace() or category(each) in ("Cc", "Cf")}
    assert unseen >= set("\u115f\u3164\ufe0f\U000e0100\u034f")  # ignorable letters and marks
    assert not unseen & {each for each in every if each.isprintable() and category(each)[0] in "PSN"} - set(
        " "
    )


UNSEEN = st.text(st.sampled_from("\ufeff\u2060\u200b \t\x00\x1f\u2003\u180e\u3164\ufe0f\"'`"), max_size=3)


@given(before=UNSEEN, after=UNSEEN)
def test_a_text_is_trimmed_whatever_is_around_it(before: str, after: str) -> None:
    assert trims(f"{before}a b{after}")[-1] == "a b"


@pytest.mark.parametrize("end", ["\ufeff", " ", "\u200b", "\u3164", "\x1f", '\ufeff" \u200b', "' "])
def test_a_path_is_judged_as_a_server_trims_it(files: WorkspaceFiles, end: str) -> None:
    for path in ("private/key", f"{files.root}/private/key", f"{files.root}/drafts/link", "drafts/link"):
        assert denied(files, {"path": end + path})
        assert denied(files, {"path": path + end})
    assert not denied(files, {"path": f"drafts/x{end}"})
    for path in ("drafts/..", "drafts/link"):
        assert not allowed(files, {"path": path + end})
    assert not allowed(files, {"path": f"drafts/x{end}"}), "a server may remove the end, or not"
    declaring = replace(server({"path": {"type": "string"}}), paths=frozenset({"path"}))
    assert allowed(files, {"path": f"drafts/x{end}"}, declaring)


def test_a_name_in_quotes_is_also_its_name_for_a_server_that_removes_blanks_only(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "'x'").symlink_to("private")
    deny: Any = [{"*": {"path": "private"}}]
    found = verdict(WorkspaceFiles(tmp_path), {"path": "\u2003'x'"}, mode="run_everything", deny=deny)
    assert found == "deny"


# JSON in a text

LOOSE = {"anyOf": [{"type": "object", "properties": {"path": {"type": "string"}}}, {"type": "string"}]}
INNER = json.dumps({"path": "private/key"})


@pytest.mark.parametrize(
    "schema",
    [
        LOOSE,
        {},
        True,
        {"anyOf": [{"type": "string"}, True]},
        {"type": ["string", "object"]},
        {"type": ["string", "array"]},
    ],
)
@pytest.mark.parametrize(
    "text",
    [
        INNER,
        f" \ufeff\n{INNER}",
        f"[{INNER}]",
        json.dumps({"request": INNER}),
        json.dumps({"request": json.dumps([INNER])}),
        json.dumps(INNER),
        '{"path": "private/key", "path": "drafts/x"}',
        '{"p\\u0061th": "privat\\u0065/key"}',
    ],
)
def test_a_json_text_is_judged_by_its_content(files: WorkspaceFiles, schema: Any, text: str) -> None:
    called = server({"request": schema})
    assert denied(files, {"request": text}, called)
    assert denied(files, {"request": [text]}, called)
    assert not denied(files, {"request": text.replace("privat", "drafts")}, called)


@pytest.mark.parametrize(
    "schema", [{"type": "string"}, {}, {"anyOf": [{"type": "string"}, {"type": "array"}]}]
)
def test_a_list_as_text_is_judged_by_its_entries(files: WorkspaceFiles, schema: Any) -> None:
    called = server({"path": schema})
    deny: Any = [{"*": {"path": ["*.pem", "private/key"]}}]
    for name in ("a.pem", f"{files.root}/a.pem", "private/key", f"{files.root}/private/key"):
        for listed in (["a]", name], [name, "a]"], [["a]"], [name]]):
            text = json.dumps(listed)
            assert verdict(files, {"path": text}, called, mode="run_everything", deny=deny) == "deny", text
    text = json.dumps(["a]", "drafts/x"])
    assert verdict(files, {"path": text}, called, mode="run_everything", deny=deny) == "allow"


def test_a_json_text_is_never_surely_allowed(files: WorkspaceFiles) -> None:
    for pattern in ("drafts/**", "**", "*"):
        allow: Any = [{"*": {"path": pattern}}]
        for text in ('["drafts/x"]', '{"drafts": "/x"}', ' ["drafts/x"]'):
            assert verdict(files, {"path": text}, mode="ask", allow=allow) == "ask"
    assert not allowed(files, {"path": "drafts/[slug].py"})
    declaring = replace(server({"path": {"type": "string"}}), paths=frozenset({"path"}))
    assert allowed(files, {"path": "drafts/[slug].py"}, declaring)
    anything: Any = [{"*": {"content": "*"}}]
    plain = server({"content": {"type": "string"}})
    for text in ("[1]", "{}", "text"):
        assert verdict(files, {"content": text}, plain, mode="ask", allow=anything) == "allow"


@pytest.mark.parametrize(
    "text",
    ["[" * 400 + "]" * 400, "[" * 100_000, f'["{"a" * 300_000}"]', json.dumps(["a"] * 5_000)],
    ids=["deep", "unfinished", "long", "wide"],
)
def test_a_json_text_beyond_the_bounds_counts_as_a_match(files: WorkspaceFiles, text: str) -> None:
    assert denied(files, {"request": text}, server({"request": {}}))
    assert denied(files, {"path": text})
    assert not allowed(files, {"path": text})


def test_a_document_in_a_plain_text_names_no_files(files: WorkspaceFiles) -> None:
    """Else every JSON document that an agent writes would be judged by the keys in it."""
    writing = server({"path": {"type": "string"}, "content": {"type": "string"}})
    for content in (INNER, '{"path": {"any": 1}}', json.dumps(["a"] * 5_000)):
        assert not denied(files, {"path": "drafts/x.json", "content": content}, writing)
    deny: Any = [{"*": {"content": "rm *"}}]
    for content, action in (('{"a": ["rm x"]}', "deny"), ('{"a": "b"}', "allow"), ('{"rm x": 1}', "deny")):
        assert verdict(files, {"content": content}, writing, mode="run_everything", deny=deny) == action


@given(
    st.recursive(st.none() | st.booleans() | st.text(max_size=4), lambda inner: st.lists(inner, max_size=3))
)
def test_reading_json_never_fails(value: Any) -> None:
    text = json.dumps(value)
    found = json_content(text)
    assert (found is None) == (not isinstance(value, list)) or isinstance(value, str)


def test_a_document_in_an_object_names_no_files_either(files: WorkspaceFiles) -> None:
    text = {"type": "string"}
    called = server({"request": {"type": "object", "properties": {"path": text, "content": text}}})
    assert not denied(files, {"request": {"path": "drafts/x", "content": INNER}}, called)
    assert denied(files, {"request": {"path": json.dumps(["a]", "private/key"])}}, called)


def test_one_argument_may_match_as_text_and_the_other_by_its_content(files: WorkspaceFiles) -> None:
    called = server({"path": {}, "query": {}})
    deny: Any = [{"*": {"path": "a.pem", "query": "*[[]1]*"}}]
    given = {"path": '["a]", "a.pem"]', "query": "[[1]]"}
    assert verdict(files, given, called, mode="run_everything", deny=deny) == "deny"


def test_a_path_in_the_json_text_beside_an_allowed_path_is_not_allowed(files: WorkspaceFiles) -> None:
    called = server({"path": {"type": "string"}, "request": {}})
    assert allowed(files, {"path": "drafts/x", "request": "text"}, called)
    assert not allowed(files, {"path": "drafts/x", "request": INNER}, called)


# Files and calls

NAMES = st.sampled_from(
    [
        "Public",
        "public",
        "PUBLIC",
        "[ab]",
        "a",
        "b",
        CAFE,
        DECOMPOSED,
        "fi",
        "\ufb01",
        "x ",
        "x",
        "\ufeffx",
        "{a,b}",
    ]
)


@given(
    pattern=st.lists(NAMES | st.sampled_from(["*", "**", "?", "x?"]), min_size=1, max_size=3),
    path=st.lists(NAMES, min_size=1, max_size=3),
)
def test_the_files_layer_allows_no_more_than_a_call_that_names_the_file(
    pattern: list[str], path: list[str]
) -> None:
    allow = rules_of([{"grep": {"path": "/".join(pattern)}}])
    rules = PathRules(allow=tuple(allow), ask=tuple(rules_of([{"*": {"path": "**"}}])), deny=())
    reached = Reached((Name(tuple(path)),), "/elsewhere")
    grep = replace(server({"path": {"type": "string"}}), name="grep", paths=frozenset({"path"}))
    name = "/" + "/".join(path)
    if rules.ruling(reached, "read", "grep") is None:
        assert allow[0].fits(grep, {"path": name}, lambda text: [{Spelling(parts_of(text))}], surely=True)


# Entries with a like name


@pytest.mark.parametrize(
    "path",
    [
        f"{DECOMPOSED}/key",
        "CAF\u00c9/key",
        f"drafts/{DECOMPOSED}/key",
        f"Drafts/{DECOMPOSED}/KEY",
        "docs/inner/e\u0301.TXT",
        f"missing/../{DECOMPOSED}/key",
        f"drafts/../drafts/{DECOMPOSED}/new/file",
        f"file:{{root}}/{DECOMPOSED}/key",
        "../Wo\u0308rk/private/key",
        "../WO\u0308RK/docs/INNER/E\u0301.txt",
        f"far/../{DECOMPOSED}/key",
        "FAR{root}/private/key",
        "{above}/Wo\u0308rk/private/key",
        f"{{above}}/Wo\u0308rk/{DECOMPOSED}/key",
        f"%7B{DECOMPOSED}/../{DECOMPOSED}/key",
    ],
)
def test_an_entry_with_a_like_name_stands_for_a_missing_one(files: WorkspaceFiles, path: str) -> None:
    path = path.format(root=files.root, above=Path(files.root).parent)
    forms = [path] if path.startswith(("/", "file:")) else [path, f"{files.root}/{path}"]
    for form in forms:
        assert denied(files, {"path": form}), form
        assert not allowed(files, {"path": form}), form


def test_a_like_entry_that_is_allowed_too_changes_nothing(files: WorkspaceFiles, tmp_path: Path) -> None:
    (tmp_path / "drafts" / "Readme").mkdir(parents=True)
    own = WorkspaceFiles(tmp_path)
    for path in ("drafts/README/x", "drafts/new", "drafts/Readme/x"):
        assert allowed(own, {"path": path})
        assert not denied(own, {"path": path})
    assert not allowed(files, {"path": f"drafts/{DECOMPOSED}/key"})


def test_an_entry_of_a_route_stands_for_a_missing_one_too(tmp_path: Path) -> None:
    for folder in ("work", "data/private"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "data" / CAFE).symlink_to("private")
    own = WorkspaceFiles(tmp_path / "work", {"/data/": tmp_path / "data"})
    deny: Any = [{"*": {"path": "data/private/**"}}]
    for path in (f"/data/{DECOMPOSED}/key", f"data/{DECOMPOSED}/key", f"{tmp_path}/data/{DECOMPOSED}/key"):
        assert verdict(own, {"path": path}, mode="run_everything", deny=deny) == "deny"


def test_a_folder_is_listed_only_where_a_part_is_missing(
    files: WorkspaceFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []
    listing = os.listdir
    monkeypatch.setattr(os, "listdir", lambda folder: [listed.append(str(folder)), listing(folder)][1])
    root = str(files.root)
    assert like(f"{root}/private/key") == []
    assert listed == []
    assert like(f"{root}/private/new/file/below") == []
    assert [each for each in listed if Path(each).exists()] == [f"{root}/private"]


def test_a_path_with_too_many_meanings_is_not_clear(
    files: WorkspaceFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(path_spellings, "_entries_like", lambda _folder, _part: ["a", "b"])
    with pytest.raises(WorkspaceError, match="too many"):
        like("/nowhere" * 20)
    assert denied(files, {"path": "nowhere/" * 20})


# Places on this machine that a path may mean

FOLDERS = ("a", "b", "a/b", "b/a", "a/b/a")
LINKED = st.dictionaries(
    st.tuples(st.sampled_from(["", *FOLDERS]), st.sampled_from(["l", "m", "<secret:l"])),
    st.sampled_from([".", *FOLDERS, "../notes", "l", "../notes/a"]),
    max_size=4,
)
STEPS = st.sampled_from(
    ["a", "b", "key", "l", "m", "..", "..", ".", "", "data", "<secret:l", "<secret:l>", "l>"]
)


def places_at(base: object, text: str) -> set[str]:
    """Where a server looks for a text below a folder: it follows links first, resolves `..` first, or does no more."""
    joined = f"{base}/{text}"
    return {os.path.realpath(joined), os.path.normpath(joined), os.path.realpath(os.path.normpath(joined))}


@given(
    links=LINKED,
    start=st.sampled_from(["", "/", "//", "{root}/", "{notes}/"]),
    steps=st.lists(STEPS, max_size=6),
)
@example(links={("", "l"): "a/b"}, start="/", steps=["l", "..", "key"])
@example(links={("", "l"): "a/b"}, start="/", steps=["data", "l", "..", "key"])
@example(links={("", "l"): "a/b", ("", "m"): "b"}, start="{root}/", steps=["l", "..", "m", "key"])
@example(links={("", "<secret:l"): "a/b"}, start="/", steps=["<secret:l", "..", "key"])
@example(links={("a", "l"): "b/a"}, start="/", steps=["l", "..", "key"])
def test_a_path_is_denied_if_and_only_if_a_server_may_find_the_file_by_it(
    links: Mapping[tuple[str, str], str], start: str, steps: list[str]
) -> None:
    """The law. A server takes a path from `/` for one of this machine, or for one of the project."""
    with TemporaryDirectory() as above:
        root, notes = Path(above).resolve() / "work", Path(above).resolve() / "notes"
        for base in (root, notes):
            for folder in FOLDERS:
                (base / folder).mkdir(parents=True, exist_ok=True)
            for (folder, name), target in links.items():
                (base / folder / name).symlink_to(base / target)
        files = WorkspaceFiles(root, {"/data/": notes}, shown=lambda text: text)
        callers = WorkspaceFiles(root / "a")
        text = start.format(root=root, notes=notes) + "/".join(steps)
        found = places_at(root, text)
        found |= places_at("", text) if text.startswith("/") else set()
        parts = parts_of(text)
        found |= places_at(notes, "/".join(parts[1:])) if parts[:1] == ("data",) else set()

        def names(places: set[str]) -> set[str]:
            folders = {root: "/", notes: "/data/"}
            return {
                f"{prefix}{os.path.relpath(each, base)}"
                for each in places
                for base, prefix in folders.items()
                if Path(each).is_relative_to(base) and Path(each) != base
            }

        is_clear = all(leads_to(files, text))
        for name in names(found) | {"/key", "/a/key", "/b/a", "/data/key", "/a/b"}:
            rule: Any = [{"*": {"path": name}}]
            is_meant = any(Path(each).is_relative_to(name) for each in names(found))
            for kind in ("deny", "ask"):
                is_ruled = verdict(files, {"path": text}, mode="run_everything", **{kind: rule}) == kind
                assert is_ruled == (is_meant or not is_clear), (text, name)
        for name in names({os.path.realpath(each) for each in places_at(callers.root, text)}):
            policy = Policy(Options(deny=[{"*": {"path": name}}]), partial(leads_to, files))
            called = server({"path": TEXT})
            assert policy.denied(called, {"path": text}, partial(reaches, files, callers)), (text, name)


# Defaults

REQUEST = {"type": "object", "properties": {"path": {"type": "string", "default": "private/key"}, "n": {}}}
DEFINED = {"$defs": {"Req": REQUEST}}
REF = {"$ref": "#/$defs/Req"}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (REF, {}),
        (REF, {"n": 1}),
        ({"type": "array", "items": REF}, [{}]),
        ({"anyOf": [REF, {"type": "null"}], "default": None}, {"n": 3}),
        ({"anyOf": [REF, {"type": "string"}]}, "{}"),
        ({"type": "object", "properties": {"inner": {**REF, "default": {}}}}, {}),
        ({"type": "object", "additionalProperties": REF}, {"any": {}}),
        ({"anyOf": [{"properties": {"path": {"default": "drafts/x"}}}, REF]}, {}),
    ],
)
def test_defaults_are_judged_at_every_level(files: WorkspaceFiles, schema: Any, value: Any) -> None:
    called = server({"request": schema}, **DEFINED)
    assert denied(files, {"request": value}, called)
    assert not allowed(files, {"request": value}, called)
    given = {"n": 1, "path": "drafts/x"}
    assert not denied(files, {"request": given}, server({"request": REF}, **DEFINED))


def test_an_argument_that_the_tool_computes_is_unclear_where_it_is_left_out(files: WorkspaceFiles) -> None:
    plain = server({"path": {"type": "string"}, "n": {}})
    called = replace(plain, computed=frozenset({"path"}))
    assert not denied(files, {"n": 1}, plain)
    assert denied(files, {"n": 1}, called)
    assert not denied(files, {"n": 1, "path": "drafts/x"}, called)


def test_defaults_that_lead_back_to_themselves_end() -> None:
    node: Any = {
        "$defs": {"N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N", "default": {}}}}}
    }
    assert fill_defaults({**node, "$ref": "#/$defs/N"}, {})["next"]["next"] is not None


PATH = {"type": "string", "default": "private/key"}
WITH_PATH = {"properties": {"path": PATH}}
ONLY = {"$defs": {"N": {"$anchor": "n", "$dynamicAnchor": "n", **PATH}}}
INNER_ID = {"$id": "x:n", "$ref": "#/$defs/N", "$defs": ONLY["$defs"]}


@pytest.mark.parametrize(
    ("properties", "more"),
    [
        ({}, {"if": {"properties": {"n": {"const": 1}}}, "then": WITH_PATH}),
        ({}, {"if": {"properties": {"n": {"const": 2}}}, "else": WITH_PATH}),
        ({}, {"if": True, "then": REF, **DEFINED}),
        ({}, {"allOf": [{"then": WITH_PATH}]}),
        ({}, {"dependentSchemas": {"n": WITH_PATH}}),
        ({}, {"dependencies": {"n": WITH_PATH}}),
        ({}, {"a keyword of tomorrow": [WITH_PATH]}),
        ({}, {"default": {"path": "private/key"}}),
        ({"path": {"$ref": "#n"}}, ONLY),
        ({"path": {"$dynamicRef": "#n"}}, ONLY),
        ({"path": INNER_ID}, {"$defs": {"N": {"type": "string"}}}),
        ({"path": {"type": "string", "default": "drafts/x", "then": PATH}}, {}),
        ({"path": {"type": "string", "default": "drafts/x"}}, {"then": WITH_PATH}),
        ({"inner": {"properties": {"n": {}}, "then": WITH_PATH}}, {}),
        ({"inner": {}}, {"then": {"properties": {"inner": WITH_PATH}}}),
        ({"inner": {"items": [WITH_PATH]}}, {}),
    ],
)
def test_a_missing_argument_is_unclear_if_a_keyword_that_is_not_read_may_have_its_default(
    files: WorkspaceFiles, properties: Any, more: Any
) -> None:
    called = server({"n": {}, "uri": {"type": "string"}, **properties}, **more)
    arguments: dict[str, Any] = {"n": 1}
    if "inner" in properties:
        arguments["inner"] = [{}] if "items" in properties["inner"] else {}
    assert denied(files, arguments, called)
    assert not allowed(files, arguments, called)
    if "inner" not in properties:
        assert not denied(files, {"n": 1, "path": "drafts/x"}, called)
        assert allowed(files, {"n": 1, "path": "drafts/x"}, called)
    elsewhere: Any = [{"*": {"uri": "private/**"}}]
    if "$" not in json.dumps([properties, more]):
        assert verdict(files, arguments, called, mode="run_everything", deny=elsewhere) == "allow"


def test_a_missing_argument_of_an_ordinary_schema_is_clear(files: WorkspaceFiles) -> None:
    about = {"title": "Path", "description": "a default", "deprecated": False, "x-order": {"at": 1}}
    path = {
        "type": "string",
        "format": "path",
        "pattern": ".*",
        "examples": [{"default": "private/key"}],
        "not": {"default": "private/key"},
        "$comment": "default",
    }
    ordinary = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://s.example/show",
        "additionalProperties": False,
        "required": ["n"],
        "propertyNames": {"pattern": "^[a-z]+$"},
        "if": {"properties": {"n": {"const": 1}}},
        "then": {"required": ["path"]},
        "dependentRequired": {"path": ["n"]},
        "default": {},
    }
    number = {"type": "integer", "default": 1}
    properties = {"path": path | about, "n": number, "files": {"type": "array", "items": REF}}
    called = server(properties, **ordinary, **DEFINED)
    assert not denied(files, {"n": 2}, called)
    assert not denied(files, {"n": 2, "files": []}, called)
    assert denied(files, {"n": 2, "files": [{}]}, called)


# Names that end alike: a path of this machine and a name in the workspace are told apart by what they are.


@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        ("secrets/prod", "../prod", "prod/key"),
        ("secrets/x.txt", "../x.txt", "x.txt"),
        ("secrets/prod/prod", "../../prod", "prod/key"),
    ],
)
def test_a_link_with_the_name_of_its_target_closes_it_as_any_link_does(
    tmp_path: Path, link: str, target: str, path: str
) -> None:
    for name in ("prod/key", "x.txt", "secrets/own"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to(target)
    # Links count where the agent's rules may match them.
    config = {
        "version": 1,
        "model": "gpt-4o",
        "tools": ["filesystem"],
        "middlewares": [{"approve": {"deny": [{"*": {"path": ["secrets", "sec*"]}}]}}],
    }
    (tmp_path / "zeus.yaml").write_text(json.dumps(config))
    files = Agent.from_config(directory=tmp_path, environ={}, trust="all").plan.context.workspace
    assert_restricted(files, "secrets", path)
    assert_restricted(files, "sec*", path)


@pytest.mark.parametrize(
    ("prefix", "folder", "pattern", "path"),
    [
        ("/secrets/docs/", "docs", "secrets", "docs/key"),
        ("/host/", ".", "host", "docs/key"),
        ("/host/", ".", "host", "new"),
    ],
)
def test_a_route_with_the_name_of_its_folder_is_closed_by_the_names_before_it(
    tmp_path: Path, prefix: str, folder: str, pattern: str, path: str
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/key").write_text("x")
    assert_restricted(WorkspaceFiles(tmp_path, {prefix: tmp_path / folder}), pattern, path)


def assert_restricted(files: WorkspaceFiles, pattern: str, path: str) -> None:
    """A pattern stops the calls of a server with a path, and a parent's `deny` those of a sub-agent's."""
    for spelled in (path, f"/{path}", f"./{path}", f"{files.root}/{path}", f"file://{files.root}/{path}"):
        for kind in ("deny", "ask"):
            rule: Any = {kind: [{"*": {"path": pattern}}], "mode": "run_everything"}
            assert verdict(files, {"path": spelled}, **rule) == kind, spelled
        policy = Policy(Options(deny=rule["ask"]), partial(leads_to, files), partial(reaches, files, files))
        called = server({"path": {"type": "string"}})
        below = partial(reaches, files, WorkspaceFiles(files.root))
        assert policy.denied(called, {"path": spelled}, below) is not None, spelled


def test_names_above_the_workspace_and_its_routes_on_this_machine_close_nothing(tmp_path: Path) -> None:
    root, notes = tmp_path / "secrets/work", tmp_path / "private/notes"
    for folder in (root / "docs", notes):
        folder.mkdir(parents=True)
    files = WorkspaceFiles(root, {"/memory/": notes})
    above = ["secrets", "work", "private", "notes", root.parts[1]]
    rule: Any = {"deny": [{"*": {"path": above}}], "mode": "run_everything"}
    for path in (f"{root}/docs/a", f"{root}/docs/../a", "docs/a", f"{notes}/a"):
        assert verdict(files, {"path": path}, **rule) == "allow", path
    for pattern in (f"{root}/**", str(tmp_path / "secrets"), "docs"):
        closing: Any = {"deny": [{"*": {"path": pattern}}], "mode": "run_everything"}
        assert verdict(files, {"path": f"{root}/docs/a"}, **closing) == "deny", pattern


def test_a_copy_of_a_machines_folders_in_the_workspace_has_the_names_that_it_shows(tmp_path: Path) -> None:
    """A server in a container may take `/` for the workspace."""
    files = WorkspaceFiles(tmp_path)
    rule: Any = {"deny": [{"*": {"path": tmp_path.parts[1]}}], "mode": "run_everything"}
    assert verdict(files, {"path": f"{tmp_path}/a"}, **rule) == "allow"
    Path(f"{tmp_path}{tmp_path}").mkdir(parents=True)
    assert verdict(files, {"path": f"{tmp_path}/a"}, **rule) == "deny"
