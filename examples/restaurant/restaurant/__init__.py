"""A restaurant's booking system, as an example of a real remote system for Cordboard.

Three programs in one process, on three ports: `issuer` gives out tokens (OAuth 2.0 client
credentials), `backend` is a REST API on a database, `mcp_server` offers it as MCP tools over
streamable HTTP. `python -m restaurant` starts them; docs/restaurant.md tells the whole story.
Nothing in here knows Cordboard.
"""
