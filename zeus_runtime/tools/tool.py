"""A tool: something the model can call, with its schema, category, access class and function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from jsonschema import ValidationError

    from zeus_runtime.config.model import SubAgent
    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.models.pictures import Picture
    from zeus_runtime.tools.approval import Approvals
    from zeus_runtime.tools.preview import Preview

Category: TypeAlias = Literal[
    "builtin",
    "filesystem",
    "todos",
    "memory",
    "rag",
    "sandbox",
    "web",
    "skills",
    "mcp",
    "oauth",
    "browser",
    "desktop",
    "custom",
]
Access: TypeAlias = Literal["read", "write"]
JSON: TypeAlias = Any
M = TypeVar("M")


class ToolRun(Protocol):
    """What a tool function may know of the run it is called in: ask for it with a parameter named ``run``."""

    @property
    def session(self) -> str: ...
    @property
    def call_id(self) -> str: ...
    @property
    def mode(self) -> str: ...
    @property
    def run_id(self) -> str:
        """The run, which one message of the user began."""
        ...

    @property
    def user_text(self) -> str:
        """The user's last message."""
        ...

    @property
    def place(self) -> int:
        """The index of the call's result in the log; the same after every resume."""
        ...

    @property
    def approvals(self) -> Approvals:
        """How the user is asked something before it is done."""
        ...

    def middleware(self, kind: type[M]) -> M:
        """The run's instance of the middleware that gave this tool.

        Args:
            kind: its class.

        Raises:
            LookupError: the tool was not given by a middleware of this class.
        """
        ...

    async def delegate(
        self, agent: str, prompt: str, *, description: str = "", handles: Sequence[str] = ()
    ) -> ToolResult:
        """Give work to one of the config's ``agents``; what it answered, with evidence.

        Args:
            agent: its name.
            prompt: all that it is to do and to know.
            description: a few words for lists.
            handles: files whose text an agent with the context ``slice`` is given.
        """
        ...

    @property
    def secrets(self) -> Redactor:
        """The known secrets, which are masked in what the tool gives back and kept in the files that it changes."""
        ...

    def state(self, name: str) -> JSON:
        """The value last kept under ``name`` by a tool of this thread (``ToolResult.state``), or None."""
        ...

    def progress(self, message: str, done: float | None = None, total: float | None = None) -> None:
        """Tell how far the call is: an event for whoever watches; the model does not see it.

        Args:
            message: what is being done; may be empty.
            done, total: how much of how much, in any unit.
        """
        ...

    def waiting(self) -> AbstractContextManager[None]:
        """While inside, somebody is waited for: the time limits of the call and of the run stand still."""
        ...

    @property
    def waits(self) -> object | None:
        """Set where ``ask`` gave None because the question waits: the call is made again when it is answered."""
        ...

    @property
    def person(self) -> object:
        """Whom its questions go to, now or later: the same object for a run and its sub-agents."""
        ...

    @property
    def is_attended(self) -> bool:
        """Whether a user is there to answer now."""
        ...

    @property
    def unanswered(self) -> Sequence[str]:
        """The unanswered questions of a call that does not wait (``may_wait``)."""
        ...

    async def ask(
        self, question: str, schema: Mapping[str, JSON], *, may_wait: bool = True
    ) -> Mapping[str, JSON] | None:
        """The user's answer to a question, an object that fits ``schema``; None: declined, or nobody can answer.

        Args:
            may_wait: whether the call may be made again with the answer, so that a question that nobody can answer now
                is kept. False for a call that has already done something: then the question is withdrawn.
        """
        ...


@dataclass(frozen=True)
class ToolResult:
    """What a tool gives back.

    Args:
        content: what the model reads.
        is_error: the call did not do what was asked; the model may try again.
        state: small named JSON values to keep with the thread (the todo list); stored in the log with this result.
        artifact: JSON for observers; never sent to the model.
        pictures: files of the workspace that a model that sees is shown; ``content`` says what they are to the others.
    """

    content: str
    is_error: bool = False
    state: Mapping[str, JSON] = field(default_factory=dict)
    artifact: JSON = None
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True)
class Tool:
    """Something the model can call.

    Args:
        name: unique in an agent, ``[a-zA-Z0-9_-]{1,64}``.
        description: what the model reads.
        parameters: JSON Schema of the arguments, an object schema.
        function: async; takes the arguments by keyword (and ``run`` if ``takes_run``), returns text or a ToolResult.
        category: the row of the mode table that rules it.
        access: ``read`` changes nothing outside the thread.
        replayable_arguments: names of large arguments that can be had again elsewhere (a written file's content).
        replayable_result: the result can be fetched again by the same call.
        timeout_seconds: how long one call may take; the time that the user is asked in it does not count.
        starts_agents: it calls ``ToolRun.delegate``.
        agents: agents that it brings besides those of the config, by name; each is planned like one under ``agents``.
        takes_whole: it is called as ``function(arguments, run)`` with the arguments as one object: for tools whose
            arguments others have named (``run`` may be among them).
        deferred: only its name and first line are shown; the model loads its schema before it calls it.
        preview: given the arguments and the known secrets, tells what a call would change, and changes nothing; whoever
            approves the call sees it as a diff.
    """

    name: str
    description: str
    parameters: Mapping[str, JSON]
    function: Callable[..., Awaitable[ToolResult | str]]
    category: Category = "custom"
    access: Access = "write"
    replayable_arguments: frozenset[str] = frozenset()
    replayable_result: bool = False
    takes_run: bool = False
    timeout_seconds: float | None = None
    starts_agents: bool = False
    agents: Mapping[str, SubAgent] = field(default_factory=dict)
    takes_whole: bool = False
    deferred: bool = False
    preview: Callable[[Mapping[str, JSON], Redactor], Awaitable[Preview]] | None = None

    @cached_property
    def problems_of(self) -> Callable[[JSON], Iterator[ValidationError]]:
        """What is wrong with arguments by ``parameters``, compiled at first use.

        Raises:
            jsonschema.SchemaError: ``parameters`` is not a JSON Schema.
        """
        from jsonschema import Draft202012Validator
        from jsonschema.validators import validator_for
        from referencing import Registry

        schema = dict(self.parameters)
        validator = validator_for(schema, default=Draft202012Validator)
        validator.check_schema(schema)
        # An explicit registry: without one, jsonschema fetches remote references from the network.
        return validator(schema, registry=Registry()).iter_errors


@dataclass(frozen=True)
class ToolCall:
    """One call by the model, as it is dispatched. ``place`` is where its result goes in the log."""

    id: str
    name: str
    arguments: Mapping[str, JSON]
    session: str = ""
    place: int = 0
