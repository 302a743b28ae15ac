"""``${VAR}`` in strings: unset is an error, never an empty string.

``${VAR}`` (unset is an error), ``${VAR:-default}`` (for unset or empty), ``${VAR:?message}`` (unset or empty is an
error with that message), ``$$`` for one ``$``. A ``$`` before anything else is itself. Defaults may hold further
``${...}``; braces in them pair up. The result is text; where the schema wants a number, boolean or null, ``validate``
converts it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

_WITHOUT_DEFAULT: Final = re.compile(r"\$\{\w+(?::\?[^{}]*)?\}")
_BEFORE_DEFAULT: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*):-")
_BRACE: Final = re.compile("[{}]")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_NESTED: Final = 20
"""Defaults within defaults."""


class InterpolationError(ValueError):
    """A ``${...}`` has no value or is malformed.

    Args:
        code: ``unset-variable`` or ``bad-interpolation``.
        message: what is wrong.
        hint: what to do.
    """

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


class Interpolated(NamedTuple):
    """A text with its variables filled in, and the names of those that were."""

    text: str
    variables: tuple[str, ...]


def interpolate(text: str, environ: Mapping[str, str], *, depth: int = 0) -> Interpolated:
    """Fill in the variables of a text.

    Args:
        depth: the number of defaults around the text.

    Raises:
        InterpolationError: a variable is unset, or a ``${`` is malformed.
    """
    parts: list[str] = []
    used: list[str] = []
    position = 0
    while (dollar := text.find("$", position)) >= 0:
        parts.append(text[position:dollar])
        following = text[dollar + 1 : dollar + 2]
        if following == "$":
            parts.append("$")
            position = dollar + 2
        elif following == "{":
            end = _closing(text, dollar + 2)
            inner = _expand(text[dollar + 2 : end], environ, depth)
            parts.append(inner.text)
            used.extend(inner.variables)
            position = end + 1
        else:
            parts.append("$")
            position = dollar + 1
    return Interpolated("".join([*parts, text[position:]]), tuple(used))


def escaped(value: Any) -> Any:
    """A JSON value to be written into a config, in which its texts are what they are here; keys have no variables."""
    if isinstance(value, Mapping):
        return {key: escaped(each) for key, each in value.items()}
    if isinstance(value, list):
        return [escaped(each) for each in value]
    return value.replace("$", "$$") if isinstance(value, str) else value


def defaults_of(text: str) -> Iterator[tuple[str, str]]:
    """The name of each variable in a text that has a default, and this default without variables.

    Of one that is nested deeper than ``interpolate`` takes, only what is before its first variable: with the whole of
    each, a text of nested defaults would take quadratic time.
    """
    closings = _closings(text)
    for found in _BEFORE_DEFAULT.finditer(text):
        end, height = closings.get(found.start() + 1, (None, 0))
        if end is None:
            continue
        if height > _MOST_NESTED:
            variable = text.find("${", found.end(), end)
            yield found[1], text[found.end() : end if variable < 0 else variable]
        else:
            yield found[1], without_variables(text[found.end() : end])


def _closings(text: str) -> dict[int, tuple[int, int]]:
    """The place of each ``{`` to that of its ``}``, and how deep braces are nested in between."""
    found: dict[int, tuple[int, int]] = {}
    waiting: list[int] = []
    heights = [0]  # of what is open, from the outside in
    for brace in _BRACE.finditer(text):
        if brace[0] == "{":
            waiting.append(brace.start())
            heights.append(0)
        elif waiting:
            height = heights.pop()
            found[waiting.pop()] = (brace.start(), height)
            heights[-1] = max(heights[-1], height + 1)
    return found


def without_variables(text: str) -> str:
    """A text as it is without any variable: ``${TOKEN}`` is empty, and ``${TOKEN:-text}`` is ``text``."""
    try:
        return interpolate(_WITHOUT_DEFAULT.sub("", text), {}).text
    except InterpolationError:
        return text  # malformed, so all of it is literal


def _expand(body: str, environ: Mapping[str, str], depth: int) -> Interpolated:
    if depth > _MOST_NESTED:
        raise _malformed(f"its defaults are nested deeper than {_MOST_NESTED}")
    name = _NAME.match(body)
    if name is None:
        raise _malformed("a variable's name begins with a letter or `_`")
    variable, rest = name[0], body[name.end() :]
    value = environ.get(variable)
    # `os.environ` has half surrogates for bytes that are not UTF-8 (PEP 383); no database and no request takes them.
    if value is not None and not _is_text(value):
        message = f"the variable {variable} holds bytes that are not UTF-8"
        raise InterpolationError("not-utf8", message, f"set {variable} anew, as UTF-8")
    if not rest:
        if value is None:
            hint = (
                f"set {variable} in the environment or in .env, or give a default: ${{{variable}:-default}}"
            )
            raise InterpolationError("unset-variable", f"the variable {variable} is not set", hint)
        return Interpolated(value, (variable,))
    if rest.startswith(":-"):
        return Interpolated(value, (variable,)) if value else interpolate(rest[2:], environ, depth=depth + 1)
    if rest.startswith(":?"):
        if not value:
            message = f"the variable {variable} is {'empty' if value == '' else 'not set'}"
            raise InterpolationError("unset-variable", message, rest[2:] or f"set {variable}")
        return Interpolated(value, (variable,))
    raise _malformed("after the name comes `}`, `:-default}` or `:?message}`")


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _closing(text: str, start: int) -> int:
    depth = 0
    for position in range(start, len(text)):
        if text[position] == "{":
            depth += 1
        elif text[position] == "}":
            if depth == 0:
                return position
            depth -= 1
    raise _malformed("the `}` is missing")


def _malformed(why: str) -> InterpolationError:
    # Without the text, which may be a password that holds `${` itself.
    return InterpolationError(
        "bad-interpolation", f"a `${{` is malformed: {why}", "write `$$` for a plain `$`"
    )
