"""Opens the PostgreSQL checkpointer that a config asks for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from zeus_plugins.checkpointers.postgres.options import Options
from zeus_runtime.plugin import MissingError, PlanContext

if TYPE_CHECKING:
    from zeus_plugins.checkpointers.postgres.saver import PostgresSaver


@asynccontextmanager
async def create(options: Options, context: PlanContext) -> AsyncIterator[PostgresSaver]:
    """Yield the connected saver; its tables exist.

    Raises:
        MissingError: the driver is not installed, or the database is not PostgreSQL or cannot be reached.
    """
    url = options.url or context.config.storage.url
    if not url.startswith("postgres"):
        raise MissingError(
            "the postgres checkpointer keeps its checkpoints in the threads' PostgreSQL database, but storage.url"
            " names another database",
            remedy="Give the checkpointer a URL (checkpointer: {postgres: {url: …}}), set storage.url to a PostgreSQL"
            " database, or choose the checkpointer sqlite.",
        )
    try:
        from zeus_plugins.checkpointers.postgres.same_database import is_beside
        from zeus_plugins.checkpointers.postgres.saver import PostgresSaver
    except ImportError as error:
        raise MissingError(
            f"the postgres checkpointer cannot be used: {error}",
            remedy="Install its driver: pip install 'zeus-runtime[postgres]'",
        ) from error
    saver = PostgresSaver(url, beside_log=await is_beside(url, context.config.storage.url))
    try:
        await saver.setup()
        yield saver
    finally:
        await saver.aclose()
