"""``zeus schema``: the JSON Schema that configs are checked against and editors complete from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from zeus_runtime.cli.streams import answer, complain

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process


@click.command("schema")
@click.option(
    "-o",
    "--output",
    "target",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write it to FILE instead of standard output.",
)
@click.option(
    "--eval", "evaluation", is_flag=True, help="The schema of evaluation files (`zeus eval`) instead."
)
@click.option(
    "--serve", "service", is_flag=True, help="The schema of a service's settings (`zeus serve`) instead."
)
@click.option("--write", is_flag=True, help="In a checkout of Zeus: write schemas/zeus.schema.json anew.")
@click.option("--check", is_flag=True, help="In a checkout of Zeus: exit 1 if that file is not up to date.")
@click.pass_obj
@click.pass_context
def command(
    ctx: click.Context,
    process: Process,
    target: Path | None,
    evaluation: bool,
    service: bool,
    write: bool,
    check: bool,
) -> None:
    """Print the JSON Schema of configs, installed plugins included.

    An editor completes a config whose first line names the schema's file: write it with -o .zeus/zeus.schema.json, and
    begin the config with # yaml-language-server: $schema=.zeus/zeus.schema.json

    The file of the checkout (--write, --check) holds the bundled plugins alone.
    """
    if sum([target is not None, write, check]) > 1:
        raise click.UsageError("--output, --write and --check exclude each other", ctx)
    if evaluation + service + (write or check) > 1:
        raise click.UsageError("--eval and --serve go with --output alone", ctx)
    if write or check:
        ctx.exit(_own_file(process, check=check))
    text = _of_evaluations() if evaluation else _of_services() if service else _installed(process)
    if target is None:
        answer(text, end="")
        return
    _write(target, text)


def _of_evaluations() -> str:
    from zeus_runtime.config.schema.composed import render
    from zeus_runtime.testing.cases.reading import evaluation_schema

    return render(evaluation_schema())


def _of_services() -> str:
    from zeus_runtime.config.schema.composed import render
    from zeus_runtime.serving.http.settings import settings_schema

    return render(settings_schema())


def _installed(process: Process) -> str:
    from zeus_runtime.config.schema.composed import render
    from zeus_runtime.registry import discover
    from zeus_runtime.registry.schema import installed_schema

    registry = discover(environ=process.environ)
    schema, problems = installed_schema(registry)
    for problem in (*registry.problems, *problems):
        complain(f"note: {problem}", "yellow")
    return render(schema)


def _own_file(process: Process, *, check: bool) -> int:
    from zeus_runtime.config.schema.composed import render
    from zeus_runtime.registry import discover
    from zeus_runtime.registry.schema import bundled_schema, schema_file

    text = render(bundled_schema(discover(environ=process.environ)))
    file = schema_file()
    if not check:
        _write(file, text)
        return 0
    if file.is_file() and file.read_text("utf-8") == text:
        return 0
    complain(f"error: {file} is not up to date\n  `zeus schema --write` writes it anew")
    return 1


def _write(file: Path, text: str) -> None:
    from zeus_runtime.cli.whole_file import write_whole
    from zeus_runtime.errors import UsageError
    from zeus_runtime.tools.own_folders import own_path

    own_path(file.absolute())
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{file} cannot be written: {error.strerror}", remedy="Name another file."
        ) from error
    write_whole(file, text, str(file))
    complain(f"wrote {file}")
