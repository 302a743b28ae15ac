"""A tool: something the model can call, with its schema, category, access class and function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

from zeus_runtime.frozen import dataclass

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from jsonschema import ValidationError

    from zeus_runtime.config.model import SubAgent
    from zeus_runtime.config.secrets.masking import Redactor
    from zeus_runtime.models.pictures import Picture
    from zeus_runtime.tools.approval import Approvals
    from zeus_runtime.tools.preview import Change, Preview

Category: TypeAlias = Literal[
    "builtin",
    "filesystem",
    "todos",
    "memory",
    "rag",
    "sandbox",
    "shell",
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
    """The current run, for tool functions that have a parameter named ``run``."""

    @property
    def session(self) -> str: ...
    @property
    def call_id(self) -> str: ...
    @property
    def mode(self) -> str: ...
    @property
    def run_id(self) -> str:
        """The id of the run, which one message of the user started."""
        ...

    @property
    def user_text(self) -> str:
        """The user's last message."""
        ...

    @property
    def results(self) -> Sequence[tuple[str, str]]:
        """The results since the user's last message: the tool's name and the text, oldest first."""
        ...

    @property
    def place(self) -> int:
        """The index of the call's result in the log; the same after every resume."""
        ...

    @property
    def answer(self) -> int:
        """The index in the log of the model's answer that made the call; the calls of one answer share it."""
        ...

    @property
    def approvals(self) -> Approvals:
        """Asks the user for approval before an action."""
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
        """Give a task to one of the config's ``agents``; return its answer, with evidence.

        Args:
            agent: the agent's name.
            prompt: the task, with everything that the agent needs to know.
            description: a few words for lists.
            handles: files whose text is given to an agent with the context ``slice``.
        """
        ...

    @property
    def secrets(self) -> Redactor:
        """The secrets that are masked in the tool's result; they stay in the files that it changes.

        None, if the config allows them to the model.
        """
        ...

    @property
    def known(self) -> Redactor:
        """All known secrets: they are masked in what a person sees. ``progress`` masks each message by itself."""
        ...

    def state(self, name: str) -> JSON:
        """Return the value that a tool of this thread last stored under ``name`` (``ToolResult.state``), or None."""
        ...

    def progress(self, message: str, done: float | None = None, total: float | None = None) -> None:
        """Report the call's progress as an event for observers; the model does not see it.

        Args:
            message: the current activity; may be empty.
            done, total: the finished part and the whole, in any unit.
        """
        ...

    async def objection(self, arguments: Mapping[str, JSON]) -> str | None:
        """Say why the call may not do what the same tool does with other arguments; None if it may.

        For a tool that follows a redirect, for example: rules, hooks and persons have judged only the arguments of the
        call. No person is asked: the model can call the tool with the other arguments.

        Args:
            arguments: all arguments of such a call.
        """
        ...

    def waiting(self) -> AbstractContextManager[None]:
        """While inside, the call waits for a person, so the time limits of the call and of the run are paused."""
        ...

    @property
    def waits(self) -> object | None:
        """Set if ``ask`` returned None because the question waits; the call is repeated after the answer."""
        ...

    @property
    def person(self) -> object:
        """The person who gets its questions, now or later: the same object for a run and its sub-agents."""
        ...

    @property
    def is_attended(self) -> bool:
        """Whether a user is there to answer now."""
        ...

    @property
    def unanswered(self) -> Sequence[str]:
        """The unanswered questions of a call that cannot wait (``may_wait``)."""
        ...

    async def ask(
        self, question: str, schema: Mapping[str, JSON], *, may_wait: bool = True
    ) -> Mapping[str, JSON] | None:
        """Return the user's answer to a question, an object that fits ``schema``; None: declined or not answered now.

        Args:
            may_wait: whether the call may be repeated with the answer, so that a question without an answer now is
                stored. False for a call that has already changed something: then the question is withdrawn.

        Raises:
            ValueError: ``schema`` is not a JSON Schema.
        """
        ...


@dataclass(frozen=True)
class ToolResult:
    """The result of a tool call.

    Args:
        content: the text for the model.
        is_error: the call failed; the model may try again.
        state: small named JSON values to keep with the thread (the todo list); stored in the log with this result.
        artifact: JSON for observers; never sent to the model.
        pictures: workspace files for models that support pictures; ``content`` describes them for other models.
        files: paths of other files that the tool saved in the archive for this result. The session may read them, and
            they are deleted with it; a path that only ``content`` names gives no access.
        changes: the texts that the call changed. The log keeps their diff, for people; it is never sent to the model.
    """

    content: str
    is_error: bool = False
    state: Mapping[str, JSON] = field(default_factory=dict)
    artifact: JSON = None
    pictures: tuple[Picture, ...] = ()
    files: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True)
class Tool:
    """Something the model can call.

    Args:
        name: unique in an agent, ``[a-zA-Z0-9_-]{1,64}``.
        description: the text for the model.
        parameters: JSON Schema of the arguments, an object schema.
        function: async; takes the arguments by keyword (and ``run`` if ``takes_run``), returns text or a ToolResult.
        category: its row in the mode table.
        access: ``read`` changes nothing outside the thread.
        paths: names of the arguments that are workspace paths, for rules: the tool opens them exactly as they are
            written. An argument such as ``path`` or ``target_dir`` is else a path that may be read in other ways.
        commands: names of the arguments that a shell runs, or that are the words of one command; rules judge each
            command in them.
        programs: names of the arguments that are a program's source text.
        replayable_arguments: names of large arguments that can be read again elsewhere (a written file's content).
        replayable_result: the result can be fetched again by the same call.
        timeout_seconds: how long one call may take, without the time in which the user is asked.
        starts_agents: it calls ``ToolRun.delegate``.
        agent_argument: the name of the argument that names the agent which a call starts, if one does.
        agents: further agents that it adds to those of the config, by name; each is planned like one under ``agents``.
        takes_whole: it is called as ``function(arguments, run)`` with the arguments as one object, for tools whose
            argument names come from outside (``run`` may be among them).
        deferred: only its name and first line are shown; the model must load its schema before a call.
        preview: computes, from the arguments, the known secrets and the session's id, the change that a call would
            make, without making it; the person who approves the call sees it as a diff.
        setting: what besides the arguments decides what a call does, such as a server's address, as text or hashed; an
            approval is bound to it, and a plan adds the component's options.
        computed: names of arguments, at any depth, whose value nobody knows where a call leaves them out; rules take
            such an argument for unclear.
        past_workspace: it opens files by itself and not by ``PlanContext.workspace``, so the workspace's rules do not
            hold for it; a plan says so.
        facts: what of ``setting`` the person who approves a call must see, such as its server: further lines of the
            question.
        agent_facts: such lines for each agent that it may start, by the agent's name; a plan adds them.
    """

    name: str
    description: str
    parameters: Mapping[str, JSON]
    function: Callable[..., Awaitable[ToolResult | str]]
    category: Category = "custom"
    access: Access = "write"
    paths: frozenset[str] = frozenset()
    commands: frozenset[str] = frozenset()
    programs: frozenset[str] = frozenset()
    replayable_arguments: frozenset[str] = frozenset()
    replayable_result: bool = False
    takes_run: bool = False
    timeout_seconds: float | None = None
    starts_agents: bool = False
    agent_argument: str = ""
    agents: Mapping[str, SubAgent] = field(default_factory=dict)
    takes_whole: bool = False
    deferred: bool = False
    preview: Callable[[Mapping[str, JSON], Redactor, str], Awaitable[Preview]] | None = None
    setting: str = field(default="", repr=False)
    facts: tuple[str, ...] = ()
    agent_facts: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    computed: frozenset[str] = frozenset()
    past_workspace: bool = False

    def within(self, setting: str) -> Tool:
        """The same tool with its component's setting before its own."""
        return replace(self, setting=f"{setting} {self.setting}".strip()) if setting else self

    def facts_of(self, arguments: Mapping[str, JSON]) -> tuple[str, ...]:
        """``facts``, and those of the agent that a call starts: of all agents, if the arguments do not name one."""
        named = self.agent_facts.get(str(arguments.get(self.agent_argument)))
        of_agents = self.agent_facts.values() if named is None else [named]
        return (*self.facts, *chain.from_iterable(of_agents))

    @cached_property
    def problems_of(self) -> Callable[[JSON], Iterator[ValidationError]]:
        """A function that checks arguments against ``parameters``, compiled at first use.

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
    """One call by the model. ``place`` is the place of its result in the log."""

    id: str
    name: str
    arguments: Mapping[str, JSON]
    session: str = ""
    place: int = 0
