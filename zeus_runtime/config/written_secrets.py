"""Secrets that are written out in a config, or in a file that it names: known by where they stand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zeus_runtime.config.interpolation import InterpolationError, interpolate
from zeus_runtime.config.nodes import show_path
from zeus_runtime.config.secret_parts import holds_secret, secrets_within


def written_secrets(value: Any) -> dict[str, str]:
    """Secret text to where it stands: literals under keys and after flags whose name says secret, passwords in URLs,
    and header values that look random; pure.

    Args:
        value: JSON. In a list ``args``, ``--api-key VALUE``, ``--api-key=VALUE``, ``API_KEY=VALUE`` and
            ``Authorization: VALUE`` count. Of ``Bearer VALUE`` the value alone is a secret too.
    """
    found: dict[str, str] = {}
    for secret, path in secrets_within(value):
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
        content = json.loads(path.read_text(encoding="utf-8-sig")) if path.is_file() else None
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
