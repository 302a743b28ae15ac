"""A config that is set apart keeps nothing of its agent in the project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from zeus_plugins.middlewares.approve.path_spellings import reaches
from zeus_plugins.middlewares.approve.rules import Spelling

from zeus_runtime import ConfigError
from zeus_runtime.models.recorder import Tape
from zeus_runtime.plan.apart import routes_apart, set_apart
from zeus_runtime.plan.plan import make_plan
from zeus_runtime.plan.validated import check
from zeus_runtime.plugin import Redactor
from zeus_runtime.testing.cases.answers import RecordedModel, replaying
from zeus_runtime.tools import WorkspaceFiles
from zeus_runtime.tools.calling_tool import calling

CONFIG = {
    "version": 1,
    "model": "openai/gpt-5.2",
    "workspace": {"root": "work", "routes": {"/memo/": "memo"}},
    "memory": {"embeddings": "static", "vector_store": {"chroma": {"path": "vectors"}}},
}


def test_files_archive_database_and_vectors_are_in_the_folder(tmp_path: Path) -> None:
    project, apart = tmp_path / "project", tmp_path / "apart"
    for folder in (project / "work", project / "memo"):
        folder.mkdir(parents=True)
    (project / "zeus.yaml").write_text(json.dumps(CONFIG))
    checked = check("zeus.yaml", directory=project, environ={})
    plan = make_plan(set_apart(checked, apart))
    files = plan.context.workspace
    for path in (
        "/a.md",
        "/memo/a.md",
        "/large_tool_results/a",
        "/conversation_history/a",
        "/attached_files/a",
    ):
        assert files.place(path).is_relative_to(apart), path
    assert str(apart) in plan.config.storage.url
    assert plan.memory is not None
    assert plan.memory.vector_store.name == "sqlite"
    assert plan.context.directory == project


def test_every_route_has_a_folder_of_its_own(tmp_path: Path) -> None:
    routes = dict.fromkeys(("/a/b/", "/a_b/", "/a%2Fb/", "/a/", "/b/"), "memo")
    (tmp_path / "memo").mkdir()
    (tmp_path / "zeus.yaml").write_text(json.dumps({**CONFIG, "workspace": {"routes": routes}}))
    config = check("zeus.yaml", directory=tmp_path, environ={}).config
    places = routes_apart(config, tmp_path / "apart")
    assert places.keys() == routes.keys()
    assert len(set(places.values())) == len(routes)
    assert not [one for one in places.values() for other in places.values() if other in one.parents]


def test_a_replayed_plan_opens_no_model_for_its_middlewares(tmp_path: Path) -> None:
    (tmp_path / "zeus.yaml").write_text(json.dumps({"version": 1, "model": "openai/gpt-5.2"}))
    tape = tmp_path / "tape.jsonl"
    Tape(tape, Redactor()).begin("recorded")
    plan = replaying(make_plan(check("zeus.yaml", directory=tmp_path, environ={})), tape)
    opened = plan.open_model("openai/gpt-5.2-mini")
    assert isinstance(opened, RecordedModel)
    assert opened.name == "openai/gpt-5.2-mini"


RULES = {
    "workspace": {
        "root": "app",
        "routes": {"/memo/": "memo"},
        "access": {"secrets/**": "deny", "**": "read", "out/**": "write", "*.pem": "deny"},
    },
    "middlewares": [
        {
            "approve": {
                "mode": "run_everything",
                "ask": [{"*": {"path": "private/**"}}],
                "deny": [{"*": {"path": "memo/own/**"}}],
            }
        }
    ],
    "tools": ["filesystem"],
}


def test_the_rules_hold_for_files_of_the_project(tmp_path: Path) -> None:
    """Knowledge bases, skills and servers are the project's: in an evaluation they gave what the rules close."""
    files = apart_with_rules(tmp_path)
    for denied in ("app/secrets/key", "app/link", "memo/own/a", "app/a.pem"):
        assert files.refusal_of(tmp_path / denied) is not None, denied
    assert files.refusal_of(tmp_path / "app/docs/a") is None
    with calling("search_knowledge_base"):
        assert files.needs_question(tmp_path / "app/private/pay")
        assert not files.needs_question(tmp_path / "app/docs/a")
        # The project was elsewhere when a base was made.
        assert files.needs_question(tmp_path / "before/private/pay")
        assert files.refusal_of_stored(tmp_path / "before/secrets/key") is not None


def test_the_rules_hold_for_the_files_apart_by_their_own_paths(tmp_path: Path) -> None:
    files = apart_with_rules(tmp_path)
    with calling("write_file"):
        assert files.write_refusal("/out/a") is None
        assert files.write_refusal("/a") is not None
        files.write("/out/a", b"x")
        assert files.read("/out/a", max_bytes=9) == b"x"


def test_the_rules_of_approve_hold_for_what_a_server_opens_in_the_project(tmp_path: Path) -> None:
    files = apart_with_rules(tmp_path)
    for spelled in (f"{tmp_path}/app/secrets/key", f"{tmp_path}/app/link", "link", "./docs/../link"):
        assert any(Spelling(("secrets", "key")) in each for each in reaches(files, files, spelled)), spelled
    own = Spelling(("memo", "own", "a"))
    assert any(own in each for each in reaches(files, files, f"{tmp_path}/memo/own/a"))


def test_a_pattern_with_a_path_into_the_project_is_refused(tmp_path: Path) -> None:
    pattern = f"{tmp_path}/app/secrets/**"
    with pytest.raises(ConfigError, match="patterns start at the workspace: /secrets"):
        apart_with_rules(tmp_path, workspace={"root": "app", "access": {pattern: "deny"}})
    rule = {"approve": {"deny": [{"*": {"path": pattern}}]}}
    with pytest.raises(ConfigError, match="patterns start at the workspace: /secrets"):
        apart_with_rules(tmp_path, middlewares=[rule])


def apart_with_rules(folder: Path, **more: Any) -> WorkspaceFiles:
    for name in ("app/secrets/key", "app/docs/a", "app/private/pay", "memo/own/a", "app/a.pem"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    if not (folder / "app/link").is_symlink():
        (folder / "app/link").symlink_to("secrets/key")
    (folder / "zeus.yaml").write_text(json.dumps({**CONFIG, **RULES, **more}))
    checked = check("zeus.yaml", directory=folder, environ={})
    return make_plan(set_apart(checked, folder.with_name(f"{folder.name}-apart"))).context.workspace
