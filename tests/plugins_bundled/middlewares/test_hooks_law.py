"""A law of hooks: their answers never widen what the config allows, and they run in the order of the lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zeus_plugins.middlewares.hooks import asking
from zeus_plugins.middlewares.hooks.answers import HookFailedError
from zeus_plugins.middlewares.hooks.options import Match, Options, ToolHook

from tests.support.agents import script, write_agent
from zeus_runtime import Agent
from zeus_runtime.middleware.chain import chain
from zeus_runtime.plan.plan import Plan
from zeus_runtime.plugin.approval import AskMode, AskModes
from zeus_runtime.plugin.tool import ToolCall, ToolResult
from zeus_runtime.run.approvals import ApprovalBroker
from zeus_runtime.run.assembly import run_resources

PATHS = ("/open/a", "/ruled/a", "/closed/a", "/open/../ruled/b", "//closed/./b", "/link/c")
DENIED = ("/ruled", "/closed")
"""By a rule of `approve`, and by `workspace.access`; `/link` leads to the first."""

ANSWERS = st.one_of(
    st.just({}),
    st.builds(lambda path: {"arguments": {"path": path, "content": "x"}}, st.sampled_from(PATHS)),
    st.just({"arguments": {"content": "x"}}),
    st.just({"context": "more"}),
    st.just({"decision": "allow"}),
    st.just({"decision": "deny", "reason": "no"}),
    st.just("fails"),
)
HOOKS = st.lists(
    st.builds(
        lambda answer, number, path, on_failure: ToolHook(
            ("hook", str(number), json.dumps(answer)), match=Match("write_*", path), on_failure=on_failure
        ),
        ANSWERS,
        st.integers(0, 9),
        st.sampled_from([(), "ruled/**", "open/**"]),
        st.sampled_from(["deny", "continue"]),
    ),
    max_size=5,
)


class Silent(ApprovalBroker):
    """Has asked nothing."""

    async def settled(self, *_: object, **__: object) -> None:
        return None

    async def mode(self, modes: AskModes) -> AskMode:
        return modes.configured


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Plan]:
    folder = tmp_path_factory.mktemp("law")
    (folder / "ruled").mkdir()
    (folder / "link").symlink_to("ruled")
    rule = {"approve": {"mode": "run_everything", "deny": [{"*": {"path": "ruled/**"}}]}}
    config = write_agent(
        folder,
        f"middlewares: {json.dumps([{'hooks': {'before_tool_call': [{'command': ['true']}]}}, rule])}\n"
        "workspace: {access: {'/closed/**': deny}}\n",
        tools="[filesystem]",
    )
    plan = Agent.from_config(config, directory=folder, model=script("done")).plan
    return lambda: plan


def matching(hook: ToolHook, path: str) -> bool:
    """What the law says that a match means; links and dots are followed."""
    place = {"/open/../ruled/b": "/ruled/b", "/link/c": "/ruled/c"}.get(path, path)
    return not hook.match.paths or place.startswith("/" + hook.match.paths[0].removesuffix("**"))


def expected(hooks: Sequence[ToolHook], path: str) -> tuple[list[str], list[str], str | None]:
    """The hooks that are started, those that fail, and the path that the call gets; None if it is denied."""
    began: list[str] = []
    failed: list[str] = []
    for hook in hooks:
        if not matching(hook, path):
            continue
        began.append(hook.command[1])
        answer = json.loads(hook.command[2])
        fails = answer == "fails" or "path" not in answer.get("arguments", {"path": path})
        failed += [hook.command[1]] if fails else []
        if hook.on_failure == "deny" if fails else answer.get("decision") == "deny":
            return began, failed, None
        if not fails:
            path = answer.get("arguments", {"path": path})["path"]
    return began, failed, path


@given(hooks=HOOKS, path=st.sampled_from(PATHS))
async def test_no_answers_of_hooks_widen_what_the_config_denies_and_their_order_holds(
    planned: Callable[[], Plan], hooks: list[ToolHook], path: str
) -> None:
    plan = planned()
    began: list[str] = []
    ran: list[str] = []

    async def answers(words: Sequence[str], _given: bytes, **_: object) -> bytes:
        began.append(words[1])
        if words[2] == '"fails"':
            raise HookFailedError("failed")
        return words[2].encode()

    first, rest = plan.middlewares[0], plan.middlewares[1:]
    hooked = replace(plan, middlewares=(replace(first, value=Options(before_tool_call=tuple(hooks))), *rest))
    broker = Silent()
    resources = run_resources(hooked, script("done"), "session_000000000000", broker)
    files = resources.workspace

    async def tool(call: ToolCall) -> ToolResult:
        if files.write_refusal(call.arguments["path"]) is not None:
            return ToolResult("refused by the workspace", is_error=True)
        ran.append(call.arguments["path"])
        return ToolResult("written")

    def asked(given: ToolCall) -> Any:
        return chain(resources.middlewares, "wrap_tool_call", tool, ToolResult)(given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asking, "answer_from", answers)
        await asked(ToolCall("c1", "write_file", {"path": path, "content": "x"}))
        should_begin, failed, reaches = expected(hooks, path)
        assert began == should_begin
        real = [str(Path(files.real(each))) for each in ran]
        assert not [each for each in real if each.startswith(DENIED)]
        assert ran == ([reaches] if reaches is not None and reaches == "/open/a" else [])
        # The same call again: the run has noted the decisions, so only hooks that failed are started.
        again = len(ran)
        await asked(ToolCall("c1", "write_file", {"path": path, "content": "x"}))
        assert began == [*should_begin, *failed]
        assert ran[again:] == ran[:again]
