"""What a call would change, told before it runs, for the person who approves it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from zeus_runtime.errors import ZeusError
from zeus_runtime.frozen import dataclass
from zeus_runtime.tools.gate import AccessAsked

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
        """SHA-256 of the effect that it shows; empty where it shows no change, and the arguments say it all."""
        if not self.changes:
            return ""
        text = json.dumps([*map(_effect, self.changes)])
        return hashlib.sha256(text.encode()).hexdigest()


def _effect(change: Change) -> tuple[str, bool, list[str], list[str]]:
    """The lines from the first that changes to the last, before and after, wherever in the file they stand."""
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
        return await tool.preview(arguments, secrets)
    except AccessAsked:
        return Preview(problem="the file may be read only after a person has approved it")
    except ZeusError as error:
        return Preview(problem=error.message)
    except Exception as error:  # noqa: BLE001 - a plugin's preview must not keep the question from the user
        return Preview(problem=f"the tool's preview failed ({type(error).__name__})")
