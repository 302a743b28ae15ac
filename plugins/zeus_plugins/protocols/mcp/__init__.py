"""The protocol `mcp`: agents as tools, over streamable HTTP."""
