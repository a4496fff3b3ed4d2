"""One configuration in force with its tools and MCP servers, and the listing of its tools."""
