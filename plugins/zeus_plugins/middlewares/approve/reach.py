"""Applies the path rules of `approve` to every file that a tool opens, whether or not its arguments name the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from zeus_plugins.middlewares.approve.rules import Rule
from zeus_runtime.plugin import dataclass
from zeus_runtime.plugin.files import ANY_TOOL, Ruling

if TYPE_CHECKING:
    from zeus_runtime.plugin.files import Reached


@dataclass(frozen=True)
class PathRules:
    """The rules whose only argument is a file's path.

    A rule for certain tools applies while one of them runs; a rule for all tools (``*``) also applies to files that the
    user names.
    If the running tool is not known, all ``deny`` and ``ask`` rules apply, but only ``allow`` rules for ``*``.

    Args:
        allow, ask, deny: all rules of the options.
    """

    allow: tuple[Rule, ...]
    ask: tuple[Rule, ...]
    deny: tuple[Rule, ...]

    @property
    def patterns(self) -> Sequence[str]:
        """Return the patterns that restrict files, so that the links that they name are followed."""
        return [each for rule in (*self.ask, *self.deny) for each in rule.path_patterns]

    def ruling(self, reached: Reached, kind: Literal["read", "write"], tool: str | None) -> Ruling | None:
        """Return the ruling if ``tool`` may not open the file, or only with approval."""
        if denied := self._fitting(self.deny, reached, tool, unknown=True):
            return Ruling("deny", f"the rule `deny: {denied[0]}` closes it")
        asked = self._fitting(self.ask, reached, tool, unknown=True)
        own = list(reached.own)
        allowed = [
            rule
            for rule in _of_tool(self.allow, tool, unknown=False)
            if own
            and all(not name.foreign and _allows(rule, name.parts, on_way=reached.on_way) for name in own)
        ]
        for rule in asked:
            if not any(each.says_more_than(rule) for each in allowed):
                return Ruling("ask", f"the rule `ask: {rule}` asks for an approval")
        return None

    def closes(self, tool: str | None) -> Ruling | None:
        """Return the strictest ruling by which a rule keeps ``tool`` from reading some files."""
        for rule in _of_tool(self.deny, tool, unknown=True):
            if rule.files is not None:
                return Ruling("deny", f"the rule `deny: {rule}` closes some files")
        for rule in _of_tool(self.ask, tool, unknown=True):
            if rule.files is not None:
                return Ruling("ask", f"the rule `ask: {rule}` asks for an approval of some files")
        return None

    def _fitting(
        self, rules: Iterable[Rule], reached: Reached, tool: str | None, *, unknown: bool
    ) -> list[Rule]:
        """Return the rules for ``tool`` that match the file; ``unknown`` as for ``_of_tool``."""
        return [
            rule
            for rule in _of_tool(rules, tool, unknown=unknown)
            if rule.files is not None and any(rule.files(name.parts) for name in reached.names)
        ]


def _of_tool(rules: Iterable[Rule], tool: str | None, *, unknown: bool) -> Iterator[Rule]:
    """Yield the rules for ``tool``.

    Args:
        unknown: whether rules for certain tools apply if the running tool is not known.
    """
    for rule in rules:
        if rule.names_all or (unknown and tool == ANY_TOOL) or (tool is not None and rule.names(tool)):
            yield rule


def _allows(rule: Rule, parts: Sequence[str], *, on_way: bool) -> bool:
    """Whether a rule surely fits a file, or a missing folder on the way to a file."""
    tests = (rule.surely_files, rule.surely_way if on_way else None)
    return any(test is not None and test(parts) for test in tests)
