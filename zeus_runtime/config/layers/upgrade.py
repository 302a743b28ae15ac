"""Old versions of the format, raised to the current one by pure steps; places stay where they were written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from zeus_runtime.config.messages.diagnostics import Diagnostic
from zeus_runtime.config.yaml.sources import Sources
from zeus_runtime.config.yaml.tree import Node, find

CURRENT: Final = 1
"""The version this release reads without a step."""


class UpgradeChange(NamedTuple):
    """A change that one step made, and the changed node."""

    message: str
    node: Node


Step: TypeAlias = Callable[[Mapping[str, Node]], tuple[dict[str, Node], list[UpgradeChange]]]


def upgrade(root: Node, sources: Sources) -> tuple[Node, tuple[Diagnostic, ...]]:
    """A file's tree in the current version, with a notice for everything that was changed on the way.

    An unknown version adds an error to the notices. The tree is then read as current, so that other problems are found.

    A file without ``version`` counts as current: an overlay need not repeat it, and validation reports a whole config
    that lacks it.

    Args:
        root: the file's root mapping.
        sources: to show its lines.
    """
    node: Node | None = root.value.get("version")
    if node is None:
        return root, ()
    version = node.value
    # `true` is an int in Python.
    if not isinstance(version, int) or isinstance(version, bool) or version < 0 or version > CURRENT:
        newer = isinstance(version, int) and not isinstance(version, bool) and version > CURRENT
        hint = "install a newer zeus-runtime" if newer else f"write version: {CURRENT}"
        message = f"the version {version!r} is not known; this release reads 0 to {CURRENT}"
        where = node.origin.value
        wrong = sources.diagnostic("unsupported-version", message, where, path=("version",), hint=hint)
        return root._replace(value={**root.value, "version": node._replace(value=CURRENT)}), (wrong,)
    entries: dict[str, Node] = root.value
    notices: list[Diagnostic] = []
    for step in range(version, CURRENT):
        entries, changes = _STEPS[step](entries)
        notices += (
            sources.diagnostic(
                "upgraded",
                f"read as version {step + 1}: {change.message}",
                change.node.origin.key or change.node.origin.value,
                hint=f"write it so, and version: {CURRENT}",
                severity="notice",
            )
            for change in changes
        )
    if version < CURRENT:
        entries = {**entries, "version": node._replace(value=CURRENT)}
    return root._replace(value=entries), tuple(notices)


def _from_0(entries: Mapping[str, Node]) -> tuple[dict[str, Node], list[UpgradeChange]]:
    """Version 0, the drafts' format: ``model_name``, ``middleware``, ``system_prompt_files``, ``max_steps``."""
    moves = {
        "model_name": ("model",),
        "middleware": ("middlewares",),
        "system_prompt_files": ("prompt", "files"),
        "max_steps": ("limits", "max_steps"),
    }
    return _moved(entries, moves)


def _moved(
    entries: Mapping[str, Node], moves: Mapping[str, tuple[str, ...]]
) -> tuple[dict[str, Node], list[UpgradeChange]]:
    result: dict[str, Node] = {}
    changes: list[UpgradeChange] = []
    for key, node in entries.items():
        target = moves.get(key)
        if target is None:
            result[key] = _joined(result[key], node) if key in result else node
            continue
        if find(Node(dict(entries), node.origins), target) is not None:
            result[key] = node
            continue
        changes.append(UpgradeChange(f"`{key}` is now `{'.'.join(target)}`", node))
        moved = node
        for step in reversed(target[1:]):
            moved = Node({step: moved}, (node.origin._replace(implied=True),))
        result[target[0]] = _joined(result[target[0]], moved) if target[0] in result else moved
    return result, changes


def _joined(first: Node, second: Node) -> Node:
    """Two halves of one mapping, without shared keys: a key in both is not moved, and validation reports it."""
    if not (first.is_map and second.is_map):
        return first
    return first._replace(value={**second.value, **first.value}, origins=first.origins + second.origins)


_STEPS: Final[Mapping[int, Step]] = {0: _from_0}
