"""The checkpointer component `memory`."""
