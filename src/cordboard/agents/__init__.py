"""What talks back to the caller: the agent protocol and its providers."""
