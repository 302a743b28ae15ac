"""The agents that a service offers: read again when their files change, opened once for each user."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.agent.agent import Agent
from zeus_runtime.errors import NotFoundError, ZeusError
from zeus_runtime.plan.plan import make_plan

if TYPE_CHECKING:
    from zeus_runtime.models.interface import Model
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.store.event_log import StoredEvent
    from zeus_runtime.store.threads import Owner

_log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""How often the files of a config are looked at, at most."""


@dataclass(frozen=True)
class Version:
    """One content of a config.

    Args:
        checked, plan: the config.
        files: its files, each with its size and time.
    """

    checked: Checked
    plan: Plan
    files: Mapping[Path, tuple[int, int]]


@dataclass
class HostedAgent:
    """One config and the agents made from it.

    Args:
        read: reads and checks the config, as it is now.
        stored: receives the stored events of its sessions.
        model: replaces the config's model; for tests.

    Attributes:
        problem: why the newest content of the files is not used; empty if it is.
    """

    read: Callable[[], Checked]
    stored: Callable[[str, Sequence[StoredEvent]], None]
    model: Model | None = None
    problem: str = ""
    _version: Version = field(init=False)
    _looked: float = field(init=False)
    _agents: dict[Owner | None, Agent] = field(init=False, default_factory=dict)
    _former: list[Agent] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._version = _version(self.read())
        self._looked = time.monotonic()

    @property
    def plan(self) -> Plan:
        """The plan of a turn that begins now."""
        self._look()
        return self._version.plan

    @property
    def name(self) -> str:
        """The agent's name."""
        return self._version.plan.config.name

    def of(self, owner: Owner | None) -> Agent:
        """The agent of a user; turns that began under an earlier content of the config end under it."""
        self._look()
        agent = self._agents.get(owner)
        if agent is None:
            checked = self._version.checked if owner is None else self._version.checked.acting_for(*owner)
            plan = self._version.plan if owner is None else make_plan(checked)
            agent = Agent(checked, plan, model=self.model, owner=owner)
            agent.keep_events(self.stored)
            self._agents[owner] = agent
        return agent

    async def aclose(self) -> None:
        """Cancel all runs and close all agents."""
        for agent in (*self._former, *self._agents.values()):
            await agent.aclose()

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        if _stats(self._version.files) == self._version.files:
            return
        try:
            version = _version(self.read())
        except ZeusError as error:
            # The service keeps the content that it has; `/ready` tells.
            told = str(error)
            if told != self.problem:
                _log.error("the agent %s stays as it was: %s", self.name, told)
            self.problem = told
            return
        self.problem = ""
        self._version = version
        # Their turns continue. Sessions are claimed in the database, so no other agent runs one meanwhile.
        self._former += self._agents.values()
        self._agents = {}


class Hosting:
    """The agents of a service by name."""

    def __init__(self, agents: Sequence[HostedAgent]) -> None:
        self._agents = list(agents)

    def __iter__(self) -> Iterator[HostedAgent]:
        return iter(self._agents)

    def named(self, name: str | None) -> HostedAgent:
        """The agent of that name; without a name the only one.

        Raises:
            NotFoundError: there is none.
        """
        if name is None and len(self._agents) == 1:
            return self._agents[0]
        for each in self._agents:
            if each.name == name:
                return each
        names = ", ".join(sorted(each.name for each in self._agents))
        raise NotFoundError(f"there is no agent {name!r}", remedy=f"The agents are: {names}.")

    async def aclose(self) -> None:
        """Close all agents."""
        for each in self._agents:
            await each.aclose()


def _version(checked: Checked) -> Version:
    files = [*checked.document.files.values()]
    return Version(checked, make_plan(checked), _stats(files))


def _stats(files: Sequence[Path] | Mapping[Path, object]) -> Mapping[Path, tuple[int, int]]:
    found = {}
    for file in files:
        try:
            status = file.stat()
        except OSError:
            found[file] = (-1, -1)
        else:
            found[file] = (status.st_size, status.st_mtime_ns)
    return found
