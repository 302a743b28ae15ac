"""Sandboxes on another machine, reached over SSH: one connection for all sessions, a folder there for each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from zeus_plugins.sandboxes.ssh.folders import FarFolders
from zeus_plugins.sandboxes.ssh.machine import Machine
from zeus_plugins.sandboxes.ssh.options import Options
from zeus_runtime.plugin import OptionsError
from zeus_runtime.plugin.sandbox import SandboxSessions

if TYPE_CHECKING:
    from zeus_runtime.plugin import PlanContext


def sandboxes(options: Options, directory: Path, environ: Mapping[str, str]) -> SandboxSessions:
    """The backend, with arguments as ``Machine`` has them."""
    machine = Machine(options, directory, environ)
    return SandboxSessions(machine, FarFolders(machine, options.keep_days))


def create(options: Options, context: PlanContext) -> SandboxSessions:
    """The backend of the config.

    Raises:
        OptionsError: a passphrase without the key that it is for.
    """
    if options.passphrase is not None and options.key is None:
        raise OptionsError(
            "ssh: there is a passphrase and no key that it is for",
            remedy="Name the key file with `key`, or remove `passphrase`: ssh-agent asks for it by itself.",
            where="passphrase",
        )
    return sandboxes(options, context.directory, context.process_environ)
