"""Sessions by the package `pydantic-ai`, through both APIs, streamed and not: a tool, an approval, a cancel.

Run by a Python that has the package, with a service of `tests.support.talking`:
`python pydantic_ai_client.py URL TOKEN`.
"""

import asyncio
import json
import sys

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from turns import given_up


async def streamed(_context, events):
    """Asked to handle events, the package streams its requests."""
    async for _ in events:
        pass


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

        for handler in (None, streamed):
            first = await agent.run("the weather?", event_stream_handler=handler)
            second = await agent.run(
                "record it", message_history=first.all_messages(), event_stream_handler=handler
            )
            history = second.all_messages()
            await given_up(
                url, token, agent.run("hang", message_history=history, event_stream_handler=handler)
            )
            found[f"{name} {handler is not None}"] = {
                "tool": first.output,
                "approval": second.output,
                "input_tokens": first.usage.input_tokens,
            }
    print(json.dumps({"found": found, "ran": ran, "asked": asked}))


asyncio.run(main(*sys.argv[1:]))
