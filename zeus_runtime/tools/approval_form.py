"""An approval request as a form of other programs, such as an elicitation of MCP, and the answer to it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.escaping import printable
from zeus_runtime.tools.approval import Decision
from zeus_runtime.tools.question import question_lines

if TYPE_CHECKING:
    from zeus_runtime.tools.approval import PendingApproval

_VERDICT: Final = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "description": "Whether it may be done."},
        "reason": {"type": "string", "description": "Why not, for the agent."},
    },
    "required": ["approve"],
}


def question_and_form(pending: PendingApproval, *, rest: str = "") -> tuple[str, Mapping[str, Any]]:
    """The text of a request, and the JSON Schema of its answer.

    Args:
        rest: how to see the part that is cut; without it nothing is cut.
    """
    form = pending.schema if pending.is_question and pending.schema is not None else _VERDICT
    lines = question_lines(pending, whole=not rest, rest=rest)
    return "\n".join(line.text for line in lines), visible(form)


def decision_of(pending: PendingApproval, action: str, content: Mapping[str, Any] | None) -> Decision | None:
    """The decision in an answer; None if there is none.

    Args:
        action: ``accept``, ``decline`` or ``cancel``: dismissed without a decision.
        content: the values of the form.
    """
    if action == "cancel":
        return None
    given = content if action == "accept" else None
    if pending.is_question:
        return Decision("reject") if given is None else Decision("approve", arguments=dict(given))
    # Not every client follows the form's types: the string "false" must not count as approval.
    if given and given.get("approve") is True:
        return Decision("approve")
    return Decision("reject", reason=str((given or {}).get("reason", "")))


def visible(form: Any) -> Any:
    """A form with escapes for what cannot be seen in its texts.

    Names and values stay as they are, since the answer repeats them: one that cannot be seen gets a title.
    """
    if not isinstance(form, Mapping):
        return [visible(each) for each in form] if isinstance(form, list | tuple) else form
    shown = {key: _visible_below(key, each) for key, each in form.items()}
    for key in ("title", "description"):
        if isinstance(form.get(key), str):
            shown[key] = printable(form[key])
    values = form.get("enum")
    if isinstance(values, list | tuple):
        labels = form.get("enumNames")
        texts = [str(each) for each in (labels if isinstance(labels, list | tuple) else values)]
        if labels is not None or texts != list(map(printable, texts)):
            shown["enumNames"] = list(map(printable, texts))
    return _titled(shown, form["const"]) if "const" in form else shown


def _visible_below(key: str, value: Any) -> Any:
    if key in _VALUES:
        return value
    if key in _BY_NAME and isinstance(value, Mapping):
        # The keys are names of fields, whatever they are called.
        return {name: _titled(visible(each), name) for name, each in value.items()}
    return visible(value)


_VALUES: Final = frozenset({"enum", "const", "default", "enumNames"})
_BY_NAME: Final = frozenset({"properties", "$defs", "definitions", "patternProperties"})


def _titled(form: Any, value: Any) -> Any:
    """``form`` with a title, if ``value`` cannot be seen as it is."""
    is_seen = not isinstance(value, str) or printable(value) == value
    return form if is_seen or not isinstance(form, Mapping) else {"title": printable(value), **form}
