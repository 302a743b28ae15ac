"""The files that settings of Git name: further settings, logins and cookies."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from zeus_runtime.config.secrets.running_text import shell_words
from zeus_runtime.disk_paths import expanded, home_folder, is_file, is_file_name, plain_path

_Variable: TypeAlias = Literal["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"]
_Setting: TypeAlias = Literal["include.path", "credential.helper", "http.cookieFile"] | _Variable
_MOST_BYTES: Final = 1_000_000
_MOST_FILES: Final = 100
_SETTING: Final = (
    r'\[([\w-]+)[\w.-]*(?:[ \t]+"(?:[^"\\\n]|\\.)*")?[ \t]*\]'
    r"|[#;][^\n]*"
    r'|(?<![\w-])([A-Za-z][\w-]*)[ \t]*=[ \t]*((?:"(?:[^"\\\n]|\\[\s\S])*"|\\[\s\S]|[^"\\\n#;])*)'
)
"""A section, a comment, which may look like a setting, or a setting."""
_STORE: Final = r"(?:.*/)?(?:(?:git-)?credential-)?store"


class GitFile(NamedTuple):
    """A file that a setting or a variable names, there or not."""

    path: Path
    setting: _Setting

    @property
    def has_settings(self) -> bool:
        """Whether it is one of further settings."""
        return self.setting == "include.path" or self.setting in get_args(_Variable)


def git_files(configs: Iterable[Path], folder: Path, environ: Mapping[str, str]) -> Iterator[GitFile]:
    """The files that files of settings name, also through further settings, each once, and those that variables name
    in place of ``~/.gitconfig`` and of the machine's settings.

    The condition of an ``includeIf`` does not count, since it may be true in another folder or branch.

    Args:
        folder: the base of relative places of logins and cookies: where Git starts programs.
        environ: the process environment, with ``HOME``.
    """
    waiting = deque(configs)
    seen = set(waiting)
    most = len(seen) + _MOST_FILES
    named: Iterable[GitFile] = _named_by(environ, folder)
    while True:
        for found in named:
            if found.path not in seen and len(seen) < most:
                seen.add(found.path)
                yield found
                if found.has_settings:
                    waiting.append(found.path)
        if not waiting:
            return
        named = _named_in(waiting.popleft(), folder, environ)


def _named_by(environ: Mapping[str, str], folder: Path) -> Iterator[GitFile]:
    for variable in get_args(_Variable):
        if value := environ.get(variable):
            yield _at(folder, value, variable)


def _named_in(file: Path, folder: Path, environ: Mapping[str, str]) -> Iterator[GitFile]:
    for section, key, value in _settings(beginning_of(file)):
        if not is_file_name(value):
            continue
        if section in ("include", "includeif") and key == "path":
            yield _at(file.parent, value, "include.path")
        elif (section, key) == ("http", "cookiefile"):
            yield _at(folder, value, "http.cookieFile")
        elif (section, key) == ("credential", "helper"):
            for each in _files_of_helper(value, environ):
                yield _at(folder, each, "credential.helper")


def _at(folder: Path, named: str | Path, setting: _Setting) -> GitFile:
    return GitFile(Path(plain_path(folder / expanded(named))), setting)


def _files_of_helper(value: str, environ: Mapping[str, str]) -> Iterator[str | Path]:
    """The files of ``store``, also of ``!git credential-store`` and of its whole path."""
    words = shell_words(value)
    if not any(re.fullmatch(_STORE, each) for each in words):
        return
    given = [after for word, after in pairwise(words) if word == "--file"]
    given += [each.removeprefix("--file=") for each in words if each.startswith("--file=")]
    yield from given
    home = home_folder(environ)
    if not given and home is not None:
        yield home / ".git-credentials"
        yield Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "git" / "credentials"


def _settings(text: str) -> Iterator[tuple[str, str, str]]:
    """Each setting's section and key in small letters, and its value."""
    section = ""
    for found in re.finditer(_SETTING, text):
        if found[1]:
            section = found[1].lower()
        elif found[2]:
            # Git continues a line behind `\`.
            value = re.sub(r'\\\n|\\(.)|"', r"\1", found[3].strip())
            yield section, found[2].lower(), value


def beginning_of(file: Path) -> str:
    """The first million bytes of a file as text; empty if it cannot be read: then no tool of this process reads it."""
    try:
        if not is_file(file):
            return ""
        with file.open("rb") as stream:
            return stream.read(_MOST_BYTES).decode("utf-8", "replace").replace("\r\n", "\n")
    except OSError:
        return ""
