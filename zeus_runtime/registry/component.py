"""A component: a registered object with a name, an ``Options`` type and a way to create it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final, Literal, TypeAlias, get_args

from zeus_runtime.frozen import dataclass

Kind: TypeAlias = Literal[
    "model",
    "counter",
    "tool",
    "middleware",
    "vector_store",
    "memory",
    "embedding",
    "checkpointer",
    "sandbox",
    "search",
    "protocol",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
NOT_IN_CONFIGS: Final[frozenset[Kind]] = frozenset({"protocol"})
"""Kinds that the command line names, and no config."""


@dataclass(frozen=True)
class Component:
    """A plugin's registration: found by kind (the hook that returned it) and name (as the YAML writes it).

    Args:
        name: the Ref's name in YAML, ``lower_snake_case``.
        create: ``create(options, context) -> thing``, or ``"package.module:attribute"`` naming it, resolved at first
            use. The type of its result depends on the kind: a ``Model``, a sequence of ``Tool`` or a ``Toolset``, a
            LangGraph saver (async context manager). ``context`` is the agent's ``PlanContext``. For a middleware,
            ``create`` is its class, which each run calls with its ``RunContext``; for a protocol, ``context`` is the
            ``ProtocolService``.
        options: a frozen dataclass or a pydantic model that types the YAML options, or ``"package.module:Class"``;
            None if the component takes no option.
        summary: one line for lists and the schema.
        gives: the categories of the tools that it can provide, each with its requirements in words, which may be empty.
            `zeus tools list` shows them for a component that the YAML does not list.

    Give references as strings and keep the plugin module light: every command that reads a config imports it, but an
    object that a string names is imported only when the component runs.
    """

    name: str
    create: Callable[..., Any] | str
    options: type | str | None = None
    summary: str = ""
    gives: Mapping[str, str] = field(default_factory=dict)
