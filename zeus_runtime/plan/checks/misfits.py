"""Checks of a component's options that a schema cannot express: against the model, the tools and each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from zeus_runtime.config.messages.diagnostics import did_you_mean
from zeus_runtime.errors import OptionsError
from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from zeus_runtime.config import Config, Diagnostic
    from zeus_runtime.context.size import Size
    from zeus_runtime.middleware.contexts import PlanContext
    from zeus_runtime.models.profiles import ModelProfile
    from zeus_runtime.plan.components import PlannedComponent
    from zeus_runtime.plan.tools import PlannedTools
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.tools import Tool


@dataclass(frozen=True)
class Misfit:
    """A problem with a component's options.

    Args:
        path: its path in the options: ``("exclude", 2)``.
        message: what is wrong.
        hint: what to do.
        code: the diagnostic's code.
        severity: a ``warning`` lets the agent run.
    """

    path: tuple[str | int, ...]
    message: str
    hint: str | None = None
    code: str = "misfit"
    severity: Literal["error", "warning"] = "error"


@dataclass(frozen=True)
class Surroundings:
    """The facts that options are checked against.

    Args:
        profile: the model's limits and prices.
        tools: every tool of the agent, by name.
        written: the options as the YAML has them, without defaults.
        directory: the working directory, where relative paths start.
        homes: the Home folders, nearest first.
        memory: whether the agent has long-term memory (the key ``memory``).
        sandbox: whether any tool component uses a sandbox, even one that is not available here.
        may_have: whether a tool of a given name may join at run time.
        may_have_like: whether a tool that matches a glob pattern may join at run time.
        shortening: the names of the agent's middlewares that propose edits of single messages.
        pattern_of: the workspace's pattern for a pattern without braces that is a path of this machine into it; None
            for any other.
    """

    profile: ModelProfile
    tools: Mapping[str, Tool]
    written: Mapping[str, Any]
    directory: Path
    homes: Sequence[Path] = ()
    memory: bool = False
    sandbox: bool = False
    may_have: Callable[[str], bool] = lambda name: False
    may_have_like: Callable[[str], bool] = lambda pattern: False
    shortening: Sequence[str] = ()
    pattern_of: Callable[[str], str | None] = lambda pattern: None

    def without_memory(self) -> Iterator[Misfit]:
        """A misfit if the agent has no long-term memory."""
        if not self.memory:
            yield Misfit(
                (),
                "this agent has no long-term memory",
                "add the key `memory:`, such as `memory: {user: ann}`, or remove this line",
                "no-memory",
            )

    def without_sandbox(self) -> Iterator[Misfit]:
        """A misfit if no tool of the agent uses a sandbox."""
        if not self.sandbox:
            yield Misfit(
                (), "this agent has no sandbox", "add `- sandbox` to tools, or remove this line", "no-sandbox"
            )

    def missing_file(
        self, file: str, path: tuple[str | int, ...], hint: str = "A relative path starts at this YAML file"
    ) -> Iterator[Misfit]:
        """A misfit if the option at ``path`` names a ``file`` that is missing or not a file."""
        found = self.directory / file
        if not found.is_file():
            what = "is not a file" if found.exists() else "does not exist"
            yield Misfit(path, f"{file} {what}", hint, "missing-file")

    def unknown_tools(
        self, names: Iterable[str], path: tuple[str | int, ...], *, also: Sequence[str] = ()
    ) -> Iterator[Misfit]:
        """A misfit for each of ``names`` that is not a tool of the agent.

        Args:
            names: a list of tools, or a mapping's keys.
            path: the path of the names in the options.
            also: names that are valid even if the agent has no such tool, because a default lists them.
        """
        known = [*self.tools, *also]
        is_mapping = isinstance(names, Mapping)
        for index, name in enumerate(names):
            if name not in known and not self.may_have(name):
                likely = did_you_mean(name, known)
                yield Misfit(
                    (*path, name if is_mapping else index),
                    f"{name!r} is not a tool of this agent",
                    f"did you mean {likely!r}?"
                    if likely
                    else f"its tools: {', '.join(self.tools) or 'none'}",
                    "unknown-tool",
                )

    def not_shortening(
        self, names: Sequence[str], path: tuple[str | int, ...], *, also: Sequence[str] = ()
    ) -> Iterator[Misfit]:
        """A misfit for each of ``names`` that is not a middleware of the agent that shortens single messages.

        Args:
            names: a list of middlewares.
            path: the path of the names in the options.
            also: names that are valid even if the agent has no such middleware, because a default lists them.
        """
        for index, name in enumerate(names):
            if name not in self.shortening and name not in also:
                likely = did_you_mean(name, [*self.shortening, *also])
                yield Misfit(
                    (*path, index),
                    f"{name!r} is not a middleware of this agent that shortens single messages",
                    f"did you mean {likely!r}?"
                    if likely
                    else f"its middlewares that do: {', '.join(self.shortening) or 'none'}",
                    "unknown-middleware",
                )

    def above_window(self, tokens: int | None, path: tuple[str | int, ...]) -> Iterator[Misfit]:
        """A misfit if the YAML itself sets the option at ``path`` to more tokens than the input limit.

        A default is never a misfit: with a small window it simply never applies.
        """
        if tokens is None or path[0] not in self.written or tokens <= self.profile.max_input_tokens:
            return
        yield Misfit(
            path,
            f"{tokens:,} tokens are more than the input limit of {self.profile.name}"
            f" ({self.profile.max_input_tokens:,}), so nothing could ever reach them",
            "write less",
            "above-window",
        )

    def sizes(self, *, trigger: Size | None = None, keep: Size | None = None) -> Iterator[Misfit]:
        """A misfit if the options ``trigger`` and ``keep`` cannot work with the model (``check_sizes``)."""
        from zeus_runtime.context.size import check_sizes

        try:
            check_sizes(self.profile, trigger=trigger, keep=keep)
        except OptionsError as error:
            yield Misfit((error.where,) if error.where else (), error.message, error.remedy, "wrong-size")


def misfits(
    checked: Checked,
    components: Sequence[PlannedComponent],
    context: PlanContext,
    given: PlannedTools,
    tools: Sequence[Tool] | None = None,
) -> Iterator[Diagnostic]:
    """The problems that the options of ``components`` report themselves.

    Options with a method ``misfits(surroundings)`` return one Misfit for each problem.

    Args:
        tools: the agent's tools; None for those that it has before it runs.
    """
    from zeus_runtime.context import Evict, TruncateArguments
    from zeus_runtime.plan.components import PlannedMiddleware

    by_name = {tool.name: tool for tool in (given.bare if tools is None else tools)}
    shortening = [
        each.name
        for each in components
        if isinstance(each, PlannedMiddleware) and {Evict, TruncateArguments} & {*each.loaded.proposes}
    ]
    for planned in components:
        find = getattr(planned.value, "misfits", None)
        if find is None:
            continue
        written = _written(checked.config, planned.path)
        around = Surroundings(
            context.profile,
            by_name,
            written,
            checked.directory,
            checked.homes,
            memory=checked.config.memory is not None,
            sandbox=bool(context.sandboxes.opened),
            may_have=given.may_have,
            may_have_like=given.may_have_like,
            shortening=shortening,
            pattern_of=context.workspace.pattern_of,
        )
        with planned.blamed("misfits"):
            told = list(find(around))
        for each in told:
            where = (*planned.path, planned.name, *each.path)
            found = checked.diagnostic(each.code, f"{planned.name}: {each.message}", where, hint=each.hint)
            yield replace(found, severity=each.severity)


def late_misfits(
    checked: Checked,
    components: Sequence[PlannedComponent],
    context: PlanContext,
    given: PlannedTools,
    tools: Sequence[Tool],
) -> Iterator[str]:
    """The misfits that only the tools of servers can show: a tool or an argument that is named and is not there.

    Args:
        given: the plan's tools, with toolsets that are open.
        tools: every tool that the agent has now.
    """
    for each in misfits(checked, components, context, given, tools):
        if each.code in ("unknown-tool", "unknown-argument"):
            yield str(each)


def _written(config: Config, path: Sequence[str | int]) -> Mapping[str, Any]:
    place: Any = config
    for step in path:
        place = place[step] if isinstance(step, int) else getattr(place, step)
    return {} if place is None else place.options
