"""A restaurant's booking system: an example of a real remote system for Cordboard.

Three programs in one process, on three ports: `issuer` issues tokens (OAuth 2.0 client
credentials), `backend` is a REST API on a database, `mcp_server` offers it as MCP tools over
streamable HTTP. `python -m restaurant` starts them; see docs/restaurant.md.
Nothing in here imports Cordboard.
"""
