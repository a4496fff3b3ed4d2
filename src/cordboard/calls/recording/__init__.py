"""The recording of a call: its consent, its file, and its retention."""
