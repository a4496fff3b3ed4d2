"""Everything that leaves the machine: websockets, HTTP services, server-sent events, guarded
addresses."""
