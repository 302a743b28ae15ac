"""``~`` in a path of a config: the path that is judged is the path that is opened."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from zeus_runtime.config import ConfigError
from zeus_runtime.disk_paths import expanded
from zeus_runtime.plan.protected_files import add_deciding
from zeus_runtime.plan.validated import Checked, check
from zeus_runtime.registry.schema import schema_file
from zeus_runtime.tools.access import Deciding

SANDBOX: Final = "version: 1\nmodel: gpt-4o\ntools: [filesystem, {sandbox: {backend: "
CONFIGS: Final = {
    "workspace.root": "version: 1\nmodel: gpt-4o\nworkspace: {root: %s}\n",
    "workspace.routes": "version: 1\nmodel: gpt-4o\nworkspace: {routes: {/n/: %s}}\n",
    "checkpointer.sqlite.path": "version: 1\nmodel: gpt-4o\ncheckpointer: {sqlite: {path: %s}}\n",
    "sandbox.bubblewrap.folder": SANDBOX + "{bubblewrap: {folder: %s}}}}]\n",
    "sandbox.bubblewrap.rootfs": SANDBOX + "{bubblewrap: {rootfs: %s}}}}]\n",
    "sandbox.docker.folder": SANDBOX + "{docker: {folder: %s}}}}]\n",
    "sandbox.ssh.key": SANDBOX + "{ssh: {host: localhost, key: %s}}}}]\n",
    "sandbox.ssh.known_hosts": SANDBOX + "{ssh: {host: localhost, known_hosts: %s}}}}]\n",
    "tool.shell.show": "version: 1\nmodel: gpt-4o\ntools: [filesystem, {shell: {show: [%s]}}]\n",
    "vector_store.chroma.path": "version: 1\nmodel: gpt-4o\nmemory: {vector_store: {chroma: {path: %s}}}\n",
}
"""A config for each option that is a path relative to the working directory."""
IN_SCHEMA: Final = {"properties", "additionalProperties", "items", "anyOf", "$defs"}


def paths_at_work(node: Any, name: tuple[str, ...] = ()) -> Iterator[str]:
    if isinstance(node, Mapping):
        if {"x-zeus-work-relative", "x-zeus-folder", "x-zeus-shown"} & node.keys():
            yield ".".join(each for each in name if each not in IN_SCHEMA)
        for key, each in node.items():
            yield from paths_at_work(each, (*name, key))
    elif isinstance(node, list):
        for each in node:
            yield from paths_at_work(each, name)


def test_the_configs_have_every_such_option() -> None:
    assert set(paths_at_work(json.loads(schema_file().read_text(encoding="utf-8")))) == CONFIGS.keys()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ZEUS_TRUST", "all")
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def checked(folder: Path, text: str) -> Checked:
    (folder / "zeus.yaml").write_text(text)
    return check("zeus.yaml", directory=folder, environ={"OPENAI_API_KEY": "k"})


def judged(found: Checked) -> object:
    """What the agent is made from, what its user is asked about, and the files that no tool may change."""
    deciding = Deciding()
    add_deciding(deciding, found)
    parts = [(each.kind, each.name, each.digest, each.files, each.absent) for each in found.parts]
    return (
        found.config,
        parts,
        deciding.added,
        deciding.keys,
        (deciding.folders, deciding.shown),
        deciding.archives,
    )


@pytest.mark.parametrize("place", ["~/project/probe", "~/elsewhere"])
@pytest.mark.parametrize("option", CONFIGS)
def test_a_path_from_home_is_judged_and_opened_as_the_absolute_one(
    option: str, place: str, project: Path
) -> None:
    """A key and known hosts with `~` were judged as a folder `~`, and opened at home: the model read the key."""
    if option.endswith(("key", "hosts")):
        (project / "probe").write_text("x\n")
    one = judged(checked(project, CONFIGS[option] % place))
    assert one == judged(checked(project, CONFIGS[option] % place.replace("~", str(project.parent))))
    assert one != judged(checked(project, CONFIGS[option] % f"./{place}"))


@pytest.mark.parametrize("option", CONFIGS)
def test_a_path_from_home_in_an_overlay_of_another_run_closes_the_absolute_one(
    option: str, project: Path
) -> None:
    main = "version: 1\nmodel: gpt-4o\ntools: [filesystem]\n"

    def closed(place: str) -> object:
        (project / "zeus.prod.yaml").write_text(CONFIGS[option] % place)
        return judged(checked(project, main))

    assert closed("~/project/probe") == closed(f"{project}/probe")


SERVER: Final = 'mcpServers: {s: {command: python3, args: ["server.py"]}}\n'
WORK: Final = "version: 1\nmodel: gpt-4o\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("zeus.prod.yaml", f"{WORK}workspace: {{root: %s}}\n{SERVER.replace('python3', 'node')}"),
        ("zeus.prod.yaml", f"{WORK}workspace: {{routes: {{/large_tool_results/: %s}}}}\n"),
        ("h.yaml", f"{WORK}workspace: {{root: %s}}\n"),
    ],
)
def test_a_workspace_at_home_of_another_run_or_of_a_sub_agent_is_judged_where_it_is(
    name: str, text: str, project: Path
) -> None:
    (project.parent / "elsewhere").mkdir()
    (project.parent / "elsewhere/server.py").write_text("")
    agents = "agents: {h: {description: H., config: h.yaml}}\n" if name == "h.yaml" else ""
    main = f"{WORK}tools: [filesystem, subagents]\n{SERVER}{agents}"

    def found(place: str) -> object:
        (project / name).write_text(text % place)
        return judged(checked(project, main))

    assert found("~/elsewhere") == found(f"{project.parent}/elsewhere") != found("elsewhere")


def test_a_path_from_home_that_no_file_can_have_is_an_error(project: Path) -> None:
    (project / "loop").symlink_to("loop")
    with pytest.raises(ConfigError, match="cannot be a path"):
        checked(project, CONFIGS["sandbox.ssh.key"] % "~/project/loop")


def test_a_default_that_is_written_out_asks_nothing(project: Path) -> None:
    for place in ("~/.ssh/known_hosts", f"{project.parent}/.ssh/known_hosts"):
        found = checked(project, CONFIGS["sandbox.ssh.known_hosts"] % place)
        assert not [each.name for each in found.parts if "known_hosts" in each.name and each.kind == "option"]


def test_the_home_of_a_projects_variables_is_none(project: Path) -> None:
    (project / ".env").write_text("HOME=/nowhere\n")
    found = checked(project, CONFIGS["workspace.root"] % "~/project")
    assert found.config.workspace.root == str(project)


def test_a_text_that_begins_with_a_dot_names_no_home() -> None:
    assert expanded("./~/a") == Path("./~/a")
