"""The files of sections 1 to 6 in each mode, and their search in the Homes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from zeus_runtime.prompt.sections import Section

if TYPE_CHECKING:
    from zeus_runtime.config.messages.diagnostics import Diagnostic
    from zeus_runtime.config.model import Mode
    from zeus_runtime.config.yaml.tree import Mark

Position: TypeAlias = "Callable[[tuple[str | int, ...]], Mark | None]"
"""Returns the position of a value in the config, by its path of keys."""


def _row(agent: str, ask: str, plan: str) -> Mapping[Mode, str]:
    return {"agent": agent, "ask": ask, "plan": plan}


FILES: Mapping[Section, Mapping[Mode, str]] = {
    Section.CORE: _row("CORE.md", "CORE.md", "CORE.md"),
    Section.SOUL: _row("SOUL.md", "SOUL.md", "SOUL.md"),
    Section.TOOLS: _row("TOOLS.md", "TOOLS.md", "TOOLS.md"),
    Section.WORKFLOW: _row("WORKFLOW.md", "WORKFLOW_SIMPLE.md", "WORKFLOW_PLAN.md"),
    Section.MEMORY: _row("MEMORY.md", "MEMORY_SIMPLE.md", "MEMORY_SIMPLE.md"),
    Section.MODE: _row("agent_mode.md", "ask_mode.md", "plan_mode.md"),
}
"""File names in a Home's ``prompts/``, by section and mode (SPEC sections 2 and 3)."""


class PromptFile(NamedTuple):
    """A prompt file's content: UTF-8 without its BOM, with lines ended by ``\\n``."""

    section: Section
    path: Path
    text: str


def prompt_files(
    mode: Mode,
    *,
    homes: Sequence[Path],
    overrides: Mapping[str, str],
    position: Position = lambda path: None,
    known: dict[tuple[Section, str], PromptFile] | None = None,
) -> dict[Section, PromptFile]:
    """The files of sections 1 to 6 in ``mode``: those that the config names, else the nearest Home's.

    An empty file leaves its section out.

    Args:
        homes: Home folders, nearest first.
        overrides: paths by section name (``prompt.files`` in the config), for every mode.
        position: returns the position in the config, for errors.
        known: the files that were read for other modes, by section and name; those of this mode are added.

    Raises:
        ConfigError: files are missing, cannot be read or are not UTF-8; all of them are reported.
    """
    from zeus_runtime.config.messages.diagnostics import ConfigError, Diagnostic

    found: dict[Section, PromptFile] = {}
    problems: list[Diagnostic] = []
    known = {} if known is None else known
    for section, names in FILES.items():
        key = section, names[mode]
        try:
            if key not in known:
                path = _locate(*key, homes, overrides)
                known[key] = PromptFile(section, path, read_text(path))
            found[section] = known[key]
        except UnusableFileError as reason:
            place = ("prompt", "files", str(section))
            written = position(place) if section in overrides else None
            problems.append(Diagnostic(reason.code, reason.message, place, written, hint=reason.hint))
    if problems:
        raise ConfigError(problems)
    return found


class UnusableFileError(Exception):
    """A text file that cannot be part of a prompt: the diagnostic's code, message and hint."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


def _locate(section: Section, name: str, homes: Sequence[Path], overrides: Mapping[str, str]) -> Path:
    from zeus_runtime.registry.home import find

    if section in overrides:
        return Path(overrides[section])
    path = find(homes, "prompts", name)
    if path is None:
        looked = ", ".join(str(home / "prompts") for home in homes) or "nowhere: there is no Home"
        raise UnusableFileError(
            "file-not-found",
            f"no Home has the prompt file {name}",
            f"looked in {looked}; reinstall zeus-runtime",
        )
    return path


def read_text(path: Path, *, called: str = "prompt file", key: str = "prompt.files") -> str:
    """The text of a file that the config names.

    Args:
        called: the file's role, as messages name it.
        key: the config's key that names it, for the remedy.

    Raises:
        UnusableFileError: it is missing, is not a regular file, cannot be read or is not UTF-8.
    """
    try:
        # A pipe would block the read for ever; a folder fails below with its own message.
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise UnusableFileError(
                "unreadable-file", f"the {called} {path} is not a regular file", "name a readable text file"
            )
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UnusableFileError(
            "file-not-found", f"the {called} {path} does not exist", f"create it, or correct {key}"
        ) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UnusableFileError(
            "not-utf8", f"the {called} {path} is not UTF-8 in line {line}", "save it as UTF-8"
        ) from None
    except OSError as error:
        raise UnusableFileError(
            "unreadable-file",
            f"the {called} {path} cannot be read: {error.strerror}",
            "name a readable text file",
        ) from None
