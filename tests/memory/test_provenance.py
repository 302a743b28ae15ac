"""A document is found by the words that it shares with a statement, and each result of a turn is read once."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from zeus_runtime.memory import provenance
from zeus_runtime.memory.provenance import TurnSources, source_of_tool, source_of_words

_TOOLS = st.sampled_from(["read_file", "search_knowledge_base", "memory_search"])
_TEXTS = st.lists(st.sampled_from("cello piano harbour tide Brandt invoice Lyon".split()), max_size=5).map(
    " ".join
)
_RESULTS = st.lists(st.tuples(_TOOLS, _TEXTS), max_size=6)


@given(_TEXTS, _TEXTS, _RESULTS, st.integers(0, 6))
def test_results_that_come_in_parts_tell_the_same_source_as_all_at_once(
    content: str, said: str, results: list[tuple[str, str]], first: int
) -> None:
    sources = TurnSources()
    sources.document_of(content, said, results[:first])
    found = sources.document_of(content, said, results)
    documents = [(source, text) for tool, text in results if (source := source_of_tool(tool)) is not None]
    whole = source_of_words(content, [said], documents, "user")
    assert (found is None) == (whole == "user")


def test_each_result_is_read_once() -> None:
    sources, results = TurnSources(), [("read_file", f"Note {number} of the harbour") for number in range(50)]
    sources.document_of("The harbour closes at six", "Hello", results)
    with patch.object(provenance, "search_tokens", wraps=provenance.search_tokens) as read:
        assert sources.document_of("The harbour closes at six", "Hello", results) == "project_resource"
        results.append(("search_knowledge_base", "The harbour closes at six"))
        assert sources.document_of("The harbour closes at six", "Hello", results) == "knowledge_base"
    assert read.call_count == 2 + 3, "the statement and the message twice, the new result once"
