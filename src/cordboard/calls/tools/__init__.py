"""The tools' side of a call: its agent's tool calls, and the line for the tools."""
