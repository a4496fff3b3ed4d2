"""Where calls come from."""
