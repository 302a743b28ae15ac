"""Middleware: the six places where a run can be changed. Nothing else transforms."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from zeus_runtime.frozen import copied, dataclass

if TYPE_CHECKING:
    from zeus_runtime.config.model import Mode
    from zeus_runtime.context import Budget, CompactionOffer, Edit, Refusal, View
    from zeus_runtime.middleware.contexts import PlanContext, RunContext
    from zeus_runtime.models import ModelRequest, ModelResponse
    from zeus_runtime.prompt import Section
    from zeus_runtime.tools import Tool, ToolCall, ToolResult
    from zeus_runtime.tools.attachments import Reference

Sources: TypeAlias = "Sequence[Mapping[str, Any]]"
"""The sources of a section (``SourcedText``) as the ledger stores them: one JSON object for each."""


@dataclass(frozen=True)
class Turn:
    """A middleware's view of its run.

    Args:
        session: the session's id, ``session_{12 hex}``.
        run_id: this run's id.
        mode: ``agent``, ``ask`` or ``plan``.
        step: the number of model calls in this run before this one, 0 at the start.
        prompt: the user's text that began the run; empty when a run is resumed.
        user_text: the user's last message, also when a run is resumed.
        references: the files of the user's messages, oldest first (``run.attachments``).
        sources: the sources of the sections in the session's last step before this run, by section.
        answer: returns the text of the run's answer, for ``wrap_run`` after its steps; raises OutputError if it does
            not fit ``output``.
    """

    session: str
    run_id: str
    mode: Mode
    step: int = 0
    prompt: str = ""
    user_text: str = ""
    sources: Mapping[str, Sources] = field(default_factory=dict, repr=False)
    references: Sequence[Reference] = field(default=(), repr=False)
    answer: Callable[[], str] = field(default=str, repr=False)

    def override(self, **changes: Any) -> Turn:
        """A copy with ``changes``."""
        return copied(self, **changes)


METHODS: Final = ("tools", "sections", "edits", "wrap_run", "wrap_model_call", "wrap_tool_call")
"""The methods that a middleware may override."""
_HOOKS: Final = ("wrap_", "before_", "after_")
"""Prefixes of such methods, here and in other frameworks."""

CallRun: TypeAlias = "Callable[[Turn], Awaitable[None]]"
CallModel: TypeAlias = "Callable[[ModelRequest], Awaitable[ModelResponse]]"
CallTool: TypeAlias = "Callable[[ToolCall], Awaitable[ToolResult]]"


class Middleware:
    """Override what you need; the first line in the YAML is outermost. Each run creates its own instance.

    A component's ``create`` is the class itself. Planning creates no instance: it reads the class and calls ``tools``.

    ``sections`` may fill sections 7 to 15 (1 to 6 are byte-identical within a session); a ``SourcedText`` among them
    also gives its sources. ``edits`` proposes; the planner admits. The ``wrap_*`` methods must await ``call_next`` at
    most as often as they mean to repeat the call. An exception from any method ends the run with that middleware's
    name.

    Attributes:
        proposes: the kinds of edit that its ``edits`` makes, such as ``(Evict,)``; the plan warns of orders that harm.
        finishes_request: whether its ``wrap_model_call`` depends on the final request (cache points), so that nothing
            below it should change the request.
        judges: whether it judges what the agent may do, so that a session's own middlewares must keep its line; None if
            it does as soon as it has a ``wrap_…``. A policy of the context that wraps calls says False. One whose
            options have an ``access_layer`` always judges.
    """

    proposes: Collection[type[Edit]] = ()
    finishes_request: bool = False
    judges: bool | None = None

    def __init__(self, options: Any, context: RunContext) -> None:
        """Called once for each run.

        Args:
            options: the component's Options from the YAML; None if it takes no option.
            context: the run's context; its mapping of tools is complete when the run's first method is called.
        """

    @classmethod
    def tools(cls, options: Any, context: PlanContext) -> Sequence[Tool]:
        """Return the tools that it adds.

        When: while the config is planned, and before each run. How often: once for each.
        Given: the component's options, and the agent's ``PlanContext``.
        Returns: tools whose names no other tool of the agent has. A tool that needs the run's instance asks for
        ``run`` and calls ``run.middleware(cls)``.
        An exception: the config is refused, with the position of the component or of the option.
        """
        return ()

    async def sections(self, turn: Turn) -> Mapping[Section, str]:
        """Return the texts that it adds to the prompt, by section.

        When: before each model call of the run, and again if edits were admitted for that call.
        How often: once or twice per model call, so keep it cheap, and the text unchanged where you can: a changed text
        ends the provider's cached prefix there.
        Given: ``turn``, with ``step`` set to the model calls of this run so far.
        Returns: texts for sections 7 to 15 of the prompt. Texts of several middlewares for one section are joined in
        the order of the YAML. A ``SourcedText`` also gives the sources of its text.
        """
        return {}

    async def edits(self, view: View, budget: Budget) -> Sequence[Edit | Refusal | CompactionOffer]:
        """Return the edits that it proposes to shrink the view.

        When: before each model call, after a request that was too long, and when the user compacts the session.
        How often: once for each; the second policy gets the view that the first one's admitted edits left. Once more
        with ``budget.room_before`` if another policy's ``CompactionOffer`` names this one.
        Given: ``view``, the messages that the request would send; ``budget``, the tokens for them and the answer.
        Returns: edits; the planner admits or refuses each. A ``Refusal`` among them names an edit that its own limits
        forbid: the user gets a notice and the ledger keeps it. A ``CompactionOffer`` is a compaction that costs a model
        call: the planner makes it unless edits of other policies make enough room for less.
        """
        return ()

    async def wrap_run(self, turn: Turn, call_next: CallRun) -> None:
        """Wrap a run.

        When: after ``run_started``, around all steps of the run. How often: once per run; a resume is a further run.
        Given: ``turn``, which must be passed to ``call_next`` unchanged.
        Returns: nothing, after ``await call_next(turn)``.
        """
        await call_next(turn)

    async def wrap_model_call(self, request: ModelRequest, call_next: CallModel) -> ModelResponse:
        """Wrap a model call.

        When: after the edits, around the request. How often: once per model call of the run; retries of a failed call
        are inside. Calls that a policy or a middleware makes itself are not wrapped.
        Given: ``request``, frozen; pass ``request.override(…)`` to ``call_next`` to change it.
        Returns: the ``ModelResponse`` of ``call_next``, or another one.
        """
        return await call_next(request)

    async def wrap_tool_call(self, call: ToolCall, call_next: CallTool) -> ToolResult:
        """Wrap a tool call.

        When: after ``tool_call``, around the mode, the check of the arguments and the tool. How often: once per call,
        and again if a resumed run makes the call again; parallel calls are wrapped at the same time.
        Given: ``call``, frozen; pass ``replace(call, arguments=…)`` to ``call_next`` to change it.
        Returns: the ``ToolResult`` of ``call_next``, or another one; without ``call_next`` the tool does not run.
        """
        return await call_next(call)


def misnamed(middleware: type[Middleware]) -> str | None:
    """A public method that resembles one of ``METHODS`` but is not one of them, so that it would never be called."""
    for cls in middleware.__mro__[: middleware.__mro__.index(Middleware)]:
        for name, value in vars(cls).items():
            if not callable(value) or name.startswith("_") or name in METHODS:
                continue
            if name.startswith(_HOOKS) or _is_near(name):
                return name
    return None


def _is_near(name: str) -> bool:
    from zeus_runtime.config.messages.diagnostics import did_you_mean

    return did_you_mean(name, METHODS) is not None
