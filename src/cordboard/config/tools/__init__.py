"""What `tools:` may say, for tools of every kind."""
