"""What a component may know while it is created."""

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
    """Refuse every process and address: the ``permit`` of a Build that no checked config made.

    Raises:
        UntrustedError: always.
    """
    from zeus_runtime.trust.decision import UntrustedError

    raise UntrustedError(f"no config allows the server {server.name!r}", (), remedy="run it by a config")


@dataclass(frozen=True)
class Build:
    """Handed to every component's ``create(options, build)``.

    Args:
        config: the whole typed Config.
        directory: the working directory; relative workspace and database paths start here.
        homes: the Home folders, nearest first.
        environ: the process environment with ``.env`` beneath it.
        profile: the model's limits and prices.
        workspace: the agent's files.
        session: the thread's id; empty while only planning.
        model: the running model, for a policy's own calls (``ModelRequest(purpose="summary")``): they count in the
            run's totals and do not reach the user's stream. None while only planning.
        open_model: another model from its name or Ref, its calls counted too.
        last_request: the run's last request that the running model answered, as it was sent: what the provider may
            still have cached.
        profile_of: the limits and prices of a model by name.
        counter: counts tokens as the model's provider does; None while only planning.
        memory: long-term memory on behalf of the config's user and project, and of the session where there is one; it
            opens itself at first use. None where the config has none.
        open_component: another component that a Ref names, of kinds that are plain values (``search``).
        sandboxes: the sandbox backends, which the tools and the middlewares share.
        knowledge: the knowledge bases that the config links; it opens itself at first use. None where it links none.
        archive: the handles under which originals are kept; None while only planning.
        approvals: how the run's user is asked before something is done; None while only planning. A tool asks through
            its ``ToolRun``, since tools are made once for all runs.
        process_environ: the process environment alone, for programs that are started on this machine: a variable of a
            project's ``.env`` (``LD_PRELOAD``) could make them execute something else.
        permit: raises ``UntrustedError`` unless the user allowed a process that is about to be started, or a server's
            address that is about to be called.
        tools: every tool of the agent by name, as they are whenever it is looked at; while middlewares are created,
            those of ``tools:`` and of the lines above.
        secrets: what the run's model sees masked; nothing while only planning.
        learn: masks a secret that is got while the agent runs (a token), given with a name for its placeholder.
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
