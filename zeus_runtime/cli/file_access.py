"""What `zeus plan` says of the files that an agent may reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.validated import Checked


def reach_rows(checked: Checked, plan: Plan) -> Iterator[tuple[str, str]]:
    """Folders, rules and protected files, each with a note."""
    from zeus_runtime.plan.shown import planned_servers, reach_object

    given = reach_object(checked, plan)
    yield from given["folders"].items()
    for rule in given["rules"]:
        lifts = "; lifts a built-in protection" if rule["lifts_protection"] else ""
        yield rule["pattern"], f"{rule['right']}  ({rule['written']}){lifts}"
    for rule in given["rules_above"]:
        yield rule["pattern"], f"{rule['right']}  (an agent above, from {rule['root']} on)"
    yield "protected", f"no tool changes {', '.join(given['protected'])}"
    past = [*given["past_rules"], *(f"the server {each.name}" for each in planned_servers(plan))]
    if past:
        yield (
            "past all this",
            f"{', '.join(past)}: may open files by themselves; only rules of `approve` judge a call",
        )
