"""Parse a ``SKILL.md`` into front matter and body; problems become warnings with their position."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from zeus_runtime.cutting import cut_words, first_line, unwrapped

KNOWN: Final = frozenset(
    {
        "name",
        "description",
        "license",
        "compatibility",
        "metadata",
        "allowed-tools",
        "version",
        "disable-model-invocation",
    }
)
"""Keys of the Agent Skills format, and two that are common; any other is a warning."""

MAX_NAME: Final = 64
MAX_DESCRIPTION: Final = 1_024
"""Characters, as the Agent Skills format has them."""

_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")
_FENCE: Final = re.compile(r"---[ \t]*\Z")
_KEY: Final = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t]+(.*)|)\Z")


@dataclass(frozen=True)
class Warned:
    """A problem in a skill's file.

    Args:
        line, column: from 1.
    """

    line: int
    column: int
    message: str


@dataclass(frozen=True)
class FrontMatter:
    """A parsed ``SKILL.md``.

    Args:
        name: from the front matter; empty if it has none.
        description: one line; empty if the file does not say what the skill is for.
        body: the instructions, without the front matter.
        body_line: the line of the file where the body begins, from 1.
        for_model: false when the skill's author hides it from the model (``disable-model-invocation``).
        license: from the front matter.
        warnings: in the order of their positions.
    """

    name: str
    description: str
    body: str
    body_line: int
    for_model: bool
    license: str
    warnings: tuple[Warned, ...]


def read_skill_text(data: bytes) -> FrontMatter:
    """Parse the bytes of a ``SKILL.md`` as far as possible.

    Bytes that are not UTF-8 become U+FFFD; a byte order mark and CR LF are accepted. Front matter that is not valid
    YAML is read line by line as ``key: value``. Without a description, the body's first line of prose is used.
    """
    warnings: list[Warned] = []
    lines = _decoded(data, warnings).split("\n")
    written, first, body_line = _split(lines, warnings)
    values = _values(written, first, warnings)
    body = "\n".join(lines[body_line - 1 :]).strip("\n")
    places = _places(written, first)
    warnings += [
        Warned(*places.get(key, (first, 1)), f"the key {key!r} is not read")
        for key in values
        if key not in KNOWN
    ]
    name = _name(values, places, warnings)
    description = _description(values, places, body, body_line, warnings)
    hidden = str(values.get("disable-model-invocation", "")).strip().lower() in ("true", "yes", "on")
    license_ = unwrapped(values["license"]) if isinstance(values.get("license"), str) else ""
    warnings.sort(key=lambda each: (each.line, each.column))
    return FrontMatter(name, description, body, body_line, not hidden, license_, tuple(warnings))


def _decoded(data: bytes, warnings: list[Warned]) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        line = before.count(b"\n") + 1
        column = error.start - before.rfind(b"\n")
        warnings.append(Warned(line, column, "not UTF-8; what cannot be read is shown as U+FFFD"))
        text = data.decode("utf-8-sig", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _split(lines: list[str], warnings: list[Warned]) -> tuple[list[str], int, int]:
    """(the front matter's lines, the number of its first line, the number of the body's first line)."""
    start = next((index for index, line in enumerate(lines) if line.strip()), 0)
    if not lines or not _FENCE.match(lines[start]):
        warnings.append(Warned(1, 1, "there is no front matter (a block between two lines of ---)"))
        return [], 1, 1
    for index in range(start + 1, len(lines)):
        if _FENCE.match(lines[index]):
            return lines[start + 1 : index], start + 2, index + 2
    end = start + 1
    while end < len(lines) and lines[end].strip():
        end += 1
    warnings.append(Warned(start + 1, 1, "the front matter is not closed by a line of ---"))
    return lines[start + 1 : end], start + 2, end + 1


def _values(written: list[str], first: int, warnings: list[Warned]) -> Mapping[str, Any]:
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        # The base loader keeps every scalar as written: a name `on` is not a boolean, a version is not a float.
        found = yaml.load("\n".join(written), Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line, column = (first, 1) if mark is None else (first + int(mark.line), int(mark.column) + 1)
        problem = getattr(error, "problem", None) or "it cannot be read"
        warnings.append(
            Warned(
                line,
                column,
                f"the front matter is not YAML ({problem}) and is read line by line; quote values with a colon",
            )
        )
        return _by_lines(written)
    if isinstance(found, dict):
        return {str(key): value for key, value in found.items()}
    if written:
        warnings.append(Warned(first, 1, "the front matter is not a mapping"))
    return {}


def _by_lines(written: list[str]) -> dict[str, str]:
    values: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in written:
        key = _KEY.match(line)
        if key is not None:
            current = values.setdefault(key[1], [])
            current[:] = [(key[2] or "").strip()]
        elif current is not None and line[:1].isspace():
            current.append(line.strip())
        else:
            current = None
    return {key: _unquoted(" ".join(filter(None, parts))) for key, parts in values.items()}


def _unquoted(text: str) -> str:
    text = text.removeprefix(">-").removeprefix("|-").strip() if text[:1] in ">|" else text
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _places(written: list[str], first: int) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for index, line in enumerate(written):
        key = _KEY.match(line)
        if key is not None:
            found.setdefault(key[1], (first + index, 1))
    return found


def _name(values: Mapping[str, Any], places: Mapping[str, tuple[int, int]], warnings: list[Warned]) -> str:
    given = values.get("name")
    name = unwrapped(given) if isinstance(given, str) else ""
    place = places.get("name", (1, 1))
    if not name:
        warnings.append(Warned(*place, "no name; the folder's is used"))
    elif len(name) > MAX_NAME:
        warnings.append(
            Warned(*place, f"the name is longer than {MAX_NAME} characters; the folder's is used")
        )
        return ""
    elif not _NAME.match(name):
        warnings.append(Warned(*place, f"the name {name!r} is not lower-case words with hyphens"))
    return name


def _description(
    values: Mapping[str, Any],
    places: Mapping[str, tuple[int, int]],
    body: str,
    body_line: int,
    warnings: list[Warned],
) -> str:
    given = values.get("description")
    description = unwrapped(given) if isinstance(given, str) else ""
    place = places.get("description", (1, 1))
    if not description:
        prose = (line.strip() for line in body.split("\n"))
        description = unwrapped(next((line for line in prose if line and line[0].isalnum()), ""))
        description = description or unwrapped(first_line(body.lstrip("# \n")))
        warnings.append(
            Warned(
                *place,
                f"no description; the body's first line (from line {body_line} on) takes its place"
                if description
                else "no description and no body",
            )
        )
    if len(description) > MAX_DESCRIPTION:
        warnings.append(Warned(*place, f"the description is cut at {MAX_DESCRIPTION:,} characters"))
        description = cut_words(description, MAX_DESCRIPTION)
    return description
