"""The secrets in the workspaces of sessions and users are known where these work, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from langchain_core.messages import ToolMessage

from tests.agent.test_session_workspaces import OWN, agent_in
from tests.support.agents import PositionModel, call, calling, write_agent
from zeus_runtime import Agent
from zeus_runtime.agent import session_plans
from zeus_runtime.config.secrets.folder_listings import KNOWN_DEPTH
from zeus_runtime.plan.apart import set_apart
from zeus_runtime.plan.plan import make_plan
from zeus_runtime.plan.validated import check
from zeus_runtime.plan.workspace_root import user_name, workspace_root
from zeus_runtime.plan.workspace_secrets import WorkspaceSecrets, family_of
from zeus_runtime.serving.http.hosting import HostedAgent
from zeus_runtime.store.session_tree import open_child
from zeus_runtime.store.threads import Owner
from zeus_runtime.trust.decision import recorded_trust

PER_USER = "workspace: {root: work, per: user}\n"
REMOTE = '[remote "o"]\n\turl = https://ann:SECRET@example.com/x\n'
FILES = {
    ".env": "A_TOKEN=SECRET\n",
    ".env.local": "A_TOKEN=SECRET\n",
    "web/.env": "A_TOKEN=SECRET\n",
    ".git/config": REMOTE,
    "shop/.git/config": REMOTE,
    "inc": REMOTE,
}
GIT = "[include]\n\tpath = ../inc\n"


def secret(number: int) -> str:
    return f"x7ghs9Kq{number:02}LmW4RtZ8vBn"


def fill(folder: Path, first: int = 0) -> None:
    for number, (name, text) in enumerate(FILES.items(), first):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("SECRET", secret(number)))
        with (folder / "app.log").open("a") as log:
            log.write(f"{number} {secret(number)} was refused\n")
    with (folder / ".git/config").open("a") as config:
        config.write(GIT)


def reading(path: str = "/app.log") -> PositionModel:
    """A model that reads a file in each turn."""
    return PositionModel(
        lambda request: (
            calling(call("read_file", "r", path=path)) if request.messages[-1].type == "human" else "Done."
        )
    )


def shown_by(model: PositionModel) -> str:
    found = [each for asked in model.requests for each in asked.messages if isinstance(each, ToolMessage)]
    return str(found[-1].content)


async def begun(tmp_path: Path, yaml: str, owner: Owner | None = None) -> tuple[str, Path]:
    """A session that has run, and the workspace that it or its user got."""
    (tmp_path / "work").mkdir(exist_ok=True)
    before = set((tmp_path / "work").iterdir())
    async with agent_in(tmp_path, yaml, reading(), owner) as agent:
        session = (await agent.run("go")).session
    (folder,) = set((tmp_path / "work").iterdir()) - before
    return session, folder


@pytest.mark.parametrize("yaml", [OWN, PER_USER])
async def test_what_the_workspace_of_a_session_or_a_user_holds_is_masked(tmp_path: Path, yaml: str) -> None:
    session, folder = await begun(tmp_path, yaml)
    fill(folder)
    shown = []
    for _ in range(2):  # each in a new agent, as another process has it
        model = reading()
        async with agent_in(tmp_path, yaml, model) as agent:
            await agent.run("go", session=session)
        shown.append(shown_by(model))
    assert shown[0] == shown[1]
    assert shown[0].count("was refused") == len(FILES)
    assert [number for number in range(len(FILES)) if secret(number) in shown[0]] == []
    stored = b"".join(each.read_bytes() for each in (tmp_path / ".zeus").rglob("*") if each.is_file())
    assert b"was refused" in stored
    assert [number for number in range(len(FILES)) if secret(number).encode() in stored] == []


async def test_what_one_user_of_a_service_has_is_nothing_to_another(tmp_path: Path) -> None:
    fill((await begun(tmp_path, PER_USER, Owner("ann", None, None)))[1])
    folder = (await begun(tmp_path, PER_USER, Owner("bob", None, None)))[1]
    (folder / "app.log").write_text(f"{secret(0)} is a guess of bob's\n")
    (folder / ".env").write_text(f"A_TOKEN={secret(50)}\n")
    write_agent(tmp_path, PER_USER, tools="[filesystem]")
    model = reading()
    hosted = HostedAgent(
        lambda *_: check(
            tmp_path / "zeus.yaml", directory=tmp_path, environ={}, trust=recorded_trust({}, "all")
        ),
        lambda *_: None,
        model,
    )
    ann, bob = (hosted.of(Owner(name, None, None)) for name in ("ann", "bob"))
    await ann.run("go")
    assert shown_by(model).count("<secret:") == len(FILES)
    await bob.run("go")
    assert f"{secret(0)} is a guess" in shown_by(model)
    assert bob.masked(f"see {secret(0)} and {secret(50)}").count("<secret:.env/A_TOKEN-") == 1
    assert ann.masked(f"see {secret(0)} and {secret(50)}").endswith(secret(50))
    assert hosted.masked(f"see {secret(0)} and {secret(50)}") == f"see {secret(0)} and {secret(50)}"
    await hosted.aclose()


@pytest.mark.parametrize("root", ["work", "."])
async def test_the_folders_of_others_spend_no_place_among_those_that_are_known(
    tmp_path: Path, root: str
) -> None:
    yaml = f"workspace: {{root: {root}, per: user}}\n"
    for number in range(101):
        other = tmp_path / root / user_name([f"a{number}"])
        other.mkdir(parents=True)
        (other / ".env").write_text(f"A_TOKEN={secret(number)}\n")
    (tmp_path / "web").mkdir()
    (tmp_path / "web/.env").write_text("A_TOKEN=Qq7hs9Kq2LmW4RtZ8vBn\n")
    async with agent_in(tmp_path, yaml, reading()) as agent:
        await agent.run("go")
        (tmp_path / root / user_name([agent.plan.config.user]) / ".env").write_text(
            "A_TOKEN=Zz7hs9Kq2LmW4RtZ8vBn\n"
        )
        await agent.run("go")
        text = f"of web Qq7hs9Kq2LmW4RtZ8vBn, own Zz7hs9Kq2LmW4RtZ8vBn, of another {secret(7)}"
        shown = agent.masked(text)
    assert shown.startswith("of web <secret:.env/A_TOKEN>, own <secret:.env/A_TOKEN-")
    assert shown.endswith(f", of another {secret(7)}")


async def test_an_evaluation_knows_what_its_own_folder_holds(tmp_path: Path) -> None:
    write_agent(tmp_path, tools="[filesystem]")
    checked = check(tmp_path / "zeus.yaml", directory=tmp_path, environ={}, trust=recorded_trust({}, "all"))
    checked = set_apart(checked, tmp_path / "apart")
    fill(tmp_path / "apart/workspace")
    model = reading()
    async with Agent(checked, make_plan(checked), model=model) as agent:
        await agent.run("go")
    assert shown_by(model).count("<secret:") == len(FILES)


async def test_an_agent_knows_what_the_workspace_of_its_sub_agent_holds(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "sub/helper.yaml").write_text(
        "version: 1\nname: helper\nmodel: gpt-4o\nworkspace: {root: theirs, per: session}\n"
    )
    yaml = "agents: {helper: {description: Helps., config: sub/helper.yaml}}\n"
    async with agent_in(tmp_path, yaml, reading(), tools="[filesystem, subagents]") as agent:
        session = (await agent.run("go")).session
        (tmp_path / "theirs" / session / ".env.local").write_text(f"A_TOKEN={secret(1)}\n")
        assert secret(1) in agent.masked(f"it is {secret(1)}")
        await agent.run("go", session=session)
        assert "<secret:.env.local/A_TOKEN-" in agent.masked(f"it is {secret(1)}")


async def test_a_file_of_git_is_open_only_where_its_tokens_are_known(tmp_path: Path) -> None:
    folder = (await begun(tmp_path, PER_USER))[1]
    for number, name in enumerate(("", "shop", "group/shop")):
        config = folder / name / ".git/config"
        config.parent.mkdir(parents=True)
        config.write_text(REMOTE.replace("SECRET", secret(number)))
        model = reading(f"/{name}/.git/config".replace("//", "/"))
        async with agent_in(tmp_path, PER_USER, model) as agent:
            await agent.run("go")
            is_known = secret(number) not in agent.masked(f"the token {secret(number)}")
        assert is_known == ("<secret:" in shown_by(model)) == (len(Path(name).parts) <= KNOWN_DEPTH)
        assert secret(number) not in shown_by(model)


async def test_the_secrets_of_a_session_are_forgotten_with_its_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_plans, "KEPT", 0)
    one, two = [await begun(tmp_path, OWN) for _ in range(2)]
    texts = [f"1 {secret(1)}", f"2 {secret(2)}", f"9 {secret(9)}"]
    for number, (_, folder) in enumerate((one, two), 1):
        (folder / ".env").write_text(f"A_TOKEN={secret(number)}\nB_TOKEN={secret(9)}\n")
    async with agent_in(tmp_path, OWN, reading()) as agent:
        await agent.run("go", session=one[0])
        assert [agent.masked(each) == each for each in texts] == [False, True, False]
        await agent.run("go", session=two[0])
        assert [agent.masked(each) == each for each in texts] == [True, False, False]
        await agent.run("go", session=one[0])
        assert [agent.masked(each) == each for each in texts] == [False, True, False]


@pytest.mark.parametrize("source", [".env", ".env.local", "environ"])
@pytest.mark.parametrize("is_session_first", [False, True])
async def test_what_the_config_has_too_is_known_after_the_session_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, is_session_first: bool
) -> None:
    monkeypatch.setattr(session_plans, "KEPT", 0)
    one, two = [await begun(tmp_path, OWN) for _ in range(2)]
    environ: dict[str, str] = {}
    (tmp_path / ".env").write_text("")

    def config_gets_it() -> None:
        if source == "environ":
            environ["SHOP_TOKEN"] = secret(1)
        else:
            (tmp_path / source).write_text(f"SHOP_TOKEN={secret(1)}\n")

    def session_gets_it() -> None:
        (one[1] / ".env").write_text(f"A_TOKEN={secret(1)}\n")

    both = [session_gets_it, config_gets_it]
    async with agent_in(tmp_path, OWN, reading(), environ=environ) as agent:
        for gets_it in both if is_session_first else reversed(both):
            gets_it()
            await agent.run("go", session=one[0])
            assert secret(1) not in agent.masked(f"it is {secret(1)}")
        await agent.run("go", session=two[0])
        assert secret(1) not in agent.masked(f"it is {secret(1)}")


async def test_the_secrets_of_a_plan_that_is_gone_are_not_known_though_none_was_learned_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_plans, "KEPT", 0)
    one, two = [await begun(tmp_path, OWN) for _ in range(2)]
    (one[1] / ".env").write_text(f"A_TOKEN={secret(1)}\n")
    async with agent_in(tmp_path, OWN, reading()) as agent:
        for each, is_known in ((one, True), (two, False), (one, True)):
            await agent.run("go", session=each[0])
            assert (secret(1) not in agent.masked(f"it is {secret(1)}")) == is_known


def test_what_two_sessions_have_is_known_until_both_are_gone(tmp_path: Path) -> None:
    write_agent(tmp_path, OWN)
    checked = check(tmp_path / "zeus.yaml", directory=tmp_path, environ={}, trust=recorded_trust({}, "all"))
    looks = []
    for number in (1, 2):
        own = replace(checked, session=f"session_{number}")
        folder = workspace_root(own)
        folder.mkdir(parents=True)
        (folder / ".env").write_text(f"A_TOKEN={secret(number)}\nB_TOKEN={secret(9)}\n")
        looks.append(WorkspaceSecrets(family_of(own, make_plan(own))))
        looks[-1].look()
    first, second = looks

    def known() -> list[int]:
        return [number for number in (1, 2, 9) if checked.secrets.hides(f"it is {secret(number)}")]

    assert known() == [1, 2, 9]
    first.forget()
    assert known() == [2, 9]
    second.forget()
    assert known() == []


@pytest.mark.parametrize(("per", "is_known"), [("", True), (", per: session", False)])
def test_only_where_sessions_have_their_own_is_a_folder_of_such_a_name_theirs(
    tmp_path: Path, per: str, is_known: bool
) -> None:
    (tmp_path / "session_1").mkdir()
    (tmp_path / "session_1/.env").write_text(f"A_TOKEN={secret(1)}\n")
    write_agent(tmp_path, f"workspace: {{root: .{per}}}\n")
    checked = check(tmp_path / "zeus.yaml", directory=tmp_path, environ={}, trust=recorded_trust({}, "all"))
    assert checked.secrets.hides(f"it is {secret(1)}") == is_known


async def test_the_secrets_of_sessions_that_somebody_only_looks_at_are_forgotten_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_plans, "KEPT", 1)
    found = [await begun(tmp_path, OWN) for _ in range(3)]
    for number, (_, folder) in enumerate(found):
        (folder / ".env").write_text(f"A_TOKEN={secret(number)}\n")
    async with agent_in(tmp_path, OWN, reading()) as agent:
        for session, _ in found:
            await agent.look_at(session)
        assert [agent.masked(f"see {secret(each)}") == f"see {secret(each)}" for each in range(3)] == [
            True,
            False,
            False,
        ]


async def test_the_session_of_a_sub_agent_works_in_the_folder_of_its_parent(tmp_path: Path) -> None:
    session, folder = await begun(tmp_path, OWN)
    async with agent_in(tmp_path, OWN, reading()) as agent:
        connections = await agent._runner.connections()
        thread = await connections.log.find(session)
        (await connections.database.claim(session))()
        child = await open_child(
            connections.log, thread, "a", 1, {}, agent="test/helper", title="", at_most=1
        )
        assert child is not None
        (folder / ".env").write_text(f"A_TOKEN={secret(1)}\n")
        await agent.history(child.session)
        assert secret(1) not in agent.masked(f"see {secret(1)}")
