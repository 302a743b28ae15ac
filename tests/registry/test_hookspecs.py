"""The hookspecs are a book that cannot lie: every hook says the same things, and every example runs."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from types import FunctionType

import pytest

from tests.registry.conftest import Discover, Install
from tests.test_reference_pages import signature
from zeus_runtime.registry import hookspecs
from zeus_runtime.registry.contribution import COMPONENT_HOOKS

DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "plugins.md"


def hooks() -> dict[str, FunctionType]:
    return {
        name: function
        for name, function in vars(hookspecs).items()
        if isinstance(function, FunctionType) and hasattr(function, "zeus_spec")
    }


def example(hook: str) -> str:
    return dedent(str(hooks()[hook].__doc__).partition("Example::\n")[2])


def test_the_hooks_are_those_of_the_architecture_that_a_shipped_plugin_needs() -> None:
    assert set(hooks()) == {"register_homes", *COMPONENT_HOOKS, "register_commands", "on_event"}


@pytest.mark.parametrize("hook", hooks())
def test_every_hook_says_when_how_often_what_it_returns_and_what_an_exception_does(hook: str) -> None:
    text = str(hooks()[hook].__doc__)
    for word in ("When:", "How often:", "Returns:", "Example::"):
        assert re.search(word.replace(" ", r"\s+"), text), f"{hook} does not say {word!r}"
    assert re.search(r"An exception\b", text)


def test_the_documentation_has_every_hook_with_its_signature_and_no_other() -> None:
    documented = re.findall(r"^### `(.+)`$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert documented == [signature(function) for function in hooks().values()]


@pytest.mark.parametrize("hook", hooks())
def test_every_example_loads_as_a_plugin(
    install: Install, find_plugins: Discover, tmp_path: Path, hook: str
) -> None:
    (tmp_path / "home").mkdir()
    install("example", example(hook))
    registry = find_plugins()
    assert [str(problem) for problem in registry.problems] == []
    assert [plugin.status for plugin in registry.plugins] == ["loaded"]
    registered = {
        "register_homes": registry.homes,
        "register_commands": registry.commands,
        "on_event": registry.observers,
    }
    if hook in COMPONENT_HOOKS:
        (found,) = registry.all()
        assert found.kind == COMPONENT_HOOKS[hook]
    else:
        assert len(registered[hook]) == 1


async def test_the_example_tool_rolls(install: Install, find_plugins: Discover) -> None:
    from zeus_runtime.registry import load_create, load_options

    install("example", example("register_tools"))
    dice = find_plugins().get("tool", "dice")
    options = load_options(dice)
    assert options is not None
    (tool,) = load_create(dice)(options(sides=4), None)
    assert tool.name == "roll_die"
    assert await tool.function(seed=7) in ("4", hookless("4"))


def hookless(content: str) -> object:
    from zeus_runtime.plugin.tool import ToolResult

    return ToolResult(content)


async def test_the_example_middleware_shouts(install: Install, find_plugins: Discover) -> None:
    from zeus_runtime.plugin.tool import ToolCall, ToolResult
    from zeus_runtime.registry import load_create

    async def call_next(call: ToolCall) -> ToolResult:
        return ToolResult(f"did {call.name}", is_error=True)

    install("example", example("register_middlewares"))
    shout = load_create(find_plugins().get("middleware", "shout"))(None, None)
    assert await shout.wrap_tool_call(ToolCall("1", "ls", {}), call_next) == ToolResult(
        "DID LS", is_error=True
    )
