"""Campaigns: lists of people to be called, on a durable queue.

`rows` reads a list, `hours` has the hours in which people may be called, `store` is the queue on
the disk, `runner` works it off beside the calls of the engine.
"""
