"""Strict emulators of the paid services, for use without a key.

They speak the services' own protocols, refuse what the services refuse, answer by a `Script`, and
fail on demand (`Fault`). The vendors' own SDKs pass against them.
Each vendor has a folder; the shared parts are beside the folders.
"""
