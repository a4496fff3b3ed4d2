"""The schema profiles and payload limits of all agents and language models that are installed."""

from __future__ import annotations

from cordboard.agent_api.provider import tool_users
from cordboard.config.plugins import installed
from cordboard.tools.payload import DEFAULT_LIMITS

_USERS = tool_users(installed()).values()
PROFILES = {each.schemas.name: each.schemas for each in _USERS}
LIMITS = {"pipeline": DEFAULT_LIMITS} | {each.type: each.payload for each in _USERS}
