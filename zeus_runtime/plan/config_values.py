"""Every value of a config as it takes effect, and where it comes from. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from zeus_runtime.config.ref import Ref
from zeus_runtime.config.schema.forms import fields
from zeus_runtime.config.yaml.tree import Mark, Path, show_path

if TYPE_CHECKING:
    from zeus_runtime.config import Document
    from zeus_runtime.plan.components import PlannedComponent
    from zeus_runtime.plan.models import PlannedModel
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.services import PlannedMemory


class ConfigValue(NamedTuple):
    """One value.

    Args:
        path: as ``--set`` writes it.
        value: JSON, secrets masked.
        marks: where it was written, the newest first; empty for a default.
    """

    path: str
    value: Any
    marks: tuple[Mark, ...]

    @property
    def source(self) -> str:
        """``zeus.prod.yaml:3:5, overrides zeus.yaml:7:3``, or ``default``."""
        if not self.marks:
            return "default"
        first, *older = map(str, self.marks)
        return ", ".join([first, *(f"overrides {mark}" for mark in older)])


def effective_values(document: Document, plan: Plan) -> tuple[ConfigValue, ...]:
    """The config's values in its own order, the options of its components with them."""
    redact = document.redactor.json
    return tuple(
        ConfigValue(show_path(path), redact(value), _marks(document, written))
        for path, value, written in _leaves(document, plan)
    )


def _leaves(document: Document, plan: Plan) -> Iterator[tuple[Path, Any, Path]]:
    """Path, value, and the path under which it is written."""
    components: Mapping[str, PlannedComponent | tuple[PlannedComponent, ...]] = {
        **({"model": plan.model} if plan.config.chain is None else {}),
        "tools": plan.toolsets,
        "middlewares": plan.middlewares,
        "checkpointer": plan.checkpointer,
        **({"counter": plan.counter} if plan.counter else {}),
    }
    for field in fields(type(plan.config)):
        planned = components.get(field.name)
        if field.name == "memory" and plan.memory is not None:
            yield from _memory(document, plan.config.memory, plan.memory)
        elif field.name == "models":
            yield from _roles(document, plan)
        elif field.name == "model" and planned is None:
            yield from _chain(document, plan.config.chain, plan.models, ("model",))
        elif planned is None:
            yield from _inside(getattr(plan.config, field.name), (field.key,))
        elif isinstance(planned, tuple):
            if not planned:
                yield (field.name,), [], (field.name,)
            for index, each in enumerate(planned):
                yield from _component(document, each, (field.name, index))
        else:
            yield from _component(document, planned, (field.name,))


def _chain(
    document: Document, chain: Any, models: Sequence[PlannedModel], path: Path
) -> Iterator[tuple[Path, Any, Path]]:
    for index, each in enumerate(models):
        yield from _component(document, each.component, (*path, "chain", index))
    for field in fields(type(chain)):
        if field.name != "chain":
            yield from _inside(getattr(chain, field.name), (*path, field.key))


def _roles(document: Document, plan: Plan) -> Iterator[tuple[Path, Any, Path]]:
    for role, models in plan.roles.items():
        written, path = getattr(plan.config.models, role), ("models", role)
        if isinstance(written, Ref):
            yield from _component(document, models[0].component, path)
        elif written is not None:
            yield from _chain(document, written, models, path)
        else:
            yield path, None, path
    yield from _inside(plan.config.models.subagents, ("models", "subagents"))


def _memory(document: Document, memory: Any, planned: PlannedMemory) -> Iterator[tuple[Path, Any, Path]]:
    for field in fields(type(memory)):
        path = ("memory", field.key)
        component: PlannedComponent | None = getattr(planned, field.name, None)
        if component is None:
            yield from _inside(getattr(memory, field.name), path)
        else:
            yield from _component(document, component, path)


def _component(document: Document, planned: PlannedComponent, path: Path) -> Iterator[tuple[Path, Any, Path]]:
    yield path, planned.name, path
    # A plain model name stands for one option: that option was written where the name is.
    plain = document.get(path)
    for name, value in planned.options.items():
        if isinstance(plain, str) and value == plain:
            yield (*path, planned.name, name), value, path
        else:
            yield from _inside(value, (*path, planned.name, name))


def _inside(value: Any, path: Path) -> Iterator[tuple[Path, Any, Path]]:
    if is_dataclass(value) and not isinstance(value, Ref | type):
        for field in fields(type(value)):
            yield from _inside(getattr(value, field.name), (*path, field.key))
    elif isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _inside(inner, (*path, str(key)))
    else:
        yield path, list(value) if isinstance(value, tuple) else value, path


def _marks(document: Document, path: Path) -> tuple[Mark, ...]:
    return tuple(origin.value for origin in document.origins(path))
