"""Supervision of an MCP server: started, watched, restarted, shared, given up."""
