"""Closing what edited texts of configs name, to the tools of agents that were planned before the edit."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

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
    """Closes what the configs of one agent name since they were edited, to its runs that begin later.

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

    async def close(self) -> None:
        """Close what the configs name that changed until the last look."""
        texts = self._texts()
        if texts != self._known:
            self._checked.closed_later.take(await asyncio.to_thread(self._closed))
            self._known = texts

    def _texts(self) -> Sequence[Mapping[Path, object]]:
        return [look.texts for _, look in self._family]

    def _closed(self) -> FollowedDeciding:
        from zeus_runtime.plan.spelled_files import fits

        work = [*self._checked.work_beside, *(folder for each, _ in self._family for folder in each.work)]
        found = []
        for each, look in self._family:
            # With the present `.env`, whose values may be names of files.
            now = replace(each, document=replace(each.document, environ=look.environ))
            found.append(now.with_files_unread() if fits(now) else now.with_files_unfit(work))
        return closed_beside(self._checked, found)
