"""The steps after a call, done until they have worked."""
