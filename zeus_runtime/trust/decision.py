"""Whether a part of a config may be executed: recorded for this user, or allowed by the one who starts the process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zeus_runtime.command_lines import completing
from zeus_runtime.disk_paths import is_folder, is_in, state_folder
from zeus_runtime.errors import MissingError, UsageError
from zeus_runtime.escaping import shell_line
from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.trust.parts import Part

VARIABLE: Final = "ZEUS_TRUST"
ALL: Final = "all"


class UntrustedError(MissingError):
    """A config needs parts that its user has not allowed (exit 4).

    Args:
        parts: the parts that are not allowed.
    """

    code = "untrusted"

    def __init__(self, message: str, parts: Sequence[Part], *, remedy: str, where: str | None = None) -> None:
        super().__init__(message, remedy=remedy, where=where)
        self.parts = tuple(parts)


@dataclass(frozen=True)
class Trust:
    """The parts that one config may execute.

    Args:
        given: permissions given at process start: digests, absolute paths of configs, or ``all``.
        records: the folder with the user's permissions.
        paths: the configs that were given by their paths, whatever their text; they stay the same in
            ``for_other_text``.
        file: the outermost config, as an absolute path; permissions are recorded for it.
        folder: the folder where that config was named, with links resolved; the target of a link may be elsewhere.
        named: the path as it was named, with the folder's links resolved.
        words: the config as a command line names it.
        homes: the user's Homes.
        own_homes: those whose files are trusted: they do not lie in the project, so they did not come with it.
        bundled: the folders of presets and prompts that come with Zeus.
        variables: the names of the variables that the config gets with the same value as the process.
        work: the folders that tools of this agent and of its sub-agents work in; empty until the config is checked.
        digests: those that were given at process start.
        environ: the environment that the config is read with, without its ``.env``.
        inside: the files and folders, with links resolved, that a text which a caller brings may name as layers: its
            errors quote them, and the caller reads these. None: a layer may lie anywhere, and asks once it is read.
    """

    given: frozenset[str]
    records: Path | None
    paths: tuple[Path, ...] = ()
    file: str = ""
    folder: str = ""
    named: str = ""
    words: tuple[str, ...] = ()
    homes: tuple[Path, ...] = ()
    own_homes: tuple[Path, ...] = ()
    bundled: tuple[Path, ...] = ()
    variables: frozenset[str] = frozenset()
    work: tuple[Path, ...] = ()
    digests: frozenset[str] = frozenset()
    environ: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    inside: tuple[Path, ...] | None = None

    @cached_property
    def secrets(self) -> Redactor:
        """The secrets of the environment, which are not the config's own."""
        from zeus_runtime.config.secrets.masking import secrets_of_environment

        return secrets_of_environment(self.environ)

    def is_own(self, file: Path) -> bool:
        """Whether a file or folder belongs to the user or comes with Zeus."""
        return _is_in(file, (*self.own_homes, *self.bundled))

    def is_of_home(self, file: Path) -> bool:
        """Whether a file or folder lies in a Home of the user or comes with Zeus; it may have come with the project."""
        return _is_in(file, (*self.homes, *self.bundled))

    def allows(self, part: Part) -> bool:
        """Whether a part may be executed."""
        if part.own or ALL in self.given or part.digest in self.given or self._is_given():
            return True
        if self.records is None:
            return False
        from zeus_runtime.trust.records import is_recorded

        return is_recorded(self.records, self.file, part.digest)

    def allows_by_digest(self, part: Part) -> bool:
        """Whether only a digest that was given at process start allows a part."""
        return part.digest in self.digests and ALL not in self.given and not self._is_given()

    def _is_given(self) -> bool:
        """Whether a given path names this config.

        Overlays, ``.env`` and presets come from the folder where a config is named. So a link elsewhere to a config
        that was given is another config.
        """
        if self.named in self.given:
            return True
        return self.file in self.given and str(Path(self.file).parent) == self.folder

    def for_other_text(self, parts: Sequence[Part]) -> Trust:
        """The permissions for another text in place of the config, which others than its writers may bring.

        A given path allows what the config at that path needs, so of it only these parts stay allowed.

        Args:
            parts: those of the config itself.
        """
        from dataclasses import replace

        given = {each for each in self.given if each == ALL or _is_digest(each)}
        return replace(self, given=frozenset(given | {each.digest for each in parts if self.allows(each)}))

    def require(self, parts: Sequence[Part]) -> None:
        """Raise unless all parts may be executed.

        Raises:
            UntrustedError: with the parts that may not.
        """
        missing = [part for part in parts if not self.allows(part)]
        if missing:
            raise self.refusal(missing)

    def refusal(self, missing: Sequence[Part], consequence: str = "") -> UntrustedError:
        """The error for parts that are not allowed.

        Args:
            consequence: the work that was skipped because of it, such as ``so its components were not checked``.
        """
        named = ", ".join(map(str, missing[:_FEW])) + (" and others" if len(missing) > _FEW else "")
        is_one = len(missing) == 1
        return UntrustedError(
            f"{named} {'is' if is_one else 'are'} not trusted{f', {consequence}' if consequence else ''}",
            missing,
            remedy=self.remedy + self._database_remedy(missing),
            where=missing[0].where or None,
        )

    def _database_remedy(self, missing: Sequence[Part]) -> str:
        return _DATABASE if self.digests and any(part.kind == "database" for part in missing) else ""

    @property
    def command(self) -> str:
        """The command that shows and allows the config's parts."""
        return shell_line("zeus", "trust", *self.words)

    @property
    def remedy(self) -> str:
        """How to allow the config's parts."""
        return (
            f"look at what it needs and allow it: `{self.command}`{completing(self.words)}"
            f" (in a container: {VARIABLE}, see docs/explanation/trust.md)"
        )


def _is_in(file: Path, folders: Sequence[Path]) -> bool:
    real = str(file.resolve())
    return any(is_in(real, str(each)) for each in folders)


_FEW: Final = 3
_DATABASE: Final = (
    f"; a digest in {VARIABLE} allows a database as it was printed, until Zeus first opens it: print it anew, or name"
    f" the config by its path in {VARIABLE}"
)


def recorded_trust(environ: Mapping[str, str], given: str | None = None) -> Trust:
    """The permissions of a process's user, not yet bound to a config.

    Args:
        environ: the environment of the process itself, never merged with a ``.env``: ``ZEUS_TRUST``, and
            ``XDG_STATE_HOME`` or ``HOME``, which locate the record.
        given: additional permissions, in the syntax of ``ZEUS_TRUST``.

    Raises:
        UsageError: an entry is neither a digest nor the absolute path of a file nor ``all``.
    """
    entries = [*_entries(environ.get(VARIABLE, ""), VARIABLE), *_entries(given or "", "trust")]
    paths = tuple(Path(each) for each in dict.fromkeys(entries) if each != ALL and not _is_digest(each))
    digests = frozenset(filter(_is_digest, entries))
    return Trust(frozenset(entries), records_folder(environ), paths, digests=digests)


def name_in_record(path: Path | None, source: str, directory: Path) -> str:
    """A config as its permissions are recorded for it: its file, with links resolved.

    Args:
        path: None for a text without a file, as from standard input.
        source: names such a text; it counts for one working directory.
        directory: the working directory.
    """
    return str(directory / source if path is None else path.resolve())


def records_folder(environ: Mapping[str, str]) -> Path | None:
    """The folder with the user's permissions; None for a process without a home."""
    state = state_folder(environ)
    return None if state is None else state / "trust"


def _is_digest(text: str) -> bool:
    scheme, _, digits = text.partition(":")
    return scheme == "sha256" and len(digits) == 64 and not set(digits) - set("0123456789abcdef")


def _entries(text: str, name: str) -> list[str]:
    found = [each.strip() for each in text.split(",") if each.strip()]
    targets: list[str] = []
    for index, each in enumerate(found):
        if each == ALL or _is_digest(each):
            continue
        if not Path(each).is_absolute():
            raise UsageError(
                f"{name} has {each!r}, which is neither a digest nor an absolute path",
                remedy=f"`zeus trust --print FILE` prints the value; {name}={ALL} allows everything",
            )
        # As it is named, and its target: a config may be a link, as in a mounted volume of Kubernetes.
        path = Path(each)
        if is_folder(path):
            raise UsageError(
                f"{name} has {each!r}, which is a folder and allows nothing",
                remedy=f"name the config itself, such as {str(path / 'zeus.yaml')!r}",
            )
        found[index] = str(path.parent.resolve() / path.name)
        targets.append(str(path.resolve()))
    return [*found, *targets]
