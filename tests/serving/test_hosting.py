"""Users' agents: opened for a request, closed when nobody uses them, never in the middle of something."""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.serving.test_http_keys import URL, bearer, keyed, made
from tests.serving.test_open_streams import reading
from tests.support.agents import script, write_agent
from tests.support.serving import begun, service_of, serving, until
from zeus_runtime.agent.agent import Agent
from zeus_runtime.config.secrets.masking import Learned
from zeus_runtime.errors import RunError
from zeus_runtime.events import RunCompleted
from zeus_runtime.plan.edited_configs import EditedConfigs
from zeus_runtime.plan.validated import Checked
from zeus_runtime.plan.workspace_root import user_name
from zeus_runtime.serving.http import hosting
from zeus_runtime.serving.http import service as service_module
from zeus_runtime.serving.http.hosting import HostedAgent, Hosting
from zeus_runtime.serving.http.settings import OpenAgents, Settings
from zeus_runtime.store.database import Database
from zeus_runtime.store.schema import ready
from zeus_runtime.store.threads import Owner

ANN, BOB, EVE = Owner("ann"), Owner("bob"), Owner("eve")


@pytest.fixture
def hosted(tmp_path: Path) -> HostedAgent:
    write_agent(tmp_path)
    (found,) = service_of(tmp_path, script("Done.")).hosting
    return found


async def test_idle_agents_go_and_a_later_request_opens_them_again(hosted: HostedAgent) -> None:
    now = 100.0
    hosted.now = lambda: now
    for owner in (None, ANN, BOB, EVE):
        hosted.of(owner)
        now += 10
    first = hosted.of(ANN)

    async def closed(*busy: Owner, **limits: float) -> set[Owner | None]:
        given: dict[str, Any] = {"most": 100, "idle_seconds": 100, **limits}
        await hosted.let_idle_go(lambda owner: owner in busy, **given)
        return set(hosted.open)

    assert await closed() == {None, ANN, BOB, EVE}
    assert await closed(BOB, most=1) == {None, BOB}
    now += 1000
    assert await closed(BOB) == {None, BOB}
    assert await closed() == {None}
    assert hosted.of(ANN) is not first
    assert await closed(most=2) == {None, ANN}
    await hosted.aclose()


async def test_no_program_of_another_agents_workspace_is_started_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs, one, task, two, system = (
        tmp_path / each for each in ("configs", "one", "task", "two", "system")
    )
    for each in (configs, one, task, two, system):
        each.mkdir()
    for name, more in (
        ("task", f"workspace: {{root: {task}}}\n"),
        (
            "one",
            f"workspace: {{root: {one}}}\ntools: [subagents]\n"
            "agents: {task: {description: d, config: ./task.yaml}}\n",
        ),
        ("two", f"workspace: {{root: {two}}}\ntools: [subagents]\nagents: {{helper: {{description: d}}}}\n"),
    ):
        (configs / f"{name}.yaml").write_text(f"version: 1\nname: {name}\nmodel: x\n{more}")
    monkeypatch.setenv("PATH", ":".join(map(str, (one, task, two, system))))
    hosting = service_of(configs, script("Done."), ("one.yaml", "two.yaml")).hosting
    plan = hosting.named("two").plan
    found = [each.context.own_programs.environ()["PATH"] for each in (plan, plan.agents["helper"].plan)]
    assert found == [str(system)] * 2
    await hosting.aclose()


async def test_the_agents_of_a_service_mask_each_others_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting, "LOOK_SECONDS", 0.0)
    first, second, third = "Cfg8secretZz26abc", "Env9secretQq17xyz", "Sub5secretJj41def"

    def written(name: str, value: str, more: str = "") -> None:
        text = f"version: 1\nname: {name}\nmodel: x\nmetadata: {{api_key: {value}}}\n{more}"
        (tmp_path / f"{name}.yaml").write_text(text)

    written("helper", third)
    written("one", first, "tools: [subagents]\nagents: {helper: {description: d, config: ./helper.yaml}}\n")
    written("two", second)
    found = service_of(tmp_path, script("Done."), ("one.yaml", "two.yaml")).hosting
    for name in ("two", "one"):
        found.named(name).of(None)
        assert found.named(name).masked(f"{first} {second} {third}").count("<secret:metadata.api_key") == 3
    agent = found.named("two").of(ANN)
    async for _ in agent.stream(f"It is {first}."):
        pass
    (session,) = await agent.sessions()
    shown = str((await agent.history(session.session))[0].content)
    assert re.fullmatch("It is <secret:metadata.api_key-[0-9a-f]{4}>.", shown), shown
    assert await found.named("two").read_again()
    assert first not in found.named("two").masked(first), "before the others are introduced again, too"
    written("one", "New7secretKk88ghi")
    written("two", "Own7secretKk88ghi")
    await found.look()
    for name in ("one", "two"):
        assert "7secret" not in found.named(name).masked("New7secretKk88ghi Own7secretKk88ghi")
        assert found.named(name).of(ANN) is not agent
    await found.aclose()


async def test_the_secrets_of_a_former_config_stay_masked_the_newest_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by an agent whose config stayed, and that knew them from the other one."""
    monkeypatch.setattr(hosting, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(hosting, "MOST_FORMER", 2)
    values = [f"Key{number}secretZz26abc" for number in range(5)]
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(f"version: 1\nname: {name}\nmodel: x\n")
    found = service_of(tmp_path, script("Done."), ("one.yaml", "two.yaml")).hosting
    for value in values:
        text = f"version: 1\nname: one\nmodel: x\nmetadata: {{api_key: {value}}}\n"
        (tmp_path / "one.yaml").write_text(text)
        await found.look()
        model = script("Done.")
        for name in ("one", "two"):
            hosted = found.named(name)
            hosted.model = model
            async for _ in hosted.of(None).stream(" ".join(values)):
                pass
            told = str(model.requests[-1].messages[-1].content)
            newest = values[: values.index(value) + 1][-3:]
            known = (await hosted.with_middlewares(None)).secrets
            assert all(map(known.hides, newest[:-1]))
            assert [each for each in values if each not in told] == newest, (name, told)
            assert [each for each in values if hosted.masked(each) == each] == [
                each for each in values if each not in newest
            ]
    await found.aclose()


async def test_the_token_of_an_account_that_one_agent_gets_is_masked_by_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting, "LOOK_SECONDS", 0.0)
    token = "fresh-Token-0815xyz"
    helper = "tools: [subagents]\nagents: {helper: {description: d}}\n"
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(f"version: 1\nname: {name}\nmodel: x\n{helper}")
    found = service_of(tmp_path, script("Done."), ("one.yaml", "two.yaml")).hosting
    others = [found.named("one").of(None), found.named("two").of(ANN)]
    plan = found.named("one").of(ANN).plan
    plan.agents["helper"].plan.context.learn(token, "accounts.far.access_token")
    for name in ("one", "two"):
        assert found.named(name).masked(token) == "<secret:accounts.far.access_token>"
        assert await found.named(name).read_again()
        assert found.named(name).masked(token) == "<secret:accounts.far.access_token>"
        present = await found.named(name).with_middlewares(None)
        assert present.secrets.text(token) == "<secret:accounts.far.access_token>"
    for agent in (*others, found.named("two").of(BOB)):
        assert agent.masked(token) == "<secret:accounts.far.access_token>"
    await found.aclose()


async def test_the_tokens_of_a_user_are_known_while_the_user_works(hosted: HostedAgent) -> None:
    hosted.of(ANN), hosted.of(BOB)
    hosted.know(ANN, "zeus_0123456789_abcdefgh")
    assert hosted.of(ANN).masked("zeus_0123456789_abcdefgh").startswith("<secret:ZEUS_TOKEN-")
    assert hosted.of(BOB).masked("zeus_0123456789_abcdefgh") == "zeus_0123456789_abcdefgh"
    await hosted.let_idle_go(lambda owner: owner == ANN, most=0, idle_seconds=100)
    hosted.stand_beside([hosted.checked], Learned())
    await hosted.let_idle_go(lambda owner: owner == ANN, most=0, idle_seconds=100)
    assert "zeus_" not in hosted.of(ANN).masked("zeus_0123456789_abcdefgh"), "of a new config, too"
    await hosted.let_idle_go(lambda _owner: False, most=0, idle_seconds=100)
    assert "zeus_" in hosted.of(ANN).masked("zeus_0123456789_abcdefgh"), "the memory does not grow"
    await hosted.aclose()


async def test_the_agents_of_a_former_config_go_when_nobody_uses_them(
    hosted: HostedAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Any] = []

    async def aclose(agent: Any) -> None:
        closed.append(agent)

    monkeypatch.setattr(hosting.Agent, "aclose", aclose)
    former = hosted.of(ANN)
    hosted.stand_beside([hosted.checked], Learned())
    assert hosted.of(ANN) is not former
    await hosted.let_idle_go(lambda owner: owner == ANN, most=100, idle_seconds=100)
    assert closed == []
    await hosted.let_idle_go(lambda _owner: False, most=100, idle_seconds=100)
    assert closed == [former]


async def test_an_agent_that_cannot_be_closed_keeps_no_other_open(
    hosted: HostedAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Any] = []

    async def aclose(agent: Any) -> None:
        closed.append(agent)
        raise RunError("the database does not answer")

    monkeypatch.setattr(hosting.Agent, "aclose", aclose)
    agents = [hosted.of(each) for each in (ANN, BOB)]
    with pytest.raises(RunError):
        await hosted.let_idle_go(lambda _owner: False, most=0, idle_seconds=100)
    assert closed == agents
    agents = [hosted.of(each) for each in (ANN, BOB)]
    with pytest.raises(RunError):
        await Hosting([hosted]).aclose()
    assert closed[2:] == agents


async def test_a_config_is_exchanged_where_requests_open_agents_and_not_in_the_thread_that_reads_it(
    hosted: HostedAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    changing: list[int] = []
    let_go = hosted._let_go
    monkeypatch.setattr(hosted, "_let_go", lambda: (changing.append(threading.get_ident()), let_go()))
    assert await hosted.read_again()
    assert changing == [threading.get_ident()]


async def test_a_file_that_changes_while_it_is_read_is_read_once_more(
    hosted: HostedAgent, tmp_path: Path
) -> None:
    config = tmp_path / "zeus.yaml"
    read = hosted.read

    def slow(sets: Any, edited: Any = None) -> Any:
        found = read(sets, edited)
        config.write_text(config.read_text() + "description: New.\n")
        return found

    hosted.read = slow
    assert await hosted.read_again()
    hosted.read = read
    hosted._looked = float("-inf")
    assert hosted.is_due()
    assert await hosted.read_again()
    assert hosted.plan.config.description == "New."
    hosted._looked = float("-inf")
    assert not hosted.is_due()


@pytest.mark.parametrize("file", ["zeus.yaml", "base.yaml", ".env"])
async def test_a_file_that_changes_at_the_very_first_reading_is_read_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    config = write_agent(tmp_path, "extends: ./base.yaml\n")
    (tmp_path / "base.yaml").write_text("version: 1\ndescription: ${WORDS:-Old.}\n")
    (tmp_path / ".env").write_text("OTHER=1\n")
    changes = {
        "zeus.yaml": config.read_text() + "description: New.\n",
        "base.yaml": "version: 1\ndescription: New.\n",
        ".env": "WORDS=New.\n",
    }
    use = HostedAgent._use

    def edited(hosted: HostedAgent, *given: Any) -> None:
        monkeypatch.undo()
        (tmp_path / file).write_text(changes[file])
        use(hosted, *given)

    monkeypatch.setattr(HostedAgent, "_use", edited)
    (hosted,) = service_of(tmp_path, script("Done.")).hosting
    assert hosted.plan.config.description == "Old."
    hosted._looked = float("-inf")
    assert hosted.is_due()
    assert await hosted.read_again()
    assert hosted.plan.config.description == "New."
    hosted._looked = float("-inf")
    assert not hosted.is_due()


async def test_a_dotenv_that_comes_or_comes_back_while_the_service_runs_is_read(tmp_path: Path) -> None:
    write_agent(tmp_path)
    (hosted,) = service_of(tmp_path, script("Done.")).hosting
    dotenv, secrets = tmp_path / ".env", ("hunter2-hunter2", "hunter3-hunter3")

    async def looked() -> list[str]:
        hosted._looked = float("-inf")
        if hosted.is_due():
            assert await hosted.read_again()
        hosted._looked = float("-inf")
        assert not hosted.is_due()
        return [hosted.masked(each) for each in secrets]

    assert await looked() == list(secrets)
    dotenv.write_text(f"THE_TOKEN={secrets[0]}\n")
    assert await looked() == ["<secret:THE_TOKEN>", secrets[1]]
    # As programs do that write a file anew, with a request in between.
    dotenv.unlink()
    former = (await looked())[0]
    assert re.fullmatch("<secret:THE_TOKEN-[0-9a-f]{4}>", former), "its issuer may still accept it"
    dotenv.write_text(f"THE_TOKEN={secrets[1]}\n")
    assert await looked() == [former, "<secret:THE_TOKEN>"]


@pytest.mark.parametrize("way", ["written", "replaced", "link"])
async def test_a_new_text_of_the_same_size_and_time_is_read(tmp_path: Path, way: str) -> None:
    config = write_agent(tmp_path, "description: Old.\n")
    if way == "link":
        config.rename(tmp_path / "1.yaml")
        config.symlink_to("1.yaml")
    before = config.stat()
    (hosted,) = service_of(tmp_path, script("Done.")).hosting
    new = tmp_path / "2.yaml" if way != "written" else config
    while True:  # until the file system's clock has moved on
        new.write_text(config.read_text().replace("Old.", "New."))
        os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
        if new.stat().st_ctime_ns != before.st_ctime_ns:
            break
    if way == "replaced":
        new.rename(config)
    elif way == "link":
        config.unlink()
        config.symlink_to("2.yaml")
    assert (config.stat().st_size, config.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    hosted._looked = float("-inf")
    assert hosted.is_due()
    assert await hosted.read_again()
    assert hosted.plan.config.description == "New."


@pytest.mark.parametrize("name", ["st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns"])
def test_a_file_has_changed_if_anything_tells_it_from_the_former_one(
    hosted: HostedAgent, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    stat = Path.stat

    def other(file: Path) -> SimpleNamespace:
        found = stat(file)
        former = {each: getattr(found, each) for each in dir(found) if each.startswith("st_")}
        return SimpleNamespace(**{**former, name: former[name] + 1})

    monkeypatch.setattr(Path, "stat", other)
    hosted._looked = float("-inf")
    assert hosted.is_due()


async def test_a_changed_file_of_servers_is_read_with_its_secrets(tmp_path: Path) -> None:
    write_agent(tmp_path, tools="[{mcp: {files: [servers.json]}}]")
    servers = tmp_path / "servers.json"

    def offer(secret: str) -> None:
        remote = {"url": "https://mcp.example.com/", "headers": {"Authorization": f"Bearer {secret}"}}
        servers.write_text(json.dumps({"mcpServers": {"remote": remote}}))

    offer("hunter2hunter2")
    (hosted,) = service_of(tmp_path, script("Done.")).hosting
    assert "hunter2" not in hosted.masked("It is hunter2hunter2.")
    # The first look may find that the file could have changed while it was read.
    hosted._looked = float("-inf")
    if hosted.is_due():
        assert await hosted.read_again()
    hosted._looked = float("-inf")
    assert not hosted.is_due()
    offer("hunter30hunter30")
    hosted._looked = float("-inf")
    assert hosted.is_due()
    assert await hosted.read_again()
    assert "hunter30" not in hosted.masked("It is hunter30hunter30.")


async def test_a_dotenv_that_comes_at_the_very_first_reading_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(tmp_path)
    use = HostedAgent._use

    def written(hosted: HostedAgent, *given: Any) -> None:
        monkeypatch.undo()
        (tmp_path / ".env").write_text("THE_TOKEN=hunter2-hunter2\n")
        use(hosted, *given)

    monkeypatch.setattr(HostedAgent, "_use", written)
    (hosted,) = service_of(tmp_path, script("Done.")).hosting
    hosted._looked = float("-inf")
    assert hosted.is_due()
    assert await hosted.read_again()
    assert hosted.masked("hunter2-hunter2") == "<secret:THE_TOKEN>"


def test_a_config_that_stays_is_not_read_once_more(hosted: HostedAgent) -> None:
    hosted._looked = float("-inf")
    assert not hosted.is_due()


@pytest.mark.parametrize("fault", ["name", "error"])
async def test_a_config_that_takes_anothers_name_or_cannot_be_read_changes_nothing_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    configs = ("a.yaml", "b.yaml", "c.yaml")
    for name in configs:
        write_agent(tmp_path).rename(tmp_path / name)
        rename(tmp_path / name, "test", name[0])
    service = service_of(tmp_path, script("Done."), configs)
    _, second, third = service.hosting
    async with serving(service) as client:
        session = (await client.post("/v1/sessions", json={"agent": "b"})).json()["session"]
        if fault == "name":
            rename(tmp_path / "b.yaml", "b", "a")
        else:
            rename(tmp_path / "b.yaml", "b", "b2")
            monkeypatch.setattr(second, "read", lambda *_: 1 / 0)
        rename(tmp_path / "c.yaml", "c", "d")
        second._looked = third._looked = float("-inf")
        assert (await client.get(f"/v1/sessions/{session}")).json()["agent"] == "b"
        bad = (await client.get("/ready")).json()["unread_configs"]
        told = "another agent of the service has the name 'a'" if fault == "name" else "ZeroDivisionError"
        assert (list(bad), told in bad["b"]) == (["b"], True)
        assert [each["name"] for each in (await client.get("/v1/agents")).json()] == ["a", "b", "d"]


def rename(config: Path, name: str, other: str) -> None:
    config.write_text(config.read_text().replace(f"name: {name}\n", f"name: {other}\n"))


async def test_an_agent_that_cannot_be_planned_fails_only_the_requests_that_need_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, more in (("a", ""), ("b", "workspace: {root: work, per: user}\n")):
        write_agent(tmp_path, more).rename(tmp_path / f"{name}.yaml")
        rename(tmp_path / f"{name}.yaml", "test", name)
    place = tmp_path / "work" / user_name(["ann"])
    place.parent.mkdir()
    place.write_text("a file where a folder has to be")
    database = Database(URL, directory=tmp_path)
    await ready(database)
    service = replace(service_of(tmp_path, script("Done."), ("a.yaml", "b.yaml")), database=database)
    tried: list[Owner | None] = []
    planned = hosting.make_plan

    def planning(checked: Checked) -> Any:
        tried.append(Owner(*checked.place) if checked.config.name == "b" and checked.place else None)
        return planned(checked)

    monkeypatch.setattr(hosting, "make_plan", planning)
    async with serving(service, await made(database)) as client:
        _, second = service.hosting
        second.now = lambda: 100.0
        session = (await client.post("/v1/sessions", json={"agent": "a"})).json()["session"]
        _, run = await begun(client, "go", session)
        await until(client, run, "complete")
        for path in ("/v1/agents", "/v1/sessions"):
            answer = await client.get(path)
            names = [each.get("agent", each.get("name")) for each in answer.json()]
            assert (names, answer.headers["zeus-unread-agents"]) == (["a"], "b"), path
        refused = await client.post("/v1/sessions", json={"agent": "b"})
        assert (refused.status_code, refused.json()["code"]) == (422, "config")
        assert "cannot be used: Not a directory" in (await client.get("/ready")).json()["unread_configs"]["b"]
        assert tried.count(Owner("ann")) == 1, "it is tried once in a while, and not for each request"
        assert sum("cannot be planned" in each.message for each in caplog.records) == 1
        place.unlink()
        place.mkdir()
        second.now = lambda: 102.0
        answer = await client.post("/v1/sessions", json={"agent": "b"})
        assert answer.status_code == 201, answer.text
        assert (await client.get("/ready")).json()["unread_configs"] == {}
        assert "zeus-unread-agents" not in (await client.get("/v1/agents")).headers


async def test_an_agent_without_a_plan_still_masks_the_secrets_of_its_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(tmp_path, "description: ${THE_TOKEN}\n")
    (tmp_path / ".env").write_text("THE_TOKEN=hunter2-hunter2\n")
    service = service_of(tmp_path, script("Done."))

    def fail(_checked: Checked) -> Any:
        raise RunError("hunter2-hunter2 is not accepted")

    monkeypatch.setattr(hosting, "make_plan", fail)
    with pytest.raises(RunError):
        await next(iter(service.hosting)).prepare(None)
    assert "hunter2" not in service.mask("hunter2-hunter2 is not accepted")


async def test_a_changed_config_of_a_sub_agent_is_read_too(tmp_path: Path) -> None:
    write_agent(
        tmp_path,
        "agents: {below: {description: Helps., config: below.yaml}}\n",
        tools="[subagents, probe]",
    )
    below = tmp_path / "below.yaml"
    below.write_text("version: 1\nname: below\nmodel: gpt-4o\n")
    (found,) = service_of(tmp_path, script("Done.")).hosting
    found._looked = float("-inf")
    assert not found.is_due()
    below.write_text("version: 1\nname: below\nmodel: gpt-4o\ndescription: New.\n")
    found._looked = float("-inf")
    assert found.is_due()
    assert await found.read_again()
    assert [each.config.description for each in found.family if each.config.name == "below"] == ["New."]


def test_no_tool_changes_what_decides_about_another_agent_of_the_service_or_its_sub_agent(
    tmp_path: Path,
) -> None:
    head = "version: 1\nmodel: gpt-4o\ntools: [filesystem]\n"
    trusting = "middlewares: [{skills: {trust_project: true}}]\n"
    files = {
        "one.yaml": f"{head}name: one\n",
        "two.yaml": f"{head}name: two\nhomes: [home]\nworkspace: {{root: desk}}\n{trusting}"
        "agents: {below: {description: Helps., config: ./below/below.yaml}}\n",
        "below/below.yaml": f"{head}name: below\nhomes: [home]\nworkspace: {{root: bench}}\n{trusting}"
        "instructions: {file: task.md}\nmcpServers: {s: {command: python3, args: [tools/server.py]}}\n",
        "three.yaml": f"{head}name: three\nworkspace: {{root: desks, per: user}}\n{trusting}",
        "below/task.md": "Help.\n",
        "tools/server.py": "",
        "home/prompts/CORE.md": "",
        "below/home/prompts/CORE.md": "",
        "desk/a.txt": "",
        "desks/ann/a.txt": "",
        "bench/a.txt": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    hosting = service_of(tmp_path, script("Done."), ("one.yaml", "two.yaml", "three.yaml")).hosting
    workspace = hosting.named("one").plan.context.workspace
    skill = ".agents/skills/mine/SKILL.md"
    closed = ("home/prompts/SOUL.md", "home/skills/x/SKILL.md", f"desk/{skill}", "below/home/prompts/SOUL.md")
    closed += (f"bench/{skill}", "below/task.md", "tools/server.py")
    closed += (f"desks/ann/{skill}", "desks/Bob/.CLAUDE/Skills", "desks/new/.zeus/skills/x/SKILL.md")
    assert [each for each in closed if workspace.write_refusal(each) is None] == []
    assert [
        each
        for each in ("desk/a.txt", "bench/a.txt", "desks/ann/a.txt", "desks/ann/.agents/notes")
        if workspace.write_refusal(each)
    ] == []


async def test_the_files_of_an_edited_config_are_closed_to_turns_that_run_and_while_it_is_not_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting, "LOOK_SECONDS", 0.0)
    files = ("tools/check.py", "tools/plug.py", "tools/task.md", "tools/server.py")
    (tmp_path / "tools").mkdir()
    for each in files:
        (tmp_path / each).write_text("Be brief." if each.endswith(".md") else "")
    plugin = "from zeus_runtime.plugin import hookimpl\n\n@hookimpl\ndef register_tools():\n    return []\n"
    (tmp_path / "tools/plug.py").write_text(plugin)
    deciding = (
        "plugins: {files: [tools/plug.py]}\ninstructions: {file: tools/task.md}\n"
        "middlewares: [{hooks: {before_run: [{command: [python3, -I, tools/check.py]}]}}]\n"
        "mcpServers: {s: {command: python3, args: [tools/server.py]}}\n"
    )

    def write(name: str, more: str = "") -> None:
        (tmp_path / f"{name}.yaml").write_text(f"version: 1\nname: {name}\nmodel: gpt-4o\n{more}")

    def open_to(*agents: Agent) -> list[str]:
        gates = [each.plan.context.workspace for each in agents]
        return [each for each in files if any(gate.write_refusal(each) is None for gate in gates)]

    write("one"), write("two")
    found = service_of(tmp_path, script("Done."), ("one.yaml", "two.yaml")).hosting
    one, two = found.named("one"), found.named("two")
    former = [one.of(ANN), two.of(ANN)]
    assert open_to(*former) == list(files)
    write("one", f"{deciding}limits: {{max_stepps: 9}}\n")
    await found.look()
    assert "max_stepps" in one.problem
    assert open_to(*former, two.of(BOB)) == []
    write("two", "description: New.\n")
    await found.look()
    assert open_to(two.of(BOB)) == [], "a new content of another config, too"
    write("one")
    await found.look()
    former = [one.of(BOB), two.of(BOB)]
    assert open_to(*former) == list(files), "no config names them"
    (tmp_path / "base.yaml").write_text("version: 1\nhomes: [home]\n")
    (tmp_path / "bench").mkdir(), (tmp_path / "desk").mkdir()
    helper = "agents: {h: {description: h, overrides: {workspace: {root: desk}}}}\ntools: [subagents]\n"
    route = "workspace: {routes: {/r/: bench}}\n"
    write("two", route), write("one", helper)
    await found.look()
    assert len(one.family) == 2
    misspelt = deciding.replace(":", "s:") + "x: [bench, desk]\nextend: base.yaml\n"
    for text in (misspelt, f"{deciding}description: [base.yaml"):
        former = [one.of(BOB), two.of(BOB)]
        write("one", text)
        await found.look()
        assert one.problem
        assert open_to(*former) == [], "whether the schema finds them or not"
        write("two", f"description: A{len(text)}\n{route}")
        with monkeypatch.context() as patched:
            patched.setattr(one, "is_due", lambda: False)
            await found.look()
        assert not two.problem
        assert open_to(two.of(BOB)) == []
        refused = [
            two.of(BOB).plan.context.workspace.write_refusal(each) for each in ("home/skills/x", "bench/a")
        ]
        assert [each is None for each in refused] == [False, True], "another agent works in `bench`"
        write("one")
        await found.look()
        former = [one.of(BOB), two.of(BOB)]
        assert open_to(*former) == list(files)
    (tmp_path / ".env").write_text("TASK=tools/task.md\n")
    write(
        "one",
        deciding.replace("tools/task.md", "'${TASK}'")
        + "workspace: {routes: {/r/: tools, /large_tool_results/: kept}}\n",
    )
    await found.look()
    assert not one.problem
    assert one.of(BOB) is not former[0]
    assert open_to(*former, one.of(BOB)) == []
    for each in former:
        gate = each.plan.context.workspace.gate
        assert tmp_path / "tools" in set(gate.tops()), "where a program must make no link"
        assert str(tmp_path / "tools") in set(gate.around())
        assert (tmp_path / "tools/__pycache__", True) in set(gate.unasked())
        assert tmp_path / "kept" in set(gate.folders_of_sessions())
    await found.aclose()


@pytest.mark.parametrize(
    "was_seen", [False, True], ids=["edited later", "edited between the reading and the look"]
)
@pytest.mark.parametrize("more", ["", "limits: {max_stepps: 9}\n"], ids=["valid", "not valid"])
async def test_the_files_of_an_edited_config_are_closed_before_its_check_executes_them(
    tmp_path: Path, *, more: str, was_seen: bool
) -> None:
    plugin = "from zeus_runtime.plugin import hookimpl\n\n@hookimpl\ndef register_tools():\n    return []\n"
    (tmp_path / "plug.py").write_text(plugin)
    config = write_agent(tmp_path)
    found = service_of(tmp_path, script("Done.")).hosting
    (agent,) = found
    gate = agent.of(ANN).plan.context.workspace
    read, refused, threads = agent.read, [], set()

    def watched(sets: Any, edited: Any = None) -> Checked:
        refused.append(gate.write_refusal("plug.py"))
        return read(sets, edited)

    assert gate.write_refusal("plug.py") is None
    agent.read = watched
    config.write_text(f"version: 1\nname: test\nmodel: x\nplugins: {{files: [plug.py]}}\n{more}")
    if was_seen:
        agent._look_at_texts()
        agent._edited = EditedConfigs(agent.checked, agent.family[:-1], agent._looks)
    for each in agent._looks.values():
        changed = each.changed
        each.changed = lambda look=changed: (threads.add(threading.get_ident()), look())[1]  # type: ignore[method-assign]
    agent._looked = float("-inf")
    await found.look()
    assert [*map(bool, refused)] == [True]
    assert bool(agent.problem) is bool(more)
    assert threads
    assert threading.get_ident() not in threads, "the loop of the service reads no files of a look"
    assert gate.write_refusal("plug.py")
    await found.aclose()


async def test_the_files_of_a_config_that_is_not_valid_stay_closed_as_soon_as_another_config_is_new(
    tmp_path: Path,
) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(f"version: 1\nname: {name}\nmodel: x\n")
    found = service_of(tmp_path, script("Done."), ("one.yaml", "two.yaml")).hosting
    one, two = found.named("one"), found.named("two")
    for agent, more in ((one, "instruction: {file: task.md}\n"), (two, "description: New.\n")):
        (tmp_path / f"{agent.name}.yaml").write_text(f"version: 1\nname: {agent.name}\nmodel: x\n{more}")
        agent._looked = float("-inf")
        await found.look()
    assert one.problem
    assert two.checked.config.description == "New."
    assert two.of(BOB).plan.context.workspace.write_refusal("task.md")
    await found.aclose()


@pytest.mark.parametrize(
    ("file", "closed"),
    [
        ("zeus-serve.yaml", "extends: ./base.yaml"),
        ("base.yaml", "tls: {certificate: ./chain.pem}"),
        ("conf/serve.yaml", "extends: ../base.yaml"),
        (".zeus/configs/team.yaml", "version: 1\nextends: ../../base.yaml"),
    ],
)
async def test_what_an_edited_text_names_that_no_agent_has_loaded_is_closed_to_turns_that_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, closed: str
) -> None:
    monkeypatch.setattr(hosting, "LOOK_SECONDS", 0.0)
    (tmp_path / "conf").mkdir(), (tmp_path / ".zeus/configs").mkdir(parents=True)
    for each in ("zeus-serve.yaml", "conf/serve.yaml"):
        (tmp_path / each).write_text("extends: ./base.yaml\n" if file == "base.yaml" else "")
    for each in ("base.yaml", "chain.pem", "free.txt"):
        (tmp_path / each).write_text("")
    write_agent(tmp_path)
    found = service_of(tmp_path, script("Done."), settings="conf/serve.yaml").hosting
    (agent,) = found
    gate = agent.of(ANN).plan.context.workspace
    monkeypatch.setattr(hosting, "closed_beside", lambda *_: pytest.fail("nothing has changed"))
    await found.look()
    monkeypatch.undo(), monkeypatch.setattr(hosting, "LOOK_SECONDS", 0.0)
    name = re.search(r"(\w+[.](yaml|pem))\W*$", closed)[1]  # type: ignore[index]
    assert gate.write_refusal(name) is None
    (tmp_path / file).write_text(closed)
    await found.look()
    assert gate.write_refusal(name)
    assert gate.write_refusal("free.txt") is None
    await found.aclose()


async def test_what_a_config_names_that_a_person_adds_to_a_served_folder_is_closed_to_turns_that_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another agent changed the prompt of `agents/new.yaml`, and the next start of the service used it."""
    monkeypatch.setattr(hosting, "LOOK_SECONDS", 0.0)
    head = "version: 1\nname: {}\nmodel: gpt-4o\ntools: [filesystem]\n"
    names = ("one.md", "two.md", "tools/srv.py", "other/srv.py", "hook.py", "free.txt")
    for each in ("agents/a.yaml", "agents/b.yaml", *names):
        (tmp_path / each).parent.mkdir(exist_ok=True)
        (tmp_path / each).write_text(head.format(Path(each).stem))
    found = service_of(tmp_path, script("Done."), ("agents/a.yaml", "agents/b.yaml"), served="agents").hosting
    gates = [each.of(ANN).plan.context.workspace for each in found]

    def closed() -> set[str]:
        both = [{name for name in names if gate.write_refusal(name)} for gate in gates]
        assert both[0] == both[1]
        return both[0]

    server = "mcpServers: {s: {command: python3, args: [srv.py], cwd: tools}}\n"
    hooks = "middlewares: [{hooks: {before_run: [{command: [python3, hook.py]}]}}]\n"
    await found.look()
    assert closed() == set()
    new = tmp_path / "agents/new.yaml"
    new.write_text(head.format("new") + "instructions: {file: ../one.md}\n" + server)
    await found.look()
    assert closed() == {"one.md", "tools/srv.py"}
    new.write_text(head.format("new") + "instructions: {file: ../two.md}\n" + hooks + server)
    await found.look()
    assert closed() >= {"two.md", "hook.py"}
    (tmp_path / "agents/new.prod.yaml").write_text("mcpServers: {s: {cwd: other}}\n")
    await found.look()
    assert closed() == {*names} - {"free.txt"}
    with monkeypatch.context() as still:
        still.setattr(hosting, "closed_beside", lambda *_: pytest.fail("no config has changed"))
        (tmp_path / "agents/notes.txt").write_text("")
        await found.look()
    await found.aclose()


COMPOSE = "services: {web: {build: ./src, env_file: [./src/app.env], volumes: ['./src/app.py:/app.py']}}\n"
NEW = "version: 1\nname: new\nmodel: gpt-4o\ntools: [filesystem]\n"


def put(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"agents/{name}.yaml").write_text(text)


@pytest.mark.parametrize("version", ["", "version: '3.8'\n", "version: 3\n"])
async def test_a_text_of_another_program_in_a_served_folder_closes_nothing_until_it_is_a_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """A `docker-compose.yaml` counted as a config with mistakes, and closed all paths in it."""
    monkeypatch.setattr(hosting, "LOOK_SECONDS", 0.0)
    (tmp_path / "agents").mkdir(), (tmp_path / "src").mkdir()
    for each in ("src/app.py", "src/app.env", "one.md"):
        (tmp_path / each).write_text('{"api_key": "some_Qm7Yb2Lk9Vd4"}')
    put(tmp_path, a=NEW.replace("new", "a"))
    found = service_of(tmp_path, script("Done."), ("agents/a.yaml",), served="agents").hosting
    (agent,) = found
    gate = agent.of(ANN).plan.context.workspace

    def closed() -> list[str]:
        return [each for each in ("src/app.py", "one.md") if gate.write_refusal(each)]

    file = tmp_path / "agents/compose.yaml"
    file.write_text(version + COMPOSE)
    await found.look()
    assert closed() == []
    assert agent.masked("some_Qm7Yb2Lk9Vd4") == "some_Qm7Yb2Lk9Vd4", "it names no file of keys either"
    assert gate.write_refusal("agents/compose.yaml")
    file.write_text("extends: ../base.yaml\n")
    await found.look()
    assert gate.write_refusal("base.yaml"), "which may have the version"
    file.write_text(NEW + "instructions: {file: ../one.md}\n")
    await found.look()
    assert closed() == ["one.md"]
    (tmp_path / "agents/open.yaml").write_text("version: 1\nname: [./src/app.py\n")
    await found.look()
    assert closed() == ["src/app.py", "one.md"], "a text that is no YAML yet may be a config"
    await found.aclose()


@pytest.mark.parametrize("is_first_look", [False, True])
async def test_secrets_of_a_config_that_a_person_adds_to_a_served_folder_are_masked_from_the_next_look_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_first_look: bool
) -> None:
    """A turn showed the key of `agents/new.yaml` until the service was started again."""
    monkeypatch.setattr(hosting, "LOOK_SECONDS", 0.0)
    (tmp_path / "agents").mkdir(), (tmp_path / "conf/more").mkdir(parents=True)
    put(tmp_path, **{each: NEW.replace("new", each) for each in ("a", "b")})
    configs, folder = ("agents/a.yaml", "agents/b.yaml"), tmp_path / "conf/more"
    (folder / "late.yaml").write_text(COMPOSE)
    found = service_of(tmp_path, script("Done."), configs, served="conf/more").hosting
    running = [each.of(ANN)._runner.redactor for each in found]
    secrets = ("sk-own-Qm7Yb2Lk9Vd4", "sk-env-Wn8Xc3Mj6Te5", "sk-file-Hd5Rt8Pq2Zs7", "sk-late-Jf6Su9Wr3Ax8")

    def shown() -> list[str]:
        return [each for each in secrets if any(each in redactor(f"It is {each}.") for redactor in running)]

    if not is_first_look:
        await found.look()
    (folder / "key.txt").write_text(f"{secrets[2]}\n")
    (folder / ".env").write_text(f"NEW_TOKEN={secrets[1]}\n")
    key = f"metadata: {{api_key: {secrets[0]}, TOKEN_FILE: conf/more/key.txt}}\n"
    (folder / "new.yaml").write_text(NEW + key)
    assert shown() == [*secrets]
    await found.look()
    assert shown() == [secrets[3]]
    (folder / "late.yaml").write_text(f"{NEW}metadata: {{api_key: {secrets[3]}}}\n")
    await found.look()
    assert shown() == []
    await found.aclose()


@pytest.mark.parametrize("is_working", [True, False])
async def test_a_changed_config_is_read_while_turns_run_also_if_nobody_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_working: bool
) -> None:
    monkeypatch.setattr(hosting, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(service_module, "CHECK_SECONDS", 0.0)
    write_agent(tmp_path)
    service = service_of(tmp_path, script("Done."))
    (found,) = service.hosting
    write_agent(tmp_path, "description: New.\n")
    watch = asyncio.create_task(service._watch())
    if is_working:
        service.turns._working["s"] = watch
    for _ in range(400 if is_working else 20):
        await asyncio.sleep(0.01)
        if found.checked.config.description:
            break
    watch.cancel()
    service.turns._working.clear()
    assert bool(found.checked.config.description) is is_working


async def test_an_agent_with_an_open_stream_or_a_running_turn_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "CHECK_SECONDS", 0.05)
    goes_on = asyncio.Event()

    class Waiting:
        name = "waiting"

        async def stream(self, request: Any) -> AsyncIterator[Any]:
            if "wait" in str(request.messages[-1].content):
                await goes_on.wait()
            async for piece in script("Done.", "Done.").stream(request):
                yield piece

    settings = Settings(agents=OpenAgents(idle_seconds=0))
    async with keyed(tmp_path, settings, model=Waiting()) as (client, database):
        keys = {name: bearer(await made(database, name)) for name in ("ann", "bob", "eve")}
        closed: set[str] = set()
        whole = hosting.Agent.aclose

        async def aclose(agent: Any) -> None:
            closed.add("" if agent._owner is None else agent._owner.user)
            await whole(agent)

        async def until_closed(*names: str) -> None:
            async with asyncio.timeout(20):
                while not closed.issuperset(names):  # noqa: ASYNC110 - the service's own task closes them
                    await asyncio.sleep(0.02)

        monkeypatch.setattr(hosting.Agent, "aclose", aclose)
        runs = {}
        for name, key in keys.items():
            client.headers.update(key)
            runs[name] = await begun(client, "wait" if name == "bob" else "go")
            if name == "ann":
                stream, lines = await reading(client, f"/v1/sessions/{runs['ann'][0]}/events")
        client.headers.update(keys["eve"])
        await until(client, runs["eve"][1], "complete")
        await until_closed("eve")
        closed.clear()  # until its stream or its turn began, an agent may have been closed between two requests
        await client.get("/v1/agents")
        await until_closed("eve")
        assert not {"ann", "bob"} & closed
        goes_on.set()
        client.headers.update(keys["bob"])
        await until(client, runs["bob"][1], "complete")
        assert any(f'"{RunCompleted.type}"' in line for line in lines)
        stream.cancel()
        await until_closed("ann", "bob")
        # Opened again: the session is there, and a further turn runs.
        client.headers.update(keys["eve"])
        session, run = await begun(client, "again", runs["eve"][0])
        assert session == runs["eve"][0]
        await until(client, run, "complete")
