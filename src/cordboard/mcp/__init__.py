"""Supervised MCP servers and the tools they give."""
