"""MCP servers that are processes of ours: begun, read, and ended without leftovers."""
