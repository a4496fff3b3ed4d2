"""Edits of a configuration as text: bytes that an edit does not concern stay as they are."""
