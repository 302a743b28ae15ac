"""The answer that a hook writes to its standard output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from zeus_runtime.plugin import cut_text
from zeus_runtime.plugin.tool import strict_json

Event: TypeAlias = Literal[
    "before_run", "before_model_call", "after_model_call", "before_tool_call", "after_tool_call", "after_run"
]

_DECIDES: Final[Mapping[str, type]] = {"decision": str, "reason": str}
_KEYS: Final[Mapping[Event, Mapping[str, type]]] = {
    "before_run": {**_DECIDES, "context": str},
    "before_model_call": {**_DECIDES, "context": str},
    "after_model_call": _DECIDES,
    "before_tool_call": {**_DECIDES, "arguments": dict, "context": str},
    "after_tool_call": {**_DECIDES, "result": str, "context": str},
    "after_run": _DECIDES,
}
MOST_BYTES: Final = 4 << 20
"""Of an answer."""
_LONGEST_SHOWN: Final = 80
"""Characters of a wrong word that a failure shows."""
_TYPES: Final[Mapping[type, str]] = {str: "a text", dict: "an object"}


class HookFailedError(Exception):
    """A hook gave no answer.

    Args:
        what: the failure, as the rest of a sentence that begins with the hook.
        detail: the end of its standard error.
    """

    def __init__(self, what: str, detail: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.detail = detail


@dataclass(frozen=True)
class Answer:
    """What a hook decided.

    Args:
        denies: whether it denies the call or the run, or withholds the result.
        reason: why it does; may be empty.
        arguments: the arguments to run the call with; None for no change.
        result: the text to replace the result's with; None for no change.
        context: text for the model; may be empty.
    """

    denies: bool = False
    reason: str = ""
    arguments: Mapping[str, Any] | None = None
    result: str | None = None
    context: str = ""


def answer_of(event: Event, output: bytes) -> Answer:
    """Read what a hook wrote; nothing means that it changes nothing.

    Raises:
        HookFailedError: it is not an answer.
    """
    try:
        text = output.decode()
        given = strict_json(text) if text.strip() else {}
    except ValueError as error:
        raise HookFailedError(f"wrote something else than JSON ({error})") from None
    if not isinstance(given, dict):
        raise HookFailedError("wrote JSON that is not an object")
    keys = _KEYS[event]
    for key, value in given.items():
        if key not in keys:
            raise HookFailedError(f"wrote the key {_shown(key)}; it may write {', '.join(keys)}")
        if not isinstance(value, keys[key]):
            raise HookFailedError(f"wrote a {key!r} that is not {_TYPES[keys[key]]}")
    decision = given.get("decision", "allow")
    if decision not in ("allow", "deny"):
        raise HookFailedError(f"wrote the decision {_shown(decision)}; it is 'allow' or 'deny'")
    # Refused and not ignored: a hook's author may think that both have an effect.
    if decision == "deny" and (more := given.keys() - {"decision", "reason"}):
        raise HookFailedError(f"denied, and wrote {', '.join(sorted(more))} too")
    if decision == "allow" and "reason" in given:
        raise HookFailedError("wrote a reason and no decision 'deny'")
    return Answer(
        decision == "deny",
        given.get("reason", ""),
        given.get("arguments"),
        given.get("result"),
        given.get("context", ""),
    )


def _shown(text: str) -> str:
    return repr(cut_text(text, _LONGEST_SHOWN))
