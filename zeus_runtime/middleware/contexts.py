"""The two contexts that components are created with: an agent's, which planning has too, and a run's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from zeus_runtime.config import Config, Redactor, Ref
    from zeus_runtime.context import Archive
    from zeus_runtime.context.tokens import Counter
    from zeus_runtime.knowledge.service import KnowledgeService
    from zeus_runtime.memory.service import MemoryService
    from zeus_runtime.models import Model, ModelProfile, ModelRequest
    from zeus_runtime.registry import Kind
    from zeus_runtime.tools import Tool, WorkspaceFiles
    from zeus_runtime.tools.approval import Approvals
    from zeus_runtime.tools.own_programs import OwnPrograms
    from zeus_runtime.tools.sandboxes import Sandboxes
    from zeus_runtime.trust.parts import Command, Remote


@dataclass(frozen=True)
class PlanContext:
    """The context of a plan, which exists without a run: models, tools and all kinds but middlewares get it.

    These components belong to the agent: each is created once and shared by all runs. Tools are also created for
    `zeus validate` and `zeus plan`, which run nothing.

    Args:
        config: the whole typed Config.
        directory: the working directory; relative workspace and database paths start here.
        homes: the Home folders, nearest first.
        environ: the process environment, with ``.env`` for the variables that it lacks.
        process_environ: the process environment alone, for programs that are started on this machine: a variable from a
            project's ``.env`` (``LD_PRELOAD``) could make them execute something else.
        own_programs: finds the programs that a component starts without asking; they are never the agent's own files.
        profile: the model's limits and prices.
        workspace: the agent's files.
        memory: long-term memory on behalf of the config's user and project; it opens itself at first use. None where
            the config has no ``memory``.
        knowledge: the knowledge bases that the config links; it opens itself at first use. None where the config links
            none.
        sandboxes: the sandbox backends, shared by the tools and the middlewares.
        profile_of: returns the limits and prices of a model by name.
        open_component: opens another component that a Ref names, of kinds that are plain values (``search``).
        permit: raises ``UntrustedError`` unless the user has allowed a process that is about to start, or a server's
            address that is about to be called.
        closing: closes what components keep open, when the agent is closed; a component pushes a callback each time
            that it opens something.
        learn: adds a secret that is obtained while the agent lives (a token), with a name for its placeholder.
        hides: whether bytes hold a secret that the model must not see; a picture cannot be masked.
    """

    config: Config
    directory: Path
    homes: tuple[Path, ...]
    environ: Mapping[str, str]
    process_environ: Mapping[str, str] = field(repr=False)
    own_programs: OwnPrograms = field(repr=False)
    profile: ModelProfile
    workspace: WorkspaceFiles
    memory: MemoryService | None = field(repr=False)
    knowledge: KnowledgeService | None = field(repr=False)
    sandboxes: Sandboxes = field(repr=False)
    profile_of: Callable[[str], ModelProfile] = field(repr=False)
    open_component: Callable[[Kind, Ref], Any] = field(repr=False)
    permit: Callable[[Command | Remote], None] = field(repr=False)
    closing: AsyncExitStack = field(repr=False)
    learn: Callable[[str, str], None] = field(repr=False)
    hides: Callable[[bytes], bool] = field(repr=False)

    @property
    def takes_pictures(self) -> bool:
        """Whether the model gets pictures, or descriptions of them by the model of ``models.vision``."""
        return self.profile.vision or self.config.models.vision is not None


class Notes(Protocol):
    """Values that a run's middlewares store in the session's database: the same run finds them after a resume.

    Known secrets are masked in them.
    """

    async def get(self, name: str) -> Any:
        """The value that this run stored under ``name``, as JSON; None if there is none."""
        ...

    async def put(self, name: str, value: Any) -> None:
        """Store a value that JSON can hold, under a name that the run has not used yet.

        When this returns, the value is in the database.

        Raises:
            LogConflictError: the run has a note of that name, or another process has claimed the session.
        """
        ...


@dataclass(frozen=True)
class RunContext(PlanContext):
    """The context of one run, which its middlewares are created with.

    Its ``memory`` also acts on behalf of the session. With a chain of models, ``model``, ``profile`` and ``counter``
    become those of the next model when the chain moves on: read them when they are needed, and keep no copy.

    Args:
        session: the session's id.
        model: the model for a policy's own calls (``ModelRequest(purpose="summary")``): that of ``models.summary``,
            else the running model. The calls count in the run's totals and do not reach the user's stream.
        open_model: opens another model by its name or Ref; its calls count too.
        last_request: returns the run's last request that the running model answered, as it was sent; the provider may
            still have it cached. None before the first answer.
        counter: counts tokens as the model's provider does.
        archive: the handles under which originals are stored.
        approvals: asks the run's user before an action. A tool asks through its ``ToolRun``.
        tools: every tool of the run by name, as a live mapping.
        secrets: masked in everything that the run's model sees.
        notes: values that the run stores, to find them again when it is resumed.
        notify: emits a notice for the person who reads the events: its code, and its text.
        model_profile: the limits and prices of ``model``: those of ``models.summary``, else ``profile`` itself.
    """

    session: str
    model: Model = field(repr=False)
    open_model: Callable[[str | Ref], Model] = field(repr=False)
    last_request: Callable[[], ModelRequest | None] = field(repr=False)
    counter: Counter = field(repr=False)
    archive: Archive = field(repr=False)
    approvals: Approvals = field(repr=False)
    tools: Mapping[str, Tool] = field(repr=False)
    secrets: Redactor = field(repr=False)
    notes: Notes = field(repr=False)
    notify: Callable[[str, str], None] = field(repr=False)
    model_profile: ModelProfile

    def follow(self, model: Model, profile: ModelProfile, counter: Counter) -> None:
        """Become the context of another model of the chain, for all who hold it.

        Args:
            model: for policies' own calls; that of ``models.summary`` stays.
        """
        # Before the values below replace `profile`: the same object means that no model of `models.summary` is
        # configured.
        own = profile if self.model_profile is self.profile else self.model_profile
        values = {"model": model, "profile": profile, "counter": counter, "model_profile": own}
        for name, value in values.items():
            # In place although it is frozen: every middleware holds this object, and none could be given another.
            object.__setattr__(self, name, value)
