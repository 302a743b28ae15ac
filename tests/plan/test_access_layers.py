"""Each law of a rule that closes files holds in whichever layer the rule is written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import pytest

from tests.plan.test_access import GIT_COPIES, GIT_RECORDS
from zeus_runtime.plan.plan import Plan, make_plan
from zeus_runtime.plan.validated import check
from zeus_runtime.tools import WorkspaceError, WorkspaceFiles
from zeus_runtime.tools.calling_tool import calling
from zeus_runtime.tools.gate import AccessAsked


class Layer(NamedTuple):
    """Where a rule is written, and what it does."""

    source: Literal["access", "approve"]
    action: Literal["deny", "ask"]
    of_parent: bool = False


LAYERS: Final = {
    "access": Layer("access", "deny"),
    "approve deny": Layer("approve", "deny"),
    "approve ask": Layer("approve", "ask"),
    "access of the parent": Layer("access", "deny", of_parent=True),
    "approve deny of the parent": Layer("approve", "deny", of_parent=True),
    "approve ask of the parent": Layer("approve", "ask", of_parent=True),
}


class Law(NamedTuple):
    """What rules close, and what stays open."""

    patterns: Sequence[str]
    closed: Sequence[str]
    open: Sequence[str]
    links: Mapping[str, str] = {}
    routes: Mapping[str, str] = {}


RELEASE: Final = {"current": "releases/42"}


def below(folder: str, names: set[str]) -> list[str]:
    return [f"{folder}/{each}" for each in sorted(names)]


LAWS: Final = {
    "a path": Law(["secrets/key"], ["secrets/key"], ["secrets/other", "a/secrets/key"]),
    "a folder with all that is in it": Law(["secrets"], ["secrets/a/key", "b/secrets/x"], ["secret"]),
    "a name anywhere": Law(["*.pem"], ["k.pem", "a/b/k.pem"], ["a/b/k.txt"]),
    "another spelling of a name": Law(["secrets/key"], ["SECRETS/Key"], ["secret/key"]),
    "brackets as a set and as a text": Law(["app/[st]/**"], ["app/[st]/a", "app/s/a"], ["app/x/a"]),
    "each alternative of braces": Law(["{a,b}/*.md"], ["a/x.md", "b/x.md"], ["c/x.md", "a/x.txt"]),
    "what a link of a rule leads to": Law(
        ["current/secrets/**"],
        ["releases/42/secrets/key", "current/secrets/key"],
        ["releases/42/open", "releases/41/secrets/key"],
        links=RELEASE,
    ),
    "what a link with a name leads to": Law(
        ["privkey.pem"],
        ["store/privkey1.pem"],
        ["store/cert1.pem"],
        links={"privkey.pem": "store/privkey1.pem"},
    ),
    "a file by the path of a route": Law(["secrets/**"], ["r/key"], ["open"], routes={"/r/": "secrets"}),
    "git's copies": Law(["secrets/**"], below(".git", GIT_COPIES), below(".git", GIT_RECORDS)),
    "git's copies by a link": Law(
        ["secrets/**"], below("data", GIT_COPIES), below("data", GIT_RECORDS), links={"data": ".git"}
    ),
    "git's copies in a folder of another name": Law(
        ["*.pem"],
        below("store/gitdata", GIT_COPIES - {"modules/x/HEAD", "modules/x/refs/x"}),
        [*below("store/gitdata", GIT_RECORDS), "store/objects/ab"],
    ),
    "git's copies in a folder that a link names": Law(
        ["secrets/**"],
        [*below(".git", GIT_COPIES), *below("store/gitdata", {"objects/ab/cd", "index"})],
        below(".git", GIT_RECORDS),
        links={".git": "store/gitdata"},
    ),
}


def put(folder: Path, law: Law) -> None:
    (folder / "secrets").mkdir()
    for link, target in law.links.items():
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        if Path(target).suffix != ".pem":
            (folder / target).mkdir()
        (folder / link).symlink_to(target)
    git = {str(Path(each).parent) for each in law.open if each.endswith("/HEAD") and "/w" not in each}
    for path in (*law.closed, *law.open, *(f"{each}/refs/x" for each in git)):
        top, slash, inner = path.partition("/")
        file = folder / f"{law.routes.get(f'/{top}/', top)}{slash}{inner}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("needle\n")


BASIS: Final[Mapping[str, Any]] = {
    "version": 1,
    "model": "gpt-4o",
    "tools": ["filesystem"],
    "middlewares": [{"approve": {"mode": "run_everything"}}],
}


def planned(folder: Path) -> Plan:
    environ = {"HOME": str(folder.parent / "home")}
    return make_plan(check(folder / "zeus.yaml", directory=folder, environ=environ))


def files_of(folder: Path, layer: Layer | None, law: Law) -> WorkspaceFiles:
    """The files of an agent, or of its sub-agent if the rule is the parent's."""
    workspace = {"routes": dict(law.routes)}
    own = {**BASIS, "workspace": workspace}
    ruled = {**own}
    if layer is not None and layer.of_parent:
        agents = {"h": {"description": "Helps.", "config": "h.yaml"}}
        ruled = {**own, "workspace": {}, "tools": ["filesystem", "subagents"], "agents": agents}
        (folder / "h.yaml").write_text(json.dumps({**own, "name": "h"}))
    if layer is not None and layer.source == "access":
        routes = {} if layer.of_parent else workspace
        ruled["workspace"] = {**routes, "access": dict.fromkeys(law.patterns, "deny")}
    elif layer is not None:
        rule = {"*": {"path": list(law.patterns)}}
        ruled["middlewares"] = [{"approve": {"mode": "run_everything", layer.action: [rule]}}]
    (folder / "zeus.yaml").write_text(json.dumps(ruled))
    plan = planned(folder)
    return (plan.agents["h"].plan if "agents" in ruled else plan).context.workspace


def right(files: WorkspaceFiles, path: str, tool: str | None = "read_file") -> str:
    try:
        with calling(tool):
            return files.read(f"/{path}", max_bytes=100).decode().strip()
    except AccessAsked:
        return "ask"
    except WorkspaceError as error:
        return "ask" if "Only a tool call can ask" in str(error.remedy) else "deny"


def seen_by_programs(files: WorkspaceFiles, paths: Sequence[str]) -> list[bool]:
    with calling("run_command"):
        mounts = {each.host: each.right for each in files.program_view(max_files=1_000, writable=False)}
    found = []
    for path in paths:
        place = files.place(f"/{path}").resolve()
        rights = [mounts[str(each)] for each in (place, *place.parents) if str(each) in mounts]
        found.append(rights[0] != "none")
    return found


def is_listed(files: WorkspaceFiles, path: str) -> bool:
    folder, _, name = f"/{path}".rpartition("/")
    try:
        return name in {each.name for each in files.entries(folder or "/")}
    except WorkspaceError:
        return False


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("law", LAWS)
def test_a_rule_closes_the_same_files_in_each_layer(tmp_path: Path, law: str, layer: str) -> None:
    given, action = LAWS[law], LAYERS[layer].action
    put(tmp_path, given)
    files = files_of(tmp_path, LAYERS[layer], given)
    for tool in ("read_file", None):
        assert {each: right(files, each, tool) for each in given.closed} == dict.fromkeys(
            given.closed, action
        )
        assert {each: right(files, each, tool) for each in given.open} == dict.fromkeys(given.open, "needle")
    assert not any(seen_by_programs(files, given.closed))
    assert all(seen_by_programs(files, given.open))
    for path in (*given.closed, *given.open):
        assert is_listed(files, path) is not (path in given.closed and action == "deny"), path


@pytest.mark.parametrize("law", LAWS)
def test_without_a_rule_all_is_open(tmp_path: Path, law: str) -> None:
    put(tmp_path, LAWS[law])
    files = files_of(tmp_path, None, LAWS[law])
    paths = [*LAWS[law].closed, *LAWS[law].open]
    assert {each: right(files, each) for each in paths} == dict.fromkeys(paths, "needle")
    assert all(seen_by_programs(files, paths))


@pytest.mark.parametrize(
    ("access", "approve", "open_to"),
    [
        ({"secrets/**": "ask", "**": "read"}, {}, {"read_file", "grep", None}),
        ({}, {"deny": [{"grep": {"path": "x/**"}}]}, {"read_file", None}),
        ({}, {"ask": [{"g*": {"path": "x/**"}}]}, {"read_file", None}),
        ({}, {"ask": [{"*": {"pattern": "x/**"}}, "grep"]}, {"read_file", "grep", None}),
        ({}, {"deny": [{"*": {"path": "x", "limit": "y"}}]}, {"read_file", "grep", None}),
        ({}, {"allow": [{"*": {"path": "x/**"}}]}, {"read_file", "grep", None}),
    ],
)
def test_gits_copies_stay_open_to_tools_that_no_rule_keeps_from_reading(
    tmp_path: Path, access: Mapping[str, str], approve: Mapping[str, Any], open_to: set[str | None]
) -> None:
    law = Law([], [], [".git/objects/ab/cd"])
    put(tmp_path, law)
    middlewares = [{"approve": {"mode": "run_everything", **approve}}]
    given = {**BASIS, "workspace": {"access": access}, "middlewares": middlewares}
    (tmp_path / "zeus.yaml").write_text(json.dumps(given))
    files = planned(tmp_path).context.workspace
    tools = ("read_file", "grep", None)
    assert {each for each in tools if right(files, law.open[0], each) == "needle"} == open_to


def test_a_denial_closes_gits_copies_where_another_rule_only_asks(tmp_path: Path) -> None:
    law = Law(["secrets/**"], [".git/index"], [])
    put(tmp_path, law)
    ask = {"approve": {"mode": "run_everything", "ask": [{"*": {"path": ".git/**"}}]}}
    given = {**BASIS, "workspace": {"access": {"secrets/**": "deny"}}, "middlewares": [ask]}
    (tmp_path / "zeus.yaml").write_text(json.dumps(given))
    assert right(planned(tmp_path).context.workspace, law.closed[0]) == "deny"


@pytest.mark.parametrize(
    ("where", "access", "paths"),
    [
        ("root", {"*.pem": "deny"}, ["objects/ab", "index"]),
        ("route", {"*.pem": "deny"}, ["r/objects/ab", "r/index"]),
        (
            "rule",
            {"*.pem": "deny", "data/objects": "read", "data/index": "read"},
            ["data/objects/ab", "data/index"],
        ),
        ("link", {"*.pem": "deny", "data/index": "read"}, ["link/index"]),
        ("names", {"*.pem": "deny", "a/data/index": "read"}, ["a/data/index", "s/data/index"]),
    ],
)
def test_a_root_a_route_and_a_rule_open_what_a_git_folder_of_another_name_holds(
    tmp_path: Path, where: str, access: Mapping[str, str], paths: Sequence[str]
) -> None:
    for at, name in product(("data", "a/data"), ("HEAD", "refs/x", "objects/ab", "index")):
        (tmp_path / at / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / at / name).write_text("needle\n")
    (tmp_path / "link").symlink_to("data")
    places = {
        "root": {"root": "data"},
        "route": {"routes": {"/r/": "data"}},
        "names": {"routes": {"/s/": "a"}},
    }
    workspace = {"access": access, **places.get(where, {})}
    (tmp_path / "zeus.yaml").write_text(json.dumps({**BASIS, "workspace": workspace}))
    files = planned(tmp_path).context.workspace
    assert [right(files, each) for each in paths] == ["needle"] * len(paths)
