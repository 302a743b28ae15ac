"""``zeus trust``: what of a config needs permission, and which of it this user allows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import click

from zeus_runtime.cli.options import ConfigArgs, config_argument
from zeus_runtime.cli.output import TextTable, tell
from zeus_runtime.cli.streams import answer, complain
from zeus_runtime.config.layers.files import SERVICE_FILE

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.cli.trusting import Examined
    from zeus_runtime.trust.parts import Part
    from zeus_runtime.trust.records import Record

Kind: TypeAlias = Literal["config", "evaluation", "service"]


@click.command("trust")
@config_argument
@click.option(
    "--list",
    "lists",
    is_flag=True,
    help="List what you have allowed, for CONFIG or for all configs; with --json as it was shown.",
)
@click.option("--revoke", is_flag=True, help="Forget what you have allowed for CONFIG.")
@click.option(
    "--print", "prints", is_flag=True, help="Print the value of ZEUS_TRUST that allows CONFIG as it is now."
)
@click.option("--eval", "is_eval", is_flag=True, help="CONFIG is an evaluation file.")
@click.option(
    "--serve", "is_service", is_flag=True, help="CONFIG is a service's settings; by default zeus-serve.yaml."
)
@click.option("--json", "as_object", is_flag=True, help="With --list: JSON for programs.")
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context,
    process: Process,
    which: ConfigArgs,
    lists: bool,
    revoke: bool,
    prints: bool,
    is_eval: bool,
    is_service: bool,
    as_object: bool,
) -> None:
    """Show what a config executes and where it sends data, and allow it once.

    You are asked for plugin files, MCP servers and programs, for other machines, for files elsewhere, for rules that
    open protected files, and for a database that your Zeus did not make; a change asks again. On a terminal you are
    asked; elsewhere the command allows what it shows. Nothing is executed to show it.

    \b
    Exit codes: 0 all is allowed, 3 the config is not valid, 4 you said no.
    """
    if sum([lists, revoke, prints]) > 1:
        raise click.UsageError("--list, --revoke and --print exclude each other", ctx)
    if as_object and not lists:
        raise click.UsageError("--json goes with --list", ctx)
    if is_eval and (which.config in (None, "-") or which.laid_over):
        raise click.UsageError("--eval needs an evaluation file, and neither --env nor --set", ctx)
    if is_service and (is_eval or which.config == "-" or which.laid_over):
        raise click.UsageError("--serve goes with a file, and with none of --eval, --env and --set", ctx)
    if is_service and (lists or revoke):
        which = replace(which, config=which.config or SERVICE_FILE)
    kind: Kind = "evaluation" if is_eval else "service" if is_service else "config"
    if lists:
        _list(process, which, as_object=as_object)
    elif revoke:
        _revoke(process, which)
    elif prints:
        found, parts = _asked_for(process, which, kind)
        answer(",".join(sorted(part.digest for part in parts)))
        _require_plan(found)
    else:
        _allow(process, which, kind)


def _examined(
    process: Process, which: ConfigArgs, kind: Kind, *, prints: bool = False
) -> tuple[Examined, Sequence[Part]]:
    """The file, and its parts.

    Args:
        prints: whether their digests are printed, which allow them for any file.
    """
    from zeus_runtime.cli.trusting import examined, examined_evaluation, examined_settings
    from zeus_runtime.config.messages.diagnostics import ConfigError
    from zeus_runtime.plan.executed_parts import unread_servers
    from zeus_runtime.plan.parts_with_subagents import agents_below, all_parts
    from zeus_runtime.trust.decision import recorded_trust

    if kind == "evaluation":
        evaluation = examined_evaluation(process, Path(str(which.config)))
        parts = evaluation.parts()
        if evaluation.choice is not None and (prints or recorded_trust(os.environ).digests):
            parts = [*parts, evaluation.choice]
        return evaluation, parts
    if kind == "service":
        settings = examined_settings(process, None if which.config is None else Path(which.config))
        return settings, settings.parts()
    # What only the path in ``ZEUS_TRUST`` allows can be allowed by digest too: as an evaluation file's models need it.
    config = examined(process, which, trust=recorded_trust(os.environ).for_other_text(()))
    # Else the answer would be that there is nothing to allow.
    every = (config, *agents_below(config))
    if unread := [each for checked in every for each in unread_servers(checked.document)]:
        raise ConfigError(unread)
    return config, all_parts(config)


def _allow(process: Process, which: ConfigArgs, kind: Kind) -> None:
    from zeus_runtime.cli.streams import can_ask
    from zeus_runtime.cli.trusting import allow_parts, complain_lines, record, shown

    found, parts = _examined(process, which, kind)
    # A config that cannot be planned must change, so its parts may be others then.
    _require_plan(found)
    if which.config != "-" and can_ask():
        count = allow_parts(found, parts)
    else:
        missing = [part for part in parts if not found.trust.allows(part)]
        complain_lines(shown(missing, whole=True))
        record(found, missing)
        count = len(missing)
    complain(
        f"allowed: {count}" if count else "nothing to allow: it needs no permission, or you have given it"
    )


def _asked_for(process: Process, which: ConfigArgs, kind: Kind) -> tuple[Examined, Sequence[Part]]:
    """The file, and what needs the user's permission, given or not."""
    from zeus_runtime.cli.trusting import complain_lines, shown

    found, every = _examined(process, which, kind, prints=True)
    parts = [part for part in every if not part.own]
    complain_lines(shown(parts, whole=True))
    return found, parts


def _require_plan(found: Examined) -> None:
    """Check that a config can be planned; as in ``validate``, only if nothing that its check executes is untrusted.

    Raises:
        ConfigError: with every problem.
    """
    from contextlib import suppress

    from zeus_runtime.plan.plan import make_plan
    from zeus_runtime.plan.validated import Checked, refusing_untrusted
    from zeus_runtime.trust.decision import UntrustedError

    if isinstance(found, Checked):
        with suppress(UntrustedError):
            make_plan(refusing_untrusted(found))


def _list(process: Process, which: ConfigArgs, *, as_object: bool) -> None:
    from zeus_runtime.trust.decision import records_folder
    from zeus_runtime.trust.parts import one_line
    from zeus_runtime.trust.records import all_records, given_for

    folder = records_folder(process.environ)
    if folder is None:
        records: tuple[Record, ...] = ()
    elif which.config is None:
        records = all_records(folder)
    else:
        records = given_for(folder, _name_in_record(process, which.config))
    rows = [(one_line(each.file), each.kind, one_line(each.name), each.digest[:19]) for each in records]
    told = [
        {"file": each.file, "kind": each.kind, "name": each.name, "digest": each.digest, "lines": each.lines}
        for each in records
    ]
    tell(
        process,
        told,
        lambda: TextTable(rows, ("CONFIG", "KIND", "NAME", "DIGEST")) if rows else "nothing is allowed",
        as_object=as_object,
    )


def _revoke(process: Process, which: ConfigArgs) -> None:
    from zeus_runtime.errors import UsageError
    from zeus_runtime.trust.decision import records_folder
    from zeus_runtime.trust.records import revoke

    folder = records_folder(process.environ)
    file = _name_in_record(process, which.config)
    count = revoke(folder, file) if folder is not None else 0
    if not count:
        raise UsageError(f"nothing is allowed for {file}", remedy="`zeus trust --list` shows what is allowed")
    complain(f"forgotten: {count}")


def _name_in_record(process: Process, config: str | None) -> str:
    """The config in the record, also where its file is gone or no longer valid; a preset's name is looked up."""
    from zeus_runtime.config.layers.loading import STDIN
    from zeus_runtime.trust.decision import name_in_record

    path = None if config == "-" else _file(process, config)
    return name_in_record(path, STDIN, process.directory)


def _file(process: Process, config: str | None) -> Path:
    from zeus_runtime.config.layers.files import Layers
    from zeus_runtime.config.layers.merge import ref_places
    from zeus_runtime.config.messages.diagnostics import ConfigError
    from zeus_runtime.config.model import Config
    from zeus_runtime.disk_paths import expanded
    from zeus_runtime.registry import installed_homes, search_path

    homes = search_path(directory=process.directory, environ=process.environ)
    try:
        layers = Layers(
            process.directory,
            homes,
            ref_places(Config),
            lambda rules: installed_homes(rules, process.environ),
        )
        return layers.locate(config)
    except ConfigError:
        return process.directory / expanded(config or "zeus.yaml")
