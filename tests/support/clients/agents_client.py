"""A session by the package `openai-agents`, through both APIs: a tool, an approval, a cancel.

Run by a Python that has the package, with a service of `tests.support.talking`: `python agents_client.py URL TOKEN`.
"""

import asyncio
import json
import sys

from agents import (
    Agent,
    HostedMCPTool,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI


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
        asked.append([request.data.name, json.loads(request.data.arguments)])
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
    for name, model, approval in (
        ("chat", OpenAIChatCompletionsModel("test", client), zeus_approval),
        ("responses", OpenAIResponsesModel("test", client), hosted),
    ):
        agent = Agent("asker", instructions="Be brief.", model=model, tools=[get_weather, approval])
        session = SQLiteSession(name)
        first = await Runner.run(agent, "the weather?", session=session)
        second = await Runner.run(agent, "record it", session=session)
        streamed = Runner.run_streamed(agent, "hello", session=session)
        async for _ in streamed.stream_events():
            pass
        hangs = Runner.run_streamed(agent, "hang", session=session)
        async for event in hangs.stream_events():
            if "Thinking" in str(getattr(event, "data", "")):
                hangs.cancel(mode="immediate")
                break
        usage = first.context_wrapper.usage
        found[name] = {
            "tool": first.final_output,
            "approval": second.final_output,
            "streamed": streamed.final_output,
            "input_tokens": usage.input_tokens,
        }
    await client.close()
    print(json.dumps({**found, "ran": ran, "asked": asked}))


asyncio.run(main(*sys.argv[1:]))
