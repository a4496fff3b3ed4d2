"""`python -m cordboard` is the `cordboard` command."""

from cordboard.cli import main

main()
