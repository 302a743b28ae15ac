"""Closing what edited texts name, to the tools of agents that were planned before the edit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from zeus_runtime.config.secrets.secret_files import states
from zeus_runtime.plan.protected_files import add_deciding
from zeus_runtime.tools.moved_links import FollowedDeciding

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.secret_files import SecretFiles
    from zeus_runtime.plan.validated import Checked


def closed_beside(checked: Checked, others: Sequence[Checked]) -> FollowedDeciding:
    """What an agent's config closes, if the files of these configs are closed too; nothing is executed."""
    found = FollowedDeciding()
    add_deciding(found, replace(checked, beside=(*checked.beside, *others)))
    return found


class EditedConfigs:
    """Closes what the texts name that decide about one agent and were edited, loaded or not, to its runs that begin
    later.

    The plan stays as it is. What is closed stays closed as long as the config is used.

    Args:
        checked: the agent's config.
        below: those of its sub-agents.
        looks: of each config, the look at its files, which somebody else repeats.
    """

    def __init__(
        self, checked: Checked, below: Sequence[Checked], looks: Mapping[SecretFiles, SecretFiles]
    ) -> None:
        self._checked = checked
        self._family = [(each, looks[each.secret_files]) for each in (*below, checked)]
        self._known = self._texts()
        self._served = frozenset(checked.served_configs)

    async def close(
        self, close: Callable[[Sequence[Checked]], Awaitable[None]] | None = None, *, always: bool = False
    ) -> None:
        """Close what the texts name of which one changed until the last look.

        Args:
            close: closes what these configs name; None for this agent alone.
            always: also if none changed.
        """
        texts = self._texts()
        # Those that only other texts name, such as a file of servers of a config that is not loaded.
        further = dict(self._checked.closed_later.texts)
        now = states(further)
        # No agent has loaded one that a person adds to a folder of the service.
        served = self._served.union(self._checked.served_configs)
        if always or texts != self._known or now != further or served != self._served:
            await (close or self._close)(await asyncio.to_thread(self._now))
            self._known, self._served = texts, served
            # What changed while it was searched is found by the next look.
            self._checked.closed_later.texts.update(now)

    def _texts(self) -> Sequence[Mapping[Path, object]]:
        return [look.texts for _, look in self._family]

    async def _close(self, found: Sequence[Checked]) -> None:
        self._checked.closed_later.take(await asyncio.to_thread(closed_beside, self._checked, found))

    def _now(self) -> Sequence[Checked]:
        from zeus_runtime.plan.spelled_files import fits

        work = [*self._checked.work_beside, *(folder for each, _ in self._family for folder in each.work)]
        found = []
        for each, look in self._family:
            # With the present `.env`, whose values may be names of files.
            now = replace(each, document=replace(each.document, environ=look.environ))
            found.append(now.with_files_unread() if fits(now) else now.with_files_unfit(work))
        return found
