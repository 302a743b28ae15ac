"""A config that is set apart keeps nothing of its agent in the project."""

from __future__ import annotations

import json
from pathlib import Path

from zeus_runtime.models.recorder import Tape
from zeus_runtime.plan.apart import routes_apart, set_apart
from zeus_runtime.plan.plan import make_plan
from zeus_runtime.plan.validated import check
from zeus_runtime.plugin import Redactor
from zeus_runtime.testing.cases.answers import RecordedModel, replaying

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
