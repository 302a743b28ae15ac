"""deepagents at its defaults on a recorded session: the real agent, with a model that answers from the recording."""

from __future__ import annotations

import time
from html import unescape
from typing import Any

from deepagents import create_deep_agent
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import PrivateAttr

from benchmarks.sessions import Played, recoverable, step
from zeus_runtime.context.replay.provider_simulator import SimulatedProvider, outcome
from zeus_runtime.context.replay.recordings import Recording
from zeus_runtime.models.errors import ModelError
from zeus_runtime.models.interface import ModelRequest, ModelResponse, ToolSchema, Usage

PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": True}


class Recorded(BaseTool):
    """A tool that gives the recorded result of each call."""

    name: str
    description: str = "A tool of the recording."
    args_schema: Any = PARAMETERS
    results: dict[str, str]

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> ToolMessage:  # noqa: A002 - LangChain's name
        return ToolMessage(self.results[input["id"]], tool_call_id=input["id"], name=self.name)

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> ToolMessage:  # noqa: A002
        return self.invoke(input)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


class Scripted(BaseChatModel):
    """LangChain's form of the simulated provider."""

    _provider: SimulatedProvider = PrivateAttr()
    _schemas: dict[int, tuple[ToolSchema, ...]] = PrivateAttr(default_factory=dict)
    _player: Any = PrivateAttr(default=None)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools])

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        system = "".join(str(message.text) for message in messages if message.type == "system")
        rest = [message for message in messages if message.type != "system"]
        tools = kwargs.get("tools", ())
        schemas = tuple(
            ToolSchema(
                each["function"]["name"], each["function"]["description"], each["function"]["parameters"]
            )
            for each in tools
        )
        kept = self._schemas.setdefault(hash(str(tools)), schemas)
        request = ModelRequest(
            system, rest, kept, len(system), purpose="turn" if system or tools else "summary"
        )
        try:
            message = self._player.answer(request)
        except ModelError as error:
            if error.kind == "context_overflow":
                raise ContextOverflowError(str(error)) from None
            raise
        return ChatResult(generations=[ChatGeneration(message=message.model_copy())])


def _reporting(response: ModelResponse) -> AIMessage:
    """The answer with the usage that a provider's class reports: deepagents' trigger reads it before its own count."""
    usage = response.usage or Usage()
    reported = UsageMetadata(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
    )
    # The usage of another provider's class is not read.
    provider = Scripted()._get_ls_params().get("ls_provider")
    update = {"usage_metadata": reported, "response_metadata": {"model_provider": provider}}
    return response.message.model_copy(update=update)


class Player:
    """Plays a recording through the agent, one user turn after the other.

    Args:
        recording: what was said.
        provider: answers and counts.
    """

    def __init__(self, recording: Recording, provider: SimulatedProvider) -> None:
        self.recording = recording
        self.provider = provider
        self.cpu: list[float] = []
        self.compacted: set[int] = set()
        self.place = 0
        self._mark = 0.0

    def answer(self, request: ModelRequest) -> AIMessage:
        """The recorded answer to a turn, a stub to a summary."""
        turn = request.purpose == "turn"
        if turn:
            self.cpu.append(time.process_time() - self._mark)
            step(self.provider, self.recording, self.place)
        else:
            self.compacted.add(self.place)
        response = self.provider.answer(request)
        if turn:
            self.place = self.recording.following(self.place)
            self._mark = time.process_time()
        return _reporting(response)

    async def play(self, window: int) -> Played:
        """The whole session, or up to where it fails.

        Args:
            window: what the model's profile states, in tokens.
        """
        talk = self.recording.messages
        results = {
            str(message.tool_call_id): str(message.content)
            for message in talk
            if isinstance(message, ToolMessage)
        }
        names = sorted({call["name"] for message in talk for call in getattr(message, "tool_calls", ())})
        model = Scripted(profile={"max_input_tokens": window})
        model._provider, model._player = self.provider, self
        agent = create_deep_agent(
            model=model,
            tools=[Recorded(name=name, results=results) for name in names],
            checkpointer=InMemorySaver(),
        )
        config: Any = {"configurable": {"thread_id": "bench"}, "recursion_limit": 10_000}
        failure = ""
        files: dict[str, Any] = {}
        while self.place < len(talk):
            prompt = HumanMessage(talk[self.place].content)
            self.place += 1
            self._mark = time.process_time()
            try:
                state = await agent.ainvoke({"messages": [prompt]}, config, durability="exit")
            except Exception as error:  # noqa: BLE001 - however it fails, the session is over and the table says so
                failure = f"{type(error).__name__} at message {self.place}: {str(error)[:90]}"
                break
            files = state.get("files") or {}
        texts = [str(file["content"]) if isinstance(file, dict) else str(file) for file in files.values()]
        archive = "\n".join([*texts, *map(unescape, texts)])
        return Played(
            outcome(
                self.recording.name,
                "deepagents",
                self.provider,
                compacted=frozenset(self.compacted),
                failure=failure,
            ),
            self.cpu,
            *recoverable(self.recording, self.place, self.provider, archive),
        )
