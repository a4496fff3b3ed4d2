"""Sections under `tools:`, for tools of every kind."""
