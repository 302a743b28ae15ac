"""The checkpointer component `sqlite`."""
