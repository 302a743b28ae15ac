"""The context that a component is created with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from zeus_runtime.config import Config, Ref
    from zeus_runtime.context import Archive
    from zeus_runtime.context.tokens import Counter
    from zeus_runtime.knowledge.service import KnowledgeService
    from zeus_runtime.memory.service import MemoryService
    from zeus_runtime.models import Model, ModelProfile, ModelRequest
    from zeus_runtime.plan.sandboxes import Sandboxes
    from zeus_runtime.registry import Kind
    from zeus_runtime.tools import Tool, WorkspaceFiles
    from zeus_runtime.tools.approval import Approvals
    from zeus_runtime.trust.parts import Command, Remote


def refuse(server: Command | Remote) -> None:
    """Refuse every process and address: the ``permit`` of a Build that was not made from a checked config.

    Raises:
        UntrustedError: always.
    """
    from zeus_runtime.trust.decision import UntrustedError

    raise UntrustedError(f"no config allows the server {server.name!r}", (), remedy="run it by a config")


@dataclass(frozen=True)
class Build:
    """The context for every component's ``create(options, build)``.

    Args:
        config: the whole typed Config.
        directory: the working directory; relative workspace and database paths start here.
        homes: the Home folders, nearest first.
        environ: the process environment, with ``.env`` for the variables that it lacks.
        profile: the model's limits and prices.
        workspace: the agent's files.
        session: the session's id; empty while only planning.
        model: the running model, for a policy's own calls (``ModelRequest(purpose="summary")``): they count in the
            run's totals and do not reach the user's stream. None while only planning.
        open_model: opens another model by its name or Ref; its calls count too.
        last_request: returns the run's last request that the running model answered, as it was sent; the provider may
            still have it cached.
        profile_of: returns the limits and prices of a model by name.
        counter: counts tokens as the model's provider does; None while only planning.
        memory: long-term memory on behalf of the config's user and project, and of the session where there is one; it
            opens itself at first use. None where the config has no memory.
        open_component: opens another component that a Ref names, of kinds that are plain values (``search``).
        sandboxes: the sandbox backends, shared by the tools and the middlewares.
        knowledge: the knowledge bases that the config links; it opens itself at first use. None without a linked base.
        archive: the handles under which originals are stored; None while only planning.
        approvals: asks the run's user before an action; None while only planning. A tool asks through its ``ToolRun``,
            since tools are created once for all runs.
        process_environ: the process environment alone, for programs that are started on this machine: a variable from a
            project's ``.env`` (``LD_PRELOAD``) could make them execute something else.
        permit: raises ``UntrustedError`` unless the user has allowed a process that is about to start, or a server's
            address that is about to be called.
        tools: every tool of the agent by name, as a live mapping; while middlewares are created, the tools of
            ``tools:`` and of the middlewares above.
        secrets: masked in everything that the run's model sees; empty while only planning.
        learn: adds a secret that is obtained during the run (a token), with a name for its placeholder.
    """

    config: Config
    directory: Path
    homes: tuple[Path, ...]
    environ: Mapping[str, str]
    profile: ModelProfile
    workspace: WorkspaceFiles
    session: str = ""
    model: Model | None = field(default=None, repr=False)
    open_model: Callable[[str | Ref], Model] | None = field(default=None, repr=False)
    last_request: Callable[[], ModelRequest | None] | None = field(default=None, repr=False)
    profile_of: Callable[[str], ModelProfile] | None = field(default=None, repr=False)
    counter: Counter | None = field(default=None, repr=False)
    memory: MemoryService | None = field(default=None, repr=False)
    open_component: Callable[[Kind, Ref], Any] | None = field(default=None, repr=False)
    sandboxes: Sandboxes | None = field(default=None, repr=False)
    knowledge: KnowledgeService | None = field(default=None, repr=False)
    archive: Archive | None = field(default=None, repr=False)
    approvals: Approvals | None = field(default=None, repr=False)
    process_environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    permit: Callable[[Command | Remote], None] = field(default=refuse, repr=False)
    tools: Mapping[str, Tool] = field(default_factory=dict, repr=False)
    secrets: Redactor = field(default_factory=Redactor, repr=False)
    learn: Callable[[str, str], None] = field(default=lambda secret, name: None, repr=False)
