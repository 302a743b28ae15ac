"""Sections 1 to 6: the files of a mode with their variables filled in. The same bytes at every call of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from zeus_runtime.prompt.files import FILES, Position, PromptFile, prompt_files
from zeus_runtime.prompt.instructions import with_instructions
from zeus_runtime.prompt.sections import Section
from zeus_runtime.prompt.tool_list import tools_description
from zeus_runtime.prompt.variables import Use, names, substitute, uses

if TYPE_CHECKING:
    from zeus_runtime.config.messages.diagnostics import Diagnostic
    from zeus_runtime.config.model import Mode, Prompt
    from zeus_runtime.tools.modes import ShownTool

VARIABLES: Final = ("agent_name", "mode", "tools_description", "workspace")
"""The names that every prompt file may use, besides those of ``prompt.variables``."""


CODES: Final = (
    "bad-braces",
    "file-not-found",
    "not-utf8",
    "reserved-variable",
    "unknown-key",
    "unknown-timezone",
    "unknown-variable",
    "unreadable-file",
    "unused-variable",
)
"""The problems that ``check_prompt`` reports, each explained in docs/how-to/prompts.md."""


def stable_sections(
    prompt: Prompt,
    *,
    mode: Mode,
    agent_name: str,
    workspace: str,
    tools: Sequence[ShownTool],
    homes: Sequence[Path],
    instructions: str = "",
    position: Position = lambda path: None,
) -> dict[Section, str]:
    """The texts of sections 1 to 6.

    Args:
        prompt: the config's ``prompt``.
        workspace: the value of ``{{workspace}}``.
        tools: the tools that the mode shows (``visible``), in the model's order.
        homes: Home folders, nearest first.
        instructions: the config's own, added unchanged to the end of section 1.
        position: returns the position of a config value, for errors.

    Raises:
        ConfigError: every problem that ``check_prompt`` finds.
    """
    read: dict[tuple[Section, str], PromptFile] = {}
    problems = check_prompt(prompt, homes=homes, position=position, read=read)
    if problems:
        from zeus_runtime.config.messages.diagnostics import ConfigError

        raise ConfigError(problems)
    files = prompt_files(mode, homes=homes, overrides=_overrides(prompt), position=position, known=read)
    values = {
        **prompt.variables,
        "agent_name": agent_name,
        "mode": mode,
        "tools_description": tools_description(tools, prompt.tools_description),
        "workspace": workspace,
    }
    made = {section: substitute(file.text, values) for section, file in files.items()}
    # After the substitution: braces in the instructions are plain text.
    return {**made, Section.CORE: with_instructions(made[Section.CORE], instructions)}


def check_prompt(
    prompt: Prompt,
    *,
    homes: Sequence[Path],
    position: Position = lambda path: None,
    read: dict[tuple[Section, str], PromptFile] | None = None,
) -> list[Diagnostic]:
    """The problems with the prompt's files, variables and time zone, by ``CODES``.

    All modes are checked, not only the one that runs, so that a switch of mode finds no error.

    Args:
        read: gets the files that are read, as ``prompt_files`` takes them.
    """
    files, problems = _all_files(prompt, homes, position, {} if read is None else read)
    known = {*VARIABLES, *prompt.variables}
    # With a file missing, a variable that only it uses would be reported as unused.
    if not problems:
        used = names(file.text for file in files.values())
        problems.extend(_useless_variables(prompt, used, position))
    for file in files.values():
        problems.extend(_misused(file, use, known) for use in uses(file.text) if use.name not in known)
    problems.extend(_zone_problems(prompt, position))
    return problems


def _all_files(
    prompt: Prompt, homes: Sequence[Path], position: Position, read: dict[tuple[Section, str], PromptFile]
) -> tuple[Mapping[Path, PromptFile], list[Diagnostic]]:
    from zeus_runtime.config.messages.diagnostics import ConfigError, Diagnostic
    from zeus_runtime.config.model import Mode

    files: dict[Path, PromptFile] = {}
    problems: dict[Diagnostic, None] = {}
    for mode in get_args(Mode):
        try:
            found = prompt_files(
                mode, homes=homes, overrides=_overrides(prompt), position=position, known=read
            )
        except ConfigError as error:
            problems.update(dict.fromkeys(error.diagnostics))
        else:
            files.update({file.path: file for file in found.values()})
    for name in sorted(set(_overrides(prompt)) - {str(section) for section in FILES}):
        key = ("prompt", "files", name)
        hint = f"the sections with files are {', '.join(FILES)}"
        problems[
            Diagnostic("unknown-key", f"no section {name!r} has a file", key, position(key), hint=hint)
        ] = None
    return files, list(problems)


def _overrides(prompt: Prompt) -> dict[str, str]:
    return {str(section): path for section, path in prompt.files.items()}


def _misused(file: PromptFile, use: Use, known: set[str]) -> Diagnostic:
    from zeus_runtime.config.messages.diagnostics import Diagnostic, listing, suggestion
    from zeus_runtime.config.yaml.tree import Mark

    if use.name is None:
        code, message = "bad-braces", f"{use.written!r} is not {{{{name}}}}, the only substitution there is"
        hint = "write a plain {{name}}, or \\{{ for literal braces"
    else:
        code, message = (
            "unknown-variable",
            f"{{{{{use.name}}}}} has no value{suggestion(use.name, sorted(known))}",
        )
        hint = (
            f"add it to prompt.variables, or write \\{{{{ for literal braces; known: {listing(sorted(known))}"
        )
    return Diagnostic(
        code,
        message,
        ("prompt", "files", str(file.section)),
        Mark(str(file.path), use.line, use.column),
        file.text.split("\n")[use.line - 1],
        len(use.written),
        hint=hint,
    )


def _useless_variables(prompt: Prompt, used: frozenset[str], position: Position) -> list[Diagnostic]:
    from zeus_runtime.config.messages.diagnostics import Diagnostic, suggestion

    problems = []
    for name in prompt.variables:
        key = ("prompt", "variables", name)
        if name in VARIABLES:
            message, hint = f"{name!r} is filled by Zeus and cannot be set", "choose another name"
            problems.append(Diagnostic("reserved-variable", message, key, position(key), hint=hint))
        elif name not in used:
            message = (
                f"no prompt file of any mode uses {{{{{name}}}}}{suggestion(name, sorted(used - {name}))}"
            )
            hint = "use it in a prompt file, or remove it"
            problems.append(Diagnostic("unused-variable", message, key, position(key), hint=hint))
    return problems


def _zone_problems(prompt: Prompt, position: Position) -> list[Diagnostic]:
    if prompt.time.timezone in ("local", "UTC"):
        return []
    from zeus_runtime.config.messages.diagnostics import Diagnostic
    from zeus_runtime.prompt.clock import UnknownZoneError, zone

    key = ("prompt", "time", "timezone")
    try:
        zone(prompt.time.timezone)
    except UnknownZoneError as error:
        return [Diagnostic(error.code, error.message, key, position(key), hint=error.remedy)]
    return []
