"""Sessions with their own middlewares: a fork under other policies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from tests.support.agents import call, calling, script, write_agent
from zeus_runtime import Agent
from zeus_runtime.agent.session_plans import SessionPlans
from zeus_runtime.config.messages.diagnostics import ConfigError
from zeus_runtime.errors import UsageError
from zeus_runtime.trust.decision import UntrustedError

LONG = "word " * 900
EVICTING = "- eviction: {max_tokens: 100}\n"
SECRET = "sk-live-0123456789abcdef"


def agent_of(folder: Path, *answers: Any, yaml: str = "middlewares: []\n", **given: Any) -> tuple[Agent, Any]:
    model = script(*answers)
    config = write_agent(folder, yaml)
    return Agent.from_config(
        config, directory=folder, model=model, environ={"API_KEY": SECRET}, **given
    ), model


def result_sent(model: Any) -> str:
    """The tool's result in the newest request."""
    return next(str(each.content) for each in model.requests[-1].messages if each.type == "tool")


async def resumed(agent: Agent, session: str) -> None:
    async for _ in agent.resume(session):
        pass


@pytest.mark.parametrize("per", ["null", "session"])
async def test_a_fork_keeps_its_policies_in_later_runs_and_gives_them_to_its_forks(
    tmp_path: Path, per: str, database_url: str
) -> None:
    store = "postgres" if database_url.startswith("postgres") else "sqlite"
    yaml = (
        f"middlewares: []\nworkspace: {{per: {per}, root: work}}\n"
        f"storage: {{url: {json.dumps(database_url)}}}\ncheckpointer: {store}\n"
    )
    (tmp_path / "work").mkdir()
    first = calling(call("echo", "a", text=LONG))
    agent, model = agent_of(tmp_path, first, "Done.", "Again.", "More.", "Mine.", yaml=yaml)
    async with agent:
        session = (await agent.run("go")).session
        assert LONG.strip() in result_sent(model)
        fork = await agent.fork(session, step=2, middlewares=EVICTING)
        await resumed(agent, fork)
        assert len(result_sent(model)) < 1500
        await agent.run("and now?", session=session)
        assert LONG.strip() in result_sent(model), "the session itself has the policies of the config"
        assert (await agent.own_middlewares(session), await agent.own_middlewares(fork)) == (None, EVICTING)
    agent, model = agent_of(tmp_path, "After.", "Twice.", "Back.", yaml=yaml)
    async with agent:
        await agent.run("after a restart", session=fork)
        assert len(result_sent(model)) < 1500
        twice = await agent.fork(fork, step=2)
        await agent.archive(twice)
        await agent.restore(twice)
        await resumed(agent, twice)
        assert len(result_sent(model)) < 1500
        back = await agent.fork(twice, step=2, middlewares="[]")
        await resumed(agent, back)
        assert LONG.strip() in result_sent(model)


@pytest.mark.parametrize(
    ("policies", "error", "said"),
    [
        ("- evicton: {max_tokens: 100}\n", ConfigError, "did you mean"),
        ("- eviction: {max_tokns: 100}\n", ConfigError, "max_tokens"),
        ("- eviction: [", ConfigError, "middlewares"),
        ("- eviction: {max_tokens: ${MOST}}\n", UsageError, "variable"),
        (f"- recall: {{note: {SECRET}}}\n", UsageError, "secret"),
    ],
)
async def test_policies_that_cannot_be_had_begin_no_session(
    tmp_path: Path, policies: str, error: Any, said: str
) -> None:
    agent, _ = agent_of(tmp_path, "Done.", "Again.")
    async with agent:
        session = (await agent.run("go")).session
        with pytest.raises(error) as raised:
            await agent.fork(session, step=1, middlewares=policies)
        assert said.lower() in str(raised.value).lower()
        assert [each.session for each in await agent.sessions()] == [session]


async def test_policies_of_a_session_execute_nothing_untrusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZEUS_TRUST")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    model = script("Done.")
    (tmp_path / "zeus.yaml").write_text("version: 1\nname: plain\nmodel: x\nmiddlewares: []\n")
    hook = "- hooks: {before_run: [{command: [touch, ran]}]}\n"
    async with Agent.from_config("zeus.yaml", directory=tmp_path, model=model, environ={}) as agent:
        session = (await agent.run("go")).session
        with pytest.raises(UntrustedError) as refused:
            await agent.fork(session, step=1, middlewares=hook)
        # `zeus trust zeus.yaml` alone shows no hook.
        assert "`zeus trust zeus.yaml --set 'middlewares=…'`" in str(refused.value.remedy)
        assert [each.session for each in await agent.sessions()] == [session]


ELSEWHERE = "- summarization: {model: {litellm: {model: openai/gpt-5.2, api_base: 'https://models.example.net/v1'}}}\n"


@pytest.mark.parametrize(("given", "is_allowed"), [("file", False), ("all", True)])
async def test_a_permission_for_the_config_is_none_for_other_policies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, is_allowed: bool
) -> None:
    """Who may fork is not who may write the file that `ZEUS_TRUST` names."""
    file = tmp_path / "zeus.yaml"
    monkeypatch.setenv("ZEUS_TRUST", str(file) if given == "file" else given)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file.write_text("version: 1\nname: plain\nmodel: x\nmiddlewares: []\n")
    async with Agent.from_config("zeus.yaml", directory=tmp_path, model=script("Done."), environ={}) as agent:
        session = (await agent.run("go")).session
        if is_allowed:
            await agent.fork(session, step=1, middlewares=ELSEWHERE)
            return
        with pytest.raises(UntrustedError, match="api_base"):
            await agent.fork(session, step=1, middlewares=ELSEWHERE)
        assert [each.session for each in await agent.sessions()] == [session]


async def test_a_session_keeps_what_a_given_config_itself_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "zeus.yaml"
    monkeypatch.setenv("ZEUS_TRUST", str(file))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file.write_text(f"version: 1\nname: plain\nmodel: x\nmiddlewares:\n{ELSEWHERE}")
    async with Agent.from_config("zeus.yaml", directory=tmp_path, model=script("Done."), environ={}) as agent:
        session = (await agent.run("go")).session
        policies = f"{ELSEWHERE}- eviction: {{max_tokens: 100}}\n"
        fork = await agent.fork(session, step=1, middlewares=policies)
        assert await agent.own_middlewares(fork) == policies


@pytest.mark.parametrize(
    "policies",
    [
        "[]",
        "- approve: {mode: run_everything}\n",
        "- approve: {mode: ask, deny: [fail]}\n- eviction: {max_tokens: 100}\n",
        "- hooks: {before_run: [{command: ['true']}]}\n- approve: {mode: ask}\n",
    ],
)
async def test_a_fork_keeps_the_approvals_and_hooks_of_its_config(tmp_path: Path, policies: str) -> None:
    yaml = "middlewares:\n- approve: {mode: ask}\n"
    agent, _ = agent_of(tmp_path, "Done.", "Again.", yaml=yaml)
    async with agent:
        session = (await agent.run("go")).session
        with pytest.raises(UsageError, match="judge calls"):
            await agent.fork(session, step=1, middlewares=policies)
        fork = await agent.fork(
            session, step=1, middlewares="- approve: {mode: ask}\n- eviction: {max_tokens: 100}\n"
        )
        await resumed(agent, fork)


GUARDS = """
from dataclasses import dataclass

from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.files import Ruling
from zeus_runtime.plugin.middleware import Middleware


class Quiet(Middleware):
    async def wrap_model_call(self, request, call_next):
        return await call_next(request)


class Gate(Middleware):
    async def wrap_run(self, turn, call_next):
        await call_next(turn)


class Shaping(Quiet):
    judges = False


class Closing:
    def ruling(self, reached, kind, tool):
        return Ruling("deny", "the department closes it") if kind == "write" else None


@dataclass(frozen=True)
class Rules:
    closed: tuple[str, ...] = ()

    def access_layer(self, mode):
        return Closing()


class Department(Middleware):
    pass


@hookimpl
def register_middlewares():
    return [
        Component("quiet", Quiet),
        Component("gate", Gate),
        Component("shaping", Shaping),
        Component("department", Department, Rules),
        Component("policy", Shaping, Rules),
    ]
"""


@pytest.mark.parametrize("guard", ["quiet", "gate", "department", "policy"])
async def test_a_fork_keeps_a_plugins_middleware_that_may_judge(tmp_path: Path, guard: str) -> None:
    (tmp_path / "guards.py").write_text(GUARDS)
    yaml = f"middlewares: [{guard}, shaping, recall, caching]\n"
    rules = ["[department: {closed: [a]}]"] if guard == "department" else []
    write_agent(tmp_path, yaml)
    text = (tmp_path / "zeus.yaml").read_text().replace("files: [", "files: [guards.py, ")
    (tmp_path / "zeus.yaml").write_text(text)
    async with Agent.from_config(
        tmp_path / "zeus.yaml", directory=tmp_path, model=script("Done."), environ={}
    ) as agent:
        session = (await agent.run("go")).session
        for policies in ("[]", "[recall, caching]", "[gate, quiet]", *rules):
            with pytest.raises(UsageError, match="judge calls"):
                await agent.fork(session, step=1, middlewares=policies)
        # The others are context policies: they say so, or wrap nothing.
        await agent.fork(session, step=1, middlewares=f"[{guard}]")
        await agent.fork(
            session, step=1, middlewares=f"[{{eviction: {{max_tokens: 100}}}}, shaping, {guard}]"
        )


NOTES = """
from dataclasses import dataclass

from zeus_runtime.plugin import Component, Secret, hookimpl
from zeus_runtime.plugin.middleware import Middleware


@dataclass(frozen=True)
class Options:
    pin: Secret = ""
    far: dict[str, str] | None = None


class Notes(Middleware):
    pass


@hookimpl
def register_middlewares():
    return [Component("notes", Notes, Options)]
"""
NEW = "blue-Fork-4711-owl"
HOLDING = [
    pytest.param(f"- notes: {{pin: {NEW}}}\n", id="by type"),
    pytest.param("- notes: {pin: ab}\n", id="short"),
    pytest.param(f"- notes: {{far: {{api_key: {NEW}}}}}\n", id="by name"),
    pytest.param(f"- notes: {{far: {{url: 'https://ann:{NEW}@x.example/'}}}}\n", id="in an address"),
]


def with_notes(folder: Path, *answers: Any) -> tuple[Agent, Any]:
    (folder / "notes.py").write_text(NOTES)
    config = write_agent(folder, "middlewares: [notes]\n")
    config.write_text(config.read_text().replace("files: [", "files: [notes.py, "))
    model = script(*answers)
    return Agent.from_config(config, directory=folder, model=model, environ={}), model


@pytest.mark.parametrize("policies", HOLDING)
async def test_policies_of_a_fork_hold_no_secret_by_name_or_type(tmp_path: Path, policies: str) -> None:
    agent, _ = with_notes(tmp_path, f"Done with {NEW}.")
    async with agent:
        session = (await agent.run("go")).session
        with pytest.raises(UsageError, match="hold a secret") as raised:
            await agent.fork(session, step=1, middlewares=policies)
        assert "environment variable" in str(raised.value)
        assert NEW not in str(raised.value)
        assert [each.session for each in await agent.sessions()] == [session]
        said = str((await agent.history(session))[-1].content)
        assert said == f"Done with {NEW}.", "a text that was refused is no secret of the agent"
        await agent.fork(session, step=1, middlewares="- notes: {far: {name: owl}}\n")


@pytest.mark.parametrize("policies", [each for each in HOLDING if each.id != "short"])
async def test_a_secret_in_policies_that_were_stored_before_is_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policies: str
) -> None:
    first = calling(call("echo", "a", text=f"It is {NEW}."))
    agent, model = with_notes(tmp_path, first, "Done.", "Again.")
    async with agent:
        session = (await agent.run("go")).session
        with monkeypatch.context() as patched:
            patched.setattr(SessionPlans, "check", AsyncMock())
            fork = await agent.fork(session, step=2, middlewares=policies)
        shown = await agent.own_middlewares(fork)
        assert shown is not None
        assert NEW not in shown
        assert "notes" in shown
        await resumed(agent, fork)
        assert NEW not in str(model.requests[-1].messages)
        assert "<secret:middlewares.0.notes" in result_sent(model)
        assert NEW not in str(await agent.history(session))


async def test_a_short_secret_in_policies_that_were_stored_before_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, _ = with_notes(tmp_path, "Done.")
    async with agent:
        session = (await agent.run("go")).session
        with monkeypatch.context() as patched:
            patched.setattr(SessionPlans, "check", AsyncMock())
            fork = await agent.fork(session, step=1, middlewares="- notes: {pin: ab}\n")
        assert await agent.own_middlewares(fork) == "- notes:\n    pin: '**********'\n"
