"""The pages of hooks and events say what docstrings and types say. ``ZEUS_GOLDEN=1`` writes them."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent, fill
from types import FunctionType
from typing import Any, get_args

import pytest

from tests.support.golden import assert_golden
from zeus_runtime.events import Event
from zeus_runtime.middleware import protocol
from zeus_runtime.notice import EventOrigin
from zeus_runtime.registry import hookspecs

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
HOOKS = """# Hooks and middleware methods

Tests generate this page from the docstrings: `ZEUS_GOLDEN=1 .venv/bin/pytest tests/test_reference_pages.py`.
Do not edit it. [Writing a plugin](../how-to/plugins.md) shows how they are used.

A plugin implements [hooks](#hooks), which register components or observe runs. A middleware overrides
[methods](#middleware-methods), which change runs.
"""
EVENTS = """# Events of a run

Tests generate this page from the classes: `ZEUS_GOLDEN=1 .venv/bin/pytest tests/test_reference_pages.py`.
Do not edit it.

`agent.stream(…)` yields these frozen objects ([Python](../how-to/python.md)), `on_event` observes them
([hooks](hooks.md)), and `zeus run --output ndjson` prints each as a JSON object on one line. The object has the
wire name as `type`, then the fields of its origin (`event.origin` in Python), then those of the event's table. Exactly
one event is terminal, and it is the last: `complete` or `error`.
"""
_CHAPTER = re.compile(r"^# Chapter \d+: (.+)$", re.MULTILINE)
_LABEL = re.compile(r"(?:^|(?<=[.;]) )(When|How often|Given|Returns|An exception[^:.]*): ")
_FIELDS = re.compile(r"\n(?:Args|Attributes):\n((?:(?:    .*)?\n?)+)")
_FIELD = re.compile(r"^(\w+): ", re.MULTILINE)
_WHOLE: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}


def prose(text: str) -> str:
    """A docstring's text as Markdown: one paragraph a line, its labels as a list."""
    blocks = []
    for block in re.split(r"\n\s*\n", text.replace("``", "`").strip()):
        if block.startswith("- "):
            blocks += [
                "\n".join(
                    line if line.startswith("- ") else f"  {line.strip()}" for line in block.split("\n")
                )
            ]
            continue
        head, *labelled = _LABEL.split(" ".join(block.split()))
        rest = zip(labelled[::2], labelled[1::2], strict=True)
        listed = [
            fill(f"- **{label}:** {words}", 118, subsequent_indent="  ", **_WHOLE) for label, words in rest
        ]
        blocks += [fill(head, 118, **_WHOLE)] if head else []
        blocks += ["\n".join(listed)] if listed else []
    return "\n\n".join(blocks)


def documented(thing: object) -> str:
    """A docstring as Markdown, without its fields; its example as a code block."""
    text, _, example = _docstring(thing).partition("Example::\n")
    shown = prose(_FIELDS.sub("", text))
    return f"{shown}\n\n```python\n{dedent(example).strip()}\n```" if example else shown


def fields_of(thing: object) -> dict[str, str]:
    """The ``Args:`` or ``Attributes:`` of a docstring: the name and its meaning."""
    match = _FIELDS.search(_docstring(thing))
    _, *parts = _FIELD.split(dedent(match[1])) if match else [""]
    meanings = (" ".join(part.replace("``", "`").split()) for part in parts[1::2])
    return dict(zip(parts[::2], meanings, strict=True))


def _docstring(thing: object) -> str:
    return inspect.cleandoc(thing.__doc__ or "") + "\n"


def signature(function: FunctionType) -> str:
    """A function's signature as it is written."""
    node = ast.parse(dedent(inspect.getsource(function))).body[0]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    colour = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    return (
        f"{colour}{node.name}({ast.unparse(node.args)}) -> {ast.unparse(node.returns or ast.Constant(None))}"
    )


def hooks() -> str:
    _, *chapters = _CHAPTER.split(inspect.getsource(hookspecs))
    parts = [HOOKS, "## Hooks", prose(str(hookspecs.__doc__).rpartition("\n\n")[0])]
    for title, source in zip(chapters[::2], chapters[1::2], strict=True):
        parts.append(f"### {title[0].upper()}{title[1:]}")
        for name in re.findall(r"^def (\w+)", source, re.MULTILINE):
            hook = getattr(hookspecs, name)
            parts += [f"#### `{name}`", f"`{signature(hook)}`", documented(hook)]
    parts += ["## Middleware methods", documented(protocol.Middleware), "Attributes:"]
    parts.append(
        "\n".join(
            fill(f"- `{name}`: {meaning}", 118, subsequent_indent="  ", **_WHOLE)
            for name, meaning in fields_of(protocol.Middleware).items()
        )
    )
    for name in protocol.METHODS:
        method = vars(protocol.Middleware)[name]
        parts += [f"### `{name}`", f"`{signature(method)}`", documented(method)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def events() -> str:
    origin = [f"| `{name}` | {meaning} |" for name, meaning in fields_of(EventOrigin).items()]
    parts = [EVENTS, "## The origin", "\n".join(["| field | meaning |", "|---|---|", *origin])]
    for event in get_args(Event):
        parts += [f"## `{event.type}`", f"`{event.__name__}`. {documented(event)}", "\n".join(_rows(event))]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _rows(event: Any) -> Iterator[str]:
    yield "| field | type | default | meaning |"
    yield "|---|---|---|---|"
    meanings = fields_of(event)
    for field in dataclasses.fields(event):
        kind = str(field.type).replace("|", "\\|")
        yield f"| `{field.name}` | `{kind}` | {_default(field)} | {meanings[field.name].replace('|', chr(92) + '|')} |"


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return f"`{field.default_factory()}`"
    return "" if field.default is dataclasses.MISSING else f"`{field.default!r}`"


def test_the_page_of_hooks_is_what_the_docstrings_say() -> None:
    assert_golden(REFERENCE / "hooks.md", hooks())


def test_the_page_of_events_is_what_the_classes_say() -> None:
    assert_golden(REFERENCE / "events.md", events())


@pytest.mark.parametrize("method", protocol.METHODS)
def test_every_method_of_a_middleware_says_when_how_often_and_what_it_returns(method: str) -> None:
    text = _docstring(getattr(protocol.Middleware, method))
    for word in ("When: ", "How often: ", "Returns: "):
        assert re.search(word.replace(" ", r"\s+"), text), f"{method} does not say {word!r}"


@pytest.mark.parametrize("event", get_args(Event), ids=lambda event: event.type)
def test_every_event_describes_exactly_its_fields(event: Any) -> None:
    assert list(fields_of(event)) == [field.name for field in dataclasses.fields(event)]


def test_every_event_of_a_run_is_in_the_stream() -> None:
    from zeus_runtime.notice import EventData

    assert {
        event for event in EventData.__subclasses__() if event.__module__.startswith("zeus_runtime.")
    } == set(get_args(Event))
