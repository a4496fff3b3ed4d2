"""The desk of a call, where each tool call is checked, run, timed and answered."""
