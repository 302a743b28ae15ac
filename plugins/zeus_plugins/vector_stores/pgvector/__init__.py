"""The vector store component `pgvector`."""
