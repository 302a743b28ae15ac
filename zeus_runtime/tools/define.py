"""Tools from functions: the schema comes from the signature and docstring, sync functions run in a thread."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from types import MethodType
from typing import TYPE_CHECKING, Any, get_args, overload

from zeus_runtime.tools.tool import JSON, Access, Category, Tool

if TYPE_CHECKING:
    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.tools.preview import Preview


@overload
def tool(fn: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    fn: None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, JSON] | None = None,
    category: Category = "custom",
    access: Access = "write",
    paths: Iterable[str] = (),
    commands: Iterable[str] = (),
    replayable_arguments: Iterable[str] = (),
    replayable_result: bool = False,
    timeout_seconds: float | None = None,
    preview: Callable[..., Preview | Awaitable[Preview]] | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, JSON] | None = None,
    category: Category = "custom",
    access: Access = "write",
    paths: Iterable[str] = (),
    commands: Iterable[str] = (),
    replayable_arguments: Iterable[str] = (),
    replayable_result: bool = False,
    timeout_seconds: float | None = None,
    preview: Callable[..., Preview | Awaitable[Preview]] | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """A Tool from a function, as ``tool(fn)``, ``@tool`` or ``@tool(access="read", ...)``.

    The name is the function's, the description its docstring, the parameters its signature with the docstring's
    ``Args:``. A parameter named ``run`` receives the ToolRun and is not shown to the model. A synchronous function runs
    in a new thread. Arguments are converted to the annotated types (dataclasses and pydantic models are built).

    Args:
        fn: sync or async; returns text, a ToolResult, None or JSON.
        name: the tool's name, instead of the function's.
        description: the text for the model, instead of the docstring.
        parameters: an object schema, instead of the signature's; the function then receives plain JSON.
        category: its row in the mode table.
        access: ``read`` if it changes nothing outside the thread.
        paths: names of arguments that are workspace paths, for rules; the tool opens them exactly as they are written.
        commands: names of arguments with command lines for a shell, or with the words of one command, for rules.
        replayable_arguments: names of large arguments that can be read again elsewhere.
        replayable_result: the same call fetches the same result again.
        timeout_seconds: how long one call may take; a sync function's thread cannot be stopped, only left behind.
        preview: sync or async, with the function's parameters except ``run``; returns the change that a call would
            make, with the texts as they are: Zeus masks them. A parameter named ``secrets`` receives the known secrets,
            which the model sees masked, to compute what the call would write; one named ``session`` receives the id of
            the session that calls.

    Raises:
        TypeError: the signature or one of these arguments cannot make a tool.
    """

    def define(given: Callable[..., Any]) -> Tool:
        from zeus_runtime.config.schema.annotations import schema_of_function

        function: Callable[..., Any] = given
        if not inspect.isroutine(given):
            function = MethodType(type(given).__call__, given)
        signature = inspect.signature(function)
        named = name if name is not None else str(getattr(given, "__name__", type(given).__name__))
        described, derived = (
            ("", {}) if description and parameters else schema_of_function(function, skip=("run",))
        )
        schema = parameters if parameters is not None else derived
        named_arguments = {"paths": paths, "commands": commands, "replayable_arguments": replayable_arguments}
        for option, listed in named_arguments.items():
            if unknown := sorted(set(listed) - set(schema.get("properties", {}))):
                raise TypeError(f"tool {named!r}: {option} names no parameter: {', '.join(unknown)}")
        if not (description or described):
            raise TypeError(f"tool {named!r} has no description: give its function a docstring")
        return Tool(
            name=named,
            description=description or described,
            parameters=schema,
            function=_asynchronous(function, typed=parameters is None),
            category=category,
            access=access,
            paths=frozenset(paths),
            commands=frozenset(commands),
            replayable_arguments=frozenset(replayable_arguments),
            replayable_result=replayable_result,
            takes_run="run" in signature.parameters,
            timeout_seconds=timeout_seconds,
            computed=_computed(function) if parameters is None else frozenset(),
            preview=None
            if preview is None
            else _previewing(preview, set(schema.get("properties", {})), typed=parameters is None),
        )

    return define if fn is None else define(fn)


def _computed(function: Callable[..., Any]) -> frozenset[str]:
    """The fields of pydantic models among the parameters whose value a call may leave to the model."""
    from zeus_runtime.config.schema.forms import hints_of, is_pydantic
    from zeus_runtime.config.schema.model_names import computed_names

    left, names = list(hints_of(function).values()), frozenset[str]()
    while left:
        each = left.pop()
        left += get_args(each)
        if is_pydantic(each):
            names |= computed_names(each)
    return names


def _previewing(
    preview: Callable[..., Preview | Awaitable[Preview]], own: AbstractSet[str], *, typed: bool
) -> Callable[[Mapping[str, JSON], Redactor, str], Awaitable[Preview]]:
    call = _asynchronous(preview, typed=typed)
    # An argument of the tool that has one of these names comes first.
    takes = ({"secrets", "session"} - own) & inspect.signature(preview).parameters.keys()

    async def previewed(arguments: Mapping[str, JSON], secrets: Redactor, session: str) -> Preview:
        given = {"secrets": secrets, "session": session}
        told: Preview = await call(**{**arguments, **{name: given[name] for name in takes}})
        return told

    return previewed


def _asynchronous(function: Callable[..., Any], *, typed: bool) -> Callable[..., Awaitable[Any]]:
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError(f"{function.__name__} is a generator; a tool returns its result")
    convert = _converter(function) if typed else dict
    if inspect.iscoroutinefunction(function):

        async def call_async(**arguments: Any) -> Any:
            return await function(**convert(arguments))

        return call_async

    async def call_sync(**arguments: Any) -> Any:
        from zeus_runtime.tools.worker_threads import in_thread

        return await in_thread(function, **convert(arguments))

    return call_sync


def _converter(function: Callable[..., Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return a function that converts arguments to the annotated types, which are looked up at the first call."""
    hints: dict[str, Any] = {}

    def convert(arguments: Mapping[str, Any]) -> dict[str, Any]:
        from typing import get_type_hints

        from zeus_runtime.config.schema.annotations import build

        if not hints and arguments:
            hints.update(get_type_hints(function, include_extras=True))
        return {
            key: build(hints[key], value) if key not in ("run", "secrets") and key in hints else value
            for key, value in arguments.items()
        }

    return convert
