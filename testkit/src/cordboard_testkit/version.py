"""The version of this package, in one place: for the build, `cordboard version` and user agents."""

__version__ = "0.1.0"
