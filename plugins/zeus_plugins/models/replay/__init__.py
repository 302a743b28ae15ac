"""The model component `replay`."""
