"""All outgoing connections.

`websocket`, `service_websocket`: websockets as direct calls. `service_http`: HTTP requests to the
services of the providers. `address_guard`: connections to checked addresses only, for tools and
MCP. `proxy`, `tls`: HTTP proxies and trusted certificates. `server_events`: server-sent events.
`failures`: one table from statuses and transport errors to kinds of failure. `backoff`: pauses
between attempts.
"""
