"""The checkpointer component `postgres`."""
