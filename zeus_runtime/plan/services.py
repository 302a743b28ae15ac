"""The services that components share: memory, knowledge bases, further models, sandboxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from zeus_runtime.config import ConfigError
from zeus_runtime.frozen import dataclass
from zeus_runtime.middleware.contexts import PlanContext
from zeus_runtime.models.profiles import lookup
from zeus_runtime.plan.components import PlannedComponent, inner_component, planned_component
from zeus_runtime.plan.executed_parts import permit
from zeus_runtime.plan.redaction import masked_by, opened_embedder
from zeus_runtime.tools.own_programs import OwnPrograms
from zeus_runtime.tools.sandboxes import Sandboxes

if TYPE_CHECKING:
    from zeus_runtime.config import Config, Ref
    from zeus_runtime.knowledge.files import FoundFile
    from zeus_runtime.knowledge.service import FileRules, KnowledgeService
    from zeus_runtime.memory.embedding import Embedder
    from zeus_runtime.memory.service import MemoryService
    from zeus_runtime.memory.vectors import VectorStore
    from zeus_runtime.models.interface import Model
    from zeus_runtime.models.profiles import ModelProfile
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.tools import WorkspaceFiles
    from zeus_runtime.tools.sandbox import SandboxBackend


@dataclass(frozen=True)
class PlannedMemory:
    """The components of long-term memory."""

    embeddings: PlannedComponent
    vector_store: PlannedComponent
    backend: PlannedComponent


def plan_context(
    checked: Checked,
    config: Config,
    profile: ModelProfile,
    workspace: WorkspaceFiles,
    memory: PlannedMemory | None,
) -> PlanContext:
    """The context of a plan, which its components are created with.

    Args:
        checked: the checked config.
        config: its config, in the mode it runs in.
        profile: the model's limits and prices.
        workspace: the agent's files.
        memory: the components of long-term memory.

    Raises:
        ConfigError: a threshold of the memory does not fit.
    """

    # The services create their components at first use, when the context that holds the services is complete.
    def context() -> PlanContext:
        return made

    # The plans of an agent's sessions use the agent's memory, which holds connections.
    lent = checked.lender
    made = PlanContext(
        config=config,
        directory=checked.directory,
        homes=checked.homes,
        environ=checked.environ,
        process_environ=checked.process_environ,
        own_programs=OwnPrograms(
            checked.process_environ,
            # Also those of the other agents of a service: one of them may have written the program.
            lambda: (*checked.work, *checked.work_beside),
        ),
        profile=profile,
        workspace=workspace,
        memory=lent.memory if lent else None if memory is None else _memory_service(checked, memory, context),
        knowledge=_knowledge(checked, context),
        sandboxes=Sandboxes(lambda ref: _sandbox_backend(checked, made, ref)),
        profile_of=lambda name: lookup(
            name, overrides=config.profiles, homes=checked.homes, table=checked.model_table()
        ),
        open_component=lambda kind, ref: inner_component(checked, kind, ref, made),
        permit=lambda command: permit(checked, command),
        closing=AsyncExitStack(),
        learn=checked.secrets.learn,
        hides=lambda data: _hides(checked, data),
    )
    return made


def _hides(checked: Checked, data: bytes) -> bool:
    from zeus_runtime.tools.masked_text import masked_bytes

    return masked_bytes(data, masked_by(checked.config, checked.secrets)) != data


def _of_project(
    checked: Checked, context: Callable[[], PlanContext]
) -> tuple[Checked, Callable[[], PlanContext]]:
    """A config and its context as the knowledge bases see them: they stay in the project's own database."""
    if checked.apart is None:
        return checked, context
    config = checked.document.config()
    return replace(checked, config=config, apart=None), lambda: replace(context(), config=config)


def planned_memory(checked: Checked) -> PlannedMemory | None:
    """The components of long-term memory, from the config; None where it has no memory."""
    config = checked.config.memory
    if config is None:
        return None
    from zeus_runtime.config import Ref
    from zeus_runtime.memory.embedding_choice import create_embeddings

    if config.extract != "off" and config.backend is not None and config.backend.name != "database":
        message = f"facts are extracted only into the memory backend database, not into {config.backend.name}"
        hint = "Remove `extract`, or remove `backend`."
        raise ConfigError(
            [checked.diagnostic("memory-extraction", message, ("memory", "extract"), hint=hint)]
        )
    chosen = create_embeddings(config.user, choices={}, configured=config.embeddings)
    return PlannedMemory(
        planned_component(checked, "embedding", chosen, ("memory", "embeddings")),
        planned_vectors(checked),
        planned_component(checked, "memory", config.backend or Ref("database"), ("memory", "backend")),
    )


def planned_vectors(checked: Checked) -> PlannedComponent:
    """The vector store of memory and of knowledge bases; without one, that of the database's own transactions."""
    from zeus_runtime.config import Ref

    memory = checked.config.memory
    chosen = None if memory is None else memory.vector_store
    ref = chosen or Ref(_vectors_beside(checked.config.storage.url))
    return planned_component(checked, "vector_store", ref, ("memory", "vector_store"))


def _vectors_beside(url: str) -> str:
    """The vector store that writes in the same transactions as this database."""
    return "pgvector" if url.startswith("postgres") else "sqlite"


def _memory_service(
    checked: Checked, planned: PlannedMemory, context: Callable[[], PlanContext]
) -> MemoryService:
    """Long-term memory on behalf of the config's user and project; it opens itself at first use."""
    from zeus_runtime.memory.items import Caller, MemorySettingError, MemorySettings
    from zeus_runtime.memory.opened import MemorySource
    from zeus_runtime.memory.service import MemoryService

    def open_chosen(user: str, choice: Ref) -> Embedder:
        from zeus_runtime.plan.chosen_embeddings import chosen_embedder

        return chosen_embedder(checked, user, choice, context())

    config = checked.config
    assert config.memory is not None
    try:
        settings = MemorySettings(**vars(config.memory.thresholds))
    except MemorySettingError as error:
        where = ("memory", "thresholds", error.where or "")
        raise ConfigError([checked.diagnostic(error.code, error.message, where, hint=error.remedy)]) from None
    source = MemorySource(
        config.storage.url,
        checked.directory,
        open_vectors=lambda: planned.vector_store.create(context()),
        open_embedder=lambda: opened_embedder(checked, planned.embeddings, context()),
        open_chosen=open_chosen,
        open_offline=next(iter(_offline(checked, context)), None),
        settings=settings.overridden(checked.environ),
        secrets=checked.secrets,
        masked=masked_by(config, checked.secrets),
        open_backend=lambda: planned.backend.create(context()),
    )
    project = config.memory.project
    return MemoryService(source, Caller(config.memory.user, project, config.memory.role if project else None))


def knowledge_service(checked: Checked, context: Callable[[], PlanContext]) -> KnowledgeService:
    """The knowledge bases of the config's user and project, with the embedding model and vector store of the memory."""
    from zeus_runtime.config import Ref
    from zeus_runtime.config.model import Memory
    from zeus_runtime.knowledge.service import KnowledgeService
    from zeus_runtime.memory.embedding_choice import create_embeddings
    from zeus_runtime.memory.items import Caller

    def open_chosen(user: str, choice: Ref) -> Embedder:
        from zeus_runtime.plan.chosen_embeddings import chosen_embedder

        return chosen_embedder(checked, user, choice, context())

    config = checked.config
    memory = config.memory or Memory()
    ref = create_embeddings(memory.user, choices={}, configured=memory.embeddings)
    planned = planned_component(checked, "embedding", ref, ("memory", "embeddings"))
    vectors = planned_vectors(checked)
    beside = Ref(_vectors_beside(config.storage.url))
    is_elsewhere = (
        vectors.name != beside.name and ("vector_store", beside.name) in checked.registry.components
    )

    def open_former() -> VectorStore:
        former = planned_component(checked, "vector_store", beside, ("memory", "vector_store"))
        made: VectorStore = former.create(context())
        return made

    return KnowledgeService(
        config.storage.url,
        checked.directory,
        open_vectors=lambda: vectors.create(context()),
        open_former=open_former if is_elsewhere else None,
        open_embedder=lambda: opened_embedder(checked, planned, context()),
        open_chosen=open_chosen,
        open_offline=_offline(checked, context),
        caller=Caller(memory.user, memory.project, memory.role if memory.project else None),
        linked=config.knowledge,
        secrets=masked_by(config, checked.secrets),
        error_secrets=checked.secrets,
        rules=_file_rules(context),
    )


def _knowledge(checked: Checked, context: Callable[[], PlanContext]) -> KnowledgeService | None:
    """The knowledge bases that the config links; those of the lender, under the rules of this plan's workspace."""
    if checked.lender is None:
        return knowledge_service(*_of_project(checked, context)) if checked.config.knowledge else None
    lent = checked.lender.knowledge
    return None if lent is None else lent.under(_file_rules(context))


def _file_rules(context: Callable[[], PlanContext]) -> FileRules:
    from zeus_runtime.knowledge.service import FileRules

    def read(found: FoundFile) -> bytes:
        from zeus_runtime.knowledge.files import read_allowed

        return read_allowed(found, context().workspace)

    return FileRules(
        refusal_of=lambda file: context().workspace.refusal_of(file),
        refusal_of_stored=lambda file: context().workspace.refusal_of_stored(file),
        read=read,
        needs_question=lambda file: context().workspace.needs_question(file),
        lasting=lambda file: context().workspace.lasting(file),
        leads_out=lambda file: context().workspace.leads_out(file),
    )


def _offline(checked: Checked, context: Callable[[], PlanContext]) -> Sequence[Callable[[], Embedder]]:
    """Makes the embedding model that needs neither a key nor a network; empty where its plugin is off."""
    from zeus_runtime.config import Ref

    if ("embedding", "static") not in checked.registry.components:
        return ()

    def made() -> Embedder:
        planned = planned_component(checked, "embedding", Ref("static"), ("memory", "embeddings"))
        return opened_embedder(checked, planned, context())

    return (made,)


def model_of(checked: Checked, context: PlanContext, ref: str | Ref) -> Model:
    """Another model by its name or Ref, wrapped in retry."""
    from zeus_runtime.config import Ref
    from zeus_runtime.models.retry import with_retry

    chosen = Ref("litellm", {"model": ref}) if isinstance(ref, str) else ref
    model: Model = planned_component(checked, "model", chosen, ("middlewares",)).create(context)
    return with_retry(model, context.config.retry)


def _sandbox_backend(checked: Checked, context: PlanContext, ref: Ref) -> SandboxBackend:
    """The sandbox backend that a tool's option names."""
    made: SandboxBackend = inner_component(checked, "sandbox", ref, context)
    return made
