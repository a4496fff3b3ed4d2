"""The turn machine: when the caller's turn begins, pauses and ends, and what interrupts an
answer."""
