"""``zeus kb``: knowledge bases are filled, listed, searched and removed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any, TypeVar

import click

from zeus_runtime.cli.asking import agree
from zeus_runtime.cli.options import ConfigArgs, config_args, json_option, read_owner
from zeus_runtime.cli.output import TextTable, complain_table, tell
from zeus_runtime.cli.streams import answer, complain, is_terminal
from zeus_runtime.escaping import printable

if TYPE_CHECKING:
    from zeus_runtime.cli.process import Process
    from zeus_runtime.knowledge import BaseInfo, Hit, Ingested, KnowledgeService, Progress

T = TypeVar("T")

config_option = config_args(
    click.option(
        "--config", metavar="CONFIG", help="Whose database, user and embedding model; zeus.yaml by default."
    )
)


@click.group("kb")
def command() -> None:
    """Fill, list, search or remove knowledge bases."""


@command.command("add")
@click.argument("name")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--project", is_flag=True, help="A new base is the project's, not the user's.")
@click.option(
    "--chunk-tokens", metavar="N", type=click.IntRange(min=16), help="Of a new base; 400 by default."
)
@click.option(
    "--overlap-tokens", metavar="N", type=click.IntRange(min=0), help="Of a new base; 60 by default."
)
@config_option
@json_option
@click.pass_obj
def add(
    process: Process,
    name: str,
    paths: tuple[Path, ...],
    project: bool,
    chunk_tokens: int | None,
    overlap_tokens: int | None,
    which: ConfigArgs,
    as_object: bool,
) -> None:
    """Add files and folders to the knowledge base NAME, which is made if it is not there.

    PDF, DOCX, HTML, Markdown, text and code. Files that were added before are checked too: unchanged files cost
    nothing, changed files are read again, deleted files are removed. Without PATH, only this check runs. An
    interrupted ingest continues where it stopped.
    """
    from zeus_runtime.knowledge.service import Cutting

    cutting = None
    if chunk_tokens is not None or overlap_tokens is not None:
        default = Cutting()
        tokens = default.chunk_tokens if chunk_tokens is None else chunk_tokens
        overlap = min(default.overlap_tokens, tokens // 8) if overlap_tokens is None else overlap_tokens
        cutting = Cutting(tokens, overlap)
    here = [process.directory / path for path in paths]

    async def work(service: KnowledgeService) -> Ingested:
        with _progress_bar() as bar:
            return await service.add(name, here, project=project, cutting=cutting, progress=bar)

    _tell_done(process, name, _with_service(process, which, work), as_object=as_object)


@command.command("reindex")
@click.argument("name")
@config_option
@json_option
@click.pass_obj
def reindex(process: Process, name: str, which: ConfigArgs, as_object: bool) -> None:
    """Embed the knowledge base NAME anew, by the model that would embed a new one.

    A base keeps the embedding model that it was made with. This changes it: every file is read and embedded again.
    If interrupted, run `zeus kb add NAME` to finish.
    """

    async def work(service: KnowledgeService) -> Ingested:
        with _progress_bar() as bar:
            return await service.reindex(name, progress=bar)

    _tell_done(process, name, _with_service(process, which, work), as_object=as_object)


def _tell_done(process: Process, name: str, done: Ingested, *, as_object: bool) -> None:
    failed = [{"path": path, "why": why} for path, why in done.failed]
    tell(
        process,
        {**vars(done), "failed": failed},
        lambda: (
            f"{name}: {done.added} added, {done.changed} changed, {done.unchanged} unchanged, {done.removed} removed;"
            f" {done.chunks:,} chunks written, {done.embedded:,} embedded"
            + (f", {done.repaired:,} vectors of the store repaired" if done.repaired else "")
        ),
        as_object=as_object,
    )
    for path, why in done.failed:
        complain(process.redact(f"warning: {printable(path)} was left out: {why}"), "yellow")


@command.command("list")
@config_option
@json_option
@click.pass_obj
def list_bases(process: Process, which: ConfigArgs, as_object: bool) -> None:
    """List the knowledge bases that the config's user and project have."""

    async def work(service: KnowledgeService) -> list[tuple[BaseInfo, list[str]]]:
        return [(base, await service.sources(base.name)) for base in await service.bases()]

    found = _with_service(process, which, work)
    tell(
        process,
        [{**base.as_json(), "sources": sources} for base, sources in found],
        lambda: _table(found),
        as_object=as_object,
        nothing="no knowledge base; `zeus kb add NAME PATH` makes one",
    )


def _table(bases: Sequence[tuple[BaseInfo, Sequence[str]]]) -> TextTable:
    """Bases, each with what was added to it, as rows."""
    rows = [
        (
            base.name,
            base.scope,
            f"{base.documents:,}",
            f"{base.chunks:,}",
            base.embedding,
            ", ".join(sources),
        )
        for base, sources in bases
    ]
    return TextTable(rows, ("BASE", "SCOPE", "DOCUMENTS", "CHUNKS", "EMBEDDED BY", "ADDED"))


@command.command("search")
@click.argument("name")
@click.argument("query")
@click.option(
    "-k", "top_k", metavar="N", type=click.IntRange(1, 100), default=5, show_default=True, help="At most N."
)
@config_option
@json_option
@click.pass_obj
def search(
    process: Process,
    name: str,
    query: str,
    top_k: int,
    which: ConfigArgs,
    as_object: bool,
) -> None:
    """Search the knowledge base NAME as the model's tool does; each passage with its source and place."""

    async def work(service: KnowledgeService) -> Any:
        if await service.base(name) is None:
            await service.sources(name)
        return await service.search(query, names=[name], top_k=top_k, for_tool=False)

    found = _with_service(process, which, work)
    for notice in found.notices:
        complain(process.redact(f"warning: {notice}"), "yellow")
    if not found.hits and not as_object:
        complain("nothing was found")
        raise SystemExit(1)
    tell(
        process,
        found.hits,
        lambda: "\n\n".join(_passage(number, hit) for number, hit in enumerate(found.hits, 1)),
        as_object=as_object,
    )


@command.command("remove")
@click.argument("name")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
@config_option
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.pass_obj
def remove(
    process: Process,
    name: str,
    paths: tuple[Path, ...],
    which: ConfigArgs,
    yes: bool,
) -> None:
    """Remove the knowledge base NAME, or only what came from PATHs that were added to it."""
    from zeus_runtime.errors import ChangedError

    shown: BaseInfo | None = None
    if not paths and not yes:

        async def look(service: KnowledgeService) -> list[tuple[BaseInfo, list[str]]]:
            base = await service.base(name)
            # `remove` says what is wrong with the name.
            return [] if base is None else [(base, await service.sources(name))]

        if found := _with_service(process, which, look):
            complain_table(_table(found), mask=process.redact)
            agree(
                "Remove this knowledge base?",
                unasked=f"this removes all of {name!r}, and nobody can be asked",
            )
            shown = found[0][0]

    async def work(service: KnowledgeService) -> int:
        if shown is not None and await service.base(name) != shown:
            raise ChangedError(
                f"{name!r} was not removed: it changed after it was shown",
                remedy="Look at it again, then remove it.",
            )
        return await service.remove(name, [process.directory / path for path in paths])

    removed = _with_service(process, which, work)
    answer(f"{removed} documents removed")


def _with_service(
    process: Process,
    which: ConfigArgs,
    work: Callable[[KnowledgeService], Awaitable[T]],
) -> T:
    import asyncio

    from zeus_runtime.cli.start import prepared
    from zeus_runtime.plan.plan import make_plan
    from zeus_runtime.plan.services import knowledge_service
    from zeus_runtime.tools.calling_tool import calling

    checked, _ = read_owner(process, which)
    context = make_plan(checked).context
    service = knowledge_service(checked, lambda: context)

    async def run() -> T:
        try:
            with calling(None):
                return await work(service)
        finally:
            await service.aclose()

    with prepared(process):
        return asyncio.run(run())


@contextmanager
def _progress_bar() -> Iterator[Callable[[Progress], None]]:
    """A bar on a terminal, nothing elsewhere."""
    import sys

    if not is_terminal(sys.stderr):
        yield lambda _progress: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[chunks]:,} chunks"),
        TimeRemainingColumn(),
    )
    text = TextColumn("{task.fields[path]}", markup=False)
    with Bar(*columns, text, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, chunks=0, path="")

        def tell(progress: Progress) -> None:
            bar.update(
                task,
                completed=progress.files_done,
                total=progress.files,
                chunks=progress.chunks,
                path=printable(progress.path)[-40:],
            )

        yield tell


def _passage(number: int, hit: Hit) -> str:
    ranks = f"vector {hit.vector_rank or '-'}, words {hit.word_rank or '-'}"
    # Indented, so that no line of a passage passes for the head of another one.
    return f"[{number}] {hit.citation} ({hit.score:.4f}; {ranks})\n{indent(hit.content, '  ')}"
