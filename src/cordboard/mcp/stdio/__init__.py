"""MCP servers that the engine runs as processes: started, read, and ended without leftovers."""
