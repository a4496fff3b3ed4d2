"""An MCP server over a running engine: calls, waits, configuration, for an operator's assistant."""
