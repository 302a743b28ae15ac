"""The settings of a service and its database, as the commands that need them open them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from zeus_runtime.cli.options import Decorator

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.store.database import Database

T = TypeVar("T")

settings_option: Decorator = click.option(
    "--settings",
    "settings_file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The service's settings; by default zeus-serve.yaml in the working directory.",
)

_UNITS: Final = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class Duration(click.ParamType[int]):
    """A length of time such as 30m, 12h, 90d or 4w, in milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d{1,6})([mhdw])", value)
        if found is None:
            self.fail(f"{value!r} is not a length of time: write 30m, 12h, 90d or 4w", param, ctx)
        return int(found[1]) * _UNITS[found[2]] * 1000


def with_service(process: Process, file: Path | None, work: Callable[[Database], Awaitable[T]]) -> T:
    """What ``work`` makes of the service's database."""
    from zeus_runtime.cli.start import prepared
    from zeus_runtime.cli.trusting import read_trusted_settings
    from zeus_runtime.store.database import Database
    from zeus_runtime.store.schema import ready

    settings = read_trusted_settings(process, file).settings

    async def opened() -> T:
        database = Database(settings.storage.url, directory=process.directory)
        try:
            await ready(database)
            return await work(database)
        finally:
            await database.close()

    with prepared(process):
        return asyncio.run(opened())
