"""A config's sub-agents, and the parts that need permission of them all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from zeus_runtime.errors import ZeusError
from zeus_runtime.plan.agent_documents import own_document
from zeus_runtime.plan.validated import examine

if TYPE_CHECKING:
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.trust.parts import Part


def all_parts(checked: Checked) -> tuple[Part, ...]:
    """The parts of a config and its sub-agents, at any depth, each once."""
    found = {part.digest: part for part in checked.parts}
    for below in agents_below(checked):
        for part in below.parts:
            found.setdefault(part.digest, part)
    return tuple(found.values())


def agents_below(checked: Checked) -> Iterator[Checked]:
    """The configs of a config's sub-agents, at any depth; an invalid one is left out: the planner reports it."""
    yield from _below(checked, (), checked.config.limits.max_subagent_depth)


def _below(checked: Checked, above: tuple[Path, ...], depth: int) -> Iterator[Checked]:
    if depth <= 0 or not checked.config.agents:
        return
    path = checked.document.path
    above = above if path is None else (*above, path.resolve())
    for name, spec in checked.config.agents.items():
        try:
            document = own_document(checked, name, spec)
            # A circle of configs: the planner reports it too.
            if spec.config is not None and document.path is not None and document.path.resolve() in above:
                continue
            below = examine(
                document, directory=checked.directory, environ=checked.given_environ, trust=checked.trust
            )
        except ZeusError:
            continue
        yield below
        if spec.config is not None:
            yield from _below(below, above, depth - 1)
