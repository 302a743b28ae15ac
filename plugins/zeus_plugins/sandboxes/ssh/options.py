"""Options of the sandbox component `ssh`."""

from __future__ import annotations

from typing import Annotated, Literal

from zeus_runtime.plugin import Doc, Executes, Maximum, Minimum, Secret, WorkRelative, dataclass


@dataclass(frozen=True)
class Options:
    """Options of ``ssh``. Paths on this machine are relative to the working directory; ``~`` is the home folder."""

    host: Annotated[str, Executes(by_name=True), Doc("The machine's name or address.")]
    user: Annotated[
        str | None,
        Executes(by_name=True),
        Doc("The user that logs in there; null: the name of the local user."),
    ] = None
    port: Annotated[
        int, Executes(by_name=True), Doc("The port of its SSH server."), Minimum(1), Maximum(65_535)
    ] = 22
    key: Annotated[
        str | None,
        WorkRelative(holds_keys=True),
        Doc("A private key file; null: the keys of ssh-agent and of ~/.ssh."),
    ] = None
    passphrase: Annotated[Secret | None, Doc("The key file's passphrase, such as ${SSH_PASSPHRASE}.")] = None
    password: Annotated[Secret | None, Doc("The user's password, if the machine does not accept keys.")] = (
        None
    )
    known_hosts: Annotated[
        str,
        WorkRelative(protected=True),
        Executes(),
        Doc("The file with the machine's key, in OpenSSH's format; a key that is not in it is refused."),
    ] = "~/.ssh/known_hosts"
    wrap: Annotated[
        Literal["bubblewrap", "none"],
        Executes(by_name=True),
        Doc(
            "bubblewrap: each program runs there in new namespaces, with limits and a system call filter. none:"
            " programs can do whatever the user can do there, which needs `require_isolation: false` next to `backend`."
        ),
    ] = "bubblewrap"
    bwrap: Annotated[str, Executes(by_name=True), Doc("The bubblewrap program there.")] = "bwrap"
    python: Annotated[
        str, Executes(by_name=True), Doc("The Python there, 3.11 or newer, which runs and watches programs.")
    ] = "python3"
    folder: Annotated[
        str,
        Executes(by_name=True),
        Doc("The folder there with a subfolder for each session's files; relative to the home folder."),
    ] = ".zeus/sandboxes"
    keep_days: Annotated[
        float | None,
        Doc(
            "Files of sessions that ran no program for this many days are removed there; null: never, 0: remove a "
            "session's files when the agent is closed."
        ),
        Minimum(0),
    ] = 30
    connect_seconds: Annotated[float, Doc("How long opening a connection may take."), Minimum(0.1)] = 10.0
