"""The verbs of ``zeus --remote URL``: the same work with the agents of a service."""
