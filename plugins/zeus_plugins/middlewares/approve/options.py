"""Options of the middleware `approve`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from zeus_runtime.plugin import Doc, Maximum, Minimum, dataclass

if TYPE_CHECKING:
    from zeus_runtime.plugin import Misfit, Surroundings
    from zeus_runtime.plugin.approval import AskMode, AskModes, CallJudgement
    from zeus_runtime.plugin.files import AccessLayer, WorkspaceFiles
    from zeus_runtime.plugin.tool import Tool

Value: TypeAlias = str | int | float | bool
Rule: TypeAlias = str | Mapping[str, Mapping[str, Value | tuple[Value, ...]]]


@dataclass(frozen=True)
class Options:
    mode: Annotated[
        Literal["run_everything", "allowlist", "ask"],
        Doc(
            "Applies if no rule matches: run without asking; ask unless the tool is on the user's stored allowlist;"
            " ask every time."
        ),
    ] = "allowlist"
    user_modes: Annotated[
        tuple[Literal["run_everything", "allowlist", "ask"], ...] | None,
        Doc(
            "Modes that a user may choose instead (`zeus approvals mode`); null: those that ask at least as often as"
            " `mode`; []: none."
        ),
    ] = None
    allow: Annotated[
        tuple[Rule, ...],
        Doc(
            "Run without asking: a tool's name or pattern, or {name: {argument: pattern}}; all arguments must match."
        ),
    ] = ()
    ask: Annotated[
        tuple[Rule, ...], Doc("Ask, even if the tool is on the allowlist or an allow rule matches.")
    ] = ()
    deny: Annotated[tuple[Rule, ...], Doc("Never run, in any mode, whatever other rules say.")] = ()
    read_tools: Annotated[
        Literal["allow", "ask"],
        Doc("If no rule matches, read-only tools run without asking, or are treated like other tools."),
    ] = "allow"
    timeout_seconds: Annotated[
        float | None,
        Doc("How long the user may take, from the first question on (at most a century); null: for ever."),
        Minimum(0.001),
        Maximum(3_153_600_000),
    ] = None
    on_timeout: Annotated[
        Literal["reject", "approve"], Doc("The decision if the user did not answer in time.")
    ] = "reject"

    def asks_user(self) -> bool:
        """Say that this middleware asks the user: a sub-agent that writes without one would bypass the approvals."""
        return True

    def access_layer(self, mode: str) -> AccessLayer:
        """Return the path rules, which apply to every file that a tool opens, in every mode of the agent."""
        from zeus_plugins.middlewares.approve.reach import PathRules
        from zeus_plugins.middlewares.approve.rules import rules_of

        return PathRules(*(tuple(rules_of(each)) for each in (self.allow, self.ask, self.deny)))

    def judged(
        self, tool: Tool, arguments: Mapping[str, Any], workspace: WorkspaceFiles
    ) -> CallJudgement | None:
        """Return what the rules say of a call that waits, without its run; None if no rule decides about it."""
        from functools import partial

        from zeus_plugins.middlewares.approve.path_spellings import leads_to, reaches, with_targets
        from zeus_plugins.middlewares.approve.policy import Policy
        from zeus_runtime.plugin.approval import CallJudgement

        found = Policy(self, partial(leads_to, workspace), partial(reaches, workspace, workspace))
        verdict = found.ruled(tool, arguments)
        if verdict is None or verdict.action == "listed":
            return None
        reason = verdict.reason
        if verdict.action == "ask":
            reason = with_targets(reason, workspace, tool, arguments)
        return CallJudgement(verdict.action, reason, verdict.needs_person)

    def with_mode(self, mode: AskMode) -> Options:
        """Return these options with the mode of the config's ``approvals``."""
        from dataclasses import replace

        return replace(self, mode=mode)

    def ask_modes(self) -> AskModes:
        """Return the configured mode and the modes that the user may choose."""
        from zeus_runtime.plugin.approval import AskModes

        return AskModes.of(self.mode, self.user_modes)

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Report rules for unknown tools or arguments, invalid patterns, and ``on_timeout`` without a timeout."""
        from zeus_plugins.middlewares.approve.rules import rules_of, unsound
        from zeus_runtime.plugin import Misfit

        for key in ("allow", "ask", "deny"):
            for index, written in enumerate(getattr(self, key)):
                for rule in rules_of((written,)):
                    yield from unsound(rule, around, (key, index))
        if self.timeout_seconds is None and "on_timeout" in around.written:
            yield Misfit(
                ("on_timeout",), "on_timeout has no effect without timeout_seconds", "set timeout_seconds too"
            )
