"""MCP servers on the network: streamable HTTP, its older kind, and who we say we are."""
