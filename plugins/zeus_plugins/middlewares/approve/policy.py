"""Decides whether a call runs, is asked about, or is refused. Pure functions."""

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
    """The decision about a call.

    Args:
        action: ``listed`` means that the call runs if the tool is on the user's stored allowlist; else the user is
            asked.
        reason: the reason, shown to the user.
        by_access: the call runs only because the tool is declared read-only, which a server may declare itself; no rule
            and no mode allowed it.
    """

    action: Literal["allow", "ask", "deny", "listed"]
    reason: str
    by_access: bool = False


class Policy:
    """Applies the rules of the options to calls.

    A matching ``deny`` rule wins. A matching ``ask`` rule wins over ``allow`` rules, except over more specific ones
    (``Rule.says_more_than``). If no rule matches, read-only tools run, and the mode decides about the others.

    Args:
        options: the options from the YAML.
        leads_to: resolves paths.
        reaches: resolves paths to all names that `ask` and `deny` judge; None: as ``leads_to``.
    """

    def __init__(self, options: Options, leads_to: LeadsTo, reaches: LeadsTo | None = None) -> None:
        self._options = options
        self._leads_to = leads_to
        self._reaches = reaches or leads_to
        self._allow = rules_of(options.allow)
        self._ask = rules_of(options.ask)
        self._deny = rules_of(options.deny)

    def denied(self, tool: Tool, arguments: Mapping[str, Any], reaches: LeadsTo) -> str | None:
        """Return the `deny` rule on an argument that matches a sub-agent's call; None if none does.

        Args:
            reaches: resolves the sub-agent's paths to all names that they have here.
        """
        given = with_defaults(tool, arguments)
        rules = (rule for rule in self._deny if rule.arguments)
        fitting = (rule for rule in rules if rule.fits(tool, given, reaches, surely=False))
        return next((f"the rule `deny: {rule}`" for rule in fitting), None)

    def ruled(self, tool: Tool, arguments: Mapping[str, Any]) -> Verdict | None:
        """Return the verdict of the rules on a call with valid arguments; None if no rule decides, so the mode does."""
        given = with_defaults(tool, arguments)
        if denied := self._fitting(self._deny, tool, given, surely=False):
            return Verdict("deny", f"the rule `deny: {denied[0]}`")
        asked = self._fitting(self._ask, tool, given, surely=False)
        allowed = self._fitting(self._allow, tool, given, surely=True)
        for rule in asked:
            if not any(each.says_more_than(rule) for each in allowed):
                return Verdict("ask", f"the rule `ask: {rule}`")
        if allowed:
            return Verdict("allow", f"the rule `allow: {allowed[0]}`")
        if tool.access == "read" and self._options.read_tools == "allow":
            return Verdict("allow", "it only reads", by_access=True)
        return None

    def _fitting(
        self, rules: Sequence[Rule], tool: Tool, arguments: Mapping[str, Any], *, surely: bool
    ) -> list[Rule]:
        leads_to = self._leads_to if surely else self._reaches
        return [rule for rule in rules if rule.fits(tool, arguments, leads_to, surely=surely)]


def by_mode(mode: AskMode, tool: Tool) -> Verdict:
    """Return the verdict on a call of ``tool`` that no rule decides."""
    match mode:
        case "run_everything":
            return Verdict("allow", "everything runs")
        case "allowlist":
            return Verdict("listed", f"{tool.name} is not on your allowlist")
        case "ask":
            return Verdict("ask", "every such call needs approval")
