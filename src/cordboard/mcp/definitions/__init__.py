"""The tools that a server lists, and the operator's acceptance of them."""
