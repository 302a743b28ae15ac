"""A real SSH server on loopback that runs real processes: asyncssh's own, or OpenSSH's where it is installed."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from tests.support.ports import unused_port

HOST = "127.0.0.1"
USER = getpass.getuser()
PASSWORD = "open sesame"


@dataclass(eq=False)
class Server:
    """A running server.

    Args:
        folder: the keys: ``known_hosts`` has the server's, ``key`` is one that it lets in.
        port: where it listens.
        home: what its users' commands have as their home folder.
    """

    folder: Path
    port: int
    home: Path
    connections: list[Any] = field(default_factory=list)
    loop: asyncio.AbstractEventLoop | None = None

    def options(self, **more: Any) -> dict[str, Any]:
        """The options of the backend ``ssh`` that lead here."""
        return {
            "host": HOST,
            "port": self.port,
            "user": USER,
            "key": str(self.folder / "key"),
            "known_hosts": str(self.folder / "known_hosts"),
            **more,
        }

    def cut(self) -> None:
        """Cut every connection without a word."""
        assert self.loop is not None
        for each in self.connections:
            self.loop.call_soon_threadsafe(each.abort)
        self.connections.clear()


def keys(folder: Path, *, passphrase: str | None = None) -> None:
    """A host key and a user's key in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("host_key", "key"):
        key = asyncssh.generate_private_key("ssh-ed25519")
        if name == "key" and passphrase is not None:
            key.write_private_key(folder / name, "pkcs8-pem", passphrase=passphrase)
        else:
            key.write_private_key(folder / name)
        (folder / name).chmod(0o600)
        key.write_public_key(folder / f"{name}.pub")
    shutil.copy(folder / "key.pub", folder / "authorized_keys")


def known(folder: Path, port: int) -> None:
    """Write the server's key into ``known_hosts``."""
    (folder / "known_hosts").write_text(f"[{HOST}]:{port} {(folder / 'host_key.pub').read_text()}")


async def carry(source: Any, sink: Any) -> None:
    """Everything from one stream to another, as it comes, and its end."""
    with contextlib.suppress(OSError, asyncssh.Error):
        while data := await source.read(2**16):
            sink.write(data)
            await sink.drain()
    with contextlib.suppress(OSError, asyncssh.Error):
        sink.close() if isinstance(sink, asyncio.StreamWriter) else None


@contextmanager
def own_server(
    folder: Path, *, passphrase: str | None = None, answers_after_seconds: float = 0
) -> Iterator[Server]:
    """asyncssh's server in a thread of its own, since a plan waits for it; its commands are real processes.

    It lets in this user alone, by ``key`` or by ``PASSWORD``.
    """
    keys(folder, passphrase=passphrase)
    home = folder / "home"
    home.mkdir(exist_ok=True)
    started = threading.Event()
    made: list[Server] = []

    async def run_process(process: asyncssh.SSHServerProcess[bytes]) -> None:
        command = process.command
        assert command is not None
        inner = await asyncio.create_subprocess_shell(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "HOME": str(home)},
            cwd=home,
        )
        assert inner.stdin is not None
        assert inner.stdout is not None
        assert inner.stderr is not None
        giving = asyncio.ensure_future(carry(process.stdin, inner.stdin))
        await asyncio.gather(carry(inner.stdout, process.stdout), carry(inner.stderr, process.stderr))
        code = await inner.wait()
        giving.cancel()
        if code < 0:
            process.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))
        else:
            process.exit(code)

    class Accepting(asyncssh.SSHServer):
        def connection_made(self, connection: Any) -> None:
            made[0].connections.append(connection)

        async def begin_auth(self, username: str) -> bool:
            await asyncio.sleep(answers_after_seconds)
            if username != USER:
                raise asyncssh.PermissionDenied(f"there is no {username}")
            return True

        def password_auth_supported(self) -> bool:
            return True

        def validate_password(self, username: str, password: str) -> bool:
            return password == PASSWORD

    async def serve() -> None:
        acceptor = await asyncssh.listen(
            HOST,
            0,
            server_host_keys=[folder / "host_key"],
            authorized_client_keys=str(folder / "authorized_keys"),
            server_factory=Accepting,
            process_factory=run_process,
            sftp_factory=True,
            encoding=None,
        )
        made.append(Server(folder, acceptor.get_port(), home, loop=asyncio.get_running_loop()))
        started.set()
        try:
            await stop.wait()
        finally:
            acceptor.abort() if hasattr(acceptor, "abort") else acceptor.close()
            for each in made[0].connections:
                each.abort()
            await acceptor.wait_closed()

    stop = asyncio.Event()
    # What still waits when it is stopped, such as a login nobody waits for any more, is cancelled with the loop.
    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert started.wait(60)
    known(folder, made[0].port)
    try:
        yield made[0]
    finally:
        loop = made[0].loop
        assert loop is not None
        loop.call_soon_threadsafe(stop.set)
        thread.join(60)


def sshd() -> str | None:
    """The program of OpenSSH's server, where it is installed."""
    return os.environ.get("ZEUS_TEST_SSHD") or shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")


@contextmanager
def openssh_server(folder: Path) -> Iterator[Server]:
    """OpenSSH's server as this user; root must have its folder for separated privileges."""
    program = sshd()
    assert program is not None
    keys(folder)
    port = unused_port()
    sftp = next(
        (
            each
            for each in (
                Path(program).parents[1] / "lib/openssh/sftp-server",
                Path("/usr/lib/openssh/sftp-server"),
                Path("/usr/libexec/openssh/sftp-server"),
            )
            if each.exists()
        ),
        "internal-sftp",
    )
    home = Path.home()
    (folder / "sshd_config").write_text(
        f"""
ListenAddress {HOST}:{port}
HostKey {folder / "host_key"}
AuthorizedKeysFile {folder / "authorized_keys"}
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
Subsystem sftp {sftp}
"""
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    process = subprocess.Popen(
        [program, "-D", "-e", "-f", str(folder / "sshd_config")],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        said = []
        while line := process.stderr.readline():
            said.append(line)
            if "Server listening" in line:
                break
        else:
            pytest.skip(f"OpenSSH's server does not run here: {' '.join(said).strip()}")
        threading.Thread(target=process.stderr.read, daemon=True).start()
        known(folder, port)
        yield Server(folder, port, home)
    finally:
        process.terminate()
        process.wait()
