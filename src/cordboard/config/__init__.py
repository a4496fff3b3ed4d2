"""What ai-agent.yaml may say, reading it, and saying clearly what is wrong with it."""
