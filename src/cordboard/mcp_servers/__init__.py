"""MCP servers that ship with Cordboard: ordinary servers, which import nothing of the engine."""
