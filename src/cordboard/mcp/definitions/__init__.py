"""The tools that a server lists, and what the operator has accepted of them."""
