"""LangChain tools run as Zeus tools, or are refused when they are made."""

from typing import Annotated, Any, Literal, Optional

import pytest
from langchain_core.tools import InjectedToolCallId, StructuredTool, ToolException, tool
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.types import Command, interrupt
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field

from zeus_runtime import from_langchain_tool
from zeus_runtime.bridges.langchain import UnsupportedError
from zeus_runtime.run.approvals import ApprovalBroker
from zeus_runtime.run.tool_run_view import ToolRunView
from zeus_runtime.tools import Tool, ToolResult, invoke, validate_arguments


async def nobody(*_work: Any) -> ToolResult:
    raise AssertionError("these tools give no work away")


RUN = ToolRunView(
    session="session_1",
    tool="any",
    setting="",
    call_id="call_7",
    mode="agent",
    run_id="run_1",
    user_text="hello",
    place=2,
    answer=1,
    approvals=ApprovalBroker(),
    _state={},
    _send=nobody,
    _progress=lambda _message, _done, _total: None,
)


async def called(given: Tool, **arguments: Any) -> ToolResult:
    checked = validate_arguments(given, arguments)
    assert not isinstance(checked, str), checked
    return await invoke(given, checked, RUN)


class Place(BaseModel):
    city: str
    days: int = Field(2, ge=1, description="how many days")


@tool(args_schema=Place)
def forecast(city: str, days: int = 2) -> str:
    """Tell the weather of a city."""
    return f"{city}: sun for {days} days"


async def test_a_tool_keeps_its_name_description_and_schema() -> None:
    made = from_langchain_tool(forecast, access="read", timeout_seconds=3)
    assert (made.name, made.description) == ("forecast", "Tell the weather of a city.")
    assert made.parameters["required"] == ["city"]
    assert made.parameters["properties"]["days"]["minimum"] == 1
    assert (made.access, made.category, made.timeout_seconds) == ("read", "custom", 3)
    assert (await called(made, city="Oslo", days="3")).content == "Oslo: sun for 3 days"


async def test_arguments_may_be_of_any_type_and_have_any_name() -> None:
    @tool
    def search(
        run: str,
        sort: Literal["new", "old"] = "new",
        most: Optional[int] = None,  # noqa: UP045 - as many write it
        tags: list[str] | None = None,
    ) -> str:
        """Search."""
        return f"{run} {sort} {most} {tags}"

    made = from_langchain_tool(search)
    assert set(made.parameters["properties"]) == {"run", "sort", "most", "tags"}
    assert (await called(made, run="x", sort="old", tags=["a"])).content == "x old None ['a']"


def test_what_langgraph_would_inject_is_refused_where_it_may_be_none_too() -> None:
    @tool
    def peek(state: Annotated[dict[str, Any], InjectedState] | None = None) -> str:
        """Peek."""
        return str(state)

    with pytest.raises(UnsupportedError, match="wants 'state' from LangGraph"):
        from_langchain_tool(peek)


async def test_wrong_arguments_are_told_before_the_tool_is_called() -> None:
    problem = validate_arguments(from_langchain_tool(forecast), {"days": 0})
    assert isinstance(problem, str)
    assert "missing: city" in problem


class Depth(BaseModel):
    metres: int = Field(0, alias="deep")


class Renamed(BaseModel):
    target: str = Field("prod", alias="to", description="where to")
    mode: str = Field(validation_alias=AliasChoices(AliasPath("modes", 0), "how", "mode"))
    depth: Depth | None = None
    labels: dict[str, int] = {}


@tool(args_schema=Renamed)
def deploy(**given: Any) -> str:
    """Deploy."""
    return repr(given)


async def test_a_tool_gets_every_argument_that_it_is_called_with() -> None:
    made = from_langchain_tool(deploy)
    assert made.parameters["properties"]["to"]["description"] == "where to"
    assert made.parameters["required"] == ["how"]
    told = await called(made, to="test", how="fast", depth={"deep": 3}, labels={"any": 1})
    assert told.content == repr(
        {"target": "test", "mode": "fast", "depth": Depth(deep=3), "labels": {"any": 1}}
    )
    for dropped in ({"target": "test"}, {"unknown": 1}, {"depth": {"metres": 3}}):
        assert isinstance(validate_arguments(made, {"how": "fast", **dropped}), str)


async def test_what_a_tool_takes_besides_its_schema_reaches_it() -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow", populate_by_name=True)
        target: str = Field("prod", alias="to")

    for schema in (Open, {"type": "object", "properties": {"target": {"type": "string"}}}):
        made = from_langchain_tool(
            StructuredTool.from_function(
                lambda **given: repr(given), name="t", description="d", args_schema=schema
            )
        )
        assert set(made.parameters["properties"]) == {"target"}
        assert (await called(made, target="x", other=1)).content == "{'target': 'x', 'other': 1}"


async def test_a_call_by_another_name_of_a_field_does_not_run() -> None:
    """Rules and people look at the shown name; pydantic takes the other one instead, where the model is open."""

    class Inner(BaseModel):
        model_config = ConfigDict(extra="allow", populate_by_name=True)
        file_path: str = Field(".", alias="filePath")

    class Outer(BaseModel):
        model_config = ConfigDict(extra="allow", populate_by_name=True)
        target: str = Field("prod", alias="to")
        path: str = Field(".", validation_alias=AliasChoices("path", AliasPath("places", 0), "file"))
        inner: list[Inner] | None = None

    made = from_langchain_tool(
        StructuredTool.from_function(
            lambda **given: repr(given), name="t", description="d", args_schema=Outer
        )
    )
    for given, name in (
        ({"target": "test", "to": "prod"}, "to"),
        ({"file": "secret"}, "file"),
        ({"places": ["secret"]}, "places"),
        ({"inner": [{"filePath": "a", "file_path": "secret"}]}, "file_path"),
    ):
        told = await called(made, **given)
        assert (told.is_error, f"instead of {name}." in told.content) == (True, True), told.content
    assert not (await called(made, target="a", path="b", inner=[{"filePath": "c"}], extra=1)).is_error


def test_arguments_that_the_tool_computes_are_named() -> None:
    class Inner(BaseModel):
        folder: str = "secrets"

    class Outer(BaseModel):
        path: str = Field(default_factory=lambda: "secrets/key")
        inner: Inner = Field(default_factory=Inner)
        plain: str = "."
        names: list[str] = Field(default_factory=list)
        file: str = Field(".", validation_alias=AliasChoices("file", "plain"))

    given = StructuredTool.from_function(print, name="t", description="d", args_schema=Outer)
    assert from_langchain_tool(given).computed == {"path", "inner", "folder", "file", "plain"}


def test_an_argument_within_another_is_refused() -> None:
    class Within(BaseModel):
        target: str = Field("prod", validation_alias=AliasPath("targets", 0))

    given = StructuredTool.from_function(print, name="t", description="d", args_schema=Within)
    with pytest.raises(UnsupportedError, match="'target' from within another argument"):
        from_langchain_tool(given)


async def test_an_asynchronous_tool_gets_the_call_s_id() -> None:
    @tool
    async def whoami(call_id: Annotated[str, InjectedToolCallId]) -> str:
        """Tell the call."""
        return f"I am {call_id}"

    made = from_langchain_tool(whoami)
    assert made.parameters.get("properties", {}) == {}
    assert (await called(made)).content == "I am call_7"


async def test_a_tool_exception_that_is_handled_is_an_error_result() -> None:
    def broken() -> str:
        raise ToolException("the API is down")

    handled = StructuredTool.from_function(broken, name="broken", description="b", handle_tool_error=True)
    assert await called(from_langchain_tool(handled)) == ToolResult("the API is down", is_error=True)
    plain = StructuredTool.from_function(broken, name="broken", description="b")
    failed = await called(from_langchain_tool(plain))
    assert failed.is_error
    assert "the API is down" in failed.content


async def test_content_blocks_and_an_artifact_that_is_no_json_are_kept_as_what_can_be_read() -> None:
    class Found:
        def __str__(self) -> str:
            return "a find"

    @tool(response_format="content_and_artifact")
    def look() -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Look."""
        blocks = [{"type": "text", "text": "seen"}, {"type": "image", "base64": "AAAA"}]
        return blocks, {"place": Place(city="Rome"), "thing": Found()}

    result = await called(from_langchain_tool(look))
    assert result.content == "seen\n[image]"
    assert result.artifact == {"place": {"city": "Rome", "days": 2}, "thing": "a find"}


async def test_a_command_or_an_interrupt_is_an_error_that_the_model_reads() -> None:
    @tool
    def jump() -> Command[Any]:
        """Jump."""
        return Command(update={"x": 1})

    @tool
    def ask() -> str:
        """Ask."""
        return str(interrupt("may I?"))

    for given in (jump, ask):
        result = await called(from_langchain_tool(given))
        assert result.is_error, given.name


@pytest.mark.parametrize("marker", [InjectedState, InjectedState("messages"), InjectedStore()])
def test_arguments_from_langgraph_are_refused(marker: Any) -> None:
    @tool
    def peek(x: int, inside: Annotated[Any, marker]) -> str:
        """Peek."""
        return ""

    with pytest.raises(UnsupportedError, match="'peek' wants 'inside' from LangGraph"):
        from_langchain_tool(peek)


def test_langgraph_s_runtime_is_refused() -> None:
    @tool
    def peek(x: int, runtime: ToolRuntime) -> str:
        """Peek."""
        return ""

    with pytest.raises(UnsupportedError, match="ToolRuntime"):
        from_langchain_tool(peek)


def test_a_result_that_ends_the_run_is_refused() -> None:
    @tool(return_direct=True)
    def last() -> str:
        """Last."""
        return ""

    with pytest.raises(UnsupportedError, match="return_direct") as refused:
        from_langchain_tool(last)
    assert refused.value.exit_code == 3
