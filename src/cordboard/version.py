"""The version of this package, in one place: read by the build, `cordboard version` and the SIP/HTTP user agents."""

__version__ = "0.1.0"
