"""Previews of the changes that a call would make, for the person who approves it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zeus_runtime.errors import ZeusError
from zeus_runtime.frozen import dataclass
from zeus_runtime.tools.calling_tool import calling

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.tools.tool import JSON, Tool


@dataclass(frozen=True)
class Change:
    """A text that a call would change.

    Args:
        path: the file with links resolved, or another name of the text; another path makes it another change.
        before: its text now; None if it does not exist yet.
        after: its text after the call.
        identity: distinguishes files with the same ``path``, such as a hash of the place on the disk; not shown.
        first_line: the number of the first line of both texts, if a call that was made gives only a part of large ones.
        left: how many lines of the old text and of the new one, and characters of both, such a part leaves out although
            they may differ.
    """

    path: str
    before: str | None
    after: str
    identity: str = ""
    first_line: int = 1
    left: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True)
class Preview:
    """The effect of a call.

    Args:
        changes: the texts that it would change.
        stands_for: the arguments that ``changes`` shows in full.
        problem: why the changes cannot be computed; the arguments are shown instead.
        facts: further lines for the person, such as whose memory it is. A decision is not bound to them: what decides
            them belongs into ``Tool.setting``.
    """

    changes: tuple[Change, ...] = ()
    stands_for: tuple[str, ...] = ()
    problem: str = ""
    facts: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of all changes (current text, effect and place), or of the reason why there are none to show."""
        if self.problem or not self.changes:
            return f"{_PROBLEM}{_sha256(self.problem)}"
        return ",".join(next(_signatures(each, {})) for each in self.changes)


_PROBLEM: Final = "problem:"


def shows_place(shown: str | None) -> bool:
    """Whether a preview with the digest ``shown`` has changes, which name the place on the disk."""
    return bool(shown) and not str(shown).startswith(_PROBLEM)


class _Step(NamedTuple):
    """A change that was made: the state before it, and how many lines it removed and added at which line."""

    before: str
    first: int
    removed: int
    added: int


class MadeChanges:
    """The changes that approved calls made."""

    def __init__(self) -> None:
        self._steps: dict[str, _Step] = {}

    def note(self, made: Preview) -> None:
        """Record the changes of a call that ran as ``made`` predicted."""
        for each in made.changes:
            first, old, new = _edit(each)
            end = _state(each, each.after)
            self._steps[end] = _Step(_state(each, each.before), first, len(old), len(new))

    def still(self, shown: str | None, now: Preview | None) -> bool:
        """Whether a call would still make the change that a person was shown.

        Each call was shown as if it were the only one. Since then only the recorded changes may have happened, each at
        least one line away from the lines that were shown, as in a merge: otherwise the person did not see the result.

        Args:
            shown: ``Preview.digest`` of the preview that was shown; None if it is not known.
            now: the call's preview now.
        """
        if not shown or now is None:
            return False
        if shown == now.digest:
            return True
        if not shows_place(shown):
            # Nobody saw a change: its arguments hold on texts that the person saw approved calls make.
            return bool(now.changes) and all(_state(each, each.before) in self._steps for each in now.changes)
        was = shown.split(",")
        return len(was) == len(now.changes) and all(
            old in _signatures(new, self._steps) for old, new in zip(was, now.changes, strict=True)
        )


def _signatures(change: Change, steps: Mapping[str, _Step]) -> Iterator[str]:
    """Yield the SHA-256 of a change as it is now, and as it was before each earlier step that did not touch it."""
    first, old, new = _edit(change)
    state, seen = _state(change, change.before), set[str]()
    while state not in seen:
        yield _sha256(state, change.before is None, first, old, new)
        seen.add(state)
        step = steps.get(state)
        if step is None:
            return
        if step.first + step.added < first:
            first += step.removed - step.added
        elif step.first <= first + len(old):
            return
        state = step.before


def _state(change: Change, text: str | None) -> str:
    """Return the SHA-256 of a text with its place."""
    return _sha256(change.path, change.identity, text)


def _sha256(*value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _edit(change: Change) -> tuple[int, list[str], list[str]]:
    """Return the first changed line's number, and the lines from there to the last changed one, before and after."""
    old, new = (change.before or "").split("\n"), change.after.split("\n")
    most = min(len(old), len(new))
    head = next((place for place in range(most) if old[place] != new[place]), most)
    tail = next((place for place in range(most - head) if old[-1 - place] != new[-1 - place]), most - head)
    return head, old[head : len(old) - tail], new[head : len(new) - tail]


def masked(preview: Preview, secrets: Redactor) -> Preview:
    """Return the preview without known secrets, as a person is shown it and as a decision is bound to it.

    A text that only looks like a placeholder differs from the secret that the placeholder stands for.
    """
    changes = masked_changes(preview.changes, secrets.told, path=secrets.text)
    facts = tuple(map(secrets.text, preview.facts))
    return replace(preview, changes=changes, problem=secrets.text(preview.problem), facts=facts)


def masked_changes(
    changes: Iterable[Change], mask: Callable[[str], str], *, path: Callable[[str], str]
) -> tuple[Change, ...]:
    """Return changes with their texts masked by ``mask``, and their paths by ``path``."""
    return tuple(
        replace(
            each,
            path=path(each.path),
            before=None if each.before is None else mask(each.before),
            after=mask(each.after),
        )
        for each in changes
    )


async def preview_of(
    tool: Tool, arguments: Mapping[str, JSON], secrets: Redactor, session: str = ""
) -> Preview | None:
    """Return the preview of a call of ``tool`` with valid arguments; None if the tool has no previews.

    Args:
        secrets: the secrets that the model sees masked, because the arguments refer to the masked text.
        session: the id of the session that calls.
    """
    if tool.preview is None:
        return None
    try:
        # A person reads this preview, not the model, so files that need an approval cause no second question.
        with calling(tool.name, approved=True):
            # It may take values out of them, and the call runs with the same.
            return await tool.preview(deepcopy(dict(arguments)), secrets, session)
    except ZeusError as error:
        return Preview(problem=error.message)
    except Exception as error:  # noqa: BLE001 - a plugin's preview must not keep the question from the user
        return Preview(problem=f"the tool's preview failed ({type(error).__name__})")
