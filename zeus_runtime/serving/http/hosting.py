"""The agents that a service offers: read again when their files change, opened once for each user."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from zeus_runtime.agent.agent import Agent
from zeus_runtime.errors import NotFoundError, ZeusError
from zeus_runtime.plan.plan import make_plan

if TYPE_CHECKING:
    from zeus_runtime.models.interface import Model
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.store.event_log import StoredEvent
    from zeus_runtime.store.threads import Owner
    from zeus_runtime.trust.decision import Trust

_log = logging.getLogger(__name__)


class EditedConfig(NamedTuple):
    """A config that is only checked.

    Args:
        text: instead of the content of its file.
        trust: what the check may execute.
    """

    text: str
    trust: Trust


class ConfigReader(Protocol):
    """Reads and checks a config."""

    def __call__(self, sets: Sequence[str], edited: EditedConfig | None = None, /) -> Checked:
        """The config as it is now, or as it would be.

        Args:
            sets: overrides such as ``limits.max_steps=5``.
            edited: a text in place of the file's.

        Raises:
            ZeusError: it is not valid.
        """
        ...


LOOK_SECONDS: Final = 1.0
"""How often the files of a config are looked at, at most."""


@dataclass
class HostedAgent:
    """One config and the agents made from it.

    Args:
        read: reads and checks the config.
        stored: receives the stored events of its sessions.
        model: replaces the config's model; for tests.

    Attributes:
        problem: why the newest content of the files is not used; empty if it is.
        checked: the content that is used.
    """

    read: ConfigReader
    stored: Callable[[str, Sequence[StoredEvent]], None]
    model: Model | None = None
    problem: str = ""
    checked: Checked = field(init=False)
    _files: Mapping[Path, tuple[int, int]] = field(init=False)
    _looked: float = field(init=False)
    _agents: dict[Owner | None, Agent] = field(init=False, default_factory=dict)
    _former: list[Agent] = field(init=False, default_factory=list)
    _beside: tuple[Checked, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        self._use(self.read(()))
        self._looked = time.monotonic()

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.checked.config.name

    @property
    def plan(self) -> Plan:
        """The plan of a turn that begins now."""
        return self.of(None).plan

    def of(self, owner: Owner | None) -> Agent:
        """The agent of a user; turns that began under an earlier content of the config end under it."""
        agent = self._agents.get(owner)
        if agent is None:
            checked = replace(self.checked, beside=self._beside)
            if owner is not None:
                checked = checked.acting_for(*owner)
            agent = Agent(checked, make_plan(checked), model=self.model, owner=owner)
            agent.keep_events(self.stored)
            self._agents[owner] = agent
        return agent

    def examined(self, text: str) -> Checked:
        """The config with another text in its file, checked; only what the present file executes may be executed.

        Raises:
            ZeusError: it is not valid, or its check would execute something else.
        """
        from zeus_runtime.plan.parts_with_subagents import all_parts
        from zeus_runtime.trust.decision import Trust

        try:
            present = self.read(())  # again: a database that the service made since is a part too
        except ZeusError:
            present = self.checked
        allowed = {each.digest for each in all_parts(present) if present.trust.allows(each)}
        return self.read((), EditedConfig(text, Trust(frozenset(allowed), present.trust.records)))

    def stand_beside(self, others: Sequence[Checked]) -> None:
        """Close the files of the other agents' configs to this agent's tools."""
        if (beside := tuple(others)) != self._beside:
            self._beside = beside
            self._let_go()

    async def aclose(self) -> None:
        """Cancel all runs and close all agents."""
        for agent in (*self._former, *self._agents.values()):
            await agent.aclose()

    def look(self) -> bool:
        """Read the config again if its files have changed; whether there is a new content."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return False
        self._looked = now
        if _stats(self._files) == self._files:
            return False
        try:
            checked = self.read(())
            make_plan(checked)
        except ZeusError as error:
            # The service keeps the content that it has; `/ready` tells.
            told = str(error)
            if told != self.problem:
                _log.error("the agent %s stays as it was: %s", self.name, told)
            self.problem = told
            return False
        self.problem = ""
        self._use(checked)
        self._let_go()
        return True

    def _use(self, checked: Checked) -> None:
        self.checked = checked
        self._files = _stats(checked.document.files.values())

    def _let_go(self) -> None:
        # Their turns continue. Sessions are claimed in the database, so no other agent runs one meanwhile.
        self._former += self._agents.values()
        self._agents = {}


class Hosting:
    """The agents of a service by name."""

    def __init__(self, agents: Sequence[HostedAgent]) -> None:
        self._agents = list(agents)
        self._introduce()

    def __iter__(self) -> Iterator[HostedAgent]:
        self.look()
        return iter(self._agents)

    def look(self) -> None:
        """Read the configs again whose files have changed."""
        changed = [each for each in self._agents if each.look()]
        if changed:
            self._introduce()

    def named(self, name: str | None) -> HostedAgent:
        """The agent of that name; without a name the only one.

        Raises:
            NotFoundError: there is none.
        """
        agents = list(self)
        if name is None and len(agents) == 1:
            return agents[0]
        for each in agents:
            if each.name == name:
                return each
        names = ", ".join(sorted(each.name for each in agents))
        raise NotFoundError(f"there is no agent {name!r}", remedy=f"The agents are: {names}.")

    def _introduce(self) -> None:
        for each in self._agents:
            each.stand_beside([other.checked for other in self._agents if other is not each])

    async def aclose(self) -> None:
        """Close all agents."""
        for each in self._agents:
            await each.aclose()


def _stats(files: Iterable[Path]) -> Mapping[Path, tuple[int, int]]:
    found = {}
    for file in files:
        try:
            status = file.stat()
        except OSError:
            found[file] = (-1, -1)
        else:
            found[file] = (status.st_size, status.st_mtime_ns)
    return found
