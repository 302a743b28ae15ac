"""The service that a command line names, and its token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zeus_runtime.cli.asking import ask_secret
from zeus_runtime.cli.streams import can_ask
from zeus_runtime.disk_paths import expanded
from zeus_runtime.errors import MissingError, UsageError
from zeus_runtime.escaping import shell_line

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.client.clients import AsyncServiceClient, ServiceClient


def address_of(process: Process) -> str:
    """The address after ``--remote``.

    Raises:
        UsageError: it has a token or a password in it.
    """
    url = process.remote or ""
    if not _SECRETS.isdisjoint(url):
        # Other users of this machine can read a command line.
        raise UsageError(
            "--remote takes the address alone", remedy="Set the token in the environment variable ZEUS_TOKEN."
        )
    return url


_SECRETS: Final = frozenset("@?#")
"""The signs of a user's name, a query and a fragment, which may have secrets; the client checks the rest."""


def token_of(process: Process) -> str:
    """The token: from ``ZEUS_TOKEN``, from the file that ``ZEUS_TOKEN_FILE`` names, or asked for at the terminal.

    It is masked from now on, wherever it is from.

    Raises:
        MissingError: there is none, or the file cannot be read.
    """
    from zeus_runtime.config.secrets.masking import secrets_of_environment

    token = _given_token(process)
    # Added to what is known, which keeps its names.
    process.learn(process.secrets.joined(secrets_of_environment({"ZEUS_TOKEN": token})))
    return token


def _given_token(process: Process) -> str:
    if token := process.environ.get("ZEUS_TOKEN", "").strip():
        return token
    if name := process.environ.get("ZEUS_TOKEN_FILE"):
        try:
            return (process.directory / expanded(name)).read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            raise MissingError(f"ZEUS_TOKEN_FILE cannot be read: {error}") from None
    if can_ask():
        return ask_secret("Token of the service").strip()
    raise MissingError(
        "the token of the service is missing", remedy="Set ZEUS_TOKEN, or ZEUS_TOKEN_FILE to a file with it."
    )


def _reached(process: Process) -> tuple[str, str]:
    """The address and the token of a service, to which this machine's secrets do not go.

    Raises:
        ConfigError: as ``require_dotenv``.
    """
    require_dotenv(process)
    return address_of(process), token_of(process)


def require_dotenv(process: Process) -> None:
    """Check that the secrets in ``.env`` can be known.

    Raises:
        ConfigError: it is there, and cannot be read.
    """
    from zeus_runtime.config.layers.dotenv import read_dotenv

    read_dotenv(process.directory / ".env", ".env")


def client_of(process: Process) -> ServiceClient:
    """A client of the service, which sends no secret that the process knows."""
    from zeus_runtime.cli.remote.masked_client import MaskedServiceClient

    url, token = _reached(process)
    return MaskedServiceClient(url, token, process.look)


def async_client_of(process: Process) -> AsyncServiceClient:
    """As ``client_of``, for asyncio."""
    from zeus_runtime.cli.remote.masked_client import MaskedAsyncServiceClient

    url, token = _reached(process)
    return MaskedAsyncServiceClient(url, token, process.look)


def remote_words(process: Process, *words: str) -> str:
    """A command line for the same service."""
    return shell_line("zeus", "--remote", process.remote or "", *words)
