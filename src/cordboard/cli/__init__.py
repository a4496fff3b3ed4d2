"""The `cordboard` command."""
