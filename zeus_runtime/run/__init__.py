"""One turn: the graph, the model step, the context planner, the transcript, tools and approvals."""
