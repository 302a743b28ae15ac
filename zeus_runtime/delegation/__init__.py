"""Sub-agents: a call's task becomes a separate session, which runs until it ends."""
