"""The verdict on a call: run it, ask, or refuse it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from zeus_plugins.middlewares.approve.rules import LeadsTo, Rule, rules_of, with_defaults
from zeus_runtime.plugin import dataclass

if TYPE_CHECKING:
    from zeus_plugins.middlewares.approve.options import Options
    from zeus_runtime.plugin.approval import AskMode
    from zeus_runtime.plugin.tool import Tool


@dataclass(frozen=True)
class Verdict:
    """What becomes of a call.

    Args:
        action: ``listed`` means: the user's stored allowlist decides, and where it has not the tool, the user.
        reason: why, in words for the user.
        by_access: only what the tool is said to do (a server may say it of its own) lets it run, no rule and no choice.
    """

    action: Literal["allow", "ask", "deny", "listed"]
    reason: str
    by_access: bool = False


class Policy:
    """The options as a function of a call.

    A ``deny`` rule that fits wins. An ``ask`` rule that fits wins over ``allow`` rules but those that say more
    (``Rule.says_more_than``). Where no rule fits, tools that only read run, and the mode decides on the rest.

    Args:
        options: what the YAML says.
        leads_to: what paths mean.
    """

    def __init__(self, options: Options, leads_to: LeadsTo) -> None:
        self._options = options
        self._leads_to = leads_to
        self._allow = rules_of(options.allow)
        self._ask = rules_of(options.ask)
        self._deny = rules_of(options.deny)

    def ruled(self, tool: Tool, arguments: Mapping[str, Any]) -> Verdict | None:
        """What becomes of a call of ``tool`` with these arguments, which are valid; None where the mode decides."""
        given = with_defaults(tool, arguments)
        if denied := self._fitting(self._deny, tool.name, given, surely=False):
            return Verdict("deny", f"the rule `deny: {denied[0]}`")
        asked = self._fitting(self._ask, tool.name, given, surely=False)
        allowed = self._fitting(self._allow, tool.name, given, surely=True)
        for rule in asked:
            if not any(each.says_more_than(rule) for each in allowed):
                return Verdict("ask", f"the rule `ask: {rule}`")
        if allowed:
            return Verdict("allow", f"the rule `allow: {allowed[0]}`")
        if tool.access == "read" and self._options.read_tools == "allow":
            return Verdict("allow", "it only reads", by_access=True)
        return None

    def _fitting(
        self, rules: Sequence[Rule], tool: str, arguments: Mapping[str, Any], *, surely: bool
    ) -> list[Rule]:
        return [rule for rule in rules if rule.fits(tool, arguments, self._leads_to, surely=surely)]


def by_mode(mode: AskMode, tool: Tool) -> Verdict:
    """What becomes of a call of ``tool`` that no rule decides."""
    match mode:
        case "run_everything":
            return Verdict("allow", "everything runs")
        case "allowlist":
            return Verdict("listed", f"{tool.name} is not on your allowlist")
        case "ask":
            return Verdict("ask", "every such call is asked for")
