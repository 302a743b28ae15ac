"""Where the engine is that a client uses, as its variables and its configuration say; no process is started."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

_LOCAL: Final = ("unix://", "npipe://", "fd://")


def docker_engine(environ: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Where Docker's engine is, and the variables that keep a client at it.

    Without them, a later `docker context use` would move the programs to an engine that nobody was asked about.

    Returns:
        the address, or the context if that has none; empty for a socket of this machine. Then the environment.
    """
    fixed = {name: value for name, value in environ.items() if name not in ("DOCKER_HOST", "DOCKER_CONTEXT")}
    if host := environ.get("DOCKER_HOST"):
        # It goes before a context.
        return _elsewhere(host), {**fixed, "DOCKER_HOST": host}
    home = environ.get("HOME") or Path.home()
    folder = Path(environ.get("DOCKER_CONFIG") or Path(home, ".docker"))
    context = environ.get("DOCKER_CONTEXT") or _text_in(folder / "config.json", "currentContext") or "default"
    fixed["DOCKER_CONTEXT"] = context
    if context == "default":
        return "", fixed
    kept = folder / "contexts/meta" / sha256(context.encode()).hexdigest() / "meta.json"
    address = _text_in(kept, "Endpoints", "docker", "Host")
    return _elsewhere(address) if address else f"the docker context {context}", fixed


def podman_engine(environ: Mapping[str, str]) -> str:
    """Where Podman's engine is, as its variables say; empty for this machine."""
    connection = environ.get("CONTAINER_CONNECTION")
    named = f"the podman connection {connection}" if connection else ""
    return " or ".join(filter(None, (_elsewhere(environ.get("CONTAINER_HOST", "")), named)))


def _elsewhere(address: str) -> str:
    return "" if address.startswith(_LOCAL) else address


def _text_in(file: Path, *keys: str) -> str:
    """The text at a place of a JSON file; empty if it cannot be read, as for Docker."""
    try:
        found: Any = json.loads(file.read_bytes())
        for key in keys:
            found = found[key]
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    return found if isinstance(found, str) else ""
