"""What the shell offers for a word: presets and files, model names, sessions. Cheap, and silent when it fails.

The shell writes what is offered into the command line and onto the terminal: only words are offered that it takes as
they are.
"""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

MOST_MODELS = 200
MOST_SESSIONS = 50
LONGEST_TITLE = 60
# Takes `gpt-5.2` and `configs/a.yaml`, and no blank, quote, `$` or `;`, which a shell would read otherwise.
_WORD: Final = re.compile(r"[\w@%+=:,./-]+")


def complete_config(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Presets of the Homes, and files."""
    from click.shell_completion import CompletionItem

    found = [CompletionItem(name, help="preset") for name in presets() if _fits(name, incomplete)]
    return [*found, CompletionItem(incomplete, type="file")]


def complete_model(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Model names that begin with the word."""
    from click.shell_completion import CompletionItem

    from zeus_runtime.models.profiles import names

    found = [name for name in names(homes=_homes()) if _fits(name, incomplete)]
    return [CompletionItem(name) for name in found[:MOST_MODELS]]


def complete_session(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Sessions of the default database in the working directory, last used first.

    Other databases are not read, nor is one that this user's Zeus did not make.
    """
    import os
    import sqlite3

    from click.shell_completion import CompletionItem

    from zeus_runtime.cli.process import Process
    from zeus_runtime.columns import shortened_title
    from zeus_runtime.trust.databases import is_made
    from zeus_runtime.trust.decision import records_folder

    if not is_made(records_folder(os.environ), Path(".zeus/zeus.db").resolve()):
        return []
    query = "SELECT session, title FROM thread ORDER BY updated_ms DESC LIMIT ?"
    try:
        # Read-only: a key press must not make a database, or upgrade one.
        with closing(sqlite3.connect("file:.zeus/zeus.db?mode=ro", uri=True)) as connection:
            rows = connection.execute(query, (MOST_SESSIONS,)).fetchall()
    except sqlite3.Error:
        return []
    # No config is loaded here: this would be slow, and may need permission.
    process = Process()
    process.learn_folder()
    redact = process.redact
    return [
        CompletionItem(name, help=shortened_title(redact(title), LONGEST_TITLE))
        for name, title in rows
        if _fits(name, incomplete)
    ]


def _fits(name: str, incomplete: str) -> bool:
    from zeus_runtime.escaping import printable

    return name.startswith(incomplete) and bool(_WORD.fullmatch(name)) and printable(name) == name


def presets() -> list[str]:
    """The presets of the Homes."""
    names = {path.stem for home in _homes() for path in (home / "configs").glob("*.yaml")}
    return sorted(names - {"profiles"})


def _homes() -> tuple[Path, ...]:
    import os

    from zeus_runtime.errors import ZeusError
    from zeus_runtime.registry.home import search_path

    try:
        return search_path(directory=Path.cwd(), environ=os.environ)
    except ZeusError:
        return ()
