"""What `zeus plan` says of the files that an agent may reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.validated import Checked


def reach_rows(checked: Checked, plan: Plan) -> Iterator[tuple[str, str]]:
    """Folders, rules and protected files, each with a note."""
    given = reach_object(checked, plan)
    yield from given["folders"].items()
    for rule in given["rules"]:
        lifts = "; lifts a built-in protection" if rule["lifts_protection"] else ""
        yield rule["pattern"], f"{rule['right']}  ({rule['written']}){lifts}"
    yield "protected", f"no tool changes {', '.join(given['protected'])}"


def _own_folder(checked: Checked) -> str:
    # The plan of a session, or of another user, has that one's folder.
    return "/<session>" if checked.config.workspace.per == "session" and not checked.session else ""


def reach_object(checked: Checked, plan: Plan) -> dict[str, Any]:
    """The same as JSON."""
    gate = plan.context.workspace.gate
    assert gate is not None, "a plan's workspace has its policy"
    lifting = gate.policy.floor.lifting
    return {
        "folders": {
            "/": f"{gate.mounts.root}{_own_folder(checked)}",
            **{prefix: str(host) for prefix, host in plan.context.workspace.routes.items()},
        },
        "rules": [
            {
                "pattern": rule.pattern,
                "right": rule.right,
                "written": str(checked.document.position(("workspace", "access", rule.pattern), "key")),
                "lifts_protection": rule in lifting,
            }
            for rule in gate.policy.rules.rules
        ],
        "protected": list(gate.protected()),
    }
