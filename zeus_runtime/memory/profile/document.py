"""A profile as a YAML text that a person edits, and what was changed in it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.config.messages.diagnostics import ConfigError, did_you_mean
from zeus_runtime.config.yaml.reader import read_value
from zeus_runtime.config.yaml.sources import Sources
from zeus_runtime.config.yaml.tree import Node, plain
from zeus_runtime.cutting import unwrapped
from zeus_runtime.errors import UsageError
from zeus_runtime.memory.profile.fields import CHOICES, ProfileField, field_names, is_list, written_value

if TYPE_CHECKING:
    from zeus_runtime.config.messages.diagnostics import Diagnostic
    from zeus_runtime.memory.profile.fields import ProfileKind

_HEAD = """\
# The {kind} profile. Save and close to write what you changed; change nothing to leave it as it is.
# What you write is never overwritten by what is drawn from memories; an emptied field is drawn again.
# The next line tells Zeus what you were shown, so that you overwrite nobody else's change.
"""

READ: Final = "# read:"
"""How the line begins that has the seals of what a text was made from."""


def profile_document(kind: ProfileKind, fields: Sequence[ProfileField]) -> str:
    """Every field with its value written by hand; lines drawn from memories are in a comment above it."""
    body = "".join(_lines(each) for each in fields)
    seals = " ".join(f"{name}={seal}" for name, seal in seals_of(body).items())
    return f"{_HEAD.format(kind=kind)}{READ} {seals}\n{body}"


def seals_of(text: str) -> dict[str, str]:
    """A digest of each field's value, by which a later text shows what was changed; without fields that are empty."""
    found = {field: _seal(plain(node)) for field, node in _read(text, "").items()}
    return {field: seal for field, seal in found.items() if seal}


def seals_in(text: str) -> dict[str, str] | None:
    """The seals of the document that a text was made from; None for a text that was made from none."""
    line = next((each for each in text.splitlines() if each.startswith(READ)), None)
    if line is None:
        return None
    return {name: seal for name, _, seal in (each.partition("=") for each in line[len(READ) :].split())}


def _seal(value: Any) -> str:
    return "" if value in ("", [], None) else hashlib.sha256(_json(value).encode()).hexdigest()[:12]


def _lines(field: ProfileField) -> str:
    notes = [f"one of: {', '.join(CHOICES[field.name])}"] if field.name in CHOICES else []
    if field.name == "key_decisions":
        notes.append('entries: "text", or {decision: text, reason: text, time: text}')
    by_hand = field.by == "hand"
    if not by_hand:
        drawn = [field.value] if isinstance(field.value, str) else list(map(str, field.value))
        notes += [f"from memories: {unwrapped(each)}" for each in drawn if each]
    comments = "".join(f"# {note}\n" for note in notes)
    return f"\n{comments}{field.name}:{_value(field, by_hand=by_hand)}\n"


def _value(field: ProfileField, *, by_hand: bool) -> str:
    if is_list(field.name):
        entries = [_entry(each) for each in field.value] if by_hand else []
        return "".join(f"\n  - {_json(each)}" for each in entries) or " []"
    text = str(field.value) if by_hand else ""
    if "\n" in text:
        return " |-\n" + "\n".join(f"  {line}".rstrip() for line in text.split("\n"))
    return f" {_json(text)}"


def _entry(entry: Any) -> Any:
    if isinstance(entry, str):
        return entry
    given = {name: value for name, value in vars(entry).items() if value}
    return given if given.keys() - {"decision"} else given["decision"]


def profile_changes(
    kind: ProfileKind, text: str, name: str, read: Mapping[str, str] | None
) -> dict[str, str]:
    """The fields that differ from what the user was shown, as ``Profiles.edit`` takes them.

    A field that is not in the text stays as it is.

    Args:
        name: of the file, for the places of problems.
        read: ``seals_of`` what the user was shown; without it every field of the text is a change.

    Raises:
        ConfigError: the text is not YAML, or a field is unknown or cannot hold what is written; with every problem.
    """
    found = _read(text, name)
    sources = Sources({name: text})
    problems: list[Diagnostic] = []
    changes: dict[str, str] = {}
    for field, node in found.items():
        is_field = field in field_names(kind)
        if read is not None and is_field and _seal(plain(node)) == read.get(field, ""):
            continue
        try:
            changes[field] = _written(kind, field, plain(node))
            written_value(kind, field, changes[field])
        except UsageError as error:
            mark = (None if is_field else node.origin.key) or node.origin.value
            hint = error.remedy and error.remedy.rstrip(".")
            problems.append(sources.diagnostic("profile", error.message, mark, path=(field,), hint=hint))
    if problems:
        raise ConfigError(problems)
    return changes


def _read(text: str, name: str) -> Mapping[str, Node]:
    root = read_value(text, name)
    if root is None or root.value is None:
        return {}
    if not root.is_map:
        raise ConfigError(
            [
                Sources({name: text}).diagnostic(
                    "profile",
                    "a profile is a mapping of fields",
                    root.origin.value,
                    hint="write FIELD: VALUE",
                )
            ]
        )
    return root.value  # type: ignore[no-any-return]


def _written(kind: ProfileKind, field: str, value: Any) -> str:
    if field not in field_names(kind):
        known = field_names(kind)
        near = did_you_mean(field, known)
        raise UsageError(
            f"a {kind} profile has no field {field!r}",
            remedy=f"did you mean {near!r}?" if near else f"its fields: {', '.join(known)}",
        )
    if value is None:
        return ""
    if is_list(field):
        if not isinstance(value, list):
            raise UsageError(
                f"{field} is a list", remedy="Write each entry on its own line, which begins with -"
            )
        return _json(value) if value else ""
    if not isinstance(value, str):
        raise UsageError(f"{field} is a text", remedy='Put it in quotes: "..."')
    return value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
