"""Every value of a config as it takes effect, and where it comes from. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from zeus_runtime.config.ref import Ref
from zeus_runtime.config.schema.forms import fields
from zeus_runtime.config.schema.walk import at, branches
from zeus_runtime.config.yaml.tree import Mark, Path, show_path
from zeus_runtime.plan.default_keys import set_keys

if TYPE_CHECKING:
    from zeus_runtime.config import Document
    from zeus_runtime.plan.components import PlannedComponent
    from zeus_runtime.plan.models import PlannedModel
    from zeus_runtime.plan.plan import Plan
    from zeus_runtime.plan.services import PlannedMemory
    from zeus_runtime.plan.validated import Checked


class ConfigValue(NamedTuple):
    """One value.

    Args:
        path: as ``--set`` writes it.
        value: JSON, secrets masked.
        marks: where it was written, the newest first; empty for a default.
        variables: those from which a key is taken that no option names.
    """

    path: str
    value: Any
    marks: tuple[Mark, ...]
    variables: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """``zeus.prod.yaml:3:5, overrides zeus.yaml:7:3``, or ``default``, or ``default: ANTHROPIC_API_KEY``."""
        if not self.marks:
            return ": ".join(["default", *([", ".join(self.variables)] if self.variables else [])])
        first, *older = map(str, self.marks)
        return ", ".join([first, *(f"overrides {mark}" for mark in older)])


def effective_values(checked: Checked, plan: Plan) -> tuple[ConfigValue, ...]:
    """The config's values in its own order, the options of its components with them."""
    document = checked.document
    redact = document.redactor.json
    return tuple(
        ConfigValue(
            show_path(path),
            redact(value),
            _marks(document, written),
            _variables(checked, path) if value is None else (),
        )
        for path, value, written in _leaves(document, plan)
    )


def _variables(checked: Checked, path: Path) -> tuple[str, ...]:
    """The variables from which a secret is taken that no option names; ``NAME of .env`` for one of a ``.env``."""
    document = checked.document
    assert document.schema is not None, "a document that was checked has its schema"
    places = branches(document.schema, document.schema)
    for step in path:
        places = at(places, step, document.schema)
    if not any(place.get("writeOnly") is True for place in places):
        return ()
    found = set_keys(document, checked.registry, path, document.environ)
    return tuple(
        name if " " in name or checked.trust.environ.get(name) else f"{name} of .env" for name in found
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
            # Implied components come last, so the others have the numbers under which they are written.
            for index, each in enumerate(sorted(planned, key=lambda each: each.path[0] != field.name)):
                yield (field.name, index), each.name, each.path
                yield from _options(document, each, (field.name, index))
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
    yield from _options(document, planned, path)


def _options(document: Document, planned: PlannedComponent, path: Path) -> Iterator[tuple[Path, Any, Path]]:
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
