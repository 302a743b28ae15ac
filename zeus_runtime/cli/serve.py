"""``zeus serve``: agents over HTTP, for programs, editors, other agents and people."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from zeus_runtime.cli.completion import complete_config
from zeus_runtime.cli.options import ConfigArgs, env_option, read_config, set_option
from zeus_runtime.cli.otel import otel_option
from zeus_runtime.cli.service_settings import settings_option, with_service
from zeus_runtime.cli.streams import complain
from zeus_runtime.config.layers.files import SERVICE_FILE, configs_in
from zeus_runtime.config.sqlite_url import database_file

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.config.ref import Ref
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.serving.http.hosting import ConfigReader, EditedConfig
    from zeus_runtime.serving.http.protocols import ServedProtocol
    from zeus_runtime.serving.http.service import Service
    from zeus_runtime.serving.http.settings import ReadSettings, Settings

PORT = 8700
LEAST_TOKEN = 20
"""Characters of a token: shorter ones can be guessed."""
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_ABSENT: Final = object()


@click.command("serve")
@click.argument("configs", metavar="[CONFIG|FOLDER]…", nargs=-1, shell_complete=complete_config)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on. Other than loopback, it needs keys or oidc, and TLS or a proxy.",
)
@click.option("--port", default=PORT, show_default=True, type=click.IntRange(0, 65535), help="0 chooses one.")
@click.option(
    "--protocol",
    "protocols",
    metavar="NAME",
    multiple=True,
    help="Serve this protocol too, such as openai or mcp; with options, YAML: '{NAME: {KEY: VALUE}}'. May be repeated.",
)
@click.option(
    "--path-prefix",
    default="",
    metavar="/PATH",
    help="The path under which a proxy offers the service, such as /zeus. The proxy may remove it or leave it in.",
)
@click.option(
    "--demo",
    "demo_folder",
    is_flag=False,
    flag_value="",
    metavar="[FOLDER]",
    help="Serve a demonstration instead of a config: no key, no network. With FOLDER it is kept there; FOLDER is made.",
)
@settings_option
@click.option(
    "--show-settings", is_flag=True, help="Print the settings that hold, and where each was written."
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
    path_prefix: str,
    demo_folder: str | None,
    settings_file: Path | None,
    show_settings: bool,
    env: str | None,
    sets: tuple[str, ...],
) -> None:
    """Serve agents over HTTP.

    Each CONFIG is an agent; of a FOLDER, every YAML file in it. A changed config is read again, and turns that run end
    under the former one. The next service resumes the turns that a stopped one leaves. Every request needs a key
    (`zeus keys`), or on this machine the token in ZEUS_TOKEN; without that, a new token is printed.
    """
    from importlib.util import find_spec

    from zeus_runtime.cli.start import prepared
    from zeus_runtime.cli.trusting import examined_settings, read_trusted_settings
    from zeus_runtime.errors import MissingError, UsageError

    if demo_folder is not None and (configs or settings_file or show_settings or env or sets):
        raise UsageError(
            "--demo serves a config of its own, with the default settings",
            remedy="Leave CONFIG, --settings, --show-settings, --env and --set out.",
        )
    prefix = _prefix(path_prefix)
    if show_settings:
        _show(process, examined_settings(process, settings_file))
        return
    if any(find_spec(each) is None for each in ("fastapi", "uvicorn", "jwt", "prometheus_client")):
        raise MissingError(
            "serving over HTTP needs fastapi, uvicorn, PyJWT and prometheus-client",
            remedy="Install them: pip install 'zeus-runtime[serve]'.",
        )
    from zeus_runtime.serving.http.hosting import HostedAgent, Hosting
    from zeus_runtime.serving.http.hub import Hub
    from zeus_runtime.serving.http.principals import LocalToken
    from zeus_runtime.serving.http.service import Service
    from zeus_runtime.serving.http.settings import default_settings
    from zeus_runtime.store.database import Database

    with ExitStack() as stack:
        made: type[Service] = Service
        if demo_folder is None:
            read = read_trusted_settings(process, settings_file)
        else:
            from zeus_runtime.serving.http.demo import CONFIG, DemoService

            stack.enter_context(_in_demo_folder(process, demo_folder))
            made, configs = DemoService, (str(_bundled(CONFIG)),)
            read = default_settings(directory=process.directory, environ=process.environ)
        settings = read.settings
        is_local = host in LOOPBACK
        if not is_local:
            _refuse_open(process, settings_file, settings, host)
        given = _given_token(process) if is_local else None
        hub, token = Hub(), LocalToken(given) if is_local else None
        folders = tuple(folder for each in configs if (folder := process.directory / each).is_dir())
        hosting = Hosting(
            [
                HostedAgent(_reader(process, ConfigArgs(each, env, sets), read, folders), hub.stored)
                for each in _files(process, configs, read)
            ]
        )
        stack.enter_context(prepared(process))
        database = Database(settings.storage.url, directory=process.directory)
        service = made(hosting, token, hub, settings, database)
        told = token.text if token is not None and given is None else ""
        hint = "" if given is None else "its token is the one in ZEUS_TOKEN: the page asks for it"
        _serve(service, _protocols(process, protocols, service), host, port, prefix, told=told, hint=hint)


def _prefix(written: str) -> str:
    """The path prefix as an ASGI server has it: without a slash at its end.

    Raises:
        UsageError: it is not a path.
    """
    from zeus_runtime.errors import UsageError

    prefix = written.rstrip("/")
    if prefix and not re.fullmatch(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+", prefix):
        raise UsageError(
            f"--path-prefix {written!r} is not a path",
            remedy="Write a slash, then letters, digits, `-` and `_`: /zeus.",
        )
    return prefix


def _bundled(config: str) -> Path:
    from zeus_runtime.registry import bundled_home

    return bundled_home() / "configs" / f"{config}.yaml"


@contextmanager
def _in_demo_folder(process: Process, name: str) -> Iterator[None]:
    """Work in the folder of a demonstration; one without a name ends with the process, also by SIGTERM.

    Raises:
        UsageError: the folder cannot be made.
    """
    import signal
    import tempfile
    from contextlib import chdir

    from zeus_runtime.errors import UsageError

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    with ExitStack() as stack:
        if name:
            folder = process.directory / name
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UsageError(
                    f"the folder {name} of the demonstration cannot be made: {error.strerror}",
                    remedy="Name another one.",
                ) from None
            complain(f"the demonstration stays in {folder}")
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zeus-demo-")))
            complain(f"the demonstration ends with this process; its files are in {folder}")
        former = signal.signal(signal.SIGTERM, interrupt)
        # Outside uvicorn's handlers, which are there only while the server runs: the folder has to go in any case.
        stack.callback(signal.signal, signal.SIGTERM, former)
        stack.enter_context(chdir(folder))
        yield


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


def _refuse_open(process: Process, file: Path | None, settings: Settings, host: str) -> None:
    """Check that a service which others reach knows who they are, and that nobody on the way reads their keys.

    Raises:
        UsageError: it does not.
    """
    from zeus_runtime.errors import UsageError
    from zeus_runtime.store.service_keys import has_keys

    now = round(time.time() * 1000)
    if not settings.oidc and not with_service(process, file, lambda database: has_keys(database, now)):
        raise UsageError(
            f"nobody could use a service on {host}: it has neither a valid key nor `oidc` in its settings",
            remedy="Make a key first: zeus keys create NAME. Or leave --host out.",
        )
    if settings.tls is None and not settings.proxies:
        raise UsageError(
            f"a service on {host} would send and receive keys without encryption",
            remedy="Write `tls:` in zeus-serve.yaml, or, behind a proxy with TLS, `proxies: [ADDRESS]`.",
        )


def _log_access() -> None:
    """Write the access lines to standard error as they are; the service makes each fit on one line."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    access = logging.getLogger("zeus.access")
    access.handlers, access.propagate = [handler], False
    access.setLevel(logging.INFO)


def _show(process: Process, read: ReadSettings) -> None:
    """Print the settings; those that were written, with their places."""
    from zeus_runtime.cli.output import TextTable, as_json, tell
    from zeus_runtime.config.yaml.tree import show_path

    rows = []
    for path, value in _leaves(asdict(read.settings), ()):
        written = read.document.get(path, _ABSENT) is not _ABSENT
        place = read.document.position(path).short if written else "default"
        rows.append((show_path(path), as_json(value, indent=None), place))
    tell(process, read.settings, lambda: TextTable(rows), as_object=False)


def _leaves(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list | tuple) and any(isinstance(each, Mapping) for each in value):
        for place, inner in enumerate(value):
            yield from _leaves(inner, (*path, place))
    else:
        yield path, value


def _serve(
    service: Service,
    protocols: Sequence[ServedProtocol],
    host: str,
    port: int,
    prefix: str,
    *,
    told: str,
    hint: str,
) -> None:
    """Serve until the process is ended.

    Args:
        told: the token to print with the address; empty for none.
        hint: a line after the address.
    """
    from zeus_runtime.serving.http.server import ServiceServer, server_config

    settings = service.settings
    _log_access()
    scheme = "http" if settings.tls is None else "https"
    query = f"?token={told}" if told else ""
    at = f"[{host}]" if ":" in host else host

    class _Announcing(ServiceServer):
        def _log_started_message(self, listeners: object) -> None:
            for each in self.servers:
                for socket in each.sockets:
                    complain(f"{scheme}://{at}:{socket.getsockname()[1]}{prefix}/{query}")
            if hint:
                complain(hint)

    config = server_config(service, protocols, host=host, port=port, prefix=prefix)
    _Announcing(config, service).run()


def _reader(
    process: Process, which: ConfigArgs, settings: ReadSettings, folders: tuple[Path, ...]
) -> ConfigReader:
    own = tuple(settings.document.files.values())
    database, tls = database_file(settings.settings.storage.url, process.directory), settings.settings.tls
    if tls is not None:
        own += (Path(tls.certificate), Path(tls.key))

    def read(sets: Sequence[str], edited: EditedConfig | None = None, /) -> Checked:
        from zeus_runtime.cli.trusting import read_trusted

        wanted = replace(which, sets=(*which.sets, *sets))
        if edited is None:
            checked = read_trusted(process, wanted, may_ask=False)
        else:
            checked = read_config(process, wanted, text=edited.text, trust=edited.trust)
        files = own if database is None else (*own, database)
        return checked.served_with(settings.document, files=files, folders=folders)

    return read


def _files(process: Process, configs: tuple[str, ...], settings: ReadSettings) -> list[str | None]:
    """The configs to serve: those named, and of each folder its YAML files without overlays."""
    from zeus_runtime.errors import UsageError

    found: list[str | None] = []
    for each in configs:
        folder = process.directory / each
        if not folder.is_dir():
            found.append(each)
            continue
        other = folder / SERVICE_FILE
        if other.is_file() and settings.document.path != other.resolve():
            raise UsageError(
                f"{each}/{SERVICE_FILE} has settings of a service, and they are not in use",
                remedy=f"Use them: --settings {each}/{SERVICE_FILE}",
            )
        files = [path for path in configs_in(folder) if not _is_overlay(path)]
        if not files:
            raise UsageError(f"the folder {each} has no YAML file", remedy="Name a config.")
        found += map(str, files)
    return found or [None]


def _is_overlay(path: Path) -> bool:
    """Whether ``zeus.prod.yaml`` lies over a ``zeus.yaml`` beside it."""
    base, dot, _ = path.stem.rpartition(".")
    return bool(dot) and path.with_name(f"{base}.yaml").exists()
