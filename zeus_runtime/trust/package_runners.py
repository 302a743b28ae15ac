"""The usual places where package runners find what they execute: no word of a command names it.

They guard against accidents. Nobody can list all that a program reads by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Final, NamedTuple

_PACKAGES: Final = ("node_modules",)
_READ: Final[Mapping[str, tuple[Sequence[str], Sequence[str]]]] = {
    **dict.fromkeys(("npx", "npm"), ((".npmrc",), _PACKAGES)),
    **dict.fromkeys(("pnpx", "pnpm"), ((".npmrc", ".pnpmfile.*", "pnpm-workspace.yaml"), _PACKAGES)),
    "yarn": ((".npmrc", ".yarnrc", ".yarnrc.yml"), (*_PACKAGES, ".yarn", ".pnp.*")),
    **dict.fromkeys(("bunx", "bun"), ((".npmrc", "bunfig.toml"), _PACKAGES)),
    # Not `uvx`, which ignores the settings of a project.
    "uv": ((".python-version*", "uv.toml"), (".venv", "uv.lock")),
}
"""For each runner the settings that name code or where packages come from, and what it installs; as globs.

``package.json`` and ``pyproject.toml`` are not among them: agents work on them.
"""

_STARTERS: Final = ("npx", "pnpx", "bunx")
"""The runners whose first word is the package that they start; the others are its arguments."""
_SWITCHES: Final = ("--", "-y", "--yes")
"""Their usual options without a value. The word after any other option may be its value, and so name a package."""
_BARE_WORD: Final = re.compile(r"[\w.-]+")


class LookedUp(NamedTuple):
    """Names that a process looks up in a folder by itself.

    Args:
        folder: the folder.
        name: a glob.
        is_installed: it is what a package manager writes, not settings.
    """

    folder: Path
    name: str
    is_installed: bool


def package_arguments(words: Sequence[str], env: Sequence[str]) -> Set[str]:
    """The arguments of the package that ``npx`` starts, which name no package: ``app`` of ``npx -y tsc app``.

    Not one whose text another word holds, such as a line of a shell, nor one with a scope (``@shop/mcp``).

    Args:
        env: the values of the environment.
    """
    # `npx -y npm@11 exec app` starts the package `app`.
    runners = [each.rpartition("/")[2].partition("@")[0] for each in words]
    last = max((at for at, each in enumerate(runners) if each in _READ), default=None)
    if last is None or runners[last] not in _STARTERS:
        return frozenset()
    plain = [
        at
        for at in range(last + 1, len(words))
        if not words[at].startswith("-") and (words[at - 1] in _SWITCHES or not words[at - 1].startswith("-"))
    ]
    arguments = [at for at in plain[1:] if _BARE_WORD.fullmatch(words[at])]
    others = (*env, *(each for at, each in enumerate(words) if at not in arguments))
    return {words[at] for at in arguments if not any(words[at] in each for each in others)}


def looked_up(words: Sequence[str], folders: Sequence[Path]) -> Iterator[LookedUp]:
    """What the package runners among the words of a command and of the scripts that it starts look up.

    Args:
        words: a word may be a whole script.
        folders: the folders where they may start, and those above them that count.
    """
    pieces = (piece for word in words for piece in re.split(r"[\s;&|()'\"`]+", word))
    runners = dict.fromkeys(piece.rpartition("/")[2] for piece in pieces)
    for runner in runners:
        settings, installed = _READ.get(runner, ((), ()))
        for folder in folders:
            yield from (LookedUp(folder, each, False) for each in settings)
            yield from (LookedUp(folder, each, True) for each in installed)
