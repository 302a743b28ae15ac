"""The Python API of an agent: its Plan, its runs and its sessions.

``checked`` and ``plan`` import little, for commands that run nothing; ``agent`` is the entry point for those that do.
"""
