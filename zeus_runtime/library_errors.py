"""The text of libraries' errors, without values that the library has torn: half of a secret cannot be recognised.

pydantic shows the beginning and the end of a value, PyYAML the text around a slip, and others do the like.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Final

_WORD: Final = re.compile(r"\S+")
_MARK: Final = re.compile(r"(?:\.{3}|…)+")
_EDGES: Final = "'\"`()[]{}<>,;:=."
# Less of a secret helps nobody to guess the rest.
_LEAST_TORN: Final = 6


def error_text(error: BaseException) -> str:
    """The message of an exception of another library, without values that the library has torn."""
    core, yaml = sys.modules.get("pydantic_core"), sys.modules.get("yaml")
    if core is not None and isinstance(error, core.ValidationError):
        found = error.errors(include_url=False, include_context=False, include_input=False)
        lines = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}".removeprefix(": ") for each in found]
        count = f"{len(found)} problem{'s' if len(found) > 1 else ''}"
        text = "\n".join([f"{count} with {error.title}", *lines])
    elif yaml is not None and isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        text = ", ".join(filter(None, (error.context, error.problem, place, error.note)))
    else:
        text = str(error)
    return _without_torn(text)


def printed_error(text: str, error: BaseException) -> str:
    """An exception as Python prints it, with the ``error_text`` in place of its messages and of those of its causes."""
    for each in _with_causes(error):
        try:
            whole, safe = str(each), error_text(each)
        except Exception:  # noqa: BLE001, S112 - an error's own code may raise anything; its message is not shown then
            continue
        if whole != safe:
            text = text.replace(whole, safe)
            # In a group the lines of a message are indented.
            for line in set(whole.splitlines()) - set(safe.splitlines()):
                text = text.replace(line, "…") if line.strip() else text
    return text


def _with_causes(error: BaseException) -> Sequence[BaseException]:
    found = {id(error): error}
    waiting = [error]
    while waiting:
        each = waiting.pop()
        inner = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        for other in (each.__cause__, each.__context__, *inner):
            if other is not None and id(other) not in found:
                found[id(other)] = other
                waiting.append(other)
    return list(found.values())


def error_with_type(error: BaseException) -> str:
    """The type and the ``error_text`` of an exception."""
    return f"{type(error).__name__}: {error_text(error)}".removesuffix(": ")


def _without_torn(text: str) -> str:
    """A library's words without those beside an ellipsis that may be a part of a secret.

    By their form alone: if only parts of secrets were left out, whoever guesses a part would learn it.
    """
    if not _MARK.search(text):
        return text
    words = list(_WORD.finditer(text))
    torn: list[tuple[int, int]] = []
    for place, word in enumerate(words):
        mark = _MARK.search(word[0])
        if mark is None:
            continue
        before, after = word[0][: mark.start()].strip(_EDGES), word[0][mark.end() :].strip(_EDGES)
        if before and after and len(before) + len(after) >= _LEAST_TORN:
            torn.append(word.span())
        elif before or after:
            torn += [word.span()] if _may_be_torn(before or after) else []
        elif "." in mark[0]:
            torn += [each.span() for each in _beside(words, place) if _may_be_torn(each[0].strip(_EDGES))]
    kept, begin = [], 0
    for start, end in sorted(set(torn)):
        kept.append(text[begin:start])
        begin = end
    return "…".join([*kept, text[begin:]])


def _beside(words: Sequence[re.Match[str]], place: int) -> Iterator[re.Match[str]]:
    return (words[at] for at in (place - 1, place + 1) if 0 <= at < len(words))


def _may_be_torn(word: str) -> bool:
    # "Connecting..." is a word of a sentence.
    return len(word) >= _LEAST_TORN and not word.isalpha()
