"""Secrets that are written out in a config, or in a file that it names: known by where they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from zeus_runtime.config.interpolation import InterpolationError, interpolate
from zeus_runtime.config.secrets import MIN_AMBIENT_LENGTH, looks_secret, secret_key, url_passwords

_FLAG: Final = r"--?([A-Za-z][\w-]*)"
_NAMED: Final = r"(?:--?([A-Za-z][\w-]*)=|([A-Za-z][\w-]*):\s*|([A-Za-z_]\w*)=)(.+)"
_SCHEME: Final = r"(?i:Bearer|Basic|Token)\s+(\S+)"
# Not compiled at import: most configs never need them.


def written_secrets(value: Any) -> frozenset[str]:
    """Literals under keys and after flags whose name says secret, and passwords in URLs; pure.

    Args:
        value: JSON. In a list ``args``, ``--api-key VALUE``, ``--api-key=VALUE``, ``API_KEY=VALUE`` and
            ``Authorization: VALUE`` count. Of ``Bearer VALUE`` the value alone is a secret too.
    """
    return frozenset(_found(value, ""))


def secrets_of_file(path: Path, environ: Mapping[str, str]) -> frozenset[str]:
    """The secrets in a JSON file, its variables filled in; none of one that cannot be read, which its reader says."""
    import json

    try:
        content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    except (OSError, ValueError):
        return frozenset()
    named: set[str] = set()

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
        named.update(environ.get(name, "") for name in variables if looks_secret(name))
        return text

    return written_secrets(filled(content)) | named


def _found(value: Any, key: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _found(item, str(name))
    elif isinstance(value, list):
        for item in value:
            yield from _found(item, key)
        if key == "args":
            yield from _of_arguments([item for item in value if isinstance(item, str)])
    elif isinstance(value, str):
        yield from url_passwords(value)
        if secret_key(key):
            yield from _long_enough(value)


def _of_arguments(arguments: Sequence[str]) -> Iterator[str]:
    for flag, value in pairwise(["", *arguments]):
        named = re.fullmatch(_NAMED, value)
        if named and secret_key(named[1] or named[2] or named[3]):
            yield from _long_enough(named[4])
        elif (
            (before := re.fullmatch(_FLAG, flag)) and secret_key(before[1]) and not re.fullmatch(_FLAG, value)
        ):
            yield from _long_enough(value)


def _long_enough(value: str) -> Iterator[str]:
    scheme = re.fullmatch(_SCHEME, value.strip())
    for each in (value, *([scheme[1]] if scheme else [])):
        if len(each) >= MIN_AMBIENT_LENGTH:
            yield each
