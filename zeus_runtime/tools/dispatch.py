"""Calls a tool: checks the arguments against its schema, and turns every outcome into a result for the model."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from zeus_runtime.cutting import cut_text
from zeus_runtime.errors import ZeusError
from zeus_runtime.escaping import json_shown, printable, word
from zeus_runtime.strict_json import json_problem
from zeus_runtime.tools.modes import MODE_TABLE
from zeus_runtime.tools.tool import JSON, Tool, ToolCall, ToolResult, ToolRun

if TYPE_CHECKING:
    from zeus_runtime.tools.pausable_timeout import Clock

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_MAX_PROBLEMS = 10
_MAX_ERROR_CHARACTERS = 2_000
_MAX_DETAIL_CHARACTERS = 200

_FITTED = "_fitted"


def check_tools(tools: Iterable[Tool]) -> list[str]:
    """Return the problems of a set of tools before any call: names, duplicates, categories, schemas."""
    problems: list[str] = []
    names: set[str] = set()
    for tool in tools:
        if not _NAME.match(tool.name):
            problems.append(f"tool {tool.name!r}: a name is 1 to 64 letters, digits, _ or -")
        if tool.name in names:
            problems.append(f"tool {tool.name!r} is there twice; disable one of the components that give it")
        names.add(tool.name)
        if tool.category not in MODE_TABLE:
            problems.append(
                f"tool {tool.name!r}: {tool.category!r} is not a category ({', '.join(MODE_TABLE)})"
            )
        if tool.access not in ("read", "write"):
            problems.append(f"tool {tool.name!r}: access is 'read' or 'write', not {tool.access!r}")
        if tool.parameters.get("type") != "object":
            problems.append(f"tool {tool.name!r}: its parameters are not an object schema")
    return problems


def validate_arguments(tool: Tool, arguments: JSON) -> dict[str, JSON] | str:
    """Convert the arguments to the tool's schema, or return a text for the model that lists every problem.

    Values are converted first (``"5"`` to an integer, JSON text to a list). The schema is compiled once per tool;
    references in it are resolved only within it, never over the network.
    """
    from jsonschema.exceptions import SchemaError
    from referencing.exceptions import Unresolvable

    from zeus_runtime.config.schema.annotations import coerce

    try:
        problems_of = tool.problems_of
        given = coerce(tool.parameters, arguments)
        problems = sorted(
            problems_of(given), key=lambda problem: [str(step) for step in problem.absolute_path]
        )
    except (SchemaError, Unresolvable, KeyError, re.error) as error:
        reason = cut_text(
            printable(getattr(error, "message", "") or f"{type(error).__name__}: {error}"),
            _MAX_DETAIL_CHARACTERS,
        )
        return f"{tool.name} cannot be called: its own schema is broken ({reason}). Tell the user; do not try again."
    except RecursionError:
        return f"The arguments of {tool.name} are nested too deeply for its schema; nothing was done."
    # A text that is read as JSON may be nested once more.
    if (problem := json_problem(given)) is not None:
        return f"The arguments of {tool.name} are not valid JSON: {problem}. Nothing was done."
    if not problems and isinstance(given, dict):
        return given
    lines = [f"- {_explained(problem)}" for problem in problems[:_MAX_PROBLEMS]]
    if len(problems) > _MAX_PROBLEMS:
        lines.append(f"- and {len(problems) - _MAX_PROBLEMS} more")
    return "\n".join(
        [f"The arguments of {tool.name} do not fit; nothing was done.", *lines, _parameters(tool)]
    )


def fitted_arguments(tool: Tool, call: ToolCall) -> dict[str, JSON] | str:
    """``validate_arguments`` for a call, once for all who ask about this call.

    A copy of the call with other arguments is validated anew.
    """
    known: tuple[Tool, dict[str, JSON] | str] | None = call.__dict__.get(_FITTED)
    if known is None or known[0] is not tool:
        known = call.__dict__[_FITTED] = tool, validate_arguments(tool, call.arguments)
    return known[1]


async def invoke(
    tool: Tool, arguments: Mapping[str, JSON], run: ToolRun, clock: Clock | None = None
) -> ToolResult:
    """Return the tool's result for valid arguments; its timeout and its exceptions become error results.

    Args:
        clock: the time limit, which ``run`` pauses while the user is asked.

    Cancellation of the caller propagates. If the tool raises CancelledError by itself, that is a failure like any
    other.
    """
    import asyncio

    from zeus_runtime.tools.pausable_timeout import Clock

    limit = clock or Clock(tool.timeout_seconds)
    try:
        async with limit:
            return _as_result(tool, await _called(tool, arguments, run))
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return ToolResult(f"{tool.name} cancelled itself and gave no result.", is_error=True)
    except TimeoutError as error:
        if limit.expired:
            return ToolResult(
                f"{tool.name} did not finish within {tool.timeout_seconds:g} seconds. "
                "Whether it took effect is unknown: check before you try again.",
                is_error=True,
            )
        return _failed(tool, error)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a tool's failure is a result for the model, it does not end the run
        return _failed(tool, error)


def _called(tool: Tool, arguments: Mapping[str, JSON], run: ToolRun) -> Awaitable[ToolResult | str]:
    # A tool may take values out of its own arguments, and these are what was approved and is stored.
    arguments = deepcopy(dict(arguments))
    if tool.takes_whole:
        return tool.function(arguments, run)
    return tool.function(**{**arguments, **({"run": run} if tool.takes_run else {})})


def _failed(tool: Tool, error: BaseException) -> ToolResult:
    if isinstance(error, ZeusError):
        return ToolResult(str(error), is_error=True)
    message = cut_text(str(error), _MAX_ERROR_CHARACTERS)
    return ToolResult(
        f"{tool.name} failed: {type(error).__name__}{': ' if message else ''}{message}", is_error=True
    )


def _as_result(tool: Tool, value: object) -> ToolResult:
    if isinstance(value, ToolResult):
        content: object = value.content  # a plugin may not be checked for types
        if not isinstance(content, str):
            told = f"{tool.name} returned a {type(content).__name__} as the content, which is not text"
            return ToolResult(told, is_error=True)
        kept = (value.state, value.artifact)
        problem = json_problem(kept, finite=False) if value.state or value.artifact is not None else None
        if problem is not None:
            return ToolResult(f"{tool.name} kept a value that is not JSON: {problem}", is_error=True)
        return value
    if value is None:
        return ToolResult("(no output)")
    if isinstance(value, str):
        return ToolResult(value)
    problem = json_problem(value, finite=False)
    if problem is not None:
        return ToolResult(
            f"{tool.name} returned a {type(value).__name__}, which is not text or JSON: {problem}",
            is_error=True,
        )
    # Whatever is not of JSON itself is a mapping, such as a `UserDict`.
    return ToolResult(json.dumps(value, ensure_ascii=False, default=dict))


def _parameters(tool: Tool) -> str:
    properties: Mapping[str, JSON] = tool.parameters.get("properties", {})
    if not properties:
        return f"{tool.name} takes no arguments."
    required = set(tool.parameters.get("required", ()))
    names = ", ".join(f"{word(name)} (required)" if name in required else word(name) for name in properties)
    return f"Its parameters: {names}."


def _explained(problem: Any) -> str:
    place = _place(problem.absolute_path)
    explain = _EXPLANATIONS.get(problem.validator)
    if explain is not None:
        return explain(problem, place)
    if problem.context:
        best = min(
            problem.context,
            key=lambda child: (
                len(child.absolute_path) == len(problem.absolute_path),
                -len(child.absolute_path),
            ),
        )
        return f"{place or 'the arguments'}: fits none of the allowed forms; closest: {_explained(best)}"
    return f"{place or 'the arguments'}: {cut_text(printable(problem.message), _MAX_DETAIL_CHARACTERS)}"


def _place(path: Iterable[str | int]) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{word(step)}" if text else word(step)
    return text


def _missing_argument(problem: Any, place: str) -> str:
    missing = [word(name) for name in problem.validator_value if name not in problem.instance]
    return f"{place + ': ' if place else ''}missing: {', '.join(missing)}"


def _unknown_argument(problem: Any, place: str) -> str:
    from zeus_runtime.config.messages.diagnostics import did_you_mean

    known = list(problem.schema.get("properties", {}))
    unknown = [name for name in problem.instance if name not in known]
    hints = []
    for name in unknown:
        close = did_you_mean(name, known)
        hints.append(word(name) if close is None else f"{word(name)} (did you mean {word(close)}?)")
    return f"{place + ': ' if place else ''}unknown: {', '.join(hints)}"


def _wrong_type(problem: Any, place: str) -> str:
    wanted = problem.validator_value
    names = " or ".join(map(word, [wanted] if isinstance(wanted, str) else wanted))
    return f"{place or 'the arguments'}: must be {names}, not {_json(problem.instance)}"


def _not_listed(problem: Any, place: str) -> str:
    allowed = ", ".join(map(json_shown, problem.validator_value))
    return f"{place}: must be one of {allowed}, not {_json(problem.instance)}"


_EXPLANATIONS: Mapping[str, Callable[[Any, str], str]] = {
    "required": _missing_argument,
    "additionalProperties": _unknown_argument,
    "type": _wrong_type,
    "enum": _not_listed,
}


def _json(value: JSON) -> str:
    return cut_text(json_shown(value), _MAX_DETAIL_CHARACTERS)
