"""The tools that an agent has and could have: every category and component, on or off, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zeus_runtime.command_lines import zeus_command
from zeus_runtime.plan.servers import IMPLIED
from zeus_runtime.tools import visible
from zeus_runtime.tools.modes import MODE_TABLE

if TYPE_CHECKING:
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.tools import PlannedTool
    from zeus_runtime.registry import Kind, Plugin, Registered, Registry
    from zeus_runtime.tools import Account, Connection


@dataclass(frozen=True)
class OutsideTools:
    """The state of the components whose tools come from outside, by component name.

    Args:
        connections: their connections.
        accounts: the accounts that some of the connections need.
        started: whether they were opened.
    """

    connections: Mapping[str, Sequence[Connection]] = field(default_factory=dict)
    accounts: Mapping[str, Sequence[Account]] = field(default_factory=dict)
    started: bool = False


@dataclass(frozen=True)
class Stock:
    """A category of tools that one component provides, or could provide.

    Args:
        category: the row of the mode table; empty where only the component itself knows.
        component: its name in YAML; empty where no plugin provides the category.
        kind: ``tool`` or ``middleware``.
        plugin: the plugin that provides it.
        enabled: whether the model gets any of its tools in this mode; None if that is known only when it is started.
        why: why it is on or off, and how to turn it on.
        tools: its tools, including hidden ones.
    """

    category: str
    component: str = ""
    kind: Kind = "tool"
    plugin: Plugin | None = None
    enabled: bool | None = False
    why: str = ""
    tools: tuple[PlannedTool, ...] = ()


def inventory(
    plan: Plan, registry: Registry, tools: Sequence[PlannedTool], opened: OutsideTools
) -> Sequence[Stock]:
    """Every category with each component that provides it, in the mode table's order, then components without one.

    Args:
        tools: the existing tools, including those of opened toolsets.
        opened: the state of the components whose tools come from outside.
    """
    stocks = [
        stock
        for registered in registry.all()
        if registered.kind in ("tool", "middleware")
        for stock in _stocks(registered, plan, tools, opened)
    ]
    known: list[str] = [*MODE_TABLE]
    missing = [
        Stock(category, why="no usable plugin gives it (`zeus plugins list`)")
        for category in known
        if category != "custom" and not any(each.category == category for each in stocks)
    ]
    order = {category: place for place, category in enumerate(known)}
    return sorted([*stocks, *missing], key=lambda each: order.get(each.category, len(order)))


def _stocks(
    registered: Registered, plan: Plan, tools: Sequence[PlannedTool], opened: OutsideTools
) -> Iterator[Stock]:
    name, kind, gives = registered.name, registered.kind, registered.component.gives
    own = [each for each in tools if (each.component, each.kind) == (name, kind)]
    categories: list[str] = [*gives, *(each.tool.category for each in own if each.tool.category not in gives)]
    if not categories and kind == "tool":
        categories = [""]
    for category in dict.fromkeys(categories):
        mine = tuple(each for each in own if each.tool.category == category)
        enabled, why = _state(registered, category, mine, plan, opened)
        yield Stock(category, name, kind, registered.plugin, enabled, why, mine)


def _state(
    registered: Registered, category: str, tools: Sequence[PlannedTool], plan: Plan, opened: OutsideTools
) -> tuple[bool | None, str]:
    name, kind = registered.name, registered.kind
    key = "tools" if kind == "tool" else "middlewares"
    needs = registered.component.gives.get(category, "")
    connections = [each for each in opened.connections.get(name, ()) if each.category == category]
    if tools:
        shown = visible([each.tool for each in tools], plan.mode)
        if not shown:
            return False, f"{plan.mode} mode hides it"
        if not any(each.callable for each in shown):
            return True, f"{plan.mode} mode names it and lets none of it be called"
        return True, "; ".join(_troubles(connections)) or f"listed under {key}"
    for off in plan.off:
        if (off.component, kind) == (name, "tool"):
            return False, off.reason
    if not _is_listed(registered, plan):
        return False, f"add `- {name}` to {key}" + (f"; it needs {needs}" if needs else "")
    if connections:
        return _outside(connections, opened.accounts.get(name, ()), started=opened.started)
    return False, f"it needs {needs}" if needs else "it gives no tools here"


def _is_listed(registered: Registered, plan: Plan) -> bool:
    listed = plan.toolsets if registered.kind == "tool" else plan.middlewares
    # A component that a key of the config implies needs no line under `tools`.
    return registered.name == IMPLIED or any(each.name == registered.name for each in listed)


def _outside(
    connections: Sequence[Connection], accounts: Sequence[Account], *, started: bool
) -> tuple[bool | None, str]:
    troubles = [*_troubles(connections), *([] if started else _unauthorised(connections, accounts))]
    # If each connection has a trouble, a start could not give a tool either.
    if started or len(troubles) == len(connections):
        return False, "; ".join(troubles) or "connected, and it gives no tools"
    return None, "; ".join(["known when it is started (--connect)", *troubles])


def _troubles(connections: Sequence[Connection]) -> list[str]:
    return [
        f"{each.name} is {each.state}" + (f": {each.why}" if each.why else "")
        for each in connections
        if each.state not in ("connected", "closed")
    ]


def _unauthorised(connections: Sequence[Connection], accounts: Sequence[Account]) -> list[str]:
    names = {each.name for each in connections}
    return [
        f"{each.name} is not authorised: run `{zeus_command('auth', 'login', each.name, is_argument=True)}`"
        for each in accounts
        if each.name in names and not each.authorised
    ]
