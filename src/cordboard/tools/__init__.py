"""Tools of every kind, the toolbox of a call, and the desk that runs each tool call."""
