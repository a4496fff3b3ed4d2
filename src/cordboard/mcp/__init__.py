"""Supervised MCP servers and the tools they provide."""
