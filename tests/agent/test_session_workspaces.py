"""Workspaces of sessions and users: folders of their own, quotas, and their end with the session."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.run.test_toolsets import LAMP
from tests.support.agents import PositionModel, call, calling, play, script, write_agent
from zeus_runtime import Agent, ConfigError
from zeus_runtime.agent import runner, session_plans
from zeus_runtime.agent.session_plans import SessionPlans
from zeus_runtime.errors import MissingError, NotFoundError, UsageError
from zeus_runtime.events import RunFailed, RunStarted, SubAgentEvent
from zeus_runtime.plan.parts_with_subagents import all_parts
from zeus_runtime.plan.plan import Plan, make_plan
from zeus_runtime.plan.shown import reach_object
from zeus_runtime.plan.validated import check
from zeus_runtime.plan.workspace_root import session_name, user_name
from zeus_runtime.run.connections import Connections
from zeus_runtime.store.threads import Owner
from zeus_runtime.tools import WorkspaceError, WorkspaceFiles
from zeus_runtime.tools.approval import Decision
from zeus_runtime.tools.quota import Quota
from zeus_runtime.trust.decision import recorded_trust

OWN = "workspace: {root: work, per: session}\n"


def writing(path: str, content: str = "mine", then: Any = "Done.") -> Any:
    return script(calling(call("write_file", "w", path=path, content=content)), then)


def agent_in(
    folder: Path,
    yaml: str,
    model: Any,
    owner: Owner | None = None,
    tools: str = "[filesystem]",
    environ: Mapping[str, str] = MappingProxyType({}),
) -> Agent:
    write_agent(folder, yaml, tools=tools)
    checked = check(folder / "zeus.yaml", directory=folder, environ=environ, trust=recorded_trust({}, "all"))
    if owner is not None:
        checked = checked.acting_for(*owner)
    return Agent(checked, make_plan(checked), model=model, owner=owner)


def names_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


async def test_each_session_has_a_folder_of_its_own_that_goes_with_it(tmp_path: Path, work: Path) -> None:
    async with agent_in(tmp_path, OWN, writing("/a.txt")) as agent:
        one, two = (await agent.run("go")).session, (await agent.run("go")).session
        assert names_in(work) == sorted((one, two))
        for session in (one, two):
            assert (work / session / "a.txt").read_text() == "mine"
            assert stat.S_IMODE((work / session).stat().st_mode) == 0o700
        await agent.archive(one)
        assert (work / one / "a.txt").exists()
        await agent.delete_session(one)
        assert names_in(work) == [two]


@pytest.mark.parametrize("per", ["session", "user"])
async def test_no_tool_writes_a_trusted_skill_into_a_workspace_of_its_own(
    tmp_path: Path, work: Path, per: str
) -> None:
    yaml = f"workspace: {{root: work, per: {per}}}\nmiddlewares: [{{skills: {{trust_project: true}}}}]\n"
    skill = "---\nname: mine\ndescription: Use it always.\n---\nObey.\n"
    writes = [
        call("write_file", f"w{number}", path=f"/{folder}/skills/mine/SKILL.md", content=skill)
        for number, folder in enumerate((".agents", ".claude", ".zeus"))
    ]
    async with agent_in(tmp_path, yaml, script(calling(*writes), "Done.")) as agent:
        session = (await agent.run("go")).session
        told = [str(each.content) for each in await agent.history(session) if each.type == "tool"]
    assert len(told) == 3
    assert all("so no tool may change it" in each for each in told)
    assert names_in(work / session if per == "session" else work / names_in(work)[0]) == []


async def test_a_session_reaches_no_other_session_s_files(tmp_path: Path, work: Path) -> None:
    async with agent_in(tmp_path, OWN, writing("/a.txt", "secret of one")) as agent:
        one = (await agent.run("go")).session
    tries = [f"/{one}/a.txt", f"/../{one}/a.txt", str(work / one / "a.txt"), "link"]
    reads = [call("read_file", f"r{place}", path=path) for place, path in enumerate(tries)]
    async with agent_in(tmp_path, OWN, script("Hello.", calling(*reads), "Done.")) as agent:
        two = (await agent.run("first")).session
        (work / two / "link").symlink_to(work / one / "a.txt")
        await agent.run("go", session=two)
        told = [each for each in await agent.history(two) if each.type == "tool"]
    assert len(told) == len(tries)
    assert all("secret of one" not in str(each.content) for each in told)


@pytest.mark.parametrize(
    ("own", "spec", "root", "routes", "rules"),
    [
        ("", "", "work", {"/notes/"}, {"hr/**", "**"}),
        ("workspace: {access: {'*.pem': deny}}\n", "", "work", {"/notes/"}, {"*.pem"}),
        ("workspace: {routes: {}}\n", "", "work", set(), {"hr/**", "**"}),
        ("workspace: {root: .}\n", "", ".", set(), set()),
        ("workspace: {root: desk}\n", "", "desk", set(), set()),
        ("", ", overrides: {workspace: {root: desk}}", "desk", set(), set()),
        ("extends: default\n", "", "work", {"/notes/"}, {"hr/**", "**"}),
        ("workspace: {per: session}\n", "", "work/session_1", {"/notes/"}, {"hr/**", "**"}),
    ],
)
@pytest.mark.parametrize("levels", [1, 2])
def test_a_sub_agent_works_in_its_parent_s_workspace_unless_its_config_writes_a_root(
    tmp_path: Path, own: str, spec: str, root: str, routes: set[str], rules: set[str], levels: int
) -> None:
    """With a config that said nothing of a workspace, it worked in the working directory, out of its parent's reach."""
    project = tmp_path / "project"
    for name in ("work/hr", "desk", "../notes"):
        (project / name).mkdir(parents=True)
    (project / "outside.txt").write_text("outside")
    (project / "work/hr/pay").write_text("pay")
    yaml = "workspace: {root: work, routes: {/notes/: ../notes}, access: {'hr/**': deny, '**': read}}\n"
    agents = f"agents: {{helper: {{description: h, config: helper.yaml{spec}}}}}\n"
    (project / "helper.yaml").write_text(f"version: 1\nname: helper\nmodel: x\ntools: [filesystem]\n{own}")
    if levels == 2:
        middle = "version: 1\nname: middle\nmodel: x\ntools: [filesystem, subagents]\n"
        (project / "middle.yaml").write_text(middle + agents)
        agents = "agents: {middle: {description: m, config: middle.yaml}}\n"
    write_agent(project, yaml + agents, tools="[filesystem, subagents]")
    checked = check(project / "zeus.yaml", directory=project, environ={}, trust=recorded_trust({}, "all"))
    asked = [each for each in all_parts(checked) if "notes" in each.name]
    assert len(asked) == 1, "one permission for a folder of the parent is enough for all"
    plan = make_plan(replace(checked, session="session_1"))
    helper = (plan.agents["middle"].plan if levels == 2 else plan).agents["helper"]
    files, shown = helper.plan.context.workspace, reach_object(helper.checked, helper.plan)
    assert files.root == (project / root).absolute()
    own_routes = files.routes.keys() - {"/large_tool_results/", "/conversation_history/", "/attached_files/"}
    assert own_routes == routes
    assert {each["pattern"] for each in shown["rules"]} == rules
    above = {each["pattern"]: each["root"] for each in shown["rules_above"]}
    assert above == dict.fromkeys(
        {"hr/**", "**"} - (rules if root == "work" else set()), str(project / "work")
    )
    closed = ["/hr/pay", "/outside.txt"]
    if root == ".":
        closed = ["/work/hr/pay"]
        assert files.read("/outside.txt", max_bytes=9) == b"outside"
    for path in closed:
        with pytest.raises(WorkspaceError):
            files.read(path, max_bytes=9)


async def test_a_later_turn_in_another_process_finds_the_session_s_files(tmp_path: Path, work: Path) -> None:
    async with agent_in(tmp_path, OWN, writing("/a.txt")) as agent:
        session = (await agent.run("go")).session
    reading = script("", "", calling(call("read_file", "r", path="/a.txt")), "Read.")
    async with agent_in(tmp_path, OWN, reading) as agent:
        await agent.run("again", session=session)
        assert "mine" in str((await agent.history(session))[-2].content)
    assert names_in(work) == [session]


async def test_sub_agents_work_in_the_folder_of_their_parent(tmp_path: Path, work: Path) -> None:
    (tmp_path / "helper.yaml").write_text("version: 1\nname: helper\nmodel: x\ntools: [filesystem]\n")
    (tmp_path / "other.yaml").write_text("extends: helper.yaml\nworkspace: {per: user}\n")
    configs = (", config: helper.yaml", ", config: other.yaml")
    for helper in ("{description: helps}", *(f"{{description: helps{each}}}" for each in configs)):
        agent = agent_in(
            tmp_path, OWN + f"agents:\n  helper: {helper}\n", script("x"), tools="[filesystem, subagents]"
        )
        connections = await agent._runner.connections()
        plan = await agent._runner._plans._of("session_1", connections, None)
        (below,) = plan.agents.values()
        assert below.plan.context.workspace.root == plan.context.workspace.root == work / "session_1"
        await agent.aclose()


def delegating(names: tuple[str, ...] = ("helper",), path: str = "/mine.txt") -> PositionModel:
    """A model whose agents hand a prompt on to the next of ``names``; the last writes it to a file, then lists all."""

    def answer(request: Any) -> Any:
        start = max(place for place, each in enumerate(request.messages) if each.type == "human")
        said = sum(each.type == "ai" for each in request.messages[start:])
        *above, prompt = str(request.messages[start].content).split(">")
        if len(above) < len(names):
            below = call(
                "task", "t", description="d", prompt=">".join((*above, "", prompt)), agent=names[len(above)]
            )
            return [calling(below), "Done."][said]
        write = call("write_file", "w", path=path, content=f"secret of {prompt}")
        return [calling(write), calling(call("grep", "g", pattern="secret of")), "Done."][said]

    return PositionModel(answer)


def found_by_the_last(model: PositionModel) -> str:
    """What the last agent's search told it."""
    return str(
        [
            each
            for request in model.requests
            for each in request.messages
            if each.type == "tool" and each.name == "grep"
        ][-1].content
    )


def write_family(folder: Path, per: str = "session") -> None:
    """Configs of sub-agents: ``helper.yaml`` has folders in ``desk``; ``low.yaml`` works below ``middle.yaml``."""
    for name in ("desk", "work"):
        (folder / name).mkdir(exist_ok=True)
    for name, more in (
        ("helper", f"workspace: {{root: desk, per: {per}}}\n"),
        ("low", ""),
        (
            "middle",
            f"workspace: {{root: desk, per: {per}}}\nagents: {{low: {{description: l, config: low.yaml}}}}\n",
        ),
    ):
        tools = "[filesystem, subagents]" if "agents:" in more else "[filesystem]"
        (folder / f"{name}.yaml").write_text(f"version: 1\nname: {name}\nmodel: x\ntools: {tools}\n{more}")


HELPER = "agents: {helper: {description: h, config: helper.yaml}}\n"
FAMILIES = {
    "a sub-agent's config": (HELPER, ("helper",)),
    "overrides": (
        "agents: {helper: {description: h, overrides: {workspace: {root: desk, per: session}}}}\n",
        ("helper",),
    ),
    "below a user's": ("workspace: {root: work, per: user}\n" + HELPER, ("helper",)),
    "below a session's": ("workspace: {root: work, per: session}\n" + HELPER, ("helper",)),
    "two levels below": (
        "agents: {middle: {description: m, config: middle.yaml}}\n",
        ("middle", "low"),
    ),
}


@pytest.mark.parametrize(("yaml", "names"), FAMILIES.values(), ids=FAMILIES)
async def test_a_sub_agent_with_folders_of_its_own_has_one_for_each_session_which_goes_with_it(
    tmp_path: Path, yaml: str, names: tuple[str, ...]
) -> None:
    write_family(tmp_path)
    model = delegating(names)
    async with agent_in(tmp_path, yaml, model, tools="[filesystem, subagents]") as agent:
        sessions = []
        for who in ("ann", "bob", "ann"):
            sessions.append(
                (await agent.run(who, session=sessions[0] if len(sessions) == 2 else None)).session
            )
            assert found_by_the_last(model).count("secret of") == 1, found_by_the_last(model)
            assert f"secret of {who}" in found_by_the_last(model)
        one, two, _ = sessions
        assert names_in(tmp_path / "desk") == sorted((one, two))
        assert (tmp_path / "desk" / one / "mine.txt").read_text() == "secret of ann"
        await agent.delete_session(one)
        assert names_in(tmp_path / "desk") == [two]


async def test_a_sub_agent_has_a_folder_for_each_user_whatever_its_parent_has(tmp_path: Path) -> None:
    write_family(tmp_path, per="user")
    for who in ("ann", "bob"):
        model = delegating()
        async with agent_in(tmp_path, HELPER, model, Owner(who), tools="[filesystem, subagents]") as agent:
            session = (await agent.run(who)).session
            assert found_by_the_last(model).count("secret of") == 1
            await agent.delete_session(session)
        assert (tmp_path / "desk" / user_name([who]) / "mine.txt").read_text() == f"secret of {who}"
    assert names_in(tmp_path / "desk") == [user_name([who]) for who in ("ann", "bob")]


async def test_a_sub_agent_s_quota_is_counted_anew_with_each_run(tmp_path: Path) -> None:
    write_family(tmp_path)
    path = tmp_path / "helper.yaml"
    path.write_text(path.read_text().replace("per: session", "quota: {files: 1}"))
    async with agent_in(tmp_path, HELPER, delegating(), tools="[filesystem, subagents]") as agent:
        await agent.run("ann")
        (tmp_path / "desk/mine.txt").rename(tmp_path / "mine.txt")
        await agent.run("ann")
    assert (tmp_path / "desk/mine.txt").exists(), "the file of the first run was counted, which is elsewhere"


@pytest.mark.parametrize("yaml", [HELPER, "workspace: {root: work, per: session}\n" + HELPER])
async def test_the_files_of_a_sub_agent_s_session_are_those_of_its_own_workspace(
    tmp_path: Path, yaml: str
) -> None:
    """The list named the parent's file of the same name, which nobody wrote, and gave its content."""
    write_family(tmp_path)
    async with agent_in(tmp_path, yaml, delegating(), tools="[filesystem, subagents]") as agent:
        events = await play(agent, "ann")
        (session,) = {each.session for each in events if isinstance(each, RunStarted)}
        (below,) = {each.session for each in events if isinstance(each, SubAgentEvent)}
        for place in (tmp_path, tmp_path / "work" / session):
            place.mkdir(exist_ok=True)
            (place / "mine.txt").write_text("the parent's")
        assert [each.path for each in await agent.artifacts(below)] == ["/mine.txt"]
        assert await agent.artifact(below, "/mine.txt") == b"secret of ann"
        assert await agent.artifacts(session) == []
    async with agent_in(tmp_path, "", script("Done.")) as agent:
        with pytest.raises(UsageError, match="the config has no agent 'helper' there"):
            await agent.artifacts(below)


@pytest.mark.parametrize(
    ("workspace", "inner", "room"),
    [
        ("{root: ./work/data}", "", 40),
        ("{root: ./work}", "", 40),
        ("{root: ./way, quota: {bytes: 70}}", "", 10),
        ("{root: ./way, quota: {bytes: 900}}", "", 40),
        ("{root: ./work/data, quota: {bytes: 30}}", "", 30),
        ("{root: ./work/data, quota: {files: 9}}", "{root: ./work/data/in}", 40),
        ("{root: ./other}", "{root: ./work/data/in}", 40),
        ("{root: .}", "", 40),
        ("{root: ./link}", "", 40),
        ("{root: ./other}", "", None),
    ],
)
def test_what_a_sub_agent_writes_counts_for_the_quotas_of_the_agents_above(
    tmp_path: Path, work: Path, workspace: str, inner: str, room: int | None
) -> None:
    """A config of its own with a root in its parent's, or with the same one, wrote any amount there."""
    for each in ("work/data/in", "other"):
        (tmp_path / each).mkdir(parents=True)
    (tmp_path / "link").symlink_to("work/data")
    (tmp_path / "way").symlink_to("work")
    (work / "held").write_bytes(b"x" * 60)
    below = "tools: [filesystem, subagents]\nagents: {inner: {description: i, config: inner.yaml}}\n"
    for name, root, more in (
        ("helper", workspace, below if inner else ""),
        ("inner", inner or "{root: .}", ""),
    ):
        yaml = f"version: 1\nname: {name}\nmodel: x\nworkspace: {root}\n{more or 'tools: [filesystem]'}\n"
        (tmp_path / f"{name}.yaml").write_text(yaml)
    outermost = "workspace: {root: way, quota: {bytes: 100}}\n"
    outermost += "agents: {helper: {description: h, config: helper.yaml}}\n"
    write_agent(tmp_path, outermost, tools="[filesystem, subagents]")
    checked = check(tmp_path / "zeus.yaml", directory=tmp_path, environ={}, trust=recorded_trust({}, "all"))
    plan = make_plan(checked)
    helper = plan.agents["helper"].plan
    files = (helper.agents["inner"].plan if inner else helper).context.workspace
    files.make_root()  # as each run does
    path = "/work/new" if workspace == "{root: .}" else "/new"
    if room is None:
        files.write(path, b"x" * 1_000)
        return
    with pytest.raises(WorkspaceError, match="too large"):
        files.write(path, b"x" * (room + 1))
    files.write(path, b"x" * room)
    with pytest.raises(WorkspaceError, match="too large"):
        files.append(path, b"x")
    if workspace == "{root: .}":
        files.write("/elsewhere", b"x" * 1_000)
    if room == 40:
        with pytest.raises(WorkspaceError, match="101 bytes"):
            plan.context.workspace.append("/held", b"x")
        (work / "held").write_bytes(b"x" * 61)
        assert files.quota is not None
        assert files.quota.problem() == "101 bytes, where 100 are allowed"
        files.remove(path)
        plan.context.workspace.append("/held", b"x" * 39)


@pytest.mark.parametrize("of_helper", [False, True])
def test_a_plan_for_no_session_has_no_folder_rather_than_that_of_all(
    tmp_path: Path, *, of_helper: bool
) -> None:
    write_family(tmp_path)
    (tmp_path / "desk/all.txt").write_text("of all")
    write_agent(
        tmp_path,
        HELPER if of_helper else OWN.replace("root: work", "root: desk"),
        tools="[filesystem, subagents]" if of_helper else "[filesystem]",
    )
    checked = check(tmp_path / "zeus.yaml", directory=tmp_path, environ={}, trust=recorded_trust({}, "all"))
    plan = make_plan(checked)
    files = (plan.agents["helper"].plan if of_helper else plan).context.workspace
    assert files.root.parent == tmp_path / "desk"
    assert not files.root.exists()
    with pytest.raises(WorkspaceError):
        files.read("/all.txt", max_bytes=100)
    assert names_in(tmp_path / "desk") == ["all.txt"]


async def test_the_change_of_a_sub_agent_s_waiting_call_is_shown_for_its_session_s_files(
    tmp_path: Path,
) -> None:
    write_family(tmp_path)
    path = tmp_path / "helper.yaml"
    path.write_text(path.read_text() + "middlewares: [approve]\n")
    (tmp_path / "desk/mine.txt").write_text("of all")
    yaml = HELPER + "middlewares: [{approve: {allow: [task]}}]\n"
    async with agent_in(tmp_path, yaml, delegating(), tools="[filesystem, subagents]") as agent:
        for who in ("ann", "bob"):
            _ = [event async for event in agent.stream(who)]
        for pending in await agent.pending_approvals():
            preview = (await agent.previewed(pending.id)).preview
            assert preview is not None
            assert not preview.problem
            assert [each.before for each in preview.changes] == [None]
            await agent.decide(pending.session, {pending.id: Decision("approve")})
        for info in await agent.sessions():
            if not info.parent:
                _ = [event async for event in agent.resume(info.session)]
                assert (tmp_path / "desk" / info.session / "mine.txt").exists()
    assert (tmp_path / "desk/mine.txt").read_text() == "of all"


async def test_a_sub_agent_s_waiting_call_is_judged_by_its_session_s_files(tmp_path: Path) -> None:
    write_family(tmp_path)
    path = tmp_path / "helper.yaml"
    path.write_text(
        path.read_text() + "middlewares: [{approve: {deny: [{write_file: {path: 'secret/**'}}]}}]\n"
    )
    yaml = HELPER + "middlewares: [{approve: {allow: [task]}}]\n"
    async with agent_in(tmp_path, yaml, delegating(), tools="[filesystem, subagents]") as agent:
        for who in ("ann", "bob"):
            _ = [event async for event in agent.stream(who)]
        outermost = {each.title: each.session for each in await agent.sessions() if not each.parent}
        (tmp_path / "desk" / outermost["bob"] / "mine.txt").symlink_to("secret/mine.txt")
        refused = {
            str(each.arguments["content"]): "still not run" in each.reason
            for each in await agent.pending_approvals()
        }
    assert refused == {"secret of ann": False, "secret of bob": True}


@pytest.mark.parametrize(("per", "is_shared"), [("user", False), ("session", False), (None, True)])
async def test_an_agent_with_a_workspace_alone_shares_no_toolset_with_its_parent(
    tmp_path: Path, per: str | None, *, is_shared: bool
) -> None:
    (tmp_path / "desk").mkdir()
    workspace = "{}" if per is None else f"{{root: desk, per: {per}}}"
    yaml = f"agents: {{helper: {{description: h, overrides: {{workspace: {workspace}}}}}}}\n"
    write_agent(tmp_path, yaml, plugin=LAMP, tools="[subagents, lamp]")
    checked = check(tmp_path / "zeus.yaml", directory=tmp_path, environ={}, trust=recorded_trust({}, "all"))
    async with Agent(checked, make_plan(checked), model=script("Done.")) as agent:
        connections = await agent._runner.connections()
        plans = [
            await agent._runner._plans._of(each, connections, None) for each in ("session_1", "session_2")
        ]
        for each in (*plans, *(one.agents["helper"].plan for one in plans)):
            assert connections.toolsets_of(each).serves(each)
        outer = {id(connections.toolsets_of(each)) for each in plans}
        below = {id(connections.toolsets_of(each.agents["helper"].plan)) for each in plans}
        assert len(outer) == 1
        assert len(below) == (2 if per == "session" else 1)
        assert (outer == below) is is_shared


def test_a_plan_for_no_session_is_shown_with_the_place_of_a_session_s_folder(
    tmp_path: Path, work: Path
) -> None:
    write_agent(tmp_path, OWN)
    checked = check(tmp_path / "zeus.yaml", directory=tmp_path, environ={}, trust=recorded_trust({}, "all"))
    for session, name in (("", "<session>"), ("session_1", "session_1")):
        of_session = replace(checked, session=session)
        assert reach_object(of_session, make_plan(of_session))["folders"]["/"] == str(work / name)


async def test_toolsets_that_sessions_share_stay_open_when_the_plan_of_one_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_plans, "KEPT", 0)
    write_family(tmp_path)
    write_agent(tmp_path, HELPER, plugin=LAMP, tools="[subagents, lamp]")
    checked = check(tmp_path / "zeus.yaml", directory=tmp_path, environ={}, trust=recorded_trust({}, "all"))
    async with Agent(checked, make_plan(checked), model=script("Done.")) as agent:
        for _ in range(3):
            await agent.run("go")
        assert (tmp_path / "log.txt").read_text() == "opened\n"
    assert (tmp_path / "log.txt").read_text() == "opened\nclosed\n"


async def test_the_plan_of_a_session_that_begins_stays_open_while_many_others_begin(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: dict[Path, Plan] = {}
    all_begun = asyncio.Event()
    closed: list[Plan] = []
    make_roots, close = runner.make_roots, SessionPlans._close

    async def slow(plan: Plan) -> None:
        begun[plan.context.workspace.root] = plan
        if len(begun) == 3:
            all_begun.set()
        await all_begun.wait()
        await make_roots(plan)

    async def noted(plans: SessionPlans, plan: Plan, connections: Connections) -> None:
        closed.append(plan)
        await close(plans, plan, connections)

    monkeypatch.setattr(runner, "make_roots", slow)
    monkeypatch.setattr(SessionPlans, "_close", noted)
    monkeypatch.setattr(session_plans, "KEPT", 1)
    async with agent_in(tmp_path, OWN, script("Done.")) as agent:
        await asyncio.gather(*(agent.run("go") for _ in range(3)))
        assert closed == [], "a session whose run had no task yet lost its plan"
        # The next one finds the three idle, and one is kept.
        await agent.run("go")
        assert len(closed) == 2


async def test_the_plan_of_a_session_stays_open_while_its_files_are_looked_at(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zeus_runtime.agent import artifacts, message_files, session_plans

    closed: list[Plan] = []
    close = SessionPlans._close

    async def noted(plans: SessionPlans, plan: Plan, connections: Connections) -> None:
        closed.append(plan)
        await close(plans, plan, connections)

    async def look(log: Any, plan: Plan, *rest: Any) -> Any:
        for _ in range(2):
            await agent.run("go")
        assert closed
        return plan

    monkeypatch.setattr(SessionPlans, "_close", noted)
    monkeypatch.setattr(session_plans, "KEPT", 0)
    for module, name in ((artifacts, "artifacts"), (artifacts, "content"), (message_files, "message_file")):
        monkeypatch.setattr(module, name, look)
    async with agent_in(tmp_path, OWN, script("Done.")) as agent:
        session = (await agent.run("go")).session
        assert await agent.artifacts(session) not in closed
        assert await agent.artifact(session, "/a.txt") not in closed
        assert await agent.message_file(session, 1, "/a.txt") not in closed


async def test_the_change_of_a_waiting_call_is_shown_for_the_session_s_files(
    tmp_path: Path, work: Path
) -> None:
    model = script(
        calling(call("write_file", "w", path="/a.txt", content="new")),
        "Wrote.",
        calling(call("write_file", "v", path="/a.txt", content="newer")),
        "Done.",
    )
    async with agent_in(tmp_path, OWN + "middlewares: [approve]\n", model) as agent:
        first = [event async for event in agent.stream("go")][-1]
        (pending,) = await agent.pending_approvals()
        assert "new" in str((await agent.previewed(pending.id)).preview)
        await agent.decide(pending.session, {pending.id: Decision("approve")})
        _ = [event async for event in agent.resume(pending.session)]
        assert first.type == RunFailed.type
        assert (work / pending.session / "a.txt").read_text() == "new"
        _ = [event async for event in agent.stream("again", session=pending.session)]
        (pending,) = await agent.pending_approvals()
        preview = (await agent.previewed(pending.id)).preview
        assert preview is not None
        assert [(each.before, each.after) for each in preview.changes] == [("new", "newer")]


async def test_only_its_owner_learns_how_a_call_was_decided(tmp_path: Path) -> None:
    model = script(calling(call("write_file", "a", path="a.txt", content="x")), "Done.")
    asking = "middlewares: [approve]\n"
    async with agent_in(tmp_path, asking, model, Owner("ann")) as agent:
        _ = [event async for event in agent.stream("Go")]
        (pending,) = await agent.pending_approvals()
        await agent.decide(pending.session, {pending.id: Decision("reject")})
        with pytest.raises(NotFoundError, match=f"{pending.id} was rejected already, by the user, at 2"):
            await agent.previewed(pending.id)
    for owner in (Owner("bob"), Owner("ann", "blue")):
        async with agent_in(tmp_path, asking, script("Done."), owner) as agent:
            with pytest.raises(NotFoundError, match=f"no call with the id '{pending.id}' waits"):
                await agent.previewed(pending.id)


async def test_each_user_has_a_folder_for_all_sessions(tmp_path: Path, work: Path) -> None:
    yaml = OWN.replace("per: session", "per: user")
    folders = []
    for owner in (Owner("ann"), Owner("ann"), Owner("ann", "blue"), Owner("Ann"), Owner("../bob"), None):
        async with agent_in(tmp_path, yaml, writing("/a.txt"), owner) as agent:
            session = (await agent.run("go")).session
            await agent.delete_session(session)
            folders.append(agent.plan.context.workspace.root)
    assert folders[0] == folders[1] == work / user_name(["ann"])
    assert len(set(folders)) == 5
    assert names_in(work) == sorted({each.name for each in folders})


@given(st.lists(st.lists(st.text(), min_size=1, max_size=2), min_size=2, max_size=2, unique_by=tuple))
def test_a_folder_s_name_is_one_component_and_no_other_s(places: list[list[str]]) -> None:
    names = [user_name(each) for each in places]
    names += [session_name(name) for name in sorted({each[0] for each in places})]
    assert len({each.lower() for each in names}) == len(names)
    for name in names:
        assert name == Path(name).name
        assert name not in ("", ".", "..")
        assert name.isascii()
        assert not name.startswith(".")


async def test_a_user_who_is_named_like_a_session_does_not_get_its_folder(tmp_path: Path, work: Path) -> None:
    """Two agents have one root: with ``per: user`` a name chose the folder of a session of the other one."""
    async with agent_in(tmp_path, OWN, writing("/a.txt", "secret of one")) as agent:
        one = (await agent.run("go")).session
    reading = script(
        calling(call("glob", "g", pattern="**"), call("write_file", "w", path="b.txt", content="")), "Done."
    )
    async with agent_in(tmp_path, OWN.replace("per: session", "per: user"), reading, Owner(one)) as agent:
        session = (await agent.run("go")).session
        told = [str(each.content) for each in await agent.history(session) if each.type == "tool"]
    assert "a.txt" not in told[0]
    assert names_in(work / one) == ["a.txt"]
    assert len(names_in(work)) == 2


NAMES = st.from_regex("[a-zA-Z0-9][a-zA-Z0-9_-]{0,9}", fullmatch=True)
OF_USERS = OWN.replace("per: session", "per: user")


@given(st.lists(NAMES, min_size=1, unique_by=str.lower), st.data())
def test_no_user_has_a_folder_that_was_there_before(folders: list[str], data: st.DataObject) -> None:
    """A user who was named like a folder in the root had it, with its content."""
    user = data.draw(st.sampled_from(folders) | NAMES)
    with TemporaryDirectory() as place:
        root = Path(place)
        for each in folders:
            (root / each).mkdir()
            (root / each / "theirs.txt").write_text("theirs")
        write_agent(root, "workspace: {per: user}\n")
        checked = check(root / "zeus.yaml", directory=root, environ={}, trust=recorded_trust({}, "all"))
        checked = checked.acting_for(user, None, None)
        if (root / user).exists() and user == user.lower():
            with pytest.raises(ConfigError, match=user):
                make_plan(checked)
            return
        files = make_plan(checked).context.workspace
        files.make_root()
        assert files.entries() == []
        assert stat.S_IMODE(files.root.stat().st_mode) == 0o700


@pytest.mark.parametrize("below", [False, True])
async def test_a_folder_that_may_be_a_user_s_from_before_is_neither_shown_nor_forgotten(
    tmp_path: Path, work: Path, *, below: bool
) -> None:
    """Earlier versions named the folder of ann `ann`, and nothing tells whether this one is hers."""
    (work / "ann").mkdir(0o700)
    (work / "ann/a.txt").write_text("kept")
    yaml, tools = OF_USERS, "[filesystem]"
    if below:
        (tmp_path / "helper.yaml").write_text(f"version: 1\nname: helper\nmodel: x\n{OF_USERS}")
        yaml, tools = "agents: {helper: {description: h, config: helper.yaml}}\n", "[subagents]"
    with pytest.raises(ConfigError) as refused:
        agent_in(tmp_path, yaml, script("Done."), Owner("ann"), tools)
    problem = refused.value.diagnostics[-1]
    assert (problem.code, problem.path) == ("workspace", ("workspace", "per"))
    own = work / user_name(["ann"])
    assert f"{work}/ann" in problem.message
    assert own.name in str(problem.hint)
    assert names_in(work) == ["ann"]
    (work / "ann").rename(own)
    async with agent_in(tmp_path, yaml, script("Done."), Owner("ann"), tools) as agent:
        await agent.run("go")
    assert (own / "a.txt").read_text() == "kept"
    assert names_in(work) == [own.name]


@pytest.mark.parametrize("place", ["project", "session", "all"])
def test_only_a_user_had_a_folder_with_the_name_alone(tmp_path: Path, work: Path, place: str) -> None:
    (work / "ann").mkdir()
    of = {"project": OF_USERS, "session": OWN, "all": "workspace: {root: work}\n"}[place]
    write_agent(tmp_path, of)
    checked = check(tmp_path / "zeus.yaml", directory=tmp_path, environ={}, trust=recorded_trust({}, "all"))
    checked = checked.acting_for("ann", "blue" if place == "project" else None, None)
    files = make_plan(replace(checked, session="ann")).context.workspace
    files.make_root()
    assert files.root != work / "ann"


async def test_a_folder_that_is_made_later_changes_nothing_for_a_user(tmp_path: Path, work: Path) -> None:
    """Another agent's tool may make it at any time: a user's folder is the same in each session."""
    async with agent_in(tmp_path, OF_USERS, writing("/a.txt"), Owner("ann")) as agent:
        await agent.run("go")
    (work / "ann").mkdir()
    (work / "ann/b.txt").write_text("planted")
    async with agent_in(tmp_path, OF_USERS, script("Done."), Owner("ann")) as agent:
        await agent.run("go")
        assert [each.path for each in agent.plan.context.workspace.entries()] == ["/a.txt"]


async def test_a_folder_from_before_is_also_found_after_the_plan(tmp_path: Path, work: Path) -> None:
    async with agent_in(tmp_path, OF_USERS, script("Done."), Owner("ann")) as agent:
        (work / "ann").mkdir()
        with pytest.raises(MissingError, match="ann"):
            await agent.run("go")
    assert names_in(work) == ["ann"]


@pytest.mark.parametrize("is_link", [False, True])
async def test_a_file_or_a_link_is_no_folder_from_before(
    tmp_path: Path, work: Path, *, is_link: bool
) -> None:
    if is_link:
        (work / "ann").symlink_to(tmp_path)
    else:
        (work / "ann").write_text("a file")
    async with agent_in(tmp_path, OF_USERS, writing("/a.txt"), Owner("ann")) as agent:
        await agent.run("go")
    assert names_in(work) == ["ann", user_name(["ann"])]


async def test_a_link_in_the_place_of_a_folder_is_refused(tmp_path: Path, work: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (work / user_name(["ann"])).symlink_to(tmp_path / "elsewhere")
    write_agent(tmp_path, OWN.replace("per: session", "per: user"))
    async with agent_in(tmp_path, OWN.replace("per: session", "per: user"), writing("/a.txt")) as agent:
        session = (await agent.run("go")).session  # the config's own user
    assert session
    checked = check(tmp_path / "zeus.yaml", directory=tmp_path, environ={}, trust=recorded_trust({}, "all"))
    with pytest.raises(ConfigError, match="cannot be used"):
        make_plan(checked.acting_for("ann", None, None))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_write_over_the_quota_is_refused_and_counts_without_a_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zeus_runtime.tools import quota

    scans = []
    scanned = quota._scanned
    monkeypatch.setattr(quota, "_scanned", lambda *given: scans.append(given) or scanned(*given))
    files = WorkspaceFiles(tmp_path, quota=Quota(tmp_path, max_bytes=100, max_files=3))
    files.write("/a", b"x" * 60)
    for write in (
        lambda: files.write("/b", b"x" * 41),
        lambda: files.append("/a", b"x" * 41),
        lambda: files.edit("/a", lambda data: data + b"x" * 41, max_bytes=1000),
    ):
        with pytest.raises(WorkspaceError, match="101 bytes, where 100 are allowed"):
            write()
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").stat().st_size == 60
    files.write("/a", b"x" * 100)
    files.edit("/a", lambda data: data[:10], max_bytes=1000)
    files.write("/b", b"")
    files.append("/c", b"x" * 90)
    with pytest.raises(WorkspaceError, match="4 files, where 3 are allowed"):
        files.write("/d", b"")
    files.remove("/b")
    files.write("/d", b"")
    assert len(scans) == 1
    (tmp_path / "d").write_bytes(b"x" * 50)
    assert files.quota is not None
    assert files.quota.problem() == "150 bytes, where 100 are allowed"
    with pytest.raises(WorkspaceError, match="151 bytes"):
        files.append("/c", b"x")
    files.write("/d", b"x")
    assert len(scans) == 2


def test_a_count_that_is_forgotten_during_a_write_knows_the_write(tmp_path: Path) -> None:
    quota = Quota(tmp_path, max_bytes=100, max_files=3)
    with quota.taking(60, 1):
        (tmp_path / "a").write_bytes(b"x" * 20)
        quota.forget()
        assert quota.problem() is None, "of what is there"
        with pytest.raises(WorkspaceError), quota.taking(50, 1):
            raise AssertionError
        (tmp_path / "a").write_bytes(b"x" * 60)
    with quota.taking(40, 1):
        (tmp_path / "b").write_bytes(b"x" * 40)
    with pytest.raises(WorkspaceError, match="101 bytes"), quota.taking(1, 1):
        raise AssertionError


def test_a_count_that_is_forgotten_while_files_are_scanned_is_counted_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zeus_runtime.tools import quota as counting

    quota, scanned = Quota(tmp_path, max_bytes=100), counting._scanned

    def scan(*given: Any) -> counting.Held:
        monkeypatch.undo()
        found = scanned(*given)
        (tmp_path / "by a program").write_bytes(b"x" * 90)
        quota.forget()
        return found

    monkeypatch.setattr(counting, "_scanned", scan)
    with quota.taking(5, 0):
        pass
    with pytest.raises(WorkspaceError, match="110 bytes"), quota.taking(20, 0):
        raise AssertionError


async def test_after_a_command_the_files_are_counted(tmp_path: Path) -> None:
    yaml = "workspace: {root: ., quota: {bytes: 200000}}\n"
    model = script(
        calling(call("run_command", "s", command="head -c 300000 /dev/zero > big")),
        calling(call("write_file", "w", path="/more.txt", content="x")),
        calling(call("run_command", "t", command="rm big")),
        calling(call("write_file", "v", path="/more.txt", content="x")),
        "Done.",
    )
    async with agent_in(tmp_path, yaml, model, tools="[filesystem, {shell: {contain: none}}]") as agent:
        session = (await agent.run("go")).session
        first, second, third, fourth = [
            str(each.content) for each in await agent.history(session) if each.type == "tool"
        ]
    assert "The workspace is too large" in first
    assert "would be too large" in second
    assert "too large" not in third + fourth
    assert (tmp_path / "more.txt").read_text() == "x"


async def test_a_missing_root_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises((ConfigError, MissingError), match="work"):
        agent_in(tmp_path, OWN, script("x"))


async def test_a_sessions_search_in_a_knowledge_base_keeps_the_rules_of_its_workspace(
    tmp_path: Path, work: Path
) -> None:
    yaml = (
        "workspace: {root: work, per: session, access: {'private/**': deny}}\n"
        "knowledge: [notes]\nmemory: {embeddings: static}\n"
        "middlewares: [{approve: {mode: run_everything, ask: [{'*': {path: 'asked/**'}}]}}]\n"
    )
    listed = calling(
        call("search_knowledge_base", "s", query="codeword of the merger"), call("list_knowledge_bases", "l")
    )
    model = script("Hello.", listed, "Done.", listed, "Again.")
    async with agent_in(tmp_path, yaml, model, tools="[knowledge]") as agent:
        session = (await agent.run("hello")).session
        for name in ("open", "private", "asked"):
            (work / session / name).mkdir()
            (work / session / name / "plan.md").write_text(
                f"# Plan\n\nThe codeword of the merger is {name}-1.\n"
            )
        await agent.knowledge.add("notes", [work / session])
        await agent.run("search", session=session)
        found, bases = [str(each.content) for each in model.requests[-1].messages if each.type == "tool"]
        assert "open-1" in found
        assert "private-1" not in found
        assert "asked-1" not in found
        assert "reading needs an approval" in found
        assert "2 documents" in bases
        # Another session's plan, closed or not, leaves the agent's own bases open.
        assert (await agent.knowledge.search("codeword", names=["notes"])).hits
        await agent.run("search", session=session)


async def test_an_agent_of_this_machine_does_not_work_on_a_session_of_a_services_user(
    tmp_path: Path, work: Path
) -> None:
    yaml = "workspace: {root: work, per: user}\nmiddlewares: [approve]\n"
    ann = Owner("ann")
    async with agent_in(tmp_path, yaml, writing("note.txt"), ann) as hers:
        _ = [event async for event in hers.stream("Write it.")]
        (pending,) = await hers.pending_approvals()
    session, before = pending.session, names_in(work)
    async with agent_in(tmp_path, yaml, script("Mine.")) as agent:
        for refused in (
            agent.decide(session, {pending.id: Decision("approve", always=True)}),
            agent.run("And another.", session=session),
            anext(agent.resume(session)),
            agent.compact(session),
            agent.artifacts(session),
        ):
            with pytest.raises(UsageError, match=f"{session} is a session of ann, a user of `zeus serve`"):
                await refused
        shown = (await agent.previewed(pending.id)).preview
        assert shown is not None
        assert [each.after for each in shown.changes] == ["mine"]
        assert await agent.latest_session() is None
        assert [each.session for each in await agent.sessions()] == [session]
        assert names_in(work) == before
        own = (await agent.run("Say it.")).session
        assert await agent.latest_session() == own
    async with agent_in(tmp_path, yaml, writing("note.txt"), ann) as hers:
        assert await hers.latest_session() == session
        await hers.decide(session, {pending.id: Decision("approve")})
        _ = [event async for event in hers.resume(session)]
    written = {each.partition("~")[0]: names_in(work / each) for each in names_in(work)}
    assert written == {"ann": ["note.txt"], "local": []}
