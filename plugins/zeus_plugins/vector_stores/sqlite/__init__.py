"""The vector store component `sqlite`."""
