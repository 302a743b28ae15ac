"""Sessions by the package `openai-agents`, through both APIs, streamed and not: a tool, an approval, a cancel.

Run by a Python that has the package, with a service of `tests.support.talking`: `python agents_client.py URL TOKEN`.
"""

import asyncio
import json
import sys

from agents import (
    Agent,
    HostedMCPTool,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from turns import given_up


async def main(url, token):
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=url, api_key=token)
    ran, asked, found = [], [], {}

    @function_tool
    def get_weather(city: str) -> str:
        """The weather in a city."""
        ran.append(city)
        return "rain"

    @function_tool(strict_mode=False)
    def zeus_approval(approval_id: str, tool: str, arguments: dict[str, str], reason: str = "") -> str:
        """Decide a call."""
        asked.append([tool, arguments])
        return "approve"

    def approved(request):
        told = json.loads(request.data.arguments)
        assert told.pop("zeus_lines")
        asked.append([request.data.name, told])
        return {"approve": True}

    hosted = HostedMCPTool(
        tool_config={
            "type": "mcp",
            "server_label": "zeus",
            "server_url": url,
            "require_approval": "always",
        },
        on_approval_request=approved,
    )

    async def run(agent, text, session, streams):
        if not streams:
            return await Runner.run(agent, text, session=session)
        running = Runner.run_streamed(agent, text, session=session)
        try:
            async for _ in running.stream_events():
                pass
        finally:
            if not running.is_complete:
                running.cancel(mode="immediate")
        return running

    for name, model, approval in (
        ("chat", OpenAIChatCompletionsModel("test", client), zeus_approval),
        ("responses", OpenAIResponsesModel("test", client), hosted),
    ):
        agent = Agent(
            "asker",
            instructions="Be brief.",
            model=model,
            tools=[get_weather, approval],
            model_settings=ModelSettings(include_usage=True),
        )
        for streams in (False, True):
            session = SQLiteSession(f"{name} {streams}")
            first = await run(agent, "the weather?", session, streams)
            second = await run(agent, "record it", session, streams)
            await given_up(url, token, run(agent, "hang", session, streams))
            found[f"{name} {streams}"] = {
                "tool": first.final_output,
                "approval": second.final_output,
                "input_tokens": first.context_wrapper.usage.input_tokens,
            }
    await client.close()
    print(json.dumps({"found": found, "ran": ran, "asked": asked}))


asyncio.run(main(*sys.argv[1:]))
