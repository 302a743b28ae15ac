"""The model component `litellm`."""
