"""The subject of an evaluation: a config's plan in a separate folder, with inert tools and scripted models."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.testing.evals.laws import short
from zeus_runtime.testing.evals.provider import ExactProvider, Script
from zeus_runtime.testing.evals.report import EvaluationFinding

if TYPE_CHECKING:
    from zeus_runtime.agent.agent import Agent
    from zeus_runtime.config import Config, Ref
    from zeus_runtime.models.interface import ModelRequest
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.tools import Tool, WorkspaceFiles
    from zeus_runtime.tools.approval import Decision, PendingApproval

KEPT_TOOLSETS: Final = frozenset({"filesystem", "todos"})
"""Toolsets that work as they are, on the evaluation's own folder; all others keep their schemas and do nothing."""

_MAX_STEPS: Final = 20_000


@dataclass(frozen=True)
class Subject:
    """A config to be evaluated.

    Args:
        checked: the config.
        name: ``all``, or the policy that is alone.
        window_tokens: an input limit instead of the model's own; None for that.
    """

    checked: Checked
    name: str = "all"
    window_tokens: int | None = None

    @property
    def config(self) -> Config:
        return self.checked.config

    def override(self, *, name: str | None = None, middlewares: Sequence[Ref] | None = None) -> Subject:
        """This subject with other middlewares."""
        lines = self.config.middlewares if middlewares is None else tuple(middlewares)
        config = replace(self.config, middlewares=lines)
        return replace(self, name=name or self.name, checked=replace(self.checked, config=config))

    def plan(self, folder: Path, tools: Sequence[Tool] = ()) -> Plan:
        """The config's plan on ``folder``, in mode ``agent``, with ``tools`` besides its own.

        Raises:
            ConfigError: the config does not fit together.
            MissingError: a component, its plugin or its dependency is not there.
        """
        from zeus_runtime.plan.plan import make_plan
        from zeus_runtime.plan.tools import PlannedTool
        from zeus_runtime.tools.modes import showing

        folder.mkdir(parents=True, exist_ok=True)
        plan = make_plan(self._apart(folder), mode="agent")
        own = [
            each if each.component in KEPT_TOOLSETS else replace(each, tool=_inert(each.tool))
            for each in plan.tools
        ]
        plugin = plan.checkpointer.plugin
        own += [PlannedTool(tool, showing(tool, "agent"), "evals", plugin) for tool in tools]
        plan = replace(plan, tools=tuple(own))
        if self.window_tokens is None:
            return plan
        profile = replace(plan.profile, max_input_tokens=self.window_tokens, known=True)
        return replace(plan, profile=profile, context=replace(plan.context, profile=profile))

    def _apart(self, folder: Path) -> Checked:
        from zeus_runtime.config import Ref
        from zeus_runtime.config.model import Limits, Storage, Workspace

        routes = {prefix: f"routes/{prefix.strip('/')}" for prefix in self.config.workspace.routes}
        (folder / "workspace").mkdir(exist_ok=True)
        config = replace(
            self.config,
            storage=Storage("sqlite:///evals.db"),
            checkpointer=Ref("sqlite"),
            workspace=Workspace("workspace", routes),
            limits=Limits(max_steps=_MAX_STEPS, timeout_seconds=None),
        )
        registry = replace(self.checked.registry, observers=())
        return replace(self.checked, config=config, directory=folder, registry=registry)


def _inert(tool: Tool) -> Tool:
    async def nothing(**_arguments: Any) -> str:
        return "This tool does nothing in an evaluation."

    return replace(tool, function=nothing, takes_run=False)


@dataclass(frozen=True)
class Bench:
    """A running subject.

    Args:
        agent: the agent.
        provider: the model that answers it.
        plan: the agent's plan.
    """

    agent: Agent
    provider: ExactProvider
    plan: Plan

    @property
    def files(self) -> WorkspaceFiles:
        return self.plan.context.workspace

    async def run(self, prompt: str, session: str | None = None) -> tuple[str, list[EvaluationFinding]]:
        """One run; the session's id, and a finding if the run did not complete."""
        result, failure = await self.answer(prompt, session)
        return result, [failure] if isinstance(failure, EvaluationFinding) else []

    async def answer(self, prompt: str, session: str | None = None) -> tuple[str, str | EvaluationFinding]:
        """One run; the session's id, and its answer or why there is none."""
        from zeus_runtime.agent.result import FailedRunError

        try:
            result = await self.agent.run(prompt, session=session, approvals=_Approving())
        except FailedRunError as error:
            steps = len(self.provider.turns)
            return error.session, EvaluationFinding(
                "run-failed", steps, "the run did not end well", short(error.message)
            )
        return result.session, result.answer


@asynccontextmanager
async def running(
    subject: Subject,
    folder: Path,
    script: Script,
    summarise: Callable[[ModelRequest], str],
    tools: Sequence[Tool] = (),
) -> AsyncIterator[Bench]:
    """``subject`` with a scripted model, to be run.

    Args:
        folder: where its files and its database are.
        script: what the model does.
        summarise: what it answers to a policy's own calls.
        tools: besides the config's own.
    """
    from zeus_runtime.agent.agent import Agent
    from zeus_runtime.context.tokens import counter_for

    plan = subject.plan(folder, tools)
    provider = ExactProvider(plan.profile, counter_for(plan.profile), script, summarise)
    plan = replace(plan, open_model=lambda _ref: provider)
    async with Agent(subject.checked, plan, model=provider) as agent:
        yield Bench(agent, provider, plan)


def policies(subject: Subject, folder: Path) -> Mapping[str, Ref]:
    """The middlewares that propose edits, by name, in the order of the YAML."""
    from zeus_runtime.middleware.chain import overrides

    middlewares = subject.plan(folder).middlewares
    proposing = [each.name for each in middlewares if overrides(each.loaded, "edits")]
    return {ref.name: ref for ref in subject.config.middlewares if ref.name in proposing}


class _Approving:
    """The user of an evaluation, who approves every call: nothing behind the tools is real."""

    async def ask(self, pending: PendingApproval) -> Decision | None:
        from zeus_runtime.tools.approval import Decision

        return Decision("approve")
