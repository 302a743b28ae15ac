"""The plan of an agent over HTTP, and the check of an edited config."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from tests.serving.test_http_keys import bearer, keyed, made
from tests.support.agents import script, write_agent
from tests.support.serving import begun, service_of, serving, until
from zeus_runtime.config.secrets.masking import MASK
from zeus_runtime.plan.judged import judged


async def test_the_plan_tells_where_each_value_was_written(tmp_path: Path) -> None:
    write_agent(tmp_path, "limits: {max_steps: 7}\n")
    async with serving(service_of(tmp_path, script("Done."))) as client:
        plan = (await client.get("/v1/agents/test/plan")).json()
        (value,) = (each for each in plan["values"] if each["path"] == "limits.max_steps")
        assert value["value"] == 7
        assert value["written"][0]["source"] == "zeus.yaml"
        config = (await client.get("/v1/agents/test/config")).json()
        assert config["text"] == (tmp_path / "zeus.yaml").read_text()
        assert (await client.get("/v1/agents/other/plan")).status_code == 404


async def test_the_plan_of_a_session_has_its_own_policies(tmp_path: Path) -> None:
    write_agent(tmp_path, "middlewares: [{eviction: {max_tokens: 5000}}]\nworkspace: {per: session}\n")
    async with serving(service_of(tmp_path, script("Done."))) as client:
        session, run = await begun(client, "go")
        await until(client, run, "complete")
        own = "[{eviction: {max_tokens: 700}}, recall]"
        body = {"step": 1, "middlewares": own}
        fork = (await client.post(f"/v1/sessions/{session}/fork", json=body)).json()["session"]
        of_agent = (await client.get("/v1/agents/test/plan")).json()
        plain = (await client.get(f"/v1/sessions/{session}/plan")).json()
        plan = (await client.get(f"/v1/sessions/{fork}/plan")).json()
        assert (plain["own"], plain["session"], plan["own"], plan["session"]) == (False, session, True, fork)
        assert [each["name"] for each in plain["middlewares"]] == ["eviction"]
        assert [each["name"] for each in plan["middlewares"]] == ["eviction", "recall"]
        assert plain["digest"] == of_agent["digest"] != plan["digest"]
        name = "middlewares.0.eviction.max_tokens"
        (value,) = (each for each in plan["values"] if each["path"] == name)
        assert (value["value"], value["written"][0]["source"]) == (700, f"--set middlewares={own}")
        folders = [each["files"]["folders"]["/"] for each in (plain, plan)]
        assert session in folders[0]
        assert fork in folders[1]
        assert not await asyncio.to_thread(Path(folders[1]).exists), "a plan makes no folder"
        await client.post(f"/v1/sessions/{fork}/archive")
        refused = await client.get(f"/v1/sessions/{fork}/plan")
        assert (refused.status_code, "archived" in refused.json()["detail"]) == (422, True)


async def test_a_text_is_checked_with_positions_and_changes_nothing(tmp_path: Path) -> None:
    write_agent(tmp_path)
    async with serving(service_of(tmp_path, script("Done."))) as client:
        present = (await client.get("/v1/agents/test/config")).json()["text"]
        path = "/v1/agents/test/validate"
        good = (await client.post(path, json={"text": present})).json()
        assert (good["ok"], [each for each in good["diagnostics"] if each["severity"] == "error"]) == (
            True,
            [],
        )
        bad = (await client.post(path, json={"text": f"{present}workspace: {{rot: .}}\n"})).json()
        (problem,) = (each for each in bad["diagnostics"] if each["severity"] == "error")
        assert (bad["ok"], bad["exit_code"]) == (False, 3)
        assert (problem["file"], problem["line"]) == ("zeus.yaml", present.count("\n") + 1)
        assert "'root'" in problem["message"]
        broken = (await client.post(path, json={"text": "model: [\n"})).json()
        assert (broken["ok"], broken["diagnostics"][0]["file"]) == (False, "zeus.yaml")
        assert (tmp_path / "zeus.yaml").read_text() == present


async def test_a_check_executes_nothing_that_the_agent_does_not_execute_already(tmp_path: Path) -> None:
    write_agent(tmp_path)
    (tmp_path / "evil.py").write_text("import pathlib\npathlib.Path(__file__).with_name('done').touch()\n")
    async with serving(service_of(tmp_path, script("Done."))) as client:
        present = (await client.get("/v1/agents/test/config")).json()["text"]
        text = present.replace("files: [", "files: [evil.py, ")
        assert text != present
        checked = (await client.post("/v1/agents/test/validate", json={"text": text})).json()
        assert checked["ok"] is False
        assert "not trusted" in checked["diagnostics"][0]["message"]
    assert not (tmp_path / "done").exists()


ELSEWHERE = "mode: canary-mode\ngithub.com: canary-key\n"


@pytest.mark.parametrize(
    "keys",
    [
        "extends: {}/other.yaml",
        "extends: ./link.yaml",
        "extends: ./folder/other.yaml",
        "extends: [./inner.yaml, '{}/missing.yaml']",
        'extends: "{}/a\\0.yaml"',
        "extends: ./outer.yaml",
        "extends: linked",
        "{{homes: ['{}'], extends: missing}}",
        "homes: ['{}']",
        "homes: ['${{HOME_ELSEWHERE:-{}}}']",
        "agents: {{x: {{description: d, config: {}/other.yaml}}}}",
        "agents: {{x: {{description: d, config: {}}}}}",
        "agents: {{x: {{description: d, config: {}/missing.yaml}}}}",
        "agents: {{x: {{description: d, config: ./link.yaml}}}}",
        "agents: {{x: {{description: d, config: ./outer.yaml}}}}",
        "agents: {{x: {{description: d, config: ./apart/zeus.yaml}}}}",
        "agents: {{x: {{description: d, overrides: {{homes: ['{}']}}}}}}",
    ],
)
def test_a_check_looks_at_no_layer_elsewhere(tmp_path: Path, keys: str) -> None:
    """Its errors quote what they are about, and go to whoever brought the text."""
    project, other = tmp_path / "app", tmp_path / "other"
    (other / "configs").mkdir(parents=True)
    for name in ("other.yaml", "zeus.yaml", "configs/canary-preset.yaml", "configs/profiles.yaml"):
        (other / name).write_text(ELSEWHERE)
    for folder in (project / "apart", project / ".zeus", tmp_path / "team"):
        folder.mkdir(parents=True)
    (tmp_path / "team/linked.yaml").write_text(ELSEWHERE)
    for link, target in ((".zeus/configs", "team"), ("folder", "other"), ("link.yaml", "other/other.yaml")):
        (project / link).symlink_to(tmp_path / target)
    (other / "env").write_text("canary without a value\n")
    (project / "apart/.env").symlink_to(other / "env")
    (project / "apart/zeus.yaml").write_text("version: 1\nmodel: gpt-4o\n")
    (project / "inner.yaml").write_text("mode: agent\n")
    (project / "outer.yaml").write_text("version: 1\nmodel: gpt-4o\nextends: ../other/other.yaml\n")
    file = write_agent(project, tools="[probe, subagents]")
    text = yaml.safe_dump({**yaml.safe_load(file.read_text()), **yaml.safe_load(keys.format(other))})
    (hosted,) = service_of(project, script("Done.")).hosting
    checked = judged(lambda: hosted.examined(text))
    (problem,) = checked.diagnostics
    assert (checked.exit_code, problem.code) == (4, "untrusted")
    assert "canary" not in f"{problem.message} {problem.hint}"


@pytest.mark.parametrize(
    "extends",
    ["../other/base.yaml", "[../other/base.yaml, ./inner.yaml, default]", "[mine, projects]"],
)
def test_a_check_reads_the_layers_that_the_agent_has_and_those_of_its_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extends: str
) -> None:
    project, other, home = (tmp_path / each for each in ("app", "other", "home"))
    environ = {"XDG_CONFIG_HOME": str(home)}
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    for folder in (home / "zeus/configs", other / "configs", project / ".zeus/configs"):
        folder.mkdir(parents=True)
    (other / "base.yaml").write_text("limits: {max_steps: 7}\n")
    (project / ".zeus/configs/projects.yaml").write_text("limits: {max_steps: 8}\n")
    # A user's presets may be links to where the user keeps them.
    (other / "mine.yaml").write_text("limits: {max_steps: 9}\n")
    (home / "zeus/configs/mine.yaml").symlink_to(other / "mine.yaml")
    (other / "helper.yaml").write_text("version: 1\nmodel: gpt-4o\n")
    (home / "zeus/own.yaml").write_text("version: 1\nmodel: gpt-4o\n")
    agents = {"x": other / "helper.yaml", "y": home / "zeus/own.yaml"}
    written = {name: {"description": "d", "config": str(each)} for name, each in agents.items()}
    keys = yaml.safe_dump({"homes": ["../other"], "agents": written})
    write_agent(project, f"extends: ../other/base.yaml\n{keys}", tools="[probe, subagents]")
    (project / "inner.yaml").write_text("mode: ask\n")
    (hosted,) = service_of(project, script("Done."), environ=environ).hosting
    text = (project / "zeus.yaml").read_text().replace("../other/base.yaml", extends)
    checked = judged(lambda: hosted.examined(text))
    assert [each for each in checked.diagnostics if each.severity == "error"] == []


async def test_only_an_admin_sees_and_checks_a_config(tmp_path: Path) -> None:
    async with keyed(tmp_path) as (client, database):
        ann = bearer(await made(database))
        session, _ = await begun(client, "go")
        assert (await client.get(f"/v1/sessions/{session}/plan", headers=ann)).status_code == 403
        for method, path in (("GET", "plan"), ("GET", "config"), ("POST", "validate")):
            body = {"text": "name: x"} if method == "POST" else None
            refused = await client.request(method, f"/v1/agents/test/{path}", json=body, headers=ann)
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), path


async def test_a_config_whose_file_is_gone_is_not_found(tmp_path: Path) -> None:
    write_agent(tmp_path)
    async with serving(service_of(tmp_path, script("Done."))) as client:
        (tmp_path / "zeus.yaml").unlink()
        gone = await client.get("/v1/agents/test/config")
        assert gone.status_code == 404
        assert "No such file" in gone.json()["detail"]


async def test_the_text_of_a_config_shows_no_header_and_no_secret_that_is_not_loaded_yet(
    tmp_path: Path,
) -> None:
    servers = """mcpServers:
  notes:
    url: http://127.0.0.1:9/mcp
    headers:
      X-Team: blue team
    # api_key: before-4711
"""
    file = write_agent(tmp_path, servers)
    new = """agents:
  helper:
    description: Helps.
    overrides:
      mcpServers:
        more: {command: more, env: {SHOP_TOKEN: argo-4711-new}}
"""
    async with serving(service_of(tmp_path, script("Done."))) as client:

        async def shown() -> str:
            config = (await client.get("/v1/agents/test/config")).json()
            return str(config["text"])

        loaded = file.read_text()
        assert await shown() == loaded.replace("blue team", MASK).replace("before-4711", MASK)
        # Neither is loaded: the first has an unknown key, the second is not YAML.
        file.write_text(f"{loaded}{new}nonsense: 1\n")
        text = await shown()
        assert text.endswith(
            "env: {SHOP_TOKEN: <secret:agents.helper.overrides.mcpServers.more.env.SHOP_TOKEN>}}\nnonsense: 1\n"
        )
        assert "blue" not in text
        file.write_text(f"{loaded}{new}nonsense: [\n")
        text = await shown()
        assert "argo-4711" not in text
        assert "blue" not in text
        gate = "  gate: {command: gate, args: [--token, argo-4711-new], env: {GATE: argo4711-abcdefgh}}"
        file.write_text(f"{loaded}{gate}\nnonsense: [\n")
        text = await shown()
    assert "  gate: {command: gate, args: [--token, " in text
    assert "argo" not in text
    assert "blue" not in text
    assert text.startswith("version: 1\nname: test\n")
    assert text.count("\n") == file.read_text().count("\n")
