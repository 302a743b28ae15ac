"""The values of a config that the schema marks: paths, what is executed, and where data is sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from zeus_runtime.config.schema.markers import (
    DESTINATION,
    EXECUTES,
    FILE_RELATIVE,
    FOLDER,
    HOLDS_SECRETS,
    NAMES_FILES,
    NOT_A_PATH,
    PLAIN_KEYS,
    PROTECTED,
    SHOWN,
    WORK_RELATIVE,
)
from zeus_runtime.config.schema.types import PLAIN, REF
from zeus_runtime.config.schema.walk import Schema, branches, walk_with
from zeus_runtime.config.secrets.secret_trees import number_text
from zeus_runtime.config.yaml.tree import Node, Path, walk
from zeus_runtime.disk_paths import expanded


class Marked(NamedTuple):
    """A string, number or boolean that the schema marks in at least one way, or a list that is a command.

    Args:
        path: its place.
        node: the value with its origins.
        text: the value, as ``from_home`` gives it; of a command, its words.
        is_file: whether it is a path relative to the file it is written in.
        holds_secrets: whether that file holds secrets.
        kept_from: what tools may not do with a path relative to the working directory: ``read``, ``write``, ``both``.
        executes: ``value`` for what is executed, ``name`` for the same if it names no file,
            ``asked`` for a name that is allowed together with the config's approvals, ``servers`` for a file of
            MCP servers, ``command`` for a list of words; a default is none of them.
        signs: for each option that says where data is sent, the texts without one of which it does not. Empty for a
            value that sends nothing anywhere, and for a default.
        may_name_file: whether a library may read it as the name of a file with keys or addresses.
        words: the words of a command.
        is_folder: whether it is a folder, relative to the working directory, in which Zeus changes the files; a
            default is none.
        is_of_sessions: whether that folder has a subfolder for each session.
        is_shown: whether it is a folder, relative to the working directory, that programs see; a default is none.
        is_unknown: whether it is in a mapping for a library, at a key that is not a plain one.
    """

    path: Path
    node: Node
    text: str
    is_file: bool
    holds_secrets: bool
    kept_from: frozenset[str]
    executes: frozenset[str]
    signs: tuple[Sequence[str], ...]
    may_name_file: bool = False
    words: tuple[str, ...] = ()
    is_folder: bool = False
    is_of_sessions: bool = False
    is_shown: bool = False
    is_unknown: bool = False

    @property
    def is_closed(self) -> bool:
        """Whether no tool may read the file."""
        return self.holds_secrets or not self.kept_from.isdisjoint({"read", "both"})

    @property
    def is_key_file(self) -> bool:
        """Whether a component reads keys from the file, and does not write it."""
        return "read" in self.kept_from


def marked_values(tree: Node, schema: Schema) -> Iterator[Marked]:
    """Every value in a config's tree that its schema marks; the tree may lack keys, or have values that do not fit."""
    sent: dict[Path, list[Schema]] = {}
    unknown: set[Path] = set()
    for path, node, written in walk_with(tree, schema):
        places = [*written, *(_plain_options(written, schema) if isinstance(node.value, str) else ())]
        # Most values have none, and a plan looks at each value many times.
        if path not in sent and all(map(_MARKS.isdisjoint, places)):
            continue
        for place in places:
            if DESTINATION in place and not _is_default(node, place):
                for at, _ in walk(node, path):
                    sent.setdefault(at, []).append(place)
                    if PLAIN_KEYS in place and at != path and at[len(path)] not in place[PLAIN_KEYS]:
                        unknown.add(at)
        is_command = any(place.get(EXECUTES) == "command" for place in places)
        words = tuple(_words(node)) if is_command else ()
        text = " ".join(words) if words else _text(node.value)
        if text is None:
            continue
        is_text = isinstance(node.value, str)
        marked = Marked(
            path,
            node,
            from_home(text, places) if is_text else text,
            is_file=is_text and any(is_path(text, place) for place in places),
            holds_secrets=any(place.get(HOLDS_SECRETS) for place in places),
            kept_from=frozenset(place[PROTECTED] for place in places if is_text and PROTECTED in place),
            executes=frozenset(
                place[EXECUTES] for place in places if EXECUTES in place and not _is_default(node, place)
            ),
            signs=tuple(place[DESTINATION] for place in sent.get(path, ())) if is_text else (),
            may_name_file=is_text and any(place.get(NAMES_FILES) for place in sent.get(path, ())),
            words=words,
            is_folder=is_text and any(FOLDER in place and not _is_default(node, place) for place in places),
            is_of_sessions=is_text and any(place.get(FOLDER) == "sessions" for place in places),
            is_shown=is_text and any(SHOWN in place and not _is_default(node, place) for place in places),
            is_unknown=path in unknown,
        )
        if marked.is_file or marked.kept_from or marked.executes or marked.signs or marked.is_unknown:
            yield marked


_MARKS: Final = frozenset((DESTINATION, EXECUTES, FILE_RELATIVE, PROTECTED))
"""Each of the other keywords is beside one of these."""


def from_home(text: str, places: Sequence[Schema]) -> str:
    """A text with ``~`` at its beginning replaced, where it is a path relative to the working directory.

    What judges such a path, what a digest holds of it, and the component that opens it, all get it from here. A path
    relative to its file becomes absolute, which replaces its ``~`` too.
    """
    return str(expanded(text)) if text.startswith("~") and is_at_work(places) else text


def is_at_work(places: Sequence[Schema]) -> bool:
    """Whether a text is a path relative to the working directory."""
    return any(place.get(each) for place in places for each in (WORK_RELATIVE, FOLDER, SHOWN))


def _is_default(node: Node, place: Schema) -> bool:
    default = place.get("default")
    return default == node.value or (isinstance(default, str) and from_home(default, [place]) == node.value)


def _words(node: Node) -> Iterator[str]:
    if isinstance(node.value, list):
        yield from (text for each in node.value if (text := _text(each.value)) is not None)


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else number_text(value)


def is_path(value: str, place: Schema) -> bool:
    """Whether a text is a path relative to the file it is written in: ``plugin:NAME`` under ``homes`` is none."""
    named_otherwise = NOT_A_PATH in place and value.startswith(place[NOT_A_PATH])
    return bool(place.get(FILE_RELATIVE)) and not named_otherwise


def _plain_options(places: Sequence[Schema], schema: Schema) -> Iterator[Schema]:
    """The options that a plain string sets: ``model: gpt-5.2`` sets the option ``model`` of ``litellm``."""
    for place in places:
        if PLAIN in place:
            component, option = place[PLAIN]
            options = schema.get("$defs", {}).get(f"{place[REF]}.{component}", {})
            yield from branches(options.get("properties", {}).get(option, {}), schema)
