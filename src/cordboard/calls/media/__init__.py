"""The two audio directions of a call: the caller's sound, and the agent's speech as heard."""
