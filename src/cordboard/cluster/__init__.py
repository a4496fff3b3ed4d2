"""Several engines that know of each other, by NATS JetStream: leases, calls, and their events.

Optional: without `cluster:` in the configuration nothing here is imported. Nothing in a live call
waits for it. `docs/cluster.md` describes the words and what happens when the bus is away.
"""
