"""MCP servers on the network: streamable HTTP, the older HTTP transport, authentication."""
