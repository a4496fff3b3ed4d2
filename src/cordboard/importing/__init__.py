"""Configurations of other systems, as `ai-agent.yaml`. Only commands use this room."""
