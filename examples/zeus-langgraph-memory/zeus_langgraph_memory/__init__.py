"""Long-term memory of Zeus in LangGraph's store."""
