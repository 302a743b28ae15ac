"""Options of the approvals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from zeus_runtime.plugin import Doc, Maximum, Minimum, dataclass

if TYPE_CHECKING:
    from zeus_runtime.plugin import Misfit, Surroundings
    from zeus_runtime.plugin.approval import AskMode, AskModes
    from zeus_runtime.plugin.files import AccessLayer

Value: TypeAlias = str | int | float | bool
Rule: TypeAlias = str | Mapping[str, Mapping[str, Value | tuple[Value, ...]]]


@dataclass(frozen=True)
class Options:
    mode: Annotated[
        Literal["run_everything", "allowlist", "ask"],
        Doc(
            "What holds where no rule says otherwise: run without asking; ask but for the user's stored allowlist; ask "
            "every time."
        ),
    ] = "allowlist"
    user_modes: Annotated[
        tuple[Literal["run_everything", "allowlist", "ask"], ...] | None,
        Doc(
            "Modes that a user may choose instead (`zeus approvals mode`); null: those that ask no less than `mode`;"
            " []: none."
        ),
    ] = None
    allow: Annotated[
        tuple[Rule, ...],
        Doc(
            "Run without asking: a tool's name or pattern, or {name: {argument: pattern}}, all of which must fit."
        ),
    ] = ()
    ask: Annotated[tuple[Rule, ...], Doc("Ask, even if it is on the allowlist or an allow rule fits.")] = ()
    deny: Annotated[tuple[Rule, ...], Doc("Never run, in any mode, whatever other rules say.")] = ()
    read_tools: Annotated[
        Literal["allow", "ask"],
        Doc("Tools that change nothing run unasked where no rule fits, or are asked for like others."),
    ] = "allow"
    timeout_seconds: Annotated[
        float | None,
        Doc("How long the user may take, counted from the first asking (a century at most); null: for ever."),
        Minimum(0.001),
        Maximum(3_153_600_000),
    ] = None
    on_timeout: Annotated[Literal["reject", "approve"], Doc("What holds when nobody decided in time.")] = (
        "reject"
    )

    def asks_user(self) -> bool:
        """A sub-agent that writes and lists no such middleware would act behind the back of who is asked here."""
        return True

    def access_layer(self, mode: str) -> AccessLayer:
        """The rules about paths, for every file that a tool reaches; only agent mode asks."""
        from zeus_plugins.middlewares.approve.reach import PathRules
        from zeus_plugins.middlewares.approve.rules import rules_of

        asked = self.ask if mode == "agent" else ()
        return PathRules(*(tuple(rules_of(each)) for each in (self.allow, asked, self.deny)))

    def with_mode(self, mode: AskMode) -> Options:
        """These options with the mode that the config's ``approvals`` says."""
        from dataclasses import replace

        return replace(self, mode=mode)

    def ask_modes(self) -> AskModes:
        """What the user may choose."""
        from zeus_runtime.plugin.approval import AskModes

        return AskModes.of(self.mode, self.user_modes)

    def misfits(self, around: Surroundings) -> Iterator[Misfit]:
        """Rules for tools or arguments that are not there, patterns that cannot be read, a timeout without seconds."""
        from zeus_plugins.middlewares.approve.rules import rules_of, unsound
        from zeus_runtime.plugin import Misfit

        for key in ("allow", "ask", "deny"):
            for index, written in enumerate(getattr(self, key)):
                for rule in rules_of((written,)):
                    yield from unsound(rule, around, (key, index))
        if self.timeout_seconds is None and "on_timeout" in around.written:
            yield Misfit(
                ("on_timeout",), "without timeout_seconds nothing ever times out", "set timeout_seconds too"
            )
