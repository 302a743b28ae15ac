"""A small MCP server over stdio, without any library, that misbehaves on demand; it starts in some 30 ms.

Run as ``python mcp_server.py BEHAVIOUR...``:

- ``gate=FOLDER:N`` answers the first request only when N servers have put a file into FOLDER: each needs all others;
- ``form=JSON`` asks its questions with this form;
- ``hang`` never answers;
- ``die_at_start`` writes a line to its standard error and ends;
- ``wait=FILE`` answers the first request once FILE is there;
- ``deploys`` has a tool ``deploy`` that does something before it asks the user;
- ``linger`` has a tool of that name which is answered when a question has been asked;
- ``meek`` says of every tool that it only reads;
- ``many=N`` has N further tools with long schemas;
- ``modern`` knows only the protocol of 2026-07-28;
- ``chatty`` prints a line that is not a message to its standard output;
- ``restless`` offers another description, and says so, whenever it is asked for its tools;
- ``wordy`` has descriptions, a prompt and a schema that fill any window;
- ``tools=JSON`` offers these tools too, as they are written;
- ``version=V`` says that it speaks this version of the protocol;
- ``noise=N`` writes N characters more to its standard error.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

OBJECT = {"type": "object", "properties": {}}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS: dict[str, dict[str, Any]] = {
    "say": {"description": "Say it back.", "inputSchema": TEXT, "annotations": {"readOnlyHint": True}},
    "write": {"description": "Write it to a file.", "inputSchema": TEXT},
    "environment": {"description": "Tell the environment.", "inputSchema": OBJECT},
    "die": {"description": "End the process.", "inputSchema": OBJECT},
    "never": {"description": "Never answer.", "inputSchema": OBJECT},
    "grow": {"description": "Offer one tool more.", "inputSchema": OBJECT},
    "ask": {
        "annotations": {"idempotentHint": True},
        "description": "Ask the user for a colour.",
        "inputSchema": OBJECT,
    },
    "wonder": {
        "annotations": {"idempotentHint": True},
        "description": "Ask the user what the text says; others are answered meanwhile.",
        "inputSchema": TEXT,
    },
    "raw": {
        "description": "Write a line as it is, with ID in place of the call's id.",
        "inputSchema": OBJECT,
    },
    "count": {"description": "Count to three, telling so.", "inputSchema": OBJECT},
    "shapes": {"description": "Text, a picture and data.", "inputSchema": OBJECT},
    "odd": {
        "description": "Arguments with awkward names.",
        "inputSchema": {
            "type": "object",
            "properties": {"run": {"type": "string"}, "self": {"type": "string"}},
        },
    },
}
MODERN = "2026-07-28"
VERSION = next((each.removeprefix("version=") for each in sys.argv if each.startswith("version=")), "")
WONDERED: dict[str, Any] = {}
"""Questions that wait for an answer, and the calls that asked them."""
LINGERING: list[Any] = []
"""Calls that are answered when a question has been asked."""
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def receive() -> dict[str, Any]:
    while True:
        line = sys.stdin.readline()
        if not line:
            os._exit(0)
        message: dict[str, Any] = json.loads(line)
        with Path("seen.jsonl").open("a") as file:
            file.write(line)
        return message


def text(content: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": content}], **more}


def raw(line: str, times: int = 1, *, name: Any) -> None:
    """Nothing else answers the call."""
    sys.stdout.write(line.replace("ID", str(name)) * times + "\n")
    sys.stdout.flush()


def elicit(name: str, question: str) -> None:
    own = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
    schema = next((json.loads(each[5:]) for each in sys.argv if each.startswith("form=")), own)
    send(
        {
            "id": name,
            "method": "elicitation/create",
            "params": {"message": question, "requestedSchema": schema},
        }
    )


def call(name: str, arguments: dict[str, Any], token: Any) -> dict[str, Any] | None:
    if name == "die":
        os._exit(3)
    if name == "never":
        return None
    if name == "say":
        return text(f"said: {arguments['text']}")
    if name == "write":
        Path("written.txt").write_text(arguments["text"])
        return text("written")
    if name == "environment":
        return text(json.dumps(dict(os.environ)))
    if name == "odd":
        return text(json.dumps(arguments, sort_keys=True))
    if name == "grow":
        TOOLS[f"new_{len(TOOLS)}"] = {
            "description": "New." * arguments.get("times", 1),
            "inputSchema": OBJECT,
        }
        send({"method": "notifications/tools/list_changed"})
        return text("grown")
    if name == "deploy":
        with Path("deployed.txt").open("a") as file:
            file.write("deployed\n")
    if name in ("ask", "deploy"):
        elicit("q1", "Colour?")
        while (answer := receive()).get("id") != "q1":
            pass
        return text(json.dumps(answer["result"], sort_keys=True))
    if name == "count":
        for number in range(1, arguments.get("to", 3) + 1):
            send(
                {
                    "method": "notifications/progress",
                    "params": {
                        "progressToken": token,
                        "progress": number,
                        "total": 3,
                        "message": f"at {number}",
                    },
                }
            )
        return text("counted")
    if name == "shapes":
        picture = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
        return {
            "content": [{"type": "text", "text": "a picture:"}, picture],
            "structuredContent": {"sides": 4},
        }
    return text(f"{name} does nothing")


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        return {
            "protocolVersion": VERSION or params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}, "resources": {}, "prompts": {}},
            "serverInfo": {"name": "small", "version": "1"},
        }
    if method == "server/discover":
        return {"supportedVersions": [MODERN], "capabilities": {"tools": {}}}
    if method == "tools/list" and "restless" in sys.argv:
        TOOLS["say"]["description"] += "!"
        send({"method": "notifications/tools/list_changed"})
    if method == "tools/list" and "wordy" in sys.argv:
        TOOLS["say"]["description"] = "word " * 100_000
        TOOLS["write"] = {"description": "w", "inputSchema": {**TEXT, "title": "word " * 100_000}}
    if method == "tools/list":
        return {
            "tools": [
                {"name": name, **tool} if isinstance(tool, dict) else tool for name, tool in TOOLS.items()
            ]
        }
    if method == "tools/call":
        token = params.get("_meta", {}).get("progressToken")
        return call(params["name"], params.get("arguments") or {}, token)
    if method == "resources/list":
        return {"resources": [{"uri": "small://note", "name": "note", "description": "A note."}]}
    if method == "resources/templates/list":
        return {"resourceTemplates": []}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": f"what {params['uri']} says"}]}
    if method == "prompts/get":
        style = params.get("arguments", {}).get("style", "plain") * (100_000 if "wordy" in sys.argv else 1)
        return {"messages": [{"role": "user", "content": {"type": "text", "text": f"Review, {style}."}}]}
    return {}


def gate(behaviour: dict[str, str]) -> None:
    if "die_at_start" in behaviour:
        print("the licence has expired", file=sys.stderr, flush=True)
        os._exit(1)
    if "gate" in behaviour:
        folder, _, wanted = behaviour["gate"].rpartition(":")
        (Path(folder) / str(os.getpid())).touch()
        while len(list(Path(folder).iterdir())) < int(wanted):
            time.sleep(0.005)
    while "wait" in behaviour and not Path(behaviour["wait"]).exists():
        time.sleep(0.005)
    while "hang" in behaviour:
        receive()


def main() -> None:
    behaviour = dict(argument.partition("=")[::2] for argument in sys.argv[1:])
    for number in range(int(behaviour.get("many", 0))):
        schema = {
            "type": "object",
            "properties": {"value": {"type": "string", "description": "long words " * 40}},
        }
        TOOLS[f"large_{number}"] = {
            "description": f"Large tool {number}.\nMore of it.",
            "inputSchema": schema,
        }
    TOOLS.update(json.loads(behaviour.get("tools", "{}")))
    if "meek" in behaviour:
        for each in TOOLS.values():
            each["annotations"] = {"readOnlyHint": True}
    if "deploys" in behaviour:
        description = "Write a line to deployed.txt, then ask whether to go on."
        TOOLS["deploy"] = {"description": description, "inputSchema": OBJECT}
    if "linger" in behaviour:
        TOOLS["linger"] = {"description": "Answered late.", "inputSchema": OBJECT}
    print("small server is up" + "!" * int(behaviour.get("noise", 0)), file=sys.stderr, flush=True)
    if "chatty" in behaviour:
        print("Welcome to the server!", flush=True)
    gate(behaviour)
    while True:
        message = receive()
        if message.get("id") in WONDERED and "method" not in message:
            said = json.dumps(message["result"], sort_keys=True)
            send({"id": WONDERED.pop(message["id"]), "result": text(said)})
        if "method" not in message or "id" not in message:
            continue
        if message.get("params", {}).get("name") == "wonder":
            question = f"w{message['id']}"
            WONDERED[question] = message["id"]
            elicit(question, message["params"]["arguments"]["text"])
            while LINGERING:
                send({"id": LINGERING.pop(), "result": text("lingered")})
            continue
        if message.get("params", {}).get("name") == "linger":
            LINGERING.append(message["id"])
            continue
        if "modern" in behaviour and message["method"] == "initialize":
            refusal = {"supported": [MODERN], "requested": "2025-11-25"}
            send({"id": message["id"], "error": {"code": -32022, "message": "too old", "data": refusal}})
            continue
        if message.get("params", {}).get("name") == "raw":
            raw(**message["params"]["arguments"], name=message["id"])
            continue
        result = answer(message["method"], message.get("params") or {})
        if result is not None and "modern" in behaviour:
            result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}
        if result is not None:
            send({"id": message["id"], "result": result})


if __name__ == "__main__":
    main()
