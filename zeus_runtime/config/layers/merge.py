"""Layers of a config merged: maps merge, lists and scalars replace, a Ref to another component replaces.

``merge`` is associative: a value that replaced something remembers it (``Node.cuts``), so what it cut off does not show
through when the result is merged over something else. It is idempotent but for the record of origins.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple, get_args, get_origin

from zeus_runtime.config.schema.forms import fields, is_record, is_ref, is_union, marker, split
from zeus_runtime.config.schema.markers import RefTo
from zeus_runtime.config.yaml.tree import Node, Origin

ANY: Final = "*"


class RefPlaces(NamedTuple):
    """Where Refs are in a tree, as a tree of keys (``*`` for any key or index).

    Args:
        ref: the marker, if a Ref is here.
        inner: the places below, by key; beside a Ref, those of the record that may be here instead of it.
        record: the keys of that record.
    """

    ref: RefTo | None
    inner: Mapping[str, RefPlaces]
    record: frozenset[str] = frozenset()

    def is_record(self, node: Node) -> bool:
        """Whether a mapping has the record's keys, and so is no Ref."""
        return node.is_map and bool(node.value) and node.value.keys() <= self.record

    def at(self, step: str | int) -> RefPlaces:
        return self.inner.get(str(step)) or self.inner.get(ANY) or NO_REFS


NO_REFS: Final = RefPlaces(None, {})


@cache
def ref_places(annotation: Any) -> RefPlaces:
    """The places of Refs in a type's values."""
    return _places(annotation, None, ())


def merge(base: Node, over: Node, refs: RefPlaces = NO_REFS) -> Node:
    """``over`` laid over ``base``.

    - two mappings merge key by key;
    - anything else in ``over`` replaces what is in ``base``: lists as a whole, scalars, an explicit null;
    - the options of Refs merge only if both name the same component. A plain name in ``over`` replaces the Ref and its
      options. A plain name in ``base`` counts as that component without options.

    The result lists ``over``'s origins before ``base``'s.

    Args:
        base: the older layer.
        over: the newer layer.
        refs: where Refs are.
    """
    origins = over.origins + base.origins
    if over.cuts or not over.is_map:
        return over._replace(origins=origins)
    # `{chain: …}` may stand where `model` is a Ref; as a Ref, it would replace another chain with all its options.
    if refs.is_record(base) and refs.is_record(over):
        merged, cuts = _entries(base, over, refs), base.cuts
    elif refs.ref is not None:
        spelled = _spelled(base, refs.ref)
        if spelled is None or len(over.value) != 1 or spelled.value.keys() != over.value.keys():
            return over._replace(origins=origins, cuts=True)
        # Below a component's name are its options, and a Ref in them merges as any mapping does.
        merged, cuts = _entries(spelled, over, NO_REFS), spelled.cuts
    # The base's own cut stays: an older layer must not show through the merged mapping either.
    elif base.is_map:
        merged, cuts = _entries(base, over, refs), base.cuts
    else:
        return over._replace(origins=origins, cuts=True)
    return Node(merged, origins, cuts)


def assign(base: Node, path: tuple[str, ...], value: Node, refs: RefPlaces, origin: Origin) -> Node:
    """The layer that sets one path in ``base``: merged over ``base`` it changes that place and nothing else.

    A whole number picks an entry where ``base`` has a list; everywhere else it is a key.

    Args:
        base: the tree that the layer will be merged over.
        path: keys and indexes, outermost first.
        value: the new value at the path.
        refs: where Refs are in ``base``.
        origin: the origin of the mappings around the value.

    Raises:
        IndexError: the list has no such entry; the message says which.
    """
    if not path:
        return value
    step, *rest = path
    if base.is_list:
        index = _index(step, len(base.value))
        # A layer's list replaces the whole list, so the layer is the base's list with one entry changed.
        items = list(base.value)
        if index == len(items):
            items.append(assign(_NOTHING, tuple(rest), value, refs.at(index), origin))
        else:
            layer = assign(items[index], tuple(rest), value, refs.at(index), origin)
            items[index] = merge(items[index], layer, refs.at(index))
        return Node(items, (origin,))
    is_record = step in refs.record
    spelled = (_spelled(base, refs.ref) if refs.ref and not is_record else base) or base
    child = spelled.value.get(step, _NOTHING) if spelled.is_map else _NOTHING
    below = NO_REFS if refs.ref and not is_record else refs.at(step)
    return Node({step: assign(child, tuple(rest), value, below, origin)}, (origin,))


def _entries(base: Node, over: Node, refs: RefPlaces) -> dict[str, Node]:
    merged = dict(base.value)
    for key, node in over.value.items():
        merged[key] = merge(merged[key], node, refs.at(key)) if key in merged else node
    return merged


def _spelled(node: Node, ref: RefTo) -> Node | None:
    """A Ref in its long form, ``{name: {options}}``; None if it is not one."""
    if node.is_map and len(node.value) == 1:
        return node
    if not isinstance(node.value, str):
        return None
    name: str = node.value
    options: dict[str, Node] = {}
    newest = node.origins[:1]
    if ref.plain is not None:
        name, option = ref.plain
        options = {option: node._replace(origins=newest)}
    return Node({name: Node(options, newest)}, node.origins, cuts=True)


def _index(step: str, length: int) -> int:
    if not step.isdecimal():
        raise IndexError(f"{step!r} is not an index of a list of {length}")
    if int(step) > length:
        raise IndexError(f"there is no entry {step} in a list of {length}")
    return int(step)


def _places(annotation: Any, ref: RefTo | None, around: tuple[Any, ...]) -> RefPlaces:
    bare, markers = split(annotation)
    ref = marker(markers, RefTo) or ref
    if is_ref(bare):
        return RefPlaces(ref, {})
    if is_record(bare) and bare not in around:
        return _inner({field.key: _places(field.annotation, None, (*around, bare)) for field in fields(bare)})
    args = [arg for arg in get_args(bare) if arg not in (Ellipsis, type(None))]
    if is_union(get_origin(bare)):
        found = [place for place in (_places(arg, ref, around) for arg in args) if place != NO_REFS]
        # `Ref | ModelChain`.
        if len(found) == 2 and found[0].ref is not None:
            records = [bare for bare, _ in map(split, args) if is_record(bare) and not is_ref(bare)]
            keys = frozenset(field.key for record in records for field in fields(record))
            return found[0]._replace(inner=found[1].inner, record=keys)
        return found[0] if len(found) == 1 else NO_REFS
    if args and isinstance(get_origin(bare), type):
        return _inner({ANY: _places(args[-1], ref, around)})
    return NO_REFS


def _inner(inner: dict[str, RefPlaces]) -> RefPlaces:
    kept = {key: place for key, place in inner.items() if place != NO_REFS}
    return RefPlaces(None, kept) if kept else NO_REFS


_NOTHING: Final = Node(None, ())
