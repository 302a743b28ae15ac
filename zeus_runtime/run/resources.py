"""The resources of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.context import Archive
from zeus_runtime.middleware.protocol import Middleware
from zeus_runtime.models.interface import Model
from zeus_runtime.models.profiles import ModelProfile
from zeus_runtime.prompt import Section
from zeus_runtime.prompt.project import NO_PROJECT, ProjectSection
from zeus_runtime.run.approvals import ApprovalBroker
from zeus_runtime.run.notes import RunNotes
from zeus_runtime.run.toolbox import Toolbox
from zeus_runtime.run.usage import UsageMeter

if TYPE_CHECKING:
    from zeus_runtime.config import Limits
    from zeus_runtime.config.model import ModelChain
    from zeus_runtime.context.prompt_cost import ToolCounts
    from zeus_runtime.context.tokens import Counter
    from zeus_runtime.memory.service import MemoryService
    from zeus_runtime.plan.output import PlannedOutput
    from zeus_runtime.run.delegated_task import Delegate
    from zeus_runtime.run.links import ChainedModel, PolicyModel
    from zeus_runtime.tools import WorkspaceFiles


@dataclass(frozen=True)
class RunResources:
    """The resources of a run, shared by every run of an agent except for the middlewares, which are new for each run.

    Args:
        model: the model, wrapped in retry.
        toolbox: all tools, including those that the mode hides.
        middlewares: (name, instance) in YAML order.
        stable: the text of sections 1 to 6.
        clock_section: section 7's text, made once per run.
        limits: steps, seconds, cost and repetitions after which the run stops.
        profile: the model's limits and prices.
        output_reserve_tokens: tokens of the window reserved for the answer.
        reasoning: the settings of a request that ask the model to reason.
        meter: counts the run's usage.
        counter: counts tokens as the model's provider does.
        tool_counts: the tokens of the tools, counted once for all runs.
        archive: receives the originals before an edit.
        approvals: asks the run's user.
        workspace: the agent's files.
        notes: what the run's middlewares store for a resume.
        secrets: masked in everything that the model is sent and the log keeps.
        known: all known secrets, masked in events; ``secrets`` has none of them if the config allows them to the model.
        delegate: gives tasks to the plan's agents; None in a simulation.
        project: the project's instructions, read once per run.
        output: the form of the answer; None for a text.
        agent: the agent's name.
        chain: the models of a chain, of which ``model`` is the first; empty for a single model.
        chain_rules: the settings of the chain; None for a single model.
        memory: the session's long-term memory; None without one.
        describes: the model that describes pictures for one that takes none; None for none.
        follow: makes the middlewares' context and the meter follow another model of the chain.
    """

    model: Model
    toolbox: Toolbox
    middlewares: Sequence[tuple[str, Middleware]]
    stable: Mapping[Section, str]
    clock_section: str
    limits: Limits
    profile: ModelProfile
    output_reserve_tokens: int
    meter: UsageMeter
    counter: Counter
    tool_counts: ToolCounts
    archive: Archive
    approvals: ApprovalBroker
    workspace: WorkspaceFiles
    notes: RunNotes
    delegate: Delegate | None = None
    secrets: Redactor = field(default_factory=Redactor)
    known: Redactor = field(default_factory=Redactor)
    project: ProjectSection = NO_PROJECT
    output: PlannedOutput | None = None
    agent: str = ""
    reasoning: Mapping[str, Any] = field(default_factory=dict)
    chain: Sequence[ChainedModel] = ()
    chain_rules: ModelChain | None = None
    memory: MemoryService | None = None
    describes: PolicyModel | None = None
    follow: Callable[[RunResources], None] = field(default=lambda _resources: None, repr=False)

    def of(self, link: ChainedModel) -> RunResources:
        """The resources for another model of the chain."""
        planned = link.planned
        return replace(
            self,
            model=link,
            profile=planned.profile,
            output_reserve_tokens=planned.output_reserve_tokens,
            reasoning=planned.reasoning,
            counter=planned.token_counter,
            tool_counts=planned.tool_counts,
        )
