"""A session as Markdown: a program that renders it shows every text whole."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt

from zeus_runtime.sessions.stored import Message, StoredSession, as_markdown
from zeus_runtime.store.listing import SessionInfo


def exported(title: str, *messages: tuple[str, str]) -> str:
    info = SessionInfo("session_1", "agent", title, len(messages), 0, 0)
    made = [
        Message(1, "r.1", 0, set_aside=False, payload={"role": role, "content": text})
        for role, text in messages
    ]
    return as_markdown(StoredSession(info, made, (), (), ()))


@pytest.mark.parametrize(
    "text",
    [
        "&#x202e;abc&#8238; &ZeroWidthSpace;",
        "visible <!-- hidden --> end",
        "<!-- hidden -->",
        '[shown](http://example.org "hidden")',
        "[^1]: hidden words",
        'see\n\n[ref]: http://evil.example "title"',
        "![alt](http://evil.example/a.png)",
        "| a |\n|---|\n| b | dropped |",
        "```python of another kind\nx\n```",
        "~~~~ `hidden`\nx\n~~~~",
    ],
)
def test_a_text_that_markdown_may_not_draw_whole_is_exported_in_a_fence(text: str) -> None:
    whole = exported(text.replace("\n", " "), ("assistant", text), ("user", text))
    shown = MarkdownIt("commonmark").parse(whole)
    assert [each.content for each in shown if each.type == "fence"] == [f"{text}\n"] * 2
    (title,) = (each.children for each in shown[:3] if each.type == "inline")
    assert title is not None
    if set("&<[|") & set(text):
        assert [each.type for each in title] == ["code_inline"]


def test_a_text_that_markdown_draws_whole_is_exported_as_it_is() -> None:
    text = (
        "# One & <\n\n1. *two* `List<int>` [5]\n\n```python\n<!-- four -->\n```\n\n~~~\n~~~~\n````c++\n````\n\n"
        "| a | b |\n|---|---|\n| [c](http://example.org) | \\_ |"
    )
    assert "\n".join(f"> {line}".rstrip() for line in text.split("\n")) in exported("go", ("user", text))
