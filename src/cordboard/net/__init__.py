"""Everything that leaves the machine.

`websocket`, `service_websocket`: websockets as direct calls. `service_http`: HTTP requests to the
services of the providers. `guarded`: connections to checked addresses only, for tools and MCP.
`proxy`, `tls`: the way out. `server_events`: server-sent events. `failures`: one table from
statuses and transport errors to kinds of failure. `backoff`: pauses between tries.
"""
