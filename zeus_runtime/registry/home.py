"""Homes: folders with ``configs/ prompts/ plugins/ skills/``, searched from the nearest to the bundled one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from zeus_runtime.config.layers.plugin_home import plugin_named
from zeus_runtime.disk_paths import expanded, home_folder, home_folders, is_folder
from zeus_runtime.errors import MissingError, UsageError
from zeus_runtime.process_path import given_environ

Position: TypeAlias = Callable[[tuple[str | int, ...]], object]
Folder: TypeAlias = Literal["configs", "prompts", "plugins", "skills"]
HOME_FOLDERS: Final[tuple[Folder, ...]] = get_args(Folder)


def search_path(
    *,
    directory: Path,
    environ: Mapping[str, str],
    homes: Iterable[str] = (),
    homes_of: Callable[[str, object], Iterable[Path]] = lambda plugin, place: (),
    position: Position = lambda path: None,
    tolerates: bool = False,
) -> tuple[Path, ...]:
    """The Homes, nearest first: the project's ``.zeus``, the YAML's, ``ZEUS_HOME``, the user's, the bundled.

    Args:
        directory: the project's folder, which may have ``.zeus``; relative paths start here.
        environ: ``ZEUS_HOME`` adds one Home; ``XDG_CONFIG_HOME`` or ``HOME`` give the place of the user's.
        homes: the YAML's ``homes``, in their order: paths, or ``plugin:NAME``.
        homes_of: returns the Homes of a plugin that ``homes`` names (``Registry.homes_of``).
        position: returns the position of a path of keys in the YAML, for errors.
        tolerates: leave out a Home that is not there.

    Raises:
        MissingError: a Home that the YAML or ``ZEUS_HOME`` names is not a folder. ``.zeus`` and the user's
            may be absent.
    """
    existing = (lambda home, *_: home) if tolerates else _existing
    named: list[Path] = []
    for index, home in enumerate(homes):
        place, plugin = position(("homes", index)), plugin_named(home)
        if plugin is not None:
            named += homes_of(plugin, place)
        else:
            named.append(existing(directory / expanded(home), "the YAML's 'homes' names", place))
    added = environ.get("ZEUS_HOME")
    if added:
        named.append(existing(directory / expanded(added), "ZEUS_HOME names"))
    candidates = [directory / ".zeus", *named, *user_home(environ), bundled_home()]
    return tuple(dict.fromkeys(filter(is_folder, candidates)))


@cache
def bundled_home() -> Path:
    """The bundled Home: inside the package if installed from a wheel, else the checkout's top level.

    Raises:
        MissingError: neither exists.
    """
    # Found from this file and not through importlib.resources: an editable install leaves stale copies of the wheel's
    # data in site-packages.
    package = Path(__file__).resolve().parent.parent
    for home in (package / "_home", package.parent):
        if (home / "configs").is_dir():
            return home
    raise MissingError(
        "Zeus's own configs, prompts and schemas are not there",
        remedy="reinstall zeus-runtime from its wheel",
    )


def bundled_folders() -> tuple[Path, ...]:
    """The folders of the bundled Home whose files are trusted: presets and prompts.

    Not the whole Home: in a checkout, all else lies there too, also what an agent or a stranger put into it.
    """
    return tuple(bundled_home() / each for each in ("configs", "prompts"))


def find(homes: Sequence[Path], folder: Folder, name: str) -> Path | None:
    """The nearest file or folder ``name`` in the Homes' ``folder``, or None.

    Args:
        homes: nearest first.
        folder: one of a Home's four folders.
        name: a file name, with ``/`` for subfolders.

    Raises:
        UsageError: the name is not a plain relative path: it is empty or absolute, or has ``..``, a backslash or a
            drive.
    """
    return next(find_all(homes, folder, name), None)


def find_all(homes: Sequence[Path], folder: Folder, name: str) -> Iterator[Path]:
    """Every match of ``find``, nearest first: the file in use, then those that it hides."""
    _refuse_escape(folder, name)
    return (path for home in homes if (path := home / folder / name).exists())


def _refuse_escape(folder: str, name: str) -> None:
    parts = name.split("/")
    # A backslash and a colon separate parts of a path on Windows.
    if name and not any(part in ("", ".", "..") for part in parts) and not set(name) & set("\\:\0"):
        return
    raise UsageError(
        f"{name!r} cannot name something in a Home's {folder}/",
        remedy="use a plain name or a relative path without '..', such as 'CORE.md'",
    )


def _existing(home: Path, who: str, place: object = None) -> Path:
    if not is_folder(home):
        raise MissingError(
            f"{who} a Home that is not a folder: {home}",
            remedy="create the folder where this user may enter it, or correct the path",
            where=None if place is None else str(place),
        )
    return home


def user_home(environ: Mapping[str, str]) -> list[Path]:
    """The user's own Home, even if it does not exist; empty if the user has no home folder."""
    configured = environ.get("XDG_CONFIG_HOME", "")
    # The XDG specification says to ignore a relative path.
    if configured and Path(configured).is_absolute():
        return [Path(configured) / "zeus"]
    home = home_folder(environ)
    return [] if home is None else [home / ".config" / "zeus"]


def environs_of_user() -> tuple[Mapping[str, str], ...]:
    """The variables by which this process, and the next one in each home folder of the user, finds the user's files."""
    process = given_environ()
    return (process, *({"HOME": str(home)} for home in home_folders(process)))


def environs_of_starts(environ: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """The variables by which each start of the user may find the Homes: each own Home with and without a ``ZEUS_HOME``.

    A login has another Home than this process may have, and the same ``ZEUS_HOME`` or none.

    Args:
        environ: the environment of a config, whose start is the first.
    """
    added = [each.get("ZEUS_HOME", "") for each in (environ, given_environ())]
    for own in (environ, *environs_of_user()):
        for home in dict.fromkeys((own.get("ZEUS_HOME", ""), *added, "")):
            yield {**own, "ZEUS_HOME": home}


def homes_of_user(environ: Mapping[str, str]) -> Iterable[Path]:
    """The user's own Homes, there or not, nearest first.

    Args:
        environ: the environment of a config. A project's ``.env`` or a program's mapping may name another Home for
            this run; the next run reads those of the process.
    """
    return dict.fromkeys(home for each in (environ, *environs_of_user()) for home in user_home(each))


def homes_of_next_run(directory: Path, environ: Mapping[str, str]) -> Iterable[Path]:
    """The Homes that no config names and in which the next run may look, there or not, nearest first.

    Args:
        environ: the environment of a config, as for ``homes_of_user``.
    """
    added = [each.get("ZEUS_HOME") for each in (environ, given_environ())]
    named = (directory / expanded(home) for home in added if home)
    return dict.fromkeys((directory / ".zeus", *named, *homes_of_user(environ)))


def accounts_folder(environ: Mapping[str, str]) -> Path | None:
    """The folder of accounts at MCP servers and of the key that encrypts them, in the user's own Home.

    Args:
        environ: the environment of the process itself; a project's ``.env`` must not name the folder.
    """
    return next((home / "accounts" for home in user_home(environ)), None)
