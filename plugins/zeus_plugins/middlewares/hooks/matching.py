"""Which calls a hook is started for. A call that may match does match: a hook may be there to deny."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from zeus_plugins.middlewares.approve.rules import (
    LeadsTo,
    Rule,
    is_path,
    looked_up_once,
    unreadable,
    with_defaults,
)
from zeus_runtime.plugin.tool import keys_in

if TYPE_CHECKING:
    from zeus_plugins.middlewares.hooks.options import Match
    from zeus_runtime.plugin import Misfit, Surroundings
    from zeus_runtime.plugin.tool import Tool


def matches(match: Match, tool: Tool, arguments: Mapping[str, Any], leads_to: LeadsTo) -> bool:
    """Whether a hook is started for a call.

    Args:
        arguments: those that would run.
        leads_to: resolves a path to all its names.
    """
    if not names(match, tool.name):
        return False
    if not match.paths:
        return True
    given = with_defaults(tool, arguments)
    found = {name for name in keys_in(given) if name in tool.paths or is_path(name)}
    # A rule for each name: in one rule, all arguments would have to match.
    rules = (Rule("*", {name: match.paths}) for name in found)
    # Not over all hooks: each may change links before the next one is asked.
    leads_to = looked_up_once(leads_to)
    return any(rule.fits(tool, given, leads_to, surely=False) for rule in rules)


def names(match: Match, tool: str) -> bool:
    """Whether a hook is for a tool of this name."""
    return any(Rule(each, {}).names(tool) for each in match.tools)


def unsound(match: Match, around: Surroundings, where: tuple[str | int, ...]) -> Iterator[Misfit]:
    """Report what can never match."""
    from zeus_runtime.plugin import Misfit

    for index, pattern in enumerate(match.tools):
        at = (*where, "tool", *((index,) if not isinstance(match.tool, str) else ()))
        rule = Rule(pattern, {})
        if rule.is_exact:
            for each in around.unknown_tools([pattern], where):
                yield Misfit(at, each.message, each.hint, each.code)
        elif not any(map(rule.names, around.tools)) and not around.may_have_like(pattern):
            yield Misfit(at, f"no tool of this agent matches {pattern!r}", None, "unknown-tool")
    for index, pattern in enumerate(match.paths):
        if slip := unreadable(pattern):
            at = (*where, "path", *((index,) if not isinstance(match.path, str) else ()))
            yield Misfit(at, *slip, "access-pattern")
