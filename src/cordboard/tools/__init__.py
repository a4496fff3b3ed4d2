"""Tools of every kind, the toolbox of a call, and the desk where each tool call is run."""
