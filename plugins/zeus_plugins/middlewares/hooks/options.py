"""Options of the middleware `hooks`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Literal

from zeus_runtime.plugin import Destination, Doc, Executes, Minimum, Pattern, dataclass

if TYPE_CHECKING:
    from zeus_plugins.middlewares.hooks.answers import Event
    from zeus_runtime.plugin import Misfit, Surroundings


@dataclass(frozen=True)
class Match:
    """The calls that a hook is started for."""

    tool: Annotated[
        str | tuple[str, ...],
        Doc("A tool's name or pattern (`mcp_*`), or a list of them; it matches one of them."),
    ] = "*"
    path: Annotated[
        str | tuple[str, ...],
        Doc(
            "A pattern for files (`src/**`), or a list: the call has an argument with a path that matches one of them,"
            " also through links. []: any call."
        ),
    ] = ()

    @property
    def tools(self) -> tuple[str, ...]:
        """The patterns for tools."""
        return (self.tool,) if isinstance(self.tool, str) else tuple(self.tool)

    @property
    def paths(self) -> tuple[str, ...]:
        """The patterns for paths."""
        return (self.path,) if isinstance(self.path, str) else tuple(self.path)


@dataclass(frozen=True)
class Hook:
    """A program that Zeus starts, or an address that it calls."""

    command: Annotated[
        tuple[str, ...],
        Executes(command=True),
        Doc(
            "The program and its arguments. It starts in the working directory, gets JSON on its standard input, and"
            " may write JSON to its standard output."
        ),
    ] = ()
    url: Annotated[
        str | None,
        Destination(),
        Pattern(r"^https?://[^/\s]"),
        Doc(
            "Instead of a command, the address that the JSON is sent to (POST); its answer is JSON or empty."
        ),
    ] = None
    headers: Annotated[Mapping[str, str], Doc("Headers for `url`, such as Authorization.")] = field(
        default_factory=dict
    )
    timeout_seconds: Annotated[
        float,
        Doc("Its time limit in seconds; then the program and its process group are killed."),
        Minimum(0.01),
    ] = 10.0
    on_failure: Annotated[
        Literal["deny", "continue"],
        Doc(
            "If it crashes, exceeds its time limit or answers something else than it may: deny the call or the run"
            " (after a tool call: withhold the result), or continue without it."
        ),
    ] = "deny"

    @property
    def shown(self) -> str:
        """The command, or the address without its login and query, as text."""
        import shlex

        from zeus_runtime.plugin import cut_address

        return shlex.join(self.command) if self.url is None else cut_address(self.url)

    @property
    def identity(self) -> str:
        """As ``shown``, but the same whatever secrets the process knows: for the digest of a noted answer."""
        return self.shown if self.url is None else self.url.partition("?")[0].rpartition("@")[2]

    @property
    def which(self) -> str:
        """The calls that it is started for, as text; empty for all."""
        return ""


@dataclass(frozen=True)
class ToolHook(Hook):
    """A hook for tool calls."""

    match: Annotated[Match, Doc("The calls that it is started for; without it, all.")] = field(
        default_factory=Match
    )

    @property
    def which(self) -> str:
        return " ".join((", ".join(self.match.tools), *self.match.paths))


@dataclass(frozen=True)
class Options:
    """Hooks run in the order of the lines."""

    before_run: Annotated[
        tuple[Hook, ...],
        Doc("Started when a run begins. They may deny it, and add text to the system prompt of its calls."),
    ] = ()
    before_model_call: Annotated[
        tuple[Hook, ...],
        Doc("Started before each model call. They may deny it, and add text to the end of its request."),
    ] = ()
    after_model_call: Annotated[
        tuple[Hook, ...], Doc("Started after each model call. They may deny its answer, which ends the run.")
    ] = ()
    before_tool_call: Annotated[
        tuple[ToolHook, ...],
        Doc("Started before a call. They may deny it, change its arguments, and add text to its result."),
    ] = ()
    after_tool_call: Annotated[
        tuple[ToolHook, ...],
        Doc("Started after a call. They may withhold its result, replace its text, and add text to it."),
    ] = ()
    after_run: Annotated[
        tuple[Hook, ...],
        Doc("Started when a run has its answer. They may deny it: the run ends with an error."),
    ] = ()

    def described(self) -> Iterator[str]:
        """Yield a line for each hook, in the order in which they run."""
        for event, hooks in self.by_event().items():
            for hook in hooks:
                which = f" {hook.which}:" if hook.which else ""
                failed = "denies" if hook.on_failure == "deny" else "continues"
                yield f"{event}:{which} {hook.shown} (at most {hook.timeout_seconds:g} s; a failure {failed})"

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Report a line without any hook, unknown tools, and patterns that match nothing."""
        from zeus_plugins.middlewares.hooks.matching import unsound
        from zeus_runtime.plugin import Misfit

        if not any(self.by_event().values()):
            yield Misfit(
                (), "there is no hook", "add one below `before_tool_call`, or remove this line", "no-effect"
            )
        for event, hooks in self.by_event().items():
            for index, hook in enumerate(hooks):
                at = (event, index)
                if bool(hook.command) == (hook.url is not None):
                    said = "has both `command` and `url`" if hook.command else "has no `command` and no `url`"
                    yield Misfit(at, f"this hook {said}", "write one of the two")
                if hook.command and not hook.command[0]:
                    yield Misfit((*at, "command", 0), "the program's name is empty")
                if hook.headers and hook.url is None:
                    yield Misfit((*at, "headers"), "headers have no effect without `url`", None, "no-effect")
                if isinstance(hook, ToolHook):
                    yield from unsound(hook.match, around, (*at, "match"))

    def by_event(self) -> Mapping[Event, tuple[Hook, ...]]:
        """Return the hooks of each event, in the order of the events in a run."""
        return {
            "before_run": tuple(self.before_run),
            "before_model_call": tuple(self.before_model_call),
            "after_model_call": tuple(self.after_model_call),
            "before_tool_call": tuple(self.before_tool_call),
            "after_tool_call": tuple(self.after_tool_call),
            "after_run": tuple(self.after_run),
        }
