"""Agents that hear and speak by themselves: one file per service, and the shell around them."""
