"""MCP servers that misbehave on purpose. Programs: run them, never import them."""

from __future__ import annotations

from pathlib import Path

FAULTY_SERVER = Path(__file__).with_name("faulty.py")
"""A program; its one argument is its behaviour at start (see there)."""
