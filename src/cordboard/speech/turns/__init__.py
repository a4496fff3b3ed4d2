"""Turn-taking: the start, pauses and end of the caller's turn, and interruptions of an answer."""
