"""Configs that this run did not load but another run would load: their places, and the secrets in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from glob import escape
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zeus_runtime.config.layers.files import DISCOVERED
from zeus_runtime.config.layers.interpolation import InterpolationError, interpolate
from zeus_runtime.config.messages.diagnostics import ConfigError
from zeus_runtime.config.secrets.written_secrets import written_secrets
from zeus_runtime.config.yaml.reader import MAX_BYTES, decode, read_value
from zeus_runtime.config.yaml.tree import plain

if TYPE_CHECKING:
    from zeus_runtime.config.document import Document
    from zeus_runtime.config.secrets.masking import Redactor

_WITHOUT_DEFAULT: Final = r"\$\{\w+(?::\?[^{}]*)?\}"


class ConfigPlace(NamedTuple):
    """Where a config is looked for; its overlays have a word between stem and suffix."""

    folder: Path
    stem: str
    suffix: str


def config_places(document: Document) -> Iterator[ConfigPlace]:
    """The places of ``zeus.yaml`` in the working directory and of the main file."""
    discovered = Path(DISCOVERED)
    yield ConfigPlace(document.directory, discovered.stem, discovered.suffix)
    if document.path is not None:
        yield ConfigPlace(document.path.parent, document.path.stem, document.path.suffix)


def unloaded_configs(document: Document) -> Iterator[tuple[Path, str | None]]:
    """The configs and overlays in these places that the document was not read from, each with its text; None for one
    that cannot be read."""
    seen = {file.resolve() for file in document.files.values()}
    for folder, stem, suffix in config_places(document):
        for file in (folder / f"{stem}{suffix}", *folder.glob(f"{escape(stem)}.*{escape(suffix)}")):
            if file.is_file() and (resolved := file.resolve()) not in seen:
                seen.add(resolved)
                yield file, _text(file)


def unloaded_secrets(document: Document) -> dict[str, str]:
    """The secrets that are written out in these configs, to their names."""
    return {
        secret: f"{file.name}/{name}"
        for file, text in unloaded_configs(document)
        for secret, name in (_written_in(text) or {} if text is not None else {}).items()
    }


def holds_keys(text: str | None, redactor: Redactor) -> bool:
    """Whether a config's text has a secret written out, or cannot be judged; None is a text that could not be read."""
    if text is None or redactor(text) != text:
        return True
    written = _written_in(text)
    return written is None or bool(written)


def _text(file: Path) -> str | None:
    try:
        with file.open("rb") as stream:
            return decode(stream.read(MAX_BYTES + 1), file.name)
    except (OSError, ConfigError):
        return None


# Sub-agents that share a config ask for the same texts.
@lru_cache(maxsize=64)
def _written_in(text: str) -> Mapping[str, str] | None:
    """The secrets in a config's text, defaults of variables too; None for a text that is not sound YAML."""
    try:
        root = read_value(text, "")
    except ConfigError:
        return None
    return MappingProxyType({} if root is None else written_secrets(_literal(plain(root))))


def _literal(value: Any) -> Any:
    """``value`` as it is without any variable: ``${TOKEN}`` is empty, and ``${TOKEN:-text}`` is ``text``."""
    if isinstance(value, dict):
        return {key: _literal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_literal(item) for item in value]
    if not isinstance(value, str) or "$" not in value:
        return value
    try:
        return interpolate(re.sub(_WITHOUT_DEFAULT, "", value), {}).text
    except InterpolationError:
        return value  # malformed, so all of it is literal
