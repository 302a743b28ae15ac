"""The embedding component `litellm`."""
