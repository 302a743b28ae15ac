"""``zeus serve``: agents over HTTP, for programs, editors, other agents and people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zeus_runtime.cli.completion import complete_config
from zeus_runtime.cli.options import ConfigArgs, env_option, set_option
from zeus_runtime.cli.otel import otel_option
from zeus_runtime.cli.streams import complain

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.config.ref import Ref
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.serving.http.protocols import ServedProtocol
    from zeus_runtime.serving.http.service import Service

PORT = 8700
LEAST_TOKEN = 20
"""Characters of a token: shorter ones can be guessed."""


@click.command("serve")
@click.argument("configs", metavar="[CONFIG|FOLDER]…", nargs=-1, shell_complete=complete_config)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="The address to listen on; only loopback."
)
@click.option("--port", default=PORT, show_default=True, type=click.IntRange(0, 65535), help="0 chooses one.")
@click.option(
    "--protocol",
    "protocols",
    metavar="NAME",
    multiple=True,
    help="Serve this protocol too, such as openai or mcp; with options, YAML: '{NAME: {KEY: VALUE}}'. May be repeated.",
)
@env_option
@set_option
@otel_option
@click.pass_obj
def command(
    process: Process,
    configs: tuple[str, ...],
    host: str,
    port: int,
    protocols: tuple[str, ...],
    env: str | None,
    sets: tuple[str, ...],
) -> None:
    """Serve agents over HTTP.

    Each CONFIG is an agent; of a FOLDER, every YAML file in it. A changed config is read again, and turns that run end
    under the former one. The next service resumes the turns that a stopped one leaves. Every request needs the token
    in ZEUS_TOKEN; without one, a new token is printed.
    """
    from importlib.util import find_spec

    from zeus_runtime.cli.start import prepared
    from zeus_runtime.errors import MissingError, UsageError

    if host not in ("127.0.0.1", "::1", "localhost"):
        raise UsageError(f"the service listens on loopback only, not on {host}", remedy="Leave --host out.")
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise MissingError(
            "serving over HTTP needs fastapi and uvicorn",
            remedy="Install them: pip install 'zeus-runtime[serve]'.",
        )
    from zeus_runtime.serving.http.hosting import HostedAgent, Hosting
    from zeus_runtime.serving.http.hub import Hub
    from zeus_runtime.serving.http.principals import LocalToken
    from zeus_runtime.serving.http.service import Service

    hub, token = Hub(), LocalToken(_given_token(process))
    hosted = [
        HostedAgent(_reader(process, ConfigArgs(each, env, sets)), hub.stored)
        for each in _files(process, configs)
    ]
    names = [each.name for each in hosted]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two configs have the name {name!r}", remedy="Give each agent its own `name:`.")
    with prepared(process):
        service = Service(Hosting(hosted), token, hub)
        _serve(service, _protocols(process, protocols, service), host, port, token.text)


def _given_token(process: Process) -> str | None:
    """The token of ``ZEUS_TOKEN``, which clients know also after a restart; None for a new one."""
    from zeus_runtime.errors import UsageError

    token = process.environ.get("ZEUS_TOKEN", "").strip()
    if token and len(token) < LEAST_TOKEN:
        raise UsageError(
            f"ZEUS_TOKEN has {len(token)} characters, and needs {LEAST_TOKEN}",
            remedy="Choose a long random one.",
        )
    return token or None


def _protocols(process: Process, named: Sequence[str], service: Service) -> Sequence[ServedProtocol]:
    if not named:
        return ()
    from zeus_runtime.registry import discover
    from zeus_runtime.serving.http.protocols import protocols_of

    return protocols_of(discover(environ=process.environ), [_ref(each) for each in named], service)


def _ref(text: str) -> Ref:
    """A protocol as the command line names it: a name, or YAML with its options."""
    from zeus_runtime.config.ref import Ref
    from zeus_runtime.config.yaml.reader import read_value
    from zeus_runtime.config.yaml.tree import plain
    from zeus_runtime.errors import UsageError

    node = read_value(text, "--protocol")
    value = None if node is None else plain(node)
    if isinstance(value, str) and value:
        return Ref(value)
    if isinstance(value, dict) and len(value) == 1:
        ((name, options),) = value.items()
        if options is None or isinstance(options, dict):
            return Ref(str(name), options or {})
    raise UsageError(
        f"--protocol {text!r} names no protocol", remedy="Write NAME, or '{NAME: {KEY: VALUE}}' for options."
    )


def _serve(service: Service, protocols: Sequence[ServedProtocol], host: str, port: int, token: str) -> None:
    import uvicorn

    from zeus_runtime.serving.http.app import app_of

    class _Announcing(uvicorn.Server):
        def _log_started_message(self, listeners: object) -> None:
            for each in self.servers:
                for socket in each.sockets:
                    complain(f"http://{host}:{socket.getsockname()[1]}/?token={token}")

    # The access line is the app's own, with the caller.
    config = uvicorn.Config(
        app_of(service, protocols),
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=10,
    )
    _Announcing(config).run()


def _reader(process: Process, which: ConfigArgs) -> Callable[[Sequence[str]], Checked]:
    def read(sets: Sequence[str]) -> Checked:
        from zeus_runtime.cli.trusting import read_trusted

        return read_trusted(process, replace(which, sets=(*which.sets, *sets)), may_ask=False)

    return read


def _files(process: Process, configs: tuple[str, ...]) -> list[str | None]:
    """The configs to serve: those named, and of each folder its YAML files without overlays."""
    from zeus_runtime.errors import UsageError

    found: list[str | None] = []
    for each in configs:
        folder = process.directory / each
        if not folder.is_dir():
            found.append(each)
            continue
        files = sorted(path for path in folder.glob("*.yaml") if not _is_overlay(path))
        if not files:
            raise UsageError(f"the folder {each} has no YAML file", remedy="Name a config.")
        found += map(str, files)
    return found or [None]


def _is_overlay(path: Path) -> bool:
    """Whether ``zeus.prod.yaml`` lies over a ``zeus.yaml`` beside it."""
    base, dot, _ = path.stem.rpartition(".")
    return bool(dot) and path.with_name(f"{base}.yaml").exists()
