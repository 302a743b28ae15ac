"""A session by the package `pydantic-ai`, through both APIs: a tool, an approval, a cancel.

Run by a Python that has the package, with a service of `tests.support.talking`:
`python pydantic_ai_client.py URL TOKEN`.
"""

import asyncio
import json
import sys

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider


async def main(url, token):
    provider = OpenAIProvider(base_url=url, api_key=token)
    ran, asked, found = [], [], {}
    for name, model in (
        ("chat", OpenAIChatModel("test", provider=provider)),
        ("responses", OpenAIResponsesModel("test", provider=provider)),
    ):
        agent = Agent(model, instructions="Be brief.")

        @agent.tool_plain
        def get_weather(city: str) -> str:
            """The weather in a city."""
            ran.append(city)
            return "rain"

        @agent.tool_plain
        def zeus_approval(approval_id: str, tool: str, arguments: dict, reason: str = "") -> dict:
            """Decide a call."""
            asked.append([tool, arguments])
            return {"decision": "approve"}

        first = await agent.run("the weather?")
        second = await agent.run("record it", message_history=first.all_messages())
        async with agent.run_stream("hello", message_history=second.all_messages()) as streamed:
            text = await streamed.get_output()
            history = streamed.all_messages()
        task = asyncio.create_task(agent.run("hang", message_history=history))
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        found[name] = {
            "tool": first.output,
            "approval": second.output,
            "streamed": text,
            "input_tokens": first.usage.input_tokens,
        }
    print(json.dumps({**found, "ran": ran, "asked": asked}))


asyncio.run(main(*sys.argv[1:]))
