"""A plugin whose code raises, or gives something else than it should, is named with its place; no traceback."""

from __future__ import annotations

import asyncio
import textwrap
from pathlib import Path

import pytest

from tests.support.agents import call, calling, play, script, write_agent
from zeus_runtime import Agent, ConfigError, MissingError
from zeus_runtime.events import RunFailed

TOOL = """
from dataclasses import dataclass
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.tool import Tool, tool

@tool(access="read", category="fool")
async def strange() -> str:
    'Is of no category.'
    return ""

@dataclass(frozen=True)
class Options:
    def misfits(self, around):
        raise ValueError("too fast")
        yield

def raises(options, context):
    raise ValueError("not today")

def leaves(options, context):
    raise SystemExit(0)

async def waits(options, context):
    return []

@hookimpl
def register_tools():
    given = {"raises": raises, "leaves": leaves, "waits": waits, "takes_nothing": lambda: []}
    values = {"nothing": None, "names": ["ls"], "strange": [strange]}
    made = {name: (lambda options, context, value=value: value) for name, value in values.items()}
    checking = Component("checks", create=lambda options, context: [], options=Options)
    return [checking, *(Component(name, create=create) for name, create in {**given, **made}.items())]
"""

MIDDLEWARE = """
from zeus_runtime.plugin import Component, hookimpl
from zeus_runtime.plugin.middleware import Middleware

class Faulty(Middleware):
{body}

@hookimpl
def register_middlewares():
    return [
        Component("faulty", create=Faulty),
        Component("none", create=lambda options, context: Faulty(options, context)),
        Component("other", create=object),
    ]
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raises", r"create raised ValueError: not today \(probe.py:18\)"),
        ("leaves", r"create raised SystemExit: 0 \(probe.py:21\)"),
        ("waits", "create gave coroutine, not a list of Tool"),
        ("takes_nothing", "create raised TypeError: .*takes 0 positional arguments but 2 were given"),
        ("nothing", "create gave NoneType, not a list of Tool"),
        ("names", "create gave str among its tools, not a Tool"),
        ("checks", r"misfits raised ValueError: too fast \(probe.py:14\)"),
    ],
)
def test_a_component_that_cannot_be_made_names_its_plugin_and_place(
    tmp_path: Path, name: str, said: str
) -> None:
    config = write_agent(tmp_path, plugin=TOOL, tools=f"[{name}]")
    with pytest.raises(MissingError, match=f"the tool '{name}' of plugin probe .*: {said}") as raised:
        _ = Agent.from_config(config, directory=tmp_path).plan
    assert str(raised.value.where) == "zeus.yaml:4:9"
    assert raised.value.remedy is not None
    assert "take it out of plugins.files" in raised.value.remedy


def test_a_tool_of_no_category_is_a_problem_of_the_config(tmp_path: Path) -> None:
    config = write_agent(tmp_path, plugin=TOOL, tools="[strange]")
    with pytest.raises(ConfigError, match="tool-conflict: tool 'strange': 'fool' is not a category"):
        _ = Agent.from_config(config, directory=tmp_path).plan


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("none", "pass", "create is a function, not a subclass of Middleware"),
        ("other", "pass", "create is another class, not a subclass of Middleware"),
        (
            "faulty",
            "@classmethod\ndef tools(cls, options, context):\n    return 5",
            "tools gave int, not a list of Tool",
        ),
        (
            "faulty",
            "async def wrap_model(self, request, call_next):\n    pass",
            "method wrap_model nothing calls",
        ),
        (
            "faulty",
            "async def before_model(self, state, runtime):\n    pass",
            "method before_model nothing calls",
        ),
        (
            "faulty",
            "async def section(self, turn):\n    return {}",
            "method section nothing calls; it may have tools, ",
        ),
    ],
)
def test_what_is_no_middleware_names_its_plugin(tmp_path: Path, name: str, body: str, said: str) -> None:
    plugin = MIDDLEWARE.format(body=textwrap.indent(body, "    "))
    config = write_agent(tmp_path, f"middlewares: [{name}]", plugin=plugin, tools="[todos]")
    with pytest.raises(MissingError, match=said):
        _ = Agent.from_config(config, directory=tmp_path).plan


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("async def sections(self, turn):\n    return None", "'NoneType' object has no attribute 'items'"),
        ("async def sections(self, turn):\n    return {'foo': 'x'}", "'foo' is not a valid Section"),
        ("async def sections(self, turn):\n    return {'memories': 5}", "a section's text is a int"),
        (
            "async def edits(self, view, budget):\n    return ['x']",
            "edits returned a str, which is not an edit",
        ),
        (
            "async def wrap_model_call(self, request, call_next):\n    await call_next(request)",
            "wrap_model_call returned NoneType, not a ModelResponse",
        ),
        (
            "async def wrap_model_call(self, request, call_next):\n    return await call_next(None)",
            "call_next takes a ModelRequest, not NoneType",
        ),
        (
            "async def wrap_tool_call(self, call, call_next):\n    return 'done'",
            "wrap_tool_call returned str, not a ToolResult",
        ),
    ],
)
async def test_a_middleware_that_gives_something_else_ends_the_run_with_its_name(
    tmp_path: Path, body: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = MIDDLEWARE.format(body=textwrap.indent(body, "    "))
    config = write_agent(tmp_path, "middlewares: [faulty]", plugin=plugin, tools="[todos]")
    model = script(calling(call("read_todos", "c1")), "done")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        failed = (await play(agent, "Hi"))[-1]
    assert isinstance(failed, RunFailed)
    assert failed.message.startswith("the middleware 'faulty' failed: ")
    assert said in failed.message
    assert caplog.text == ""


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize(
    "where",
    [
        "wrap_tool_call(self, call, call_next)",
        "wrap_model_call(self, request, call_next)",
        "wrap_run(self, turn, call_next)",
        "sections(self, turn)",
        "edits(self, view, budget)",
    ],
)
async def test_an_exit_with_a_text_fails_the_run_and_not_the_process(
    tmp_path: Path, where: str, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_TOKEN", "own-0123456789")
    body = f"async def {where}:\n    raise SystemExit(ValueError('left with own-0123456789'))"
    plugin = MIDDLEWARE.format(body=textwrap.indent(body, "    "))
    config = write_agent(tmp_path, "middlewares: [faulty]", plugin=plugin, tools="[todos]")
    model = script(calling(*(call("read_todos", f"c{number}") for number in range(calls))), "done")
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        failed = (await play(agent, "Hi"))[-1]
    assert isinstance(failed, RunFailed)
    said = "the middleware 'faulty' failed: SystemExit: left with <secret:OWN_TOKEN>"
    assert failed.message.startswith(said)


INNER = """
async def wrap_tool_call(self, call, call_next):
    return await call_next(call)
async def wrap_model_call(self, request, call_next):
    return await call_next(request)
"""


async def test_an_exit_of_a_model_is_no_middlewares_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OWN_TOKEN", "own-0123456789")
    plugin = MIDDLEWARE.format(body=textwrap.indent(INNER, "    "))
    config = write_agent(tmp_path, "middlewares: [faulty]", plugin=plugin, tools="[todos]")
    model = script(SystemExit("left with own-0123456789"))
    async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
        failed = (await play(agent, "Hi"))[-1]
    assert isinstance(failed, RunFailed)
    assert failed.message == "SystemExit: left with <secret:OWN_TOKEN>"
    assert "own-0123456789" not in caplog.text


@pytest.mark.parametrize("where", ["wrap_tool_call(self, call, call_next)", "sections(self, turn)"])
@pytest.mark.parametrize("status", [None, 3])
def test_an_exit_without_a_text_ends_the_process(tmp_path: Path, where: str, status: int | None) -> None:
    body = f"async def {where}:\n    raise SystemExit({status})"
    plugin = MIDDLEWARE.format(body=textwrap.indent(body, "    "))
    config = write_agent(tmp_path, "middlewares: [faulty]", plugin=plugin, tools="[todos]")

    async def run() -> None:
        model = script(calling(call("read_todos", "c1")), "done")
        async with Agent.from_config(config, directory=tmp_path, model=model) as agent:
            await play(agent, "Hi")

    with pytest.raises(SystemExit) as raised:
        asyncio.run(run())
    assert raised.value.code == status
