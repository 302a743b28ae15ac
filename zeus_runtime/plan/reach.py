"""The settings besides a tool's own options that decide what its calls do: rules for files, memory, knowledge bases.

An approval is bound to them, as it is to the tool's options: each tool gets those of its category in ``Tool.setting``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from zeus_runtime.config.model import Workspace
from zeus_runtime.frozen import dataclass
from zeus_runtime.plan.components import as_json
from zeus_runtime.tools.access import Patterns

if TYPE_CHECKING:
    from zeus_runtime.config import Config
    from zeus_runtime.middleware.contexts import PlanContext
    from zeus_runtime.plan.components import PlannedComponent
    from zeus_runtime.tools import Tool
    from zeus_runtime.tools.gate import Gate
    from zeus_runtime.tools.tool import Category

Part: TypeAlias = Literal["files", "memory", "knowledge"]

PARTS_OF: Final[Mapping[Category, frozenset[Part]]] = {
    # Those of the agent's conversation, of the web and of servers use none; a task's are those of its agent's tools.
    **dict.fromkeys(("builtin", "todos", "web", "mcp", "oauth", "browser", "desktop"), frozenset()),
    **dict.fromkeys(("filesystem", "sandbox", "shell", "skills"), frozenset({"files"})),
    "memory": frozenset({"memory"}),
    "rag": frozenset({"files", "knowledge"}),
}
"""What the tools of a category use. A category that is not here, such as ``custom``, may use all."""


@dataclass(frozen=True)
class ToolReach:
    """What tools use besides their options, hashed by part; a part of which the config says nothing is missing."""

    digests: Mapping[Part, str] = field(default_factory=dict)

    def of(self, tool: Tool) -> Tool:
        """Return the tool with the digests of what its category uses in its setting."""
        used = PARTS_OF.get(tool.category)
        found = {name: value for name, value in self.digests.items() if used is None or name in used}
        return tool.within(json.dumps(found, sort_keys=True)) if found else tool


def reach_of(context: PlanContext, kept: Sequence[PlannedComponent]) -> ToolReach:
    """What the tools of a plan use.

    Args:
        kept: the components of memory, which knowledge bases use too.
    """
    memory = _memory(context.config, kept)
    knowledge = context.config.knowledge and [list(context.config.knowledge), memory]
    gate = context.workspace.gate
    parts: Mapping[Part, Any] = {
        "files": None if gate is None else list(_rules(gate)),
        "memory": memory,
        "knowledge": knowledge,
    }
    return ToolReach({name: _digest(part) for name, part in parts.items() if part})


def _memory(config: Config, kept: Sequence[PlannedComponent]) -> list[Any] | None:
    """Whose memories they are, and what is stored; ``extract`` and ``consolidate_after`` concern no call of a tool."""
    memory = config.memory
    if memory is None:
        return None
    components = [[each.kind, each.name, each.options] for each in kept]
    return [memory.user, memory.project, memory.role, as_json(memory.thresholds), components]


_HARD_LINKS: Final = Workspace().hard_links


def _rules(gate: Gate) -> Iterator[list[Any]]:
    """What configs say about files, if anything: that of the agent, and those of the agents above it.

    Their order has no meaning. Two kinds of rules are not part of it: the built-in protection follows from what is on
    the disk, and the rules of `approve` judge a call that waits anew.
    """
    above: Gate | None = gate
    while above is not None:
        layers = (layer for layer in above.policy.layers if isinstance(layer, Patterns))
        patterns = sorted(each for layer in layers for each in layer.patterns)
        rules = sorted(f"{rule.pattern}: {rule.right}" for rule in above.policy.rules.rules)
        if rules or patterns or above.linked != _HARD_LINKS:
            yield [rules, patterns, sorted(above.linked)]
        above = above.above


def _digest(part: Any) -> str:
    return hashlib.sha256(json.dumps(part, sort_keys=True, default=str).encode()).hexdigest()
