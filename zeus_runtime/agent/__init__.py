"""The agent: its Plan, the graph that steps it, runs and sessions, and the Python API.

``checked`` and ``plan`` are light, for commands that run nothing; ``agent`` is the way in for those that do.
"""
