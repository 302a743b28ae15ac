"""The search component `tavily`."""
