"""Secrets that are written out in a config, or in a file that it names: known by where they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from zeus_runtime.config.interpolation import InterpolationError, interpolate
from zeus_runtime.config.nodes import Path as NodePath
from zeus_runtime.config.nodes import show_path
from zeus_runtime.config.placeholders import looks_random
from zeus_runtime.config.secrets import (
    MIN_AMBIENT_LENGTH,
    holds_headers,
    holds_secret,
    secret_entry,
    url_passwords,
)

_FLAG: Final = r"--?([A-Za-z][\w-]*)"
_NAMED: Final = r"(?:--?([A-Za-z][\w-]*)=|([A-Za-z][\w-]*):\s*|([A-Za-z_]\w*)=)(.+)"
_TOKEN: Final = re.compile(r"[\w.+=~-]{16,}")
"""Of a program's variables a path or an address is none."""
_SCHEME: Final = r"(?i:Bearer|Basic|Token)\s+(\S+)"
# Not compiled at import: most configs never need them.


def written_secrets(value: Any) -> dict[str, str]:
    """Secret text to where it stands: literals under keys and after flags whose name says secret, passwords in URLs,
    and header values that look random; pure.

    Args:
        value: JSON. In a list ``args``, ``--api-key VALUE``, ``--api-key=VALUE``, ``API_KEY=VALUE`` and
            ``Authorization: VALUE`` count. Of ``Bearer VALUE`` the value alone is a secret too.
    """
    found: dict[str, str] = {}
    for secret, path in _found(value, ()):
        found.setdefault(secret, show_path(path))
    return found


def secrets_of_repository(folder: Path) -> dict[str, str]:
    """The secrets in the addresses and headers of a Git repository's config; none where there is no such file."""
    file = folder / ".git" / "config"
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.is_file() else []
    except OSError:
        return {}
    values = [line.partition("=")[2].strip().strip('"') for line in lines]
    return dict.fromkeys(written_secrets({"args": values}), ".git/config")


def secrets_of_file(path: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The secrets in a JSON file to their names, its variables filled in; none of one that cannot be read, which its
    reader says."""
    import json

    try:
        content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    except (OSError, ValueError):
        return {}
    named: dict[str, str] = {}

    def filled(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: filled(item) for key, item in value.items()}
        if isinstance(value, list):
            return [filled(item) for item in value]
        if not isinstance(value, str):
            return value
        try:
            text, variables = interpolate(value, environ)
        except InterpolationError:
            return value
        named.update(
            {environ.get(name, ""): name for name in variables if holds_secret(name, environ.get(name, ""))}
        )
        return text

    whole = filled(content)
    return {
        **named,
        **{text: f"{path.name}/{name}" for text, name in written_secrets(whole).items() if text not in named},
    }


def _found(value: Any, path: NodePath, key: str = "") -> Iterator[tuple[str, NodePath]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _found(item, (*path, str(name)), str(name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _found(item, (*path, index), key)
        if key == "args":
            for secret in _of_arguments([item for item in value if isinstance(item, str)]):
                yield secret, path
    elif isinstance(value, str):
        for secret in _of_text(value, path, key):
            yield secret, path


def _of_text(value: str, path: NodePath, key: str) -> Iterator[str]:
    yield from url_passwords(value)
    if secret_entry(key, value):
        yield from _long_enough(value)
    elif len(path) > 1 and holds_headers(path[-2]) and looks_random(value):
        yield value
        yield from (each for each in re.split(r"[\s;,=]+", value) if looks_random(each))
    elif len(path) > 1 and path[-2] == "env" and _TOKEN.fullmatch(value) and looks_random(value):
        yield value


def _of_arguments(arguments: Sequence[str]) -> Iterator[str]:
    for flag, value in pairwise(["", *arguments]):
        named = re.fullmatch(_NAMED, value)
        if named and secret_entry(named[1] or named[2] or named[3], named[4]):
            yield from _long_enough(named[4])
        elif (
            (before := re.fullmatch(_FLAG, flag))
            and secret_entry(before[1], value)
            and not re.fullmatch(_FLAG, value)
        ):
            yield from _long_enough(value)


def _long_enough(value: str) -> Iterator[str]:
    scheme = re.fullmatch(_SCHEME, value.strip())
    for each in (value, *([scheme[1]] if scheme else [])):
        if len(each) >= MIN_AMBIENT_LENGTH:
            yield each
