"""Sessions by the package `openai`, through both APIs, streamed and not: a tool, an approval, a cancel.

Run by a Python that has the package, with a service of `tests.support.talking`: `python openai_client.py URL TOKEN`.
"""

import asyncio
import json
import sys

from openai import AsyncOpenAI
from turns import given_up

WEATHER = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
APPROVAL = {"name": "zeus_approval", "parameters": {"type": "object", "properties": {}}}


class Chat:
    """A conversation by chat completions, which the client sends whole each time."""

    def __init__(self, client, ran, asked, streams):
        self.client, self.ran, self.asked, self.streams = client, ran, asked, streams
        self.messages = []
        self.tools = [{"type": "function", "function": each} for each in (WEATHER, APPROVAL)]

    async def answer(self):
        given = {"model": "test", "messages": self.messages, "tools": self.tools}
        if not self.streams:
            return await self.client.chat.completions.create(**given)
        async with self.client.chat.completions.stream(
            **given, stream_options={"include_usage": True}
        ) as stream:
            async for _ in stream:
                pass
            return await stream.get_final_completion()

    async def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        tokens = 0
        while True:
            answer = await self.answer()
            tokens += answer.usage.prompt_tokens
            said = answer.choices[0].message
            calls = [
                {
                    "id": each.id,
                    "type": "function",
                    "function": {"name": each.function.name, "arguments": each.function.arguments},
                }
                for each in said.tool_calls or ()
            ]
            self.messages.append(
                {"role": "assistant", "content": said.content, **({"tool_calls": calls} if calls else {})}
            )
            if not calls:
                return said.content, tokens
            for each in calls:
                arguments = json.loads(each["function"]["arguments"])
                if each["function"]["name"] == "get_weather":
                    self.ran.append(arguments["city"])
                    result = "rain"
                else:
                    self.asked.append([arguments["tool"], arguments["arguments"]])
                    result = "approve"
                self.messages.append({"role": "tool", "tool_call_id": each["id"], "content": result})


class Responses:
    """A conversation by responses, which names the response before."""

    def __init__(self, client, ran, asked, streams):
        self.client, self.ran, self.asked, self.streams = client, ran, asked, streams
        self.before = None
        self.tools = [{"type": "function", **WEATHER}]

    async def answer(self, items):
        given = {"model": "test", "input": items, "tools": self.tools}
        if self.before is not None:
            given["previous_response_id"] = self.before
        if not self.streams:
            answer = await self.client.responses.create(**given)
        else:
            async with self.client.responses.stream(**given) as stream:
                async for _ in stream:
                    pass
                answer = await stream.get_final_response()
        self.before = answer.id
        return answer

    async def ask(self, text):
        items, tokens = [{"role": "user", "content": text}], 0
        while True:
            answer = await self.answer(items)
            tokens += answer.usage.input_tokens
            items = []
            for each in answer.output:
                if each.type == "function_call":
                    self.ran.append(json.loads(each.arguments)["city"])
                    items.append({"type": "function_call_output", "call_id": each.call_id, "output": "rain"})
                elif each.type == "mcp_approval_request":
                    told = json.loads(each.arguments)
                    assert told.pop("zeus_lines")
                    self.asked.append([each.name, told])
                    items.append(
                        {"type": "mcp_approval_response", "approval_request_id": each.id, "approve": True}
                    )
            if not items:
                return answer.output_text, tokens


async def main(url, token):
    ran, asked, found = [], [], {}
    async with AsyncOpenAI(base_url=url, api_key=token) as client:
        for name, kind in (("chat", Chat), ("responses", Responses)):
            for streams in (False, True):
                talk = kind(client, ran, asked, streams)
                tool, tokens = await talk.ask("the weather?")
                approval, _ = await talk.ask("record it")
                await given_up(url, token, talk.ask("hang"))
                found[f"{name} {streams}"] = {"tool": tool, "approval": approval, "input_tokens": tokens}
    print(json.dumps({"found": found, "ran": ran, "asked": asked}))


asyncio.run(main(*sys.argv[1:]))
