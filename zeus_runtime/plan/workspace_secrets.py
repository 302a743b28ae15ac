"""The secrets in the folders that a plan works in and its config does not name: of a session, a user, an evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.plan.workspace_root import place_for, working_folders

if TYPE_CHECKING:
    from pathlib import Path

    from zeus_runtime.config.secrets.secret_files import SecretFiles
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.subagents import PlannedAgent
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.store.threads import Owner


def files_of_work(family: Iterable[Checked]) -> Sequence[SecretFiles]:
    """A look at each folder that these agents work in and at which the look of their config does not look.

    Args:
        family: an agent's config and those of its sub-agents, as they are for the session.
    """
    found: dict[Path, SecretFiles] = {}
    for each in family:
        files = each.secret_files
        for folder in working_folders(each):
            if folder not in files.folders and folder not in found:
                found[folder] = files.of_folders([folder])
    return list(found.values())


def agents_of(plan: Plan) -> Iterator[PlannedAgent]:
    """The sub-agents of a plan, at any depth."""
    for each in plan.agents.values():
        yield each
        yield from agents_of(each.plan)


def family_of(checked: Checked, plan: Plan) -> Sequence[Checked]:
    """An agent's config, and those of its sub-agents."""
    return [checked, *(each.checked for each in agents_of(plan))]


def at_session(family: Iterable[Checked], session: str, owner: Owner | None = None) -> Sequence[Checked]:
    """The configs of a family as they are for a session of its agent; nothing is planned.

    Args:
        owner: the user of a service to whom it belongs; None for whom the configs are already.
    """
    place = () if owner is None else place_for(owner.user, owner.project)
    return [replace(each, session=session, place=place or each.place) for each in family]


class WorkspaceSecrets:
    """Masks what the folders of one plan hold, in all that its agent sends and stores.

    Each placeholder ends in the beginning of its secret's digest: two sessions may have one name for two values, and
    the order in which they run must not decide what a placeholder means.

    Args:
        family: the agent's config, as it is for the session, and then those of its sub-agents.
    """

    def __init__(self, family: Sequence[Checked]) -> None:
        checked = family[0]
        self._secrets = checked.secrets
        self._learned = checked.own_secrets or self._secrets.learned[0]
        self._files = files_of_work(family)
        self._owner = object()

    def look(self) -> None:
        """Mask from now on what is in the folders now, too."""
        for each in self._files:
            self._secrets.keep(Redactor().adding(each.changed()), self._learned, self._owner)

    @property
    def unread(self) -> Mapping[Path, str]:
        """The files of variables whose secrets of now are perhaps not known, each with the reason."""
        return dict(chain.from_iterable(each.unread.items() for each in self._files))

    def forget(self) -> None:
        """Mask no longer what nothing but these folders had."""
        self._learned.forget(self._owner)
