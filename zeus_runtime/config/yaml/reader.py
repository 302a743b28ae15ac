"""One YAML document to a tree of Nodes: every key and value with its place, YAML 1.2 scalars, no surprises."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from zeus_runtime.config.messages.diagnostics import ConfigError, Diagnostic, in_order
from zeus_runtime.config.yaml.scalars import NotJsonError, Scalar, resolve
from zeus_runtime.config.yaml.sources import Sources
from zeus_runtime.config.yaml.tree import Mark, Node, Origin

MAX_BYTES: Final = 4_000_000
MAX_DEPTH: Final = 64
"""Levels in one file with all aliases written out: what walks the tree is recursive."""
MAX_NODES: Final = 100_000
"""Values in one file with all aliases written out; ten nested aliases of ten entries each ask for 10,000,000,000."""

_TAG: Final = "tag:yaml.org,2002:"
# The printable characters of YAML 1.2 (section 5.1). Half of a surrogate pair is not among them.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class _StopError(Exception):
    """Reading cannot continue."""


def decode(data: bytes, source: str) -> str:
    """The text of a YAML file, a byte-order mark removed.

    Raises:
        ConfigError: it is too large or not UTF-8.
    """
    sources = Sources()
    if len(data) > MAX_BYTES:
        message = f"larger than {MAX_BYTES:,} bytes"
        raise ConfigError(
            [sources.diagnostic("too-large", message, Mark(source, 1, 1), hint="split it with extends")]
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace").lstrip("\ufeff")) + 1
        # Windows PowerShell 5 writes UTF-16 with `>`.
        utf16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
        message = "the file is UTF-16, not UTF-8" if utf16 else f"byte 0x{data[error.start]:02x} is not UTF-8"
        hint = "save the file as UTF-8"
        raise ConfigError(
            [sources.diagnostic("not-utf8", message, Mark(source, line, column), hint=hint)]
        ) from None
    # libyaml takes a lone \r as a line break too, and `Sources.line` does not: a caret would point at another line.
    return text.replace("\r\n", "\n").replace("\r", "\n")


def hint_for_pipe(source: str) -> str:
    """What to name instead of ``/dev/stdin`` or ``<(…)``, which have no folder and can be read only once; else ""."""
    is_pipe = source.startswith(("/dev/stdin", "/dev/fd/", "/proc/"))
    return "for a config on standard input, name `-`: `... | zeus run -`" if is_pipe else ""


def read(text: str, source: str) -> Node:
    """The root mapping of a YAML text.

    Args:
        text: the document, newlines as ``\\n``.
        source: the name that places in it carry.

    Raises:
        ConfigError: with every problem found: syntax, duplicate keys, unknown tags, a root that is not a mapping, ...
    """
    root = read_value(text, source)
    if root is None or root.value is None:
        message = "the file holds no configuration"
        hint = hint_for_pipe(source) or "`zeus init` writes one to start from"
        raise ConfigError([Sources().diagnostic("empty-file", message, Mark(source, 1, 1), hint=hint)])
    if not root.is_map:
        kind = "a list" if root.is_list else "a single value"
        diagnostic = Sources({source: text}).diagnostic(
            "not-a-mapping",
            f"the file holds {kind}",
            root.origin.value,
            hint="write keys and values: `version: 1`",
        )
        raise ConfigError([diagnostic])
    return root


def read_value(text: str, source: str) -> Node | None:
    """The value of a YAML text of any kind; None if the text is blank or has only comments.

    Raises:
        ConfigError: as ``read``.
    """
    composer = _Composer(source, Sources({source: text}))
    root: Node | None = None
    try:
        composer.check_characters(text)
        root = composer.document(text)
    except _StopError:
        pass
    if composer.problems:
        raise ConfigError(in_order(composer.problems, {source: text}))
    return root


class _Size(NamedTuple):
    """An anchored value, how many values it holds, itself included, and the levels below it.

    The value is None while it is still being read.
    """

    node: Node | None
    size: int
    levels: int


@dataclass
class _Composer:
    """Reads the parser's events; holds what one document needs: anchors, the size so far and the problems."""

    source: str
    sources: Sources
    problems: list[Diagnostic] = field(default_factory=list)
    anchors: dict[str, _Size] = field(default_factory=dict)
    size: int = 0
    deepest: int = 0  # the deepest level so far of the anchored value that is being read
    parser: Any = None

    def document(self, text: str) -> Node | None:
        import yaml

        # Only the events are read: no constructor of PyYAML and no scalar of YAML 1.1 (`no` as false) takes part.
        loader: Any = yaml.SafeLoader
        if yaml.__with_libyaml__:
            from yaml.cyaml import CParser  # type: ignore[attr-defined]

            loader = CParser
        try:
            self.parser = loader(text)
            # The stream's start.
            self.parser.get_event()
            if self.parser.check_event(yaml.StreamEndEvent):
                return None
            first = self.parser.get_event()
            root = self._value(self.parser.get_event(), None, 0)
            # The document's end.
            self.parser.get_event()
            if not self.parser.check_event(yaml.StreamEndEvent):
                self._problem(
                    "multiple-documents",
                    "a second YAML document begins here",
                    self._mark(self.parser.get_event().start_mark),
                    hint="one file is one configuration: remove the `---` or split the file",
                    related=(("the first begins here", self._mark(first.start_mark)),),
                )
        except yaml.YAMLError as error:
            self._syntax(error, text)
        else:
            return root
        return None

    def check_characters(self, text: str) -> None:
        if match := _UNPRINTABLE.search(text):
            line = text.count("\n", 0, match.start()) + 1
            column = match.start() - text.rfind("\n", 0, match.start())
            message = f"the character U+{ord(match[0]):04X} cannot stand in YAML"
            self._problem("yaml-syntax", message, Mark(self.source, line, column), hint="remove it")
            raise _StopError

    def _value(self, event: Any, key: Mark | None, depth: int) -> Node:
        # By its name, because `yaml` is imported in `document` only.
        kind = type(event).__name__
        mark = self._mark(event.start_mark)
        self._deepen(depth, mark)
        if kind == "AliasEvent":
            return self._alias(event.anchor, mark, key, depth)
        before, deepest = self.size, self.deepest
        self._grow(1, mark)
        if event.anchor:
            # Before the value is read, so that an alias within it finds its own anchor open.
            self.anchors[event.anchor] = _Size(None, 0, 0)
            self.deepest = depth
        origins = (Origin(mark, key),)
        if kind == "ScalarEvent":
            node = Node(self._scalar(event, mark), origins)
        elif kind == "SequenceStartEvent":
            self._check_tag(event, "seq", mark)
            node = Node(self._list(depth), origins)
        else:
            self._check_tag(event, "map", mark)
            node = Node(self._map(depth), origins)
        if event.anchor:
            self.anchors[event.anchor] = _Size(node, self.size - before, self.deepest - depth)
            self.deepest = max(self.deepest, deepest)
        return node

    def _alias(self, name: str, mark: Mark, key: Mark | None, depth: int) -> Node:
        anchored = self.anchors.get(name)
        if anchored is None:
            # Neither message shows the name: an unquoted password that begins with * or ! looks like one.
            hint = "quote it if it is a text; else write an anchor (&) of its name before the value it stands for"
            self._problem("yaml-syntax", "no anchor before this alias", mark, hint=hint, width=len(name) + 1)
            return Node(None, (Origin(mark, key),))
        if anchored.node is None:
            self._problem(
                "yaml-syntax", f"the alias '*{name}' is inside its own anchor", mark, width=len(name) + 1
            )
            raise _StopError
        self._grow(anchored.size, mark)
        self._deepen(depth + anchored.levels, mark)
        return anchored.node._replace(origins=(Origin(mark, key),))

    def _list(self, depth: int) -> list[Node]:
        items = []
        while type(event := self.parser.get_event()).__name__ != "SequenceEndEvent":
            items.append(self._value(event, None, depth + 1))
        return items

    def _map(self, depth: int) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        merged: list[Node] = []
        merge_key: Mark | None = None
        while type(event := self.parser.get_event()).__name__ != "MappingEndEvent":
            mark = self._mark(event.start_mark)
            # Only a plain one: in quotes or with a tag, `<<` is a key like any other.
            if type(event).__name__ == "ScalarEvent" and event.value == "<<" and event.implicit[0]:
                node = self._source(mark, depth)
                if merge_key is not None:
                    self._duplicate("<<", mark, merge_key)
                merge_key, merged = mark, self._merged(node)
                continue
            key = self._key(event, mark, depth)
            value = self._value(self.parser.get_event(), mark, depth + 1)
            # Not before: the value's events must be taken from the parser too.
            if key is None:
                continue
            if key in entries:
                self._duplicate(key, mark, entries[key].origins[0].key)
            else:
                entries[key] = value
        # The mapping's own keys win, then those of earlier sources.
        for source in merged:
            entries = {**{key: node for key, node in source.value.items() if key not in entries}, **entries}
        return entries

    def _source(self, key: Mark, depth: int) -> Node:
        """The value of a ``<<``. Its entries are those of the mapping itself, so a merge is not a level."""
        deepest, self.deepest = self.deepest, depth + 1
        node = self._value(self.parser.get_event(), key, depth + 1)
        self.deepest = max(deepest, self.deepest - (2 if node.is_list else 1))
        return node

    def _merged(self, node: Node) -> list[Node]:
        sources = node.value if node.is_list else [node]
        for source in sources:
            if not source.is_map:
                message = "`<<` merges mappings, and this is none"
                self._problem(
                    "yaml-syntax", message, source.origin.value, hint="write `<<: *name` or `<<: [*a, *b]`"
                )
        return [source for source in sources if source.is_map]

    def _key(self, event: Any, mark: Mark, depth: int) -> str | None:
        if type(event).__name__ == "AliasEvent":
            node = self._alias(event.anchor, mark, None, depth + 1)
            value, written = node.value, f"*{event.anchor}"
        elif type(event).__name__ == "ScalarEvent":
            value, written = self._scalar(event, mark), event.value
            if event.anchor:
                self.anchors[event.anchor] = _Size(Node(value, (Origin(mark),)), 1, 0)
        else:
            value, written = self._value(event, None, depth + 1).value, ""
        if isinstance(value, str):
            return value
        if written:
            message = f"the key {written} is not text but {_kind(value)}"
            hint = f'write "{written}" with quotes' if not written.startswith("*") else "name a text"
        else:
            message, hint = f"a key must be text, and this is {_kind(value)}", "write `key: value`"
        self._problem("non-string-key", message, mark, hint=hint, width=len(written) or 1)
        return None

    def _scalar(self, event: Any, mark: Mark) -> Scalar:
        tag: str | None = event.tag
        text: str = event.value
        try:
            if tag is None:
                return resolve(text) if event.implicit[0] else text
            short = tag.removeprefix(_TAG)
            # YAML 1.2 (section 6.9.1): the tag `!` makes a plain scalar a text.
            if tag == "!" or short == "str":
                return text
            if short in _TAGGED:
                value = resolve(text)
                if type(value) in _TAGGED[short]:
                    return float(value) if short == "float" and value is not None else value
                # Without the value, which may be a password that begins with `!!int`.
                hint = "quote it if it is a text, or remove the tag"
                self._problem("wrong-type", f"!!{short} does not fit this value", mark, hint=hint)
                return value
            self._tag_problem(tag, mark)
        except NotJsonError as error:
            self._problem(
                "not-json", str(error), mark, hint="write null for none, or quote it as text", width=len(text)
            )
        return text

    def _check_tag(self, event: Any, fitting: str, mark: Mark) -> None:
        if event.tag not in (None, "!", _TAG + fitting):
            self._tag_problem(event.tag, mark)

    def _tag_problem(self, tag: str, mark: Mark) -> None:
        is_yaml = tag.startswith(_TAG)
        shown = f"the tag {tag.replace(_TAG, '!!')}" if is_yaml else "this tag"
        message = (
            f"{shown} is not known: a YAML value is text, a number, a boolean, null, a list or a mapping"
        )
        hint = "remove the tag" if is_yaml else "quote it if it is a text, or remove the tag"
        self._problem("unknown-tag", message, mark, hint=hint, width=len(tag.replace(_TAG, "!!")))

    def _duplicate(self, key: str, second: Mark, first: Mark | None) -> None:
        self._problem(
            "duplicate-key",
            f"{key!r} is written twice in one mapping",
            second,
            related=((f"first written at {first}", None),),
            hint="keep one of them",
            width=len(key),
        )

    def _deepen(self, depth: int, mark: Mark) -> None:
        self.deepest = max(self.deepest, depth)
        if depth > MAX_DEPTH:
            message = f"nested deeper than {MAX_DEPTH} levels, aliases written out"
            self._problem("too-large", message, mark, hint="flatten it")
            raise _StopError

    def _grow(self, by: int, mark: Mark) -> None:
        self.size += by
        if self.size > MAX_NODES:
            message = f"more than {MAX_NODES:,} values, aliases written out"
            self._problem("too-large", message, mark, hint="use fewer aliases of aliases, or split the file")
            raise _StopError

    def _syntax(self, error: Any, text: str) -> None:
        problem: str = getattr(error, "problem", None) or str(error)
        place = getattr(error, "problem_mark", None)
        context = getattr(error, "context_mark", None)
        # The scanner notices an open quote at the end of the file only; the context is the quote itself.
        if problem in _UNCLOSED and context is not None:
            place, context = context, None
        mark = self._mark(place) if place is not None else Mark(self.source, 1, 1)
        line = self.sources.texts[self.source].split("\n")[mark.line - 1 : mark.line]
        char = line[0][mark.column - 1 : mark.column] if line else ""
        message, hint = _SYNTAX.get(
            problem, (problem, "check quotes, brackets and indentation here and just above")
        )
        if problem == "found character that cannot start any token":
            if char == "\t":
                message, hint = "a tab cannot indent YAML", "use spaces"
            else:
                message, hint = f"a plain value cannot begin with {char!r}", "put the value in quotes"
        # In `{a: ${B}}`, YAML takes the `{` behind the dollar sign for a mapping.
        if line and line[0][max(0, mark.column - 2) : mark.column] == "${":
            message, hint = "a `${…}` inside `{…}` or `[…]` must be in quotes", 'write "${…}"'
        started = self._mark(context) if context is not None else None
        related = ((f"it belongs to what begins at {started}", None),) if started and started != mark else ()
        self._problem("yaml-syntax", message, mark, hint=hint, related=related)

    def _mark(self, mark: Any) -> Mark:
        return Mark(self.source, mark.line + 1, mark.column + 1)

    def _problem(
        self,
        code: str,
        message: str,
        mark: Mark,
        *,
        hint: str | None = None,
        related: tuple[tuple[str, Mark | None], ...] = (),
        width: int = 1,
    ) -> None:
        self.problems.append(
            self.sources.diagnostic(code, message, mark, hint=hint, related=related, width=width)
        )


_TAGGED: Final[Mapping[str, tuple[type, ...]]] = {
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
    "null": (type(None),),
}
# These are texts of libyaml's errors; a text that is not listed is shown as it is.
_UNCLOSED: Final = frozenset({"found unexpected end of stream", "found unexpected document indicator"})
_ALIGN: Final = "keys of one mapping stand in one column, list entries too"
_SYNTAX: Final[Mapping[str, tuple[str, str]]] = {
    "found unexpected end of stream": (
        "a quote opened here is never closed",
        "close it, on the same line if you can",
    ),
    "found unexpected document indicator": (
        "a quote opened here is never closed",
        "close it before the `---`",
    ),
    "mapping values are not allowed in this context": (
        "a `key:` cannot stand here",
        "put a value that holds `: ` in quotes, or align the key with its neighbours",
    ),
    "did not find expected key": ("a key was expected here", _ALIGN),
    "did not find expected '-' indicator": ("a list entry `- ` was expected here", _ALIGN),
    "did not find expected ',' or ']'": ("a `,` or `]` was expected here", "close the list with `]`"),
    "did not find expected ',' or '}'": ("a `,` or `}` was expected here", "close the mapping with `}`"),
    "could not find expected ':'": ("a `:` was expected before here", "write `key: value`, with a space"),
    "found unknown escape character": (
        "the escape is not known",
        "write \\\\ for a backslash, or use single quotes",
    ),
}


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    return "a list" if isinstance(value, list) else "a mapping"
