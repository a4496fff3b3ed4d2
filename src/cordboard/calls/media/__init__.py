"""The two audio directions of a call: what the caller says, and what they have heard."""
