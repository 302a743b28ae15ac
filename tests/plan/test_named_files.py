"""No tool changes what another run's config names, or a value that a stronger layer or a variable replaces."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.agents import write_agent
from zeus_runtime.config.layers import loading
from zeus_runtime.config.layers.files import Layers
from zeus_runtime.config.yaml.tree import Node
from zeus_runtime.errors import ZeusError
from zeus_runtime.plan import named_files
from zeus_runtime.plan.parts_with_subagents import agents_below
from zeus_runtime.plan.plan import make_plan
from zeus_runtime.plan.protected_files import add_deciding
from zeus_runtime.plan.validated import Checked, check
from zeus_runtime.registry.schema import schema_file
from zeus_runtime.tools import WorkspaceFiles
from zeus_runtime.tools.access import Deciding
from zeus_runtime.trust.decision import recorded_trust

EXECUTES: Final = "x-zeus-executes"
MARKS: Final = {
    "x-zeus-file-relative",
    "x-zeus-work-relative",
    EXECUTES,
    "x-zeus-names-files",
}
"""Of an option whose value may be a file's name."""
DATABASE: Final = "storage.url"
"""An address that may name a file."""
REPOSITORY: Final = Path(__file__).parents[2]
BUNDLED: Final = sorted(
    file
    for file in (*REPOSITORY.glob("configs/*.yaml"), *REPOSITORY.glob("examples/*/zeus.yaml"))
    if file.name not in ("postgres.yaml", "profiles.yaml")  # an overlay, and no config
)
WORK: Final = "workspace.routes.n"
"""Folders that tools work in: no run reads skills there."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return project


def put(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        write(folder / name, text)


def write(file: Path, text: str = "x\n") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def files_of(
    folder: Path,
    yaml: str = "",
    *,
    env: str | None = None,
    environ: Mapping[str, str] | None = None,
    tools: str = "[probe, filesystem]",
) -> WorkspaceFiles:
    config = write_agent(folder, yaml, tools=tools)
    return make_plan(check(config, env=env, directory=folder, environ=environ or {})).context.workspace


def is_open(files: WorkspaceFiles, *paths: str) -> list[str]:
    return [path for path in paths if files.write_refusal(path) is None]


def is_read(files: WorkspaceFiles, path: str) -> bool:
    return "no tool may read or change it" not in (files.write_refusal(path) or "")


Leaf = tuple[str, Mapping[str, Any], Callable[[Any], Any]]


def marked_leaves(node: Mapping[str, Any], root: Mapping[str, Any], name: str, around: Any) -> Iterator[Leaf]:
    """Each string in the schema that is marked: its dotted path, its schema, and a config with a value there."""
    if "$ref" in node:
        definition = node["$ref"].rpartition("/")[2]
        if definition not in name.split("/"):
            yield from marked_leaves(root["$defs"][definition], root, f"{name}/{definition}/", around)
        return
    types = node.get("type", "string")
    is_marked = node.keys() & MARKS or name.endswith(DATABASE)
    if is_marked and "string" in ([types] if isinstance(types, str) else types):
        yield name, node, around
    for key, each in node.get("properties", {}).items():
        yield from marked_leaves(each, root, f"{name}.{key}", lambda value, key=key: around({key: value}))
    if isinstance(node.get("items"), dict):
        yield from marked_leaves(node["items"], root, name, lambda value: around([value]))
    if isinstance(node.get("additionalProperties"), dict):
        key = node.get("propertyNames", {}).get("enum", ["n"])[0]
        below = node["additionalProperties"]
        yield from marked_leaves(below, root, f"{name}.{key}", lambda value: around({key: value}))
    for each in (*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("allOf", ())):
        yield from marked_leaves(each, root, name, around)


def leaves() -> list[Leaf]:
    schema = json.loads(schema_file().read_text(encoding="utf-8"))
    return list(marked_leaves(schema, schema, "", lambda value: value))


@pytest.mark.parametrize("place", ["config", "overrides"])
def test_every_option_of_an_overlay_that_names_a_file_protects_it(folder: Path, place: str) -> None:
    named: dict[str, tuple[str, bool]] = {}
    for index, (name, schema, around) in enumerate(leaves()):
        if name.endswith(WORK) or schema.get(EXECUTES) in ("name", "asked"):
            continue
        value = file = f"probe{index}.txt"
        if name.endswith(DATABASE):
            value = f"sqlite:///{file}"
        elif name.endswith(".homes"):
            file = f"{value}/prompts/CORE.md"
        elif name.endswith("workspace.root"):
            file = f"{value}/.claude/skills/s/SKILL.md"
        write(folder / file)
        layer = around(value)
        if place == "overrides":
            layer = {"agents": {"h": {"description": "H.", "overrides": layer}}}
        write(folder / f"zeus.p{index}.yaml", json.dumps({"version": 1, **layer}))
        closed = {"x-zeus-names-files", "x-zeus-holds-secrets"} & schema.keys() or name.endswith(DATABASE)
        named[name] = file, closed or schema.get("x-zeus-protected") in ("read", "both")
    files = files_of(folder)
    assert len(named) > 40
    assert not [name for name, (file, _) in named.items() if files.write_refusal(file) is None]
    assert not [name for name, (file, closed) in named.items() if closed and is_read(files, file)]


@pytest.mark.parametrize("config", BUNDLED, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_the_protected_files_of_a_bundled_config_are_those_that_it_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch, config: Path
) -> None:
    monkeypatch.setenv("CUSTOMER", "ann")
    monkeypatch.setenv("ZEUS_DATABASE_URL", "postgresql://zeus@db.example.com/zeus")
    always = protected(folder, write_agent(folder))
    if config.parent.parent.name == "examples":
        shutil.copytree(config.parent, folder, dirs_exist_ok=True)
        config = folder / config.name
    listed = protected(folder, config)
    for name in (path.lstrip("/") for path in listed - always):
        assert (folder / name).is_file()
        assert name in config.read_text() or name in ("zeus.yaml", "zeus.prod.yaml")


def protected(folder: Path, config: Path | str) -> set[str]:
    gate = make_plan(check(config, directory=folder, environ=dict(os.environ))).context.workspace.gate
    assert gate is not None
    return set(gate.protected())


def test_neither_the_name_of_a_model_nor_an_address_is_the_name_of_a_file(folder: Path) -> None:
    put(folder, **{"h.yaml": "version: 1\nmodel: ollama/of-a-sub-agent\n"})
    put(folder, **{"zeus.prod.yaml": "version: 1\nmodel: openai/of-an-overlay\n"})
    yaml = (
        "version: 1\nmodel: {chain: [openai/gpt-4o, {litellm: {model: plain, api_base: http://localhost}}]}\n"
        "models: {summary: openai/gpt-4o-mini}\n"
        "tools: [filesystem, subagents]\nagents: {h: {description: H., config: h.yaml}}\n"
        "memory: {embeddings: {litellm: {model: openai/embedder, dimension: 8}}}\n"
    )
    write(folder / "zeus.yaml", yaml)
    listed = protected(folder, "zeus.yaml")
    (folder / "zeus.prod.yaml").unlink()
    assert listed - protected(folder, write_agent(folder)) == {"/h.yaml", "/h.*.yaml", "/zeus.prod.yaml"}


PROD: Final = """\
version: 1
instructions: {file: "${PROMPT:-prod.md}"}
model: {litellm: {model: vertex_ai/gemini-2.5-pro, extra: {vertex_credentials: sa.json}}}
mcpServers:
  issues: {command: python, args: [tools/issues.py], env: {HOOK: hook.js}}
  here: {command: ./start, args: [-m, tools.server], data: [notes.db, free.txt]}
tools: [{mcp: {files: [servers.json]}}]
agents:
  h: {description: H., config: reviewer, overrides: {homes: [team], plugins: {files: [hp.py]}}}
"""
SERVERS: Final = (
    '{"mcpServers": {"a": {"command": "node", "args": ["${UNSET}", "lib/a.js"]}, "b": {"command": 1}}}'
)


def test_what_only_an_overlay_has_started_or_gives_its_agents_is_not_written(folder: Path) -> None:
    put(folder, **{"zeus.prod.yaml": PROD, "servers.json": SERVERS})
    put(folder, **{"reviewer/zeus.yaml": "version: 1\ninstructions: {file: own.md}\n"})
    put(folder, **{"team/configs/live.yaml": "version: 1\ninstructions: {file: live.md}\n"})
    named = (
        "prod.md sa.json servers.json tools/issues.py hook.js start tools/server.py lib/a.js hp.py"
        " reviewer/zeus.yaml reviewer/own.md team/prompts/CORE.md team/configs/live.md"
    ).split()
    for name in (*named, "notes.db", "free.txt"):
        if not (folder / name).exists():
            write(folder / name)
    files = files_of(folder)
    assert is_open(files, *named, "notes.db", "free.txt", "reviewer/x.md", "other.md") == [
        "notes.db",
        "free.txt",
        "reviewer/x.md",
        "other.md",
    ]
    assert not is_read(files, "sa.json")
    assert not is_read(files, "servers.json")


def test_the_values_that_a_stronger_layer_replaces_are_looked_at_in_the_same_way(folder: Path) -> None:
    dev = (
        "version: 1\nmodel: {probe: {}}\nmcpServers: {issues: {args: [tools/dev.py], disabled: true}}\n"
        "workspace: {root: .}\nagents: {h: {description: H., config: dev.yaml}}\n"
    )
    put(folder, **{"zeus.dev.yaml": dev, "dev.yaml": "version: 1\nmodel: gpt-4o\n"})
    put(folder, **{"prod.yaml": "version: 1\ninstructions: {file: helper.md}\n"})
    named = ("sa.json", "tools/issues.py", "site/.claude/skills/s/SKILL.md", "prod.yaml", "helper.md")
    for name in ("sa.json", "tools/issues.py", "tools/dev.py", "helper.md"):
        write(folder / name)
    write(
        folder / "zeus.yaml",
        "version: 1\nmodel: {litellm: {model: vertex_ai/gemini-2.5-pro, extra: {vertex_credentials: sa.json}}}\n"
        "mcpServers: {issues: {command: python, args: [tools/issues.py]}}\ntools: [filesystem, subagents]\n"
        "workspace: {root: site}\nagents: {h: {description: H., config: prod.yaml}}\n",
    )
    (folder / "zeus.dev.yaml").write_text(dev.replace("{probe: {}}", "gpt-4o"))
    files = make_plan(check("zeus.yaml", env="dev", directory=folder, environ={})).context.workspace
    assert is_open(files, *named, "tools/other.py") == ["tools/other.py"]
    assert not is_read(files, "sa.json")


@pytest.mark.parametrize("environ", [{}, {"PROMPT": "set.md", "TOOL": "set.py"}])
def test_a_variable_stands_for_its_value_and_for_its_default(folder: Path, environ: dict[str, str]) -> None:
    """The next run may have another environment."""
    yaml = (
        'instructions: {file: "${PROMPT:-default.md}"}\n'
        'mcpServers: {a: {command: python, args: ["${TOOL:-default.py}"]}}\n'
    )
    for name in ("default.md", "default.py", "set.md", "set.py"):
        write(folder / name)
    used = ["set.md", "set.py"]
    assert is_open(files_of(folder, yaml, environ=environ), "default.md", "default.py", *used) == (
        [] if environ else used
    )
    write(folder / "zeus.prod.yaml", f"version: 1\n{yaml}")
    assert is_open(files_of(folder, environ=environ), "default.md", "default.py", *used) == (
        [] if environ else used
    )


def test_a_replaced_value_whose_variable_is_not_set_names_no_file(folder: Path) -> None:
    """It was the folder of the config, in which no tool could change anything."""
    put(folder, **{"zeus.dev.yaml": "version: 1\ninstructions: Work.\ncheckpointer: sqlite\n"})
    yaml = 'instructions: {file: "${UNSET}"}\ncheckpointer: {sqlite: {path: "${UNSET}"}}\n'
    assert is_open(files_of(folder, yaml, env="dev"), "a.txt") == ["a.txt"]


def test_an_overlay_that_changes_a_part_of_a_server_is_read_with_the_rest_of_it(folder: Path) -> None:
    put(folder, **{"zeus.prod.yaml": "version: 1\nmcpServers: {a: {cwd: prod, disabled: false}}\n"})
    for name in ("dev/server.py", "prod/server.py", "other/server.py"):
        write(folder / name)
    yaml = "mcpServers: {a: {command: python, args: [server.py], cwd: dev, disabled: true}}\n"
    files = files_of(folder, yaml)
    assert is_open(files, "prod/server.py", "other/server.py") == ["other/server.py"]


def test_a_server_of_a_config_that_is_not_loaded_starts_in_the_home_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    put(
        folder,
        **{
            "zeus.prod.yaml": "version: 1\nmcpServers: {a: {command: python, args: [server.py], cwd: ~/prod}}\n"
        },
    )
    for name in ("prod/server.py", "other/server.py"):
        write(folder / name)
    assert is_open(files_of(folder, ""), "prod/server.py", "other/server.py") == ["other/server.py"]


def test_what_an_agent_lays_over_a_config_leaves_that_configs_files_protected(folder: Path) -> None:
    put(
        folder,
        **{
            "a/mid.yaml": "version: 1\nmodel: gpt-4o\ninstructions: {file: mid.md}\nprompt: {files: {soul: s.md}}\n"
        },
    )
    for name in ("a/mid.md", "a/s.md", "o.md", "s.md"):
        write(folder / name)
    overrides = "overrides: {prompt: {files: {soul: s.md}}}"
    yaml = (
        f"agents: {{m: {{description: M., config: a/mid.yaml, instructions: {{file: o.md}}, {overrides}}}}}\n"
    )
    files = files_of(folder, yaml, tools="[probe, filesystem, subagents]")
    assert not is_open(files, "a/mid.md", "a/s.md", "o.md", "s.md")


def test_the_skills_of_a_workspace_that_only_an_overlay_has_are_protected(folder: Path) -> None:
    put(folder, **{"zeus.prod.yaml": "version: 1\nworkspace: {root: site}\n"})
    write(folder / "vendor/tidy/SKILL.md")
    write(folder / "site/SKILL.md")
    (folder / "site/.agents/skills").mkdir(parents=True)
    (folder / "site/.agents/skills/tidy").symlink_to("../../../vendor/tidy")
    (folder / "site/.agents/skills/all").symlink_to("../..")
    files = files_of(folder)
    closed = ("site/.claude/skills/e/SKILL.md", "vendor/tidy/SKILL.md", "site/SKILL.md")
    assert is_open(files, *closed, "site/page.md") == ["site/page.md"]


@pytest.mark.parametrize(
    "yaml",
    [
        "extends: ./LONG.yaml\nhomes: [LONG]\nagents: {h: {config: ./LONG.yaml}}",
        "model: LONG\nworkspace: {root: LONG}\nmcpServers: {a: {command: LONG, args: [LONG], cwd: LONG}}",
        'extends: "./\\0"\nhomes: ["\\0"]\nmcpServers: {a: {command: "x\\0y", args: ["\\0"], cwd: "\\0"}}',
        "extends: {a: b}\nhomes: {a: 1}\nagents: 3\nmcpServers: [1]\nconnectors: 1\nworkspace: 7",
        "extends: [1]\nagents: {a: 1, b: {config: 3, overrides: [1]}}\nmcpServers: {a: null, b: {command: 7}}",
        "- 1",
    ],
)
def test_an_overlay_that_no_run_could_load_stops_no_other_run(folder: Path, yaml: str) -> None:
    write(folder / "zeus.prod.yaml", f"{yaml.replace('LONG', 300 * 'a')}\n")
    assert is_open(files_of(folder), "a.txt") == ["a.txt"]


def test_the_script_of_another_runs_hook_is_protected(folder: Path) -> None:
    """A hook's command is a list of words: one of them names the script, also as a module."""
    hooks = {
        "before_tool_call": [{"command": ["python", "-m", "checks.prod"]}],
        "after_run": [{"command": ["./b.sh"]}],
    }
    put(folder, **{"zeus.prod.yaml": json.dumps({"version": 1, "middlewares": [{"hooks": hooks}]})})
    put(folder, **{"checks/prod.py": "x", "checks/other.py": "x", "b.sh": "x"})
    files = files_of(folder)
    assert is_open(files, "/checks/prod.py", "/b.sh", "/checks/other.py") == ["/checks/other.py"]


_HEAD = {"version": 1, "name": "one", "model": "gpt-4o"}
_FOLDERS = ("", "tools", "other", "libs", "work", "work/session_a", "conf")
_NAMES = ("srv.py", "srv/__init__.py", "env.sh", "check.py", "free.py")
_PLACES = ("zeus.yaml", "conf/main.yaml", "zeus.prod.yaml", "conf/prod.yaml")
"""The main file with its base, and the overlay with its own."""

_SERVER = ("mcpServers", "s")
_SHELL = ["filesystem", {"shell": {"contain": "none", "env": {"BASH_ENV": "env.sh"}}}]
_VALUES: Mapping[tuple[str, ...], Sequence[Any]] = {
    (*_SERVER, "command"): ["python3"],
    (*_SERVER, "args"): [["srv.py"], ["-m", "srv"], ["tools/srv.py"]],
    (*_SERVER, "cwd"): ["tools", "other"],
    (*_SERVER, "env", "PYTHONPATH"): ["libs"],
    (*_SERVER, "disabled"): [True],
    ("workspace", "root"): ["work"],
    ("workspace", "per"): ["session"],
    ("tools",): [_SHELL],
    ("middlewares",): [[{"hooks": {"before_run": [{"command": ["python3", "check.py"]}]}}]],
}
_REQUIRED = {(*_SERVER, "command"), (*_SERVER, "args")}


def _put(folder: Path, files: Mapping[str, object]) -> None:
    """Write each file: a text, a config's values, or a link to another one of these paths."""
    for name, content in files.items():
        if isinstance(content, Path):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).symlink_to(folder / content)
        else:
            write(folder / name, content if isinstance(content, str) else json.dumps(content))


def _checked(folder: Path, config: str) -> Checked:
    return check(folder / config, directory=folder, environ={}, trust=recorded_trust({}, "all"))


def _closed(folder: Path, checked: Checked) -> set[str]:
    deciding = Deciding()
    add_deciding(deciding, checked)
    places = (f"{at}/{name}".lstrip("/") for at, name in product(_FOLDERS, _NAMES))
    return {each for each in places if deciding.find(str(folder / each)) is not None}


def _assigned(values: Iterable[tuple[tuple[str, ...], Any]]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, value in values:
        inner = tree
        for step in path[:-1]:
            inner = inner.setdefault(step, {})
        inner[path[-1]] = value
    return tree


Values = list[tuple[tuple[str, ...], Any]]


@st.composite
def _splits(draw: st.DrawFn) -> dict[str, Values]:
    """The values of a config, split over a base, a main file, an overlay and its base."""
    layers: dict[str, Values] = {each: [] for each in _PLACES}
    for path, values in _VALUES.items():
        if path in _REQUIRED or draw(st.booleans()):
            layers[draw(st.sampled_from(_PLACES))].append((path, draw(st.sampled_from(values))))
    return layers


def _files(layers: Mapping[str, Values]) -> dict[str, Any]:
    files = {place: _assigned(values) for place, values in layers.items()}
    files["zeus.yaml"] |= {**_HEAD, "extends": "./conf/main.yaml"}
    files["zeus.prod.yaml"] |= {"extends": "./conf/prod.yaml"}
    return files


def _merged(values: Values) -> dict[str, Any]:
    has_server = {path for path, _ in values} >= _REQUIRED
    kept = ((path, value) for path, value in values if has_server or path[:2] != _SERVER)
    return {**_HEAD, **_assigned((path, value) for path, value in kept if path[-1] != "disabled")}


def _closed_of_split(folder: Path, files: Mapping[str, Any], *, is_edited: bool) -> set[str]:
    first = "zeus.yaml" if is_edited else "first.yaml"
    _put(folder, {**_EMPTY, first: _HEAD})
    checked = _checked(folder, first)
    (folder / first).unlink()
    _put(folder, {**files} if is_edited else {**files, first: _HEAD})
    return _closed(folder, checked.with_files_unread() if is_edited else checked)


_EMPTY = {f"{each}/x.txt": "" for each in ("tools", "other", "libs", "work/session_a", "conf")}


@pytest.mark.parametrize("is_edited", [False, True])
@settings(max_examples=25, deadline=None)
@given(layers=_splits())
def test_a_split_config_closes_all_that_the_merged_one_closes(
    is_edited: bool, layers: dict[str, Values]
) -> None:
    with TemporaryDirectory() as one, TemporaryDirectory() as two:
        _put(Path(one), {**_EMPTY, "zeus.yaml": _merged([*chain.from_iterable(layers.values())])})
        expected = _closed(Path(one), _checked(Path(one), "zeus.yaml"))
        found = _closed_of_split(Path(two), _files(layers), is_edited=is_edited)
    assert expected <= found
    assert all(each.startswith("libs/") for each in found if "free.py" in each)


_LOST = {"zeus.yaml": ("zeus.yaml", "conf/main.yaml"), "zeus.prod.yaml": ("zeus.prod.yaml", "conf/prod.yaml")}
"""The layers whose values do not count if this one is broken: nobody knows what it extends."""


@pytest.mark.parametrize("is_edited", [False, True])
@settings(max_examples=40, deadline=None)
@given(
    layers=_splits(),
    broken=st.sampled_from(_PLACES),
    how=st.sampled_from(["missing", "conflict", "circle", "lost base", "no name"]),
)
def test_a_broken_layer_leaves_closed_all_that_the_others_name_together(
    is_edited: bool, layers: dict[str, Values], broken: str, how: str
) -> None:
    files = _files(layers)
    lost: Sequence[str] = ()
    if how == "missing":
        del files[broken]
    elif how == "conflict":
        files[broken] = f"<<<<<<< HEAD\n{json.dumps(files[broken])}\n=======\n>>>>>>> b\n"
    else:
        wrong = {"circle": f"./{Path(broken).name}", "lost base": "ghost", "no name": 7}[how]
        bases = files[broken].get("extends")
        files[broken]["extends"] = [wrong, *([bases] if bases else ())]
    if how in ("missing", "conflict"):
        lost = _LOST.get(broken, (broken,))
    with TemporaryDirectory() as one, TemporaryDirectory() as two:
        rest = [each for place, values in layers.items() if place not in lost for each in values]
        _put(Path(one), {**_EMPTY, "zeus.yaml": _merged(rest)})
        expected = _closed(Path(one), _checked(Path(one), "zeus.yaml"))
        found = _closed_of_split(Path(two), files, is_edited=is_edited)
    assert expected <= found
    assert all(each.startswith("libs/") for each in found if "free.py" in each)


_S = {"command": "python3", "args": ["srv.py"], "cwd": "tools"}
_IN_OTHER: Final = {"overrides": {"mcpServers": {"s": {"cwd": "other"}}}}


def _agent(config: str, **more: object) -> dict[str, Any]:
    return {"agents": {"h": {"description": "h", "config": config, **more}}}


_LINKED: Final = ("tools", "other")
_LINKS: Final = {f"{each}/h.yaml": Path("h.yaml") for each in _LINKED}
_BOTH: Final = {"agents": {each: {"description": "h", "config": f"./{each}/h.yaml"} for each in _LINKED}}
_NAMING: Final = {"instructions": {"file": "./srv.py"}, "plugins": {"files": ["./check.py"]}}


@pytest.mark.parametrize(
    ("files", "closed"),
    [
        ({"zeus.yaml": {**_HEAD, "mcpServers": {"s": {**_S, "disabled": True}}}}, "tools/srv.py"),
        (
            {
                "zeus.yaml": {**_HEAD, "tools": [{"mcp": {"files": ["s.json"]}}]},
                "s.json": {"mcpServers": {"s": {**_S, "disabled": True}}},
            },
            "tools/srv.py",
        ),
        (
            {
                "zeus.yaml": {**_HEAD, "mcpServers": {"s": {**_S, "cwd": "${D:-tools}"}}},
                "zeus.prod.yaml": {
                    "mcpServers": {"s": {"env": {"PYTHONPATH": "libs"}, "args": ["-m", "srv"]}}
                },
            },
            "libs/srv.py",
        ),
        (
            {
                "zeus.yaml": {**_HEAD, "agents": {"h": {"description": "h", "config": "sub/h.yaml"}}},
                "sub/h.yaml": {**_HEAD, "extends": "./base.yaml"},
                "sub/base.yaml": {"mcpServers": {"s": _S}},
                "zeus.prod.yaml": {"agents": {"h": {"overrides": {"mcpServers": {"s": {"cwd": "other"}}}}}},
            },
            "other/srv.py",
        ),
        (
            {
                "zeus.yaml": {**_HEAD, "mcpServers": {"s": _S}},
                "zeus.prod.yaml": {
                    "agents": {
                        "h": {"description": "h", "overrides": {"mcpServers": {"s": {"cwd": "other"}}}}
                    }
                },
            },
            "other/srv.py",
        ),
        (
            {
                "zeus.yaml": _HEAD,
                "zeus.prod.yaml": {"agents": {"h": {"description": "h", "config": "sub/h.yaml"}}},
                "sub/h.yaml": {"extends": "./base.yaml", "mcpServers": {"s": {"cwd": "other"}}},
                "sub/base.yaml": {"mcpServers": {"s": _S}},
            },
            "other/srv.py",
        ),
        (
            {
                "zeus.yaml": {**_HEAD, "tools": _SHELL},
                "zeus.prod.yaml": {"workspace": {"root": "work", "per": "session"}},
            },
            "work/session_a/env.sh",
        ),
        (
            {
                "zeus.yaml": _HEAD,
                "zeus.prod.yaml": {"workspace": {"root": "work", "per": "session"}, "tools": _SHELL},
            },
            "work/session_a/env.sh",
        ),
        (
            {"zeus.yaml": {**_HEAD, "tools": _SHELL}, "zeus.prod.yaml": {"workspace": {"root": "work"}}},
            "work/env.sh",
        ),
        (
            {
                "zeus.yaml": _HEAD,
                ".zeus/configs/p.yaml": {"extends": "q", "mcpServers": {"s": {"cwd": "other"}}},
                ".zeus/configs/q.yaml": {"mcpServers": {"s": _S}},
            },
            "other/srv.py",
        ),
        # A Home that only the overlay names has the preset of its agent, or one that this extends.
        (
            {
                "zeus.yaml": _HEAD,
                "zeus.prod.yaml": {"homes": ["./conf"], **_agent("hh", **_IN_OTHER)},
                "conf/configs/hh.yaml": {**_HEAD, "mcpServers": {"s": _S}},
            },
            "other/srv.py",
        ),
        (
            {
                "zeus.yaml": _HEAD,
                "zeus.prod.yaml": {"homes": ["./conf"], **_agent("./conf/h.yaml")},
                "conf/h.yaml": {"extends": "hh", "mcpServers": {"s": {"cwd": "other"}}},
                "conf/configs/hh.yaml": {**_HEAD, "mcpServers": {"s": _S}},
            },
            "other/srv.py",
        ),
        # The overrides of an agent name the Home of its own agent.
        (
            {
                "zeus.yaml": _HEAD,
                "zeus.prod.yaml": _agent("./conf/h.yaml", overrides={"homes": ["./conf"]}),
                "conf/h.yaml": {**_HEAD, **_agent("hh", **_IN_OTHER)},
                "conf/configs/hh.yaml": {**_HEAD, "mcpServers": {"s": _S}},
            },
            "other/srv.py",
        ),
        # The `.env` beside an agent's config has the variable.
        (
            {
                "zeus.yaml": _HEAD,
                "zeus.prod.yaml": _agent("./conf/h.yaml"),
                "conf/h.yaml": {**_HEAD, "mcpServers": {"s": {**_S, "cwd": "${PLACE}"}}},
                "conf/.env": "PLACE=other\n",
            },
            "other/srv.py",
        ),
        (
            {
                "zeus.yaml": _HEAD,
                "zeus.prod.yaml": _agent("./conf/h.yaml"),
                "conf/h.yaml": {**_HEAD, **_agent("./${NAME}.yaml")},
                "conf/g.yaml": {**_HEAD, "mcpServers": {"s": {**_S, "cwd": "other"}}},
                "conf/.env": "NAME=g\n",
            },
            "other/srv.py",
        ),
        # An agent has the workspace of the one above, which only the overlay names.
        (
            {
                "zeus.yaml": _HEAD,
                "zeus.prod.yaml": {"workspace": {"root": "work"}, **_agent("./conf/h.yaml")},
                "conf/h.yaml": {**_HEAD, "tools": _SHELL},
            },
            "work/env.sh",
        ),
        # Two agents lay the same text over one config, each from a folder of its own.
        (
            {
                "zeus.yaml": _HEAD,
                "zeus.prod.yaml": {
                    "agents": {
                        name: {"description": "h", "config": f"./{name}/m.yaml"} for name in ("conf", "libs")
                    }
                },
                **{
                    f"{at}/m.yaml": {
                        **_HEAD,
                        **_agent("../n.yaml", overrides=_agent("./h.yaml", **_IN_OTHER)),
                    }
                    for at in ("conf", "libs")
                },
                "n.yaml": _HEAD,
                "conf/h.yaml": {**_HEAD, "mcpServers": {"s": _S}},
                "libs/h.yaml": {**_HEAD, "mcpServers": {"s": _S | {"args": ["check.py"]}}},
            },
            "other/srv.py",
        ),
        # The config of an agent is missing: what is laid over it counts.
        (
            {
                "zeus.yaml": _HEAD,
                "zeus.prod.yaml": _agent("./gone.yaml", overrides=_agent("./conf/h.yaml", **_IN_OTHER)),
                "conf/h.yaml": {**_HEAD, "mcpServers": {"s": _S}},
            },
            "other/srv.py",
        ),
        # The `.env` of the folder with a mistake counts as empty.
        (
            {
                "zeus.yaml": _HEAD,
                "zeus.prod.yaml": _agent("./conf/h.yaml", **_IN_OTHER),
                "conf/h.yaml": {**_HEAD, "mcpServers": {"s": _S}},
                "conf/.env": "A='",
            },
            "other/srv.py",
        ),
        # One text is at two places by links, and names other files at each.
        (
            {"zeus.yaml": _HEAD, "zeus.prod.yaml": _BOTH, **_LINKS, "h.yaml": {**_HEAD, **_NAMING}},
            "tools/srv.py other/srv.py tools/check.py other/check.py",
        ),
        (
            {
                "zeus.yaml": _HEAD,
                **{f"zeus.{each}.yaml": _agent(f"./{each}/h.yaml") for each in _LINKED},
                **_LINKS,
                "h.yaml": {**_HEAD, **_NAMING},
            },
            "tools/srv.py other/srv.py tools/check.py other/check.py",
        ),
        (
            {
                "zeus.yaml": {**_HEAD, "instructions": {"file": "./srv.py"}},
                "srv.py": "",
                "zeus.prod.yaml": _BOTH,
                **{f"{each}/h.yaml": Path("zeus.yaml") for each in _LINKED},
            },
            "srv.py tools/srv.py other/srv.py",
        ),
        (
            {"zeus.yaml": _HEAD, "zeus.prod.yaml": _BOTH, **_LINKS, "h.yaml": "<<<\na: ./srv.py\n>>>\n"},
            "tools/srv.py other/srv.py",
        ),
        (
            {
                "zeus.yaml": _HEAD,
                "zeus.prod.yaml": _BOTH,
                **_LINKS,
                "h.yaml": {"extends": "./base.yaml", "mcpServers": {"s": {"cwd": "libs"}}},
                "tools/base.yaml": {**_HEAD, "mcpServers": {"s": _S}},
                "other/base.yaml": {**_HEAD, "mcpServers": {"s": {**_S, "args": ["check.py"]}}},
            },
            "libs/srv.py libs/check.py",
        ),
        # Links in one folder have overlays of their own.
        (
            {
                "zeus.yaml": _HEAD,
                **{f".zeus/configs/{each}.yaml": Path("h.yaml") for each in "ab"},
                "h.yaml": {**_HEAD, "mcpServers": {"s": _S}},
                ".zeus/configs/a.prod.yaml": {"mcpServers": {"s": {"cwd": "other"}}},
                ".zeus/configs/b.prod.yaml": {"mcpServers": {"s": {"cwd": "libs"}}},
            },
            "tools/srv.py other/srv.py libs/srv.py",
        ),
    ],
)
def test_what_a_start_would_merge_is_closed(tmp_path: Path, files: Mapping[str, object], closed: str) -> None:
    _put(tmp_path, {**{f"{each}/x.txt": "" for each in _FOLDERS if each}, **files})
    found = _closed(tmp_path, _checked(tmp_path, "zeus.yaml"))
    assert found.issuperset(closed.split())
    assert all(each.startswith("libs/") for each in found if "free.py" in each)


def test_an_agent_that_a_preset_of_the_user_names_is_not_looked_for_in_the_project(tmp_path: Path) -> None:
    project, presets = tmp_path / "project", "user/.config/zeus/configs"
    files = {
        "project/zeus.yaml": _HEAD,
        "project/zeus.prod.yaml": {"extends": "team"},
        "project/.zeus/configs/hh.yaml": _HEAD,
        f"{presets}/team.yaml": _agent("hh", **_IN_OTHER),
        f"{presets}/hh.yaml": {**_HEAD, "mcpServers": {"s": _S}},
    }
    _put(tmp_path, {**{f"project/{each}/x.txt": "" for each in _FOLDERS if each}, **files})
    environ = {"HOME": str(tmp_path / "user")}
    checked = check(None, directory=project, environ=environ, trust=recorded_trust({}, "all"))
    assert "other/srv.py" in _closed(project, checked)


_MAINS = (
    "zeus.yaml",
    "loaded.yaml",
    "trusted/own.yaml",
    ".zeus/configs/ops.yaml",
    ".zeus/configs/of_loaded.yaml",
    "user/.config/zeus/configs/ops.yaml",
)


@pytest.mark.parametrize("main", _MAINS)
def test_each_config_that_a_run_takes_is_merged_with_its_overlay(tmp_path: Path, main: str) -> None:
    overlay = {"mcpServers": {"s": {"cwd": "other"}}}
    files = {
        "loaded.yaml": {**_HEAD, "extends": "of_loaded"},
        ".zeus/configs/of_loaded.yaml": {"version": 1},
        main.replace(".yaml", ".prod.yaml"): overlay,
    }
    files[main] = {**_HEAD, **files.get(main, {}), "mcpServers": {"s": _S}}
    _put(tmp_path, {**{f"{each}/x.txt": "" for each in _FOLDERS if each}, **files})
    trust = recorded_trust({}, str(tmp_path / "trusted/own.yaml"))
    environ = {"HOME": str(tmp_path / "user")}
    checked = check(tmp_path / "loaded.yaml", directory=tmp_path, environ=environ, trust=trust)
    assert {"tools/srv.py", "other/srv.py"} <= _closed(tmp_path, checked)


_TEAM: Final = {"tools": ["filesystem", "mcp", "subagents"]}
_WHERE: Final = ("", "c/", "d/", "team/configs/", "deep/configs/", ".zeus/configs/")


@st.composite
def _layer(draw: st.DrawFn, where: str, *, agents: int = 2) -> dict[str, Any]:
    """The values of one file: its Homes, its prompt, its agents with what it lays over them, and its servers, some in a
    file.

    Args:
        where: the file's folder.
        agents: how deep agents may lie within each other here.
    """
    up = "./" + "../" * where.count("/")
    layer: dict[str, Any] = {}
    if draw(st.integers(0, 2)) == 0:
        layer["homes"] = [up + draw(st.sampled_from(["team", "deep", "${D:-team}"]))]
    if draw(st.booleans()):
        server = {**_S, "args": [draw(st.sampled_from(["srv.py", "check.py"]))]}
        layer["mcpServers"] = {"s": draw(st.sampled_from([server, {"cwd": "other"}, {"cwd": "libs"}]))}
    if draw(st.booleans()):
        layer["instructions"] = {"file": draw(st.sampled_from(["./p.md", "./q.md"]))}
    if draw(st.integers(0, 3)) == 0:
        layer["tools"] = [*_TEAM["tools"][:-2], {"mcp": {"files": ["./s.json"]}}, "subagents"]
    names = ["h", "i"][: draw(st.integers(0, agents))]
    for name in names:
        configs = ["./h.yaml", "./g.yaml", f"{up}c/h.yaml", f"{up}c", "h", "g", "${G:-h}"]
        entry = {"description": "h", "config": draw(st.sampled_from(configs))}
        if draw(st.booleans()):
            entry["overrides"] = draw(_layer(where, agents=agents - 1))
        layer.setdefault("agents", {})[name] = entry
    return layer


@st.composite
def _starts(draw: st.DrawFn) -> dict[str, Any]:
    """A main file that names nothing, its overlay, and agents' configs of the same names in several folders.

    Some are links to the one of this name in the first folder that is as deep, where the relative paths are right too.
    """
    files: dict[str, Any] = {".env": draw(st.sampled_from(["", "D=deep\n", "G=g\n"])), "zeus.yaml": _HEAD}
    files["c/.env"] = draw(st.sampled_from(["", "D=deep\n", "G=./g.yaml\n"]))
    are_links = draw(st.booleans())
    for where, name in (*product(_WHERE, ("base", "h", "g")), ("c/", "zeus")):
        bases = draw(st.sampled_from([[], ["./base.yaml"], ["base"]])) if name != "base" else []
        head = {} if name == "base" else {**_HEAD, **_TEAM}
        extended = {"extends": bases} if bases else {}
        files[f"{where}{name}.yaml"] = {**head, **draw(_layer(where, agents=1)), **extended}
        first = next(each for each in _WHERE if each.count("/") == where.count("/"))
        if are_links and where != first:
            files[f"{where}{name}.yaml"] = Path(f"{first}{name}.yaml")
    files |= {f"{where}{each}.md": "x" for where, each in product(_WHERE, ("p", "q"))}
    files |= {f"{where}s.json": {"mcpServers": {}} for where in _WHERE}
    overlay = draw(_layer(""))
    if are_links:
        both = {each: {"description": "h", "config": f"./{each}/h.yaml"} for each in ("c", "d")}
        overlay["agents"] = {**overlay.get("agents", {}), **both}
    if draw(st.booleans()):
        overlay["workspace"] = {"root": "work"}
    agent = _agent(draw(st.sampled_from(["./h.yaml", "c", "h", "g"])))
    base = draw(st.sampled_from(["./base.yaml", "./c/base.yaml", "base"]))
    files["zeus.prod.yaml"] = {**_TEAM, **agent, **overlay, "extends": base}
    return files


@settings(max_examples=25, deadline=None)
@given(files=_starts())
def test_a_run_closes_all_that_a_run_with_another_overlay_would_load_and_start(files: dict[str, Any]) -> None:
    with TemporaryDirectory() as made:
        name = os.path.realpath(made)
        folder = Path(name)
        _put(folder, {**_EMPTY, **files})
        trust = recorded_trust({}, "all")
        deciding = Deciding()
        add_deciding(deciding, _checked(folder, "zeus.yaml"))
        try:
            later = check(folder / "zeus.yaml", env="prod", directory=folder, environ={}, trust=trust)
        except ZeusError:
            return
        for each in (later, *agents_below(later)):
            used = [*each.document.files.values(), *(file for part in each.parts for file in part.files)]
            used += [Path(*absent) for part in each.parts for absent in part.absent]
            used += [
                file
                for value in each.document.marked
                if value.is_file and (file := Path(value.text)).is_file()
            ]
            # A file of this name is closed everywhere.
            places = {os.path.realpath(file) for file in used if file.name != ".env"}
            assert [each for each in places if name in each and deciding.find(each) is None] == []


@pytest.mark.parametrize(
    "more", [{}, {"overrides": {"limits": {"max_steps": 3}}}, {"overrides": {"homes": ["../c"]}}]
)
def test_a_config_that_runs_itself_by_a_longer_path_is_read_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, object]
) -> None:
    read: list[Path] = []

    def read_stack(layers: Layers, path: Path, env: str | None) -> tuple[Node, Sequence[tuple[str, str]]]:
        read.append(path)
        return loading.read_stack(layers, path, env)

    monkeypatch.setattr(named_files, "read_stack", read_stack)
    itself = {"version": 1, **_agent("../c", **more)}
    _put(tmp_path, {"zeus.yaml": _HEAD, "zeus.prod.yaml": _agent("./c"), "c/zeus.yaml": itself})
    _closed(tmp_path, _checked(tmp_path, "zeus.yaml"))
    assert 3 <= len(read) <= 12


def test_links_in_a_circle_end_the_search(tmp_path: Path) -> None:
    """Each text runs itself, by a folder that leads back and by a link to the text in another folder."""
    agents = {
        each: {"description": "h", "config": f"./{each}/h.yaml"} for each in ("tools", "other", "loop", "..")
    }
    files = {
        "zeus.yaml": _HEAD,
        "zeus.prod.yaml": _BOTH,
        **_LINKS,
        "h.yaml": {**_HEAD, **_NAMING, "agents": agents},
    }
    for each in ("", *_LINKED):
        files |= {f"{each}/loop".lstrip("/"): Path(each), f"{each}/x.txt".lstrip("/"): ""}
    for one, other in (_LINKED, reversed(_LINKED)):
        files[f"{one}/{other}"] = Path(other)
    _put(tmp_path, files)
    assert _closed(tmp_path, _checked(tmp_path, "zeus.yaml")).issuperset(("tools/srv.py", "other/srv.py"))


def test_configs_that_extend_or_run_each_other_end_the_search(tmp_path: Path) -> None:
    names = [f"a{number}" for number in range(12)]
    agents = {
        each: {
            "description": "h",
            "config": f"{each}.yaml",
            "overrides": {"mcpServers": {"s": {"cwd": "tools"}}},
        }
        for each in names
    }
    server = {"command": "python3", "args": ["srv.py"]}
    _put(tmp_path, {f"{each}.yaml": {"agents": agents, "mcpServers": {"s": server}} for each in names})
    _put(tmp_path, {"zeus.yaml": _HEAD, "zeus.dev.yaml": {"agents": agents}, "tools/x.txt": ""})
    _put(tmp_path, {"zeus.a.yaml": {"extends": "./zeus.b.yaml"}, "zeus.b.yaml": {"extends": "./zeus.a.yaml"}})
    assert "tools/srv.py" in _closed(tmp_path, _checked(tmp_path, "zeus.yaml"))
