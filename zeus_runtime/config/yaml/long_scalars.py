"""The places of header values that YAML writes over several lines, so that ``sources.py`` can mask them."""

from __future__ import annotations

from dataclasses import dataclass

from zeus_runtime.config.secrets.secret_names import holds_headers


@dataclass
class _Collection:
    """A mapping or a list that is being read.

    Args:
        is_header: whether its values are headers'.
        key: of a mapping, the key whose value comes next; None if a key comes next.
    """

    is_map: bool
    is_header: bool
    anchor: str | None
    key: str | None = None

    @property
    def holds_header(self) -> bool:
        """Whether the next value is a header's."""
        return self.is_header or holds_headers(self.key)

    def take(self, text: str) -> None:
        """Count the next key or value."""
        self.key = text if self.is_map and self.key is None else None


def long_scalars(text: str, values: frozenset[str]) -> list[tuple[int, int]]:
    """The start and end of each scalar over several lines that headers hold, by an alias too, or that is in ``values``.

    Only the events are read: they need no recursion, which text such as ``[[[[`` could exhaust.
    """
    import yaml

    spans: set[tuple[int, int]] = set()
    anchored: dict[str, set[tuple[int, int]]] = {}
    within = [_Collection(is_map=False, is_header=False, anchor=None)]
    try:
        for event in yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.CollectionStartEvent):
                is_map = isinstance(event, yaml.MappingStartEvent)
                within.append(_Collection(is_map, within[-1].holds_header, event.anchor))
            elif isinstance(event, yaml.CollectionEndEvent):
                within.pop()
                within[-1].take("")
            elif isinstance(event, yaml.AliasEvent):
                if within[-1].holds_header:
                    spans |= anchored.get(str(event.anchor), set())
                within[-1].take("")
            elif isinstance(event, yaml.ScalarEvent):
                start, end = event.start_mark, event.end_mark
                # The parser sets both.
                if start and end and start.line != end.line:
                    span = (start.index, end.index)
                    for anchor in filter(None, (event.anchor, *(each.anchor for each in within))):
                        anchored.setdefault(anchor, set()).add(span)
                    if within[-1].holds_header or event.value in values:
                        spans.add(span)
                within[-1].take(event.value)
    except yaml.YAMLError:
        # The text of a config was read before; that of a `--set` has one line.
        return []
    return sorted(spans)
