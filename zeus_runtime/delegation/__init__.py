"""Sub-agents: a call gives a task to a session of its own, which runs until it ends."""
