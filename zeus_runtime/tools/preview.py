"""What a call would change, told before it runs, for the person who approves it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from zeus_runtime.errors import ZeusError
from zeus_runtime.frozen import dataclass
from zeus_runtime.tools.gate import calling

if TYPE_CHECKING:
    from zeus_runtime.config.secrets import Redactor
    from zeus_runtime.tools.tool import JSON, Tool


@dataclass(frozen=True)
class Change:
    """A text that a call would change.

    Args:
        path: the file with links resolved, or another name of the text: a change of another file is another change.
        before: its text now; None where there is none yet.
        after: its text after the call.
    """

    path: str
    before: str | None
    after: str


@dataclass(frozen=True)
class Preview:
    """What a call would do.

    Args:
        changes: the texts that it would change.
        stands_for: the arguments that ``changes`` shows in full.
        problem: why the changes cannot be told; the arguments are shown instead.
    """

    changes: tuple[Change, ...] = ()
    stands_for: tuple[str, ...] = ()
    problem: str = ""

    @property
    def digest(self) -> str:
        """For each change, SHA-256 of the text now and of the effect; empty where the arguments are what is shown."""
        return ",".join(f"{state(each.path, each.before)}:{_sha256(*_effect(each))}" for each in self.changes)


def holds(shown: str, now: Preview | None, made: Mapping[str, str]) -> bool:
    """Whether a call would still do what a person was shown.

    Only changes that the person approved may have come between: each call was shown as if it were the only one.

    Args:
        shown: ``Preview.digest`` of what was shown.
        now: what the call would do now.
        made: the state of each text that an approved call changed, to its state after the call.
    """
    if not shown or now is None:
        return not shown and now is None
    was, would = shown.split(","), now.digest.split(",")
    return len(was) == len(would) and all(
        new.partition(":")[2] == effect and new.partition(":")[0] in _states(start, made)
        for (start, _, effect), new in zip((each.partition(":") for each in was), would, strict=True)
    )


def state(path: str, text: str | None) -> str:
    """SHA-256 of a text where it is."""
    return _sha256(path, text)


def _states(start: str, made: Mapping[str, str]) -> Iterator[str]:
    seen = dict.fromkeys([start])
    while (start := made.get(start, start)) not in seen:
        seen[start] = None
    yield from seen


def _sha256(*value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _effect(change: Change) -> tuple[str, bool, list[str], list[str]]:
    """The lines from the first that changes to the last, before and after, wherever in the file they are."""
    old, new = (change.before or "").split("\n"), change.after.split("\n")
    most = min(len(old), len(new))
    head = next((place for place in range(most) if old[place] != new[place]), most)
    tail = next((place for place in range(most - head) if old[-1 - place] != new[-1 - place]), most - head)
    return change.path, change.before is None, old[head : len(old) - tail], new[head : len(new) - tail]


def masked(preview: Preview, redact: Callable[[Any], Any]) -> Preview:
    """The preview without known secrets; a change of a secret cannot be seen then, which it says.

    Args:
        redact: masks known secrets in a JSON value.
    """
    shows = redacted(preview, redact)
    if any(
        now.before == now.after and was.before != was.after
        for was, now in zip(preview.changes, shows.changes, strict=True)
    ):
        return Preview(problem="known secrets change, which are masked")
    return shows


def redacted(preview: Preview, redact: Callable[[Any], Any]) -> Preview:
    """The preview without known secrets. Its digest is the same whether the call's arguments are masked or not."""
    changes = tuple(Change(**redact(vars(each))) for each in preview.changes)
    return Preview(changes, preview.stands_for, str(redact(preview.problem)))


async def preview_of(tool: Tool, arguments: Mapping[str, JSON], secrets: Redactor) -> Preview | None:
    """What a call of ``tool`` with valid arguments would change; None where the tool cannot tell.

    Args:
        secrets: what the model sees masked, so that the arguments mean the masked text.
    """
    if tool.preview is None:
        return None
    try:
        # The person who is asked reads it, not the model: what needs an approval is not asked for once more.
        with calling(tool.name, approved=True):
            return await tool.preview(arguments, secrets)
    except ZeusError as error:
        return Preview(problem=error.message)
    except Exception as error:  # noqa: BLE001 - a plugin's preview must not keep the question from the user
        return Preview(problem=f"the tool's preview failed ({type(error).__name__})")
