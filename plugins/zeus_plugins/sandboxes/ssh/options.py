"""What the YAML can say of the SSH sandbox."""

from __future__ import annotations

from typing import Annotated, Literal

from zeus_runtime.plugin import Doc, Executes, Maximum, Minimum, Secret, WorkRelative, dataclass


@dataclass(frozen=True)
class Options:
    """Options of ``ssh``. Relative paths of this machine start at the working directory, ``~`` is the home folder."""

    host: Annotated[str, Executes(), Doc("The machine's name or address.")]
    user: Annotated[str | None, Executes(), Doc("Who logs in there; null: the name of this user.")] = None
    port: Annotated[int, Doc("Where its SSH server listens."), Minimum(1), Maximum(65_535)] = 22
    key: Annotated[
        str | None,
        WorkRelative(holds_keys=True),
        Doc("A private key file; null: the keys of ssh-agent and of ~/.ssh."),
    ] = None
    passphrase: Annotated[Secret | None, Doc("The key file's passphrase, such as ${SSH_PASSPHRASE}.")] = None
    password: Annotated[Secret | None, Doc("The user's password, where the machine takes no keys.")] = None
    known_hosts: Annotated[
        str,
        WorkRelative(protected=True),
        Doc("The file that has the machine's key, as OpenSSH writes it; a key that is not there is refused."),
    ] = "~/.ssh/known_hosts"
    wrap: Annotated[
        Literal["bubblewrap", "none"],
        Executes(),
        Doc(
            "bubblewrap: each program has namespaces, limits and a system call filter of its own there. none: it can "
            "do what the user can do there, and needs `require_isolation: false` beside `backend`."
        ),
    ] = "bubblewrap"
    bwrap: Annotated[str, Executes(), Doc("The bubblewrap program there.")] = "bwrap"
    python: Annotated[
        str, Executes(), Doc("The Python there, 3.11 or newer, which watches over programs.")
    ] = "python3"
    folder: Annotated[
        str,
        Executes(),
        Doc(
            "Where sessions' files are kept there, in a folder each; a relative path starts at the home folder."
        ),
    ] = ".zeus/sandboxes"
    keep_days: Annotated[
        float | None,
        Doc(
            "Files of sessions that ran no program for longer are removed there; null keeps any age, 0 removes a "
            "session's files when the agent is closed."
        ),
        Minimum(0),
    ] = 30
    connect_seconds: Annotated[float, Doc("How long a connection may take to stand."), Minimum(0.1)] = 10.0
