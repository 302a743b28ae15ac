"""Decides whether a call runs, is asked about, or is refused. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from zeus_plugins.middlewares.approve.commands import commands_of, is_meant, matches, may_run
from zeus_plugins.middlewares.approve.rules import LeadsTo, Rule, looked_up_once, rules_of, with_defaults
from zeus_runtime.plugin import dataclass

if TYPE_CHECKING:
    from zeus_plugins.middlewares.approve.options import Options
    from zeus_plugins.middlewares.approve.shell_lines import SimpleCommand
    from zeus_runtime.plugin.approval import AskMode
    from zeus_runtime.plugin.tool import Tool

    _Means: TypeAlias = Callable[[str, SimpleCommand], bool]


@dataclass(frozen=True)
class Verdict:
    """The decision about a call.

    Args:
        action: ``listed`` means that the call runs if the tool is on the user's stored allowlist; else the user is
            asked.
        reason: the reason, shown to the user.
        by_access: the call runs only because the tool is declared read-only, which a server may declare itself; no rule
            and no mode allowed it.
        needs_person: it may run what a `deny` rule means, so only a person may approve it.
    """

    action: Literal["allow", "ask", "deny", "listed"]
    reason: str
    by_access: bool = False
    needs_person: bool = False


class Policy:
    """Applies the rules of the options to calls.

    A matching ``deny`` rule wins. A matching ``ask`` rule wins over ``allow`` rules, except over more specific ones
    (``Rule.says_more_than``). If no rule matches, read-only tools run, and the mode decides about the others.

    Args:
        options: the options from the YAML.
        leads_to: resolves paths.
        reaches: resolves paths to all names that `ask` and `deny` judge; None: as ``leads_to``.
        tools: returns the agent's tools; None if they are not known.
    """

    def __init__(
        self,
        options: Options,
        leads_to: LeadsTo,
        reaches: LeadsTo | None = None,
        tools: Callable[[], Iterable[Tool]] | None = None,
    ) -> None:
        self._options = options
        self._leads_to = leads_to
        self._reaches = reaches or leads_to
        self._tools = tools
        self._allow = rules_of(options.allow)
        self._ask = rules_of(options.ask)
        self._deny = rules_of(options.deny)

    def denied(self, tool: Tool, arguments: Mapping[str, Any], reaches: LeadsTo) -> str | None:
        """Return the `deny` rule on an argument that matches a sub-agent's call; None if none does.

        Args:
            reaches: resolves the sub-agent's paths to all names that they have here.
        """
        given, reaches = with_defaults(tool, arguments), looked_up_once(reaches)
        for command in _commands_of(tool, given):
            runs = None if command is None else partial(may_run, command=command)
            for rule in self._deny:
                if rule.arguments and rule.fits(tool, given, reaches, surely=False, runs=runs):
                    return _because("deny", rule, tool, command)
                missing = self._missing(rule, tool, given)
                if missing and rule.fits(tool, given, reaches, surely=False, runs=runs, missing=missing):
                    return _unjudged("deny", rule, missing)
        return None

    def _missing(self, rule: Rule, tool: Tool, given: Mapping[str, Any]) -> Collection[str]:
        if rule.is_exact:
            return rule.missing(tool, given, ())
        # Another tool that a pattern names may have the argument.
        return () if self._tools is None else rule.missing(tool, given, self._tools())

    def ruled(self, tool: Tool, arguments: Mapping[str, Any]) -> Verdict | None:
        """Return the verdict of the rules on a call with valid arguments; None if no rule decides, so the mode does.

        Each command of a command line is judged as if it were the only one, and the strictest verdict counts.
        """
        given = with_defaults(tool, arguments)
        leads_to, reaches = looked_up_once(self._leads_to), looked_up_once(self._reaches)
        # `git status; rm a` is as strict as `rm a`: allowed commands do not allow those beside them.
        return min(
            (self._ruled(tool, given, each, leads_to, reaches) for each in _commands_of(tool, given)),
            key=_strictness,
        )

    def _ruled(
        self,
        tool: Tool,
        given: Mapping[str, Any],
        command: SimpleCommand | None,
        leads_to: LeadsTo,
        reaches: LeadsTo,
    ) -> Verdict | None:
        def may_fit(rules: Sequence[Rule], means: _Means) -> list[Rule]:
            return _fitting(rules, tool, given, reaches, means, command, surely=False)

        if denied := may_fit(self._deny, is_meant):
            return Verdict("deny", _because("deny", denied[0], tool, command))
        if command is not None and (hidden := may_fit(self._deny, may_run)):
            why = (
                f"`{command}` may run what the rule `deny: {hidden[0]}` means" if command.words else _UNCLEAR
            )
            return Verdict("ask", why, needs_person=True)
        runs = None if command is None else partial(may_run, command=command)

        def unjudged(rules: Sequence[Rule]) -> Iterator[tuple[Rule, Collection[str]]]:
            for rule in rules:
                missing = self._missing(rule, tool, given)
                if missing and rule.fits(tool, given, reaches, surely=False, runs=runs, missing=missing):
                    yield rule, missing

        # Not refused: a server that offers more tools after a call, such as a login, could never offer them.
        for rule, missing in unjudged(self._deny):
            return Verdict("ask", _unjudged("deny", rule, missing), needs_person=True)
        # `ask` fits what may be meant, `allow` only what certainly is: where it is unclear, the user is asked.
        asked = [(rule, _because("ask", rule, tool, command)) for rule in may_fit(self._ask, may_run)]
        asked += [(rule, _unjudged("ask", rule, missing)) for rule, missing in unjudged(self._ask)]
        allowed = _fitting(self._allow, tool, given, leads_to, matches, command, surely=True)
        for rule, why in asked:
            if not any(each.says_more_than(rule) for each in allowed):
                return Verdict("ask", why)
        if allowed:
            return Verdict("allow", f"the rule `allow: {allowed[0]}`")
        if tool.access == "read" and self._options.read_tools == "allow":
            return Verdict("allow", "it only reads", by_access=True)
        return None


def _fitting(
    rules: Sequence[Rule],
    tool: Tool,
    arguments: Mapping[str, Any],
    leads_to: LeadsTo,
    means: _Means,
    command: SimpleCommand | None,
    *,
    surely: bool,
) -> list[Rule]:
    runs = None if command is None else lambda pattern: means(pattern, command)
    return [rule for rule in rules if rule.fits(tool, arguments, leads_to, surely=surely, runs=runs)]


_UNCLEAR: Final = "a rule judges commands, and what this one runs is not clear"
_STRICTNESS: Final = {"deny": 0, "ask": 1, "listed": 2, "allow": 3}


def _strictness(verdict: Verdict | None) -> tuple[int, bool]:
    """Return a key that is lower for a stricter verdict; without one the mode decides."""
    if verdict is None:
        return _STRICTNESS["listed"], True
    return _STRICTNESS[verdict.action], not verdict.needs_person


def _commands_of(tool: Tool, given: Mapping[str, Any]) -> Sequence[SimpleCommand | None]:
    """Return the commands of a call; None is the one of a tool that runs none."""
    name = next((each for each in sorted(tool.commands) if given.get(each) is not None), None)
    return (None,) if name is None else commands_of(given[name])


def _because(kind: str, rule: Rule, tool: Tool, command: SimpleCommand | None) -> str:
    if command is None:
        return f"the rule `{kind}: {rule}`"
    if not command.words and not tool.commands.isdisjoint(rule.arguments):
        return _UNCLEAR
    return f"the rule `{kind}: {rule}`" + (f" for `{command}`" if command.words else "")


def _unjudged(kind: str, rule: Rule, missing: Collection[str]) -> str:
    names = ", ".join(f"`{name}`" for name in missing)
    return f"the rule `{kind}: {rule}` cannot be judged: {rule.tool} has no argument {names}"


def by_mode(mode: AskMode, tool: Tool) -> Verdict:
    """Return the verdict on a call of ``tool`` that no rule decides."""
    match mode:
        case "run_everything":
            return Verdict("allow", "everything runs")
        case "allowlist":
            return Verdict("listed", f"{tool.name} is not on your allowlist")
        case "ask":
            return Verdict("ask", "every such call needs approval")
