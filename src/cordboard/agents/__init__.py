"""Agents that talk with the caller: realtime agents, pipelines, the fallback, and their
providers."""
