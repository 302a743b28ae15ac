"""Arguments that are cut in an answer with signed reasoning."""

from __future__ import annotations

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from zeus_runtime.context import TruncateArguments, fold, review
from zeus_runtime.context.tokens import counter_for
from zeus_runtime.models.profiles import lookup


def test_a_cut_argument_is_not_counted_as_hidden_reasoning_of_a_signed_answer() -> None:
    counter = counter_for(lookup("gemini/gemini-3-pro-preview"))
    answer = AIMessage(
        "",
        tool_calls=[{"name": "write_file", "args": {"content": "a line of a file\n" * 1_000}, "id": "c"}],
        additional_kwargs={"provider_specific_fields": {"thought_signatures": ["x" * 400]}},
    )
    tokens = counter.message(answer)
    answer.usage_metadata = {"input_tokens": 10, "output_tokens": tokens, "total_tokens": tokens + 10}
    messages = [HumanMessage("go"), answer, ToolMessage("ok", tool_call_id="c", name="write_file")]
    view = fold(messages, (), counter=counter)
    edit = TruncateArguments("truncation", "long", 2, "c", {"content": "a line..."}, "/kept")
    assert review(view, edit) is None
    assert view.applied(edit).item_of(2).tokens < tokens / 10
