"""``zeus keys``: the keys with which programs and people use a service."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zeus_runtime.cli.options import json_option
from zeus_runtime.cli.output import TextTable, local_time, tell
from zeus_runtime.cli.service_settings import Duration, settings_option, with_service
from zeus_runtime.cli.streams import answer, complain

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.store.service_keys import ServiceKey

SCOPES = ("run", "approve", "read", "metrics", "admin")
ROLES = ("owner", "admin", "editor", "viewer")
_NEVER = "never"


class _Expiry(Duration):
    """A length of time, or ``never``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return -1 if value == _NEVER else super().convert(value, param, ctx)


@click.group("keys")
def command() -> None:
    """Make, list, rotate or revoke the keys of `zeus serve`."""


@command.command("create")
@click.argument("name")
@click.option(
    "--user", metavar="USER", help="On whose behalf it acts; by default a user with the key's name."
)
@click.option("--all-users", is_flag=True, help="It acts for all users, and sees everybody's sessions.")
@click.option("--project", metavar="PROJECT", help="The project in which it acts.")
@click.option("--role", type=click.Choice(ROLES), help="The user's role in the project; by default viewer.")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(SCOPES),
    multiple=True,
    default=("run", "approve", "read"),
    show_default=True,
    help="What it may do; may be repeated.",
)
@click.option(
    "--agent", "agents", metavar="NAME", multiple=True, help="An agent it may use; may be repeated; else all."
)
@click.option(
    "--expires",
    type=_Expiry(),
    default="90d",
    show_default=True,
    metavar="TIME",
    help="12h, 90d, 4w; or never.",
)
@settings_option
@json_option
@click.pass_obj
def create(
    process: Process,
    name: str,
    user: str | None,
    all_users: bool,
    project: str | None,
    role: str | None,
    scopes: tuple[str, ...],
    agents: tuple[str, ...],
    expires: int,
    settings_file: Path | None,
    as_object: bool,
) -> None:
    """Make a key, and print it: this once, since only its digest is stored."""
    from zeus_runtime.errors import UsageError
    from zeus_runtime.store.service_keys import ServiceKey, add_key, new_secret

    if all_users and (user or project or role):
        raise UsageError(
            "--all-users excludes --user, --project and --role", remedy="Leave out one or the other."
        )
    if role and not project:
        raise UsageError("--role is the role in a project", remedy="Add --project.")
    process.learn_folder()
    for each in filter(None, (name, user, project, *agents)):
        if process.secrets.masked(each) != each:
            raise UsageError(
                "a name holds a known secret, which the database would keep", remedy="Give another name."
            )
    now = round(time.time() * 1000)
    text, secret = new_secret()
    key = ServiceKey(
        id=text,
        name=_named(name),
        user=None if all_users else _named(user or name),
        project=project and _named(project),
        role=(role or "viewer") if project else None,
        scopes=tuple(dict.fromkeys(scopes)),
        agents=agents or None,
        created_ms=now,
        expires_ms=None if expires < 0 else now + expires,
    )
    with_service(process, settings_file, lambda database: add_key(database, key, secret))
    _show_once(key, secret, as_object=as_object)


@command.command("list")
@settings_option
@json_option
@click.pass_obj
def list_keys(process: Process, settings_file: Path | None, as_object: bool) -> None:
    """List the keys, with when they were last used; the times are stored once a minute."""
    from zeus_runtime.store.service_keys import keys

    found = with_service(process, settings_file, keys)
    now = round(time.time() * 1000)
    rows = [
        (
            each.id,
            each.name,
            each.state(now),
            each.user or "(all)",
            "" if each.project is None else f"{each.project} ({each.role})",
            ",".join(each.scopes),
            "all" if each.agents is None else ",".join(each.agents),
            _NEVER if each.expires_ms is None else local_time(each.expires_ms),
            _NEVER if each.last_used_ms is None else local_time(each.last_used_ms),
        )
        for each in found
    ]
    header = ("ID", "NAME", "STATE", "USER", "PROJECT", "SCOPES", "AGENTS", "EXPIRES", "USED")
    tell(
        process,
        {"keys": [{**asdict(each), "state": each.state(now)} for each in found]},
        lambda: TextTable(rows, header),
        as_object=as_object,
        nothing="there is no key; `zeus keys create NAME` makes one",
    )


@command.command("rotate")
@click.argument("key")
@click.option(
    "--overlap",
    type=Duration(),
    default="24h",
    show_default=True,
    metavar="TIME",
    help="How long the former key is still valid; 0m ends it now.",
)
@click.option(
    "--expires", type=Duration(), metavar="TIME", help="The new key's; by default as long as the former had."
)
@settings_option
@json_option
@click.pass_obj
def rotate(
    process: Process, key: str, overlap: int, expires: int | None, settings_file: Path | None, as_object: bool
) -> None:
    """Replace KEY, an id or a name, by a new key that may do the same, and print the new one."""
    from zeus_runtime.store.service_keys import rotate_key

    now = round(time.time() * 1000)
    made, secret = with_service(
        process,
        settings_file,
        lambda database: rotate_key(
            database,
            key,
            now,
            overlap_ms=overlap,
            expires_ms=None if expires is None else now + expires,
        ),
    )
    _show_once(made, secret, as_object=as_object)


@command.command("revoke")
@click.argument("key")
@settings_option
@click.pass_obj
def revoke(process: Process, key: str, settings_file: Path | None) -> None:
    """End KEY, an id or a name: the service refuses it from the next request on."""
    from zeus_runtime.store.service_keys import revoke_key

    now = round(time.time() * 1000)
    found = with_service(process, settings_file, lambda database: revoke_key(database, key, now))
    complain(f"revoked {found.id} ({found.name})")


def _show_once(key: ServiceKey, secret: str, *, as_object: bool) -> None:
    from zeus_runtime.cli.output import as_json
    from zeus_runtime.store.service_keys import key_text

    text = key_text(key.id, secret)
    if as_object:
        answer(as_json({**asdict(key), "key": text}))
        return
    until = "" if key.expires_ms is None else f", until {local_time(key.expires_ms)}"
    complain(f"the key {key.id} ({key.name}){until}; it is shown only now")
    answer(text)


def _named(text: str) -> str:
    """A name that fits into a line of a log."""
    from zeus_runtime.errors import UsageError

    if not text or len(text) > 200 or not text.isprintable():
        raise UsageError(f"{text!r} is no name", remedy="Write up to 200 printable characters.")
    return text
