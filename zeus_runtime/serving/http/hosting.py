"""The agents that a service offers: read again when their files change, opened once for each user."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar
from weakref import WeakSet

from zeus_runtime.agent.agent import Agent
from zeus_runtime.config.messages.diagnostics import ConfigError
from zeus_runtime.config.secrets.masking import Learned, Redactor
from zeus_runtime.config.yaml.reader import decode
from zeus_runtime.errors import NotFoundError, UsageError, ZeusError
from zeus_runtime.plan.edited_configs import EditedConfigs, closed_beside
from zeus_runtime.plan.plan import make_plan
from zeus_runtime.store.service_keys import KEY_FORM
from zeus_runtime.tools.moved_links import FollowedDeciding
from zeus_runtime.tools.run_to_completion import all_tried

if TYPE_CHECKING:
    from zeus_runtime.config.document import Document
    from zeus_runtime.config.secrets.secret_files import SecretFiles
    from zeus_runtime.models.interface import Model
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.store.event_log import StoredEvent
    from zeus_runtime.store.threads import Owner
    from zeus_runtime.trust.decision import Trust

T = TypeVar("T")

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


MOST_TOKENS: Final = 32
"""Of each user, the newest tokens of an issuer are secrets of the user's agents: it makes new ones all the time."""
MOST_FORMER: Final = 256
"""So many secrets of former contents of a config stay masked, the newest: their issuers may still accept them."""
LOOK_SECONDS: Final = 1.0
"""How often the files of a config are looked at, and a plan that failed is made again, at most."""


class _Failed(NamedTuple):
    """A plan that could not be made, and when."""

    at: float
    error: Exception


@dataclass
class HostedAgent:
    """One config and the agents made from it.

    Args:
        read: reads and checks the config.
        stored: receives the stored events of its sessions.
        model: replaces the config's model; for tests.
        now: the clock, in seconds.

    Attributes:
        problem: why the newest content of the files is not used; empty if it is.
        away: why its database cannot be used since the service began; empty once it is used.
        checked: the content that is used.
        family: the configs of its sub-agents, and its own.
    """

    read: ConfigReader
    stored: Callable[[str, Sequence[StoredEvent]], None]
    model: Model | None = None
    problem: str = ""
    away: str = ""
    now: Callable[[], float] = time.monotonic
    checked: Checked = field(init=False)
    _files: Mapping[Path, _Stats] = field(init=False)
    _looked: float = field(init=False)
    _looked_at_texts: float = field(init=False)
    _looks: Mapping[SecretFiles, SecretFiles] = field(init=False)
    _edited: EditedConfigs = field(init=False)
    _agents: dict[Owner | None, Agent] = field(init=False, default_factory=dict)
    _used: dict[Owner | None, float] = field(init=False, default_factory=dict)
    _failed: dict[Owner | None, _Failed] = field(init=False, default_factory=dict)
    _former: list[tuple[Owner | None, Agent]] = field(init=False, default_factory=list)
    family: tuple[Checked, ...] = field(init=False, default=())
    _beside: tuple[Checked, ...] = field(init=False, default=())
    _closed_later: WeakSet[FollowedDeciding] = field(init=False, default_factory=WeakSet)
    _learned: Learned = field(init=False, default_factory=Learned)
    _former_secrets: Learned = field(init=False, default_factory=lambda: Learned(MOST_FORMER))
    _tokens: dict[Owner | None, Learned] = field(init=False, default_factory=dict)
    _preparing: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._use(_family_of(self.read(())), {})
        self._looked = self._looked_at_texts = self.now()

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.checked.config.name

    @property
    def is_planned(self) -> bool:
        """Whether the last try to plan the agent did not fail."""
        return None not in self._failed

    @property
    def plan(self) -> Plan:
        """The plan of a turn that begins now."""
        return self.of(None).plan

    def of(self, owner: Owner | None) -> Agent:
        """The agent of a user; turns that began under an earlier content of the config end under it.

        Raises:
            Exception: it cannot be planned.
        """
        agent = self._agents.get(owner)
        if agent is None:
            if owner in self._failed:
                # Not planned again here, in the event loop: `prepare` does that.
                raise self._failed[owner].error.with_traceback(None)
            checked = self._for(owner)
            agent = self._opened(checked, make_plan(checked), owner)
        # At each request, so that `let_idle_go` takes no agent that was just asked for.
        self._used[owner] = self.now()
        return agent

    async def prepare(self, owner: Owner | None) -> None:
        """Plan the agent of a user in a thread, if there is none yet, so that ``of`` has it at once.

        Raises:
            Exception: it cannot be planned; soon afterwards, the same error without another try.
        """
        if owner in self._agents:
            return
        async with self._preparing:
            # Another request may have planned it while this one waited for the lock.
            if owner not in self._agents:
                await self._plan_of(owner)

    async def _plan_of(self, owner: Owner | None) -> None:
        former = self._failed.get(owner)
        if former is not None and self.now() - former.at < LOOK_SECONDS:
            raise former.error.with_traceback(None)
        checked = self._for(owner)
        try:
            plan = await asyncio.to_thread(make_plan, checked)
        except Exception as error:
            if checked == self._for(owner):
                self._failed[owner] = _Failed(self.now(), error)
                self._tell_failed(error, former)
            raise
        # Meanwhile the config may have changed, or `of` may have planned one: an older plan must not win.
        if checked == self._for(owner):
            self._failed.pop(owner, None)
            if owner not in self._agents:
                self._used[owner] = self.now()
                self._opened(checked, plan, owner)

    def _tell_failed(self, error: Exception, former: _Failed | None) -> None:
        if former is None or _as_told(former.error) != _as_told(error):
            is_known = isinstance(error, ZeusError)
            words = "the agent %s cannot be planned: %s"
            _log.error(words, self.name, self.masked(_as_told(error)), exc_info=None if is_known else error)

    def problem_of(self, owner: Owner | None) -> str:
        """Why the newest content of the files is not used, or the agent cannot be planned for a user; else empty."""
        failed = self._failed.get(None) or self._failed.get(owner)
        return self.problem or ("" if failed is None else _as_told(failed.error))

    async def database_problem(self) -> str:
        """Why the config's database cannot be used now; empty if it can."""
        from zeus_runtime.store.database import Database
        from zeus_runtime.store.schema import ready

        config = self.checked.config
        try:
            database = Database(config.storage.url, directory=self.checked.directory)
            try:
                await ready(database)
            finally:
                await database.close()
        except ZeusError as error:
            return str(self.masked(str(error)))
        return ""

    def masked(self, value: Any) -> Any:
        """A text or JSON value without the secrets that the config and its tools brought so far; needs no plan."""
        return self.checked.secrets.json(value)

    def _for(self, owner: Owner | None) -> Checked:
        checked = self.checked if owner is None else self.checked.acting_for(*owner)
        return checked.knowing(self._tokens_of(owner)).for_one_user()

    def _tokens_of(self, owner: Owner | None) -> Learned:
        return self._tokens.setdefault(owner, Learned(MOST_TOKENS))

    def know(self, owner: Owner | None, token: str) -> None:
        """Mask an issuer's token with which a user is logged in, in the user's agents."""
        # By its digest, not by a number, which would depend on the order of logins.
        self._tokens_of(owner).add(token, f"ZEUS_TOKEN-{sha256(token.encode()).hexdigest()[:4]}")

    def _opened(self, checked: Checked, plan: Plan, owner: Owner | None) -> Agent:
        agent = Agent(checked, plan, model=self.model, owner=owner, is_hosted=True)
        agent.keep_events(self.stored)
        self._agents[owner] = agent
        return agent

    @property
    def open(self) -> Sequence[Owner | None]:
        """The users whose agents are open, the longest unused first."""
        return sorted(self._agents, key=lambda each: self._used[each])

    async def let_idle_go(
        self, is_busy: Callable[[Owner | None], bool], *, most: int, idle_seconds: float
    ) -> None:
        """Close agents that nobody uses: idle ones, the longest unused beyond ``most``, and those of a former config.

        The agent of no user stays. A later request opens an agent again.

        Args:
            is_busy: whether a user has a turn that runs, or an open request.
        """
        idle = [each for each in self.open if each is not None and not is_busy(each)]
        over = max(0, len(self._agents) - most)
        late = self.now() - idle_seconds
        self._failed = {each: failed for each, failed in self._failed.items() if failed.at > late}
        going = [each for place, each in enumerate(idle) if place < over or self._used[each] <= late]
        # Before the first await: a request that comes meanwhile opens a new agent and finds none half closed.
        closing = [self._agents.pop(each) for each in going]
        for each in going:
            del self._used[each]
        self._tokens = {
            each: tokens
            for each, tokens in self._tokens.items()
            if each is None or each in self._agents or is_busy(each)
        }
        # A turn holds its agent until it ends, so an agent of a former config waits for its user to be idle.
        former, self._former = self._former, []
        for owner, agent in former:
            if is_busy(owner) or agent.is_running:
                self._former.append((owner, agent))
            else:
                closing.append(agent)
        await all_tried(*(each.aclose for each in closing))

    def examined(self, text: str) -> Checked:
        """The config with another text in its file, checked; only what the present file executes may be executed.

        Raises:
            ZeusError: it is not valid, or its check would execute something else.
        """
        from zeus_runtime.plan.parts_with_subagents import all_parts

        try:
            present = self.read(())  # again: a database that the service made since is a part too
        except ZeusError:
            present = self.checked
        # By digest: an edited part with the name of an allowed one is another part.
        allowed = {each.digest for each in all_parts(present) if present.trust.allows(each)}
        inside = tuple(_layer_places(_family_of(present)))
        trust = replace(present.trust, given=frozenset(allowed), digests=frozenset(), work=(), inside=inside)
        return self.read((), EditedConfig(text, trust))

    async def with_middlewares(self, text: str | None, *, are_new: bool = False) -> Checked:
        """The config as it is now, with other ``middlewares`` unless ``text`` is None; read in a thread.

        Args:
            are_new: these are not those of a session, and may hold no secret.

        Raises:
            ZeusError: it is not valid, or its check would execute what neither the config has nor the user allowed.
        """

        def read() -> Checked:
            from zeus_runtime.plan.parts_with_subagents import all_parts

            present = self._remembering(self.read(()))
            return (
                present
                if text is None
                else present.with_middlewares(text, all_parts(present), are_new=are_new)
            )

        return await asyncio.to_thread(read)

    def stand_beside(self, others: Sequence[Checked], learned: Learned) -> None:
        """Close the files of the other agents and of their sub-agents to this agent's tools, and mask their secrets.

        Args:
            learned: what the agents of the service learn later.
        """
        former, self._beside = self._beside, tuple(others)
        self._learned = learned
        self._stand()
        if self._beside != former:
            self._let_go()

    async def close_files(self, others: Sequence[Checked]) -> None:
        """Close the files of these configs too, to all turns: of this content of the config, and of former ones."""
        found = await asyncio.to_thread(closed_beside, self.checked, others)
        for each in self._closed_later:
            each.take(found)

    async def close_edited(
        self, close: Callable[[Sequence[Checked]], Awaitable[None]], *, always: bool = False
    ) -> None:
        """Close what the texts name that decide about the agent, if one was edited; looked at once in a while only.

        Args:
            close: closes the files of configs to the turns of the service.
            always: now, edited or not.
        """
        now = self.now()
        if always or now - self._looked_at_texts >= LOOK_SECONDS:
            self._looked_at_texts = now
            await asyncio.to_thread(self._look_at_texts)
            await self._edited.close(close, always=always)

    def _look_at_texts(self) -> None:
        for each in self._looks.values():
            each.changed()

    async def aclose(self) -> None:
        """Cancel all runs and close all agents."""
        agents = (*(each for _, each in self._former), *self._agents.values())
        await all_tried(*(each.aclose for each in agents))

    def is_due(self) -> bool:
        """Whether the files have changed since the config was read; looked at once in a while only."""
        now = self.now()
        if now - self._looked < LOOK_SECONDS:
            return False
        self._looked = now
        return _stats(self._files) != self._files

    async def read_again(
        self,
        taken: Collection[str] = (),
        close: Callable[[Sequence[Checked]], Awaitable[None]] | None = None,
    ) -> bool:
        """Read the config again, in a thread; whether there is a new content that is valid.

        Args:
            taken: the names of the other agents.
            close: closes the files of configs to the turns of the service.
        """
        # Looked at before they are read, so that a change in between is found by the next look.
        before = _stats(self._files)
        try:
            if close is not None:
                # The check may execute files. Those of a text with a mistake are executed once it is corrected.
                await self.close_edited(close, always=True)
            family = await asyncio.to_thread(self._read_and_planned)
            if (name := family[-1].config.name) in taken:
                raise UsageError(
                    f"another agent of the service has the name {name!r}",
                    remedy="Give each agent its own `name:`.",
                )
            if close is not None:
                await close(family)
        except Exception as error:  # noqa: BLE001 - one config keeps neither the others nor requests from going on
            # The service keeps the content that it has; `/ready` tells.
            is_known = isinstance(error, ZeusError)
            told = _as_told(error)
            if told != self.problem:
                _log.error("the agent %s stays as it was: %s", self.name, told, exc_info=not is_known)
            self.problem = told
            return False
        self.problem = ""
        # Not in the thread: requests open agents meanwhile.
        self._use(family, before)
        self._let_go()
        return True

    def _read_and_planned(self) -> tuple[Checked, ...]:
        checked = self.read(())
        make_plan(checked)
        return _family_of(checked)

    def _use(self, family: tuple[Checked, ...], before: Mapping[Path, _Stats]) -> None:
        self.family = family
        self._stand()
        files = {file for each in family for file in (*each.document.files.values(), *each.document.further)}
        # Known only now: if its content is another one already, the next look must find a change.
        new = _stats(files - before.keys())
        stale = {file for each in family for file in _differing(each.document, new)}
        self._files = {
            **{file: _CHANGED if file in stale else status for file, status in new.items()},
            # The look from before the reading counts: a file that changed since differs at the next one.
            **{each: before[each] for each in files & before.keys()},
        }

    def _stand(self) -> None:
        """Use the newest content of the config beside the other agents; what was masked until now stays so."""
        former: Checked | None = getattr(self, "checked", None)
        # Each content has its own, so that a file which no config names any more is open again.
        later = FollowedDeciding()
        self._closed_later.add(later)
        beside = replace(self.family[-1].standing_beside(self._beside), closed_later=later)
        self.checked = self._remembering(beside)
        self._looks = {each.secret_files: each.secret_files.copy() for each in self.family}
        self._edited = EditedConfigs(self.checked, self.family[:-1], self._looks)
        if former is not None:
            self.checked.secrets.keep(former.secrets, self._former_secrets)

    def _remembering(self, checked: Checked) -> Checked:
        return checked.knowing(self._learned).knowing(self._former_secrets)

    def _let_go(self) -> None:
        # Their turns continue. Sessions are claimed in the database, so no other agent runs one meanwhile.
        self._former += self._agents.items()
        self._agents, self._used, self._failed = {}, {}, {}


class Hosting:
    """The agents of a service by name.

    Attributes:
        learned: secrets that became known since the service began; every agent masks them.

    Raises:
        UsageError: two have one name.
    """

    def __init__(self, agents: Sequence[HostedAgent]) -> None:
        names = [each.name for each in agents]
        for name in names:
            if names.count(name) > 1:
                raise UsageError(
                    f"two configs have the name {name!r}", remedy="Give each agent its own `name:`."
                )
        self._agents = list(agents)
        self._looking = asyncio.Lock()
        self._looked = float("-inf")
        self.learned: Final = Learned(form=KEY_FORM)
        self._introduce()

    def __iter__(self) -> Iterator[HostedAgent]:
        return iter(self._agents)

    async def look(self) -> None:
        """Read the configs again whose files have changed; meanwhile requests use the former ones."""
        # A request that comes meanwhile does not wait for the reading: the former config is good enough.
        if self._looking.locked():
            return
        async with self._looking:
            await self._learn_of_folders()
            due = [each for each in self._agents if each.is_due()]
            is_new = [
                each for each in due if await each.read_again(self._names_beside(each), self._close_files)
            ]
            if is_new:
                self._introduce()
            # Also of texts that no agent has loaded, such as the settings of the service.
            for each in self._agents:
                try:
                    # A new content of another config closes nothing of those that have a problem.
                    await each.close_edited(self._close_files, always=bool(is_new and each.problem))
                except Exception as error:  # noqa: BLE001 - as in `read_again`
                    _log.error("the files of the agent %s stay open: %s", each.name, _as_told(error))

    async def _learn_of_folders(self) -> None:
        """Mask the secrets of a config that a person adds to a folder of the service, also in turns that run."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        for each in self._served:
            found = Redactor().adding(await asyncio.to_thread(each.changed))
            Redactor(learned=(self.learned,)).learn_all(found)

    async def _close_files(self, family: Sequence[Checked]) -> None:
        for each in self._agents:
            await each.close_files(family)

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

    def _names_beside(self, agent: HostedAgent) -> set[str]:
        return {each.name for each in self._agents if each is not agent}

    def _introduce(self) -> None:
        for each in self._agents:
            others = [one for other in self._agents if other is not each for one in other.family]
            each.stand_beside(others, self.learned)
        # The look of one agent is enough: all have the same folders, and mask what it finds.
        first = (each.checked for each in self._agents[:1] if each.checked.service_folders)
        self._served = [each.secret_files.of_service(each.service_folders) for each in first]

    async def aclose(self) -> None:
        """Close all agents."""
        await all_tried(*(each.aclose for each in self._agents))


async def sought(
    agents: Iterable[HostedAgent],
    owner: Owner | None,
    look: Callable[[HostedAgent, Agent], Awaitable[T | None]],
) -> T | None:
    """What the first of the agents finds, also if another one cannot be read.

    Raises:
        Exception: none finds it, and this one could not be read: it may be there.
    """
    failed: Exception | None = None
    for hosted in agents:
        try:
            found = await look(hosted, hosted.of(owner))
        except Exception as error:  # noqa: BLE001 - raised below, unless another agent has it
            failed = failed or error
        else:
            if found is not None:
                return found
    if failed is not None:
        raise failed
    return None


async def read_each(
    agents: Iterable[HostedAgent],
    owner: Owner | None,
    read: Callable[[HostedAgent, Agent], Awaitable[T]],
) -> tuple[Sequence[T], Mapping[str, Exception]]:
    """What each of the agents gives, and why others could not be read, by their names.

    Raises:
        Exception: no agent could be read.
    """
    found: list[T] = []
    unread: dict[str, Exception] = {}
    for hosted in agents:
        try:
            found.append(await read(hosted, hosted.of(owner)))
        except Exception as error:  # noqa: BLE001 - each has a database of its own
            unread[hosted.name] = error
    if unread and not found:
        raise next(iter(unread.values()))
    for name, why in unread.items():
        _log.warning("the agent %s is missing in an answer: %s: %s", name, type(why).__name__, why)
    return found, unread


def _as_told(error: Exception) -> str:
    return str(error) if isinstance(error, ZeusError) else f"{type(error).__name__}: {error}"


def _family_of(checked: Checked) -> tuple[Checked, ...]:
    from zeus_runtime.plan.parts_with_subagents import agents_below

    return (*agents_below(checked), checked)


def _layer_places(family: Iterable[Checked]) -> Iterator[Path]:
    """What a caller's text may name as layers: the present ones, the project, and the presets of the present Homes."""
    for each in family:
        yield from (file.resolve() for file in each.document.files.values())
        yield from (each.directory.resolve(), Path(each.trust.folder))
        # The project's own Home may be a link elsewhere, and is in the project if it is none.
        homes = {*each.homes, *(home for _, home in each.registry.homes)} - {each.directory / ".zeus"}
        yield from ((home / "configs").resolve() for home in homes)


_Stats: TypeAlias = tuple[int, ...]

_CHANGED: Final = (-1,)
"""Differs from what any look at a file gives."""


def _differing(document: Document, files: Collection[Path]) -> Iterator[Path]:
    """Those of ``files`` whose content now is not the one that the document was read from, or that cannot tell."""
    for name, file in document.files.items():
        if file in files:
            try:
                now = decode(file.read_bytes(), name)
            except (OSError, ConfigError):
                yield file
            else:
                # The document has no text of a `.env`.
                if now != document.sources.texts.get(name):
                    yield file
    # What was read of these is not known.
    yield from (file for file in document.further if file in files and file.is_file())


def _stats(files: Iterable[Path]) -> Mapping[Path, _Stats]:
    found: dict[Path, _Stats] = {}
    for file in files:
        try:
            status = file.stat()
        except OSError:
            # A file that is gone differs from any that is there, so its return is a change.
            found[file] = ()
        else:
            # `cp -p` keeps the time of a change, and files of a store and of images all have the same one.
            found[file] = (
                status.st_dev,
                status.st_ino,
                status.st_size,
                status.st_mtime_ns,
                status.st_ctime_ns,
            )
    return found
