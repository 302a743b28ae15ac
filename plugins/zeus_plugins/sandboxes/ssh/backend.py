"""Sandboxes on another machine over SSH: one connection for all sessions, and a folder there for each session."""

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
    """Create the backend; the arguments are those of ``Machine``."""
    machine = Machine(options, directory, environ)
    return SandboxSessions(machine, FarFolders(machine, options.keep_days))


def create(options: Options, context: PlanContext) -> SandboxSessions:
    """Create the backend for the config.

    Raises:
        OptionsError: there is a passphrase, but no key for it.
    """
    if options.passphrase is not None and options.key is None:
        raise OptionsError(
            "ssh: there is a `passphrase`, but no `key` for it",
            remedy="Set `key` to the key file, or remove `passphrase`: ssh-agent asks for it by itself.",
            where="passphrase",
        )
    return sandboxes(options, context.directory, context.process_environ)
