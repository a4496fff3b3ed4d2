"""Use of a context's tools without a telephone: written conversations, single tries."""
