"""Configuration: the schema of ai-agent.yaml, its reading, and clear messages about mistakes."""
