"""The ways to a context's tools without a telephone: conversations in writing, single tries."""
