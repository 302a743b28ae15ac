"""Find the features of a LangChain tool or middleware that Zeus does not support, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from zeus_runtime.errors import OptionsError

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.tools import BaseTool

INSTEAD: Final[Mapping[str, str]] = {
    "SummarizationMiddleware": "summarization",
    "HumanInTheLoopMiddleware": "approve",
    "TodoListMiddleware": "the tool component `todos`",
    "ModelCallLimitMiddleware": "limits.max_steps",
    "FilesystemFileSearchMiddleware": "the tool component `filesystem`",
}
"""LangChain's own middlewares that rewrite or keep state, or open files past the workspace, and what of Zeus does the
same."""

HONOURED_STATE: Final = frozenset({"messages", "jump_to", "structured_response"})


class UnsupportedError(OptionsError):
    """A LangChain component relies on something that Zeus does not have (exit 3)."""

    code = "langchain_unsupported"


def refuse_tool(tool: BaseTool) -> None:
    """Raise for the first feature that Zeus does not support.

    Raises:
        UnsupportedError: the result ends the run, or an argument comes from LangGraph's state or store, or from within
            another argument.
    """
    if tool.return_direct:
        raise UnsupportedError(
            f"the LangChain tool {tool.name!r} has return_direct, which ends a LangChain agent with its result",
            remedy="Drop return_direct: in Zeus the model reads every result.",
        )
    for name, kind in injected(tool).items():
        if kind != "InjectedToolCallId":
            raise UnsupportedError(
                f"the LangChain tool {tool.name!r} wants {name!r} from LangGraph ({kind})",
                remedy="Write it with @tool from zeus_runtime and a parameter `run`, or drop the argument.",
            )
    for name, taken in taken_names(tool).items():
        if not taken:
            raise UnsupportedError(
                f"the LangChain tool {tool.name!r} takes {name!r} from within another argument (AliasPath)",
                remedy="Give the field a name that a call can have, or drop its alias.",
            )


def taken_names(tool: BaseTool) -> Mapping[str, str]:
    """The names by which a tool takes arguments that it does not take by their fields' names; empty for no name."""
    model = tool.args_schema
    config = getattr(model, "model_config", {})
    if config.get("populate_by_name") or config.get("validate_by_name"):
        return {}
    found: dict[str, str] = {}
    for name, field in getattr(model, "model_fields", {}).items():
        alias = field.validation_alias
        if alias is not None:
            choices = getattr(alias, "choices", [alias])
            found[name] = next((each for each in choices if isinstance(each, str)), "")
    return found


def injected(tool: BaseTool) -> Mapping[str, str]:
    """The arguments that do not come from the model, each with the name of its marker."""
    from langchain_core.tools import InjectedToolArg

    function = getattr(tool, "coroutine", None) or getattr(tool, "func", None) or type(tool)._run
    hints = {**_hints(function)}
    if isinstance(tool.args_schema, type):
        hints.update(_hints(tool.args_schema))
    found: dict[str, str] = {}
    for name, hint in hints.items():
        if name == "return":
            continue
        for kind in _kinds(hint):
            directly = any(each.__name__ == "_DirectlyInjectedToolArg" for each in kind.__mro__)
            if issubclass(kind, InjectedToolArg) or directly:
                found[name] = kind.__name__
                break
    return found


def _kinds(hint: Any) -> Iterator[type]:
    """The classes of a type hint: of each alternative and of its annotations."""
    origin = get_origin(hint)
    if origin in (Annotated, Union, UnionType):
        for each in get_args(hint):
            yield from _kinds(each)
    else:
        kind = origin or hint
        yield kind if isinstance(kind, type) else type(kind)


def _hints(thing: Any) -> Mapping[str, Any]:
    try:
        return get_type_hints(thing, include_extras=True)
    except (NameError, TypeError):
        return getattr(thing, "__annotations__", {})


def refuse_middleware(given: AgentMiddleware[Any, Any, Any]) -> None:
    """Raise with every feature that Zeus does not support.

    Raises:
        UnsupportedError: hooks around the agent, its own state, jumps, stream transformers, or no hook at all.
    """
    problems = list(_problems(given))
    if not problems:
        return
    bases = [each.__name__ for each in type(given).__mro__]
    instead = next((INSTEAD[each] for each in bases if each in INSTEAD), None)
    raise UnsupportedError(
        f"the LangChain middleware {given.name!r} cannot run in Zeus: {'; '.join(problems)}",
        remedy=f"Use Zeus's own instead: {instead}."
        if instead
        else "docs/how-to/langchain.md says what is honoured.",
    )


def _problems(given: AgentMiddleware[Any, Any, Any]) -> Iterator[str]:
    if any(each.__name__ == "SummarizationMiddleware" for each in type(given).__mro__):
        yield "it rewrites the history, which is append-only in Zeus"
    if any(each.__name__ == "FilesystemFileSearchMiddleware" for each in type(given).__mro__):
        yield "its tools open files by themselves, past `workspace.access` and the protection of files with keys"
    for hook in ("before_agent", "after_agent"):
        if has(type(given), hook):
            yield f"it has {hook}, and a Zeus run has no such place"
    own = sorted(set(get_type_hints(given.state_schema)) - HONOURED_STATE)
    if own:
        yield f"it keeps state of its own ({', '.join(own)}), and a Zeus checkpoint holds none"
    if given.transformers:
        yield "it registers stream transformers"
    for hook, allowed in (("before_model", {"end"}), ("after_model", set[str]())):
        refused = sorted(jumps(given, hook) - allowed)
        if refused:
            yield f"its {hook} may jump to {', '.join(refused)}"
    if not any(has(type(given), hook) for hook in HOOKS) and not getattr(given, "tools", ()):
        yield f"it has none of {', '.join(HOOKS)} and no tools"


HOOKS: Final = ("wrap_model_call", "wrap_tool_call", "before_model", "after_model")


def has(kind: type[AgentMiddleware[Any, Any, Any]], hook: str) -> bool:
    """Whether a middleware's class overrides a hook, in its sync or its async form."""
    return overrides(kind, hook) or overrides(kind, f"a{hook}")


def overrides(kind: type[AgentMiddleware[Any, Any, Any]], method: str) -> bool:
    """Whether a middleware's class overrides exactly this method."""
    from langchain.agents.middleware import AgentMiddleware

    return getattr(kind, method) is not getattr(AgentMiddleware, method)


def jumps(given: AgentMiddleware[Any, Any, Any], hook: str) -> set[str]:
    """The places that a hook declares it may jump to."""
    return {
        target
        for method in (hook, f"a{hook}")
        for target in getattr(getattr(type(given), method), "__can_jump_to__", ())
    }


def unsupported(given: AgentMiddleware[Any, Any, Any], what: str) -> UnsupportedError:
    """The error for an action during a run that Zeus does not support."""
    return UnsupportedError(
        f"the LangChain middleware {given.name!r} cannot continue: {what}",
        remedy="docs/how-to/langchain.md says what is honoured.",
    )
