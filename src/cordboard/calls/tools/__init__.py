"""The tools' side of a call: what its agent asks for, and what tools may do to its line."""
