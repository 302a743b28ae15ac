"""The vector store component `chroma`."""
