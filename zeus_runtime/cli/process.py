"""The process a command runs in, and the secrets it has learned that must not be printed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.masking import Redactor


class Process:
    """The working directory, the environment, and what must be masked in messages.

    A command that reads a config tells it that config's redactor (``learn``).

    Attributes:
        remote: the address of the service whose agents are used; None for this machine's.
    """

    def __init__(self) -> None:
        self.remote: str | None = None
        self._redactor: Redactor | None = None
        self._known: Redactor | None = None

    @property
    def directory(self) -> Path:
        """The working directory.

        Raises:
            UsageError: it was removed.
        """
        try:
            return Path.cwd()
        except FileNotFoundError:
            from zeus_runtime.errors import UsageError

            raise UsageError("the working directory is gone", remedy="Change to one that exists.") from None

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment variables as the user gave them: a copy, with the whole ``PATH``."""
        from zeus_runtime.process_path import given_environ

        return given_environ()

    def learn(self, redactor: Redactor) -> None:
        """Mask these secrets too, from now on."""
        from zeus_runtime.cutting import mask_before_cutting

        self._redactor = redactor.joined(self._redactor) if self._redactor else redactor
        mask_before_cutting(self._redactor)
        # Made anew at the next use: the environment's secrets are joined to all that were learned.
        self._known = None

    def learn_folder(self) -> None:
        """Mask from now on also the secrets that are written out in the configs of the working directory.

        Several configs may share a database, and nobody knows which of them stored a row.
        """
        from zeus_runtime.config.secrets.unloaded_configs import secrets_of_folder

        # Added to what is known, which keeps its names.
        self.learn(self.secrets.adding(secrets_of_folder(self.directory)))

    @property
    def secrets(self) -> Redactor:
        """The secrets of the environment, of the configs read so far and of the working directory's files of
        variables."""
        if self._known is None:
            self._known = self._read()
        return self._known

    def look(self) -> Redactor:
        """``secrets``, which from now on know what came into the working directory's files of variables, too."""
        from zeus_runtime.cutting import mask_before_cutting

        known = self.secrets
        known.learn_all(self._read())
        mask_before_cutting(known)
        return known

    def _read(self) -> Redactor:
        from zeus_runtime.config.secrets.masking import secrets_of_environment
        from zeus_runtime.config.secrets.unloaded_configs import dotenv_of_folder, secrets_of_env_files

        written = dotenv_of_folder(Path())
        if self._redactor:
            known = secrets_of_environment(self.environ).joined(self._redactor)
            # Last, so that what a config knows keeps its name.
            known = known.joined(secrets_of_environment(dict(written), written))
        else:
            known = secrets_of_environment({**dict(written), **self.environ}, written)
        return known.adding(secrets_of_env_files(Path()))

    def redact(self, text: str) -> str:
        """``text`` without ``secrets``."""
        return self.secrets(text)
