"""The secrets in the folders that a plan works in and its config does not name: of a session, a user, an evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.plan.workspace_root import working_folders

if TYPE_CHECKING:
    from pathlib import Path

    from zeus_runtime.config.secrets.secret_files import SecretFiles
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.subagents import PlannedAgent
    from zeus_runtime.plan.validated import Checked


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


class WorkspaceSecrets:
    """Masks what the folders of one plan hold, in all that its agent sends and stores.

    Each placeholder ends in the beginning of its secret's digest: two sessions may have one name for two values, and
    the order in which they run must not decide what a placeholder means.

    Args:
        checked: the agent's config, as it is for the session.
        plan: that of the agent, with those of its sub-agents.
    """

    def __init__(self, checked: Checked, plan: Plan) -> None:
        self._secrets = checked.secrets
        self._learned = checked.own_secrets or self._secrets.learned[0]
        self._files = files_of_work([checked, *(each.checked for each in agents_of(plan))])
        self._found: dict[str, str] = {}
        self._added: set[str] = set()

    def look(self) -> None:
        """Mask from now on what is in the folders now, too."""
        for each in self._files:
            self._found |= each.changed()
        if not self._found.keys() <= self._secrets.secrets:
            before = set(self._learned.names)
            self._secrets.keep(Redactor().adding(self._found), self._learned)
            self._added |= self._learned.names.keys() - before

    @property
    def unread(self) -> Mapping[Path, str]:
        """The files of variables whose secrets of now are perhaps not known, each with the reason."""
        return dict(chain.from_iterable(each.unread.items() for each in self._files))

    def forget(self, others: Iterable[WorkspaceSecrets]) -> None:
        """Mask no longer what was learned here and none of the others has found."""
        for each in others:
            each._added |= self._added & each._found.keys()
            self._added -= each._added
        self._learned.forget(self._added)
