"""An MCP server kept alive: started, watched, restarted, shared, given up."""
