"""Writes a case at the end of an evaluation file, whose other lines stay as they are. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from zeus_runtime.config.messages.diagnostics import ConfigError
from zeus_runtime.config.yaml.reader import read
from zeus_runtime.config.yaml.scalars import NotJsonError, resolve
from zeus_runtime.config.yaml.tree import plain
from zeus_runtime.errors import UsageError
from zeus_runtime.escaping import escape, is_unseen

_PLAIN: Final = re.compile(r"/?[A-Za-z](?:[\w ./-]*[\w.?!/])?", re.ASCII)
_END: Final = re.compile(r"\n+")


def new_file(agent: str, case: Mapping[str, Any]) -> str:
    """An evaluation file with one case.

    Args:
        agent: the config, as the key ``agent`` names it.
        case: JSON values; the keys ``expect`` and ``files`` get comments.
    """
    return f"version: 1\nagent: {_scalar(agent)}\ncases:\n{_case(case, '  ')}"


def with_case(text: str, case: Mapping[str, Any], name: str) -> str:
    """The text of an evaluation file with one more case.

    Args:
        text: with ``\\n`` as its line ends.
        case: as for ``new_file``.
        name: the file's name, for errors.

    Raises:
        ConfigError: the text is not YAML.
        UsageError: the text cannot be extended without changing other lines.
    """
    root = read(text, name)
    before = plain(root)
    listed = root.value.get("cases")
    made = None if listed is None else _inserted(text, root.value, listed, case)
    if made is not None and _is_extended(made, before, case, name):
        return made
    raise UsageError(
        f"{name} cannot be extended without changing its other lines",
        remedy="Write `cases:` as a list with one `- ` for each case, or name another file with --to.",
    )


def _inserted(text: str, keys: Mapping[str, Any], listed: Any, case: Mapping[str, Any]) -> str | None:
    mark = listed.origin.value
    lines = text.split("\n")
    if not listed.is_list or not listed.value or lines[mark.line - 1][mark.column - 1 :][:1] != "-":
        return None
    later = [
        node.origin.key.line for node in keys.values() if node.origin.key and node.origin.key.line > mark.line
    ]
    end = min(later) - 1 if later else len(lines)
    # Blank lines and comments at the margin belong to what follows. Neither can be part of a list's entry.
    while end > mark.line and (not lines[end - 1].strip() or (later and lines[end - 1].startswith("#"))):
        end -= 1
    added = _case(case, " " * (mark.column - 1)).rstrip("\n")
    return "\n".join([*lines[:end], *added.split("\n"), *(lines[end:] or [""])])


def _is_extended(text: str, before: Mapping[str, Any], case: Mapping[str, Any], name: str) -> bool:
    try:
        after = plain(read(text, name))
    except ConfigError:
        return False
    return bool(after == {**before, "cases": [*before["cases"], case]})


_COMMENTS: Final = {
    "files": "# The files that the session read, as they are now.",
    "expect": "# Edit what must be true: this is what the agent did.",
}


def _case(case: Mapping[str, Any], indent: str) -> str:
    lines: list[str] = []
    for number, (key, value) in enumerate(case.items()):
        start = f"{indent}- " if number == 0 else f"{indent}  "
        if key in _COMMENTS and number:
            lines.append(f"{start}{_COMMENTS[key]}")
        lines += _entry(start, key, value)
    return "\n".join(lines) + "\n"


def _entry(start: str, key: str, value: Any) -> Iterator[str]:
    inner = " " * len(start) + "  "
    if isinstance(value, Mapping) and value:
        yield f"{start}{_scalar(key)}:"
        for name, each in value.items():
            yield from _entry(inner, name, each)
    elif isinstance(value, Sequence) and not isinstance(value, str) and value and not _is_flow(value):
        yield f"{start}{_scalar(key)}:"
        for each in value:
            yield from _listed(f"{inner}- ", each)
    elif isinstance(value, str) and (head := _block_head(value)) is not None:
        yield f"{start}{_scalar(key)}: {head}"
        yield from (f"{inner}{line}" if line else "" for line in value.rstrip("\n").split("\n"))
    else:
        yield f"{start}{_scalar(key)}: {_flow(value)}"


def _listed(start: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for number, (key, each) in enumerate(value.items()):
            yield from _entry(start if number == 0 else " " * len(start), key, each)
    else:
        yield f"{start}{_flow(value)}"


def _is_flow(value: Sequence[Any]) -> bool:
    return all(isinstance(each, str) and _PLAIN.fullmatch(each) for each in value)


def _flow(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_flow, value))}]"
    return _scalar(value)


def _block_head(text: str) -> str | None:
    """The sign of a literal block that holds the text; None if it fits on a line or no block can hold it."""
    body = text.removesuffix("\n")
    lines = body.split("\n")
    if "\n" not in text or not lines[0].strip() or lines[0][0] in " \t" or not lines[-1].strip():
        return None
    if any(is_unseen(char) or char in "\x85\u2028\u2029" for char in body):
        return None
    if any(line and not line.strip() for line in lines):
        return None
    return "|" if text.endswith("\n") else "|-"


def _scalar(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    try:
        if len(value) <= 100 and _PLAIN.fullmatch(value) and resolve(value) == value:
            return value
    except NotJsonError:
        pass
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(escape(char) if is_unseen(char) and char not in "\n\t" else char for char in quoted)
